/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * credit.h - how much may be sent, and when the receiver says what it has
 * taken.  There are two kinds of credit: bytes of a ring, and packets, of
 * which each takes a receive buffer that the peer has posted (verbs only).
 *
 * Offsets: w, bytes put into rings; acked, those below which the receiver's
 * program has taken all, as the sender knows; come and taken, the same two as
 * the receiver knows; returned, the credit that the receiver has published.
 *
 *     acked <= returned <= taken <= come <= w
 *
 * Pure: no I/O, no locks, no globals.  The caller serialises.
 */
#ifndef SR_CREDIT_H
#define SR_CREDIT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- bytes ---- */

/* Bytes of the generation that begins at `start` that are not taken yet. */
static inline uint64_t sr_credit_used(uint64_t w, uint64_t acked, uint64_t start)
{
	return w - (acked > start ? acked : start);
}

/*
 * How much may be put into a ring of `size` bytes.  Less than `least` is not
 * worth a piece: credit and writes must not shrink to crumbs (silly window).
 * An empty ring is offered whole.
 */
static inline size_t sr_credit_room(size_t size, uint64_t used, size_t least)
{
	size_t room = used < size ? size - used : 0;

	return room < least && used ? 0 : room;
}

/* The peer says that its program has taken all below `said`.  Returns 1 if that
 * is news, 0 if not, -EPROTO if it cannot be. */
static inline int sr_credit_said(uint64_t acked, uint64_t w, uint64_t said)
{
	return said < acked || said > w ? -EPROTO : said > acked;
}

/*
 * Returning credit through shared memory costs nothing, but to find out whether
 * the sender sleeps for want of it takes a full fence, which a reader of small
 * messages should be spared.
 */
struct sr_credit_rx {
	uint64_t returned;
	uint64_t checked; /* taken, at the last look for a sleeping sender */
};

enum {
	SR_CREDIT_PART = 8, /* credit is returned for 1/8 of the ring, or when all is taken */
	SR_CREDIT_ROOM = 4, /* a sender is offered 1/4 of the ring, or nothing */
	SR_CREDIT_REST = 64, /* the same of one that may not wait, before it gets EAGAIN */
};

/*
 * The program has taken all below `taken`.  Returns true if `returned` has
 * changed and is to be published: while bytes are left to take, an eighth of
 * the ring may be kept back.  *check: and then a full fence, and a look for a
 * sleeping sender.
 *
 * No sleeper is overlooked.  A sender sleeps with more than three quarters of
 * the ring outstanding, counted from the credit that it knows.  That credit is
 * not less than `checked`: either the sender slept before the fence at
 * `checked`, and was woken if it had room, or it has seen that credit.  The
 * reader does without a look only if it has taken all that has come, and that
 * is less than an eighth of the ring from `checked` on.  Then most of what such
 * a sender has sent is yet to come, and credit is returned again.
 */
static inline bool sr_credit_take(struct sr_credit_rx *c, size_t size,
				  uint64_t taken, uint64_t come, bool *check)
{
	if (come > taken && taken - c->returned < size / SR_CREDIT_PART)
		return false;
	c->returned = taken;
	*check = taken - c->checked >= size / SR_CREDIT_PART;
	if (*check)
		c->checked = taken;
	return true;
}

/* ---- packets ---- */

/*
 * Each packet (packet.h) takes one of the receive buffers of the end it goes to.  That end
 * posts the buffer again in the poll that takes the packet, and each packet says how many
 * buffers its sender has posted in all.  So `known`, the number of the peer's buffers that are
 * posted and empty as far as this end can tell, is never above the truth, and an arriving
 * packet finds a buffer, if
 *  - a buffer is counted in `posted` behind its posting, and
 *  - a packet with records is sent only while known > SR_PACKETS_KEPT, and a count, a packet
 *    of nothing but `posted` and ACKs, only while known > 0.
 * An end owes a count while it has posted half of its buffers since it last said so.
 * tests/model/PROTOCOL.md, "Packet credit", has the proof that two ends never wait for each
 * other's credit, and that counts do not answer counts for ever; packet.pml checks it.
 */
enum {
	SR_PACKETS_FIRST = 8,	/* buffers that each end has posted before the first packet */
	SR_PACKETS_LEAST = 4,	/* with fewer, counts would answer counts */
	SR_PACKETS_KEPT = 2,	/* for counts */
	SR_PACKETS_MOST = 4096,	/* more than so many empty ones no end has */
};

/* All but `buffers` modulo 2^32. */
struct sr_packets {
	uint32_t buffers;	/* our receive buffers */
	uint32_t posted;	/* by us, in all */
	uint32_t reported;	/* of these, as we last said */
	uint32_t sent;		/* packets to the peer */
	uint32_t peer_posted;	/* by the peer, as it last said */
};

/* Both ends know without a word that each has posted SR_PACKETS_FIRST. */
static inline void sr_packets_init(struct sr_packets *p)
{
	*p = (struct sr_packets){SR_PACKETS_FIRST, SR_PACKETS_FIRST, SR_PACKETS_FIRST, 0,
				 SR_PACKETS_FIRST};
}

/* Packets that have come, and whose buffers are posted again. */
static inline uint32_t sr_packets_taken(const struct sr_packets *p)
{
	return p->posted - p->buffers;
}

static inline uint32_t sr_packets_known(const struct sr_packets *p)
{
	return p->peer_posted - p->sent;
}

static inline bool sr_packets_may_send(const struct sr_packets *p, bool records)
{
	return sr_packets_known(p) > (records ? SR_PACKETS_KEPT : 0);
}

/* Does this end owe a count? */
static inline bool sr_packets_owes(const struct sr_packets *p)
{
	return p->posted - p->reported >= p->buffers / 2;
}

/* A packet goes; its header is to say `posted`. */
static inline void sr_packets_spend(struct sr_packets *p)
{
	p->sent++;
	p->reported = p->posted;
}

/* The peer says that it has posted so many in all.  0, or -EPROTO if that cannot be: fewer
 * than it has said before, or more than any end has. */
static inline int sr_packets_said(struct sr_packets *p, uint32_t posted)
{
	uint32_t now = posted - p->sent;

	if (now < sr_packets_known(p) || now > SR_PACKETS_MOST)
		return -EPROTO;
	p->peer_posted = posted;
	return 0;
}

#endif
