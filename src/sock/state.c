/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * state.c - what getsockopt(2) and ioctl(2) say of a stream's state and of its bytes.  It has
 * to agree with what other calls have told the program, and the anchor does not know that: the
 * end of a direction comes by the link before it comes by TCP, and the anchor never sees the
 * link's bytes.  Everything else in TCP_INFO (round trip time, window, counts of segments) is
 * the anchor's.
 *
 * Locks: rx_lock, then tx_lock.
 */
#include "base/sys.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "engine/engine.h"
#include "engine/impl.h"
#include "sock/sock.h"

/* ---- states ---- */

static unsigned state_bit(unsigned state)
{
	return 1u << state;
}

/*
 * The state that TCP would have if a direction's END on a link were its FIN; anchor is the
 * state of the anchor.  (Linux says CLOSE in place of TIME_WAIT, because a socket in TIME_WAIT
 * is no longer the program's.)  Both locks held.
 */
static unsigned joined_state(struct sr_stream *st, unsigned anchor)
{
	const unsigned both = state_bit(SR_TCP_CLOSING) | state_bit(SR_TCP_TIME_WAIT) |
			      state_bit(SR_TCP_LAST_ACK);
	const unsigned ours = both | state_bit(SR_TCP_FIN_WAIT1) | state_bit(SR_TCP_FIN_WAIT2);
	const unsigned peers = both | state_bit(SR_TCP_CLOSE_WAIT);
	bool we_ended, peer_ended;

	if (!(state_bit(anchor) & (ours | peers | state_bit(SR_TCP_ESTABLISHED))))
		return anchor;
	if (sr_load(&st->out.broken))
		return SR_TCP_CLOSE;
	we_ended = (state_bit(anchor) & ours) || (sr_st_flags(st) & SR_ST_HALF);
	peer_ended = (state_bit(anchor) & peers) || sr_ends_came(st);
	if (!we_ended)
		return peer_ended ? SR_TCP_CLOSE_WAIT : SR_TCP_ESTABLISHED;
	if (!sr_ends_arrived(st))
		return !peer_ended		? SR_TCP_FIN_WAIT1 :
		       anchor == SR_TCP_CLOSING ? SR_TCP_CLOSING :
						  SR_TCP_LAST_ACK;
	return peer_ended ? SR_TCP_CLOSE : SR_TCP_FIN_WAIT2;
}

/* ---- bytes ---- */

/* Bytes that the link holds back (MSG_MORE, TCP_CORK), or that the return to TCP has yet to
 * write to TCP.  tx_lock held. */
static unsigned not_sent(struct sr_stream *st)
{
	if (st->tx.state == SR_TX_RESEND)
		return (unsigned)(st->tx.w - st->tx.at);
	return st->tx.state == SR_TX_LINK ? (unsigned)sr_load(&st->out.held) : 0;
}

/* Bytes on the link that the peer's host does not have yet.  tx_lock held. */
static unsigned not_arrived(struct sr_stream *st)
{
	struct sr_link *link = st->out.link;

	if (st->tx.state != SR_TX_LINK)
		return not_sent(st);
	link->ops->poll(link);
	return (unsigned)(st->tx.w - link->ops->tx_arrived(link));
}

/* rx_lock held. */
static int unread_bytes(struct sr_stream *st, int fd, int *n)
{
	int r = 0;

	sr_rx_progress(st);
	if (!sr_gate_shut(&st->in.gate) || st->rx.state == SR_RX_RAW)
		r = sr_sys_ioctl(fd, SIOCINQ, n) < 0 ? -errno : 0;
	else
		*n = (int)sr_ring_bytes(st);
	*n += (int)st->in.pushback_len;
	return r;
}

int sr_state_inq(struct sr_stream *st)
{
	int n = 0;

	sr_lock(&st->rx_lock);
	unread_bytes(st, sr_load(&st->anchor), &n);
	n += sr_ends_came(st);
	sr_unlock(&st->rx_lock);
	return n;
}

int sr_state_queue(struct sr_stream *st, int fd, unsigned long req, int *n)
{
	int r = 0;

	if (req == SIOCINQ && sr_gate_shut(&st->in.gate)) {
		sr_lock(&st->rx_lock);
		r = unread_bytes(st, fd, n);
		sr_unlock(&st->rx_lock);
	}
	if (req == SIOCINQ)
		return r;
	if (!sr_gate_shut(&st->out.gate))
		return 0;
	sr_lock(&st->tx_lock);
	*n += (int)(req == SIOCOUTQ ? not_arrived(st) : not_sent(st));
	sr_unlock(&st->tx_lock);
	return 0;
}

void sr_state_info(struct sr_stream *st, void *val, size_t len)
{
	const size_t at = offsetof(struct tcp_info, tcpi_notsent_bytes);
	uint8_t state;
	uint32_t bytes;

	_Static_assert(offsetof(struct tcp_info, tcpi_state) == 0, "the first byte");
	if (!len || sr_observe(&st->owned.guest))
		return;
	sr_stream_lock_and_progress(st);
	memcpy(&state, val, sizeof(state));
	state = (uint8_t)joined_state(st, state);
	memcpy(val, &state, sizeof(state));
	if (len >= at + sizeof(bytes)) {
		memcpy(&bytes, (char *)val + at, sizeof(bytes));
		bytes += not_sent(st);
		memcpy((char *)val + at, &bytes, sizeof(bytes));
	}
	sr_stream_unlock(st);
}
