/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * member.c - owns what the kernel's epoll set holds for an entry: the anchor, registered with the
 * program's data while the entry is plain and with a token while it is linked, and the doorbells
 * of the links that the entry has been armed on.
 *
 * Shared doorbells.  Links of one carrier have one descriptor, which the kernel's set takes once.
 * The set's entries that rely on it are in a list of the carrier's, the watcher, and the first of
 * them has its token in the kernel's set.  When that one goes, the next one's token takes its place
 * (EPOLL_CTL_MOD).  No arrival is lost by that.  A thread may have taken an event with the old token
 * out of the kernel's set, and ignores it.  But until a thread has read the completion event
 * (rang() in link/ops.h) the descriptor stays readable, and MOD makes the kernel report that again,
 * with the new token.
 *
 * Locks: the stream's sets.lock; in that, set->lock for the list of a watcher.
 */
#include "base/real.h"

#include "engine/engine.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"
#include "epoll/member.h"
#include "epoll/nest.h"
#include "epoll/pool.h"

#define COUNT 63u		/* of the changes, in a one-shot token */

static uint64_t token_of(const struct sr_epoll_entry *e, unsigned kind)
{
	return (uint64_t)(uintptr_t)e | kind;
}

uint64_t sr_epoll_oneshot(unsigned state, const struct sr_epoll_entry *e)
{
	return token_of(e, SR_EPOLL_ONESHOT) | (state / SR_EPOLL_STEP & COUNT) << 2;
}

int sr_epoll_kernels(struct sr_epoll_entry *e, int op)
{
	unsigned state = sr_load(&e->state);
	uint32_t events = e->linked ? e->asked | EPOLLET : sr_load(&e->events);
	uint64_t data = e->linked ? token_of(e, SR_EPOLL_ANCHOR) : sr_load(&e->data);

	if (events & EPOLLONESHOT) {
		data = sr_epoll_oneshot(state, e);
		if (!(state & SR_EPOLL_ARMED))
			events = EPOLLET; /* none, until the program says more */
	}
	return sr_epoll_control(sr_epoll_set_of(e), op, e->number, events, data);
}

static uint32_t anchor_events(struct sr_epoll_entry *e)
{
	return (sr_load(&e->events) & (SR_EPOLL_IN | SR_EPOLL_OUT)) | EPOLLRDHUP; /* never 0 */
}

/* The events that the kernel is asked for when the entry becomes linked.  In a nested set these are
 * only those of directions whose gates are open.  In a direction whose gate is shut a mark may
 * come, which would make the set readable although the program has nothing to read. */
uint32_t sr_epoll_anchor_events(struct sr_epoll_entry *e)
{
	uint32_t ours = 0;

	if (sr_epoll_is_nested(sr_epoll_set_of(e))) {
		ours |= sr_gate_shut(&e->st->in.gate) ? SR_EPOLL_IN & ~EPOLLRDHUP : 0;
		ours |= sr_gate_shut(&e->st->out.gate) ? SR_EPOLL_OUT : 0;
	}
	return anchor_events(e) & ~ours;
}

int sr_epoll_ask_anchor(struct sr_epoll_entry *e, bool anchor, short asks)
{
	const uint32_t some = SR_EPOLL_IN | SR_EPOLL_OUT;
	uint32_t events = e->asked | anchor_events(e);
	bool asked = e->asked;

	if (sr_epoll_is_nested(sr_epoll_set_of(e)))
		events = ((unsigned short)asks & some & anchor_events(e)) | EPOLLRDHUP;
	else if (!anchor)
		return 0;
	if (events == e->asked || (!anchor && !asked))
		return 0;
	e->asked = events;
	return sr_epoll_kernels(e, asked ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
}

/* ---- doorbells of links ---- */

/* Entries are aligned to their size (pool.c), so the address of a door gives that of its entry. */
static uint64_t shared_token(const struct sr_watch_door *door)
{
	return token_of(sr_epoll_of_token((uintptr_t)door), SR_EPOLL_COMMON);
}

/* If the link's descriptor is a shared one, adds the door to the set's doors on it. */
static void shared_open(struct sr_epoll *set, struct sr_epoll_doorbell *d)
{
	const void *who = sr_epoll_is_nested(set) ? NULL : set; /* others' arrivals are none of its */
	struct sr_watcher *w;

	sr_lock(&set->lock);
	w = d->link->ops->watch(d->link, who);
	if (w && w->doors) {
		SR_LIST_ADD(w->doors->next, &d->shared);	/* behind the one with the token */
	} else if (w) {
		SR_LIST_ADD(w->doors, &d->shared);
		if (sr_epoll_control_locked(set, EPOLL_CTL_ADD, w->fd, EPOLLIN | EPOLLET,
					    shared_token(&d->shared))) {
			SR_LIST_DROP(&d->shared);
			d->link->ops->unwatch(d->link, w);
			w = d->link->ops->watch(d->link, NULL);
		}
	}
	d->watcher = w;
	sr_unlock(&set->lock);
}

static void shared_close(struct sr_epoll *set, struct sr_epoll_doorbell *d)
{
	struct sr_watcher *w = d->watcher;
	bool first;

	sr_lock(&set->lock);
	first = w->doors == &d->shared;
	SR_LIST_DROP(&d->shared);
	if (!w->doors) {
		sr_epoll_control_locked(set, EPOLL_CTL_DEL, w->fd, 0, 0);
		d->link->ops->unwatch(d->link, w);
	} else if (first) {
		sr_epoll_control_locked(set, EPOLL_CTL_MOD, w->fd, EPOLLIN | EPOLLET,
					shared_token(w->doors));
	}
	sr_unlock(&set->lock);
}

void sr_epoll_answer_door(struct sr_epoll_entry *e)
{
	struct sr_link *link[2] = { NULL, NULL };
	int i;

	sr_lock(&e->st->sets.lock);
	for (i = 0; i < 2; i++)
		if (e->door[i].link && e->door[i].watcher)
			link[i] = sr_link_get(e->door[i].link);
	sr_unlock(&e->st->sets.lock);
	for (i = 0; i < 2; i++) {
		if (!link[i])
			continue;
		link[i]->ops->rang(link[i]);
		sr_link_put(link[i]);
	}
}

static void door_drop(struct sr_epoll_entry *e, struct sr_epoll_doorbell *d)
{
	if (!d->link)
		return;
	if (d->watcher)
		shared_close(sr_epoll_set_of(e), d);
	else if (d->fd >= 0)
		sr_epoll_control(sr_epoll_set_of(e), EPOLL_CTL_DEL, d->fd, 0, 0);
	sr_link_put(d->link);
	*d = (struct sr_epoll_doorbell){ 0 };
}

void sr_epoll_doors_drop(struct sr_epoll_entry *e)
{
	door_drop(e, &e->door[0]);
	door_drop(e, &e->door[1]);
}

/* Returns the entry's doorbell for the link, and makes it if there is none yet (*is_new). */
static struct sr_epoll_doorbell *door_of_link(struct sr_epoll_entry *e, struct sr_link *link,
					      bool *is_new)
{
	struct sr_epoll_doorbell *d = e->door;

	if (d->link != link && (e->door[1].link == link || d->link))
		d++;
	if (d->link == link && d->watcher && sr_epoll_is_nested(sr_epoll_set_of(e)))
		door_drop(e, d);
	*is_new = d->link != link;
	if (*is_new) {
		*d = (struct sr_epoll_doorbell){ .link = sr_link_get(link), .fd = -1 };
		if (link->ops->watch)
			shared_open(sr_epoll_set_of(e), d);
	}
	return d;
}

/* False: the link's doorbell cannot be put into the kernel's set, perhaps because the stream is
 * in the set by another descriptor, too. */
static bool arm_door(struct sr_epoll_entry *e, struct sr_link *link, unsigned want)
{
	struct sr_epoll *set = sr_epoll_set_of(e);
	struct sr_epoll_doorbell *d;
	bool is_new;
	int fd;

	if (!link)
		return true;
	d = door_of_link(e, link, &is_new);
	if (want && sr_epoll_is_nested(set))
		want |= SR_ARM_DATA;
	fd = link->ops->arm_once(link, want);
	if (!is_new || fd < 0)
		return true;
	if (sr_epoll_control(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET,
			     token_of(e, SR_EPOLL_DOORBELL)))
		return false;
	d->fd = fd;
	return true;
}

static bool door_rings(const struct sr_epoll_doorbell *d)
{
	return !d->link || d->watcher || d->fd >= 0;
}

bool sr_epoll_arm(struct sr_epoll_entry *e, struct sr_link *rx,
		  struct sr_link *tx, bool full, bool anchor, short asks)
{
	struct sr_stream *st = e->st;
	bool ok = true, linked;
	int i;

	sr_lock(&st->sets.lock);
	linked = e->linked;
	if (linked) {
		for (i = 0; i < 2; i++)
			if (e->door[i].link != rx && e->door[i].link != tx)
				door_drop(e, &e->door[i]);
		ok = arm_door(e, rx, SR_NOTIFY_RX) &&
		     arm_door(e, tx, full ? SR_NOTIFY_TX : 0) &&
		     !sr_epoll_ask_anchor(e, anchor, asks);
		sr_store(&e->rings, door_rings(&e->door[0]) && door_rings(&e->door[1]));
	}
	sr_unlock(&st->sets.lock);
	if (!ok)
		sr_epoll_go_plain(st);
	return linked;
}

void sr_epoll_silence(struct sr_epoll_entry *e)
{
	const unsigned may = SR_EPOLL_LIVE | SR_EPOLL_ARMED;

	sr_lock(&e->st->sets.lock);
	if (e->linked && (sr_load(&e->state) & may) != may) {
		sr_epoll_doors_drop(e);
		if (e->asked)
			sr_epoll_kernels(e, EPOLL_CTL_DEL);
		e->asked = 0;
	}
	sr_unlock(&e->st->sets.lock);
}
