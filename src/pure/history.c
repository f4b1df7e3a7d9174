/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.c - keeps a direction's first bytes, and makes a password of them.
 * Pure: no I/O, no locks, no knowledge of streams.
 */
#include "pure/history.h"

#include <endian.h>
#include <string.h>

void sr_history_add(struct sr_history *h, const void *buf, size_t len)
{
	if (len > SR_HISTORY_MAX - h->n)
		len = SR_HISTORY_MAX - h->n;
	memcpy(h->bytes + h->n, buf, len);
	h->n += (unsigned)len;
}

/* n comes before the bytes, so that two histories never yield the same input. */
static void hash_history(const struct sr_sodium *na, struct sr_sha512 *hash,
			 const struct sr_history *h, uint64_t n)
{
	uint64_t wire = htobe64(n);

	na->hash_update(hash, (const uint8_t *)&wire, sizeof(wire));
	na->hash_update(hash, h->bytes, n);
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
