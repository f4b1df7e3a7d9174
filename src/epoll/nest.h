/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* nest.h - sets that are themselves waited for: what the other files of this room call. */
#ifndef SR_EPOLL_NEST_H
#define SR_EPOLL_NEST_H

#include "epoll/family.h"
#include "epoll/impl.h"

static inline bool sr_epoll_is_nested(struct sr_epoll *set)
{
	return sr_load(&set->nested);
}

/* ---- nest.c ---- */
/* Makes the flag of a nested set readable if entries are listed that are not dead, and else
 * not.  news: it is an edge, also if the flag is readable already. */
void sr_epoll_tell(struct sr_epoll *set, bool news);
/* The same, when the calling thread is about to report the entries, or has looked at them.  The flag
 * may stay as it is until a thread is about to sleep for the set (nest.c). */
void sr_epoll_tell_later(struct sr_epoll *set);
/* Before a thread asks the kernel for `outer': the flags are right of all sets in it. */
void sr_epoll_say_members(struct sr_epoll *outer);
/* Is a stream of the set on a link? */
static inline bool sr_epoll_has_links(struct sr_epoll *set)
{
	return sr_load(&set->linked) > sr_load(&set->nests) + sr_epoll_is_shared(set);
}

/* Has a set links that is in `outer', and in no other? */
bool sr_epoll_has_linked_members(struct sr_epoll *outer);
/* `outer' has no descriptor any more: the sets that were in it are in none, and their flags are
 * right. */
void sr_epoll_outer_ends(struct sr_epoll *outer);
/* epoll_ctl(2) has changed an entry of the stream in a nested set; no lock held. */
void sr_epoll_settle_changed(struct sr_stream *st);
/* sr_epoll_list() for epoll_ctl(2), with sets.lock held.  Does not wake the service thread for an
 * entry in a nested set, because the caller calls sr_epoll_settle_changed() next. */
void sr_epoll_list_changed(struct sr_epoll_entry *e);
void sr_epoll_unnest(struct sr_epoll *set);	/* it ends */
/* sr_epoll_list() for an entry in a nested set.  _nested: the entry may have something to report;
 * _arrival: bytes or room have come. */
void sr_epoll_list_nested(struct sr_epoll_entry *e, uint32_t edge);
void sr_epoll_list_arrival(struct sr_epoll_entry *e, uint32_t edge);
/* The entry is linked now, or is not any more.  sets.lock held. */
void sr_epoll_note_nested(struct sr_epoll_entry *e);

/* ---- ready.c ---- */
/* Puts the stream's entries (NULL: none) into the queue of the nested set, and then looks at the
 * queue without reporting anything: entries that are not ready leave it.  Stops at the first entry
 * that is ready, unless `all' is set.  Afterwards the flag is right. */
void sr_epoll_tidy_nested(struct sr_epoll *set, bool all, struct sr_stream *st);

#endif
