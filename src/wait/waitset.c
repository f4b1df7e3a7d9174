/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waitset.c - the wait engine (waitset.h).  It owns the sleep of every call on
 * streams, and leaves to plan.c what each stream can do and whether the kernel
 * must be asked.
 *
 * A set whose gates are all open sleeps in the kernel's poll(2) on the program's
 * descriptors.  It enters the rx gates, each of which lets in one sleeper.  So when
 * a direction switches, one thread at most sleeps on its anchor, and the mark wakes
 * that thread.
 *
 * Locks: none of its own; none is held during a sleep.
 */
#include "base/real.h"

#include <errno.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"
#include "wait/waitset.h"

#define NAP_NS 10000000u	/* a sleep of a wait that cannot be woken */

static size_t move_all_on(struct sr_waitset *s, bool *shut)
{
	size_t ready = 0;

	*shut = false;
	for (size_t i = 0; i < s->n; i++) {
		ready += sr_waitset_move_on(&s->e[i]);
		*shut |= s->e[i].plan.shut;
	}
	return ready;
}

static void drop_all(struct sr_waitset *s)
{
	for (size_t i = 0; i < s->n; i++)
		sr_waitset_drop_links(&s->e[i]);
}

/* ---- the kernel's part ---- */

void sr_waitset_done(struct sr_waitset *s)
{
	drop_all(s);
	if (s->waiter)
		sr_waiter_put(s->waiter);
	s->waiter = NULL;
}

void sr_waitset_free(struct sr_waitset *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->e[i].st)
			sr_stream_put(s->e[i].st);
	if (s->memory)
		sr_waitset_space_put(s->memory);
}

static bool kernel_is_asked(const struct sr_waitset_entry *e)
{
	return !e->st || !e->plan.shut || e->plan.kernel || e->plan.ends;
}

/* Is the kernel to be asked for any entry? */
static bool waitset_fill(struct sr_waitset *s)
{
	bool any = false;

	for (size_t i = 0; i < s->n; i++) {
		s->k[i] = (struct pollfd){ kernel_is_asked(&s->e[i]) ? s->e[i].fd : -1,
					   sr_waitset_asks(&s->e[i]), 0 };
		any |= s->k[i].fd >= 0;
	}
	return any;
}

static void leave_gate(struct sr_waitset_entry *e)
{
	if (e->counted && !sr_rx_gate_leave(e->st))
		sr_rx_gate_leave_shut(e->st);
	e->counted = false;
}

/* All gates were open: did one shut while we slept?  Then the kernel's answer
 * for that stream has to be examined again. */
static bool leave_gates(struct sr_waitset *s)
{
	bool shut = false;

	for (size_t i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		if (!e->st)
			continue;
		leave_gate(e);
		shut |= s->k[i].revents && sr_any_gate_shut(e->st);
	}
	return shut;
}

static bool enter_gates(struct sr_waitset *s)
{
	struct sr_waitset_entry *e;

	for (e = s->e; e < s->e + s->n; e++) {
		if (!e->st || !(e->events & SR_IN_EVENTS))
			continue;
		e->counted = sr_rx_gate_enter(e->st, false);
		if (!e->counted) {
			while (e > s->e)
				leave_gate(--e);
			return false;
		}
	}
	return true;
}

/* ---- sleeping ---- */

static void await_listener(struct sr_stream *socket, bool awaits)
{
	sr_count(&sr_listener_of(socket)->awaiting, awaits ? 1 : -1);
	if (awaits)
		sr_listener_awaited(socket);
}

/* Tells the listeners of the set that this thread waits for them, or no longer does. */
static void await_listeners(struct sr_waitset *s, bool awaits)
{
	for (size_t i = 0; s->awaits != awaits && i < s->n; i++)
		if (s->e[i].st && (sr_st_flags(s->e[i].st) & SR_ST_LISTEN))
			await_listener(s->e[i].st, awaits);
	s->awaits = awaits;
}

/* Sleeping is a cancellation point: a cancelled thread disarms its links,
 * leaves the gates and returns its waiter to the pool. */
static void waitset_abandoned(void *arg)
{
	struct sr_waitset *s = arg;

	/* sr_waiter_wait() */
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	await_listeners(s, false);
	if (s->armed)
		sr_waitset_disarm(s);
	else
		leave_gates(s);
	sr_waitset_done(s);
	sr_waitset_free(s);
}

static bool is_waitset_signalled(const struct sr_waitset *s)
{
	return sr_handled.all != s->handled;
}

/* Is it a poll that began with sr_fast_poll_all(), while SOCKRAIL_UNASKED_US is set? */
static bool is_begun_fast(const struct sr_waitset *s)
{
	return sr_conf.unasked_us && s->program_polls && !s->sigmask;
}

/* A poll(2) of the program sleeps in the next library's function, which may change its timeout
 * (libfaketime).  Other calls sleep in the C library's. */
static int call_ppoll(struct sr_waitset *s, const struct timespec *limit)
{
	const struct sr_real *libc = s->program_polls ? &sr_real : &sr_libc;
	int r = libc->ppoll(s->k, s->kn, limit, s->sigmask);

	if (is_begun_fast(s))
		sr_kernel_asked();
	return r < 0 ? -errno : r;
}

/* Sleeps until `until` (ns; 0: not at all).  If a handler was put off during the call, it runs
 * when the window opens, and the call does not sleep. */
SR_WINDOW_FRAME
static int sleep_until(struct sr_waitset *s, bool in_poll, uint64_t until)
{
	bool for_ever = until == UINT64_MAX;
	uint64_t now = until && !for_ever ? sr_now_ns() : 0;
	struct timespec t = sr_timespec(until > now ? until - now : 0);
	struct sr_window w;
	int r;

	if (s->listens && until)
		await_listeners(s, true);
	sr_window_open(&w, waitset_abandoned, s);
	if (until && is_waitset_signalled(s)) {
		r = -EINTR;
	} else if (!in_poll) {
		r = sr_waiter_wait(s->waiter, s->word, s->word_want, until);
	} else {
		r = call_ppoll(s, for_ever ? NULL : &t);
		if (!r && until && until == s->deadline)
			s->deadline = 1;	/* over, whatever our clock says */
	}
	sr_window_close(&w);
	if (s->awaits)
		await_listeners(s, false);
	return r;
}

/* Polls the program's own entries only: with the links' descriptors there may be more entries
 * than RLIMIT_NOFILE allows. */
static int waitset_look(struct sr_waitset *s)
{
	int r = sr_now_poll(s->k, s->n);

	if (is_begun_fast(s))
		sr_kernel_asked();
	return r < 0 ? -errno : r;
}

/* May the kernel's descriptors stay unasked, if others are ready? */
static bool may_leave(const struct sr_waitset *s)
{
	return is_begun_fast(s) && sr_may_leave_unasked();
}

/* Polls without sleeping, but lets in the signals that sigmask allows. */
static int poll_without_sleep(struct sr_waitset *s)
{
	return s->sigmask ? sleep_until(s, true, 0) : waitset_look(s);
}

/* Fills s->k for a sleep in poll(2).  But if the set has one stream, which waits for one link with
 * a futex word, stores that word in s->word and returns true: the thread sleeps on it. */
static bool find_futex_word(struct sr_waitset *s)
{
	struct sr_waitset_entry *e = s->e;
	int way = e->armed[0] ? 0 : 1;
	struct sr_link *link = e->armed[way];

	bool chained = s->program_polls && sr_real.ppoll != sr_libc.ppoll;

	if (waitset_fill(s) || s->sigmask || chained || s->n != 1 || !link ||
	    !link->ops->futex || (way == 0 && e->armed[1]))
		return false;
	s->word_want = 1u << way;
	s->word = link->ops->futex(link, s->word_want);
	return s->word;
}

static uint64_t nap_end(uint64_t deadline)
{
	uint64_t soon = sr_now_ns() + NAP_NS;

	return soon < deadline ? soon : deadline;
}

/* Notifications come by the waiter's eventfd.  If no eventfd can be made, or if it and the
 * links' descriptors are too many (waitset_look()), the sleep is short and repeated. */
static int sleep_in_poll(struct sr_waitset *s)
{
	int r, fd = sr_waiter_fd(s->waiter);

	s->k[s->n].fd = fd;
	if (!sr_waiter_sleeping(s->waiter))
		return waitset_look(s);
	r = sleep_until(s, true, fd < 0 ? nap_end(s->deadline) : s->deadline);
	if (r == -EINVAL) {
		s->kn = s->n;
		r = sleep_until(s, true, nap_end(s->deadline));
	}
	return r;
}

/*
 * Arms the links, looks again, sleeps, disarms.
 *
 * A call on one stream (one_call) sleeps on the anchor, and not on the program's descriptor,
 * even if the stream is plain: another thread may close that number and get it back for
 * another socket.  When poll(2) wakes, it looks the number up again, so an event of the old
 * socket would not end the sleep.
 */
static int sleep_armed(struct sr_waitset *s)
{
	struct pollfd *mine = &s->k[s->n];
	bool shut;
	int r;

	if (!s->waiter)
		s->waiter = sr_waiter_get();
	if (!s->waiter) {	/* there is no memory: this thread cannot be woken */
		drop_all(s);
		waitset_fill(s);
		return sleep_until(s, true, nap_end(s->deadline));
	}
	sr_store(&s->waiter->state, 0);
	sr_waitset_arm(s);
	if (s->one_call)
		s->e->fd = sr_load(&s->e->st->anchor);
	*mine = (struct pollfd){ -1, POLLIN, 0 };
	if (move_all_on(s, &shut) || sr_waitset_has_unarmed(s)) {
		waitset_fill(s);
		r = waitset_look(s);
	} else {
		r = find_futex_word(s) ? sleep_until(s, false, s->deadline) : sleep_in_poll(s);
	}
	if (s->armed) {
		sr_waiter_awake(s->waiter, mine->revents);
		sr_waitset_disarm(s);
	}
	return r;
}

/* ---- spinning ---- */

/* A wait on one stream uses the stream's averages, a wait on several descriptors the
 * thread's, because an event loop is likely to be waiting. */
static struct sr_spin *spin_of(struct sr_waitset *s)
{
	static __thread struct sr_spin several;

	return s->n == 1 ? &s->e[0].st->waits.spin : &several;
}

/* Polls all links of the set; returns false if there is none.  *kernel: there are
 * entries for which the kernel has to be asked. */
static bool poll_links(struct sr_waitset *s, bool *kernel)
{
	struct sr_waitset_entry *e;
	bool links = false;

	*kernel = false;
	for (e = s->e; e < s->e + s->n; e++) {
		*kernel |= e->fd >= 0 && kernel_is_asked(e);
		if (e->link[0])
			e->link[0]->ops->poll(e->link[0]);
		if (e->link[1] && e->link[1] != e->link[0])
			e->link[1]->ops->poll(e->link[1]);
		links |= e->link[0] || e->link[1];
	}
	return links;
}

/* Do the peers of all links of the set run on this core?  The set has a link. */
static bool same_core(struct sr_waitset *s)
{
	struct sr_waitset_entry *e;

	for (e = s->e; e < s->e + s->n; e++)
		if ((e->link[0] || e->link[1]) && !sr_stream_same_core(e->st))
			return false;
	return true;
}

/* Spins.  Returns 1 if a stream or the kernel has something, -EINTR for a signal, or 0.
 * A sigmask that lets a signal in needs a system call. */
static int waitset_spin(struct sr_waitset *s)
{
	uint64_t now, last = s->start, limit = sr_conf.spin_us * 1000ull;
	struct sr_spin *sp = spin_of(s);
	bool shut, kernel;
	int r;

	if (!s->deadline || !poll_links(s, &kernel) ||
	    !sr_spin_pays(sp, limit, same_core(s)))
		return 0;
	for (;;) {
		if (move_all_on(s, &shut))
			return 1;
		if (is_waitset_signalled(s))
			return -EINTR;
		if (sr_held.off)
			return 0;	/* the sleep lets the signal in */
		if ((kernel && !may_leave(s)) || s->sigmask) {
			waitset_fill(s);
			r = poll_without_sleep(s);
			if (r)
				return r;
		}
		now = sr_now_ns();
		if (sr_spin_stolen(sp, limit, now - last) ||
		    now - s->start >= limit || now >= s->deadline)
			return 0;
		last = now;
		sr_relax();
		poll_links(s, &kernel);
	}
}

/* Teaches the spin how long this wait on links took. */
static void waitset_learn(struct sr_waitset *s)
{
	if (s->start)
		sr_spin_learn(spin_of(s), sr_conf.spin_us * 1000ull,
			      sr_now_ns() - s->start);
}

static int waitset_result(struct sr_waitset *s, struct pollfd *fds)
{
	int count = 0;

	for (size_t i = 0; i < s->n; i++) {
		fds[i].revents = sr_waitset_answer(&s->e[i], s->k[i].revents);
		count += fds[i].revents != 0;
	}
	return count;
}

/* Waits while all gates are open.  *again: one was shut meanwhile, plan again. */
static int wait_in_kernel(struct sr_waitset *s, bool *again)
{
	int r;

	waitset_fill(s);
	r = sleep_until(s, true, s->deadline);
	*again = leave_gates(s) && r > 0;
	return r;
}

/* Some entries are ready, or the call must not sleep.  Asks the kernel for the other entries,
 * without sleeping. */
static int answer_now(struct sr_waitset *s, struct pollfd *fds, bool ready)
{
	bool asks;
	int r = 0;

	drop_all(s);
	asks = waitset_fill(s) && !may_leave(s);
	/* A signal that the mask would let in stays pending if there is something to return. */
	if (!ready)
		r = poll_without_sleep(s);
	else if (asks)
		r = waitset_look(s);
	return r < 0 ? r : waitset_result(s, fds);
}

/* Our events may have changed: looks again, and keeps the kernel's answer. */
static int answer_after_sleep(struct sr_waitset *s, struct pollfd *fds)
{
	bool shut;
	int r;

	move_all_on(s, &shut);
	drop_all(s);
	r = waitset_result(s, fds);
	if (r)
		waitset_learn(s);
	else if (is_waitset_signalled(s))
		r = -EINTR;
	return r;
}

static bool is_time_over(const struct sr_waitset *s)
{
	return s->deadline != UINT64_MAX && sr_now_ns() >= s->deadline;
}

int sr_waitset_wait(struct sr_waitset *s, struct pollfd *fds)
{
	bool shut, again;
	size_t ready;
	int r;

	for (;;) {
		s->kn = s->n;
		ready = move_all_on(s, &shut);
		if (!ready && s->deadline)
			sr_links_before_wait();
		if (!shut)
			drop_all(s);
		if (!shut && !s->one_call && enter_gates(s)) {
			r = wait_in_kernel(s, &again);
			if (again)
				continue;
			return r < 0 ? r : waitset_result(s, fds);
		}
		if (!ready && !s->start && s->deadline) {
			s->start = sr_now_ns();
			r = waitset_spin(s);
			if (r < 0)
				return r;
			if (r > 0)
				continue;
		}
		if (ready)
			waitset_learn(s);
		if (ready || !s->deadline)
			return answer_now(s, fds, ready);
		r = sleep_armed(s);
		if (r >= 0)
			r = answer_after_sleep(s, fds);
		if (r || is_time_over(s))
			return r;
	}
}
