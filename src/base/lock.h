/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lock.h - the library's mutexes, and what else no signal handler of the program
 * interrupts (signal.h).
 *
 * A handler may call us at any moment, and need what its thread holds already: so
 * none runs while a lock is held.  The count is raised before a lock is asked for,
 * and lowered after it is let go.
 */
#ifndef SR_LOCK_H
#define SR_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/signal.h"

/*
 * Set while the library itself (and what it calls: librdmacm, dlsym, malloc)
 * runs in this thread: calls that come in go straight to libc, and descriptors
 * made are not the program's.  Nests.
 */
extern __thread volatile int sr_inside __attribute__((tls_model("initial-exec")));

/* A compiler that knows malloc() knows that it does not look at sr_inside: hence
 * volatile, and the fences of hold and release. */
static inline void sr_enter(void)
{
	sr_inside++;
	sr_hold();
}

static inline void sr_leave(void)
{
	sr_inside--;
	sr_release();
}

static inline void sr_lock(pthread_mutex_t *m)
{
	sr_hold();
	pthread_mutex_lock(m);
}

static inline void sr_unlock(pthread_mutex_t *m)
{
	pthread_mutex_unlock(m);
	sr_release();
}

static inline bool sr_trylock(pthread_mutex_t *m)
{
	sr_hold();
	if (!pthread_mutex_trylock(m))
		return true;
	sr_release();
	return false;
}

#endif
