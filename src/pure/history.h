/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.h - what a stream remembers of its first bytes, so that two ends of a
 * link can prove to each other that they hold the two ends of one TCP stream.
 *
 * An impostor does not know the bytes, so any hash that keeps their entropy is
 * good enough here; SHA-256 over it (sr_digest) gives secrecy and binding.
 * Offsets: any n <= SR_HISTORY_RAW, then powers of two up to SR_HISTORY_MAX;
 * two ends that have taken different amounts use the greatest offset that both
 * can prove.  Pure; the caller serialises.
 */
#ifndef SR_HISTORY_H
#define SR_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "pure/wire.h"

#define SR_HISTORY_RAW 256
#define SR_HISTORY_MAX 65536
#define SR_HISTORY_STEPS 8	/* 512, 1 k, ... 64 k */

struct sr_history {
	uint64_t n;			/* bytes added, also beyond MAX */
	uint64_t state[2][2];		/* running hash beyond RAW */
	uint8_t tail[32];		/* bytes of an unfinished block */
	uint64_t at[SR_HISTORY_STEPS][2][2]; /* hash at 512, 1024, ... */
	uint8_t raw[SR_HISTORY_RAW];
};

/* Adds the next len bytes of the direction.  Cheap beyond SR_HISTORY_MAX. */
void sr_history_add(struct sr_history *h, const void *buf, size_t len);

/* Returns the greatest offset <= n that can be proven. */
uint64_t sr_history_offset(uint64_t n);

/* Makes the digest that proves the first `asker_n` bytes sent by the asker and
 * the first `answerer_n` sent by the answerer (both results of
 * sr_history_offset(), and not above what the histories have).  It is bound to
 * the end that sends it (role), both tokens, and id: the link's identity as
 * both ends see it. */
void sr_digest(uint8_t out[SR_DIGEST_LEN], enum sr_role role,
	       const uint8_t asker_token[SR_TOKEN_LEN],
	       const uint8_t answerer_token[SR_TOKEN_LEN],
	       const struct sr_history *from_asker, uint64_t asker_n,
	       const struct sr_history *from_answerer, uint64_t answerer_n,
	       const void *id, size_t id_len);

#endif
