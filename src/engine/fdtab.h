/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdtab.h - descriptor number -> stream.  Lock-free, async-signal-safe look-up:
 * two levels of atomic pointers, entries own a reference of the stream.
 */
#ifndef SR_FDTAB_H
#define SR_FDTAB_H

#include "base/fdmap.h"

struct sr_stream;

extern struct sr_fdmap sr_fdtab;

/* The stream of fd with a reference for the caller (sr_stream_put), or NULL. */
struct sr_stream *sr_fdtab_get(int fd);
/* The same without a reference: it may be another stream the next moment, but stays
 * a stream's memory.  For a glance at an atomic. */
static inline struct sr_stream *sr_fdtab_peek(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);

	return e ? atomic_load_explicit(e, memory_order_acquire) : NULL;
}
/* Is there an entry?  A hint without a reference. */
static inline bool sr_fdtab_has(int fd)
{
	return sr_fdtab_peek(fd);
}
/* Enters st (its reference moves to the table); returns a stale entry's stream
 * (whose descriptor was closed around us) with its reference, or NULL; st itself
 * if it could not be entered (no memory, or fd is beyond the table). */
struct sr_stream *sr_fdtab_set(int fd, struct sr_stream *st);
/* Takes the entry out; its reference moves to the caller.  NULL: none. */
struct sr_stream *sr_fdtab_take(int fd);
/* Takes the entry out if it is still st (whose reference then is the caller's). */
bool sr_fdtab_drop(int fd, struct sr_stream *st);
/* The greatest descriptor ever entered, -1 if none: for walks over all. */
static inline int sr_fdtab_max(void)
{
	return atomic_load_explicit(&sr_fdtab.top, memory_order_relaxed) - 1;
}

#endif
