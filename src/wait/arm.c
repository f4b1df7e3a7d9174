/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * arm.c - owns what a wait registers while it sleeps: its nodes at the streams, and the
 * arming of their links.  Must not know how the wait sleeps.  It has no locks of its own, and
 * holds none when it arms a link.
 */
#include "engine/engine.h"
#include "engine/waiters.h"
#include "wait/waitset.h"

enum { BOTH = SR_NOTIFY_RX | SR_NOTIFY_TX };

/* Returns the place of fd in the kernel's array, or -1.  Neighbours with the same fd share
 * one: both directions of a link, or links of one carrier. */
static int kernel_slot(struct sr_waitset *s, int fd)
{
	if (fd < 0)
		return -1;
	if (s->kn == s->n + 1 || s->k[s->kn - 1].fd != fd)
		s->k[s->kn++] = (struct pollfd){ fd, POLLIN, 0 };
	return (int)s->kn - 1;
}

/* An entry that asks for no events wants all notices, because poll(2) also returns for the
 * stream's end. */
static unsigned notices_wanted(const struct sr_waitset_entry *e)
{
	unsigned want = (e->events & SR_IN_EVENTS ? SR_NOTIFY_RX : 0) |
			(e->events & SR_OUT_EVENTS ? SR_NOTIFY_TX : 0);

	return want ? want : SR_NOTIFY_RX | SR_NOTIFY_TX;
}

/* Both directions of a stream have the same link, as a rule: it is armed once for both. */
static void arm_links(struct sr_waitset *s, struct sr_waitset_entry *e)
{
	const bool one = e->link[0] && e->link[0] == e->link[1];
	struct sr_link *link;

	for (int way = 0; way < 2; way++) {
		link = e->armed[way] = e->link[way];
		e->link[way] = NULL;
		if (way && one)
			e->slot[1] = e->slot[0];
		else if (link)
			e->slot[way] = kernel_slot(s, link->ops->arm(link, one ? BOTH : 1u << way));
	}
}

static void disarm_links(struct sr_waitset *s, struct sr_waitset_entry *e)
{
	const bool one = e->armed[0] && e->armed[0] == e->armed[1];
	struct sr_link *link;
	bool watched;

	for (int way = 0; way < 2; way++) {
		link = e->armed[way];
		if (!link)
			continue;
		watched = e->slot[way] >= 0;
		if (!way || !one)
			link->ops->awake(link, one ? BOTH : 1u << way, watched,
					 watched && s->k[e->slot[way]].revents);
		sr_link_put(link);
		e->armed[way] = NULL;
	}
}

void sr_waitset_arm(struct sr_waitset *s)
{
	struct sr_waitset_entry *e;

	s->kn = s->n + 1;
	for (e = s->e; e < s->e + s->n; e++) {
		if (!e->st)
			continue;
		e->node = s->nodes ? &s->nodes[e - s->e] : &s->waiter->node[e - s->e];
		e->node->waiter = s->waiter;
		e->node->want = notices_wanted(e);
		sr_wait_attach(e->st, e->node);
		arm_links(s, e);
	}
	s->armed = true;
}

void sr_waitset_disarm(struct sr_waitset *s)
{
	struct sr_waitset_entry *e;

	for (e = s->e; e < s->e + s->n; e++) {
		if (!e->st)
			continue;
		sr_wait_detach(e->st, e->node);
		disarm_links(s, e);
		sr_waitset_drop_links(e);
	}
	s->armed = false;
}

bool sr_waitset_has_unarmed(struct sr_waitset *s)
{
	struct sr_waitset_entry *e;

	for (e = s->e; e < s->e + s->n; e++)
		for (int way = 0; way < 2; way++)
			if (e->link[way] && e->link[way] != e->armed[way])
				return true;
	return false;
}
