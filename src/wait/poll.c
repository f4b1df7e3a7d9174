/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.c - poll(2) and ppoll(2) on sets that hold streams: builds a waitset and
 * hands it to the wait engine, or makes the streams plain if there is no memory for
 * one.  It knows no link and takes no locks.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>

#include "engine/stream.h"
#include "upgrade/upgrade.h"
#include "wait/sleep.h"
#include "wait/waitset.h"

#define FEW SR_WAITER_NODES	/* a set of this size needs no allocation */

/* One piece of memory, which begins with the entries. */
static bool allocate(struct sr_waitset *s)
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

int sr_streams_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		    const sigset_t *sigmask, uint64_t *deadline)
{
	struct sr_waitset s = { .n = n, .sigmask = sigmask, .deadline = UINT64_MAX,
				.program_polls = true, .handled = sr_handled.all };
	struct sr_waitset_entry few[FEW];
	struct pollfd few_k[3 * FEW + 1];
	size_t i;
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
	} else if (!allocate(&s)) {
		sr_release();
		return poll_plain(fds, n, timeout, sigmask);
	}
	for (i = 0; i < n; i++) {
		s.e[i].fd = fds[i].fd;
		s.e[i].events = fds[i].events;
		s.e[i].st = sr_active_stream_get(fds[i].fd);
		if (s.e[i].st) {
			sr_guest_use(s.e[i].st, SR_NOTIFY_RX | SR_NOTIFY_TX);
			sr_upgrade_used(s.e[i].st);
			s.listens |= !!(sr_st_flags(s.e[i].st) & SR_ST_LISTEN);
		}
	}
	r = sr_waitset_wait(&s, fds);
	sr_waitset_done(&s);
	sr_waitset_free(&s);
	sr_release();
	return r;
}
