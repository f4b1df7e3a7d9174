/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rx.c - the receiving half of a carrier and its links: completions, packets, and the ring
 * that the program reads.
 *
 * Locks: completions are handled under the carrier's lock, so in the order in which
 * they came.  The ring is read under the stream's rx_lock, in another thread
 * perhaps: the two share only rx_h, rx_taken and rx.gens.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/order.h"

static uint8_t *receive_buffer(struct sr_vcarrier *c, unsigned i)
{
	return c->ctl.buf + (i % SR_V_RQ) * SR_PACKET_MAX;
}

#define POSTED 8		/* at a time: the caller may have a small stack */

int sr_vrx_repost(struct sr_vcarrier *c)
{
	struct ibv_recv_wr wr[POSTED], *bad;
	struct ibv_sge sge[POSTED];
	unsigned k, buf;

	while (c->in.repost_n && c->qp) {
		for (k = 0; k < POSTED && k < c->in.repost_n; k++) {
			buf = (c->out.credit.posted + k) % SR_V_RQ; /* they complete in order */
			sge[k] = (struct ibv_sge){ (uintptr_t)receive_buffer(c, buf),
						   SR_PACKET_MAX, c->ctl.mr->lkey };
			wr[k] = (struct ibv_recv_wr){
				.wr_id = SR_V_RECEIVE | buf,
				.next = &wr[k + 1],
				.sg_list = &sge[k],
				.num_sge = 1,
			};
		}
		wr[k - 1].next = NULL;
		if (ibv_post_recv(c->qp, wr, &bad))
			return -EIO;
		/* Only now may they be counted: earlier the peer could send to a buffer
		 * that is not there. */
		c->in.repost_n -= k;
		c->out.credit.posted += k;
	}
	return 0;
}

/* ---- what arrives ---- */

/* len bytes were written behind rx_h; or they are here, in a packet, and are copied: taking a
 * packet waits for nothing, and bytes have room by their own credit. */
static int data_came(struct sr_vlink *l, const uint8_t *here, uint32_t len)
{
	uint64_t h = sr_load(&l->link.rx_h);
	uint64_t taken = sr_observe(&l->link.rx_taken); /* pairs with sr_verbs_rx_free() */
	const struct sr_ring *ring = sr_gens_ring(&l->rx.gens);
	struct iovec v[2];

	if ((sr_link_events(&l->link) & (SR_LINK_SWITCH | SR_LINK_END)) != SR_LINK_SWITCH)
		return -EPROTO;
	if (!len || h + len - taken > ring->size || (!here && !sr_vgrow_is_registered(l))) {
		sr_debug("verbs: link %x: %u bytes at %llu, %llu taken, ring %zu",
			 l->link.link_no, len, (unsigned long long)h,
			 (unsigned long long)taken, ring->size);
		return -EPROTO;
	}
	if (!sr_vgrow_begin(l)) {
		sr_vlink_break(l, "memory");
		return 0;
	}
	if (here) {
		sr_ring_span(ring, h, len, v);
		memcpy(v[0].iov_base, here, v[0].iov_len);
		memcpy(v[1].iov_base, here + v[0].iov_len, v[1].iov_len);
	}
	sr_publish(&l->link.rx_h, h + len);	/* pairs with sr_verbs_rx_data() */
	sr_vlink_hear(l, SR_NOTIFY_RX);
	sr_vgrow_full(l, h + len - taken);
	return 0;
}

static int hello_came(struct sr_vlink *l, const struct sr_hello *hello)
{
	if (hello->ring.gen || !sr_vgrow_valid(&hello->ring))
		return -EPROTO;
	l->tx.peer = hello->ring;
	l->tx.window = least_of(l->tx.ring.size, l->tx.peer.size);
	/* Its send ring, and so its window, is at first no larger than that. */
	sr_store(&l->rx.window, least_of(l->rx.ring[0].size, l->tx.peer.size));
	return 0;
}

static int message_came(struct sr_vlink *l, const struct sr_msg *msg)
{
	switch (msg->type) {
	case SR_MSG_ACK:
		l->c->out.probe_out = false;
		return 0;
	case SR_MSG_PROBE:
		sr_vtx_owe(l);
		return 0;
	case SR_MSG_DATA:
		return data_came(l, NULL, msg->len);
	case SR_MSG_RING:
		sr_vlink_hear(l, SR_NOTIFY_WORK);
		return sr_vgrow_offered(l, &msg->ring);
	case SR_MSG_RING_USE:
		return sr_vgrow_use(l, msg->use.offset, msg->use.gen);
	case SR_MSG_HELLO:
		sr_vlink_hear(l, SR_NOTIFY_CTL);
		return sr_link_take(&l->link, msg) ? -EPROTO :
						     hello_came(l, &msg->hello);
	case SR_MSG_PROOF:
	case SR_MSG_SWITCH:
		/* The answerer sends these when it has verified the asker's proof or mark. */
		if (l->link.role == SR_ROLE_ASKER)
			sr_vshare_prove(l);
		break;
	default:
		break;
	}
	sr_vlink_hear(l, msg->type == SR_MSG_END ? SR_NOTIFY_CTL | SR_NOTIFY_RX : SR_NOTIFY_CTL);
	return sr_link_take(&l->link, msg);
}

int sr_vrx_record(struct sr_vlink *l, const struct sr_record *r)
{
	int err = sr_vtx_credit(l, r->ack);

	if (err)
		return err;
	return r->type == SR_MSG_BYTES ? data_came(l, r->body, (uint32_t)r->len) :
					 message_came(l, &r->msg);
}

/* The first one says of which process the peer is, which nobody asks yet, and how many links it
 * takes. */
static int carrier_record_came(struct sr_vcarrier *c, const struct sr_record *r)
{
	if (!c->in.greeted && r->type != SR_RECORD_PROCESS)
		return -EPROTO;
	if (!c->in.greeted) {
		sr_vshare_greeted(c, &r->process);
		return 0;
	}
	return r->type == SR_RECORD_PAD ? 0 : sr_vshare_record(c, r);
}

/* Does the carrier take nothing any more? */
static bool carrier_takes_nothing(const struct sr_vcarrier *c)
{
	struct sr_vlink *l = c->links;

	if (sr_load(&c->shared))
		return c->broken;
	return !l || c->broken || l->broken || (sr_link_events(&l->link) & SR_LINK_DEAD);
}

static int packet_came(struct sr_vcarrier *c, const struct ibv_wc *wc)
{
	const uint8_t *buf = receive_buffer(c, wc->wr_id & (SR_V_RECEIVE - 1));
	struct sr_packet_in in;
	struct sr_record r;
	int err, more = 0;

	c->in.repost_n++;
	if (wc->opcode != IBV_WC_RECV || sr_packet_open(&in, buf, wc->byte_len) ||
	    sr_packets_said(&c->out.credit, in.posted))
		return -EPROTO;
	while (!carrier_takes_nothing(c) && (more = sr_packet_next(&in, &r)) > 0) {
		err = carrier_record_came(c, &r);
		if (err)
			return err;
	}
	return more < 0 ? more : 0;	/* it may be over before the last record */
}

/* The reason of a failed completion.  A process that ends takes its memory with it, perhaps
 * before its queue pair. */
static const char *failure_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return "peer-dropped";
	default:
		return "device-failed";
	}
}

void sr_vrx_completion(struct sr_vcarrier *c, const struct ibv_wc *wc)
{
	bool dead = carrier_takes_nothing(c);
	uint32_t id = wc->wr_id;

	if (!dead && wc->status != IBV_WC_SUCCESS) {
		sr_debug("%s: completion status %d", c->name, (int)wc->status);
		sr_vcarrier_break(c, sr_vpost_why(c, wc->status, failure_of(wc->status)));
		return;
	}
	if (!(id & SR_V_RECEIVE))
		sr_vpost_reap(c, id, wc->status != IBV_WC_SUCCESS);
	if (dead)
		return;
	/* On InfiniBand the first message may overtake the CM's last. */
	sr_vshare_established(c);
	if ((id & SR_V_RECEIVE) && packet_came(c, wc)) {
		sr_debug("%s: protocol, opcode %d, length %u", c->name, (int)wc->opcode,
			 wc->byte_len);
		sr_vcarrier_break(c, "protocol");
	}
}

/* ---- the contract ---- */

size_t sr_verbs_rx_data(struct sr_link *link, size_t skip, struct iovec v[2])
{
	struct sr_vlink *l = sr_vlink(link);
	uint64_t from = sr_load(&link->rx_taken) + skip;
	uint64_t h = sr_observe(&link->rx_h); /* pairs with data_came() */

	return sr_gens_span(&l->rx.gens, from, h > from ? h : from, v);
}

ssize_t sr_verbs_rx_look(struct sr_link *link, struct sr_piece *piece)
{
	uint64_t taken = sr_load(&link->rx_taken), h = sr_observe(&link->rx_h); /* data_came() */
	struct iovec v[2];

	if (h == taken) {
		sr_verbs_poll(link);
		h = sr_observe(&link->rx_h);	/* data_came() */
	}
	if (sr_link_events(link) & (SR_LINK_END | SR_LINK_DEAD))
		return -1;
	/* (Of these, v is what lies in one ring.) */
	sr_verbs_rx_data(link, 0, v);
	*piece = (struct sr_piece){ v[0].iov_base, v[0].iov_len };
	return (ssize_t)(h - taken);
}

void sr_verbs_rx_free(struct sr_link *link, size_t n)
{
	struct sr_vlink *l = sr_vlink(link);
	uint64_t taken = sr_load(&link->rx_taken) + n, start;

	sr_publish(&link->rx_taken, taken);	/* pairs with each observe of it */
	sr_fence_look();	/* pair grown: sr_vgrow_use(), which adds a generation */
	start = sr_load(&sr_gens_last(&l->rx.gens)->start);
	if (taken - n < start && taken >= start)
		link->notify(link, SR_NOTIFY_WORK); /* the other is empty */
	if (taken >= l->rx.turn_at)
		sr_vgrow_turn(l, taken);
	/* A stale look at ack_said costs an ACK too many or too late; the pump
	 * looks again under the lock, and the timer later. */
	if (taken - sr_load(&l->tx.ack_said) >= sr_load(&l->rx.window) / 4)
		sr_vtx_kick(l);
	sr_vlook_link(l, SR_LOOK);
}
