/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lock.c - owns the flag that a thread is the library's for now, sleeping for a lock
 * and, in debug builds, the check of the order of locks.
 */
#include "base/real.h" /* before any system header */
#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/log.h"

__thread volatile int sr_inside __attribute__((tls_model("initial-exec")));

static void futex(struct sr_mutex *m, int op, int value)
{
	int err = errno;

	sr_real.syscall(SYS_futex, (long)&m->word, op | FUTEX_PRIVATE_FLAG, value, 0, 0, 0);
	errno = err;
}

/* Who has waited takes it as 2: others may wait still. */
void sr_mutex_wait(struct sr_mutex *m)
{
	while (atomic_exchange_explicit(&m->word, 2, memory_order_acquire))
		futex(m, FUTEX_WAIT, 2);
}

void sr_mutex_wake(struct sr_mutex *m)
{
	futex(m, FUTEX_WAKE, 1);
}

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
