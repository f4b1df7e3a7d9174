/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * request.h - what processes say to each other before there is a link: the asker's offer
 * of shared memory, the word that sends an asker elsewhere, and the packets between a
 * keeper and its workers.  sockrail-protocol(7) shows each.  Pure: no I/O, no state.
 * Decoders take nothing that an honest process would not send.
 */
#ifndef SR_PURE_REQUEST_H
#define SR_PURE_REQUEST_H

#include "pure/wire.h"

/* ---- the offer ---- */

#define SR_OFFER_LEN 48

struct sr_offer {
	uint8_t first, max;	/* log2 of ring sizes, first <= max <= 30 */
	bool alone;		/* no doorbell but the line */
	struct sr_name name;
};

void sr_offer_encode(const struct sr_offer *offer, uint8_t buf[SR_OFFER_LEN]);
int sr_offer_decode(struct sr_offer *offer, const uint8_t *buf, size_t len);

/* ---- elsewhere ---- */

#define SR_THERE "there"
#define SR_THERE_LEN 20		/* of a place, with the final 0 */

/* Is the word SR_THERE and a place for this kind of link?  shm: 16 hexadecimal digits;
 * verbs: the ports for InfiniBand and iWARP, 0 if there is none.  word ends with a 0. */
bool sr_there_shm(char place[SR_THERE_LEN], const char *word);
bool sr_there_verbs(uint16_t port[2], const char *word);

/* ---- keeper and workers ---- */

enum { SR_KINDS = 2 };		/* of link: 0 shm, 1 verbs */

/* What an asker is to be told to reach a worker, for each kind of link; "": not by
 * this one. */
struct sr_there {
	char kind[SR_KINDS][SR_THERE_LEN];
};

#define SR_PACKET_LEN 85

enum sr_packet_word {
	SR_PACKET_JOIN = 1,	/* worker: there */
	SR_PACKET_FIND,		/* keeper: name */
	SR_PACKET_HAVE,		/* worker: name */
};

struct sr_packet {
	enum sr_packet_word word;
	struct sr_name name;
	struct sr_there there;
};

void sr_packet_encode(const struct sr_packet *packet, uint8_t buf[SR_PACKET_LEN]);
int sr_packet_decode(struct sr_packet *packet, const uint8_t *buf, size_t len);

#endif
