/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* look.h - what a linked entry has, for ready.c. */
#ifndef SR_EPOLL_LOOK_H
#define SR_EPOLL_LOOK_H

#include "epoll/impl.h"

static inline bool sr_epoll_has_news(struct sr_epoll_entry *e)
{
	/* pair listed: list_entry(); queue_drop(), which calls this, has changed `listed' */
	return sr_look(&e->edge) & SR_EPOLL_AGAIN;
}

/* Takes note of what is news by now. */
static inline uint32_t sr_epoll_take_edge(struct sr_epoll_entry *e)
{
	uint32_t edge = 0;

	if (sr_load(&e->edge))
		edge = sr_swap(&e->edge, 0);	/* pairs with list_entry() */
	return edge & ~SR_EPOLL_AGAIN;
}

/* Does this thread look at the entry?  Then its visit tells the kernel what the set has. */
bool sr_epoll_looks_at(const struct sr_epoll_entry *e);

/*
 * Returns those of `events' that the entry has, and adds to *edge what has become news by now.
 *
 * may_stay: the entry may stay in the queue unarmed.  Otherwise it is armed and looked at again,
 * until no news comes during a look; but a level-triggered entry that is ready is armed only if
 * `how' has ARMS (then may_stay is false).  Afterwards e->stays says whether the entry has to stay
 * in the queue, because it is not armed, or because news came during each look.
 *
 * Looking at one direction polls its link, which may bring news of the other direction, after the
 * function has looked at that.  An edge is reported once, with all that there is by then.  So the
 * function looks again if news has come during the look.
 */
uint32_t sr_epoll_look(struct sr_epoll_entry *e, uint32_t events, uint32_t *edge,
		       bool may_stay, unsigned how);

/* For an edge-triggered entry, after a look that has found the events r.  Returns what the
 * program is to be told: r if one of its events is new, else 0.  *edge: the new events.
 * look_lock.  (Neither function is inline, because the visit of a level-triggered entry would
 * save more registers.) */
__attribute__((noinline)) uint32_t sr_epoll_take_news(struct sr_epoll_entry *e, unsigned state,
						      uint32_t r, uint32_t *edge);
/* After a visit that reports the events r to the program (0: it reports none).  News of room that
 * r leaves out is kept for the next visit, because no notification may follow when there is room
 * (wait/plan.c); that bytes have come is always notified.  look_lock. */
__attribute__((noinline)) void sr_epoll_keep_news(struct sr_epoll_entry *e, unsigned state,
						  uint32_t events, uint32_t r, uint32_t edge);

#endif
