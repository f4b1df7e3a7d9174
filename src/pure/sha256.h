/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sha256.h - SHA-256 (FIPS 180-4).  We have our own because the library is
 * preloaded into every program and must not bring libcrypto with it.
 */
#ifndef SR_SHA256_H
#define SR_SHA256_H

#include <stddef.h>
#include <stdint.h>

void sr_sha256(const void *buf, size_t len, uint8_t out[32]);

#endif
