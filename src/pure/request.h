/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * request.h - what processes say to each other before there is a link: the asker's
 * question and its offer of shared memory, the first answer, the word that sends an asker
 * elsewhere, and the packets between a keeper and its workers.  sockrail-protocol(7) shows
 * each.  Decoders refuse what the encoders would not write.  Pure: no I/O, no state.
 */
#ifndef SR_PURE_REQUEST_H
#define SR_PURE_REQUEST_H

#include "pure/wire.h"

/* ---- the question ---- */

#define SR_QUESTION_LEN 48	/* the CM leaves 56 for it */

/* Does a call of the asker's program wait for the link (policy wait)? */
enum sr_holds {
	SR_HOLDS_NOT,
	SR_HOLDS_FIRST,		/* yes, and it needs a first answer */
	SR_HOLDS_ON,		/* yes, because of a first answer; SR_FIRST_LATER ends the wait */
};

struct sr_question {
	struct sr_name name;
	enum sr_holds holds;
	uint8_t tclass;		/* traffic class of the link's packets; 0: none */
};

void sr_question_encode(const struct sr_question *question, uint8_t buf[SR_QUESTION_LEN]);
/* What follows the question in buf is padding. */
int sr_question_decode(struct sr_question *question, const uint8_t *buf, size_t len);

/* ---- the offer ---- */

#define SR_OFFER_LEN 52

struct sr_offer {
	uint8_t first, max;	/* log2 of ring sizes, first <= max <= 30 */
	bool alone;		/* the line is the only doorbell */
	struct sr_question question;
};

void sr_offer_encode(const struct sr_offer *offer, uint8_t buf[SR_OFFER_LEN]);
int sr_offer_decode(struct sr_offer *offer, const uint8_t *buf, size_t len);

/* ---- the first answer ---- */

/* How far the question of a waiting asker has got.  The answerer sends those from TAKEN on;
 * the asker waits on after TAKEN and COMING, and no longer after the others. */
enum sr_first {
	SR_FIRST_NONE,
	SR_FIRST_SENT,		/* the question is on its way */
	SR_FIRST_TAKEN,		/* the server's program has accepted the stream */
	SR_FIRST_COMING,	/* a thread of it waits in accept(), or polls the listener */
	SR_FIRST_BYTES,		/* not before the client's bytes: TCP_DEFER_ACCEPT, policy lazy */
	SR_FIRST_LATER,		/* none of these */
};

/* Does an asker that has heard this answer wait on? */
static inline enum sr_holds sr_first_holds(enum sr_first first)
{
	return first == SR_FIRST_TAKEN || first == SR_FIRST_COMING ? SR_HOLDS_ON : SR_HOLDS_NOT;
}

const char *sr_first_word(enum sr_first first);
/* Is it an answer for an asker in this state? */
bool sr_first_suits(enum sr_first first, enum sr_holds holds);
/* SR_FIRST_NONE: the word is no first answer, or not one for an asker in this state. */
enum sr_first sr_first_find(const char *word, enum sr_holds holds);

/* ---- elsewhere ---- */

#define SR_THERE "there"
#define SR_THERE_LEN 28		/* of a place, with the final 0 */
#define SR_THERE_NAME_LEN 17	/* of the name that a place of shared memory begins with */

/* Makes a place of shared memory: a name of random bits, and the user who listens there. */
void sr_place_shm(char place[SR_THERE_LEN], uint64_t random, uint32_t uid);

/* Is the word SR_THERE and a place for this kind of link?  shm: 16 hexadecimal digits, the
 * name, and the number of a user; verbs: the ports for InfiniBand and iWARP, 0 if there is
 * none.  word ends with a 0. */
bool sr_there_shm(char name[SR_THERE_NAME_LEN], uint32_t *uid, const char *word);
bool sr_there_verbs(uint16_t port[2], const char *word);

/* ---- keeper and workers ---- */

enum { SR_KINDS = 2 };		/* of link: 0 shm, 1 verbs */

/* The places at which a worker can be reached, one for each kind of link; "": not by this
 * kind. */
struct sr_there {
	char kind[SR_KINDS][SR_THERE_LEN];
};

#define SR_LINE_PACKET_LEN 101

enum sr_line_packet_word {
	SR_LINE_JOIN = 1,	/* worker: there */
	SR_LINE_FIND,		/* keeper: name */
	SR_LINE_HAVE,		/* worker: name */
	SR_LINE_CLAIM,		/* worker, which may become another user: name, cookie */
};

struct sr_line_packet {
	enum sr_line_packet_word word;
	struct sr_name name;
	struct sr_there there;
	uint64_t cookie;	/* SO_COOKIE of the socket that has the name */
};

void sr_line_packet_encode(const struct sr_line_packet *packet, uint8_t buf[SR_LINE_PACKET_LEN]);
int sr_line_packet_decode(struct sr_line_packet *packet, const uint8_t *buf, size_t len);

#endif
