/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * readable.h - is it memory of the program's?  Of what we read before the kernel does:
 * where the kernel says EFAULT we would crash.  No locks; async-signal-safe; keeps
 * errno.
 *
 * A page that could be read once is taken to be readable from then on, so that the
 * kernel is hardly ever asked.  A program that passes what it has unmapped since
 * crashes.
 */
#ifndef SR_READABLE_H
#define SR_READABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SR_PAGES_KNOWN 64

/* The complements of page numbers, each at its number's remainder. */
extern __thread uintptr_t sr_pages_known[SR_PAGES_KNOWN];

bool sr_page_readable(uintptr_t page);	/* asks the kernel */

static inline bool sr_readable(const void *p, size_t n)
{
	uintptr_t at = (uintptr_t)p, page = at >> 12, last;

	if (!n)
		return true;
	if (__builtin_add_overflow(at, n - 1, &last))
		return false;
	for (; page <= last >> 12; page++)
		if (sr_pages_known[page % SR_PAGES_KNOWN] != ~page &&
		    !sr_page_readable(page))
			return false;
	return true;
}

#endif
