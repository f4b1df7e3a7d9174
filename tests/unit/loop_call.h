/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* loop_call.h - a test's way to do something in the service thread, and to wait. */
#ifndef LOOP_CALL_H
#define LOOP_CALL_H

#include <errno.h>
#include <semaphore.h>

#include "base/conf.h"
#include "base/process.h"
#include "base/loop.h"

struct loop_call {
	struct sr_task task;	/* first */
	void (*fn)(void *arg);
	void *arg;
	sem_t done;
};

static void run_loop_call(struct sr_task *t)
{
	struct loop_call *call = (struct loop_call *)t;

	call->fn(call->arg);
	sem_post(&call->done);
}

/* 0 or -errno: no service thread. */
static inline int loop_call(void (*fn)(void *arg), void *arg)
{
	struct loop_call call = {.task = {.fn = run_loop_call}, .fn = fn, .arg = arg};
	int err;

	if (sr_loop_here()) {
		fn(arg);
		return 0;
	}
	err = sr_loop_start();
	if (err)
		return err;
	/* The thread may be the parent's. */
	if (!sr_process_ours())
		return -ECHILD;
	sem_init(&call.done, 0, 0);
	sr_loop_post(&call.task);
	while (sem_wait(&call.done))
		;	/* EINTR */
	sem_destroy(&call.done);
	return 0;
}

#endif
