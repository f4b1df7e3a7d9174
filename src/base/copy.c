/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * copy.c - copies long pieces without an instruction that may be slow.
 *
 * Before glibc 2.39, memcpy(3) copies more than 2,112 bytes by "rep movsb" if the CPU says
 * that it is fast.  Zen 3 and Zen 4 say so, but copy at a twentieth of their speed (2
 * GB/s, not 40) if the destination is 1 to 31 bytes above the source, modulo 4096 (glibc
 * bug 30994).  A stream that gets into this state stays there.  If a program moves whole
 * pages by a buffer that begins at a page, the distance is the same in each call, because the
 * size of a ring is a multiple of 4096.  And a slow reader always finds a full ring, so there
 * is no short read that would change the distance.  So we copy in pieces that are short
 * enough for memcpy() not to use "rep movsb".
 */
#include "base/copy.h"

#include <stdint.h>

#define PAGE 4096
#define SLOW_ABOVE 31

void sr_copy_long(void *to, const void *from, size_t n)
{
	size_t above = ((uintptr_t)to - (uintptr_t)from) % PAGE;

	if (above && above <= SLOW_ABOVE)
		for (; n > SR_COPY_SHORT; n -= SR_COPY_SHORT) {
			memcpy(to, from, SR_COPY_SHORT);
			to = (char *)to + SR_COPY_SHORT;
			from = (const char *)from + SR_COPY_SHORT;
		}
	memcpy(to, from, n);
}
