/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdtab.h - descriptor number -> stream.  The look-up is lock-free and
 * async-signal-safe; entries own a reference.
 */
#ifndef SR_FDTAB_H
#define SR_FDTAB_H

#include "base/fdmap.h"
#include "base/order.h"

struct sr_stream;

extern struct sr_fdmap sr_fdtab;

/* The stream of fd with a reference for the caller (sr_stream_put), or NULL. */
struct sr_stream *sr_fdtab_get(int fd);
/* The same without a reference, for reading a single atomic member: the stream
 * may become another one at any moment, but the memory remains a stream's.  (The members of
 * struct sr_stream_head read as 0 until an inherited stream is looked up by sr_fdtab_get().) */
static inline struct sr_stream *sr_fdtab_peek(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_fdtab, fd);

	return e ? sr_observe(e) : NULL; /* pairs with sr_fdmap_set() */
}
/* Is there an entry?  A hint without a reference. */
static inline bool sr_fdtab_has(int fd)
{
	return sr_fdtab_peek(fd);
}
/* Enters st; its reference moves to the table.  Returns a stale entry's stream
 * (whose descriptor was closed around us) with its reference, or NULL, or st
 * itself if it could not be entered (fd is beyond the table). */
struct sr_stream *sr_fdtab_set(int fd, struct sr_stream *st);
/* Removes the entry; its reference moves to the caller.  NULL: none. */
struct sr_stream *sr_fdtab_take(int fd);
/* Removes the entry if it is still st; its reference moves to the caller. */
bool sr_fdtab_drop(int fd, struct sr_stream *st);
/* In the child of fork: every stream is inherited when it is looked up first. */
void sr_fdtab_inherit(void);
/* The greatest descriptor ever entered, -1 if none: the limit for a walk. */
static inline int sr_fdtab_max(void)
{
	return sr_load(&sr_fdtab.top) - 1;
}

#endif
