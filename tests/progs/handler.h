/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * handler.h - what the programs with signal handlers share: to install one, signals
 * while a call sleeps, bytes whose order can be told.
 */
#ifndef TEST_HANDLER_H
#define TEST_HANDLER_H

#include "case.h"

static inline void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};

	if (sigaction(sig, &sa, NULL))
		die("sigaction");
}

/* ------------------------------------- signals while a call sleeps */

/* SIGUSR1 restarts, SIGUSR2 does not. */
static volatile sig_atomic_t usr1, usr2;

static inline void count(int sig)
{
	if (sig == SIGUSR1)
		usr1++;
	else
		usr2++;
}

struct plan {
	pthread_t target;
	pid_t tid;
	int sig[2]; /* each when the target is asleep; 0: none */
	int go;	    /* ... and then a go on this, if not -1 */
};

static inline void *disturb(void *arg)
{
	struct plan *p = arg;

	for (int i = 0; i < 2; i++) {
		await_asleep(getpid(), p->tid);
		/* One that is pending swallows its like. */
		for (int ms = 0; i && p->sig[1] == SIGUSR1 && !usr1 && ms < 20000; ms++)
			nap(1);
		if (p->sig[i])
			pthread_kill(p->target, p->sig[i]);
	}
	await_asleep(getpid(), p->tid);
	if (p->go >= 0)
		send_go(p->go);
	return NULL;
}

static struct plan plan;
static pthread_t disturber;

static inline void expect(int first, int second, int go)
{
	plan = (struct plan){pthread_self(), gettid(), {first, second}, go};
	usr1 = usr2 = 0;
	disturber = start(disturb, &plan);
}

/* Which handlers had run when it came back, and no sooner. */
static inline void came(const char *what, ssize_t n)
{
	int err = errno, ran1 = usr1, ran2 = usr2;

	errno = err;
	say_result(what, n);
	pthread_join(disturber, NULL);
	say("  after SIGUSR1 %d, SIGUSR2 %d", ran1, ran2);
}

/* ---------------------------------- bytes whose order can be told */

/* Main's bytes and a handler's are each of their own kind. */
static inline void number(unsigned char *buf, size_t from, size_t n, bool handler)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (unsigned char)((from + i) % 127 + (handler ? 128 : 0));
}

#endif
