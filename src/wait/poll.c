/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.c - poll(2) and ppoll(2) on sets that hold streams: builds a waitset and
 * hands it to the wait engine, or makes the streams plain if there is no memory for
 * one.  It knows no link and takes no locks.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/stream.h"
#include "upgrade/upgrade.h"
#include "wait/sleep.h"
#include "wait/waitset.h"

#define FEW SR_WAITER_NODES	/* a set of this size needs no allocation */
#define UNLOOKED 8		/* polls without a look, after a look that found nothing */

/* Allocates one piece of memory for the entries, the nodes and the kernel's array. */
static bool waitset_allocate(struct sr_waitset *s)
{
	s->memory = sr_waitset_space_get((s->n + 1) * (sizeof(*s->e) + sizeof(*s->nodes) +
						       3 * sizeof(*s->k)));
	s->e = s->memory;
	s->nodes = (void *)(s->e + s->n);
	s->k = (void *)(s->nodes + s->n);
	return s->e;
}

/* Without memory: the streams leave their links, and the kernel polls. */
static int poll_plain(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		      const sigset_t *sigmask)
{
	struct sr_stream *st;
	int r;

	for (nfds_t i = 0; i < n; i++) {
		st = sr_active_stream_get(fds[i].fd);
		if (!st)
			continue;
		sr_stream_make_plain(st, SR_REASON_MEMORY, true);
		sr_stream_put(st);
	}
	r = sr_real.ppoll(fds, n, timeout, sigmask);
	return r < 0 ? -errno : r;
}

/*
 * A shortcut for a poll on one stream that may get a link but has not switched yet: if the
 * kernel has bytes or room now, and both gates are still open, that is the answer, because no
 * mark comes before a gate shuts.  Ends and errors do not take the shortcut.  A look that finds
 * nothing is a wasted system call, so the next UNLOOKED polls do not try it.
 */
static bool look_open(struct pollfd *p, struct sr_stream *st)
{
	const short bits = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
	const unsigned odd = SR_ST_LISTEN | SR_ST_RDSHUT | SR_ST_HALF;
	unsigned n = sr_load(&st->waits.unlooked);
	struct pollfd k = { p->fd, p->events, 0 };
	bool ready;

	if (n)
		sr_store(&st->waits.unlooked, n - 1);
	if (n || sr_any_gate_shut(st) || (sr_st_flags(st) & odd) ||
	    sr_load(&st->err.pending))
		return false;
	ready = sr_now_poll(&k, 1) > 0;
	if (!ready)
		sr_store(&st->waits.unlooked, UNLOOKED);
	if (!ready || (k.revents & ~bits) || sr_any_gate_shut(st))
		return false;
	p->revents = k.revents;
	return true;
}

static void find_streams(struct sr_waitset *s, const struct pollfd *fds)
{
	struct sr_waitset_entry *e;

	for (size_t i = 0; i < s->n; i++) {
		e = &s->e[i];
		e->fd = fds[i].fd;
		e->events = fds[i].events;
		e->st = sr_active_stream_get(e->fd);
		if (!e->st)
			continue;
		sr_guest_use(e->st, SR_NOTIFY_RX | SR_NOTIFY_TX);
		sr_upgrade_used(e->st);
		s->listens |= !!(sr_st_flags(e->st) & SR_ST_LISTEN);
	}
}

int sr_streams_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		    const sigset_t *sigmask, uint64_t *deadline)
{
	struct sr_waitset s = { .n = n, .sigmask = sigmask, .deadline = UINT64_MAX,
				.program_polls = true, .handled = sr_handled.all };
	struct sr_waitset_entry few[FEW];
	struct pollfd few_k[3 * FEW + 1];
	int r;

	pthread_testcancel(); /* as in sr_stream_recv() */
	if (timeout)
		s.deadline = sr_deadline_ns((uint64_t)timeout->tv_sec,
					    (uint64_t)timeout->tv_nsec);
	if (deadline)
		*deadline = s.deadline;
	sr_hold();
	if (n <= FEW) {
		memset(few, 0, n * sizeof(few[0]));
		s.e = few;
		s.k = few_k;
	} else if (!waitset_allocate(&s)) {
		sr_release();
		return poll_plain(fds, n, timeout, sigmask);
	}
	find_streams(&s, fds);
	if (n == 1 && !sigmask && s.e->st && look_open(fds, s.e->st))
		r = 1;
	else
		r = sr_waitset_wait(&s, fds);
	sr_waitset_done(&s);
	sr_waitset_free(&s);
	sr_release();
	return r;
}
