/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.h - a direction's first bytes, by which two ends of a link prove to each
 * other that they hold the two ends of one TCP stream.  An impostor does not know
 * them: they are the password of a key exchange (pake.h).  Pure; the caller serialises.
 */
#ifndef SR_HISTORY_H
#define SR_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/sodium.h"

#define SR_HISTORY_MAX 1024

struct sr_history {
	unsigned n;		/* bytes kept */
	uint8_t bytes[SR_HISTORY_MAX];
};

/* Adds the next len bytes of the direction, up to SR_HISTORY_MAX in all. */
void sr_history_add(struct sr_history *h, const void *buf, size_t len);

/* Makes the password from the first `asker_n` bytes that the asker has sent, and the
 * first `answerer_n` of the answerer (not above what the histories have).  No other
 * histories or counts make the same. */
void sr_history_password(const struct sr_sodium *na, uint8_t out[SR_SHA512_LEN],
			 const struct sr_history *from_asker, uint64_t asker_n,
			 const struct sr_history *from_answerer, uint64_t answerer_n);

#endif
