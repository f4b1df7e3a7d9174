/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lock.c - owns sr_inside, by which a thread says that it runs the library's code; the slow
 * path of a mutex, in which a thread sleeps until the mutex is free; the stop of all mutexes
 * during fork; and, in debug builds, the check of their order.
 */
#include "base/sys.h" /* before any system header */
#include "base/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/log.h"
#include "base/now.h"

__thread volatile int sr_inside __attribute__((tls_model("initial-exec")));

/* limit: of FUTEX_WAIT; NULL: none. */
static void futex_call(atomic_int *word, int op, int value, const struct timespec *limit)
{
	int err = errno;

	SR_SYS(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, limit);
	errno = err;
}

/*
 * The values of a lock's word.  A thread that gives the lock back and takes it again at once
 * is faster than a thread that has to wake up first: a sender once kept the thread that wanted
 * to exit waiting for most of a minute.  So after a thread has slept IN_VAIN times, the lock
 * is handed on: it is free only for threads that have slept for it.
 */
enum {
	FREE,
	TAKEN,
	AWAITED,		/* taken, and threads may be asleep */
	STARVED,		/* the same, and the holder must hand it on */
	HANDED,			/* free for a thread that has slept */
};

#define IN_VAIN 4

/* A thread that has slept sets AWAITED when it takes the lock, because others may still be
 * asleep.  (The thread to which the lock is handed may have ended, or be in a signal handler
 * that we could not put off.  So no thread sleeps for long while the word is HANDED.) */
void sr_mutex_wait(struct sr_mutex *m)
{
	static const struct timespec shortly = { .tv_nsec = 100000000 };
	int word, next;
	bool takes;

	for (unsigned slept = 0;; slept++) {
		do {
			word = sr_load(&m->word);
			takes = word == FREE || (word == HANDED && slept);
			if (word == HANDED && !slept)
				next = HANDED;
			else if (!takes && (word == STARVED || slept >= IN_VAIN))
				next = STARVED;
			else
				next = AWAITED;
			/* pair stop: as in sr_mutex_take() */
		} while (!atomic_compare_exchange_weak_explicit(
				 &m->word, &word, next, memory_order_seq_cst, memory_order_relaxed));
		if (takes)
			return;
		futex_call(&m->word, FUTEX_WAIT, next, next == HANDED ? &shortly : NULL);
	}
}

void sr_mutex_hand_on(struct sr_mutex *m)
{
	int word = sr_load(&m->word);

	/* The release pairs with the next owner's sr_mutex_take() or sr_mutex_wait(). */
	while (!sr_replace(&m->word, &word, word == STARVED ? HANDED : FREE))
		;
	if (word != TAKEN)
		futex_call(&m->word, FUTEX_WAKE, 1, NULL);
}

/* ---- fork ---- */

struct sr_locks sr_locks = {
	.forking = SR_MUTEX(SR_RANK_LEAF),
	.loading = SR_MUTEX(SR_RANK_LEAF),
};

static __thread bool works __attribute__((tls_model("initial-exec")));

void sr_work_begin(void)
{
	for (;;) {
		/* pair work: fork has changed `stopped' when sr_locks_await_work() looks at
		 * `working'. */
		atomic_fetch_add_explicit(&sr_locks.working, 1, memory_order_seq_cst);
		works = true;
		if (!sr_look(&sr_locks.stopped))
			return;
		sr_work_end();
		futex_call(&sr_locks.stopped, FUTEX_WAIT, 1, NULL);
	}
}

void sr_work_end(void)
{
	works = false;
	/* pair work: sr_locks_await_work(), which may be asleep */
	atomic_fetch_sub_explicit(&sr_locks.working, 1, memory_order_seq_cst);
	if (sr_look(&sr_locks.stopped))
		futex_call(&sr_locks.working, FUTEX_WAKE, 1, NULL);
}

void sr_work_pause(void)
{
	if (!sr_load(&sr_locks.stopped)) /* a hint: the next pause looks again */
		return;
	sr_work_end();
	sr_work_begin();
}

void sr_work_expect(int threads)
{
	/* pair work: as in sr_work_begin(); the caller lets no fork run before this */
	atomic_fetch_add_explicit(&sr_locks.working, threads, memory_order_seq_cst);
}

void sr_work_started(void)
{
	works = true;
}

/* (A thread that waits here for the end of fork is not in malloc().) */
void sr_lock_stopped(struct sr_mutex *m)
{
	bool worked = works;

	/* pair stop: the lock has been taken */
	while (sr_held.count / SR_HELD_LOCK == 1 && sr_look(&sr_locks.stopped)) {
		sr_mutex_hand_on(m);
		if (worked)
			sr_work_end();
		futex_call(&sr_locks.stopped, FUTEX_WAIT, 1, NULL);
		if (worked)
			sr_work_begin();
		if (!sr_mutex_take(m))
			sr_mutex_wait(m);
	}
}

void sr_locks_stop(void)
{
	sr_hold_lock();		/* counted without a rank: fork may take all ranks then */
	if (!sr_mutex_take(&sr_locks.forking))
		sr_mutex_wait(&sr_locks.forking);
	sr_change(&sr_locks.stopped, 1); /* pair stop: sr_lock() */
}

void sr_lock_await(struct sr_mutex *m)
{
	while (sr_look(&m->word)) {	/* pair stop: sr_lock() */
		sr_lock_unordered(m);
		sr_unlock(m);
	}
}

void sr_locks_await_loading(void)
{
	/* pair stop: sr_lock() */
	for (int i = 0; i < 1000 && sr_look(&sr_locks.loading.word); i++)
		sr_now_sleep(1000000);
}

void sr_locks_await_work(void)
{
	static const struct timespec shortly = { .tv_nsec = 1000000 };
	int n;

	for (int i = 0; i < 1000; i++) {
		/* pair work: sr_work_begin() changes `working', then looks at `stopped'. */
		n = sr_look(&sr_locks.working);
		if (n <= 0)
			return;
		futex_call(&sr_locks.working, FUTEX_WAIT, n, &shortly);
	}
}

void sr_locks_go(void)
{
	/* Pairs with the looks at `stopped': a thread that goes on sees what fork has done. */
	sr_publish(&sr_locks.stopped, 0);
	futex_call(&sr_locks.stopped, FUTEX_WAKE, INT_MAX, NULL);
	sr_mutex_hand_on(&sr_locks.forking);
	sr_release_lock();
}

void sr_locks_go_in_child(void)
{
	sr_store(&sr_locks.stopped, 0);
	sr_store(&sr_locks.working, 0);
	works = false;
	sr_mutex_init(&sr_locks.forking, SR_RANK_LEAF);
	sr_mutex_init(&sr_locks.loading, SR_RANK_LEAF);
	sr_lock_none();
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
