/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lock.c - owns the flag that a thread is the library's for now and, in debug builds,
 * the check of the order of locks.
 */
#include "base/lock.h"

#include <stdlib.h>

#include "base/log.h"

__thread volatile int sr_inside __attribute__((tls_model("initial-exec")));

#ifdef SR_LOCK_CHECK
/* How many locks of each rank this thread holds: more than one only across fork. */
static __thread int held[SR_RANKS] __attribute__((tls_model("initial-exec")));

void sr_lock_check(const struct sr_mutex *m)
{
	for (int rank = (int)m->rank; rank < SR_RANKS; rank++) {
		if (!held[rank])
			continue;
		sr_error("a lock of rank %d is taken while one of rank %d is held",
			 (int)m->rank, rank);
		abort();
	}
}

void sr_lock_count(const struct sr_mutex *m, int change)
{
	held[m->rank] += change;
}

void sr_lock_none(void)
{
	for (int rank = 0; rank < SR_RANKS; rank++)
		held[rank] = 0;
}
#endif
