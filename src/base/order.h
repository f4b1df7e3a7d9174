/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * order.h - names for the ways in which threads, and processes that share memory, tell each
 * other something without a lock.  An access to an atomic word has one of these names, or
 * C11's name that ends in _explicit: lint refuses an access whose order is not written down.
 *
 * Load, store and count: relaxed.  The word publishes no other memory.  Either a lock guards
 * the word, and threads without the lock take it as a hint; or it is only counted; or another
 * word, or the kernel, orders the accesses.
 *
 * Publish and observe: release and acquire.  A thread writes things and then publishes a
 * word; a thread that observes the word sees these things.
 *
 * Replace and swap: a compare-and-swap and an exchange that do both.  The thread sees what was
 * done before by the threads that have changed the word, and threads that change the word
 * later see what this thread has done.
 *
 * Change, then look (a store-load pair): sequentially consistent.  Two threads each change
 * a word and then look at the word that the other one changes: a sleeper says that it sleeps
 * and looks for bytes; a sender says that there are bytes and looks for sleepers.  At least
 * one of them has to see the other's change, or a wake-up is lost.  But a processor may carry
 * out the load before other threads see the store in front of it.  To forbid that, each end has
 * one of these:
 *
 *   - the change, sr_fence_look(), the look, both of any order; or
 *   - both of them sequentially consistent: sr_change(), or a read-modify-write with
 *     memory_order_seq_cst, and then sr_look().
 *
 * One end may do it one way and the other end the other way.  It is not enough if only
 * one of an end's two accesses is sequentially consistent: ARMv8.0 satisfies a relaxed
 * load before the store of an atomic exchange in front of it is visible.  (x86 does
 * not, so no test on x86 finds this.)
 *
 * Both ends of a pair carry its name: "pair NAME: ...", which says what the other end is.
 * tests/model/order.pml tries the ways above, and has models of the pairs on which a sleep rests;
 * its head lists them.  `tests/check lint' finds a name that is in one place only.
 *
 * A comment at each access that is stronger than relaxed names the other end.  Where all
 * accesses to a word have the same two ends, the comment is at the word's declaration.
 */
#ifndef SR_ORDER_H
#define SR_ORDER_H

#include <stdatomic.h>

#define sr_load(word) atomic_load_explicit(word, memory_order_relaxed)
#define sr_store(word, value) atomic_store_explicit(word, value, memory_order_relaxed)
/* Returns the value before, as all read-modify-writes do. */
#define sr_count(word, n) atomic_fetch_add_explicit(word, n, memory_order_relaxed)

#define sr_publish(word, value) \
	atomic_store_explicit(word, value, memory_order_release)
#define sr_observe(word) atomic_load_explicit(word, memory_order_acquire)

/* True if the word was *was, and has been replaced; else *was is set to the word's value. */
#define sr_replace(word, was, value) \
	atomic_compare_exchange_strong_explicit(word, was, value, memory_order_acq_rel, \
						memory_order_acquire)
#define sr_swap(word, value) atomic_exchange_explicit(word, value, memory_order_acq_rel)

#define sr_change(word, value) atomic_store_explicit(word, value, memory_order_seq_cst)
#define sr_look(word) atomic_load_explicit(word, memory_order_seq_cst)

/* Goes between a change and a look. */
static inline void sr_fence_look(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

#endif
