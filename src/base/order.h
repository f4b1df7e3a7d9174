/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * order.h - the shapes in which threads, and processes that share memory, tell each
 * other something without a lock.
 *
 * Publish and observe.  A thread writes things and then publishes a word; a thread that
 * observes the word sees these things.
 *
 * Change, then look (a store-load pair).  Two threads each change a word and then look
 * at the word that the other one changes: a sleeper says that it sleeps and looks for
 * bytes; a sender says that there are bytes and looks for sleepers.  At least one of them
 * has to see the other's change, or a wake-up is lost.  But a processor lets a load pass
 * a store before it, unless it is told not to.  So each end has one of these:
 *
 *   - the change, sr_fence_look(), the look, both of any order; or
 *   - both of them sequentially consistent: atomic_store(), atomic_exchange(),
 *     atomic_fetch_or() and the like, and then atomic_load(), all without _explicit.
 *
 * One end may do it one way and the other end the other way.  It is not enough if only
 * one of an end's two accesses is sequentially consistent: ARMv8.0 satisfies a relaxed
 * load before the store of an atomic_exchange() in front of it is visible.  (x86 does
 * not, so no test on x86 finds this.)
 *
 * Both ends of a pair carry its name: "pair NAME: ...", which says what the other end is.
 * tests/model/order.pml has a model of each, and `tests/check lint' compares the names.
 */
#ifndef SR_ORDER_H
#define SR_ORDER_H

#include <stdatomic.h>

#define sr_publish(word, value) \
	atomic_store_explicit(word, value, memory_order_release)
#define sr_observe(word) atomic_load_explicit(word, memory_order_acquire)

/* Between a change and a look. */
static inline void sr_fence_look(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

#endif
