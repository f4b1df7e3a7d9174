/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_wait.c - epoll_wait(2): what is listed, what the kernel has, spinning and
 * sleeping.  The argument is in epoll_impl.h.
 *
 * What the kernel's set may have that nobody has told us of: plain streams, other
 * descriptors, doorbells of entries that are armed.  If nothing else is ready, it is
 * asked.  While linked entries are ready it is asked every ASK calls, and in the first
 * call of each tick of the kernel's coarse clock, so that nothing waits for longer than
 * a tick of a thread that always finds something else.
 *
 * No wait has a reference to its set: a set's memory stays a set's, the queue is looked
 * at only while the table has the set at the descriptor, and an event in the kernel's
 * answer for an entry of another set is passed to that set.  Nothing is held while the kernel
 * is asked: a handler that leaves the call for good, or a cancellation, leaves the count
 * of sleepers too high, so that others ring, and nothing is polled, when they need not.
 */
#include "base/real.h"

#include <errno.h>
#include <sys/single_threaded.h>

#include "base/now.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"

#define ASK 16			/* calls that may go by, or looks of one that spins */

/* How long the program wants to wait, in the form of its call. */
struct length {
	int ms;			/* -1: for ever; not used with ts */
	const struct timespec *ts;
	bool fine;		/* epoll_pwait2: ts, NULL for ever */
	const sigset_t *mask;
};

struct wait {
	struct sr_epoll *set;
	int epfd;
	const struct length *t;
	bool at_once;		/* the program's time is none */
	uint64_t deadline;	/* ns; UINT64_MAX: none; 0: the clock does not run yet */
	uint64_t start;		/* ns: when it found nothing */
	unsigned handled;	/* sr_handled.all, as the call began */
};

static bool is_none(const struct length *t)
{
	return t->fine ? t->ts && !t->ts->tv_sec && !t->ts->tv_nsec : !t->ms;
}

static uint64_t deadline_of(const struct length *t)
{
	if (t->fine && t->ts)
		return sr_deadline_ns((uint64_t)t->ts->tv_sec,
				      (uint64_t)t->ts->tv_nsec);
	if (!t->fine && t->ms >= 0)
		return sr_deadline_ns((uint64_t)t->ms / 1000,
				      (uint64_t)t->ms % 1000 * 1000000u);
	return UINT64_MAX;
}

static bool signalled(const struct wait *w)
{
	return sr_handled.all != w->handled;
}

/* ---- the kernel's call ---- */

/* What is left of the time.  A handler that has run since the call began ends it.  (A
 * program that gives no fraction of a millisecond may have a kernel without
 * epoll_pwait2(2).) */
static int call_until_signal(struct wait *w, struct epoll_event *ev, int max)
{
	bool ends = w->deadline != UINT64_MAX;
	uint64_t now = ends ? sr_now_ns() : 0;
	uint64_t left = ends && now < w->deadline ? w->deadline - now : 0;
	struct timespec ts = sr_timespec(left);

	if (signalled(w)) {
		errno = EINTR;
		return -1;
	}
	if (w->t->fine)
		return sr_real.epoll_pwait2(w->epfd, ev, max, ends ? &ts : NULL,
					    w->t->mask);
	return sr_real.epoll_pwait(w->epfd, ev, max,
				   ends ? (int)((left + 999999) / 1000000) : -1,
				   w->t->mask);
}

/* A locked instruction just behind a system call costs a quarter of the cheapest one,
 * and a process of one thread needs none: a signal handler leaves the sleepers as it
 * found them, and a thread that is created counts after its creator.  The new value. */
static unsigned add(atomic_uint *number, unsigned by)
{
	unsigned n;

	if (!__libc_single_threaded)
		return atomic_fetch_add(number, by) + by;
	n = atomic_load_explicit(number, memory_order_relaxed) + by;
	atomic_store_explicit(number, n, memory_order_relaxed);
	return n;
}

/* A plain one-shot entry.  Whose is the event?  True: the caller's. */
static bool take_token(struct sr_epoll *set, struct epoll_event *ev)
{
	struct sr_epoll_entry *e = sr_epoll_of_token(ev->data.u64);
	unsigned state = atomic_load(&e->state);
	uint64_t data = e->data;

	if (e->set != set || !(state & SR_EPOLL_ARMED) ||
	    sr_epoll_oneshot(state, e) != ev->data.u64 ||
	    !atomic_compare_exchange_strong(&e->state, &state,
					    state & ~SR_EPOLL_ARMED))
		return false;
	ev->data.u64 = data;
	return true;
}

/* Takes what is ours out of the kernel's answer, from the i-th on; how many are left. */
__attribute__((noinline)) static int
take_out(struct sr_epoll *set, struct epoll_event *ev, int n, int i)
{
	int kept = i;

	for (; i < n; i++) {
		uint64_t data = ev[i].data.u64;

		if (!sr_epoll_is_token(data)) {
			ev[kept++] = ev[i];
		} else if (!sr_epoll_known(data)) {
			continue;	/* the parent's, made after the fork */
		} else if (data == sr_epoll_bell_token()) {
			atomic_store(&set->rung, false);
		} else if ((data & SR_EPOLL_KIND) == SR_EPOLL_ONESHOT) {
			if (take_token(set, &ev[i]))
				ev[kept++] = ev[i];
		} else {
			sr_epoll_heard(ev[i].events, data);
		}
	}
	return kept;
}

static inline int sift(struct sr_epoll *set, struct epoll_event *ev, int n)
{
	for (int i = 0; i < n; i++)
		if (__builtin_expect(sr_epoll_is_token(ev[i].data.u64), 0))
			return take_out(set, ev, n, i);
	return n;
}

/* The program's events, or -errno.  A cancellation point. */
static int ask_kernel(struct wait *w, struct epoll_event *ev, int max,
		      bool sleep)
{
	struct sr_epoll *set = w->set;
	int r;

	if (atomic_load(&set->forked))
		sr_epoll_mind_family(w->epfd);
	add(&set->sleepers, 1);
	sleep &= !atomic_load(&set->ready);
	r = sleep ? call_until_signal(w, ev, max) :
		    sr_real.epoll_pwait(w->epfd, ev, max, 0, w->t->mask);
	add(&set->sleepers, -1u);
	return r < 0 ? -errno : sift(set, ev, r);
}

/* ---- a wait ---- */

/* May the kernel's set have something that nobody has told us of? */
static bool kernel_may_know(struct sr_epoll *set)
{
	int shut = atomic_load(&set->shut);

	return atomic_load(&set->others) || atomic_load(&set->members) > shut ||
	       shut > atomic_load(&set->ready);
}

/* (Two threads that count at once ask once too often, or a call later.) */
static bool is_due(struct sr_epoll *set)
{
	unsigned calls = atomic_load_explicit(&set->unasked, memory_order_relaxed);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (calls < ASK && now.tv_nsec == set->tick) {
		atomic_store_explicit(&set->unasked, calls + 1, memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(&set->unasked, 0, memory_order_relaxed);
	atomic_store_explicit(&set->tick, now.tv_nsec, memory_order_relaxed);
	return true;
}

/* Events, 0: time to sleep, or -errno. */
static int spin_on(struct wait *w, struct epoll_event *ev, int max)
{
	uint64_t limit = sr_conf.spin_us * 1000ull, last = w->start, now;
	struct sr_epoll *set = w->set;
	int i, n;

	for (i = 1;; i++) {
		if (!atomic_load(&set->ready))
			return 0;	/* all are armed by now */
		n = sr_epoll_collect(set, w->epfd, ev, max,
				     SR_EPOLL_POLL | SR_EPOLL_SPIN);
		if (!n && i % ASK == 0) {
			n = sr_now_epoll(w->epfd, ev, max);
			n = n < 0 ? -errno : sift(set, ev, n);
		}
		if (n)
			return n;
		if (signalled(w))
			return -EINTR;
		if (sr_held.off)
			return 0;	/* let in by who sleeps */
		now = sr_now_ns();
		if (sr_spin_stolen(&set->spin, limit, now - last) ||
		    now - w->start >= limit || now >= w->deadline)
			return 0;
		last = now;
		sr_relax();
	}
}

static int spin(struct wait *w, struct epoll_event *ev, int max)
{
	struct sr_epoll *set = w->set;
	int n;

	if (w->start || !atomic_load(&set->shut))
		return 0;
	w->start = sr_now_ns();
	if (!sr_spin_pays(&set->spin, sr_conf.spin_us * 1000ull,
			  sr_epoll_same_core(set, w->epfd)))
		return 0;
	sr_hold();	/* for the sake of set->spinning */
	n = 0;
	if (!atomic_exchange(&set->spinning, true)) {
		n = spin_on(w, ev, max);
		atomic_store(&set->spinning, false);
	}
	sr_release();
	return n;
}

/* Nothing is listed that is ready.  Asks the kernel, and sleeps there if need be. */
static int wait_on(struct wait *w, struct epoll_event *ev, int max, bool asked)
{
	struct sr_epoll *set = w->set;
	int n;

	/* What is ready at once need not pay for the time. */
	if (!w->deadline)
		w->deadline = deadline_of(w->t);
	do {
		n = w->at_once ? 0 : spin(w, ev, max);
		/* Whatever is polled is armed before the sleep. */
		if (!n && !w->at_once)
			n = sr_epoll_collect(set, w->epfd, ev, max, 0);
		if (!n && !(w->at_once && asked))
			n = ask_kernel(w, ev, max, !w->at_once);
		/* A stream that has just returned to TCP would be in both answers. */
		if (!n)
			n = sr_epoll_collect(set, w->epfd, ev, max, SR_EPOLL_POLL);
		if (!n && !w->at_once && signalled(w))
			n = -EINTR;
	} while (!n && !w->at_once &&
		 (w->deadline == UINT64_MAX || sr_now_ns() < w->deadline));
	if (n > 0 && w->start)
		sr_spin_learn(&set->spin, sr_conf.spin_us * 1000ull,
			      sr_now_ns() - w->start);
	return n;
}

/* Of the r events behind the first n, those whose data these do not have; how many are
 * left. */
static int without_twice(struct epoll_event *ev, int n, int r)
{
	int i, j, kept = 0;

	for (i = n; i < n + r; i++) {
		for (j = 0; j < n && ev[j].data.u64 != ev[i].data.u64; j++)
			;
		if (j == n)
			ev[n + kept++] = ev[i];
		else
			ev[j].events |= ev[i].events;
	}
	return kept;
}

/* n have been listed while so many were linked, and the kernel is due; or none.  deadline: if the program's time
 * has begun to run; else 0. */
__attribute__((noinline)) static int
wait_linked(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
	    const struct length *t, uint64_t deadline, int n, bool due, int linked)
{
	struct wait w = { .set = set, .epfd = epfd, .t = t, .at_once = is_none(t),
			  .deadline = deadline, .handled = sr_handled.all };
	int r = 0, err = errno;

	due &= n < max;
	if (due)
		r = ask_kernel(&w, ev + n, max - n, false);
	/* A stream that returned to TCP in between is in both. */
	if (n && r > 0 && atomic_load(&set->shut) < linked)
		r = without_twice(ev, n, r);
	if (n)
		n += r > 0 ? r : 0;
	else
		n = r ? r : wait_on(&w, ev, max, due);
	errno = n < 0 ? -n : err;
	return n < 0 ? -1 : n;
}

/* Nothing is linked, or nothing of that is listed and the call does not sleep: the
 * kernel's call. */
static inline int wait_plainly(struct sr_epoll *set, int epfd,
			       struct epoll_event *ev, int max,
			       const struct length *t)
{
	uint64_t deadline = 0;
	int r = 0;

	if (t->fine ? t->ts != NULL : t->ms > 0)
		deadline = deadline_of(t);
	add(&set->sleepers, 1);
	if (!atomic_load(&set->ready)) {
		r = t->fine ? sr_real.epoll_pwait2(epfd, ev, max, t->ts, t->mask) :
			      sr_real.epoll_pwait(epfd, ev, max, t->ms, t->mask);
		add(&set->sleepers, -1u);
		if (r <= 0)
			return r;
		r = sift(set, ev, r);
		if (r)
			return r;
	} else {
		add(&set->sleepers, -1u);
	}
	return wait_linked(set, epfd, ev, max, t, deadline, 0, false, 0);
}

static inline int wait_for(struct sr_epoll *set, int epfd, struct epoll_event *ev,
			   int max, const struct length *t)
{
	int n = 0, linked = atomic_load_explicit(&set->shut, memory_order_relaxed);
	bool due = false;

	if (atomic_load_explicit(&set->ready, memory_order_relaxed)) {
		pthread_testcancel(); /* as in sr_stream_recv() */
		/* If it is due, the kernel gets half of the room; where there is room
		 * for one they take turns. */
		due = kernel_may_know(set) && is_due(set);
		n = sr_epoll_collect(set, epfd, ev,
				     due ? (max + (int)(add(&set->turns, 1) & 1)) / 2 :
					   max,
				     SR_EPOLL_POLL);
		if (n && !due)
			return n;
		if (!n && is_none(t) && !kernel_may_know(set))
			return 0;
	} else if (!atomic_load_explicit(&set->heir, memory_order_relaxed) &&
		   (!atomic_load_explicit(&set->shut, memory_order_relaxed) ||
		    (is_none(t) &&
		     !atomic_load_explicit(&set->forked, memory_order_relaxed)))) {
		return wait_plainly(set, epfd, ev, max, t);
	}
	return wait_linked(set, epfd, ev, max, t, 0, n, due, linked);
}

int sr_epoll_wait_ms(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     int ms, const sigset_t *mask)
{
	const struct length t = { .ms = ms, .mask = mask };

	return wait_for(set, epfd, ev, max, &t);
}

int sr_epoll_wait_ts(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     const struct timespec *ts, const sigset_t *mask)
{
	const struct length t = { .ts = ts, .fine = true, .mask = mask };

	return wait_for(set, epfd, ev, max, &t);
}
