/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ends.c - the ends of a stream's two directions: whether the peer's end has come, how ours
 * goes out, and shutdown(2).
 *
 * Locks: rx_lock, then tx_lock.
 */
#include "base/sys.h"

#include <errno.h>
#include <linux/sockios.h>

#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/impl.h"
#include "engine/owners.h"
#include "epoll/epoll.h"
#include "upgrade/upgrade.h"
#include "sock/sock.h"

bool sr_ends_unread(struct sr_stream *st)
{
	return st->in.pushback_len || sr_ring_bytes(st);
}

bool sr_ends_arrived(struct sr_stream *st)
{
	struct sr_link *link = st->out.link;
	int n = 0;

	if (sr_load(&st->anchor) < 0 || sr_load(&st->out.broken))
		return true;
	if (st->tx.state == SR_TX_LINK) {
		link->ops->poll(link);
		return st->tx.end_sent && link->ops->tx_arrived(link) >= st->tx.w;
	}
	if (st->tx.state == SR_TX_DONE && link && (sr_link_events(link) & SR_LINK_ACKEND))
		return true;	/* and FIN follows */
	if (st->tx.state == SR_TX_DONE || !sr_gate_shut(&st->out.gate))
		return sr_sys_ioctl(sr_load(&st->anchor), SIOCOUTQ, &n) < 0 || !n;
	return false;
}

bool sr_ends_came(struct sr_stream *st)
{
	if (sr_gate_shut(&st->in.gate) && st->rx.state >= SR_RX_LINK)
		return st->rx.state == SR_RX_EOF || st->rx.end;
	return sr_anchor_ended(st);
}

/* Have both directions ended?  Our end need not have arrived, although TCP's state would be
 * another one then.  half: the program had ended our direction.  Both locks held. */
static bool both_ended(struct sr_stream *st, bool half)
{
	return (st->tx.ended || half) && sr_ends_came(st);
}

bool sr_ends_took_none(struct sr_stream *st)
{
	struct sr_link *link = st->out.link;

	return link->ops->tx_over && link->ops->tx_over(link);
}

/* Over TCP the reset would be there before the program's next call; on a link it takes some
 * milliseconds.  So the stream is broken at once, and the kernel's socket is shut down, so that
 * epoll sets to which the socket is added from now on report the hang-up, too. */
void sr_ends_reset_early(struct sr_stream *st)
{
	sr_lock(&st->rx_lock);
	sr_stream_broke(st, EPIPE);	/* the peer's end came first */
	sr_store(&st->err.reported, true);
	if (sr_load(&st->anchor) >= 0 && !sr_is_shared(st))
		sr_sys_shutdown(sr_load(&st->anchor), SHUT_RDWR);
	sr_unlock(&st->rx_lock);
}

/* Is the receiving direction plain, with unread bytes in the kernel's socket? */
static bool plain_unread(struct sr_stream *st)
{
	int n = 0;

	return !sr_gate_shut(&st->in.gate) &&
	       sr_sys_ioctl(sr_load(&st->anchor), SIOCINQ, &n) == 0 && n > 0;
}

bool sr_ends_leave_unread(struct sr_stream *st)
{
	struct sr_link *link = st->in.link;
	struct iovec v[2];
	char c[384];	/* (a small stack) */
	size_t n;

	if (sr_load(&st->out.broken) || !both_ended(st, sr_st_flags(st) & SR_ST_HALF))
		return sr_ends_unread(st) || plain_unread(st);
	st->in.pushback_len = 0;
	while (sr_ring_bytes(st) && (n = link->ops->rx_data(link, 0, v))) {
		sr_store(&st->in.dropped, true);
		sr_link_received(st, n);
		link->ops->rx_free(link, n);
	}
	while (sr_anchor_read(st, c, sizeof(c), 0) > 0)
		sr_store(&st->in.dropped, true);
	return false;
}

void sr_ends_finish(struct sr_stream *st)
{
	struct sr_msg end = { .type = SR_MSG_END };
	unsigned todo;

	if (!sr_gate_shut(&st->out.gate)) {
		if (!sr_tx_is_second(st))
			sr_sys_shutdown(sr_load(&st->anchor), SHUT_WR);
		return;
	}
	todo = sr_tx_end(&st->tx);
	if (todo & SR_DO_FIN)
		sr_sys_shutdown(sr_load(&st->anchor), SHUT_WR);
	if (todo & SR_DO_END) {
		end.end = st->tx.w;
		sr_tx_flush(st);
		st->out.link->ops->ctl(st->out.link, &end);
	}
	sr_fast_update_tx(st);
}

void sr_ends_reset_on_close(int fd)
{
	struct linger now = { 1, 0 };

	sr_sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* ---- shutdown(2) ---- */

static int kernel_shutdown(int fd, int how)
{
	return sr_sys_shutdown(fd, how) < 0 ? -errno : 0;
}

/* Shuts down a stream of which a direction is, or was, on a link.  half: our
 * direction had been shut down before.  Both locks held. */
static int shut_down(struct sr_stream *st, int fd, int how, bool half)
{
	int r = 0;

	/* The two ways into TCP's state CLOSE. */
	if (sr_load(&st->out.broken) || both_ended(st, half))
		return -ENOTCONN;
	/* A direction that has ended is the kernel's again: if the other one
	 * never was on a link, only the kernel knows when both are over. */
	if (how != SHUT_WR && (!sr_gate_shut(&st->in.gate) || st->in.fin_seen ||
			       st->rx.state == SR_RX_EOF))
		r = kernel_shutdown(fd, SHUT_RD);
	if (how != SHUT_RD && (!sr_gate_shut(&st->out.gate) ||
			       st->tx.state == SR_TX_DONE))
		r = kernel_shutdown(fd, SHUT_WR);
	else if (how != SHUT_RD)
		sr_ends_finish(st);
	return r;
}

int sr_stream_shutdown(struct sr_stream *st, int fd, int how)
{
	bool half = sr_st_flags(st) & SR_ST_HALF;
	int r;

	sr_guest_use(st, SR_OWNERS_BOTH);
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return kernel_shutdown(fd, how);
	if (how != SHUT_RD)
		sr_st_set(st, SR_ST_HALF);
	sr_stream_lock_and_progress(st);
	/* The kernel's recv() returns 0 from now on, so a mark could not come
	 * this way: sr_rx_take_switch() checks the flag. */
	if (how != SHUT_WR)
		sr_st_set(st, SR_ST_RDSHUT);
	if (!sr_any_gate_shut(st)) {
		sr_stream_unlock(st);
		return kernel_shutdown(fd, how);
	}
	/* Before END is sent, so that a peer that sees END sees this, too. */
	if ((sr_st_flags(st) & (SR_ST_RDSHUT | SR_ST_HALF)) == (SR_ST_RDSHUT | SR_ST_HALF))
		sr_rx_over(st);
	r = shut_down(st, fd, how, half);
	sr_fast_update_rx(st);
	sr_stream_unlock(st);
	sr_stream_notify(st, SR_NOTIFY_CHANGE);
	sr_stream_kick(st);
	if (sr_load(&st->sets.nested))
		sr_epoll_settle(st);
	return r;
}
