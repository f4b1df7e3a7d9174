/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.h - a direction's first bytes, by which two ends of a link prove to each
 * other that they hold the two ends of one TCP stream.  An impostor does not know
 * them; the digest shows nobody what they are.  Pure; the caller serialises.
 */
#ifndef SR_HISTORY_H
#define SR_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "pure/wire.h"

#define SR_HISTORY_MAX 1024
#define SR_ID_MAX 64		/* bytes of a link's identity */

struct sr_history {
	unsigned n;		/* bytes kept */
	uint8_t bytes[SR_HISTORY_MAX];
};

/* Adds the next len bytes of the direction, up to SR_HISTORY_MAX in all. */
void sr_history_add(struct sr_history *h, const void *buf, size_t len);

/* Makes the digest that proves the first `asker_n` bytes sent by the asker and
 * the first `answerer_n` sent by the answerer (not above what the histories have).
 * It is bound to the end that sends it (role), both tokens, and id: the link's
 * identity as both ends see it. */
void sr_digest(uint8_t out[SR_DIGEST_LEN], enum sr_role role,
	       const uint8_t asker_token[SR_TOKEN_LEN],
	       const uint8_t answerer_token[SR_TOKEN_LEN],
	       const struct sr_history *from_asker, uint64_t asker_n,
	       const struct sr_history *from_answerer, uint64_t answerer_n,
	       const void *id, size_t id_len);

#endif
