/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.c - poll(2) and ppoll(2) on sets that hold streams: builds a waitset and
 * hands it to the wait engine.  It knows no link and takes no locks.
 */
#include "base/real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/stream.h"
#include "upgrade/upgrade.h"
#include "wait/poll.h"
#include "wait/waitset.h"

#define FEW SR_WAITER_NODES	/* a set of this size needs no allocation */

int sr_streams_poll(struct pollfd *fds, nfds_t n,
		    const struct timespec *timeout, const sigset_t *sigmask)
{
	struct sr_waitset s = { .n = n, .sigmask = sigmask,
				.timeout = timeout, .deadline = UINT64_MAX,
				.handled = sr_handled.all };
	struct sr_waitset_entry few[FEW];
	struct pollfd few_k[3 * FEW + 1];
	int err = errno, r;
	size_t i;

	pthread_testcancel(); /* as in sr_stream_recv() */
	sr_hold();
	if (n <= FEW) {
		memset(few, 0, n * sizeof(few[0]));
		s.e = few;
		s.k = few_k;
	} else {
		sr_enter();
		s.e = calloc(n, sizeof(*s.e));
		s.k = calloc(3 * n + 1, sizeof(*s.k));
		s.nodes = calloc(n, sizeof(*s.nodes));
		sr_leave();
	}
	if (!s.e || !s.k || (n > FEW && !s.nodes)) {
		r = -ENOMEM;
		goto out;
	}
	for (i = 0; i < n; i++) {
		s.e[i].fd = fds[i].fd;
		s.e[i].events = fds[i].events;
		s.e[i].st = sr_stream_live(fds[i].fd);
		if (s.e[i].st) {
			sr_guest_use(s.e[i].st, SR_NOTIFY_RX | SR_NOTIFY_TX);
			sr_upgrade_used(s.e[i].st);
		}
	}
	r = sr_waitset_wait(&s, fds);
	if (r < 0)
		r = -errno;
out:
	if (s.e)
		sr_waitset_done(&s);
	for (i = 0; s.e && i < n; i++)
		if (s.e[i].st)
			sr_stream_put(s.e[i].st);
	if (n > FEW) {
		sr_enter();
		free(s.e);
		free(s.k);
		free(s.nodes);
		sr_leave();
	}
	errno = err;
	sr_release();
	return r;
}
