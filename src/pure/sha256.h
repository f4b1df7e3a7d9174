/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sha256.h - SHA-256 (FIPS 180-4).  We have our own because the library is
 * preloaded into every program and must not bring libcrypto with it.
 */
#ifndef SR_SHA256_H
#define SR_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sr_sha256 {
	uint32_t h[8];
	uint64_t len;		/* bytes so far */
	uint8_t block[64];
};

void sr_sha256_init(struct sr_sha256 *s);
void sr_sha256_add(struct sr_sha256 *s, const void *buf, size_t len);
void sr_sha256_end(struct sr_sha256 *s, uint8_t out[32]);

#endif
