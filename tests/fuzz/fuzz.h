/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fuzz.h - what the fuzz targets share.  A target is fuzz_NAME() in NAME.c, listed in
 * targets.def: it takes the input as the bytes of a peer or a stranger, or as a list of
 * choices, and calls CHECK() on what must hold whatever they are.  tests/fuzz/run
 * searches for an input that breaks one; tests/unit/fuzz replays what was found.
 */
#ifndef SR_FUZZ_H
#define SR_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../unit/check.h"

#define SR_FUZZ(name) void fuzz_##name(const uint8_t *data, size_t size);
#include "targets.def"

/* What is left of the input. */
struct fuzz {
	const uint8_t *at;
	size_t left;
};

/* The next bytes as a number; behind the end there are zeros. */
static inline uint64_t fuzz_bytes(struct fuzz *f, unsigned n)
{
	uint64_t value = 0;

	for (; n && f->left; n--, f->at++, f->left--)
		value = value << 8 | *f->at;
	return value << 8 * n % 64;
}

/* A choice among n. */
static inline unsigned fuzz_below(struct fuzz *f, unsigned n)
{
	return (unsigned)fuzz_bytes(f, n > 256 ? 2 : 1) % n;
}

/* A number near `near`, near a limit, or any. */
static inline uint64_t fuzz_number(struct fuzz *f, uint64_t near)
{
	switch (fuzz_below(f, 4)) {
	case 0:
		return near + fuzz_bytes(f, 1);
	case 1:
		return near - fuzz_bytes(f, 1);
	case 2:
		return UINT64_C(1) << fuzz_below(f, 64);
	default:
		return fuzz_bytes(f, 8);
	}
}

/* Copies the next bytes, at most n; the rest of `to` is zero. */
static inline size_t fuzz_copy(struct fuzz *f, void *to, size_t n)
{
	size_t got = n < f->left ? n : f->left;

	memset(to, 0, n);
	if (got)
		memcpy(to, f->at, got);
	f->at += got;
	f->left -= got;
	return got;
}

/* A copy exactly as large as it says, so that the sanitizer sees one byte too many. */
static inline uint8_t *fuzz_exact(const void *buf, size_t len)
{
	uint8_t *p = calloc(1, len ? len : 1);

	CHECK(p != NULL);
	if (len)
		memcpy(p, buf, len);
	return p;
}

#endif
