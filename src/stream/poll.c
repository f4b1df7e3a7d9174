/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.c - the one wait engine: poll(2) over streams and other descriptors, and
 * the sleep of a blocking call, which is a poll of one stream.
 *
 * Each direction of each stream is either the kernel's (gate open, or raw bytes
 * still due: ask the anchor) or ours (ask the link and the state).  plan()
 * works that out, under the direction's lock, and takes the opportunity to move
 * the direction on.  A set whose gates are all open sleeps in the kernel's poll
 * as it is, counted at the rx gates, so that a switch finds at most one sleeper
 * and the mark wakes that one.
 */
#include "base/real.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "shim/fdtab.h"
#include "stream/wait.h"

#define IN_EVENTS (POLLIN | POLLRDNORM | POLLRDHUP | POLLRDBAND | POLLPRI)
#define OUT_EVENTS (POLLOUT | POLLWRNORM | POLLWRBAND)

#define FEW SR_WAITER_NODES	/* a set of so many needs no allocation */

struct entry {
	struct sr_stream *st;	/* NULL: not a stream */
	int fd;
	short events;		/* what the program asked for */
	short ours;		/* what we know of without the kernel */
	short kernel;		/* what to ask the kernel for */
	short pass;		/* what of its answer is the program's */
	bool counted;		/* at the rx gate */
	bool shut;		/* one of the gates is */
	struct sr_link *rx_link, *tx_link;	/* to sleep on */
	struct sr_link *rx_armed, *tx_armed;
	int rx_fd, tx_fd;
	int rx_slot, tx_slot;	/* their places in the kernel's array, or -1 */
	struct sr_wait_node *node;
};

struct set {
	struct entry *e;
	size_t n;
	struct sr_waiter *waiter;
	struct sr_wait_node *nodes;	/* more than FEW: n of them */
	uint64_t deadline;	/* ns; UINT64_MAX none; 0 at once */
	const sigset_t *sigmask;
	struct pollfd *k;	/* n entries, then waiter, then links */
	size_t kn;
	bool armed;
	uint64_t start;		/* ns: when it began to wait on a link */
};

/* ---- what a stream can do now ---- */

static void plan_rx(struct entry *e)
{
	struct sr_stream *st = e->st;
	short in = e->events & IN_EVENTS;

	if (!sr_gate_shut(&st->rx_gate)) {
		e->kernel |= in;
		e->pass |= in;
		return;
	}
	pthread_mutex_lock(&st->rx_lock);
	sr_rx_progress(st);
	if (!sr_gate_shut(&st->rx_gate)) {
		e->kernel |= in;
		e->pass |= in;
		goto out;
	}
	e->shut = true;
	if (st->spill_len)
		e->ours |= POLLIN | POLLRDNORM;
	switch (st->rx.state) {
	case SR_RX_RAW:
	case SR_RX_EXPECT:
		/* With a sleeper of plain days in flight the anchor is its. */
		if (atomic_load(&st->rx_gate) & SR_GATE_COUNT)
			break;
		if (sr_rx_at_mark(&st->rx)) {
			e->kernel |= POLLIN;	/* for us, to move on */
		} else {
			e->kernel |= in;
			e->pass |= in;
		}
		break;
	case SR_RX_LINK:
		if (st->rx_link && (sr_link_events(st->rx_link) & SR_LINK_END))
			e->ours |= POLLIN | POLLRDNORM | POLLRDHUP;
		if (st->rx_link &&
		    sr_rx_ready(&st->rx, atomic_load(&st->rx_link->rx_h)) >=
			    (uint64_t)st->rcvlowat)
			e->ours |= POLLIN | POLLRDNORM;
		else if (st->rx_link && !e->rx_link)
			e->rx_link = sr_link_get(st->rx_link);
		break;
	case SR_RX_EOF:
		e->ours |= POLLIN | POLLRDNORM | POLLRDHUP;
		break;
	default:
		e->ours |= POLLIN | POLLRDNORM | POLLRDHUP | POLLHUP | POLLOUT |
			   POLLWRNORM;
		if (atomic_load(&st->so_error))
			e->ours |= POLLERR;
	}
	if (sr_st_flags(st) & SR_ST_RDSHUT)
		e->ours |= POLLIN | POLLRDNORM | POLLRDHUP;
out:
	pthread_mutex_unlock(&st->rx_lock);
}

static void plan_tx(struct entry *e)
{
	struct sr_stream *st = e->st;
	short out = e->events & OUT_EVENTS;
	struct iovec v[2];

	if (!sr_gate_shut(&st->tx_gate)) {
		e->kernel |= out;
		e->pass |= out;
		return;
	}
	pthread_mutex_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (!sr_gate_shut(&st->tx_gate)) {
		e->kernel |= out;
		e->pass |= out;
		goto unlock;
	}
	e->shut = true;
	if (st->broken || st->tx.ended || st->tx.state == SR_TX_DONE) {
		e->ours |= POLLOUT | POLLWRNORM;
		if (e->ours & POLLRDHUP)
			e->ours |= POLLHUP;
	} else if (st->tx.state == SR_TX_LINK && out) {
		size_t room = st->tx_link->ops->tx_room(st->tx_link, v);

		st->tx_link->ops->tx_commit(st->tx_link, 0, st->tx_held != 0);
		if (room)
			e->ours |= POLLOUT | POLLWRNORM;
		else if (!e->tx_link)
			e->tx_link = sr_link_get(st->tx_link);
	}
unlock:
	pthread_mutex_unlock(&st->tx_lock);
}

static void drop_links(struct entry *e)
{
	if (e->rx_link)
		sr_link_put(e->rx_link);
	if (e->tx_link)
		sr_link_put(e->tx_link);
	e->rx_link = e->tx_link = NULL;
}

/* True if there is something for the program already. */
static bool plan(struct entry *e)
{
	e->ours = e->kernel = e->pass = 0;
	e->shut = false;
	if (!e->st) {
		e->kernel = e->pass = e->events;
		return false;
	}
	plan_rx(e);
	plan_tx(e);
	e->ours &= e->events | POLLERR | POLLHUP;
	return e->ours;
}

static size_t plan_all(struct set *s, bool *shut)
{
	size_t i, ready = 0;

	*shut = false;
	for (i = 0; i < s->n; i++) {
		ready += plan(&s->e[i]);
		*shut |= s->e[i].shut;
	}
	return ready;
}

/* ---- the kernel's part ---- */

static void disarm(struct set *s);
static bool leave_gates(struct set *s);

/* Sleeping is a cancellation point: a cancelled thread takes down what it hung
 * up, and hands its waiter back. */
static void cancelled(struct set **sleeping)
{
	struct set *s = *sleeping;

	if (!s)
		return;
	if (s->armed)
		disarm(s);
	else
		leave_gates(s);
	sr_waiter_put(s->waiter);
}

static int kernel_poll(struct set *s, bool sleep)
{
	__attribute__((cleanup(cancelled))) struct set *sleeping = s;
	int r;
	struct timespec ts = { 0, 0 }, *t = &ts;
	uint64_t now;

	if (sleep && s->deadline == UINT64_MAX) {
		t = NULL;
	} else if (sleep && s->deadline > (now = sr_now_ns())) {
		ts.tv_sec = (time_t)((s->deadline - now) / 1000000000u);
		ts.tv_nsec = (long)((s->deadline - now) % 1000000000u);
	}
	r = sr_real.ppoll(s->k, s->kn, t, s->sigmask);
	sleeping = NULL;
	return r;
}

static void fill(struct set *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct entry *e = &s->e[i];
		bool ask = !e->st || !e->shut || e->kernel;

		s->k[i].fd = ask ? e->fd : -1;
		s->k[i].events = e->kernel;
		s->k[i].revents = 0;
	}
	s->kn = s->n;
}

/* What the program gets for entry i: ours, and the kernel's where it counts. */
static short answer(struct set *s, size_t i)
{
	struct entry *e = &s->e[i];
	short r = s->k[i].revents;

	if (e->st && e->shut) {
		short always = e->pass ? POLLERR | POLLHUP | POLLNVAL :
					 POLLNVAL;
		r &= e->pass | always;
	}
	return r | e->ours;
}

/* The gates were all open: did one shut while we slept?  Then what the kernel
 * says of that stream has to be looked at again. */
static bool leave_gates(struct set *s)
{
	bool shut = false;
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct entry *e = &s->e[i];

		if (!e->st)
			continue;
		if (e->counted && !sr_rx_gate_leave(e->st, 1))
			sr_rx_gate_leave_shut(e->st, 1);
		e->counted = false;
		if (s->k[i].revents && (sr_gate_shut(&e->st->rx_gate) ||
					sr_gate_shut(&e->st->tx_gate)))
			shut = true;
	}
	return shut;
}

static bool enter_gates(struct set *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct entry *e = &s->e[i];

		if (!e->st || !(e->events & IN_EVENTS))
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

static int slot(struct set *s, int fd)
{
	if (fd < 0)
		return -1;
	s->k[s->kn].fd = fd;
	s->k[s->kn].events = POLLIN;
	s->k[s->kn].revents = 0;
	return (int)s->kn++;
}

/* What arrived before it was armed is found by the poll; what comes after
 * wakes. */
static int arm_link(struct sr_link *link, unsigned want)
{
	int fd;

	if (!link)
		return -1;
	fd = link->ops->arm(link, want);
	link->ops->poll(link);
	return fd;
}

static void arm(struct set *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct entry *e = &s->e[i];

		if (!e->st)
			continue;
		e->node = s->nodes ? &s->nodes[i] : &s->waiter->node[i];
		e->node->waiter = s->waiter;
		e->node->want = (e->events & IN_EVENTS ? SR_NOTIFY_RX : 0) |
			       (e->events & OUT_EVENTS ? SR_NOTIFY_TX : 0);
		sr_wait_attach(e->st, e->node);
		e->rx_armed = e->rx_link;
		e->tx_armed = e->tx_link;
		e->rx_link = e->tx_link = NULL;
		e->rx_fd = arm_link(e->rx_armed, SR_NOTIFY_RX);
		e->tx_fd = arm_link(e->tx_armed, SR_NOTIFY_TX);
	}
}

static void awake(struct set *s, struct sr_link **link, int at, unsigned want)
{
	if (!*link)
		return;
	(*link)->ops->awake(*link, want, at >= 0 && s->k[at].revents);
	sr_link_put(*link);
	*link = NULL;
}

static void disarm(struct set *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		struct entry *e = &s->e[i];

		if (!e->st)
			continue;
		sr_wait_detach(e->st, e->node);
		awake(s, &e->rx_armed, e->rx_slot, SR_NOTIFY_RX);
		awake(s, &e->tx_armed, e->tx_slot, SR_NOTIFY_TX);
		drop_links(e);
	}
}

/* Hang up, look again, sleep, take down.  Returns ppoll's result. */
static int sleep_armed(struct set *s)
{
	bool shut, sleep;
	size_t i, ready, mine;
	int r;

	atomic_store(&s->waiter->state, 0);
	arm(s);
	s->armed = true;
	ready = plan_all(s, &shut);
	fill(s);
	mine = s->kn;
	slot(s, s->waiter->efd);
	for (i = 0; i < s->n; i++) {
		s->e[i].rx_slot = slot(s, s->e[i].rx_armed ? s->e[i].rx_fd : -1);
		s->e[i].tx_slot = slot(s, s->e[i].tx_armed ? s->e[i].tx_fd : -1);
	}
	sleep = !ready && sr_waiter_sleeping(s->waiter);
	r = kernel_poll(s, sleep);
	sr_waiter_awake(s->waiter, r > 0 && s->k[mine].revents);
	if (r < 0) {
		int err = errno;

		for (i = 0; i < s->kn; i++)
			s->k[i].revents = 0;
		disarm(s);
		s->armed = false;
		errno = err;
		return r;
	}
	disarm(s);
	s->armed = false;
	return r;
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The one stream of the set that waits on a link; with several, or another
 * descriptor beside it, spinning is not worth it. */
static struct entry *lone(struct set *s)
{
	struct entry *only = NULL;
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->e[i].rx_link || s->e[i].tx_link) {
			if (only)
				return NULL;
			only = &s->e[i];
		}
	return only;
}

static bool one_core(void)
{
	static atomic_int cores;
	int n = atomic_load_explicit(&cores, memory_order_relaxed);
	cpu_set_t set;

	if (!n) {
		n = sched_getaffinity(0, sizeof(set), &set) == 0 ?
			    CPU_COUNT(&set) : 2;
		atomic_store_explicit(&cores, n, memory_order_relaxed);
	}
	return n == 1;
}

/*
 * Adaptive spinning: while it pays.  spin_ns is a moving average of how long the
 * stream's waits last, each counted as at most four times the limit, so that a
 * busy phase after a quiet one is noticed within some waits.  Spinning goes on
 * while the average is below the limit; never on a single core, where it would
 * only keep the peer from running.
 */
static bool spin(struct set *s)
{
	struct entry *only = lone(s);
	uint64_t now, limit = sr_conf.spin_us * 1000ull;
	bool shut;
	int i;

	if (!only || !limit || !s->deadline || one_core() ||
	    atomic_load_explicit(&only->st->spin_ns, memory_order_relaxed) >
		    limit)
		return false;
	do {
		struct sr_link *l = only->rx_link ? only->rx_link :
						    only->tx_link;

		for (i = 0; i < 8; i++) {
			l->ops->poll(l);
			relax();
		}
		now = sr_now_ns();
		if (plan_all(s, &shut))
			return true;
	} while (now - s->start < limit && now < s->deadline);
	return false;
}

/* A wait on links is over. */
static void learn(struct set *s)
{
	struct sr_stream *st = s->n == 1 ? s->e[0].st : NULL;
	uint64_t took, cap = sr_conf.spin_us * 4000ull;
	unsigned old;

	if (!st || !s->start)
		return;
	took = sr_now_ns() - s->start;
	took = took < cap ? took : cap;
	old = atomic_load_explicit(&st->spin_ns, memory_order_relaxed);
	atomic_store_explicit(&st->spin_ns, (unsigned)((old * 7ull + took) / 8),
			      memory_order_relaxed);
}

static int result(struct set *s, struct pollfd *fds, short *one)
{
	size_t i;
	int count = 0;

	for (i = 0; i < s->n; i++) {
		short r = answer(s, i);

		if (fds)
			fds[i].revents = r;
		else
			*one = r;
		count += r != 0;
	}
	return count;
}

/* ppoll's result; fds or one get the answers. */
static int wait_set(struct set *s, struct pollfd *fds, short *one)
{
	bool shut;
	size_t i;
	int r, count;

	for (;;) {
		size_t ready = plan_all(s, &shut);

		if (!shut) {
			for (i = 0; i < s->n; i++)
				drop_links(&s->e[i]);
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
			if (spin(s))
				ready = 1;
		}
		if (ready)
			learn(s);
		if (ready || !s->deadline) {
			for (i = 0; i < s->n; i++)
				drop_links(&s->e[i]);
			fill(s);
			r = kernel_poll(s, false);
			if (r < 0)
				return r;
			return result(s, fds, one);
		}
		r = sleep_armed(s);
		if (r < 0)
			return r;
		/* Ours may have changed since: look once more, keeping what
		 * the kernel said. */
		plan_all(s, &shut);
		for (i = 0; i < s->n; i++)
			drop_links(&s->e[i]);
		count = result(s, fds, one);
		if (count) {
			learn(s);
			return count;
		}
		if (s->deadline != UINT64_MAX && sr_now_ns() >= s->deadline)
			return 0;
	}
}

/* ---- the two ways in ---- */

/*
 * May a call go on sleeping after a signal?  sigaction(2): only if the handler
 * was installed with SA_RESTART.  poll never restarts, so we look which
 * handlers there are: if all that are installed restart, so do we.
 */
static bool restarts(void)
{
	int sig;

	for (sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;

		/* Faults of the thread's own; they interrupt no sleep. */
		if (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE ||
		    sig == SIGILL || sig == SIGTRAP || sig == SIGABRT)
			continue;
		if (sigaction(sig, NULL, &sa) < 0 ||
		    sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN)
			continue;
		if (!(sa.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

int sr_stream_wait(struct sr_stream *st, int fd, short events,
		   uint64_t deadline_ns)
{
	struct entry e = { .st = st, .fd = fd, .events = events };
	struct pollfd k[4];
	struct set s = { .e = &e, .n = 1, .k = k,
			 .deadline = deadline_ns ? deadline_ns : UINT64_MAX };
	int err = errno, r;
	short got = 0;

	s.waiter = sr_waiter_get();
	if (!s.waiter)
		return -ENOBUFS;
	do {
		r = wait_set(&s, NULL, &got);
		drop_links(&e);
	} while (r < 0 && errno == EINTR && !deadline_ns && restarts());
	if (r < 0)
		r = -errno;
	sr_waiter_put(s.waiter);
	errno = err;
	return r > 0 ? 0 : r < 0 ? r : -ETIMEDOUT;
}

int sr_streams_poll(struct pollfd *fds, nfds_t n,
		    const struct timespec *timeout, const sigset_t *sigmask)
{
	struct set s = { .n = n, .sigmask = sigmask, .deadline = UINT64_MAX };
	struct entry few[FEW];
	struct pollfd few_k[3 * FEW + 1];
	bool streams = false;
	int err = errno, r;
	size_t i;

	if (n <= FEW) {
		memset(few, 0, n * sizeof(few[0]));
		s.e = few;
		s.k = few_k;
	} else {
		sr_inside++;
		s.e = calloc(n, sizeof(*s.e));
		s.k = calloc(3 * n + 1, sizeof(*s.k));
		s.nodes = calloc(n, sizeof(*s.nodes));
		sr_inside--;
	}
	if (!s.e || !s.k || (n > FEW && !s.nodes)) {
		r = -ENOMEM;
		goto out;
	}
	if (timeout)
		s.deadline = timeout->tv_sec || timeout->tv_nsec ?
			sr_now_ns() + (uint64_t)timeout->tv_sec * 1000000000u +
				(uint64_t)timeout->tv_nsec : 0;
	for (i = 0; i < n; i++) {
		s.e[i].fd = fds[i].fd;
		s.e[i].events = fds[i].events;
		s.e[i].st = fds[i].fd < 0 ? NULL : sr_fdtab_get(fds[i].fd);
		if (s.e[i].st) {
			streams = true;
			sr_upgrade_used(s.e[i].st);
		}
	}
	if (!streams) {
		r = sr_real.ppoll(fds, n, timeout, sigmask);
		if (r < 0)
			r = -errno;
		goto out;
	}
	s.waiter = sr_waiter_get();
	if (!s.waiter) {
		r = -ENOMEM;
		goto out;
	}
	r = wait_set(&s, fds, NULL);
	if (r < 0)
		r = -errno;
	sr_waiter_put(s.waiter);
out:
	for (i = 0; s.e && i < n; i++) {
		drop_links(&s.e[i]);
		if (s.e[i].st)
			sr_stream_put(s.e[i].st);
	}
	if (n > FEW) {
		sr_inside++;
		free(s.e);
		free(s.k);
		free(s.nodes);
		sr_inside--;
	}
	errno = err;
	return r;
}
