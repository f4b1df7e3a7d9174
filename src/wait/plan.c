/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * plan.c - works out what each stream of a waitset can do now.  It knows no threads
 * and no sleeping.
 *
 * Events of a direction come from the kernel, which has to be asked by polling the anchor, if
 * its gate is open or bytes are still due by TCP; otherwise we know them, from the link and the
 * state.  Before that is decided the direction is moved on as far as possible.  Each function
 * below adds to the plan (struct sr_plan).
 *
 * Locks: the direction's lock, one at a time.
 */
#include "base/real.h"

#include "engine/engine.h"
#include "wait/waitset.h"

/* Asks the kernel for these events, and passes its answer to the program. */
static void plan_ask_kernel(struct sr_plan *p, short events)
{
	p->kernel |= events;
	p->pass |= events;
}

/* The kernel says what there is to be received, because all bytes up to the next switch come by
 * TCP.  Returns true; the functions that call this one return true in that case alone. */
static bool plain_rx(struct sr_waitset_entry *e)
{
	plan_ask_kernel(&e->plan, e->events & SR_IN_EVENTS);
	return true;
}

#define PLAN_IN (POLLIN | POLLRDNORM)
#define PLAN_OUT (POLLOUT | POLLWRNORM)

/* The gate is shut, but the next bytes still come by TCP. */
static bool plan_rx_tcp(struct sr_waitset_entry *e)
{
	struct sr_stream *st = e->st;

	/* A reader that entered before the gate shut still owns the anchor. */
	if (sr_gate_calls(&st->in.gate))
		return false;
	if (!sr_rx_at_mark(&st->rx))
		return plain_rx(e);
	e->plan.kernel |= POLLIN;	/* wakes us, to move on */
	return false;
}

/* (The link is NULL if the stream was closed and its life ended while this thread slept.) */
static void plan_rx_link(struct sr_waitset_entry *e)
{
	struct sr_stream *st = e->st;
	struct sr_plan *p = &e->plan;
	struct sr_link *link = st->in.link;
	bool ended = link && (sr_link_events(link) & SR_LINK_END);

	p->in.ended = ended;
	if (st->in.fin_seen || !link || ended)
		p->ours |= PLAN_IN | POLLRDHUP;
	if (st->in.fin_seen && sr_load(&st->out.broken))
		p->ours |= POLLHUP | PLAN_OUT | (sr_load(&st->err.pending) ? POLLERR : 0);
	if (sr_ring_bytes(st))
		p->ours |= PLAN_IN;
	if (link && !e->link[0])
		e->link[0] = sr_link_get(link);
}

/* rx_lock held, gate shut. */
static bool plan_rx_shut(struct sr_waitset_entry *e)
{
	struct sr_stream *st = e->st;
	struct sr_plan *p = &e->plan;
	bool by_tcp = false;

	p->shut = true;
	p->in.switches = st->in.switches;
	if (st->in.pushback_len)
		p->ours |= PLAN_IN;
	switch (st->rx.state) {
	case SR_RX_RAW:
	case SR_RX_EXPECT:
		by_tcp = plan_rx_tcp(e);
		break;
	case SR_RX_LINK:
		plan_rx_link(e);
		break;
	case SR_RX_EOF:
		p->ours |= PLAN_IN | POLLRDHUP;
		p->in.ended = true;
		p->in.over = !st->in.pushback_len;
		break;
	default:
		p->ours |= PLAN_IN | POLLRDHUP | POLLHUP | PLAN_OUT;
		if (sr_load(&st->err.pending))
			p->ours |= POLLERR;
	}
	if (sr_st_flags(st) & SR_ST_RDSHUT)
		p->ours |= PLAN_IN | POLLRDHUP;
	return by_tcp;
}

/* The error of a reset depends on whether the program saw the peer's end on the link before. */
static void note_end_seen(struct sr_stream *st, const struct sr_plan *p)
{
	if (st->rx.state == SR_RX_LINK && p->in.ended && !(sr_st_flags(st) & SR_ST_PEER_END))
		sr_st_set(st, SR_ST_PEER_END);
}

/* Moves the incoming direction on as far as possible, and plans it.  Returns whether the next
 * bytes come by TCP. */
static bool move_rx_on(struct sr_waitset_entry *e)
{
	struct sr_stream *st = e->st;
	bool by_tcp;

	e->plan.in.open = !sr_gate_shut(&st->in.gate);
	if (e->plan.in.open)
		return plain_rx(e);
	sr_lock(&st->rx_lock);
	sr_rx_progress(st);
	e->plan.in.open = !sr_gate_shut(&st->in.gate);
	by_tcp = e->plan.in.open ? plain_rx(e) : plan_rx_shut(e);
	note_end_seen(st, &e->plan);
	sr_unlock(&st->rx_lock);
	return by_tcp;
}

/* Once the peer's end has been read, no thread reads the anchor any more, and only
 * the kernel knows of a reset.  So the kernel is then asked for a reset, even if for
 * nothing else.  (Until then the service thread reads the anchor and finds a reset.) */
static void plain_tx(struct sr_waitset_entry *e, short out)
{
	unsigned both = SR_ST_RDSHUT | SR_ST_HALF;
	struct sr_plan *p = &e->plan;

	plan_ask_kernel(p, out);
	p->ends = p->ours & POLLRDHUP;
	/* The kernel may not know that the other direction ended on a link. */
	if ((sr_st_flags(e->st) & both) == both ||
	    (p->ends && (sr_st_flags(e->st) & SR_ST_HALF)))
		p->ours |= POLLHUP;
}

/* Looks for room on the link, and sends what was held back. */
static void find_room_on_link(struct sr_waitset_entry *e)
{
	struct sr_stream *st = e->st;
	struct sr_link *link = st->out.link;
	struct iovec v[2];
	size_t room = link->ops->tx_room(link, v);

	link->ops->tx_commit(link, 0, sr_load(&st->out.held) != 0);
	if (room)
		e->plan.ours |= PLAN_OUT;
	/* tx_room() may have taken in credit that came after sr_tx_progress(), without notify(),
	 * and no more credit may follow.  So the waiters are notified here.  pair full: a thread
	 * that sets `full' has a fence between that and its look at the credit. */
	if (room && sr_look(&st->out.full))
		sr_stream_notify(st, SR_NOTIFY_TX);
	if (!e->link[1])
		e->link[1] = sr_link_get(link);
}

/* rx_by_tcp: what move_rx_on() has returned.  tx_lock held, gate shut. */
static void move_tx_shut_on(struct sr_waitset_entry *e, short out, bool rx_by_tcp)
{
	struct sr_stream *st = e->st;
	struct sr_plan *p = &e->plan;

	p->shut = true;
	if (sr_load(&st->out.broken) || st->tx.ended || st->tx.state == SR_TX_DONE) {
		p->ours |= PLAN_OUT;
		if ((p->ours & POLLRDHUP) || (sr_st_flags(st) & SR_ST_RDSHUT))
			p->ours |= POLLHUP;
		/* Our end is in TCP or will be.  If the other direction is plain, the kernel
		 * also knows the peer's end. */
		p->ends = p->hup = rx_by_tcp;
	} else if (st->tx.state == SR_TX_WAIT && !st->tx.w) {
		/* Writable although the switch is pending: programs poll for that to learn that
		 * they are connected (Java), and the first send decides whether it waits. */
		p->ours |= PLAN_OUT;
	} else if (st->tx.state == SR_TX_LINK && out) {
		find_room_on_link(e);
	}
}

static void move_tx_on(struct sr_waitset_entry *e, bool rx_by_tcp)
{
	struct sr_stream *st = e->st;
	short out = e->events & SR_OUT_EVENTS;

	if (!sr_gate_shut(&st->out.gate)) {
		plain_tx(e, out);
		return;
	}
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (sr_gate_shut(&st->out.gate))
		move_tx_shut_on(e, out, rx_by_tcp);
	else
		plain_tx(e, out);
	if (e->plan.shut && out && !(e->plan.ours & POLLOUT)) {
		sr_store(st->tx.state == SR_TX_LINK ? &st->out.full : &st->out.held_off, true);
		sr_fence_look(); /* pair full: for_sets(); the next plan looks at the credit */
	}
	sr_unlock(&st->tx_lock);
}

void sr_waitset_drop_links(struct sr_waitset_entry *e)
{
	for (int way = 0; way < 2; way++) {
		if (e->link[way])
			sr_link_put(e->link[way]);
		e->link[way] = NULL;
	}
}

/* Returns true if there is something for the program already. */
bool sr_waitset_move_on(struct sr_waitset_entry *e)
{
	struct sr_plan *p = &e->plan;

	*p = (struct sr_plan){ 0 };
	if (!e->st) {
		p->kernel = p->pass = e->events;
		return false;
	}
	move_tx_on(e, move_rx_on(e));
	/* The program has closed it while it was plain. */
	if (!p->shut && sr_load(&e->st->anchor) < 0)
		p->ours |= POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
	p->ours &= e->events | POLLERR | POLLHUP;
	return p->ours;
}

short sr_waitset_asks(const struct sr_waitset_entry *e)
{
	return (short)(e->plan.kernel | (e->plan.hup ? POLLRDHUP : 0));
}

short sr_waitset_answer(const struct sr_waitset_entry *e, short r)
{
	const struct sr_plan *p = &e->plan;
	short always = p->pass || p->ends ? POLLERR | POLLHUP | POLLNVAL : POLLNVAL;

	if (!e->st)
		return r;
	if (p->shut) {
		if (p->hup && (r & POLLRDHUP))
			r |= POLLHUP;
		r &= p->pass | always;
	}
	r |= p->ours;
	if ((r & POLLHUP) && !(r & POLLERR) && sr_anchor_kept(e->st))
		r |= POLLERR;
	return r;
}

bool sr_stream_same_core(struct sr_stream *st)
{
	bool same;

	sr_lock(&st->rx_lock);
	same = sr_rx_is_fast(st) && sr_link_same_core(st->in.link);
	sr_unlock(&st->rx_lock);
	return same;
}
