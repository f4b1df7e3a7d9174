/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* copy.c - long copies are whole and stay in their bounds, at each distance modulo 4096. */
#include "base/copy.h"

#include <stdint.h>

#include "check.h"

#define PAGE 4096
#define MOST (3 * SR_COPY_SHORT + 1)

static _Alignas(PAGE) uint8_t from[2 * PAGE + MOST], to[2 * PAGE + MOST];

static void copied(size_t from_at, size_t to_at, size_t n)
{
	const uint8_t *source = from + from_at;
	uint8_t *target = to + to_at;

	memset(to, 0, sizeof(to));
	sr_copy(target, source, n);
	CHECK(!memcmp(target, source, n));
	CHECK(!to_at || !target[-1]);
	CHECK(!target[n]);
}

int main(void)
{
	static const size_t sizes[] = { 0, 1, SR_COPY_SHORT - 1, SR_COPY_SHORT, SR_COPY_SHORT + 1,
					2 * SR_COPY_SHORT, 2 * SR_COPY_SHORT + 1, MOST - 1 };

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(1 + i % 251);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t at = 0; at < 40; at++) {
			copied(0, at, sizes[i]);
			copied(at, 0, sizes[i]);
			copied(PAGE - at, 0, sizes[i]);
		}
	}
	return 0;
}
