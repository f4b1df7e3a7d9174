/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdtab.c - owns the table of descriptors.  Knows of streams only how to get
 * and put a reference.  No locks.
 */
#include "stream/fdtab.h"

#include <stddef.h>

#include "base/fdmap.h"
#include "stream/stream.h"

static struct sr_fdmap map;

struct sr_stream *sr_fdtab_get(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&map, fd);
	struct sr_stream *st;

	while (e) {
		st = atomic_load_explicit(e, memory_order_acquire);
		if (!st)
			return NULL;
		/* Between the load and tryget the entry may have gone and the
		 * memory have become another stream.  What the entry holds
		 * cannot: with it there the reference is on the right one. */
		if (sr_stream_tryget(st)) {
			if (atomic_load(e) == st)
				return st;
			sr_stream_put(st);
		}
	}
	return NULL;
}

struct sr_stream *sr_fdtab_peek(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&map, fd);

	return e ? atomic_load_explicit(e, memory_order_acquire) : NULL;
}

bool sr_fdtab_has(int fd)
{
	return sr_fdtab_peek(fd);
}

struct sr_stream *sr_fdtab_set(int fd, struct sr_stream *st)
{
	void *old;

	return sr_fdmap_set(&map, fd, st, &old) ? old : st;
}

struct sr_stream *sr_fdtab_take(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&map, fd);

	return e ? atomic_exchange(e, NULL) : NULL;
}

bool sr_fdtab_drop(int fd, struct sr_stream *st)
{
	sr_fdmap_entry *e = sr_fdmap_find(&map, fd);
	void *expected = st;

	return e && atomic_compare_exchange_strong(e, &expected, NULL);
}

int sr_fdtab_max(void)
{
	return atomic_load_explicit(&map.top, memory_order_relaxed) - 1;
}
