/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sha256.c - SHA-256 as in FIPS 180-4.  A handshake costs two of these, so this is
 * written to be read, not to be fast.  Pure: no I/O, no locks.
 */
#include <string.h>

#include "pure/sha256.h"

/* FIPS 180-4, 4.2.2 */
static const uint32_t round_constant[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

/* 6.2.2, step 1 */
static void expand(uint32_t w[64], const uint8_t block[64])
{
	for (unsigned t = 0; t < 16; t++, block += 4)
		w[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 |
		       (uint32_t)block[2] << 8 | block[3];
	for (unsigned t = 16; t < 64; t++) {
		uint32_t a = w[t - 15], b = w[t - 2];

		w[t] = w[t - 16] + w[t - 7] +
		       (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) +
		       (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
	}
}

/* 6.2.2, steps 2 to 4; v is a to h */
static void compress(uint32_t state[8], const uint8_t block[64])
{
	uint32_t w[64], v[8];

	expand(w, block);
	memcpy(v, state, sizeof(v));
	for (unsigned t = 0; t < 64; t++) {
		uint32_t a = v[0], e = v[4];
		uint32_t t1 = v[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
			      ((e & v[5]) ^ (~e & v[6])) + round_constant[t] +
			      w[t];
		uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +
			      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (unsigned i = 0; i < 8; i++)
		state[i] += v[i];
}

void sr_sha256(const void *buf, size_t len, uint8_t out[32])
{
	/* 5.3.3 */
	uint32_t state[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};
	/* 5.1.1: 0x80, zeros, and the length ends a block */
	uint8_t last[128] = {0};
	size_t rest = len % 64, end = rest < 56 ? 64 : 128, at;

	for (at = 0; at + 64 <= len; at += 64)
		compress(state, (const uint8_t *)buf + at);
	memcpy(last, (const uint8_t *)buf + at, rest);
	last[rest] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		last[end - 1 - i] = (uint8_t)((uint64_t)len * 8 >> 8 * i);
	for (at = 0; at < end; at += 64)
		compress(state, last + at);
	for (unsigned i = 0; i < 32; i++)
		out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
