/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdtab.c - owns the table of descriptors.  Of streams it knows only how to get
 * and put a reference.  No locks.
 */
#include "engine/fdtab.h"
#include "engine/stream.h"

#include <stddef.h>


struct sr_fdmap sr_fdtab;

struct sr_stream *sr_fdtab_get(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);
	struct sr_stream *st;

	while (e) {
		st = atomic_load_explicit(e, memory_order_acquire);
		if (!st)
			return NULL;
		/* Between the load and tryget the entry may be cleared and the
		 * memory become another stream.  But an entry owns a reference:
		 * if it still holds st, ours is on the right stream. */
		if (sr_stream_tryget(st)) {
			if (atomic_load(e) == st)
				return st;
			sr_stream_put(st);
		}
	}
	return NULL;
}

struct sr_stream *sr_fdtab_set(int fd, struct sr_stream *st)
{
	void *old;

	return sr_fdmap_set(&sr_fdtab, fd, st, &old) ? old : st;
}

struct sr_stream *sr_fdtab_take(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);

	return e ? atomic_exchange(e, NULL) : NULL;
}

bool sr_fdtab_drop(int fd, struct sr_stream *st)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);
	void *expected = st;

	return e && atomic_compare_exchange_strong(e, &expected, NULL);
}
