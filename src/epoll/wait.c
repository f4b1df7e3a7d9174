/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wait.c - epoll_wait(2): what is listed, what the kernel has, spinning and
 * sleeping.
 *
 * Sleeping is the kernel's epoll_wait on the program's set, so signals, masks and time
 * are exact.  What the library has in that set (impl.h) is edge-triggered, so one arrival wakes
 * one thread; a thread that leaves something on the list wakes the next.  `sleepers' and
 * `ready' are a store-load pair: a sleeper counts itself and then looks at `ready' (how many
 * entries are listed); a thread that lists an entry counts it and then looks at `sleepers'.
 *
 * What the kernel's set may have that is not listed: plain streams, other descriptors,
 * doorbells of entries that are armed.  If nothing is listed, the kernel is asked.  While
 * linked entries are ready, the kernel is asked after ASK calls, and in the first call of each
 * tick of its coarse clock.  Otherwise the events of plain streams would starve behind linked
 * entries that are always ready.
 *
 * Order.  The kernel's answer has plain events and doorbells in the order in which they
 * came, and events keep their places there (sr_epoll_resolve()).  Entries that are listed have
 * waited for longer than these.  But polling cannot tell in which order bytes have come on several
 * links since the last look.  So if the program was away between two calls until the coarse clock
 * moved on (4 ms, or less), the next SLOW calls arm quiet links instead of polling them.  (There is
 * no order between arrivals on links that are not armed: before the program's first such pause,
 * and on links that the last call reported, which it did not arm.)
 *
 * No wait has a reference to its set: the memory is only ever a set's, the queue is looked
 * at only while the table has the set at the descriptor, and an event in the kernel's
 * answer for an entry of another set is passed to that set.  No lock is held while the
 * kernel is asked.  If a signal handler leaves the call by siglongjmp(3), or the thread is
 * cancelled, the count of sleepers stays too high: then others wake the set without need, and
 * nothing is polled any more, but no event is lost.  A doorbell rings once, and a cancelled thread
 * may have taken its event: sr_cancel_asks names the set, and set_lost() in set.c lists all its
 * entries.
 */
#include "base/real.h"

#include <errno.h>
#include <sys/single_threaded.h>

#include "base/cancel.h"
#include "base/now.h"
#include "epoll/epoll.h"
#include "epoll/family.h"
#include "epoll/impl.h"
#include "epoll/member.h"
#include "epoll/nest.h"
#include "epoll/pool.h"

#define ASK 16			/* calls that may go by, or looks of one that spins */
#define SLOW 8			/* calls behind one that was late */
#define NAP_NS 1000000		/* between two looks at what is another process's */

/* The set that last had events for this thread, or has links; before there was any, the first that the
 * thread has made.  Only compared, as it may be gone. */
static __thread const struct sr_epoll *last_used __attribute__((tls_model("initial-exec")));

/* One call of epoll_wait(2). */
struct wait {
	struct sr_epoll *set;
	int epfd;
	const sigset_t *mask;
	int ms;			/* -1: for ever; 0: it does not sleep */
	uint64_t deadline;	/* ns; UINT64_MAX: none; 0: the clock does not run yet */
	uint64_t start;		/* ns: when it found nothing */
	unsigned handled;	/* sr_handled.all, as the call began */
	bool lists;		/* an event of the kernel's may have listed entries */
};

static uint64_t deadline_ms(int ms)
{
	return ms < 0 ? UINT64_MAX : sr_deadline_ns((uint64_t)ms / 1000,
						    (uint64_t)ms % 1000 * 1000000u);
}

static bool was_signalled(const struct wait *w)
{
	return sr_handled.all != w->handled;
}

/* ---- pace ---- */

static long coarse_now(void)
{
	struct timespec now;

	sr_clock(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_nsec;
}

/* Was the program away for a tick since its last call?  Returns the time. */
static long note_pace(struct sr_epoll *set)
{
	unsigned slow = sr_load(&set->slow);
	long now = coarse_now();

	if (now != sr_load(&set->left)) {
		sr_store(&set->slow, SLOW);
		sr_store(&set->left, now);
	} else if (slow) {
		sr_store(&set->slow, slow - 1);
	}
	return now;
}

/* (Two threads that count at once ask once too often, or a call later.) */
static bool is_due(struct sr_epoll *set, long now)
{
	unsigned calls = sr_load(&set->unasked);

	if (calls < ASK && now == sr_load(&set->tick)) {
		sr_store(&set->unasked, calls + 1);
		return false;
	}
	sr_store(&set->unasked, 0);
	sr_store(&set->tick, now);
	return true;
}

/* ---- the kernel's call ---- */

/* Sleeps in the kernel for the rest of the time.  Ends at once if a handler has run since the
 * call began. */
static int call_until_signal(struct wait *w, struct epoll_event *ev, int max)
{
	bool ends = w->deadline != UINT64_MAX;
	uint64_t now = ends ? sr_now_ns() : 0;
	uint64_t left = ends && now < w->deadline ? w->deadline - now : 0;
	int r;

	if (was_signalled(w)) {
		errno = EINTR;
		return -1;
	}
	r = sr_real.epoll_pwait(w->epfd, ev, max, ends ? (int)((left + 999999) / 1000000) : -1,
				w->mask);
	if (!r && ends)
		w->deadline = 1;	/* over, whatever our clock says */
	return r;
}

/* Returns the new value.  A locked instruction just behind a system call costs a quarter of the
 * cheapest system call, and a process of one thread does without: a signal handler leaves the
 * number as it found it, and a new thread sees all that its creator did before.
 * pair since: note_since() looks at the number; the caller asks the kernel next. */
static uint64_t add_to_count(_Atomic uint64_t *number, uint64_t by)
{
	uint64_t n;

	if (!__libc_single_threaded)
		return atomic_fetch_add_explicit(number, by, memory_order_seq_cst) + by;
	n = sr_load(number) + by;
	sr_store(number, n);
	return n;
}

/* A call that returns fewer events than there is room for has told of all that was ready.
 * (If two threads store at once the smaller number may stay: an edge may come twice.) */
static inline void note_drained(struct sr_epoll *set, uint64_t begun, int r, int max)
{
	if ((unsigned)r < (unsigned)max)
		sr_store(&set->drained, begun);
}

/* Takes the event of a plain one-shot entry.  True: it is the caller's, with its data. */
static bool take_oneshot(struct sr_epoll *set, struct epoll_event *ev)
{
	struct sr_epoll_entry *e = sr_epoll_of_token(ev->data.u64);
	unsigned state;
	uint64_t data;

	if (!sr_epoll_known(ev->data.u64)) /* our parent's, made after the fork */
		return false;
	state = sr_observe(&e->state);	/* all three pair with set_events() */
	data = sr_observe(&e->data);
	if (sr_epoll_set_of(e) != set || !(state & SR_EPOLL_ARMED) ||
	    sr_epoll_oneshot(state, e) != ev->data.u64 ||
	    !sr_replace(&e->state, &state, state & ~SR_EPOLL_ARMED))
		return false;
	ev->data.u64 = data;
	return true;
}

/* Returns true if another process made the token.  If the set is shared, this also tells the
 * other processes, because the event was perhaps to wake one of them. */
static bool is_others_token(struct sr_epoll *set, uint64_t data)
{
	if (sr_epoll_is_shared(set)) {
		sr_epoll_return_wakeup();
		return true;
	}
	return !sr_epoll_known(data);
}

/* Replaces or removes the tokens in the kernel's answer of n events, from the i-th event on.
 * Returns how many events are left.  The call has `before' events more, in front of the answer. */
__attribute__((noinline)) static int
resolve_wait(struct sr_epoll *set, int epfd, struct epoll_event *ev, int before, int n, int i)
{
	int kept = i;
	bool tokens = false, woken = false;

	for (; i < n; i++) {
		uint64_t data = ev[i].data.u64;
		bool once = (data & SR_EPOLL_KIND) == SR_EPOLL_ONESHOT;

		if (!sr_epoll_is_token(data) || (once && take_oneshot(set, &ev[i]))) {
			ev[kept++] = ev[i];
		} else if (sr_load(&set->inherited) && is_others_token(set, data)) {
			;
		} else if (data == sr_load(&sr_epoll_pool)) {
			sr_change(&set->woken, false);	/* pair woken: wake_sleeper() */
			woken = true;
		} else if (!once) {
			ev[kept++] = ev[i];
			tokens = true;
		}
	}
	/* A thread that took the wake-up, but has other events to return, leaves what is listed to
	 * another thread, which sr_epoll_resolve() wakes. */
	if (!tokens && !(woken && kept))
		return kept;
	note_pace(set);
	return sr_epoll_resolve(set, epfd, ev, before, kept);
}

static inline int sift_tokens(struct sr_epoll *set, int epfd, struct epoll_event *ev, int before,
			      int n)
{
	for (int i = 0; i < n; i++)
		if (__builtin_expect(sr_epoll_is_token(ev[i].data.u64), 0))
			return resolve_wait(set, epfd, ev, before, n, i);
	return n;
}

/* Sleeps for a moment, in a call that may sleep, after a shared set has reported nothing but tokens
 * of another process.  If the set is nested in that process, its flag stays readable until the
 * streams are back on TCP, which takes as long as their peers do not answer.  Asked again at once,
 * the kernel would report the same.  Returns 0 or -errno.  A cancellation point. */
static int nap_for_others(const struct wait *w)
{
	const struct timespec t = { .tv_nsec = NAP_NS };

	return sr_real.ppoll(NULL, 0, &t, w->mask) < 0 ? -errno : 0;
}

/* pair sleepers: sr_epoll_tell_later() */
static void say_members(struct sr_epoll *set)
{
	if (sr_look(&set->ready) >= SR_EPOLL_UNSAID)
		sr_epoll_say_members(set);
}

/* The program's events, or -errno.  A cancellation point.  before: as in sr_epoll_resolve(). */
static int ask_kernel(struct wait *w, struct epoll_event *ev, int before, int max,
		      bool sleep)
{
	struct sr_epoll *set = w->set;
	uint64_t begun;
	int r;
	bool told;

	if (sr_epoll_is_shared(set))
		sr_epoll_use_inherited(set);
	sr_cancel_asks = set;
	/* pair sleepers: wake_set() in ready.c */
	begun = add_to_count(&set->sleepers, SR_EPOLL_CALL + 1);
	say_members(set);
	r = sleep && !sr_look(&set->ready) ?
		    call_until_signal(w, ev, max) :
		    sr_real.epoll_pwait(w->epfd, ev, max, 0, w->mask);
	add_to_count(&set->sleepers, -1ull);
	note_drained(set, begun, r, max);
	told = r > 0;
	r = r < 0 ? -errno : sift_tokens(set, w->epfd, ev, before, r);
	w->lists = told && !r;	/* by the doorbell of a shared carrier, say */
	sr_cancel_asks = NULL;
	return told && !r && sleep && sr_epoll_is_shared(set) ? nap_for_others(w) : r;
}

/* ---- a wait ---- */

/* May the kernel's set have something that is not listed? */
static bool kernel_may_know(struct sr_epoll *set)
{
	return sr_load(&set->others) || sr_load(&set->plain) ||
	       sr_load(&set->linked) > sr_load(&set->ready);
}

/* Events, 0, or -errno. */
static int spin_ask_kernel(struct wait *w, struct epoll_event *ev, int max)
{
	int n;

	say_members(w->set);
	n = sr_now_epoll(w->epfd, ev, max);
	return n < 0 ? -errno : sift_tokens(w->set, w->epfd, ev, 0, n);
}

/* Events, 0: time to sleep, or -errno.  members: asks the kernel at each look, because nothing else
 * knows of arrivals in a nested set, whose links are armed. */
static int spin_on(struct wait *w, bool members, struct epoll_event *ev, int max)
{
	uint64_t limit = sr_conf.spin_us * 1000ull, last = w->start, now;
	struct sr_epoll *set = w->set;
	int i, n;

	for (i = 1;; i++) {
		if (!sr_load(&set->ready) && !members)
			return 0;	/* all are armed by now */
		n = sr_epoll_collect(set, w->epfd, ev, max,
				     SR_EPOLL_POLL | SR_EPOLL_SPIN);
		if (!n && (members || i % ASK == 0))
			n = spin_ask_kernel(w, ev, max);
		if (n)
			return n;
		if (was_signalled(w))
			return -EINTR;
		if (sr_held.off)
			return 0;	/* spin_for_events() lets the handler run */
		now = sr_now_ns();
		if (sr_spin_stolen(&set->spin, limit, now - last) ||
		    now - w->start >= limit || now >= w->deadline)
			return 0;
		last = now;
		sr_relax();
	}
}

static int spin_for_events(struct wait *w, struct epoll_event *ev, int max)
{
	struct sr_epoll *set = w->set;
	bool members;
	int n;

	if (w->start || !sr_load(&set->linked))
		return 0;
	members = sr_epoll_has_linked_members(set);
	if (!members && !sr_epoll_has_links(set))
		return 0;
	pthread_testcancel();	/* as in sr_stream_recv() */
	w->start = sr_now_ns();
	if (!sr_spin_pays(&set->spin, sr_conf.spin_us * 1000ull,
			  sr_epoll_same_core(set, w->epfd)))
		return 0;
	sr_hold();	/* for the sake of set->spinning */
	n = 0;
	if (!atomic_exchange_explicit(&set->spinning, true, memory_order_relaxed)) {
		n = spin_on(w, members, ev, max);
		sr_store(&set->spinning, false);
	}
	sr_release();
	return n;
}

static void before_wait(struct wait *w)
{
	say_members(w->set);
	if (w->ms)
		sr_links_before_wait();
}

/* Nothing is listed that is ready.  Asks the kernel, and sleeps there if need be. */
static int wait_on(struct wait *w, struct epoll_event *ev, int max)
{
	struct sr_epoll *set = w->set;
	int n;

	/* What is ready at once need not pay for the time. */
	if (!w->deadline)
		w->deadline = deadline_ms(w->ms);
	do {
		before_wait(w);
		n = w->ms ? spin_for_events(w, ev, max) : 0;
		/* Whatever is polled is armed before the sleep. */
		if (!n && w->ms)
			n = sr_epoll_collect(set, w->epfd, ev, max, 0);
		if (!n)
			n = ask_kernel(w, ev, 0, max, w->ms);
		/* A stream that has just returned to TCP would be in both answers. */
		if (!n)
			n = sr_epoll_collect(set, w->epfd, ev, max, SR_EPOLL_POLL);
		if (!n && w->ms && was_signalled(w))
			n = -EINTR;
	} while (!n && w->ms &&
		 (w->deadline == UINT64_MAX || sr_now_ns() < w->deadline));
	if (n > 0 && w->start)
		sr_spin_learn(&set->spin, sr_conf.spin_us * 1000ull,
			      sr_now_ns() - w->start);
	return n;
}

/* Removes those of the r events behind the first n whose data one of the first n has, too, and adds
 * their events to that one.  Returns how many of the r are left. */
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

/* The kernel gets half of the room.  If there is room for one event only, the kernel and the list
 * take turns. */
static int wait_due(struct wait *w, struct epoll_event *ev, int max)
{
	int n, r, room = (max + (int)(add_to_count(&w->set->turns, 1) & 1)) / 2;
	int linked = sr_load(&w->set->linked);

	n = sr_epoll_collect(w->set, w->epfd, ev, room, SR_EPOLL_POLL);
	r = ask_kernel(w, ev + n, n, max - n, false);
	/* A stream that returned to TCP in between is in both. */
	if (n && r > 0 && sr_load(&w->set->linked) < linked)
		r = without_twice(ev, n, r);
	return r > 0 || !n ? n + r : n;
}

__attribute__((noinline)) static int wait_slow(struct wait *w, bool due,
					       struct epoll_event *ev, int max)
{
	int n = 0, err = errno;

	last_used = w->set;
	w->handled = sr_handled.all;
	if (due)
		n = wait_due(w, ev, max);
	if (!n && (w->ms || kernel_may_know(w->set) || w->lists))
		n = wait_on(w, ev, max);
	if (w->ms)	/* it may have slept */
		sr_store(&w->set->left, coarse_now());
	errno = n < 0 ? -n : err;
	return n < 0 ? -1 : n;
}

/* What is listed, unless the kernel is due. */
static inline int wait_ready(struct sr_epoll *set, int epfd, struct epoll_event *ev,
			     int max, bool *due)
{
	int ready = sr_load(&set->ready);
	bool knows;
	long now;

	if (!ready)
		return 0;
	pthread_testcancel(); /* as in sr_stream_recv() */
	knows = kernel_may_know(set);
	if (knows || ready > 1) {	/* else there is no order to keep */
		now = note_pace(set);
		*due = knows && is_due(set, now);
	}
	return *due ? 0 : sr_epoll_collect(set, epfd, ev, max, SR_EPOLL_POLL);
}

/* The kernel alone serves the call if the set does not count as linked, or if no entry is listed and
 * the call does not sleep.  A nested set is different: another thread may just have drained a
 * doorbell, and not have listed the entry when this call looked.  So wait_on() looks at the list
 * again after it has asked the kernel. */
int sr_epoll_wait_ms(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     int ms, const sigset_t *mask)
{
	uint64_t deadline = 0, begun;
	bool due = false, lists = false;
	int r;

	if (sr_load(&set->ready) ||
	    (sr_load(&set->linked) &&
	     (ms || sr_epoll_is_shared(set) || sr_epoll_is_nested(set)))) {
		r = wait_ready(set, epfd, ev, max, &due);
		if (r)
			return r;
		goto slow;
	}
	if (ms > 0)
		deadline = deadline_ms(ms);
	/* pair sleepers: wake_set() in ready.c */
	begun = add_to_count(&set->sleepers, SR_EPOLL_CALL + 1);
	if (sr_look(&set->ready)) {
		add_to_count(&set->sleepers, -1ull);
		goto slow;
	}
	sr_cancel_asks = set;
	r = sr_real.epoll_pwait(epfd, ev, max, ms, mask);
	add_to_count(&set->sleepers, -1ull);
	note_drained(set, begun, r, max);
	if (r > 0) {
		r = sift_tokens(set, epfd, ev, 0, r);
		sr_cancel_asks = NULL;
		last_used = set;
		lists = !r;
		if (lists)
			goto slow;
		return r;
	}
	sr_cancel_asks = NULL;
	return r;
slow:
	return wait_slow(&(struct wait){ .set = set, .epfd = epfd, .mask = mask,
					 .ms = ms, .deadline = deadline, .lists = lists },
			 due, ev, max);
}

void sr_epoll_note_made(const struct sr_epoll *set)
{
	if (!last_used)
		last_used = set;
}

const struct sr_epoll *sr_epoll_domain(struct sr_stream *st, bool *nested)
{
	struct sr_epoll *set = NULL;
	struct sr_epoll_entry *e;

	*nested = false;
	sr_lock(&st->sets.lock);
	for (e = sr_epoll_entries(st); e; e = e->next_of_stream) {
		set = sr_epoll_set_of(e);	/* the last one is the oldest */
		*nested |= sr_epoll_is_nested(set);
	}
	sr_unlock(&st->sets.lock);
	return set ? set : last_used;
}
