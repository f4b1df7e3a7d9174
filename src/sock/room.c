/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * room.c - how a send that has found no room waits for it, or finds that it may not wait.
 *
 * Locks: tx_lock, for a look at the link.
 */
#include "base/real.h"

#include <errno.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "wait/sleep.h"
#include "sock/sock.h"

#define WIDEN_NS (50 * 1000000ull)

/* The program is about to get EAGAIN, and may then wait for an edge from an epoll set.
 * Prepares that edge.  Returns true if there is room after all. */
static bool room_after_all(struct sr_stream *st)
{
	bool room = false;

	if (!sr_load(&st->sets.first))
		return false;
	sr_lock(&st->tx_lock);
	sr_store(&st->out.full, true);
	sr_fence_look(); /* pair full: for_sets(); tx_room() looks at the credit */
	if (sr_gate_shut(&st->out.gate) && st->tx.state == SR_TX_LINK) {
		struct sr_link *link = st->out.link;
		struct iovec v[2];

		link->ops->arm_once(link, SR_NOTIFY_TX);
		link->ops->poll(link);
		room = link->ops->tx_room(link, v);
		link->ops->tx_commit(link, 0, sr_load(&st->out.held) != 0);
	}
	sr_unlock(&st->tx_lock);
	return room;
}

/* Called when a non-blocking send has filled the link's first ring.  TCP takes some
 * 50 kB of a first write, and some programs rely on that.  The peer offers a larger
 * ring as soon as it sees a full one.  So the send waits for that ring, for WIDEN_NS
 * at most over the stream's life.  Returns true if there is room. */
static bool room_soon(struct sr_stream *st, int fd)
{
	const struct sr_link_ops *ops;
	uint64_t now = sr_now_ns(), until = 0;

	sr_lock(&st->tx_lock);
	if (sr_gate_shut(&st->out.gate) && st->tx.state == SR_TX_LINK) {
		ops = st->out.link->ops;
		if (!st->out.widen_by)
			st->out.widen_by = now + WIDEN_NS;
		if (ops->tx_widens && ops->tx_widens(st->out.link))
			until = st->out.widen_by;
	}
	sr_unlock(&st->tx_lock);
	return until > now && !sr_sleep_anyhow(st, fd, POLLOUT, until - now);
}

ssize_t sr_room_await(struct sr_stream *st, struct sr_sleep *sleep, bool switching)
{
	ssize_t r = sr_sleep(st, sleep, POLLOUT);

	if (r == -EAGAIN && ((switching && sr_tx_decide(st)) || room_soon(st, sleep->fd) ||
			     room_after_all(st)))
		r = 0;
	return r;
}
