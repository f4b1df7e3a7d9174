/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.c - remembers a direction's first bytes, and makes the digest that
 * proves them.  Up to SR_HISTORY_RAW it keeps the bytes themselves.  Beyond
 * that, it xors each block of 32 bytes into a 256-bit state and permutes each
 * half of the state.  The permutation loses nothing, so a half is as hard to
 * guess as its bytes were (up to 128 bits), and no more is needed.  There are
 * two halves because the CPU computes them in parallel: most of what a short
 * stream pays for its history is here.  Pure: no I/O, no locks, no knowledge of
 * streams.
 */
#include <endian.h>
#include <string.h>

#include "pure/history.h"
#include "pure/sha256.h"

#define HALF 16
#define BLOCK sizeof(((struct sr_history *)0)->tail)

_Static_assert(SR_HISTORY_RAW << SR_HISTORY_STEPS == SR_HISTORY_MAX,
	       "steps double from RAW to MAX");
_Static_assert(SR_HISTORY_RAW % BLOCK == 0, "offsets end blocks");
_Static_assert(BLOCK == 2 * HALF, "two halves");

static uint64_t load_le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static void store_be64(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

static uint64_t rotl(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

/* Each line can be undone: an odd factor, a rotation, a sum, an xor.  The
 * factors are those of the golden ratio and of sqrt(2), made odd. */
static void absorb(uint64_t s[2], const uint8_t half[HALF])
{
	uint64_t a = s[0] ^ load_le64(half);
	uint64_t b = s[1] ^ load_le64(half + 8);

	for (unsigned i = 0; i < 2; i++) {
		a *= UINT64_C(0x9e3779b97f4a7c15);
		b += rotl(a, 29);
		b *= UINT64_C(0x6a09e667f3bcc909);
		a ^= rotl(b, 37);
	}
	s[0] = a;
	s[1] = b;
}

/* The index in at[] for offset n = 512, 1024, ... */
static unsigned step_of(uint64_t n)
{
	return (unsigned)__builtin_ctzll(n / SR_HISTORY_RAW) - 1;
}

/* Absorbs a block that ends at h->n, beyond RAW. */
static void end_block(struct sr_history *h, const uint8_t block[BLOCK])
{
	absorb(h->state[0], block);
	absorb(h->state[1], block + HALF);
	if (!(h->n & (h->n - 1)))
		memcpy(h->at[step_of(h->n)], h->state, sizeof(h->state));
}

static size_t add_raw(struct sr_history *h, const uint8_t *p, size_t len)
{
	size_t n = SR_HISTORY_RAW - h->n;

	if (n > len)
		n = len;
	memcpy(h->raw + h->n, p, n);
	h->n += n;
	return n;
}

/* Completes a block that has begun, or begins one. */
static size_t add_part(struct sr_history *h, const uint8_t *p, size_t len)
{
	size_t have = h->n % BLOCK;
	size_t n = BLOCK - have;

	if (n > len)
		n = len;
	memcpy(h->tail + have, p, n);
	h->n += n;
	if (have + n == BLOCK)
		end_block(h, h->tail);
	return n;
}

static size_t add_blocks(struct sr_history *h, const uint8_t *p, size_t len)
{
	size_t n;

	for (n = 0; len - n >= BLOCK && h->n < SR_HISTORY_MAX; n += BLOCK) {
		h->n += BLOCK;
		end_block(h, p + n);
	}
	return n;
}

void sr_history_add(struct sr_history *h, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len && h->n < SR_HISTORY_MAX) {
		size_t n;

		if (h->n < SR_HISTORY_RAW)
			n = add_raw(h, p, len);
		else if (h->n % BLOCK || len < BLOCK)
			n = add_part(h, p, len);
		else
			n = add_blocks(h, p, len);
		p += n;
		len -= n;
	}
	h->n += len;
}

uint64_t sr_history_offset(uint64_t n)
{
	if (n <= SR_HISTORY_RAW)
		return n;
	if (n >= SR_HISTORY_MAX)
		return SR_HISTORY_MAX;
	return UINT64_C(1) << (63 - __builtin_clzll(n));
}

static void add_u64(struct sr_sha256 *s, uint64_t v)
{
	uint8_t b[8];

	store_be64(b, v);
	sr_sha256_add(s, b, sizeof(b));
}

/* n comes before the bytes, so that two histories never yield the same input. */
static void add_history(struct sr_sha256 *s, const struct sr_history *h,
			uint64_t n)
{
	uint64_t offset = sr_history_offset(n);

	add_u64(s, n);
	if (offset <= SR_HISTORY_RAW) {
		sr_sha256_add(s, h->raw, offset);
		return;
	}
	sr_sha256_add(s, h->raw, SR_HISTORY_RAW);
	for (unsigned i = 0; i < 4; i++)
		add_u64(s, h->at[step_of(offset)][i / 2][i % 2]);
}

void sr_digest(uint8_t out[SR_DIGEST_LEN], enum sr_role role,
	       const uint8_t asker_token[SR_TOKEN_LEN],
	       const uint8_t answerer_token[SR_TOKEN_LEN],
	       const struct sr_history *from_asker, uint64_t asker_n,
	       const struct sr_history *from_answerer, uint64_t answerer_n,
	       const void *id, size_t id_len)
{
	static const char label[] = "sockrail history 2";
	uint8_t who = (uint8_t)role;
	struct sr_sha256 s;

	sr_sha256_init(&s);
	sr_sha256_add(&s, label, sizeof(label));
	sr_sha256_add(&s, &who, 1);
	sr_sha256_add(&s, asker_token, SR_TOKEN_LEN);
	sr_sha256_add(&s, answerer_token, SR_TOKEN_LEN);
	add_history(&s, from_asker, asker_n);
	add_history(&s, from_answerer, answerer_n);
	sr_sha256_add(&s, id, id_len);
	sr_sha256_end(&s, out);
}
