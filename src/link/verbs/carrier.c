/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * carrier.c - how long carriers and links live, and how links hear of what comes for them.
 *
 * A link has a reference to its carrier from sr_vcarrier_join() until it is freed.  So have the
 * carrier's jobs and its posted tasks, and there is one from the carrier's making until its last
 * job has ended.  The carrier is freed in the loop.  Another thread may take a reference while it has
 * a link of the carrier, or to send what it has left there (post.c).  A carrier that is not shared
 * is closed (make.c) when its link leaves, one that is shared when it has been idle, or when another
 * one needs its memory (tick.c).
 *
 * A link whose stream has let go of it may have to stay (share.c).  It also stays while a job of
 * the carrier runs, because that goes through the links.
 *
 * c->links is changed in the loop, locked: the loop reads it without the lock.
 *
 * While a thread has the lock, it notes which links have heard something (c->heard).  After it
 * has given the lock back, it calls notify() of these links, and fails those that broke.  It holds
 * a reference to each of them meanwhile, because their streams may let go of them.  That reference
 * may be the last one, so it is given back without the lock, too.
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

/* Takes a reference, and returns true, unless there is none left. */
static bool tryget(atomic_int *count)
{
	int refs = sr_load(count);

	while (refs > 0)
		if (atomic_compare_exchange_weak_explicit(count, &refs, refs + 1,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

bool sr_vcarrier_tryget(struct sr_vcarrier *c)
{
	return tryget(&c->refs);
}

static void carrier_free(struct sr_task *task)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, unreferenced, task);

	sr_vpost_end(c);
	sr_vcq_free(c);
	sr_vshare_free(c);
	sr_vring_free(&c->ctl);
	free(c);
}

void sr_vcarrier_put(struct sr_vcarrier *c)
{
	/* Pairs with itself: the last one sees what all others did with the carrier. */
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) > 1)
		return;
	if (sr_loop_here()) {
		carrier_free(&c->unreferenced);
	} else {
		c->unreferenced.fn = carrier_free;
		sr_loop_post(&c->unreferenced);
	}
}

void sr_vcarrier_join(struct sr_vcarrier *c, struct sr_vlink *l)
{
	sr_vcarrier_get(c);
	l->c = c;
	l->link.name = c->name;
	if (c->qp)
		sr_store(&l->link.qp, c->qp->qp_num);
	SR_LIST_ADD(c->links, l);
}

struct sr_vring *sr_vlink_ring(struct sr_vlink *l, unsigned i)
{
	struct sr_vring *rings[SR_V_RINGS] = { &l->rx.ring[0], &l->rx.ring[1], &l->tx.ring,
					       &l->tx.spare };

	return rings[i];
}

static void heard_add(struct sr_vlink *l)
{
	struct sr_vcarrier *c = l->c;
	struct sr_vhears **end = c->heard ? c->heard_end : &c->heard;

	SR_LIST_ADD(*end, &l->hears);
	c->heard_end = &l->hears.next;
}

static void heard_drop(struct sr_vlink *l)
{
	if (!l->hears.pprev)
		return;
	if (!l->hears.next)
		l->c->heard_end = l->hears.pprev;
	SR_LIST_DROP(&l->hears);
	l->hears.pprev = NULL;
}

static void link_leave(struct sr_vlink *l)
{
	struct sr_vcarrier *c = l->c;

	sr_lock(&c->lock);
	SR_LIST_DROP(l);
	heard_drop(l);
	sr_vpost_unqueue(l);
	sr_vcq_note_armed(l, 0);
	if (sr_vshare_link(c, l->number) == l)	/* the carrier has ended before */
		c->share.number[l->number - 1].link = NULL;
	sr_unlock(&c->lock);
	sr_vlook_leave(l);
	for (unsigned i = 0; i < SR_V_RINGS; i++)
		sr_vring_free(sr_vlink_ring(l, i));
	free(l);
	sr_vcarrier_put(c);
}

/* Is the link, or its memory, still used by the peer, the device or a job?  If the carrier is
 * shared, this also sends the link's last record, if that has not gone yet.  While a broken carrier
 * has its queue pair, the peer may still write to the rings. */
static bool link_is_used(struct sr_vlink *l)
{
	struct sr_vcarrier *c = l->c;
	bool used;

	sr_vcarrier_lock(c);
	if (sr_load(&c->shared))
		sr_vtx_drop(l);
	used = sr_load(&c->shared) && c->qp &&
	       (c->broken || !l->over || c->out.arrived < l->tx.last_write);
	sr_vcarrier_unlock(c);
	return used || c->make.busy;
}

void sr_vlink_free(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	struct sr_vcarrier *c = l->c;

	if (!sr_load(&c->shared) && !l->next && c->links == l)
		sr_vcarrier_close(c, true);
	l->lingers = link_is_used(l);
	c->lingering += l->lingers;
	if (l->lingers)
		sr_vlook_link(l, SR_LOOK);
	else
		link_leave(l);
}

void sr_vcarrier_sweep(struct sr_vcarrier *c)
{
	struct sr_vlink *l, *next;

	for (l = c->lingering ? c->links : NULL; l; l = next) {
		next = l->next;
		if (!l->lingers || link_is_used(l))
			continue;
		c->lingering--;
		link_leave(l);
	}
}

void sr_vcarrier_fail(struct sr_vcarrier *c, const char *reason)
{
	sr_vcarrier_lock(c);
	sr_vcarrier_break(c, reason);
	sr_vcarrier_unlock(c);
}

/* ---- what links hear ---- */

/* An epoll set reports streams in the order in which their bytes have come, so that is the order in
 * which links hear of them, whatever else they have heard before. */
void sr_vlink_hear(struct sr_vlink *l, unsigned what)
{
	bool first_bytes = what & ~l->heard & SR_NOTIFY_RX;

	if (l->armed_once & what)
		sr_vcq_note_armed(l, l->armed_once & ~what);
	l->heard |= what;
	if (first_bytes)
		heard_drop(l);
	if (!l->hears.pprev)
		heard_add(l);
}

void sr_vlink_break(struct sr_vlink *l, const char *reason)
{
	if (!l->broken)
		l->broken = reason;
	sr_vlink_hear(l, sr_link_events(&l->link) & SR_LINK_UP ? 0 : SR_V_NEWS);
	if (sr_load(&l->c->shared))
		sr_vtx_drop(l);
}

void sr_vcarrier_break(struct sr_vcarrier *c, const char *reason)
{
	struct sr_vlink *l;

	if (c->broken)
		return;
	c->broken = reason;
	for (l = c->links; l; l = l->next)
		sr_vlink_break(l, reason);
	sr_vlook_start(c, SR_LOOK_SOON);
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

	while (n < TELL && c->heard) {
		l = SR_OF(struct sr_vlink, hears, c->heard);
		heard_drop(l);
		told[n].l = l;
		told[n].broken = l->broken;
		told[n].heard = l->heard;
		l->heard = 0;
		n += tryget(&l->link.refs);
	}
	more = c->heard;
	sr_unlock(&c->lock);
	for (i = 0; i < n; i++) {
		l = told[i].l;
		if (told[i].broken)
			sr_vlink_fail(l, told[i].broken);
		if (told[i].heard & ~(unsigned)SR_V_NEWS)
			l->link.notify(&l->link, told[i].heard & ~(unsigned)SR_V_NEWS);
		if (!(told[i].heard & SR_V_NEWS) || !sr_loop_post(&l->news))
			sr_link_put(&l->link);	/* else the task has the reference */
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
