/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pake.c - CPace.  Names that the draft uses are in parentheses.  Pure: the caller passes
 * libsodium's functions.
 */
#include "pure/pake.h"

#include <errno.h>
#include <string.h>

#define BLOCK 128		/* of SHA-512 (s_in_bytes) */

static const char dsi[] = "CPaceRistretto255", dsi_key[] = "CPaceRistretto255_ISK";

#define TEXT(s) ((struct sr_octets){ (s), sizeof(s) - 1 })

/* Hashes one more element with its length in front, in one byte (lv_cat). */
static void hash_element(const struct sr_sodium *na, struct sr_sha512 *h, struct sr_octets b)
{
	uint8_t len = (uint8_t)b.len;

	na->hash_update(h, &len, 1);
	na->hash_update(h, b.at, b.len);
}

/* Zeros fill up the first block of the hash, which has the password; the channel and the session
 * come after it (generator_string). */
static void make_generator(const struct sr_sodium *na, uint8_t g[SR_POINT_LEN],
			   const struct sr_pake_terms *t)
{
	static const uint8_t zeros[BLOCK];
	size_t used = 3 + sizeof(dsi) - 1 + t->password.len; /* with three lengths */
	uint8_t hash[SR_SHA512_LEN];
	struct sr_sha512 h;

	na->hash_init(&h);
	hash_element(na, &h, TEXT(dsi));
	hash_element(na, &h, t->password);
	hash_element(na, &h, (struct sr_octets){ zeros, used < BLOCK ? BLOCK - used : 0 });
	hash_element(na, &h, t->channel);
	hash_element(na, &h, t->session);
	na->hash_final(&h, hash);
	na->from_hash(g, hash);
}

void sr_pake_begin(const struct sr_sodium *na, struct sr_pake *p,
		   const struct sr_pake_terms *terms)
{
	uint8_t g[SR_POINT_LEN];

	make_generator(na, g, terms);
	na->scalar_random(p->scalar);
	/* It fails for the identity element only: with a probability of 2^-252. */
	if (na->multiply(p->share, p->scalar, g))
		memset(p->share, 0, sizeof(p->share));
}

int sr_pake_key(const struct sr_sodium *na, const struct sr_pake *p,
		struct sr_octets session, const struct sr_pake_end end[2], int us,
		uint8_t key[SR_SHA512_LEN])
{
	const uint8_t *theirs = end[!us].share.at;
	uint8_t point[SR_POINT_LEN];
	struct sr_sha512 h;

	if (!memcmp(theirs, p->share, SR_SHARE_LEN) ||
	    na->multiply(point, p->scalar, theirs))
		return -EPROTO;
	na->hash_init(&h);
	hash_element(na, &h, TEXT(dsi_key));
	hash_element(na, &h, session);
	hash_element(na, &h, (struct sr_octets){ point, sizeof(point) });
	for (int i = 0; i < 2; i++) {
		hash_element(na, &h, end[i].share);
		hash_element(na, &h, end[i].data);
	}
	na->hash_final(&h, key);
	return 0;
}

void sr_pake_tag(const struct sr_sodium *na, const uint8_t key[SR_SHA512_LEN], int who,
		 uint8_t tag[SR_TAG_LEN])
{
	static const struct sr_octets name[2] = { { "asker", 5 }, { "answerer", 8 } };
	uint8_t hash[SR_SHA512_LEN];
	struct sr_sha512 h;

	na->hash_init(&h);
	hash_element(na, &h, TEXT("sockrail has the key"));
	hash_element(na, &h, (struct sr_octets){ key, SR_SHA512_LEN });
	hash_element(na, &h, name[who]);
	na->hash_final(&h, hash);
	memcpy(tag, hash, SR_TAG_LEN);
}
