/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * look.c - what a linked entry has, and how it is armed.
 *
 * Ends.  The end of a direction that is on a link is notified when it arrives, when the
 * program has taken the last byte, and when TCP's end follows.  An edge-triggered entry tells
 * of the end once, as over TCP.  Later changes of the direction are no news if
 *   - the end was here, and so were all bytes, when the entry was reported;
 *   - the direction has not switched since, so no byte has to come once more, by TCP;
 *   - the program has taken all bytes by now, and has not changed the entry since.
 * No edge is lost: all bytes and the end were there at that report, so no later read finds the
 * stream empty (EAGAIN) before the end.  When a plain direction has ended, the kernel has all its
 * bytes, and the direction cannot switch any more.  (After the program's own SHUT_RD bytes may
 * still come.)  A hang-up (EPOLLHUP) is reported once, too.  But while there is an error, or a
 * hang-up that has not been reported yet, every change counts as news.
 *
 * Locks: of a stream what a look needs; look_lock for `end'.
 */
#include "base/real.h"

#include <errno.h>

#include "base/now.h"
#include "engine/engine.h"
#include "wait/waitset.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"
#include "epoll/look.h"
#include "epoll/member.h"
#include "epoll/nest.h"

#define LOOKS 8

/* The caller has found no room.  Returns true if no thread had noted that before; then the caller
 * looks for room once more, because room that came before the note made no edge. */
static bool note_no_room(struct sr_stream *st)
{
	bool was = atomic_exchange_explicit(&st->out.full, true, memory_order_relaxed);

	sr_fence_look();	/* pair full: for_sets(), take_token() */
	return !was;
}

/* What the stream has of `events'.  Fills w, with references to the links that the entry is to be
 * armed on. */
static uint32_t stream_level(struct sr_stream *st, uint32_t events,
			     struct sr_waitset_entry *w)
{
	struct pollfd p = { -1, 0, 0 };
	bool open, full;

	*w = (struct sr_waitset_entry){ .st = st, .events = (short)(events & 0x7fff) };
	/* If the gate shuts during the look, what the kernel says can be read may be a mark, which
	 * is nothing for the program: look again.  And room makes an edge only after out.full was
	 * set (take_token()): if it has just been set here, ask the kernel again. */
	do {
		sr_waitset_drop_links(w);
		open = !sr_gate_shut(&st->in.gate);
		sr_waitset_move_on(w);
		if (!w->plan.shut)
			return 0; /* the kernel says it, with the program's data */
		p.fd = w->plan.pass || w->plan.ends ? sr_load(&st->anchor) : -1;
		p.events = sr_waitset_asks(w) | (w->plan.in.open ? POLLRDHUP : 0);
		p.revents = 0;
		if (p.fd >= 0 && sr_now_poll(&p, 1) < 0)
			p.revents = 0;
		full = w->plan.pass & ~p.revents & SR_EPOLL_OUT;
	} while ((open && sr_gate_shut(&st->in.gate)) ||
		 (full && note_no_room(st)));
	if (w->plan.in.open && (p.revents & POLLRDHUP) && !(sr_st_flags(st) & SR_ST_RDSHUT))
		w->plan.in.ended = w->plan.in.over = true;
	return (unsigned short)(sr_waitset_answer(w, p.revents) & ~POLLNVAL);
}

static __thread const struct sr_epoll_entry *looked_at
	__attribute__((tls_model("initial-exec")));

bool sr_epoll_looks_at(const struct sr_epoll_entry *e)
{
	return looked_at == e;
}

/* Will the nested set be ready because of the events r that the look has found?  An edge-triggered
 * entry makes it ready only by news, and only if this look does not report the news itself. */
static bool makes_ready(struct sr_epoll_entry *e, uint32_t events, uint32_t r, uint32_t edge,
			unsigned how)
{
	if (!(events & EPOLLET))
		return r;
	return (how & SR_EPOLL_PEEKS) && (r & (edge | sr_load(&e->edge)));
}

/* The links on which an entry is armed, to be compared only. */
struct armed {
	struct sr_link *rx, *tx;
};

static bool arm_entry(struct sr_epoll_entry *e, uint32_t events, bool full,
		      const struct sr_waitset_entry *w, struct armed *on)
{
	on->rx = events & SR_EPOLL_IN ? w->link[0] : NULL;
	on->tx = events & SR_EPOLL_OUT ? w->link[1] : NULL;
	return sr_epoll_arm(e, on->rx, on->tx, full, w->plan.kernel || w->plan.ends, w->plan.pass);
}

/* Is a direction on another link since it was armed, or has a call found no room? */
static bool has_moved(struct sr_epoll_entry *e, uint32_t events, bool full,
		      const struct sr_waitset_entry *w, const struct armed *on)
{
	if ((events & SR_EPOLL_IN) && w->link[0] && w->link[0] != on->rx)
		return true;
	if (!(events & SR_EPOLL_OUT))
		return false;
	return (w->link[1] && w->link[1] != on->tx) || (!full && sr_load(&e->st->out.full));
}

/* What the look has found, for the set. */
static void keep_end(struct sr_epoll_entry *e, const struct sr_plan *p)
{
	e->end.here = p->in.ended;
	e->end.over = p->in.over;
	e->end.switches = p->in.switches;
}

uint32_t sr_epoll_look(struct sr_epoll_entry *e, uint32_t events, uint32_t *edge,
		       bool may_stay, unsigned how)
{
	bool arms = false, must = how & SR_EPOLL_ARMS, full, late;
	struct armed on = { NULL, NULL };
	struct sr_stream *st = e->st;
	int tries = LOOKS, err = errno;
	struct sr_waitset_entry w = { 0 };
	uint32_t r = 0;

	looked_at = e;
	do {
		*edge |= sr_epoll_take_edge(e);
		full = sr_load(&st->out.full);	/* (a call that sets it later arms for itself) */
		/* Makes the set readable for those who poll it, before arm_entry() drains
		 * the doorbell by which they may have learned of the news. */
		if (arms && must && makes_ready(e, events, r, *edge, how))
			sr_epoll_tell_later(sr_epoll_set_of(e));
		if (arms && !arm_entry(e, events, full, &w, &on))
			break;
		sr_waitset_drop_links(&w);
		r = stream_level(st, events, &w);
		/* An unarmed entry is only polled, which shows what has come by TCP, but not
		 * whether it is news. */
		if ((events & EPOLLET) && (w.plan.kernel || w.plan.ends))
			may_stay = false;
		late = sr_epoll_has_news(e) || (arms && has_moved(e, events, full, &w, &on));
		if ((r && !(events & EPOLLET) && (arms || !must)) ||
		    (!late && (may_stay || arms)))
			break;
		arms = !may_stay;
	} while (--tries);
	sr_waitset_drop_links(&w);
	looked_at = NULL;
	keep_end(e, &w.plan);
	e->stays = arms ? !tries : may_stay; /* !tries: news came during each look */
	errno = err;
	return r;
}

/* ---- edges ---- */

/* Takes the news that came during the look, as far as the look has seen their events (r).  Other
 * news stay in e->edge, with AGAIN, because the look may have been too early for them. */
static uint32_t take_seen(struct sr_epoll_entry *e, uint32_t r)
{
	/* Both acquires pair with list_entry(). */
	uint32_t seen = sr_observe(&e->edge) & r & SR_EPOLL_ALL;

	if (seen)
		atomic_fetch_and_explicit(&e->edge, ~seen, memory_order_acq_rel);
	return seen;
}

/* Returns the events that are no news, because the entry has reported the end (above, Ends). */
static uint32_t told_of_end(const struct sr_epoll_entry *e, unsigned state, uint32_t r)
{
	const struct sr_epoll_end *end = &e->end;

	if (!end->over || end->told_in != state || end->told_switches != end->switches)
		return 0;
	return r & (EPOLLERR | EPOLLHUP) & ~end->told ? 0 : end->told;
}

uint32_t sr_epoll_take_news(struct sr_epoll_entry *e, unsigned state, uint32_t r,
			    uint32_t *edge)
{
	*edge |= take_seen(e, r);
	*edge &= ~told_of_end(e, state, r);
	return r & *edge ? r : 0;
}

void sr_epoll_keep_news(struct sr_epoll_entry *e, unsigned state, uint32_t events, uint32_t r,
			uint32_t edge)
{
	struct sr_epoll_end *end = &e->end;

	edge &= r ? events & ~r & SR_EPOLL_OUT : SR_EPOLL_ALL;
	if (edge)
		atomic_fetch_or_explicit(&e->edge, edge, memory_order_relaxed);
	if (!r || !end->here)
		return;
	end->told_in = state;
	end->told_switches = end->switches;
	end->told = SR_EPOLL_IN | (r & EPOLLHUP);
}
