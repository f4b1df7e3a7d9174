/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lock.h - the library's mutexes, and how fork(2) stops them.
 *
 * A signal handler of the program may call us at any moment, and need a lock that its
 * thread already holds.  So no handler runs while a lock is held (signal.h): sr_held.count
 * is raised before a lock is asked for, and lowered after it is given back.
 */
#ifndef SR_LOCK_H
#define SR_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/order.h"
#include "base/signal.h"

/*
 * Not 0 while this thread runs the library's own code, or what that calls
 * (librdmacm, dlsym, malloc).  Intercepted calls then go straight to libc, and
 * descriptors that are made are not the program's.  Nests.
 */
extern __thread volatile int sr_inside __attribute__((tls_model("initial-exec")));

/* sr_inside is volatile, and sr_hold() and sr_release() have fences, because the compiler
 * would otherwise move it across malloc(), of which it knows that it reads no sr_inside. */
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

/* The order in which a thread takes locks: HACKING.md, "Order of locks". */
enum sr_rank {
	SR_RANK_SET_LOOK = 1,
	SR_RANK_RX,
	SR_RANK_TX,
	SR_RANK_EPOLL,
	SR_RANK_SET,
	SR_RANK_LINK_FIRST,
	SR_RANK_LINK_SECOND,
	SR_RANK_LINK_THIRD,
	SR_RANK_WAIT,
	SR_RANK_HEIRS,
	SR_RANK_LEAF,
	SR_RANKS
};

/* A word on which threads sleep (futex(2)): a tenth of the size of the C library's mutex,
 * and a quarter of its instructions. */
struct sr_mutex {
	atomic_int word;	/* 0: free; 1: taken; others: lock.c */
#ifdef SR_LOCK_CHECK
	enum sr_rank rank;
#endif
};
void sr_mutex_wait(struct sr_mutex *m);	/* until it is taken */
void sr_mutex_hand_on(struct sr_mutex *m); /* gives it back, if others may wait */

/* Debug builds (configure --enable-debug, and those with a sanitizer) check the order. */
#ifdef SR_LOCK_CHECK
#define SR_MUTEX(r) { .rank = (r) }
void sr_lock_check(const struct sr_mutex *m); /* aborts: taken out of order */
void sr_lock_count(const struct sr_mutex *m, int change);
void sr_lock_none(void);
#else
#define SR_MUTEX(r) { 0 }
static inline void sr_lock_check(const struct sr_mutex *m) { (void)m; }
static inline void sr_lock_count(const struct sr_mutex *m, int change)
{
	(void)m, (void)change;
}
static inline void sr_lock_none(void) {}
#endif

static inline void sr_mutex_init(struct sr_mutex *m, enum sr_rank rank)
{
	(void)rank;
	*m = (struct sr_mutex)SR_MUTEX(rank);
}

/*
 * fork has to copy the process while no thread holds a lock of a set or of a stream.  The
 * thread that forks does not take these locks, because that would write, and so copy, two
 * pages for each stream.  Instead it sets `stopped'.  A thread that takes a lock while
 * `stopped' is set, and holds no other lock, gives the lock back and waits until fork is
 * done.  A thread that holds another lock already goes on, and fork waits for that lock.
 *
 * fork goes through the locks in the order of their ranks, and waits at each lock until it
 * has seen it free once.  From then on no thread works under that lock: a thread that takes
 * it sees `stopped' and gives it back, unless that thread holds a lock of an earlier rank;
 * but no thread works under those, because fork has been through them before.
 *
 * pair stop: sr_lock() changes a lock's word and looks at `stopped'; sr_locks_stop() changes
 * `stopped', and sr_lock_await() looks at the word.  One of the two threads sees the other.
 */
extern struct sr_locks {
	atomic_int stopped;
	struct sr_mutex forking; /* taken by the thread that forks; on the same page */
	struct sr_mutex loading; /* held while a library is loaded, also by another library */
	atomic_int working;	/* how many threads of the library's own */
} sr_locks;
void sr_lock_stopped(struct sr_mutex *m);
void sr_locks_stop(void);
void sr_lock_await(struct sr_mutex *m);	/* until it is free */
/* Waits until no library is being loaded; fork waits for this last.  Otherwise the lists of
 * ld.so would be half changed in the child, and its next dlopen(3) would abort.  Waits a second
 * at most, because the thread that forks may be in ld.so itself (in a constructor). */
void sr_locks_await_loading(void);

/*
 * One of the library's threads `works' from its start, or from sr_work_begin(), to
 * sr_work_end().  While it works it may be in malloc(3), and some allocators do not care for
 * fork (AddressSanitizer's in GCC 12): their lock would stay taken in the child for ever.  So
 * fork waits until no such thread works; a second at most, because the thread that forks may
 * hold what the other thread waits for.
 */
void sr_work_begin(void);	/* waits until no fork is under way */
void sr_work_end(void);
void sr_work_pause(void);	/* between two pieces of work, with no lock held */
void sr_work_expect(int threads); /* this many are about to start; negative: they did not */
void sr_work_started(void);	/* an expected thread runs: it works */
void sr_locks_await_work(void);
void sr_locks_go(void);
void sr_locks_go_in_child(void);

/* In sr_held.count a lock counts as one reason why no handler may run, and this much more, so
 * that locks can be counted alone. */
#define SR_HELD_LOCK 0x10000

static inline void sr_hold_lock(void)
{
	sr_held.count += SR_HELD_LOCK + 1;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void sr_release_lock(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	sr_held.count -= SR_HELD_LOCK + 1;
	if (__builtin_expect(sr_held.off, 0))
		sr_signals_let_in();
}

static inline bool sr_mutex_take(struct sr_mutex *m)
{
	int none = 0;

	/* pair stop: the change after which sr_lock() looks.  Its acquire pairs with the release
	 * of sr_unlock() and of sr_mutex_hand_on(). */
	return atomic_compare_exchange_strong_explicit(&m->word, &none, 1, memory_order_seq_cst,
						       memory_order_relaxed);
}

/* For fork alone. */
static inline void sr_lock_unordered(struct sr_mutex *m)
{
	sr_hold_lock();
	if (__builtin_expect(!sr_mutex_take(m), 0))
		sr_mutex_wait(m);
	if (__builtin_expect(sr_look(&sr_locks.stopped), 0)) /* pair stop: sr_locks_stop() */
		sr_lock_stopped(m);
	sr_lock_count(m, 1);
}

static inline void sr_lock(struct sr_mutex *m)
{
	sr_lock_check(m);
	sr_lock_unordered(m);
}

static inline void sr_unlock(struct sr_mutex *m)
{
	int taken = 1;

	sr_lock_count(m, -1);
	/* The release pairs with the next owner's sr_mutex_take(). */
	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(
				     &m->word, &taken, 0, memory_order_release,
				     memory_order_relaxed), 0))
		sr_mutex_hand_on(m);
	sr_release_lock();
}

/* Not checked for its rank: it does not wait, so it cannot deadlock. */
static inline bool sr_trylock(struct sr_mutex *m)
{
	sr_hold_lock();
	if (sr_mutex_take(m)) {
		if (sr_look(&sr_locks.stopped))	/* pair stop: sr_locks_stop() */
			sr_lock_stopped(m);
		sr_lock_count(m, 1);
		return true;
	}
	sr_release_lock();
	return false;
}

#endif
