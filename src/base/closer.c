/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* closer.c - owns the count of the threads that close.  No locks. */
#include "base/real.h" /* before any system header */
#include "base/closer.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "base/fdpriv.h"
#include "base/process.h"

/* At most: other users must not use up the program's limit (RLIMIT_NPROC). */
#define THREADS 8

static atomic_int threads;

static void *run(void *fd)
{
	sr_inside = 1;
	prctl(PR_SET_NAME, "sockrail-close", 0, 0, 0);
	sr_fd_close((int)(intptr_t)fd);
	atomic_fetch_sub(&threads, 1);
	return NULL;
}

bool sr_closer_free(void)
{
	return atomic_load(&threads) < THREADS;
}

void sr_closer_close(int fd)
{
	atomic_fetch_add(&threads, 1);
	if (!sr_thread_start(run, (void *)(intptr_t)fd))
		return;
	/* The program has no thread left: to wait is better than to lose one more. */
	sr_fd_close(fd);
	atomic_fetch_sub(&threads, 1);
}

void sr_closer_forget(void)
{
	atomic_store(&threads, 0);
}
