/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * number.h - the numbers of a carrier's links: which numbers are in use, what an arriving record
 * means for the number that it names, and when a number may be used again.  The table of states is
 * in tests/model/PROTOCOL.md, "A number"; carrier.pml is its model.
 *
 * The asker of the carrier opens links and numbers them; the other end accepts or refuses each.
 * For each number each end sends one last record: DROP, or the answerer's REFUSE or THERE.  A
 * number is free once the last records of both ends have arrived.  Records arrive in the order in
 * which they were sent, so nothing for the number is on its way any more.
 *
 * This file also counts the links that are unproven, because their number is limited: a process
 * that has proven that it holds one stream of another process has not proven it for the next one.
 *
 * Pure: no I/O, no locks, no memory of its own.  One thread at a time (the carrier's lock).
 */
#ifndef SR_PURE_NUMBER_H
#define SR_PURE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SR_UNPROVEN_FIRST = 4,	/* links, while none of the carrier has been proven */
	SR_UNPROVEN_LATER = 64,
};

struct sr_number {
	enum sr_number_state {
		SR_NUMBER_FREE,
		SR_NUMBER_ASKED, /* OPEN was sent (asker), or has arrived (answerer) */
		SR_NUMBER_OPEN,	/* accepted */
		SR_NUMBER_LEFT,	/* our last record was sent, the peer's has not arrived */
		SR_NUMBER_DUE,	/* the peer's last record has arrived, ours is not sent yet */
	} state;
	bool unproven;		/* the link counts in sr_numbers.unproven */
};

struct sr_numbers {
	struct sr_number *table; /* the caller's; number n is table[n - 1] */
	unsigned size;		/* higher numbers do not exist */
	bool asks;		/* this end is the asker */
	bool proven;		/* one link of the carrier has been proven, at least */
	unsigned used;		/* numbers that are not free */
	unsigned held;		/* those for which this end has not sent its last record */
	unsigned unproven;
	unsigned below;		/* all numbers up to this one are in use */
};

/* table: size entries, all zero.  size: at most SR_RECORD_NUMBER_MAX, and at the asker's end at
 * most what the peer takes. */
void sr_numbers_init(struct sr_numbers *s, struct sr_number *table, unsigned size, bool asks);

/* ---- what this end sends ---- */

/* The asker sends OPEN.  Returns the number for it, or 0 if all numbers are in use or too many
 * links are unproven. */
unsigned sr_number_open(struct sr_numbers *s);
/* The answerer sends ACCEPT. */
void sr_number_accept(struct sr_numbers *s, unsigned number);
/* This end sends its last record, in state ASKED, OPEN or DUE.  Returns true if that makes the
 * number free. */
bool sr_number_leave(struct sr_numbers *s, unsigned number);
/* The peer has proven that it holds the link's stream.  At the asker's end PROOF or SWITCH has
 * arrived; at the answerer's end PROOF or the mark was right. */
void sr_number_prove(struct sr_numbers *s, unsigned number);

/* May this end post records and WRITEs for the link, other than the last record? */
static inline bool sr_number_may_post(const struct sr_numbers *s, unsigned number)
{
	enum sr_number_state state = s->table[number - 1].state;

	return state == SR_NUMBER_ASKED || state == SR_NUMBER_OPEN;
}

/* ---- what arrives ---- */

/* What the caller does with an arriving record. */
enum sr_number_news {
	SR_NUMBER_NEW,		/* OPEN: look for the stream */
	SR_NUMBER_BUSY,		/* OPEN, and too many links are unproven: refuse it */
	SR_NUMBER_RECORD,	/* give it to the link, which checks it further */
	SR_NUMBER_ENDS,		/* the peer's last record: end the link, send our last record */
	SR_NUMBER_ENDED,	/* the peer's last record, behind ours: the number is free now */
	SR_NUMBER_IGNORE,	/* use its ack only: our last record was sent already */
	SR_NUMBER_WRONG,	/* it breaks the protocol: end the carrier */
};

/* A record of this type (packet.h) has arrived for this number.  Number 0 is WRONG. */
enum sr_number_news sr_number_comes(struct sr_numbers *s, unsigned number, unsigned type);

#endif
