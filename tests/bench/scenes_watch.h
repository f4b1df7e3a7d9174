/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * scenes_watch.h - for scenes.c: what the process's threads do, as the kernel shows it to
 * anybody without privileges.  A thread is a client's, a server's, or the library's own.
 */
#ifndef SCENES_WATCH_H
#define SCENES_WATCH_H

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>

#include "bench.h"

enum { STANDSTILL_S = 20 };
enum kind { CLIENT, SERVER, SERVICE, OTHER, KINDS };

struct thread {
	pid_t tid;
	enum kind kind;
	int status; /* its file in /proc */
	uint64_t slept; /* when it was looked at last */
};

static struct thread *threads;
static unsigned n_threads;

static enum kind kind_of(const char *name)
{
	if (!strncmp(name, "client", 6))
		return CLIENT;
	if (!strncmp(name, "server", 6))
		return SERVER;
	return strncmp(name, "sockrail", 8) ? OTHER : SERVICE;
}

/* One look at a thread: does it sleep, and how often has it gone to sleep? */
static bool thread_look(const struct thread *t, uint64_t *sleeps, char name[32])
{
	char buf[4096], *at;
	ssize_t n = pread(t->status, buf, sizeof(buf) - 1, 0);

	*sleeps = 0;
	if (n <= 0) /* it has ended */
		return true;
	buf[n] = 0;
	if (name)
		sscanf(buf, "Name: %31s", name);
	at = strstr(buf, "\nvoluntary_ctxt_switches:");
	if (at)
		*sleeps = strtoull(at + 25, NULL, 10);
	at = strstr(buf, "\nState:");
	return at && strchr(at, 'S') && at[8] == 'S';
}

/* All threads but the caller. */
static void find_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	char path[64], name[32] = "";
	uint64_t unused;

	while (n_threads)
		close(threads[--n_threads].status);
	while (d && (e = readdir(d))) {
		struct thread t = {.tid = atoi(e->d_name)};

		if (!t.tid || t.tid == (pid_t)syscall(SYS_gettid))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/status", t.tid);
		t.status = open(path, O_RDONLY | O_CLOEXEC);
		if (t.status < 0)
			continue;
		thread_look(&t, &unused, name);
		t.kind = kind_of(name);
		threads = realloc(threads, (n_threads + 1) * sizeof(t));
		threads[n_threads++] = t;
	}
	if (d)
		closedir(d);
}

struct thread_counts {
	uint64_t sleeps[KINDS];
};

static struct thread_counts threads_look(void)
{
	struct thread_counts c = {0};
	uint64_t n;

	for (unsigned i = 0; i < n_threads; i++) {
		thread_look(&threads[i], &n, NULL);
		if (n) /* it has not ended */
			threads[i].slept = n;
		c.sleeps[threads[i].kind] += threads[i].slept;
	}
	return c;
}

static double threads_slept(const struct thread_counts *c)
{
	return (double)(c->sleeps[CLIENT] + c->sleeps[SERVER] + c->sleeps[SERVICE]);
}

static inline bool all_sleep(void)
{
	uint64_t unused;

	for (unsigned i = 0; i < n_threads; i++)
		if (!thread_look(&threads[i], &unused, NULL))
			return false;
	return true;
}

/* How often the other threads have stopped running. */
static inline long others_ran(void)
{
	struct rusage all, mine;

	getrusage(RUSAGE_THREAD, &mine);
	getrusage(RUSAGE_SELF, &all);
	return all.ru_nvcsw + all.ru_nivcsw - mine.ru_nvcsw - mine.ru_nivcsw;
}

/* Until all other threads wait for something; false: they do not.  A thread that is about to
 * run does so while this one sleeps; only if none has is it worth while to look at each. */
static inline bool await_sleep(void)
{
	uint64_t until = now_ns() + STANDSTILL_S * UINT64_C(1000000000);
	long before;

	do {
		before = others_ran();
		usleep(20);
		if (now_ns() > until)
			return false;
	} while (others_ran() != before || !all_sleep() || others_ran() != before);
	return true;
}

/*
 * On one processor, and so that a thread that is woken runs only when the one that woke it
 * sleeps: what one end sends, the other one sees in one go.  The caller itself goes before
 * all others, which it starts later.
 */
static void hold_still(void)
{
	const struct sched_param none = {0};
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(cpu < 0 ? 0 : cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	sched_setscheduler(0, SCHED_BATCH, &none);
}

static void go_first(void)
{
	const struct sched_param none = {0};

	sched_setscheduler(0, SCHED_OTHER, &none);
}

#endif
