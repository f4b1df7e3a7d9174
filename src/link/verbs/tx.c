/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tx.c - the sending half of a verbs link: which records it has for a packet (post.c).
 *
 * Lock: the carrier's.  Functions without "locks" are called with it.
 *
 * As many bytes of the stream as a packet has room for travel in it, and the peer's end copies
 * them into its ring: to copy them twice costs less than a second request does at both devices.
 * More is written straight into the peer's ring, by an RDMA WRITE that is posted before the
 * packet whose DATA record announces it.
 *
 * What is written while a small write is in flight is held back, and goes out in
 * one packet when all has completed.  A burst may begin with BURST writes at
 * once: many programs write a header and a body.
 *
 * A link keeps the number of the last packet that had bytes of its stream, so that the
 * completion of a packet need not find the links that had a share in it.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <string.h>

enum {
	WR_BYTES = 128 << 10,	/* a write's length: pipelined, not one lump */
	/* The same if several links share the carrier.  SR_V_SENDS of them may be under way, one
	 * for each packet, and other links' records wait behind these. */
	WR_SHARED = 64 << 10,
	HOLD_BYTES = 8 << 10,	/* as much is not held back */
	BURST = 2,		/* small writes that are not held back */
	GAP_BYTES = 4 << 10,	/* smaller gaps are not offered */
};

/* ---- what is due ---- */

/* Of a link that we have given up only DROP goes; of one that broke that, too, if the carrier is
 * shared, else nothing. */
static bool may_post(struct sr_vlink *l)
{
	unsigned have = sr_link_events(&l->link);

	if (!l->c->qp || l->c->broken || l->tx.last == SR_V_DROPPED)
		return false;
	if (l->tx.last == SR_V_DROP_DUE && sr_load(&l->c->shared))
		return true;
	return !l->broken && ((have & SR_LINK_UP) || l->tx.opens) &&
	       (!(have & SR_LINK_DEAD) || l->tx.last == SR_V_DROP_DUE);
}

/* Of the bytes that our program has taken. */
static bool ack_wanted(struct sr_vlink *l)
{
	uint64_t taken = sr_load(&l->link.rx_taken);

	return l->tx.ack_due || taken - sr_load(&l->tx.ack_said) >= sr_load(&l->rx.window) / 4;
}

static bool is_small(const struct sr_vlink *l, size_t n)
{
	return n < least_of(HOLD_BYTES, l->tx.window / 8);
}

/* Are there messages, or bytes, that are to be posted?  Few bytes behind which more is to follow
 * wait for these. */
static bool queue_waits(const struct sr_vlink *l)
{
	uint64_t left = sr_load(&l->link.tx_w) - l->tx.sent;

	return l->tx.pend_head != l->tx.pend_tail || (left && !(l->tx.more && is_small(l, left)));
}

bool sr_vtx_waits(struct sr_vlink *l)
{
	/* An ACK waits for a send buffer, or for credit: a sender may wait for it. */
	return (queue_waits(l) || l->tx.swap || l->tx.last == SR_V_DROP_DUE || l->tx.opens ||
		ack_wanted(l)) &&
	       may_post(l);
}

/* If all packets with bytes of the stream have arrived, so have all bytes that are posted. */
static void note_arrival(struct sr_vlink *l)
{
	if (l->c->out.arrived < l->tx.last_packet)
		return;
	l->tx.done = l->tx.sent;
	if (l->tx.done == sr_load(&l->link.tx_w))
		l->tx.burst = 0;
}

static bool data_may_go(struct sr_vlink *l, size_t n, bool message_waits)
{
	if (message_waits || !is_small(l, n))
		return true;
	if (l->tx.more)
		return false;
	return l->tx.sent == l->tx.done || l->tx.burst < BURST;
}

/* ---- records ---- */

/* What a record is to say: the peer overwrites the bytes that our program has taken. */
static uint64_t ack_now(struct sr_vlink *l)
{
	return sr_observe(&l->link.rx_taken);	/* pairs with sr_verbs_rx_free() */
}

/* A record has said it. */
static void ack_goes(struct sr_vlink *l, uint64_t taken)
{
	sr_store(&l->tx.ack_said, taken);
	l->tx.ack_due = false;
}

static bool add_msg(struct sr_vlink *l, struct sr_vpacket *p, struct sr_msg *msg)
{
	msg->ack = ack_now(l);
	if (!sr_packet_put(&p->out, l->number, msg)) {
		p->full = true;
		return false;
	}
	ack_goes(l, msg->ack);
	return true;
}

/* Returns how many of n bytes fit. */
static size_t add_bytes(struct sr_vlink *l, struct sr_vpacket *p, size_t n)
{
	uint64_t taken = ack_now(l);
	struct iovec v[2];
	uint8_t *body;

	n = least_of(n, sr_packet_room(&p->out));
	p->full |= !n;
	if (!n)
		return 0;
	body = sr_packet_put_raw(&p->out, l->number, SR_MSG_BYTES, taken, n);
	ack_goes(l, taken);
	sr_vring_pieces(&l->tx.ring, l->tx.sent, n, v);
	memcpy(body, v[0].iov_base, v[0].iov_len);
	memcpy(body + v[0].iov_len, v[1].iov_base, v[1].iov_len);
	return n;
}

/* One write of at most n bytes, as far as both rings go without a wrap.  Returns its length. */
static size_t add_write(struct sr_vlink *l, struct sr_vpacket *p, size_t n)
{
	size_t at = l->tx.sent & (l->tx.ring.size - 1);
	size_t to = l->tx.sent & (l->tx.peer.size - 1);
	struct sr_msg msg = { .type = SR_MSG_DATA };

	n = least_of(n, least_of(l->tx.ring.size - at, l->tx.peer.size - to));
	n = least_of(n, least_of(l->c->links->next ? WR_SHARED : WR_BYTES, l->tx.window / 4));
	msg.len = n;
	if (!add_msg(l, p, &msg))
		return 0;
	sr_vpost_write(l, p, l->tx.ring.buf + at, n, l->tx.peer.addr + to);
	l->tx.last_write = l->c->out.packets + 1;
	return n;
}

/* The first of the messages that wait, and what it changes.  Returns whether more may follow
 * in the packet: HELLO is the last of its own, because the next one tries the path. */
static bool add_message(struct sr_vlink *l, struct sr_vpacket *p)
{
	struct sr_vpend *pend = &l->tx.pend[l->tx.pend_head % SR_V_PEND];
	const bool greets = pend->msg.type == SR_MSG_HELLO && !l->c->iwarp &&
			    !l->c->out.path_packet;

	if (!add_msg(l, p, &pend->msg))
		return false;
	l->c->out.pad_due |= greets;
	l->tx.pend_head++;
	p->quiet = false;
	p->full |= greets;
	return !greets;
}

/* Returns whether more may follow in the packet: no two writes are announced by one, so that
 * the peer has the first one early. */
static bool add_data(struct sr_vlink *l, struct sr_vpacket *p, size_t n)
{
	bool writes = n > sr_packet_room(&p->out) && l->tx.peer.addr && l->tx.ring.mr;

	p->full |= writes;
	n = writes ? add_write(l, p, n) : add_bytes(l, p, n);
	l->tx.sent += n;
	if (n) {
		l->tx.burst += is_small(l, n);
		l->tx.last_packet = l->c->out.packets + 1;
	}
	p->quiet &= l->tx.burst < BURST;
	return n && !writes;
}

/* Data and messages in their order.  Returns whether there were any. */
static bool add_queue(struct sr_vlink *l, struct sr_vpacket *p)
{
	const size_t empty = p->out.len;
	bool message, more = true;
	uint64_t until;

	while (more) {
		message = l->tx.pend_head != l->tx.pend_tail;
		until = message ? l->tx.pend[l->tx.pend_head % SR_V_PEND].at :
				  sr_load(&l->link.tx_w);
		if (l->tx.sent < until)
			more = data_may_go(l, until - l->tx.sent, message) &&
			       add_data(l, p, until - l->tx.sent);
		else
			more = message && add_message(l, p);
	}
	return p->out.len != empty;
}

/* The last record of this end, with its last ack: the peer sends all bytes again that it does
 * not know to have been taken. */
static bool add_drop(struct sr_vlink *l, struct sr_vpacket *p)
{
	uint64_t taken = ack_now(l);

	if (!sr_packet_put_raw(&p->out, l->number, SR_RECORD_DROP, taken, 0)) {
		p->full = true;
		return false;
	}
	p->quiet = false;
	l->tx.last = SR_V_DROPPED;
	sr_vshare_left(l);
	return true;
}

bool sr_vtx_fill(struct sr_vlink *l, struct sr_vpacket *p, bool records)
{
	struct sr_msg ack = { .type = SR_MSG_ACK };
	bool any = false;

	note_arrival(l);
	p->quiet &= !l->tx.swap;
	if (l->tx.opens) {
		any = records && sr_vshare_open_fill(l, p);
		if (!any)
			return false;
	}
	if (l->tx.last == SR_V_DROP_DUE)
		return ((records || !sr_load(&l->c->shared)) && add_drop(l, p)) || any;
	any |= records && add_queue(l, p);
	if (any)
		return true;
	p->quiet &= l->tx.done == l->tx.sent;
	return ack_wanted(l) && add_msg(l, p, &ack);
}

void sr_vtx_fill_ack(struct sr_vlink *l, struct sr_vpacket *p)
{
	struct sr_msg ack = { .type = SR_MSG_ACK };

	if (may_post(l) && (sr_link_events(&l->link) & SR_LINK_UP) && !l->tx.opens)
		add_msg(l, p, &ack);
}

void sr_vtx_owe(struct sr_vlink *l)
{
	l->tx.ack_due = true;
	sr_vpost_queue(l);
}

/* On iWARP the answerer may send nothing before the asker's HELLO; without one's own
 * HELLO the peer has nothing that it could do with the record.  On a shared carrier both have
 * sent some, and each link needs its last record. */
void sr_vtx_drop(struct sr_vlink *l)
{
	if (l->tx.last != SR_V_OPEN || l->c->broken)
		return;
	sr_vpost_due(l->c);
	if (sr_load(&l->c->shared) || (l->c->out.credit.sent && may_post(l)))
		l->tx.last = SR_V_DROP_DUE;
	sr_vpost_link(l);
}

void sr_vtx_kick(struct sr_vlink *l)
{
	sr_vcarrier_lock(l->c);
	sr_vpost_queue(l);
	sr_vpost_gathered(l->c);	/* the peer waits for it */
	if (sr_vtx_waits(l))
		sr_vcq_await_out(l->c);
	sr_vcarrier_unlock(l->c);
}

/* ---- what comes back ---- */

bool sr_vtx_may_swap(const struct sr_vlink *l)
{
	return l->tx.sent == sr_load(&l->link.tx_w) && l->c->out.arrived >= l->tx.last_write;
}

int sr_vtx_credit(struct sr_vlink *l, uint64_t ack)
{
	uint64_t acked = sr_load(&l->link.tx_acked);
	int news;

	if (!(sr_link_events(&l->link) & SR_LINK_ACKSW))
		return 0;
	news = sr_credit_said(acked, sr_load(&l->link.tx_w), ack);
	if (news <= 0)
		return news;
	if (ack == sr_load(&l->link.tx_w))
		l->tx.burst = 0;
	sr_publish(&l->link.tx_acked, ack);	/* pairs with the engine's observe */
	sr_vlink_hear(l, SR_NOTIFY_TX);
	return 0;
}

/* ---- the contract ---- */

int sr_vtx_queue(struct sr_vlink *l, const struct sr_msg *msg)
{
	struct sr_vpend *p = &l->tx.pend[l->tx.pend_tail % SR_V_PEND];

	if (l->tx.pend_tail - l->tx.pend_head == SR_V_PEND)
		return -EINVAL;
	p->at = sr_load(&l->link.tx_w);
	p->msg = *msg;
	l->tx.pend_tail++;
	sr_vpost_queue(l);
	return 0;
}

int sr_verbs_ctl(struct sr_link *link, struct sr_msg *msg)
{
	struct sr_vlink *l = sr_vlink(link);
	int err;

	sr_vcarrier_lock(l->c);
	err = sr_link_say(link, msg);
	if (!err && msg->type == SR_MSG_SWITCH)
		l->tx.sent = l->tx.done = msg->sw.n;
	if (!err)
		err = sr_vtx_queue(l, msg);
	sr_vpost_gathered(l->c);
	sr_vcarrier_unlock(l->c);
	sr_vlook_link(l, SR_LOOK);	/* the peer may owe an answer */
	return err;
}

size_t sr_vring_pieces(const struct sr_vring *r, uint64_t at, size_t n, struct iovec v[2])
{
	const struct sr_ring ring = { r->buf, r->size };

	return sr_ring_span(&ring, at, n, v);
}

size_t sr_verbs_tx_room(struct sr_link *link, struct iovec v[2])
{
	struct sr_vlink *l = sr_vlink(link);
	uint64_t w, room = 0;
	bool swapped = false, begins = false;

	if (!(sr_link_events(link) & SR_LINK_ACKSW))
		return 0;
	sr_vcarrier_lock(l->c);
	/* A larger ring is on its way: what is in flight is let run out for it. */
	if (l->tx.swap) {
		swapped = sr_vgrow_swap(l);
		if (!swapped && l->tx.spare.size > l->tx.ring.size)
			goto unlock;
	}
	begins = !l->tx.ring.buf;
	l->tx.idle = false;
	if (begins && !sr_vring_fill(&l->tx.ring)) {
		sr_vlink_break(l, "memory");
		goto unlock;
	}
	w = sr_load(&link->tx_w);
	room = sr_credit_room(l->tx.window, w - sr_load(&link->tx_acked),
			      least_of(l->tx.window / 8, GAP_BYTES));
	sr_vring_pieces(&l->tx.ring, w, room, v);
	sr_link_offer(link, v, true);
unlock:
	if (swapped)
		sr_vlink_hear(l, SR_NOTIFY_WORK);
	sr_vcarrier_unlock(l->c);
	if (begins)
		sr_vlook_link(l, SR_LOOK);	/* it goes when it is idle */
	return room;
}

void sr_verbs_tx_commit(struct sr_link *link, size_t n, bool more)
{
	struct sr_vlink *l = sr_vlink(link);
	bool waits = false;

	sr_link_offer_moves(link, n);
	sr_vcarrier_lock(l->c);
	note_arrival(l);
	l->tx.more = more;
	sr_vcq_note_use(l->c);	/* a program that only sends takes the completions here */
	sr_publish(&link->tx_w, sr_load(&link->tx_w) + n); /* the same */
	sr_vpost_link(l);
	sr_vpost_left(l->c);
	if (sr_vtx_waits(l) || sr_vpost_presses(l->c)) {
		sr_vcq_await_out(l->c);
		waits = !l->c->cq.watched && sr_vtx_waits(l);
	}
	sr_vcarrier_unlock(l->c);
	/* The peer owes an answer. */
	sr_vlook_link(l, waits ? SR_LOOK | SR_LOOK_SOON : SR_LOOK);
}

size_t sr_verbs_tx_retained(struct sr_link *link, uint64_t from, struct iovec v[2])
{
	struct sr_vlink *l = sr_vlink(link);
	size_t n;

	sr_lock(&l->c->lock);
	n = sr_vring_pieces(&l->tx.ring, from, sr_load(&link->tx_w) - from, v);
	sr_unlock(&l->c->lock);
	return n;
}

/*
 * A request completes when the responder has acknowledged it, and then that has the
 * bytes (InfiniBand Architecture 1, 9.7, reliable service).  On iWARP it may complete
 * when its buffer is free (RFC 5040, 3.2): only the program's word counts there.
 * If no completion is to come for the last bytes, an ACK behind them has one.
 */
uint64_t sr_verbs_tx_arrived(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	uint64_t done, acked = sr_load(&link->tx_acked);

	sr_vcarrier_lock(l->c);
	note_arrival(l);
	done = l->c->iwarp ? acked : l->tx.done;
	if (done < l->tx.sent && acked < l->tx.sent && !l->c->iwarp && !sr_vpost_has_in_flight(l->c)) {
		sr_vtx_owe(l);
		sr_vpost_due(l->c);
	}
	sr_vcarrier_unlock(l->c);
	return done > acked ? done : acked;
}
