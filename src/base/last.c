/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * last.c - owns the end of a process whose first thread ends before the others
 * (pthread_exit(3) in main(), say).  No locks.
 *
 * Such a process ends when its last thread does: the C library counts the threads, and the
 * last one calls exit(0).  But the C library also counts the service thread, which never ends.
 * So once the first thread has ended, the service thread looks every now and then whether only
 * threads of the library are left.  If so, it starts an ordinary thread that calls exit(0) in
 * place of the program's last thread.  The service thread goes on, so that streams still work
 * in the program's exit handlers.
 *
 * The library's threads start no thread of the program.  So if only they are left, no thread
 * of the program can appear again.  (The kernel counts the first thread until the process
 * ends.)
 *
 * We notice the end of the first thread by the destructor of its thread-specific data.  The C
 * library calls it however that thread ends: pthread_exit(3), thrd_exit(3), pthread_cancel(3),
 * or in the child of fork a return from its function.  It does not call it in exit(3).
 */
#include "base/sys.h" /* before any system header */
#include "base/last.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/now.h"
#include "base/process.h"

/* The time between two looks; it doubles each time.  The process may end by this much later
 * than without the library. */
#define FIRST_MS 10
#define LONGEST_MS 100

static pthread_key_t key;
static bool has_key;
static uint64_t mask;		/* of signals, the first thread's */

static uint64_t last_set_mask(const uint64_t *set)
{
	uint64_t old = 0;

	SR_SYS(SYS_rt_sigprocmask, SIG_SETMASK, set, &old, sizeof(old));
	return old;
}

/* Have all threads but the library's ended?  In /proc/self/stat, the first field after the
 * program's name is the state of the first thread, and the 18th is the number of threads:
 * proc(5). */
static bool all_ended(void)
{
	char line[1024], *at;
	ssize_t n = -1;
	int fd = sr_now_open("/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);

	if (fd >= 0) {
		n = sr_now_read(fd, line, sizeof(line) - 1);
		sr_now_close(fd);
	}
	if (n <= 0)
		return false;
	line[n] = '\0';
	at = strrchr(line, ')');
	if (!at || at[1] != ' ' || at[2] != 'Z')
		return false;
	for (int field = 0; field < 18 && at; field++)
		at = strchr(at + 1, ' ');
	return at && atoi(at) == 2 + sr_closer_threads() + sr_jobs_threads();
}

static void *last_exit(void *arg)
{
	(void)arg;
	last_set_mask(&mask);
	exit(0);
}

/* True: the process is about to end.  The new thread counts as the program's and has a stack of
 * the default size; signals are blocked in it until last_exit() runs. */
static bool end_all(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, last_exit, NULL) == 0;
}

static void last_check(struct sr_timer *timer)
{
	static unsigned ms = FIRST_MS;

	if (all_ended() && end_all())
		return;
	sr_timer_set(timer, ms);
	ms = ms < LONGEST_MS ? 2 * ms : LONGEST_MS;
}

static struct sr_timer timer = { .fn = last_check };

static void begin_looking(struct sr_task *task)
{
	(void)task;
	last_check(&timer);
}

static struct sr_task task = { .fn = begin_looking };

/* In the first thread.  If the service thread is started later, it finds the task. */
static void first_ends(void *value)
{
	(void)value;
	if (!sr_process_ours())
		return;
	mask = last_set_mask(NULL);
	sr_loop_post(&task);
}

void sr_last_forget(void)
{
	if (has_key && !pthread_getspecific(key))
		pthread_setspecific(key, &key);
}

__attribute__((constructor)) static void last_begin(void)
{
	if (sr_sys_getpid() != sr_sys_gettid() || pthread_key_create(&key, first_ends))
		return;
	has_key = true;
	pthread_setspecific(key, &key);
}
