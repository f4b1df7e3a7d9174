/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_ready.c - the list of a set, what its entries have, and taking from it.
 * The argument is in epoll_impl.h.
 */
#include "base/real.h"

#include <errno.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "wait/waitset.h"
#include "epoll/epoll.h"
#include "epoll/hooks.h"
#include "epoll/impl.h"

#define LOOKS 8
#define QUIET 32		/* visits that an entry is polled for, spinning apart */
#define POLLED 64		/* entries that one thread may poll */

/* ---- listing ---- */

static void push(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	struct sr_epoll_entry *first = atomic_load(&set->news);

	do {
		e->next_listed = first;
	} while (!atomic_compare_exchange_weak(&set->news, &first, e));
}

/* The entry is ours to put somewhere if it was on no list. */
static bool claim(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	if (atomic_load_explicit(&e->listed, memory_order_relaxed) ||
	    atomic_exchange(&e->listed, true))
		return false;
	atomic_fetch_add(&set->ready, 1);
	return true;
}

void sr_epoll_ring(struct sr_epoll *set)
{
	const uint64_t one = 1;
	int err = errno;

	if (!atomic_load(&set->ready) || !atomic_load(&set->sleepers) ||
	    atomic_exchange(&set->rung, true))
		return;
	(void)!sr_now_write(set->bell, &one, sizeof(one));
	errno = err;
}

void sr_epoll_list(struct sr_epoll_entry *e, uint32_t edge)
{
	struct sr_epoll *set = e->set;

	atomic_fetch_or(&e->edge, edge | SR_EPOLL_AGAIN);
	if (claim(set, e))
		push(set, e);
	sr_epoll_ring(set);
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

/* By notify().  What is not a matter of room or bytes alone may be an error or
 * the end, which are always reported. */
void sr_epoll_told(struct sr_epoll_entry *e, unsigned what, unsigned news)
{
	if (wanted(e->events, what))
		sr_epoll_list(e, edge_of(news));
}

void sr_epoll_heard(uint32_t events, uint64_t token)
{
	struct sr_epoll_entry *e = sr_epoll_of_token(token);
	struct sr_epoll *set = e->set;

	/* To the child of a fork an entry of the parent's. */
	if (!set || !atomic_load(&set->shut))
		return;
	/* (It may have gone, and even be another stream's: a visit too many.  It is
	 * not freed meanwhile.) */
	sr_lock(&set->look_lock);
	if ((atomic_load(&e->state) & SR_EPOLL_LIVE) && e->set == set)
		sr_epoll_list(e, (token & SR_EPOLL_KIND) == SR_EPOLL_DOORBELL ?
					 0 : events & SR_EPOLL_ALL);
	sr_unlock(&set->look_lock);
}

void sr_epoll_bury(struct sr_epoll_entry *e)
{
	atomic_fetch_or(&e->edge, SR_EPOLL_AGAIN);
	if (claim(e->set, e))
		push(e->set, e);
}

/* ---- what a linked entry has ---- */

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

struct level {
	uint32_t r;
	struct sr_link *waits;	/* would have to be armed for bytes; to be compared only */
	bool anchor;		/* the kernel has a say */
};

static void level(struct sr_stream *st, uint32_t events, struct level *l)
{
	struct sr_waitset_entry w = { .st = st,
				      .events = (short)(events & 0x7fff) };
	bool open;

	/* A gate that shuts meanwhile does so before a mark can come: what the
	 * kernel has may be one, and nothing to be read. */
	do {
		open = !sr_gate_shut(&st->in.gate);
		sr_waitset_plan(&w);
		l->waits = w.rx_link;
		sr_waitset_drop_links(&w);
		l->r = 0;
		l->anchor = w.kernel || w.ends;
		if (!w.shut)
			return;	/* the kernel says it, with the program's data */
		l->r = (uint32_t)(unsigned short)w.ours;
		if (w.pass || w.ends)
			l->r |= ask_anchor(st, w.pass, w.hup);
	} while (open && sr_gate_shut(&st->in.gate));
	if ((l->r & EPOLLHUP) && !(l->r & EPOLLERR) && sr_anchor_kept(st))
		l->r |= EPOLLERR;
}

/* With references; NULL if the direction is not on it. */
static struct sr_link *link_of(struct sr_stream *st, bool tx)
{
	pthread_mutex_t *lock = tx ? &st->tx_lock : &st->rx_lock;
	struct sr_link *link;

	sr_lock(lock);
	link = tx ? st->out.link : st->in.link;
	if (link && sr_gate_shut(tx ? &st->out.gate : &st->in.gate) &&
	    (tx ? st->tx.state == SR_TX_LINK : st->rx.state == SR_RX_LINK))
		sr_link_get(link);
	else
		link = NULL;
	sr_unlock(lock);
	return link;
}

/* Arms it, and looks whether that was in time.  *rx: the link armed for bytes, to be
 * compared only.  False: it is not linked any more. */
static bool arm(struct sr_epoll_entry *e, uint32_t events, bool full, bool anchor,
		struct sr_link **rx)
{
	struct sr_stream *st = e->st;
	struct sr_link *l[2] = { NULL, NULL };
	bool shut;

	if (events & SR_EPOLL_IN)
		l[0] = link_of(st, false);
	if (events & SR_EPOLL_OUT)
		l[1] = link_of(st, true);
	*rx = l[0];
	shut = sr_epoll_arm(e, l[0], l[1], full, anchor);
	for (int i = 0; i < 2; i++) {
		if (!l[i])
			continue;
		l[i]->ops->poll(l[i]);
		sr_link_put(l[i]);
	}
	return shut;
}

static bool told(struct sr_epoll_entry *e)
{
	return atomic_load(&e->edge) & SR_EPOLL_AGAIN;
}

/* Takes note of what is news by now. */
static uint32_t take_edge(struct sr_epoll_entry *e)
{
	return atomic_load_explicit(&e->edge, memory_order_relaxed) ?
		       atomic_exchange(&e->edge, 0) & ~SR_EPOLL_AGAIN : 0;
}

/* *stays: it may stay in the queue, not armed; and then, whether it has to. */
static uint32_t look(struct sr_epoll_entry *e, uint32_t events, uint32_t *edge,
		     bool *stays)
{
	struct sr_stream *st = e->st;
	bool full, lt = !(events & EPOLLET);
	struct sr_link *armed;
	struct level l;
	int tries = LOOKS, err = errno;

	/* Looking at one direction may have moved on the other, and an edge is
	 * reported once, with all that there is. */
	do {
		*edge |= take_edge(e);
		level(st, events, &l);
	} while (told(e) && *stays && --tries);
	if ((l.r && lt) || (*stays && tries))
		goto out;
	*stays = false;
	for (tries = LOOKS; tries; tries--) {
		*edge |= take_edge(e);
		full = atomic_load(&st->out.full);
		if (!arm(e, events, full, l.anchor, &armed))
			goto out;
		level(st, events, &l);
		if ((l.r && lt) ||
		    !(told(e) || (l.waits && l.waits != armed) ||
		      ((events & SR_EPOLL_OUT) && !full && atomic_load(&st->out.full))))
			goto out;
	}
	*stays = true;	/* it never rests */
out:
	errno = err;
	return l.r;
}

/* ---- visits: look_lock held ---- */

/* For what is left.  (Who begins to sleep now sees it.) */
static void ring(struct sr_epoll *set)
{
	if (atomic_load_explicit(&set->sleepers, memory_order_relaxed))
		sr_epoll_ring(set);
}

static void append(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	e->next_listed = NULL;
	if (set->last)
		set->last->next_listed = e;
	else
		set->first = e;
	set->last = e;
	set->queued++;
}

static struct sr_epoll_entry *pop(struct sr_epoll *set)
{
	struct sr_epoll_entry *e = set->first;

	set->first = e->next_listed;
	if (!set->first)
		set->last = NULL;
	set->queued--;
	return e;
}

/* The news, the oldest first. */
static struct sr_epoll_entry *take_news(struct sr_epoll *set)
{
	struct sr_epoll_entry *e, *next, *list = NULL;

	if (!atomic_load_explicit(&set->news, memory_order_relaxed))
		return NULL;
	for (e = atomic_exchange(&set->news, NULL); e; e = next) {
		next = e->next_listed;
		e->next_listed = list;
		list = e;
	}
	return list;
}

/* Off the list; freed if it is dead.  Who told it something meanwhile found it listed:
 * it is ours again. */
static void drop(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	atomic_fetch_sub(&set->ready, 1);
	if (atomic_load(&e->state) & SR_EPOLL_DEAD) {
		sr_epoll_entry_free(e);
		return;
	}
	atomic_store(&e->listed, false);
	if (told(e) && claim(set, e))
		append(set, e);
}

/* The news that came during the look and that it has seen.  The rest of them stay,
 * and AGAIN with them: the look may have been too early for that. */
static uint32_t take_seen(struct sr_epoll_entry *e, uint32_t r)
{
	uint32_t seen = atomic_load(&e->edge) & r & SR_EPOLL_ALL;

	if (seen)
		atomic_fetch_and(&e->edge, ~seen);
	return seen;
}

/* Is it to be reported, in *ev?  keep: to stay in the queue. */
static bool visit(struct sr_epoll_entry *e, struct epoll_event *ev, unsigned how,
		  bool *keep)
{
	uint32_t edge = take_edge(e), events, r; /* then the state: set_events() */
	unsigned state = atomic_load(&e->state);
	bool spins = how & SR_EPOLL_SPIN;
	bool stays = (how & SR_EPOLL_POLL) && (spins || e->quiet < QUIET);
	int fast;

	*keep = false;
	events = e->events;
	if (!(state & SR_EPOLL_LIVE) ||
	    ((events & EPOLLONESHOT) && !(state & SR_EPOLL_ARMED)))
		return false;	/* a change lists it */
	/* The fast path makes no edges. */
	fast = events & EPOLLET ? -1 :
				  sr_fast_poll(e->st, e->number, (short)events);
	if (fast > 0 || (!fast && stays))
		r = (uint32_t)fast;
	else
		r = look(e, events, &edge, &stays);
	e->quiet = r ? 0 : e->quiet + !spins;
	if (events & EPOLLET) {
		edge |= take_seen(e, r);
		r = r & edge ? r : 0;
	}
	*ev = (struct epoll_event){ .events = r, .data.u64 = e->data };
	if (r && (events & EPOLLONESHOT) &&
	    atomic_compare_exchange_strong(&e->state, &state,
					   state & ~SR_EPOLL_ARMED))
		return true;
	if (atomic_load(&e->state) != state ||
	    (r && (events & EPOLLONESHOT))) { /* changed meanwhile, and all is news */
		atomic_fetch_or(&e->edge, SR_EPOLL_ALL | SR_EPOLL_AGAIN);
		return false;
	}
	if (!r && edge && (events & EPOLLET))
		atomic_fetch_or(&e->edge, edge);
	*keep = stays || (r && !(events & EPOLLET));
	return r;
}

static int visit_all(struct sr_epoll *set, struct epoll_event *ev, int max,
		     unsigned how)
{
	struct sr_epoll_entry *e, *next, *news = take_news(set);
	int left, n = 0;
	bool keep;

	left = how & SR_EPOLL_NEWS ? 0 : set->queued;
	for (e = news; e; e = next) {
		next = e->next_listed;
		append(set, e);
		left++;
	}
	/* News only: those before them go to the end. */
	if (how & SR_EPOLL_NEWS) {
		int skip = set->queued - left;

		while (left && skip--)
			append(set, pop(set));
	}
	for (; n < max && left > 0; left--) {
		e = set->first;
		n += visit(e, &ev[n], how, &keep);
		if (!keep)
			drop(set, pop(set));
		else if (e != set->last)
			append(set, pop(set));
	}
	return n;
}

/* What is quiet may be polled only if nobody sleeps who would have to hear of it. */
static bool may_poll(struct sr_epoll *set)
{
	return sr_conf.spin_us && !atomic_load(&set->sleepers) &&
	       atomic_load(&set->ready) <= POLLED;
}

int sr_epoll_collect(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     unsigned how)
{
	int n = 0;

	if (!atomic_load(&set->ready))
		return 0;
	if (!may_poll(set))
		how &= ~SR_EPOLL_POLL;
	sr_lock(&set->look_lock);
	if (sr_epoll_peek(epfd) == set) /* or it has been closed */
		n = visit_all(set, ev, max, how);
	ring(set);
	sr_unlock(&set->look_lock);
	return n;
}

/* One entry stands for all: to look at the core of each would cost a lock each. */
bool sr_epoll_same_core(struct sr_epoll *set, int epfd)
{
	struct sr_link *link = NULL;
	bool same = false;

	sr_lock(&set->look_lock);
	if (sr_epoll_peek(epfd) == set && set->first &&
	    (atomic_load(&set->first->state) & SR_EPOLL_LIVE))
		link = link_of(set->first->st, false);
	sr_unlock(&set->look_lock);
	if (link) {
		same = sr_link_same_core(link);
		sr_link_put(link);
	}
	return same;
}

void sr_epoll_drain(struct sr_epoll *set)
{
	sr_lock(&set->look_lock);
	visit_all(set, NULL, 0, 0); /* the news join the queue */
	while (set->first)
		drop(set, pop(set));
	sr_unlock(&set->look_lock);
}
