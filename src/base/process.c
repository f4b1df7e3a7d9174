/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.c - owns the number of the process that the tables are of, and starts the
 * library's threads.  No locks.
 */
#include "base/sys.h" /* before any system header */
#include "base/process.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define STACK (256 * 1024)	/* librdmacm and the providers need some */

static pid_t owner;	/* 0 before sr_process_begin() */

void sr_process_begin(void)
{
	owner = sr_sys_getpid();
}

pid_t sr_process_owner(void)
{
	return owner;
}

bool sr_process_ours(void)
{
	return !owner || owner == sr_sys_getpid();
}

int sr_thread_start(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}
