/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdmap.h - a table from descriptor numbers to pointers.  It consists of atomic words, and
 * its pages take no memory until something is entered.  Lock-free and async-signal-safe.
 * The caller decides what the pointers are, and whether an entry owns a reference.
 */
#ifndef SR_FDMAP_H
#define SR_FDMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/apart.h"
#include "base/order.h"

#define SR_FDMAP_SIZE 65536	/* a greater number is never entered */

typedef _Atomic(void *) sr_fdmap_entry;

struct sr_fdmap {
	atomic_int top;		/* the greatest number ever entered, + 1 */
	sr_fdmap_entry entry[SR_FDMAP_SIZE];
};

/* NULL: beyond the table. */
static inline sr_fdmap_entry *sr_fdmap_find(struct sr_fdmap *map, int fd)
{
	return (unsigned)fd < SR_FDMAP_SIZE ? &map->entry[fd] : NULL;
}

/* Enters value.  False: fd is beyond the table.  *old is what was there. */
static inline bool sr_fdmap_set(struct sr_fdmap *map, int fd, void *value, void **old)
{
	int top = sr_load(&map->top);

	if ((unsigned)fd >= SR_FDMAP_SIZE)
		return false;
	/* `top' before the entry, so that a walk that finds the entry has the new top: pairs with
	 * the acquires of sr_swap() and of those who look an entry up. */
	while (top <= fd &&
	       !sr_replace(&map->top, &top, fd + 1))
		;
	/* Pairs with the acquire of those who look an entry up: they see what it points at. */
	*old = sr_swap(&map->entry[fd], value);
	return true;
}

#endif
