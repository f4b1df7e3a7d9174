/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sodium.h - the table of the functions of libsodium that we call.  libsodium is loaded when
 * the first link has to prove its history.  Its header is not needed to build.
 */
#ifndef SR_SODIUM_H
#define SR_SODIUM_H

#include <stddef.h>
#include <stdint.h>

#define SR_SHA512_LEN 64
#define SR_POINT_LEN 32		/* of a ristretto255 element (RFC 9496), and of a scalar */

/* crypto_hash_sha512_state; its size is part of libsodium's ABI, and compared. */
struct sr_sha512 {
	_Alignas(16) uint8_t opaque[208];
};

/* S(result, member, libsodium's name, parameters).  An int is 0, or -1. */
#define SR_SODIUM_CALLS(S)                                                                 \
	S(int, init, sodium_init, (void))                                                  \
	S(size_t, hash_size, crypto_hash_sha512_statebytes, (void))                        \
	S(int, hash_init, crypto_hash_sha512_init, (struct sr_sha512 *))                   \
	S(int, hash_update, crypto_hash_sha512_update,                                     \
	  (struct sr_sha512 *, const uint8_t *, unsigned long long))                       \
	S(int, hash_final, crypto_hash_sha512_final,                                       \
	  (struct sr_sha512 *, uint8_t[SR_SHA512_LEN]))                                    \
	S(void, scalar_random, crypto_core_ristretto255_scalar_random,                     \
	  (uint8_t[SR_POINT_LEN]))                                                         \
	S(int, from_hash, crypto_core_ristretto255_from_hash,                              \
	  (uint8_t[SR_POINT_LEN], const uint8_t[SR_SHA512_LEN]))                           \
	/* -1: point is no valid point, or the product is the identity element. */         \
	S(int, multiply, crypto_scalarmult_ristretto255,                                   \
	  (uint8_t[SR_POINT_LEN], const uint8_t scalar[SR_POINT_LEN],                      \
	   const uint8_t point[SR_POINT_LEN]))                                             \
	/* Takes a time that does not depend on the contents. */                           \
	S(int, compare, sodium_memcmp, (const void *, const void *, size_t))

#define SR_SODIUM_FIELD(result, member, name, parameters) result(*member) parameters;
struct sr_sodium {
	SR_SODIUM_CALLS(SR_SODIUM_FIELD)
};
#undef SR_SODIUM_FIELD

/* Loads libsodium and returns the table.  NULL: it cannot be loaded; that is logged once.
 * loop. */
const struct sr_sodium *sr_sodium(void);

#endif
