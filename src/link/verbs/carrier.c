/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * carrier.c - how long carriers and links live, and how links hear of what comes for them.
 *
 * A link has a reference to its carrier from sr_vlink_make() to sr_vlink_free().  So have the
 * carrier's job and its posted task.  The last reference is always given back in the loop,
 * which frees the carrier; another thread may take one while it has a link of the carrier.
 * When the last link leaves, the carrier is closed (make.c); it goes when the job has ended.
 *
 * c->links is changed in the loop, locked: the loop reads it without the lock.
 *
 * While a thread has the lock, it takes down which links have heard something (c->heard).  When
 * it gives the lock back it calls notify() of these, and fails those that broke.  Meanwhile
 * they have a reference each, because their streams may let go of them.  That reference may
 * be the last one, so it is given back without the lock, too.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <stdlib.h>

enum { TELL = 8 };		/* links a time that the lock is held */

/* ---- lives ---- */

void sr_vcarrier_get(struct sr_vcarrier *c)
{
	sr_count(&c->refs, 1);
}

void sr_vcarrier_put(struct sr_vcarrier *c)
{
	/* Pairs with itself: the last one sees what all others did with the carrier. */
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) > 1)
		return;
	sr_vcq_free(c);
	sr_vring_free(&c->ctl);
	while (c->owned)
		sr_vring_free(&c->own[--c->owned]);
	free(c);
}

void sr_vcarrier_join(struct sr_vcarrier *c, struct sr_vlink *l)
{
	sr_vcarrier_get(c);
	l->c = c;
	sr_lock(&c->lock);
	SR_LIST_ADD(c->links, l);
	sr_unlock(&c->lock);
}

void sr_vcarrier_leave(struct sr_vlink *l)
{
	struct sr_vring *rings[] = { &l->rx.ring[0], &l->rx.ring[1], &l->tx.ring, &l->tx.spare };
	struct sr_vcarrier *c = l->c;
	struct sr_vlink **p;

	if (!l->next && c->links == l)
		sr_vcarrier_close(c, true);
	sr_lock(&c->lock);
	SR_LIST_DROP(l);
	for (p = &c->heard; *p && *p != l; p = &(*p)->hears_next)
		;
	if (*p)
		*p = l->hears_next;
	sr_vpost_unqueue(l);
	c->cq.armed_once -= l->armed_once != 0;
	/* A job may be about to take away their regions. */
	for (unsigned i = 0; i < SR_V_RINGS; i++)
		if (rings[i]->buf)
			c->own[c->owned++] = *rings[i];
	sr_unlock(&c->lock);
	sr_vcarrier_put(c);
}

struct sr_vlink *sr_vcarrier_find(struct sr_vcarrier *c, uint32_t number)
{
	struct sr_vlink *l;

	for (l = c->links; l && l->number != number; l = l->next)
		;
	return l;
}

void sr_vcarrier_fail(struct sr_vcarrier *c, const char *reason)
{
	struct sr_vlink *l;

	for (l = c->links; l; l = l->next)
		sr_vlink_fail(l, reason);
}

/* ---- what links hear ---- */

void sr_vlink_hear(struct sr_vlink *l, unsigned what)
{
	if (l->armed_once && !(l->armed_once &= ~what))
		l->c->cq.armed_once--;
	l->heard |= what;
	if (l->hears)
		return;
	l->hears = true;
	l->hears_next = l->c->heard;
	l->c->heard = l;
}

void sr_vlink_break(struct sr_vlink *l, const char *reason)
{
	if (!l->broken)
		l->broken = reason;
	sr_vlink_hear(l, 0);
}

void sr_vcarrier_break(struct sr_vcarrier *c, const char *reason)
{
	struct sr_vlink *l;

	if (c->broken)
		return;
	c->broken = reason;
	for (l = c->links; l; l = l->next)
		sr_vlink_break(l, reason);
}

/* Unless the link is about to be freed. */
static bool vlink_tryget(struct sr_link *link)
{
	int refs = sr_load(&link->refs);

	while (refs > 0)
		if (atomic_compare_exchange_weak_explicit(&link->refs, &refs, refs + 1,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

void sr_vcarrier_lock(struct sr_vcarrier *c)
{
	sr_enter();
	sr_lock(&c->lock);
}

/* Gives the lock back, and tells at most TELL links.  Returns whether there are more. */
static bool tell_links(struct sr_vcarrier *c)
{
	struct {
		struct sr_vlink *l;
		const char *broken;
		unsigned heard;
	} told[TELL];
	unsigned n = 0, i;
	struct sr_vlink *l;
	bool more;

	while (n < TELL && (l = c->heard)) {
		c->heard = l->hears_next;
		told[n].l = l;
		told[n].broken = l->broken;
		told[n].heard = l->heard;
		l->heard = 0;
		l->hears = false;
		n += vlink_tryget(&l->link);
	}
	more = c->heard;
	sr_unlock(&c->lock);
	for (i = 0; i < n; i++) {
		l = told[i].l;
		if (told[i].broken)
			sr_vlink_fail(l, told[i].broken);
		if (told[i].heard)
			l->link.notify(&l->link, told[i].heard);
		sr_link_put(&l->link);
	}
	return more;
}

void sr_vcarrier_unlock(struct sr_vcarrier *c)
{
	if (!c->heard)
		sr_unlock(&c->lock);
	else
		while (tell_links(c))
			sr_lock(&c->lock);
	sr_leave();
}
