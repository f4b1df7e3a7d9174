/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.c - keeps a direction's first bytes, and makes the digest that proves them.
 * Pure: no I/O, no locks, no knowledge of streams.
 */
#include <string.h>

#include "pure/history.h"
#include "pure/sha256.h"

void sr_history_add(struct sr_history *h, const void *buf, size_t len)
{
	if (len > SR_HISTORY_MAX - h->n)
		len = SR_HISTORY_MAX - h->n;
	memcpy(h->bytes + h->n, buf, len);
	h->n += (unsigned)len;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

/* n comes before the bytes, so that two histories never yield the same input. */
static uint8_t *put_history(uint8_t *at, const struct sr_history *h, uint64_t n)
{
	for (unsigned i = 0; i < 8; i++)
		*at++ = (uint8_t)(n >> (56 - 8 * i));
	return put(at, h->bytes, n);
}

void sr_digest(uint8_t out[SR_DIGEST_LEN], enum sr_role role,
	       const uint8_t asker_token[SR_TOKEN_LEN],
	       const uint8_t answerer_token[SR_TOKEN_LEN],
	       const struct sr_history *from_asker, uint64_t asker_n,
	       const struct sr_history *from_answerer, uint64_t answerer_n,
	       const void *id, size_t id_len)
{
	static const char label[] = "sockrail history 3";
	uint8_t all[sizeof(label) + 1 + 2 * SR_TOKEN_LEN + 2 * (8 + SR_HISTORY_MAX) +
		    SR_ID_MAX];
	uint8_t *at = put(all, label, sizeof(label));

	*at++ = (uint8_t)role;
	at = put(at, asker_token, SR_TOKEN_LEN);
	at = put(at, answerer_token, SR_TOKEN_LEN);
	at = put_history(at, from_asker, asker_n);
	at = put_history(at, from_answerer, answerer_n);
	at = put(at, id, id_len);
	sr_sha256(all, (size_t)(at - all), out);
}
