/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdmap.h - descriptor number -> pointer, two levels of atomic pointers.
 * Lock-free and async-signal-safe; pages are never freed.  What the pointers
 * are, and who owns a reference, is the user's affair.
 */
#ifndef SR_FDMAP_H
#define SR_FDMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define SR_FDMAP_PAGE 1024
#define SR_FDMAP_PAGES 1024 /* 2^20 numbers: the kernel's default fs.nr_open */

typedef _Atomic(void *) sr_fdmap_entry;

struct sr_fdmap {
	_Atomic(sr_fdmap_entry *) pages[SR_FDMAP_PAGES];
	atomic_int top;		/* the greatest number ever entered, + 1 */
};

/* NULL: nothing was ever entered near it. */
static inline sr_fdmap_entry *sr_fdmap_find(struct sr_fdmap *map, int fd)
{
	unsigned n = (unsigned)fd;
	sr_fdmap_entry *page;

	if (n >= SR_FDMAP_PAGE * SR_FDMAP_PAGES)
		return NULL;
	page = atomic_load_explicit(&map->pages[n / SR_FDMAP_PAGE],
				    memory_order_acquire);
	return page ? &page[n % SR_FDMAP_PAGE] : NULL;
}

/* Enters value.  False: no memory, or fd is beyond the table.  *old is what was
 * there. */
bool sr_fdmap_set(struct sr_fdmap *map, int fd, void *value, void **old);

#endif
