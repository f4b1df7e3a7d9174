/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.c - owns the number of the process that owns the tables, and starts the library's
 * threads.  No locks.
 */
#include "base/real.h" /* before any system header */
#include "base/sys.h"
#include "base/lock.h"
#include "base/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK (256 * 1024)	/* librdmacm and the providers need some */

/*
 * The C library puts the thread-local data of all libraries onto the stack of each thread, and
 * these may be larger than STACK.  __pthread_get_minstack(), a private function of glibc that
 * language runtimes call, too, returns their size with the least stack added.  Without it the
 * thread gets a stack of the default size.
 */
static size_t (*min_stack)(const pthread_attr_t *attr);

__attribute__((constructor)) static void find_min_stack(void)
{
	sr_enter();
	*(void **)&min_stack = sr_next_dlsym()(RTLD_DEFAULT, "__pthread_get_minstack");
	sr_leave();
}

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

/* The thread works from its start, because the C library or a sanitizer may take locks of its
 * own when a thread begins. */
static void *thread_begin(void *run)
{
	sr_work_started();
	((void (*)(void))run)();
	sr_work_end();
	return NULL;
}

int sr_thread_start(void (*run)(void))
{
	pthread_attr_t attr;
	pthread_t thread;
	const uint64_t all = ~(3ull << 31);	/* except the C library's: 32 and 33 */
	uint64_t old;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	if (min_stack)
		pthread_attr_setstacksize(&attr, STACK + min_stack(&attr));
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* (The C library's function would let its own signals in: base/cancel.c.) */
	sr_real.syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, sizeof(all),
			0, 0);
	sr_work_expect(1);
	err = pthread_create(&thread, &attr, thread_begin, (void *)run);
	if (err)
		sr_work_expect(-1);
	sr_real.syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, sizeof(old), 0, 0);
	pthread_attr_destroy(&attr);
	return -err;
}
