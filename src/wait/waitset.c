/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waitset.c - the wait engine (waitset.h).  It owns the sleep of every call on
 * streams, and leaves to plan.c what each stream can do and whether the kernel
 * must be asked.
 *
 * A set whose gates are all open sleeps in the kernel's poll as it is.  It is
 * counted at the rx gates, so that a switch finds at most one sleeper, and the
 * mark wakes that one.
 *
 * Locks: none of its own; none is held during a sleep.
 */
#include "base/real.h"

#include <errno.h>
#include <fcntl.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/fdtab.h"
#include "engine/waiters.h"
#include "wait/waitset.h"

static size_t plan_all(struct sr_waitset *s, bool *shut)
{
	size_t i, ready = 0;

	*shut = false;
	for (i = 0; i < s->n; i++) {
		ready += sr_waitset_plan(&s->e[i]);
		*shut |= s->e[i].shut;
	}
	return ready;
}

static void drop_all(struct sr_waitset *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
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

static void disarm(struct sr_waitset *s);
static bool leave_gates(struct sr_waitset *s);

/* Sleeping is a cancellation point: a cancelled thread disarms its links,
 * leaves the gates and returns its waiter to the pool. */
static void cancelled(struct sr_waitset *volatile *sleeping)
{
	struct sr_waitset *s = *sleeping;

	if (!s)
		return;
	if (s->armed)
		disarm(s);
	else
		leave_gates(s);
	sr_waitset_done(s);
	*sleeping = NULL;
}

static void abandoned(void *sleeping)
{
	/* sr_waiter_wait_word() */
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	cancelled(sleeping);
}

static bool signalled(const struct sr_waitset *s)
{
	return sr_handled.all != s->handled;
}

static int interrupted(void)
{
	errno = EINTR;
	return -1;
}

/* A handler that was put off during the call runs when the window opens, and
 * then ends the sleep. */
static int kernel_poll(struct sr_waitset *s, bool sleep)
{
	__attribute__((cleanup(cancelled))) struct sr_waitset
		*volatile sleeping = s;
	bool for_ever = sleep && s->deadline == UINT64_MAX;
	struct timespec t = { 0, 0 };
	struct sr_window w;
	uint64_t now;
	int r;

	if (!sleep && !s->sigmask) {
		sleeping = NULL;
		return sr_now_poll(s->k, s->kn);
	}
	if (sleep && !for_ever && s->deadline > (now = sr_now_ns()))
		t = sr_timespec(s->deadline - now);
	sr_window_open(&w, abandoned, (void *)&sleeping);
	r = sleep && signalled(s) ? interrupted() :
		sr_real.ppoll(s->k, s->kn, for_ever ? NULL : &t, s->sigmask);
	sr_window_close(&w);
	sleeping = NULL;
	return r;
}

static bool asked(const struct sr_waitset_entry *e)
{
	return !e->st || !e->shut || e->kernel || e->ends;
}

static void fill(struct sr_waitset *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		s->k[i].fd = asked(e) ? e->fd : -1;
		s->k[i].events = sr_waitset_asks(e);
		s->k[i].revents = 0;
	}
	s->kn = s->n;
}

/* All gates were open: did one shut while we slept?  Then the kernel's answer
 * for that stream has to be examined again. */
static bool leave_gates(struct sr_waitset *s)
{
	bool shut = false;
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		if (!e->st)
			continue;
		if (e->counted && !sr_rx_gate_leave(e->st, 1))
			sr_rx_gate_leave_shut(e->st, 1);
		e->counted = false;
		if (s->k[i].revents && (sr_gate_shut(&e->st->in.gate) ||
					sr_gate_shut(&e->st->out.gate)))
			shut = true;
	}
	return shut;
}

static bool enter_gates(struct sr_waitset *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		if (!e->st || !(e->events & SR_IN_EVENTS))
			continue;
		e->counted = sr_rx_gate_enter(e->st, 1, false);
		if (!e->counted) {
			leave_gates(s);
			return false;
		}
	}
	return true;
}

/* ---- sleeping with links in the set ---- */

/* Returns the place of fd in the kernel's array.  Neighbours may share one: the
 * directions of a link, or the links of a device. */
static int slot(struct sr_waitset *s, size_t mine, int fd)
{
	if (fd < 0)
		return -1;
	if (s->kn > mine + 1 && s->k[s->kn - 1].fd == fd)
		return (int)s->kn - 1;
	s->k[s->kn].fd = fd;
	s->k[s->kn].events = POLLIN;
	s->k[s->kn].revents = 0;
	return (int)s->kn++;
}

/* The poll finds what arrived before the link was armed; a later arrival wakes us. */
static int arm_link(struct sr_link *link, unsigned want)
{
	int fd;

	if (!link)
		return -1;
	fd = link->ops->arm(link, want);
	link->ops->poll(link);
	return fd;
}

/* Even an entry that asks for no events is woken by the stream's end. */
static unsigned wanted(const struct sr_waitset_entry *e)
{
	unsigned want = (e->events & SR_IN_EVENTS ? SR_NOTIFY_RX : 0) |
			(e->events & SR_OUT_EVENTS ? SR_NOTIFY_TX : 0);

	return want ? want : SR_NOTIFY_RX | SR_NOTIFY_TX;
}

static void arm(struct sr_waitset *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		if (!e->st)
			continue;
		e->node = s->nodes ? &s->nodes[i] : &s->waiter->node[i];
		e->node->waiter = s->waiter;
		e->node->want = wanted(e);
		sr_wait_attach(e->st, e->node);
		e->rx_armed = e->rx_link;
		e->tx_armed = e->tx_link;
		e->rx_link = e->tx_link = NULL;
		e->rx_fd = arm_link(e->rx_armed, SR_NOTIFY_RX);
		e->tx_fd = arm_link(e->tx_armed, SR_NOTIFY_TX);
	}
}

static void awake(struct sr_waitset *s, struct sr_link **link, int at, unsigned want)
{
	if (!*link)
		return;
	(*link)->ops->awake(*link, want, at >= 0 && s->k[at].revents);
	sr_link_put(*link);
	*link = NULL;
}

static void disarm(struct sr_waitset *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		if (!e->st)
			continue;
		sr_wait_detach(e->st, e->node);
		awake(s, &e->rx_armed, e->rx_slot, SR_NOTIFY_RX);
		awake(s, &e->tx_armed, e->tx_slot, SR_NOTIFY_TX);
		sr_waitset_drop_links(e);
	}
}

#define NAP_NS 10000000u

static uint64_t sooner(uint64_t deadline)
{
	uint64_t soon = sr_now_ns() + NAP_NS;

	return soon < deadline ? soon : deadline;
}

/* Did a direction move to its link between our two looks at it?  That link is
 * not armed yet. */
static bool unarmed(struct sr_waitset *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		if ((e->rx_link && e->rx_link != e->rx_armed) ||
		    (e->tx_link && e->tx_link != e->tx_armed))
			return true;
	}
	return false;
}

static bool nothing_to_poll(struct sr_waitset *s, size_t mine)
{
	size_t i;

	for (i = 0; i < s->kn; i++)
		if (i != mine && s->k[i].fd >= 0)
			return false;
	return true;
}

/* Sleeps where only a notification can wake us, or the one link by its futex word. */
static int wait_called(struct sr_waitset *s, struct sr_link *link, unsigned want)
{
	__attribute__((cleanup(cancelled))) struct sr_waitset
		*volatile sleeping = s;
	struct sr_window w;
	int r;

	sr_window_open(&w, abandoned, (void *)&sleeping);
	if (signalled(s))
		r = interrupted();
	else if (link)
		r = sr_waiter_wait_word(s->waiter, link->ops->futex(link, want), want,
				   s->deadline);
	else
		r = sr_waiter_wait(s->waiter, s->deadline);
	sr_window_close(&w);
	sleeping = NULL;
	sr_waiter_awake(s->waiter, false);
	return r;
}

/* The link that is all a set of one entry waits for, if it has a futex word. */
static struct sr_link *only_link(struct sr_waitset *s, unsigned *want)
{
	struct sr_waitset_entry *e = &s->e[0];
	struct sr_link *link = e->rx_armed ? e->rx_armed : e->tx_armed;

	if (s->n != 1 || !link || !link->ops->futex ||
	    (e->rx_armed && e->tx_armed) || s->k[0].fd >= 0)
		return NULL;
	*want = e->rx_armed ? SR_NOTIFY_RX : SR_NOTIFY_TX;
	return link;
}

static int poll_or_sleep(struct sr_waitset *s, bool sleep)
{
	return sleep ? kernel_poll(s, true) : sr_now_poll(s->k, s->kn);
}

/* Notifications come by the waiter's eventfd, at the place `mine`.  The sleep
 * is short and repeated if they cannot come that way: if no eventfd could be
 * made, or if the array with it and the links' descriptors exceeds
 * RLIMIT_NOFILE, which the program's own entries do not. */
static int poll_called(struct sr_waitset *s, size_t mine, bool sleep)
{
	uint64_t deadline = s->deadline;
	int r, fd = sleep ? sr_waiter_fd(s->waiter) : -1;

	s->k[mine] = (struct pollfd){ fd, POLLIN, 0 };
	if (sleep && fd < 0)
		s->deadline = sooner(deadline);
	sleep = sleep && sr_waiter_sleeping(s->waiter);
	r = poll_or_sleep(s, sleep);
	if (r < 0 && errno == EINVAL) {
		s->kn = s->n;
		s->deadline = sooner(deadline);
		r = poll_or_sleep(s, sleep);
	}
	s->deadline = deadline;
	sr_waiter_awake(s->waiter, r > 0 && s->k[mine].revents);
	return r;
}

/* Arms the links, looks again, sleeps, disarms.  Returns what ppoll() returns. */
static int sleep_armed(struct sr_waitset *s)
{
	bool shut, sleep;
	size_t i, ready, mine;
	struct sr_link *link;
	unsigned want = 0;
	int r, err;

	if (!s->waiter)
		s->waiter = sr_waiter_get();
	if (!s->waiter) {
		errno = ENOMEM;
		return -1;
	}
	atomic_store(&s->waiter->state, 0);
	arm(s);
	s->armed = true;
	ready = plan_all(s, &shut);
	fill(s);
	mine = s->kn++;
	for (i = 0; i < s->n; i++) {
		s->e[i].rx_slot = slot(s, mine,
				       s->e[i].rx_armed ? s->e[i].rx_fd : -1);
		s->e[i].tx_slot = slot(s, mine,
				       s->e[i].tx_armed ? s->e[i].tx_fd : -1);
	}
	sleep = !ready && !unarmed(s);
	link = only_link(s, &want);
	if (sleep && !s->sigmask && (link || nothing_to_poll(s, mine)))
		r = wait_called(s, link, want);
	else
		r = poll_called(s, mine, sleep);
	err = errno;
	for (i = 0; r < 0 && i < s->kn; i++)
		s->k[i].revents = 0;
	disarm(s);
	s->armed = false;
	errno = err;
	return r;
}

/* ---- spinning ---- */

/* The spin state of a wait on several descriptors belongs to the thread, as
 * such a wait is an event loop's. */
static struct sr_spin *spin_of(struct sr_waitset *s)
{
	static __thread struct sr_spin several;

	return s->n == 1 ? &s->e[0].st->spin : &several;
}

/* Polls all links of the set; returns false if there is none.  *kernel: the
 * kernel has to be asked for some of the rest. */
static bool poll_links(struct sr_waitset *s, bool *kernel)
{
	bool links = false;
	size_t i;

	*kernel = false;
	for (i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		*kernel |= e->fd >= 0 && asked(e);
		if (e->rx_link)
			e->rx_link->ops->poll(e->rx_link);
		if (e->tx_link && e->tx_link != e->rx_link)
			e->tx_link->ops->poll(e->tx_link);
		links |= e->rx_link || e->tx_link;
	}
	return links;
}

/* Do the peers of all links of the set run on this core?  There is a link. */
static bool same_core(struct sr_waitset *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct sr_waitset_entry *e = &s->e[i];

		if ((e->rx_link || e->tx_link) && !sr_stream_same_core(e->st))
			return false;
	}
	return true;
}

/* Spins.  Returns 1 if a stream or the kernel has something, -1 with errno for
 * a signal, or 0.  A sigmask that lets a signal in needs a system call. */
static int spin(struct sr_waitset *s)
{
	uint64_t now, last = s->start, limit = sr_conf.spin_us * 1000ull;
	struct sr_spin *sp = spin_of(s);
	bool shut, kernel;
	int r;

	if (!s->deadline || !poll_links(s, &kernel) ||
	    !sr_spin_pays(sp, limit, same_core(s)))
		return 0;
	for (;;) {
		if (plan_all(s, &shut))
			return 1;
		if (signalled(s))
			return interrupted();
		if (sr_held.off)
			return 0;	/* the sleep lets it in */
		if (kernel || s->sigmask) {
			fill(s);
			r = kernel_poll(s, false);
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

/* A stream is ready: asks ppoll for the other entries, without the mask.  A
 * signal that the mask would let in stays pending if there is something to
 * return. */
static int ask_the_rest(struct sr_waitset *s)
{
	return nothing_to_poll(s, s->kn) ? 0 : sr_now_poll(s->k, s->kn);
}

/* Teaches the spin how long this wait on links took. */
static void learn(struct sr_waitset *s)
{
	if (s->start)
		sr_spin_learn(spin_of(s), sr_conf.spin_us * 1000ull,
			      sr_now_ns() - s->start);
}

void sr_waitset_clock(struct sr_waitset *s)
{
	const struct timespec *t = s->timeout;

	if (!t)
		return;
	s->timeout = NULL;
	s->deadline = sr_deadline_ns((uint64_t)t->tv_sec, (uint64_t)t->tv_nsec);
}

static int result(struct sr_waitset *s, struct pollfd *fds, short *one)
{
	size_t i;
	int count = 0;

	for (i = 0; i < s->n; i++) {
		short r = sr_waitset_answer(&s->e[i], s->k[i].revents);

		if (fds)
			fds[i].revents = r;
		else
			*one = r;
		count += r != 0;
	}
	return count;
}

int sr_waitset_wait(struct sr_waitset *s, struct pollfd *fds, short *one)
{
	bool shut;
	int r, count;

	for (;;) {
		size_t ready = plan_all(s, &shut);

		if (!ready || !shut)
			sr_waitset_clock(s);
		if (!shut) {
			drop_all(s);
			shut = !enter_gates(s);
		}
		if (!shut) {
			fill(s);
			r = kernel_poll(s, true);
			if (leave_gates(s) && r > 0)
				continue;
			if (r < 0)
				return r;
			return result(s, fds, one);
		}
		if (!ready && !s->start && s->deadline) {
			s->start = sr_now_ns();
			r = spin(s);
			if (r < 0)
				return r;
			if (r > 0)
				continue;
		}
		if (ready)
			learn(s);
		if (ready || !s->deadline) {
			drop_all(s);
			fill(s);
			r = ready ? ask_the_rest(s) : kernel_poll(s, false);
			if (r < 0)
				return r;
			return result(s, fds, one);
		}
		r = sleep_armed(s);
		if (r < 0)
			return r;
		/* Our events may have changed: looks again, and keeps the
		 * kernel's answer. */
		plan_all(s, &shut);
		drop_all(s);
		count = result(s, fds, one);
		if (count) {
			learn(s);
			return count;
		}
		if (signalled(s))
			return interrupted();
		if (s->deadline != UINT64_MAX && sr_now_ns() >= s->deadline)
			return 0;
	}
}
