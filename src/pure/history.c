/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.c - keeps some of a direction's bytes, and makes a password of them.
 * Pure: no I/O, no locks, no knowledge of streams.
 */
#include "pure/history.h"

#include <endian.h>
#include <string.h>

#define PARTS 8			/* of an octave: a sample in each */

/* The offset of the byte that is kept as number `kept`. */
static uint64_t history_position(unsigned kept)
{
	unsigned sample;
	uint64_t octave;

	if (kept < SR_HISTORY_FIRST)
		return kept;
	if (kept >= SR_HISTORY_MAX)
		return UINT64_MAX;
	sample = (kept - SR_HISTORY_FIRST) / SR_HISTORY_SAMPLE;
	octave = (uint64_t)SR_HISTORY_FIRST << sample / PARTS;
	return octave + octave / PARTS * (sample % PARTS) +
	       (kept - SR_HISTORY_FIRST) % SR_HISTORY_SAMPLE;
}

unsigned sr_history_kept(uint64_t n)
{
	unsigned kept = 0;

	while (history_position(kept) < n)
		kept++;
	return kept;
}

void sr_history_copy(struct sr_history *to, const struct sr_history *from)
{
	sr_store(&to->n, sr_history_seen(from)); /* the copy is the caller's own */
	to->next = from->next;
	to->kept = from->kept;
	memcpy(to->bytes, from->bytes, from->kept);
}

void sr_history_add(struct sr_history *h, const void *buf, size_t len)
{
	uint64_t from = sr_history_seen(h), to = from + len;

	while (h->next < to) {
		size_t run = h->kept < SR_HISTORY_FIRST ?
			SR_HISTORY_FIRST - h->kept :
			SR_HISTORY_SAMPLE - h->kept % SR_HISTORY_SAMPLE;

		if (run > to - h->next)
			run = (size_t)(to - h->next);
		memcpy(h->bytes + h->kept, (const uint8_t *)buf + (h->next - from), run);
		h->kept += (unsigned)run;
		h->next = history_position(h->kept);
	}
	sr_publish(&h->n, to); /* pairs with sr_history_seen(): the bytes above are there */
}

/* n comes before the bytes, so that two histories never yield the same input. */
static void hash_history(const struct sr_sodium *na, struct sr_sha512 *hash,
			 const struct sr_history *h, uint64_t n)
{
	uint64_t wire = htobe64(n);

	na->hash_update(hash, (const uint8_t *)&wire, sizeof(wire));
	na->hash_update(hash, h->bytes, sr_history_kept(n));
}

void sr_history_password(const struct sr_sodium *na, uint8_t out[SR_SHA512_LEN],
			 const struct sr_history *from_asker, uint64_t asker_n,
			 const struct sr_history *from_answerer, uint64_t answerer_n)
{
	struct sr_sha512 hash;

	na->hash_init(&hash);
	hash_history(na, &hash, from_asker, asker_n);
	hash_history(na, &hash, from_answerer, answerer_n);
	na->hash_final(&hash, out);
}
