/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.h - some of the bytes that a direction has carried.  By them two ends of a link
 * prove to each other that they hold the two ends of one TCP stream: an impostor does not
 * know these bytes, and they are the password of a key exchange (pake.h).  Pure; the caller
 * serialises.
 *
 * The first 512 bytes are kept, and after them 8 bytes in every eighth of an octave: at the
 * offsets 512, 576, ... 960, 1024, 1152, ...  The offsets do not depend on how far an end has
 * got.  So if one end has seen more bytes than the other, both have kept the same of those
 * that both have seen.  The last sample of n bytes lies within the last ninth of them, and a
 * long stream costs no more memory than a short one.
 */
#ifndef SR_HISTORY_H
#define SR_HISTORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/order.h"
#include "base/sodium.h"

#define SR_HISTORY_FIRST 512
#define SR_HISTORY_SAMPLE 8
#define SR_HISTORY_MAX 2048	/* up to offset 2^33 */

struct sr_history {
	_Atomic uint64_t n;	/* bytes seen; of these the samples are in `bytes` */
	uint64_t next;		/* offset of the next byte to be kept */
	unsigned kept;
	uint8_t bytes[SR_HISTORY_MAX];
};

/* The number of bytes seen.  Pairs with sr_history_add() and sr_stream_history_add(), so that
 * the caller may read those of these bytes that are kept. */
static inline uint64_t sr_history_seen(const struct sr_history *h)
{
	return sr_observe(&h->n);
}

/* Empties the history, for a direction that has carried nothing.  h was a history before, or
 * is all zero; it is not written if it is empty, because fork may share its page. */
static inline void sr_history_begin(struct sr_history *h)
{
	if (sr_history_seen(h)) {
		sr_store(&h->n, 0);
		h->next = h->kept = 0;
	}
}

/* Meanwhile another thread may raise from->n for bytes of which none is kept. */
void sr_history_copy(struct sr_history *to, const struct sr_history *from);

/* Adds the next len bytes of the direction. */
void sr_history_add(struct sr_history *h, const void *buf, size_t len);

/* How many of the first n bytes are kept. */
unsigned sr_history_kept(uint64_t n);

/* Makes the password from the first `asker_n` bytes that the asker has sent, and the
 * first `answerer_n` of the answerer (not above what the histories have).  No other
 * histories or counts make the same. */
void sr_history_password(const struct sr_sodium *na, uint8_t out[SR_SHA512_LEN],
			 const struct sr_history *from_asker, uint64_t asker_n,
			 const struct sr_history *from_answerer, uint64_t answerer_n);

#endif
