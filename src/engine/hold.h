/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hold.h - policy wait holds a program's first send as long as the process at the other end says
 * that it is about to take the stream.  The asker's stream keeps here what that process said.
 * (What the answerer knows is in listener.h.)  Atomic words; `held' and `node' are index.c's.
 */
#ifndef SR_ENGINE_HOLD_H
#define SR_ENGINE_HOLD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/signal.h"

/* A place in one of index.h's lists; pprev is NULL outside. */
struct sr_indexed {
	struct sr_indexed *next, **pprev;
};

struct sr_hold_state {
	/* enum sr_first.  The service thread publishes it behind `sent_ns'; first_of() observes. */
	atomic_int first;
	_Atomic uint64_t sent_ns; /* ns: when it became SR_FIRST_SENT */
	uintptr_t held;		/* sr_hold_thread() of the thread whose send waits, or 0 */
	struct sr_indexed node;	/* in the list of streams with such a thread */
};

/* A number for the calling thread, which no other thread has while it lives. */
static inline uintptr_t sr_hold_thread(void)
{
	return (uintptr_t)&sr_held;
}

#endif
