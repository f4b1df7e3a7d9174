/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tx.c - the sending half of a verbs link.  The only file that posts sends.
 *
 * Lock: the carrier's.  Functions without "locks" are called with it.
 *
 * All that goes to the peer is packets (pure/packet.h): records of what is due when the packet
 * is built.  Nothing but messages is queued.  As many bytes of the stream as a packet has room for
 * travel in it, and the peer's end copies them into its ring: to copy them twice costs less than
 * a second request does at both devices.  More is written straight into the peer's ring, by
 * an RDMA WRITE that is posted before the packet whose DATA record announces it.
 *
 * What is written while a small write is in flight is held back, and goes out in
 * one packet when all has completed.  A burst may begin with BURST writes at
 * once: many programs write a header and a body.
 *
 * A packet is signalled if something may wait for its completion: a place in the send queue
 * (once every SIGNAL requests), its buffer, a ring that a WRITE in front of it reads, or bytes
 * that are held back behind it.  So a short packet that is sent inline, as an answer that nothing
 * else follows, costs no completion.
 *
 * A packet needs one of the receive buffers that the peer has posted, because "receiver not
 * ready" costs 655 ms, and iWARP does not even have it: pure/credit.h.  It also needs a send
 * buffer and a place in the send queue.  These two do not wait for the peer's program: each
 * packet finds a buffer, so it completes.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <string.h>

enum {
	WR_BATCH = 8,		/* posted with one doorbell */
	WR_BYTES = 128 << 10,	/* a write's length: pipelined, not one lump */
	HOLD_BYTES = 8 << 10,	/* as much is not held back */
	BURST = 2,		/* small writes that are not held back */
	SIGNAL = SR_V_SQ / 4,	/* requests: as many may have no completion of their own */
	GAP_BYTES = 4 << 10,	/* smaller gaps are not offered */
	PATH_MS = 100,		/* an acknowledgement needs microseconds; 1 s: it is lost */
};

struct batch {
	unsigned n;
	struct ibv_send_wr wr[WR_BATCH];
	struct ibv_sge sge[WR_BATCH];
	struct sr_packet_out packet;	/* that is being built */
	bool quiet;		/* and nobody need know that it has completed */
	unsigned copied;	/* the last so many packets are sent inline */
};

_Static_assert(2 * SR_V_SENDS <= WR_BATCH, "each packet has a write at most in front of it");

static unsigned sq_used(const struct sr_vcarrier *c)
{
	return c->out.sq_posted - c->out.sq_done;
}

bool sr_vtx_completes(const struct sr_vcarrier *c)
{
	return (int32_t)(c->out.sq_signalled - c->out.sq_done) > 0;
}

/* ---- posting ---- */

/* What is sent inline is copied by the device's library: its buffer is free then. */
static void flush(struct sr_vlink *l, struct batch *b)
{
	struct ibv_send_wr *bad;
	unsigned i;

	if (!b->n)
		return;
	for (i = 0; i + 1 < b->n; i++)
		b->wr[i].next = &b->wr[i + 1];
	b->wr[i].next = NULL;
	b->n = 0;
	l->c->out.buffers -= b->copied;
	b->copied = 0;
	/* Nothing goes out behind what did not: the peer would take it for that. */
	if (!l->broken && !l->c->broken && ibv_post_send(l->c->qp, b->wr, &bad))
		sr_vcarrier_break(l->c, "device-failed");
}

/* The next work request; the caller has seen that the queue has room. */
static struct ibv_send_wr *vtx_add(struct sr_vlink *l, struct batch *b,
			       enum ibv_wr_opcode op, const void *from,
			       size_t len, uint32_t lkey)
{
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;

	wr = &b->wr[b->n];
	sge = &b->sge[b->n++];
	*sge = (struct ibv_sge){ (uintptr_t)from, len, lkey };
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = l->c->out.sq_posted & 0xffff;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = op;
	if (len <= l->c->max_inline)
		wr->send_flags = IBV_SEND_INLINE;
	l->c->out.after[l->c->out.sq_posted % SR_V_SQ].sent = l->tx.sent;
	l->c->out.after[l->c->out.sq_posted++ % SR_V_SQ].buffers = l->c->out.buffers - b->copied;
	return wr;
}

/* ---- packets ---- */

/* May a packet be sent: with records, or a count with ACKs? */
static bool packet_may_go(struct sr_vlink *l, struct batch *b, bool records)
{
	if (b->n && l->c->out.buffers - l->c->out.buffers_done == SR_V_SENDS)
		flush(l, b);
	return sr_packets_may_send(&l->c->out.credit, records) && sq_used(l->c) + 2 <= SR_V_SQ &&
	       l->c->out.buffers - l->c->out.buffers_done < SR_V_SENDS;
}

static void packet_begin(struct sr_vlink *l, struct batch *b)
{
	size_t i = SR_V_RQ + l->c->out.buffers % SR_V_SENDS;

	b->quiet = true;
	sr_packet_begin(&b->packet, l->c->ctl.buf + i * SR_PACKET_MAX, SR_PACKET_MAX);
	if (!l->c->out.credit.sent)
		sr_packet_put_process(&b->packet, sr_vdev_process());
}

static void packet_end(struct sr_vlink *l, struct batch *b)
{
	struct sr_packet_out *p = &b->packet;
	bool copied = p->len <= l->c->max_inline;
	struct ibv_send_wr *wr;

	sr_packets_spend(&l->c->out.credit);
	sr_packet_posted(p, l->c->out.credit.posted);
	l->c->out.buffers++;
	b->copied = copied ? b->copied + 1 : 0;
	wr = vtx_add(l, b, IBV_WR_SEND, p->buf, p->len, l->c->ctl.mr->lkey);
	if (copied && b->quiet && !l->tx.swap && l->c->out.sq_posted - l->c->out.sq_signalled < SIGNAL)
		return;
	wr->send_flags |= IBV_SEND_SIGNALED;
	l->c->out.sq_signalled = l->c->out.sq_posted;
}

/* A record says that our program has taken so many bytes. */
static void ack_goes(struct sr_vlink *l, uint64_t taken)
{
	atomic_store_explicit(&l->tx.ack_said, taken, memory_order_relaxed);
	l->tx.ack_due = false;
}

static bool add_msg(struct sr_vlink *l, struct batch *b, struct sr_msg *msg)
{
	msg->ack = atomic_load(&l->link.rx_taken);
	if (!sr_packet_put(&b->packet, SR_V_NUMBER, msg))
		return false;
	ack_goes(l, msg->ack);
	return true;
}

static bool is_small(const struct sr_vlink *l, size_t n)
{
	return n < least_of(HOLD_BYTES, l->tx.window / 8);
}

/* Returns how many of n bytes fit. */
static size_t add_bytes(struct sr_vlink *l, struct batch *b, size_t n)
{
	uint64_t taken = atomic_load(&l->link.rx_taken);
	struct iovec v[2];
	uint8_t *body;

	n = least_of(n, sr_packet_room(&b->packet));
	if (!n)
		return 0;
	body = sr_packet_put_raw(&b->packet, SR_V_NUMBER, SR_MSG_BYTES, taken, n);
	ack_goes(l, taken);
	sr_vring_pieces(&l->tx.ring, l->tx.sent, n, v);
	memcpy(body, v[0].iov_base, v[0].iov_len);
	memcpy(body + v[0].iov_len, v[1].iov_base, v[1].iov_len);
	return n;
}

/* One write of at most n bytes, as far as both rings go without a wrap.  Returns its length. */
static size_t add_write(struct sr_vlink *l, struct batch *b, size_t n)
{
	size_t at = l->tx.sent & (l->tx.ring.size - 1);
	size_t to = l->tx.sent & (l->tx.peer.size - 1);
	struct sr_msg msg = { .type = SR_MSG_DATA };
	struct ibv_send_wr *wr;

	n = least_of(n, least_of(l->tx.ring.size - at, l->tx.peer.size - to));
	n = least_of(n, least_of(WR_BYTES, l->tx.window / 4));
	msg.len = n;
	if (!add_msg(l, b, &msg))
		return 0;
	wr = vtx_add(l, b, IBV_WR_RDMA_WRITE, l->tx.ring.buf + at, n, l->tx.ring.mr->lkey);
	wr->wr.rdma.remote_addr = l->tx.peer.addr + to;
	wr->wr.rdma.rkey = l->tx.peer.rkey;
	l->tx.written = l->tx.sent + n;
	b->quiet = false;
	return n;
}

/* ---- what may go ---- */

static bool data_may_go(struct sr_vlink *l, size_t n, bool message_waits)
{
	if (message_waits || !is_small(l, n))
		return true;
	if (l->tx.more)
		return false;
	return l->tx.sent == l->tx.done || l->tx.burst < BURST;
}

/* Of a link that we have given up only DROP goes; of one that broke, nothing. */
static bool may_post(struct sr_vlink *l)
{
	unsigned have = sr_link_events(&l->link);

	return l->c->qp && !l->c->broken && !l->broken && (have & SR_LINK_UP) && l->tx.last != SR_V_DROPPED &&
	       (!(have & SR_LINK_DEAD) || l->tx.last == SR_V_DROP_DUE);
}

/* Of the bytes that our program has taken, or because a count is owed. */
static bool ack_wanted(struct sr_vlink *l)
{
	uint64_t taken = atomic_load(&l->link.rx_taken);

	return l->tx.ack_due || taken - l->tx.ack_said >= l->rx.window / 4 ||
	       sr_packets_owes(&l->c->out.credit);
}

/* Are there bytes or messages that are not posted? */
static bool queue_waits(const struct sr_vlink *l)
{
	return l->tx.sent != atomic_load(&l->link.tx_w) || l->tx.pend_head != l->tx.pend_tail;
}

bool sr_vtx_waits(struct sr_vlink *l)
{
	/* An ACK waits for a send buffer, or for credit: a sender may wait for it. */
	return queue_waits(l) || l->tx.swap || (ack_wanted(l) && may_post(l));
}

bool sr_vtx_lacks_credit(struct sr_vlink *l)
{
	return !sr_packets_may_send(&l->c->out.credit, true) && sr_vtx_waits(l);
}

/* ---- the path ---- */

/*
 * Most packets are short.  A network whose MTU is smaller than the device's lets them pass, and
 * loses longer ones.  So each end makes the packet behind HELLO as long as the longest of the
 * network (IBV_MTU_4096), by a PAD.  A queue pair delivers in order: if that packet is lost
 * neither SWITCH nor ACKSW arrives, and no byte of the stream has left TCP.  Nobody waits for
 * it.  HELLO goes before it, alone: if that gets through, and the long one does not, it is
 * the path.  (On iWARP TCP finds the MTU of the path.)
 */
static void add_pad(struct sr_vlink *l, struct batch *b)
{
	size_t n = sr_packet_room(&b->packet);

	l->c->out.pad_due = false;
	b->quiet = false;
	if (n)
		sr_packet_put_raw(&b->packet, 0, SR_RECORD_PAD, 0, n);
	l->c->out.path_seq = l->c->out.sq_posted;
	l->c->out.path_ns = sr_now_ns();
}

const char *sr_vtx_why(const struct sr_vcarrier *c, enum ibv_wc_status status, const char *reason)
{
	/* All before it has arrived, and it has not. */
	if (!c->out.path_ns || c->out.sq_done != c->out.path_seq)
		return reason;
	/* The peer may have noticed first, and left. */
	if (status == IBV_WC_RETRY_EXC_ERR ||
	    sr_now_ns() - c->out.path_ns > PATH_MS * UINT64_C(1000000))
		return "path";
	return reason;
}

/* The first of the messages that wait, and what it changes. */
static bool pump_message(struct sr_vlink *l, struct batch *b)
{
	struct sr_vpend *p = &l->tx.pend[l->tx.pend_head % SR_V_PEND];

	if (!add_msg(l, b, &p->msg))
		return false;
	l->c->out.pad_due |= p->msg.type == SR_MSG_HELLO && !l->c->iwarp;
	l->tx.pend_head++;
	b->quiet = false;
	return true;
}

/* Returns whether more may follow in the packet: no two writes are announced by one, so that
 * the peer has the first one early. */
static bool pump_data(struct sr_vlink *l, struct batch *b, size_t n)
{
	bool writes = n > sr_packet_room(&b->packet) && l->tx.peer.addr && l->tx.ring.mr;

	n = writes ? add_write(l, b, n) : add_bytes(l, b, n);
	l->tx.sent += n;
	if (n)
		l->tx.burst += is_small(l, n);
	b->quiet &= l->tx.burst < BURST;
	return n && !writes;
}

/* Records of data and messages in their order.  HELLO is the last of its packet. */
static void packet_fill(struct sr_vlink *l, struct batch *b)
{
	const bool pads = l->c->out.pad_due;
	bool message, more = true;
	uint64_t until;

	while (more && l->c->out.pad_due == pads) {
		message = l->tx.pend_head != l->tx.pend_tail;
		until = message ? l->tx.pend[l->tx.pend_head % SR_V_PEND].at :
				  atomic_load(&l->link.tx_w);
		if (l->tx.sent < until)
			more = data_may_go(l, until - l->tx.sent, message) &&
			       pump_data(l, b, until - l->tx.sent);
		else
			more = message && pump_message(l, b);
	}
	if (pads)
		add_pad(l, b);
}

static void pump_queue(struct sr_vlink *l, struct batch *b)
{
	size_t empty;

	while (queue_waits(l) && packet_may_go(l, b, true)) {
		packet_begin(l, b);
		empty = b->packet.len;
		packet_fill(l, b);
		if (b->packet.len == empty)
			break;
		packet_end(l, b);
	}
}

/* The last record of this end, with its last ack: the peer sends all bytes again that it does
 * not know to have been taken. */
static void pump_drop(struct sr_vlink *l, struct batch *b)
{
	uint64_t taken = atomic_load(&l->link.rx_taken);

	/* (It takes a buffer that is kept for counts, too: no count comes behind it.) */
	if (!packet_may_go(l, b, false))
		return;
	packet_begin(l, b);
	b->quiet = false;
	sr_packet_put_raw(&b->packet, SR_V_NUMBER, SR_RECORD_DROP, taken, 0);
	packet_end(l, b);
	l->tx.last = SR_V_DROPPED;
}

/* On iWARP the answerer may send nothing before the asker's HELLO; without one's own
 * HELLO the peer has nothing that it could do with the record. */
void sr_vtx_drop(struct sr_vlink *l)
{
	if (l->tx.last != SR_V_OPEN)
		return;
	sr_vtx_pump(l);
	if (l->c->out.credit.sent && may_post(l))
		l->tx.last = SR_V_DROP_DUE;
	sr_vtx_pump(l);
}

static void pump_ack(struct sr_vlink *l, struct batch *b)
{
	struct sr_msg ack = { .type = SR_MSG_ACK };

	if (!packet_may_go(l, b, !sr_packets_owes(&l->c->out.credit)))
		return;
	packet_begin(l, b);
	b->quiet = l->tx.done == l->tx.sent;
	add_msg(l, b, &ack);
	packet_end(l, b);
}

static void pump_all(struct sr_vlink *l)
{
	struct batch b;

	b.n = b.copied = 0;
	if (l->tx.last == SR_V_OPEN)
		pump_queue(l, &b);
	if (l->tx.last == SR_V_DROP_DUE)
		pump_drop(l, &b);
	else if (ack_wanted(l))
		pump_ack(l, &b);
	flush(l, &b);
}

/* Most calls find nothing to post. */
void sr_vtx_pump(struct sr_vlink *l)
{
	if ((queue_waits(l) || ack_wanted(l) || l->tx.last == SR_V_DROP_DUE) && may_post(l))
		pump_all(l);
}

void sr_vtx_kick(struct sr_vlink *l)
{
	sr_vcarrier_lock(l->c);
	sr_vtx_pump(l);
	if (sr_vtx_waits(l))
		sr_vcq_await_out(l->c);
	sr_vcarrier_unlock(l->c);
}

/* ---- what comes back ---- */

/* All work requests up to number seq have completed.  flushed: from the last one that
 * did on, they have come to nothing. */
void sr_vtx_completed(struct sr_vcarrier *c, uint16_t seq, bool flushed)
{
	uint16_t n = (uint16_t)(seq - (uint16_t)c->out.sq_done) + 1;
	struct sr_vlink *l = c->link;

	if (n > sq_used(c))
		return;
	c->out.sq_done += n;
	if (flushed)
		return;
	l->tx.done = c->out.after[(c->out.sq_done - 1) % SR_V_SQ].sent;
	c->out.buffers_done = c->out.after[(c->out.sq_done - 1) % SR_V_SQ].buffers;
	if (l->tx.done == atomic_load(&l->link.tx_w))
		l->tx.burst = 0;
	if (l->tx.swap && sr_vtx_may_swap(l))
		l->heard |= SR_NOTIFY_WORK;
}

bool sr_vtx_may_swap(const struct sr_vlink *l)
{
	return l->tx.sent == atomic_load(&l->link.tx_w) && l->tx.done >= l->tx.written;
}

/* The peer says: its program has taken ack bytes.  0 or -EPROTO. */
int sr_vtx_credit(struct sr_vlink *l, uint64_t ack)
{
	uint64_t acked = atomic_load(&l->link.tx_acked);
	int news;

	if (!(sr_link_events(&l->link) & SR_LINK_ACKSW))
		return 0;
	news = sr_credit_said(acked, atomic_load(&l->link.tx_w), ack);
	if (news <= 0)
		return news;
	if (ack == atomic_load(&l->link.tx_w))
		l->tx.burst = 0;
	sr_publish(&l->link.tx_acked, ack);
	l->heard |= SR_NOTIFY_TX;
	return 0;
}

/* ---- the contract ---- */

int sr_vtx_queue(struct sr_vlink *l, const struct sr_msg *msg)
{
	struct sr_vpend *p = &l->tx.pend[l->tx.pend_tail % SR_V_PEND];

	if (l->tx.pend_tail - l->tx.pend_head == SR_V_PEND)
		return -EINVAL;
	p->at = atomic_load(&l->link.tx_w);
	p->msg = *msg;
	l->tx.pend_tail++;
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
	sr_vtx_pump(l);
	sr_vcarrier_unlock(l->c);
	sr_vlook_start(l->c, SR_LOOK);	/* the peer may owe an answer */
	return err;
}

size_t sr_vring_pieces(const struct sr_vring *r, uint64_t at, size_t n,
		       struct iovec v[2])
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
	w = atomic_load(&link->tx_w);
	room = sr_credit_room(l->tx.window, w - atomic_load(&link->tx_acked),
			      least_of(l->tx.window / 8, GAP_BYTES));
	sr_vring_pieces(&l->tx.ring, w, room, v);
	sr_link_offer(link, v, true);
unlock:
	if (swapped)
		l->heard |= SR_NOTIFY_WORK;
	sr_vcarrier_unlock(l->c);
	if (begins)
		sr_vlook_start(l->c, SR_LOOK);	/* it goes when it is idle */
	return room;
}

void sr_verbs_tx_commit(struct sr_link *link, size_t n, bool more)
{
	struct sr_vlink *l = sr_vlink(link);
	bool waits = false;

	sr_link_offer_moves(link, n);
	sr_vcarrier_lock(l->c);
	l->tx.more = more;
	l->c->cq.used++;	/* a program that only sends takes the completions here */
	sr_publish(&link->tx_w, atomic_load(&link->tx_w) + n);
	sr_vtx_pump(l);
	if (sr_vtx_waits(l) || sq_used(l->c) > SR_V_SQ / 2) {
		sr_vcq_await_out(l->c);
		waits = !l->c->cq.watched && sr_vtx_waits(l);
	}
	sr_vcarrier_unlock(l->c);
	/* The peer owes an answer. */
	sr_vlook_start(l->c, waits ? SR_LOOK | SR_LOOK_SOON : SR_LOOK);
}

size_t sr_verbs_tx_retained(struct sr_link *link, uint64_t from,
			    struct iovec v[2])
{
	struct sr_vlink *l = sr_vlink(link);
	size_t n;

	sr_lock(&l->c->lock);
	n = sr_vring_pieces(&l->tx.ring, from, atomic_load(&link->tx_w) - from, v);
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
	uint64_t done, acked = atomic_load(&link->tx_acked);

	sr_vcarrier_lock(l->c);
	done = l->c->iwarp ? acked : l->tx.done;
	if (done < l->tx.sent && acked < l->tx.sent && !l->c->iwarp && !sr_vtx_completes(l->c)) {
		l->tx.ack_due = true;
		sr_vtx_pump(l);
	}
	sr_vcarrier_unlock(l->c);
	return done > acked ? done : acked;
}
