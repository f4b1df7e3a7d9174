/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdtab.c - owns the table of descriptors.  Of streams it knows only how to get
 * and put a reference.  No locks.
 */
#include "engine/fdtab.h"
#include "engine/stream.h"

#include <stddef.h>

SR_APART struct sr_fdmap sr_fdtab;

struct sr_stream *sr_fdtab_get(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);
	struct sr_stream *st;
	void *entry;

	while (e) {
		entry = sr_observe(e); /* pairs with sr_fdmap_set() */
		if (!entry)
			return NULL;
		st = sr_stream_inherit(entry);
		if (st != entry) {
			sr_replace(e, &entry, st);	/* pairs with the acquires of e */
			continue;
		}
		/* Between the load and tryget the entry may be cleared and the
		 * memory become another stream.  But an entry owns a reference:
		 * if it still holds st, ours is on the right stream.  (tryget acquires what the
		 * stream's new life publishes: then this load sees the entry cleared.) */
		if (sr_stream_tryget(entry)) {
			if (sr_load(e) == entry)
				return entry;
			sr_stream_put(entry);
		}
	}
	return NULL;
}

struct sr_stream *sr_fdtab_set(int fd, struct sr_stream *st)
{
	void *old;

	return sr_fdmap_set(&sr_fdtab, fd, st, &old) ? sr_stream_inherit(old) : st;
}

struct sr_stream *sr_fdtab_take(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);

	return e ? sr_stream_inherit(sr_swap(e, NULL)) : NULL; /* pairs with sr_fdmap_set() */
}

bool sr_fdtab_drop(int fd, struct sr_stream *st)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);
	void *expected = st;

	return e && sr_replace(e, &expected, NULL); /* pairs with sr_fdmap_set() */
}

void sr_fdtab_inherit(void)
{
	for (int fd = 0; fd <= sr_fdtab_max(); fd++) {
		sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);
		void *entry = sr_load(e);

		if (entry)
			sr_store(e, sr_stream_heir(entry));
	}
}
