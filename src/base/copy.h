/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* copy.h - memcpy(3) between the program's buffers and a ring. */
#ifndef SR_COPY_H
#define SR_COPY_H

#include <stddef.h>
#include <string.h>

#define SR_COPY_SHORT 2048 /* bytes; see copy.c */

void sr_copy_long(void *to, const void *from, size_t n);

static inline void sr_copy(void *to, const void *from, size_t n)
{
	if (__builtin_expect(n > SR_COPY_SHORT, 0))
		sr_copy_long(to, from, n);
	else
		memcpy(to, from, n);
}

#endif
