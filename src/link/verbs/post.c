/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * post.c - packets of a carrier that go out, and their completions.  No other file posts sends.
 * What a link puts into a packet is decided in tx.c.
 *
 * Lock: the carrier's, which all callers hold.
 *
 * A packet (pure/packet.h) is records of what is due when the packet is built: nothing but
 * messages is queued.  A link may have an RDMA WRITE posted in front of the packet that
 * announces it.
 *
 * A packet is signalled only if its completion is needed: to free places in the send queue (once
 * every SIGNAL requests), to free its send buffer (unless it was sent inline), because a link waits
 * for it (then the link has cleared `quiet'), or because other links may (sr_vpost_gathers()).  So the short
 * answers of a link that is alone cost no completions.
 *
 * A packet needs one of the receive buffers that the peer has posted, because "receiver not
 * ready" costs 655 ms, and does not exist on iWARP (pure/credit.h).  A packet also needs a send
 * buffer and a place in the send queue.  These two become free whatever the peer's program does,
 * because each packet that is posted finds a receive buffer, and so completes.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <string.h>

enum {
	WR_BATCH = 8,		/* posted with one doorbell */
	SIGNAL = SR_V_SQ / 4,	/* requests: as many may have no completion of their own */
	PATH_MS = 100,		/* an acknowledgement needs microseconds; 1 s: it is lost */
};

struct batch {
	unsigned n;
	struct ibv_send_wr wr[WR_BATCH];
	struct ibv_sge sge[WR_BATCH];
	struct sr_vpacket packet;	/* that is being built */
	unsigned copied;	/* the last so many packets are sent inline */
};

_Static_assert(2 * SR_V_SENDS <= WR_BATCH, "each packet has a write at most in front of it");

static void flush_held(void);

static unsigned sq_used(const struct sr_vcarrier *c)
{
	return c->out.sq_posted - c->out.sq_done;
}

bool sr_vpost_presses(const struct sr_vcarrier *c)
{
	return sq_used(c) > SR_V_SQ / 2;
}

bool sr_vpost_has_in_flight(const struct sr_vcarrier *c)
{
	return (int32_t)(c->out.sq_signalled - c->out.sq_done) > 0;
}

/* ---- requests ---- */

/* The device's library copies what is sent inline, so the buffers of such packets are free then. */
static void batch_flush(struct sr_vcarrier *c, struct batch *b)
{
	struct ibv_send_wr *bad;
	unsigned i;

	if (!b->n)
		return;
	for (i = 0; i + 1 < b->n; i++)
		b->wr[i].next = &b->wr[i + 1];
	b->wr[i].next = NULL;
	b->n = 0;
	c->out.buffers -= b->copied;
	b->copied = 0;
	/* Once a post has failed nothing more is posted, because the peer would take a later packet
	 * for the one that was not sent. */
	if (!c->broken && ibv_post_send(c->qp, b->wr, &bad))
		sr_vcarrier_break(c, "device-failed");
}

/* The next work request; the caller has seen that the queue has room. */
static struct ibv_send_wr *batch_add(struct sr_vcarrier *c, struct batch *b, enum ibv_wr_opcode op,
				     const void *from, size_t len, uint32_t lkey)
{
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;

	wr = &b->wr[b->n];
	sge = &b->sge[b->n++];
	*sge = (struct ibv_sge){ (uintptr_t)from, len, lkey };
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = c->out.sq_posted & 0xffff;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = op;
	if (len <= c->max_inline)
		wr->send_flags = IBV_SEND_INLINE;
	c->out.after[c->out.sq_posted % SR_V_SQ].packets = c->out.packets;
	c->out.after[c->out.sq_posted++ % SR_V_SQ].buffers = c->out.buffers - b->copied;
	return wr;
}

void sr_vpost_write(struct sr_vlink *l, struct sr_vpacket *p, const void *from, size_t n,
		    uint64_t to)
{
	struct batch *b = SR_OF(struct batch, packet, p);
	struct ibv_send_wr *wr;

	wr = batch_add(l->c, b, IBV_WR_RDMA_WRITE, from, n, l->tx.ring.mr->lkey);
	wr->wr.rdma.remote_addr = to;
	wr->wr.rdma.rkey = l->tx.peer.rkey;
	l->c->out.write_packet = l->c->out.packets + 1;
	p->quiet = false;
}

/* ---- the path ---- */

/*
 * Most packets are short.  A network whose MTU is smaller than the device's lets them pass, and
 * loses longer ones.  So each end makes the packet behind HELLO as long as the network's longest
 * (IBV_MTU_4096), by a PAD.  A queue pair delivers in order: if the long packet is lost, neither
 * SWITCH nor ACKSW arrives, and no byte of the stream has left TCP.  No thread waits for the long
 * packet.  HELLO goes before it in a packet of its own: if HELLO gets through, and the long packet
 * does not, the path is the cause.  (On iWARP TCP finds the MTU of the path.)
 */
static void add_pad(struct sr_vcarrier *c, struct sr_vpacket *p)
{
	size_t n = sr_packet_room(&p->out);

	c->out.pad_due = false;
	p->quiet = false;
	if (n)
		sr_packet_put_raw(&p->out, 0, SR_RECORD_PAD, 0, n);
	c->out.path_packet = c->out.packets + 1;
	c->out.path_ns = sr_now_ns();
}

const char *sr_vpost_why(const struct sr_vcarrier *c, enum ibv_wc_status status, const char *reason)
{
	/* The path is the cause only if the long packet is the first one that has not arrived. */
	if (!c->out.path_ns || c->out.arrived + 1 != c->out.path_packet)
		return reason;
	/* The peer may have noticed the loss first and left, so another status is no proof against
	 * the path if time enough has passed. */
	if (status == IBV_WC_RETRY_EXC_ERR ||
	    sr_now_ns() - c->out.path_ns > PATH_MS * UINT64_C(1000000))
		return "path";
	return reason;
}

/* ---- packets ---- */

/* If all send buffers are in use, posts the batch: that frees those which the device copies. */
static void flush_if_full(struct sr_vcarrier *c, struct batch *b)
{
	if (b->n && c->out.buffers - c->out.buffers_done == SR_V_SENDS)
		batch_flush(c, b);
}

/* Do records wait for those of other links, so that one packet has them all?  They do while a packet
 * is under way, and no WRITE is: bulk waits for nothing but room.
 *
 * The wait ends when that packet completes; so packets have completions if several links share the
 * carrier, and nothing waits if none is to come.  Whoever polls next finds it.  A thread that is
 * about to wait posts what it has left (sr_link_left), and so does the service thread, which
 * sr_vpost_due() asks to look, if the program has not done so (tick.c).  tests/model/gather.pml has
 * this.
 *
 * A packet that was full goes without waiting for the one before it, and so does what the service
 * thread has to say, for which a peer waits. */
bool sr_vpost_gathers(const struct sr_vcarrier *c)
{
	return sr_load(&c->shared) && c->share.numbers.used > 1;
}

static bool is_gathering(const struct sr_vcarrier *c)
{
	return sr_vpost_gathers(c) && !c->out.hurries && !c->out.full && sr_vpost_has_in_flight(c) &&
	       c->out.arrived >= c->out.write_packet;
}

/* records: a packet with records, for which the peer must have more than SR_PACKETS_KEPT receive
 * buffers free; otherwise one with only the count of posted receive buffers, and an ACK. */
static bool packet_may_go(struct sr_vcarrier *c, bool records)
{
	return sr_packets_may_send(&c->out.credit, records) && !(records && is_gathering(c)) &&
	       sq_used(c) + 2 <= SR_V_SQ &&
	       c->out.buffers - c->out.buffers_done < SR_V_SENDS;
}

static void next_packet_begin(struct sr_vcarrier *c, struct sr_vpacket *p)
{
	size_t i = SR_V_RQ + c->out.buffers % SR_V_SENDS;
	struct sr_process process;

	p->quiet = true;
	p->full = false;
	sr_packet_begin(&p->out, c->ctl.buf + i * SR_PACKET_MAX, SR_PACKET_MAX);
	if (c->out.credit.sent)
		return;
	process = sr_vdev_process(c->share.most);
	sr_packet_put_process(&p->out, &process);
}

static void packet_end(struct sr_vcarrier *c, struct batch *b)
{
	struct sr_packet_out *p = &b->packet.out;
	bool copied = p->len <= c->max_inline;
	struct ibv_send_wr *wr;

	sr_packets_spend(&c->out.credit);
	sr_packet_posted(p, c->out.credit.posted);
	c->out.buffers++;
	c->out.packets++;
	b->copied = copied ? b->copied + 1 : 0;
	wr = batch_add(c, b, IBV_WR_SEND, p->buf, p->len, c->ctl.mr->lkey);
	if (copied && b->packet.quiet && !sr_vpost_gathers(c) &&
	    c->out.sq_posted - c->out.sq_signalled < SIGNAL)
		return;
	wr->send_flags |= IBV_SEND_SIGNALED;
	c->out.sq_signalled = c->out.sq_posted;
}

/* Each queued link has a turn at most; what it still has to send then goes behind what the
 * others have.  A link that has nothing left leaves the queue.  Returns whether there was
 * anything for the packet. */
static bool packet_fill(struct sr_vcarrier *c, struct sr_vpacket *p, bool records)
{
	const struct sr_vlink *last = c->out.queue;
	struct sr_vlink *l = NULL;
	bool any = records && sr_vshare_fill(c, p);

	while (c->out.queue && l != last && !p->full) {
		l = c->out.queue->queue_next;
		if (sr_vtx_waits(l))
			any |= sr_vtx_fill(l, p, records);
		if (sr_vtx_waits(l))
			c->out.queue = l;
		else
			sr_vpost_unqueue(l);
	}
	return any;
}

/* A packet of nothing but the count, and an ACK. */
static bool fill_count(struct sr_vcarrier *c, struct sr_vpacket *p)
{
	if (!sr_packets_owes(&c->out.credit))
		return false;
	if (c->links)
		sr_vtx_fill_ack(c->links, p);
	return true;
}

/* Has the carrier's only link to send DROP?  It may take a buffer that is kept for counts, too,
 * because no count comes behind it. */
static bool is_last(const struct sr_vcarrier *c)
{
	return c->out.queue && c->out.queue->tx.last == SR_V_DROP_DUE && !sr_load(&c->shared);
}

/* One packet.  False: there is nothing for it, or it may not go. */
static bool post_packet(struct sr_vcarrier *c, struct batch *b)
{
	const bool kept = sr_packets_owes(&c->out.credit) || is_last(c);
	const bool pads = c->out.pad_due;

	flush_if_full(c, b);
	if (!packet_may_go(c, !kept))
		return false;
	next_packet_begin(c, &b->packet);
	if (!packet_fill(c, &b->packet, sr_packets_may_send(&c->out.credit, true)) &&
	    !fill_count(c, &b->packet))
		return false;
	c->out.full = b->packet.full;
	if (pads)
		add_pad(c, &b->packet);
	packet_end(c, b);
	return true;
}

static void post_packets(struct sr_vcarrier *c)
{
	struct batch b;

	b.n = b.copied = 0;
	while (post_packet(c, &b))
		;
	batch_flush(c, &b);
}

/* ---- carriers with records that wait for others ---- */

/* A thread that is about to wait posts the records that wait on carriers to which it was the last
 * to give some, because it may sleep for links that it has armed before.  held_lock is a leaf. */
static struct sr_mutex held_lock = SR_MUTEX(SR_RANK_LEAF);
static struct sr_vcarrier *held;

static void held_drop(struct sr_vcarrier *c)
{
	struct sr_vcarrier **at = &held;

	while (*at && *at != c)
		at = &(*at)->out.held_next;
	if (*at)
		*at = c->out.held_next;
}

/* The carrier has records that wait, or none any more. */
static void note_held(struct sr_vcarrier *c, bool holds)
{
	if (holds == c->out.holds)
		return;
	sr_lock(&held_lock);
	if (holds) {
		c->out.held_next = held;
		held = c;
	} else {
		held_drop(c);
	}
	c->out.holds = holds;
	sr_unlock(&held_lock);
}

void sr_vpost_left(struct sr_vcarrier *c)
{
	if (!c->out.holds)
		return;
	sr_lock(&held_lock);
	c->out.holder = pthread_self();
	sr_unlock(&held_lock);
	sr_link_left = flush_held;
}

/* The tick reads it without the lock. */
static void note_state(struct sr_vcarrier *c, bool waits)
{
	uint64_t state = c->out.packets * 2 | (waits ? SR_V_OUT_WAITS : 0);

	if (state != sr_load(&c->out.state))
		sr_store(&c->out.state, state);
}

/* Most calls find nothing to post. */
void sr_vpost_due(struct sr_vcarrier *c)
{
	bool waits = false;

	if (c->qp && !c->broken && c->established &&
	    (c->out.queue || c->share.first_due || sr_packets_owes(&c->out.credit))) {
		post_packets(c);
		waits = sr_vpost_waits(c);
		if (waits && is_gathering(c) && sr_vcq_take_sent(c)) {
			post_packets(c);
			waits = sr_vpost_waits(c);
		}
	}
	note_state(c, waits);
	c->out.full &= waits;
	waits = waits && is_gathering(c);
	note_held(c, waits);
	if (waits) {
		c->look.gathered = true;
		sr_vlook_start(c, SR_LOOK | SR_LOOK_SOON);
	}
}

void sr_vpost_gathered(struct sr_vcarrier *c)
{
	c->out.hurries = true;
	sr_vpost_due(c);
	c->out.hurries = false;
}

/* A carrier to which the thread was the last to give records that wait, with a reference; NULL:
 * none. */
static struct sr_vcarrier *held_get(pthread_t thread)
{
	struct sr_vcarrier *c;

	sr_lock(&held_lock);
	c = held;
	while (c && !(c->out.holder == thread && sr_vcarrier_tryget(c)))
		c = c->out.held_next;
	sr_unlock(&held_lock);
	return c;
}

static void flush_held(void)
{
	struct sr_vcarrier *c;
	int err = errno;

	sr_enter();	/* a handler must not leave with the reference */
	sr_link_left = NULL;
	while ((c = held_get(pthread_self()))) {
		sr_vcarrier_lock(c);
		sr_vpost_gathered(c);
		sr_vcarrier_unlock(c);
		sr_vcarrier_put(c);
	}
	sr_leave();
	errno = err;
}

void sr_vpost_end(struct sr_vcarrier *c)
{
	note_held(c, false);
}

void sr_vpost_forget(void)
{
	sr_mutex_init(&held_lock, SR_RANK_LEAF);
	held = NULL;
	sr_link_left = NULL;
}

/* ---- the queue of links ---- */

void sr_vpost_queue(struct sr_vlink *l)
{
	struct sr_vcarrier *c = l->c;

	c->out.swaps |= l->tx.swap;
	if (l->queue_next || !sr_vtx_waits(l))
		return;
	l->queue_next = c->out.queue ? c->out.queue->queue_next : l;
	if (c->out.queue)
		c->out.queue->queue_next = l;
	c->out.queue = l;
}

void sr_vpost_unqueue(struct sr_vlink *l)
{
	struct sr_vcarrier *c = l->c;
	struct sr_vlink *before = c->out.queue;

	if (!l->queue_next)
		return;
	while (before->queue_next != l)
		before = before->queue_next;
	before->queue_next = l->queue_next;
	if (c->out.queue == l)
		c->out.queue = before == l ? NULL : before;
	l->queue_next = NULL;
}

void sr_vpost_link(struct sr_vlink *l)
{
	sr_vpost_queue(l);
	sr_vpost_due(l->c);
}

bool sr_vpost_waits(struct sr_vcarrier *c)
{
	struct sr_vlink *l = c->out.queue;

	if (c->share.first_due && c->qp && !c->broken)
		return true;
	while (l && !sr_vtx_waits(l)) {
		l = l->queue_next;
		if (l == c->out.queue)
			return false;
	}
	return l;
}

/* ---- completions ---- */

/* Notifies the links that wait until they may exchange their send rings. */
static void tell_swaps(struct sr_vcarrier *c)
{
	struct sr_vlink *l = c->out.queue;

	if (!c->out.swaps)
		return;
	c->out.swaps = false;
	if (!l)
		return;
	do {
		l = l->queue_next;
		c->out.swaps |= l->tx.swap;
		if (l->tx.swap && sr_vtx_may_swap(l))
			sr_vlink_hear(l, SR_NOTIFY_WORK);
	} while (l != c->out.queue);
}

/* flushed: the request of that number has failed, or was flushed.  Then it is not known which of
 * the requests since the last completion have arrived, so none of them counts. */
void sr_vpost_reap(struct sr_vcarrier *c, uint16_t seq, bool flushed)
{
	uint16_t n = (uint16_t)(seq - (uint16_t)c->out.sq_done) + 1;

	if (n > sq_used(c))
		return;
	c->out.sq_done += n;
	if (flushed)
		return;
	c->out.arrived = c->out.after[(c->out.sq_done - 1) % SR_V_SQ].packets;
	c->out.buffers_done = c->out.after[(c->out.sq_done - 1) % SR_V_SQ].buffers;
	tell_swaps(c);
}
