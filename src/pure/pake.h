/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pake.h - CPace (draft-irtf-cfrg-cpace-21, initiator and responder, ristretto255 and
 * SHA-512): two ends that know the same password agree on a key.  An attacker who does not
 * know the password can test one guess in each exchange in which he takes part.  He can test
 * none by listening, nor after the exchange.  Pure.
 */
#ifndef SR_PAKE_H
#define SR_PAKE_H

#include "base/sodium.h"

#define SR_SHARE_LEN SR_POINT_LEN
#define SR_TAG_LEN 32

struct sr_octets {	/* less than 128 */
	const void *at;
	size_t len;
};

/* What both ends must agree on to get the same key.  The associated data, which each end
 * chooses for itself, are in struct sr_pake_end. */
struct sr_pake_terms {
	struct sr_octets password;	/* PRS: known to nobody else */
	struct sr_octets channel;	/* CI: the ends, and what the key is for */
	struct sr_octets session;	/* sid: never used before */
};

/* This end's part.  Used for one key only. */
struct sr_pake {
	uint8_t scalar[SR_POINT_LEN];	/* secret */
	uint8_t share[SR_SHARE_LEN];	/* sent to the peer; says nothing of the password */
};

struct sr_pake_end {
	struct sr_octets share, data;	/* Y, AD */
};

void sr_pake_begin(const struct sr_sodium *na, struct sr_pake *p,
		   const struct sr_pake_terms *terms);

/* The key, from our part and what the ends have sent: [0] the asker, [1] the answerer;
 * end[us] is ours.  0; or -EPROTO: the peer's share is no group element, is the identity
 * element, or is our own. */
int sr_pake_key(const struct sr_sodium *na, const struct sr_pake *p,
		struct sr_octets session, const struct sr_pake_end end[2], int us,
		uint8_t key[SR_SHA512_LEN]);

/* What the asker (0) or the answerer (1) shows to prove that it has the key. */
void sr_pake_tag(const struct sr_sodium *na, const uint8_t key[SR_SHA512_LEN], int who,
		 uint8_t tag[SR_TAG_LEN]);

#endif
