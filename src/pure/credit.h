/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * credit.h - how much may be sent, and when the receiver returns credit.
 * There are two kinds of credit: bytes of a ring, and packets, because each
 * packet uses up one receive buffer that the peer has posted (verbs only).
 *
 * Offsets in a direction:
 *     w         end of the bytes that the sender has put into rings
 *     come      end of the bytes that the receiver knows have arrived
 *     taken     end of the bytes that the receiver's program has taken
 *     returned  the value of `taken` that the receiver has last published
 *     acked     the last `returned` that the sender has seen
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
 * How many bytes may be put into a ring of `size` bytes of which `used` are
 * outstanding.  Returns 0 if that is less than `least`, so that writes do not
 * become ever smaller (silly window syndrome).  An empty ring is offered whole.
 */
static inline size_t sr_credit_room(size_t size, uint64_t used, size_t least)
{
	size_t room = used < size ? size - used : 0;

	return room < least && used ? 0 : room;
}

/* The peer says that its program has taken all bytes below `said`.  Returns 1 if
 * that is new credit, 0 if it is known already, -EPROTO if it is impossible. */
static inline int sr_credit_said(uint64_t acked, uint64_t w, uint64_t said)
{
	return said < acked || said > w ? -EPROTO : said > acked;
}

/*
 * Returning credit through shared memory costs one store.  To find out whether
 * the sender sleeps because it has none takes a full fence as well; a reader of
 * small messages does that only for each eighth of the ring.
 */
struct sr_credit_rx {
	uint64_t returned;
	uint64_t checked; /* taken, at the last look for a sleeping sender */
};

enum {
	SR_CREDIT_PART = 8, /* credit is returned for 1/8 of the ring, or when all is taken */
	SR_CREDIT_ROOM = 4, /* a sender is offered 1/4 of the ring, or nothing */
	SR_CREDIT_REST = 64, /* a non-blocking sender gets even 1/64, before it gets EAGAIN */
};

/*
 * The program has taken all bytes below `taken`.  Returns true if `returned` has
 * changed and the caller has to publish it.  While there are bytes left to take,
 * credit of up to an eighth of the ring may be kept back.  If *check is set, the
 * caller issues a full fence after that and looks for a sleeping sender.
 *
 * No sleeping sender is overlooked:
 *  - A sender sleeps only if more than 3/4 of the ring are outstanding, counted
 *    from `acked`.  So w > checked + 3/4 of the ring, because either the sender
 *    had seen the credit `checked` before it slept, or it slept before the fence
 *    that followed, and would have been woken if that credit had made room.
 *  - The reader omits the look only if it has taken all bytes that have come,
 *    and taken < checked + 1/8 of the ring.
 * Both together mean that more than half of the ring's bytes are yet to come.
 * When the program has taken them, credit is returned again, with a look.
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
 * Each packet (packet.h) uses up one receive buffer of the end that it goes to.  That end
 * posts the buffer again in the poll that takes the packet, and each packet says how many
 * buffers its sender has posted in all.  `known` is the number of the peer's buffers that are
 * posted and empty as far as this end can tell.  It is never above the truth, and an arriving
 * packet always finds a buffer, if
 *  - a buffer is counted in `posted` only after it has been posted, and
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
	SR_PACKETS_MOST = 4096,	/* no end has more empty buffers than this */
};

/* All members but `buffers` count modulo 2^32. */
struct sr_packets {
	uint32_t buffers;	/* our receive buffers */
	uint32_t posted;	/* by us, in all */
	uint32_t reported;	/* of these, as we last said */
	uint32_t sent;		/* packets to the peer */
	uint32_t peer_posted;	/* by the peer, as it last said */
};

/* Both ends know without a message that each has posted SR_PACKETS_FIRST buffers. */
static inline void sr_packets_init(struct sr_packets *p)
{
	*p = (struct sr_packets){SR_PACKETS_FIRST, SR_PACKETS_FIRST, SR_PACKETS_FIRST, 0,
				 SR_PACKETS_FIRST};
}

/* How many packets have come whose buffers are posted again. */
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

/* Counts a packet that is about to be sent; its header must say `posted`. */
static inline void sr_packets_spend(struct sr_packets *p)
{
	p->sent++;
	p->reported = p->posted;
}

/* The peer says that it has posted `posted` buffers in all.  0, or -EPROTO if that is impossible:
 * fewer than it has said before, or more than any end has. */
static inline int sr_packets_said(struct sr_packets *p, uint32_t posted)
{
	uint32_t now = posted - p->sent;

	if (now < sr_packets_known(p) || now > SR_PACKETS_MOST)
		return -EPROTO;
	p->peer_posted = posted;
	return 0;
}

#endif
