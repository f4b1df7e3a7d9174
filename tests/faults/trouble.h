/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* trouble.h - what may befall a client and a server: a table of kinds (pair.c). */
#ifndef FAULTS_TROUBLE_H
#define FAULTS_TROUBLE_H

#include <grp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "driver.h"
#include "sockets.h"
#include "starve.h"

enum { CLIENT, SERVER };
/* Of a kind: it ends processes; it begins before the first stream; there are many streams;
 * it befalls what is between the halves */
enum { ENDS_IT = 1, AT_ONCE = 2, CROWD = 4, FABRIC = 8 };

struct round {
	struct shared s;
	int kind;
	bool victim[2];
	uint64_t moment;		/* bytes that have moved when it begins */
	uint64_t strength;		/* whatever that is, at random */
	bool passes;
	atomic_bool begun, over;	/* over: a half was ended, and nothing more is opened */
	atomic_int pid[2], failed;	/* failed: an exit status, or a signal + 256 */
	_Atomic uint64_t due;		/* for the driver: when to act next */
	int acts;			/* how often it has */
	pid_t fabric;			/* the driver's: its script */
	atomic_bool well;		/* that has ended */
	atomic_int settled;		/* directions that have a link, or have waited for it */
};

static struct round *r;

#include "fabric.h"

/* ---- kinds of trouble: in the victim ---- */

static void limit(int resource, rlim_t n)
{
	struct rlimit rl;

	getrlimit(resource, &rl);
	rl.rlim_cur = n < rl.rlim_max ? n : rl.rlim_max;
	setrlimit(resource, &rl);
}

static void limit_back(int resource)
{
	limit(resource, RLIM_INFINITY);
}

static unsigned often(void)
{
	static const unsigned one[] = {1, 2, 3, 6, 20};

	return one[r->strength % 5];
}

static void want_memory(void) { starve(MEMORY, often(), r->strength); }
static void want_maps(void) { starve(MAPS, often(), r->strength); }
static void want_threads(void) { starve(THREADS, often(), r->strength); }
static void want_fds(void) { starve(DESCRIPTORS, often(), r->strength); }
static void want_all(void) { starve(15, often(), r->strength); }
static void have_all(void) { starve(0, 1, 0); }

/* poll(2) takes no more entries than that, and the halves have some with MANY. */
static void few_files(void)
{
	rlim_t n = (rlim_t)(2 * r->s.streams) + 12 + r->strength % 20;

	limit(RLIMIT_NOFILE, n < MANY ? MANY : n);
}

static void fewer_files(void) { limit(RLIMIT_NOFILE, MANY + r->strength % 15); }
static void files_back(void) { limit_back(RLIMIT_NOFILE); }

static void little_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		die("statm");
	fclose(f);
	limit(RLIMIT_AS, (pages + r->strength % 1000) * 4096);
}

static void space_back(void) { limit_back(RLIMIT_AS); }
static void small_files(void) { limit(RLIMIT_FSIZE, r->strength % 3 * 5000); }
static void sizes_back(void) { limit_back(RLIMIT_FSIZE); }

/* Root has no limit. */
static void no_processes(void)
{
	uid_t other = 50000 + (uid_t)(r->strength % 1000);

	if (!geteuid() && (setgroups(0, NULL) || setgid(other) || setuid(other)))
		die("setuid");
	limit(RLIMIT_MEMLOCK, 0);
	limit(RLIMIT_NPROC, r->strength % 3);
}

/* ---- in the driver ---- */

static void stop_and_go(pid_t pid)
{
	if (r->acts > 9)
		r->due = NEVER;
	kill(pid, r->acts % 2 ? SIGSTOP : SIGCONT);
}

static void end_by(pid_t pid, int sig)
{
	kill(pid, sig);
	r->due = NEVER;
}

static void end_it(pid_t pid) { end_by(pid, SIGKILL); }
static void ask_to_end(pid_t pid) { end_by(pid, SIGTERM); }
static void ask_to_exit(pid_t pid) { end_by(pid, SIGTERM); }

/* A thread of the victim ends it by exit(), when it is asked to end. */
static void *end_when_asked(void *set)
{
	int sig;

	sigwait(set, &sig);
	exit(0);
}

static void wait_for_signal(void)
{
	static sigset_t set;
	pthread_t thread;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&thread, NULL, end_when_asked, &set))
		die("thread");
}

static void call_strangers(const char *role, const char *how)
{
	const char *script = getenv("FAULTS_STRANGER");
	char port[16];

	if (r->due == NEVER)
		return;	/* it has called on the other half */
	r->due = NEVER;
	snprintf(port, sizeof(port), "%d", r->s.port);
	unsetenv("LD_PRELOAD");
	if (!script || fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(2, 1);
	execlp("python3", "python3", script, role, how, address(), port, NULL);
	_exit(0);
}

static void strangers(pid_t pid)
{
	static const char *const hows[] = {"leave", "stay", "silent"};

	(void)pid;
	call_strangers("call", hows[r->strength % 3]);
}

static void flood(pid_t pid)
{
	(void)pid;
	call_strangers("flood", "10000");
}

static void fail_fabric(pid_t pid);

static const struct kind {
	const char *name;
	void (*begin)(void), (*end)(void);
	void (*act)(pid_t pid);
	unsigned flags;
} kinds[] = {
	{"malloc-fails", want_memory, have_all, NULL, 0},
	{"mmap-fails", want_maps, have_all, NULL, 0},
	{"thread-fails", want_threads, have_all, NULL, AT_ONCE},
	{"descriptor-fails", want_fds, have_all, NULL, 0},
	{"all-of-them-fail", want_all, have_all, NULL, 0},
	{"few-descriptors", few_files, files_back, NULL, AT_ONCE},
	{"fewer-descriptors", fewer_files, files_back, NULL, 0},
	{"little-address-space", little_space, space_back, NULL, 0},
	{"no-process-or-locked-memory", no_processes, NULL, NULL, 0},
	{"small-files", small_files, sizes_back, NULL, 0},
	{"SIGSTOP-and-SIGCONT", NULL, NULL, stop_and_go, 0},
	{"SIGKILL", NULL, NULL, end_it, ENDS_IT},
	{"SIGTERM", NULL, NULL, ask_to_end, ENDS_IT},
	{"exit", NULL, NULL, ask_to_exit, ENDS_IT},
	{"strangers", NULL, NULL, strangers, 0},
	{"flood", NULL, NULL, flood, CROWD},
	{"link-down", NULL, NULL, fail_fabric, FABRIC},
	{"device-deleted", NULL, NULL, fail_fabric, FABRIC},
	{"loss", NULL, NULL, fail_fabric, FABRIC},
	{"delay", NULL, NULL, fail_fabric, FABRIC},
	{"reordering", NULL, NULL, fail_fabric, FABRIC},
	{"duplication", NULL, NULL, fail_fabric, FABRIC},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void fail_fabric(pid_t pid)
{
	(void)pid;
	strike_fabric(kinds[r->kind].name);
}

#endif
