/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * number.h - the numbers of a carrier's links: which are in use, what a record that comes means
 * for its number, and when a number may be used again.  The table is that of
 * tests/model/PROTOCOL.md, "A number"; carrier.pml is its model.
 *
 * The asker of the carrier opens links and numbers them, the other end accepts or refuses.
 * Each end has one last record for a number: DROP, or the answerer's REFUSE or THERE.  A number is
 * free when both have gone, because records arrive in order: whatever else was sent for it has
 * come by then.
 *
 * How many links may be unproven at a time is counted here, too.  A process that has shown that it
 * holds one stream of another has not shown that it holds a second one.
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
		SR_NUMBER_ASKED, /* OPEN has gone, or come */
		SR_NUMBER_OPEN,	/* accepted */
		SR_NUMBER_LEFT,	/* our last record has gone, the peer's has not come */
		SR_NUMBER_DUE,	/* the peer's has come, ours has yet to go */
	} state;
	bool unproven;		/* counted as such */
};

struct sr_numbers {
	struct sr_number *table; /* the caller's; number n is table[n - 1] */
	unsigned size;		/* higher numbers do not exist */
	bool asks;		/* this end is the asker */
	bool proven;		/* a link of the carrier has been */
	unsigned used;		/* numbers that are not free */
	unsigned unproven;
	unsigned below;		/* no number up to this one is free */
};

/* table: size entries, all zero.  size: at most SR_RECORD_NUMBER_MAX, and at the asker's end at
 * most what the peer takes. */
void sr_numbers_init(struct sr_numbers *s, struct sr_number *table, unsigned size, bool asks);

/* ---- this end's ---- */

/* The asker: the number for OPEN, which goes now; 0: all are in use, or too many unproven. */
unsigned sr_number_open(struct sr_numbers *s);
/* The answerer's ACCEPT goes. */
void sr_number_accept(struct sr_numbers *s, unsigned number);
/* Our last record goes; in state ASKED, OPEN or DUE.  True: the number is free now. */
bool sr_number_leave(struct sr_numbers *s, unsigned number);
/* The peer has shown that it has the link's stream: at the asker's end PROOF or SWITCH has come,
 * at the answerer's PROOF or the mark was right. */
void sr_number_prove(struct sr_numbers *s, unsigned number);

/* May records of the link go, but for the last one?  (And WRITEs.) */
static inline bool sr_number_may_post(const struct sr_numbers *s, unsigned number)
{
	enum sr_number_state state = s->table[number - 1].state;

	return state == SR_NUMBER_ASKED || state == SR_NUMBER_OPEN;
}

/* ---- what comes ---- */

enum sr_number_news {
	SR_NUMBER_NEW,		/* OPEN: look for the stream */
	SR_NUMBER_BUSY,		/* OPEN, with too many unproven: refuse it */
	SR_NUMBER_RECORD,	/* for the link, whose own rules it has to keep */
	SR_NUMBER_ENDS,		/* the peer's last record: the link is dead, our last one is due */
	SR_NUMBER_ENDED,	/* the same, and our last one has gone: the number is free now */
	SR_NUMBER_IGNORE,	/* thrown away, but for the ack */
	SR_NUMBER_WRONG,	/* against the protocol: the carrier ends */
};

/* A record of this type (packet.h) has come for the number, which is not 0. */
enum sr_number_news sr_number_comes(struct sr_numbers *s, unsigned number, unsigned type);

#endif
