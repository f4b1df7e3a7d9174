/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_ready.c - the ready list of a set, what its entries have, and taking from
 * it.  The argument is in epoll_impl.h.
 */
#include "base/real.h"

#include <errno.h>

#include "base/now.h"
#include "stream/epoll_impl.h"
#include "stream/waitset.h"

#define HARVEST 64
#define LOOKS 8
#define QUIET 32		/* looks that an entry lingers for */

/*
 * What makes an edge is notify(): a link's bell only says that it is time to
 * look, as others may have taken note before.  Looking finds arrivals by itself,
 * and is then told in its own thread.
 */
struct looking {
	struct sr_epoll_entry *e;
	uint32_t events, edge;
	bool told;
};
static __thread struct looking here __attribute__((tls_model("initial-exec")));

/* ---- the ready list: ready_lock held ---- */

static void push(struct sr_epoll *set, struct sr_epoll_entry *e, bool sure)
{
	e->listed = true;
	e->sure = sure;
	set->sure += sure;
	e->next_ready = NULL;
	if (set->last)
		set->last->next_ready = e;
	else
		set->first = e;
	set->last = e;
	atomic_fetch_add(&set->ready, 1);
}

static void unlisted(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	e->listed = false;
	set->sure -= e->sure;
	e->sure = false;
	atomic_fetch_sub(&set->ready, 1);
}

static struct sr_epoll_entry *pop(struct sr_epoll *set)
{
	struct sr_epoll_entry *e = set->first;

	if (!e)
		return NULL;
	set->first = e->next_ready;
	if (!set->first)
		set->last = NULL;
	unlisted(set, e);
	return e;
}

/* Wakes one who sleeps; in level mode the bell says whether something is ready. */
static void ring(struct sr_epoll *set)
{
	const uint64_t one = 1;
	bool call = atomic_load(&set->level) ? set->sure :
			    atomic_load(&set->ready) &&
				    atomic_load(&set->sleepers);

	if (set->rung || !call)
		return;
	set->rung = true;
	(void)!sr_now_write(set->bell, &one, sizeof(one));
}

static void hush(struct sr_epoll *set)
{
	uint64_t n;

	if (!set->rung || (set->level && set->sure))
		return;
	set->rung = false;
	(void)!sr_now_read(set->bell, &n, sizeof(n));
}

static void list(struct sr_epoll *set, struct sr_epoll_entry *e, uint32_t edge)
{
	if (!e->live || e->parked)
		return;
	e->edge |= edge;
	if (e->busy)
		e->again = true;
	else if (!e->listed)
		push(set, e, false);
	if (atomic_load(&set->level))
		sr_loop_post(&set->task); /* is there really something? */
	else
		ring(set);
}

static bool wanted(uint32_t events, unsigned what)
{
	return !(what == SR_NOTIFY_RX && !(events & SR_EPOLL_IN)) &&
	       !(what == SR_NOTIFY_TX && !(events & SR_EPOLL_OUT));
}

static uint32_t edge_of(unsigned news)
{
	return (news & SR_NOTIFY_RX ? SR_EPOLL_IN : 0) |
	       (news & SR_NOTIFY_TX ? SR_EPOLL_OUT : 0) |
	       (news ? EPOLLERR | EPOLLHUP : 0);
}

void sr_epoll_hush(struct sr_epoll *set)
{
	sr_lock(&set->ready_lock);
	hush(set);
	sr_unlock(&set->ready_lock);
}

void sr_epoll_ring(struct sr_epoll *set)
{
	sr_lock(&set->ready_lock);
	ring(set);
	sr_unlock(&set->ready_lock);
}

void sr_epoll_list(struct sr_epoll_entry *e, uint32_t edge)
{
	struct sr_epoll *set = e->set;
	int err = errno;

	sr_lock(&set->ready_lock);
	list(set, e, edge);
	sr_unlock(&set->ready_lock);
	errno = err;
}

void sr_epoll_unlist(struct sr_epoll_entry *e)
{
	struct sr_epoll *set = e->set;
	struct sr_epoll_entry *p;

	sr_lock(&set->ready_lock);
	e->again = false;
	if (e->listed && set->first == e) {
		pop(set);
	} else if (e->listed) {
		for (p = set->first; p->next_ready != e; p = p->next_ready)
			;
		p->next_ready = e->next_ready;
		if (set->last == e)
			set->last = p;
		unlisted(set, e);
	}
	if (set->level)
		hush(set);
	sr_unlock(&set->ready_lock);
}

/* By notify().  What is not a matter of room or bytes alone may be an error or
 * the end, which are always reported. */
void sr_epoll_told(struct sr_epoll_entry *e, unsigned what, unsigned news)
{
	struct sr_epoll *set = e->set;

	if (here.e == e) {
		here.told = true;
		if (wanted(here.events, what))
			here.edge |= edge_of(news);
		return;
	}
	sr_lock(&set->ready_lock);
	if (wanted(e->events, what))
		list(set, e, edge_of(news));
	sr_unlock(&set->ready_lock);
}

/* The anchor's event is an edge if the kernel still has a say; see look(). */
static void heard(struct sr_epoll *set, uint32_t events, uint64_t data)
{
	bool bell = data & SR_EPOLL_BELL;
	struct sr_epoll_entry *e = (void *)(uintptr_t)(data & ~(uint64_t)SR_EPOLL_BELL);

	sr_lock(&set->ready_lock);
	if (e->live && !bell && !atomic_load(&e->st->tx_full))
		events &= ~(uint32_t)SR_EPOLL_OUT;
	if (bell || (events & (e->events | EPOLLERR | EPOLLHUP))) {
		e->anchor |= bell ? 0 : events;
		list(set, e, 0);
	}
	sr_unlock(&set->ready_lock);
}

void sr_epoll_harvest(struct sr_epoll *set)
{
	struct epoll_event ev[HARVEST];
	int i, n;

	do {
		n = sr_now_epoll(set->inner, ev, HARVEST);
		for (i = 0; i < n; i++) {
			if (ev[i].data.ptr != set)
				heard(set, ev[i].events, ev[i].data.u64);
		}
	} while (n == HARVEST);
}

/* ---- what a shut entry has ---- */

/* The kernel's part: the plain direction, raw bytes before a mark. */
static uint32_t ask_anchor(struct sr_stream *st, short events, bool hup)
{
	struct pollfd p = { st->anchor, (short)(events | (hup ? POLLRDHUP : 0)), 0 };

	if (p.fd < 0 || sr_now_poll(&p, 1) < 1)
		return 0;
	if (hup && (p.revents & POLLRDHUP))
		p.revents |= POLLHUP;
	return (uint32_t)p.revents & ((uint32_t)events | EPOLLERR | EPOLLHUP);
}

/* *waits: it would have to stand on this link for bytes.  *mixed: of what the kernel
 * has a say. */
static uint32_t level(struct sr_stream *st, uint32_t events,
		      struct sr_link **waits, uint32_t *mixed)
{
	struct sr_waitset_entry w = { .st = st,
				      .events = (short)(events & 0x7fff) };
	uint32_t r;
	bool open;

	/* A gate that shuts meanwhile does so before a mark can come: what the
	 * kernel has may be one, and nothing to be read. */
	do {
		open = !sr_gate_shut(&st->rx_gate);
		sr_waitset_plan(&w);
		*waits = w.rx_link;
		sr_waitset_drop_links(&w);
		if (!w.shut)
			return 0;	/* the kernel says it, with the program's data */
		r = (uint32_t)(unsigned short)w.ours;
		if (w.pass || w.ends)
			r |= ask_anchor(st, w.pass, w.hup);
	} while (open && sr_gate_shut(&st->rx_gate));
	*mixed |= (unsigned short)w.pass | (w.ends ? EPOLLERR | EPOLLHUP : 0);
	if ((r & EPOLLHUP) && !(r & EPOLLERR) && sr_anchor_kept(st))
		r |= EPOLLERR;
	return r;
}

/* With references; NULL if the direction is not on it. */
static struct sr_link *rx_link(struct sr_stream *st)
{
	struct sr_link *link = NULL;

	sr_lock(&st->rx_lock);
	if (sr_gate_shut(&st->rx_gate) && st->rx.state == SR_RX_LINK)
		link = st->rx_link ? sr_link_get(st->rx_link) : NULL;
	sr_unlock(&st->rx_lock);
	return link;
}

static struct sr_link *tx_link(struct sr_stream *st)
{
	struct sr_link *link = NULL;

	sr_lock(&st->tx_lock);
	if (sr_gate_shut(&st->tx_gate) && st->tx.state == SR_TX_LINK)
		link = st->tx_link ? sr_link_get(st->tx_link) : NULL;
	sr_unlock(&st->tx_lock);
	return link;
}

/* Stands on the links, and looks whether that was in time.  *rx: the link stood
 * on for bytes, to be compared only. */
static bool stand(struct sr_epoll_entry *e, uint32_t events, bool full,
		  struct sr_link **rx)
{
	struct sr_stream *st = e->st;
	struct sr_link *l[2] = { NULL, NULL };
	bool shut;

	if (events & SR_EPOLL_IN)
		l[0] = rx_link(st);
	if (events & SR_EPOLL_OUT)
		l[1] = tx_link(st);
	*rx = l[0];
	shut = sr_epoll_stand(e, l[0], l[1], full);
	for (int i = 0; i < 2; i++) {
		if (!l[i])
			continue;
		l[i]->ops->poll(l[i]);
		sr_link_put(l[i]);
	}
	return shut;
}

/* A level-triggered entry that is ready stays on the list, and need not be told
 * of more.  All others stand first, so that what comes after is told; unless they
 * linger, on the list. */
static uint32_t look(struct sr_epoll_entry *e, uint32_t events, bool linger,
		     uint32_t *mixed)
{
	struct sr_stream *st = e->st;
	struct sr_link *waits, *stood;
	bool full, lt = !(events & EPOLLET);
	uint32_t r;
	int tries = LOOKS;

	/* Looking at one direction may have moved on the other, and an edge is
	 * reported once, with all that there is. */
	do {
		here.told = false;
		r = level(st, events, &waits, mixed);
	} while (here.told && linger && --tries);
	if ((r && lt) || (linger && tries))
		return r;
	tries = LOOKS;
	do {
		here.told = false;
		full = atomic_load(&st->tx_full);
		if (!stand(e, events, full, &stood))
			return r;
		r = level(st, events, &waits, mixed);
		if (r && lt)
			return r;
	} while (--tries && (here.told || (waits && waits != stood) ||
			     ((events & SR_EPOLL_OUT) && !full &&
			      atomic_load(&st->tx_full))));
	if (!tries)	/* it never rests */
		sr_epoll_list(e, here.edge);
	return r;
}

/* ---- taking from the list ---- */

static void drop(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	sr_unlock(&set->ready_lock);
	sr_lock(&set->lock);
	sr_epoll_entry_free(e);
	sr_unlock(&set->lock);
	sr_lock(&set->ready_lock);
}

/* ready_lock held, but let go of meanwhile.  False: it is gone, or parked. */
static bool look_at(struct sr_epoll *set, struct sr_epoll_entry *e, bool linger,
		    uint32_t *r, uint32_t *edge)
{
	uint32_t events = e->events, anchor = e->anchor, mixed = 0;
	unsigned count = e->count;

	*r = *edge = 0;
	e->again = false;
	if (!e->armed && (events & EPOLLONESHOT))
		return true;	/* has fired: nothing until a MOD lists it */
	e->busy = true;
	*edge = e->edge;
	e->edge = e->anchor = 0;
	sr_unlock(&set->ready_lock);
	here = (struct looking){ .e = e, .events = events };
	*r = look(e, events, linger, &mixed);
	if (mixed)
		*edge |= anchor & (mixed | EPOLLERR | EPOLLHUP);
	*edge |= here.edge;
	here.e = NULL;
	sr_lock(&set->ready_lock);
	e->busy = false;
	if (!e->live) {
		drop(set, e);
		return false;
	}
	if (e->parked)
		return false;
	if (count != e->count)
		*r = 0;	/* it has been modified, and again is set */
	e->quiet = *r ? 0 : e->quiet + 1;
	if (!(*r & *edge) && (events & EPOLLET))
		*r = 0;
	return true;
}

/* False: the list is empty, and nobody has taken anything from it. */
static bool begin_looking(struct sr_epoll *set)
{
	if (!atomic_load(&set->ready) && !atomic_load(&set->looking))
		return false;
	sr_lock(&set->look_lock);
	sr_lock(&set->ready_lock);
	atomic_store(&set->looking, true);
	return true;
}

static void end_looking(struct sr_epoll *set)
{
	hush(set);
	ring(set);
	atomic_store(&set->looking, false);
	sr_unlock(&set->ready_lock);
	sr_unlock(&set->look_lock);
}

int sr_epoll_collect(struct sr_epoll *set, struct epoll_event *ev, int max,
		     unsigned turn, bool linger)
{
	int left, n = 0;
	uint32_t r, edge;
	bool stays;

	if (!begin_looking(set))
		return 0;
	for (left = atomic_load(&set->ready); n < max && left > 0; left--) {
		struct sr_epoll_entry *e = pop(set);

		if (!e)
			break;
		if (e->turn == turn) {
			push(set, e, true);
			continue;
		}
		stays = linger && e->quiet < QUIET;
		if (!look_at(set, e, stays, &r, &edge))
			continue;
		e->edge |= r ? 0 : edge;
		if (r) {
			e->turn = turn;
			ev[n].events = r;
			ev[n++].data = e->data;
			if (e->events & EPOLLONESHOT)
				e->armed = false;
		}
		if (e->events & EPOLLONESHOT)
			stays &= e->armed;
		r = e->events & (EPOLLET | EPOLLONESHOT) ? 0 : r;
		if (e->again || r || stays)
			push(set, e, r);
	}
	end_looking(set);
	return n;
}

/* As sr_epoll_collect(), but everything that would be reported stays. */
void sr_epoll_settle(struct sr_epoll *set)
{
	uint32_t r, edge;
	int left;

	if (!begin_looking(set))
		return;
	for (left = atomic_load(&set->ready); left > 0; left--) {
		struct sr_epoll_entry *e = pop(set);

		if (!e || !look_at(set, e, false, &r, &edge))
			continue;
		e->edge |= edge;
		if (e->again || r)
			push(set, e, r);
	}
	end_looking(set);
}
