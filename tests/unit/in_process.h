/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* in_process.h - cases that run in a process each, so that a hang or a crash is one's. */
#ifndef IN_PROCESS_H
#define IN_PROCESS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "check.h"

/* ThreadSanitizer wants no thread in the child of a fork; we do. */
const char *__tsan_default_options(void) __attribute__((visibility("default")));
const char *__tsan_default_options(void)
{
	return "die_after_fork=0:atexit_sleep_ms=0";
}

/* Calls fn there, which exit()s with what it returns, or is ended after hang_s.  Returns
 * the status of wait(2). */
static inline int in_process(int (*fn)(void *arg), void *arg, unsigned hang_s)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(hang_s);
		sr_process_begin();
		exit(fn(arg));
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

#endif
