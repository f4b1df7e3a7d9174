/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waitset_plan.c - what a stream can do now.
 *
 * Each direction of each stream is either the kernel's (gate open, or raw bytes
 * still due: ask the anchor) or ours (ask the link and the state).  A plan works
 * that out, under the direction's lock, and takes the opportunity to move the
 * direction on.
 */
#include "base/real.h"

#include "engine/engine.h"
#include "wait/waitset.h"

/* What it says of these events is what the program gets. */
static void ask_kernel(struct sr_waitset_entry *e, short events)
{
	e->kernel |= events;
	e->pass |= events;
}

static void plain_rx(struct sr_waitset_entry *e)
{
	ask_kernel(e, e->events & SR_IN_EVENTS);
	e->raw = true;
}

static void plan_rx(struct sr_waitset_entry *e)
{
	struct sr_stream *st = e->st;

	if (!sr_gate_shut(&st->in.gate)) {
		plain_rx(e);
		return;
	}
	sr_lock(&st->rx_lock);
	sr_rx_progress(st);
	if (!sr_gate_shut(&st->in.gate)) {
		plain_rx(e);
		goto out;
	}
	e->shut = true;
	if (st->in.pushback_len)
		e->ours |= POLLIN | POLLRDNORM;
	switch (st->rx.state) {
	case SR_RX_RAW:
	case SR_RX_EXPECT:
		/* With a sleeper of plain days in flight the anchor is its. */
		if (atomic_load(&st->in.gate) & SR_GATE_COUNT)
			break;
		if (sr_rx_at_mark(&st->rx)) {
			e->kernel |= POLLIN;	/* for us, to move on */
		} else {
			plain_rx(e);
		}
		break;
	case SR_RX_LINK:
		/* What the program is told of counts when a reset comes. */
		if (st->in.link && (sr_link_events(st->in.link) & SR_LINK_END) &&
		    !(sr_st_flags(st) & SR_ST_PEER_END))
			sr_st_set(st, SR_ST_PEER_END);
		/* (No link: closed and over, under a sleeper.) */
		if (st->in.fin_seen || !st->in.link ||
		    (sr_link_events(st->in.link) & SR_LINK_END))
			e->ours |= POLLIN | POLLRDNORM | POLLRDHUP;
		if (st->in.rst_seen)
			e->ours |= POLLHUP | POLLOUT | POLLWRNORM |
				   (atomic_load(&st->so_error) ? POLLERR : 0);
		if (st->in.link &&
		    sr_rx_ready(&st->rx, atomic_load(&st->in.link->rx_h)) > 0)
			e->ours |= POLLIN | POLLRDNORM;
		else if (st->in.link && !e->rx_link)
			e->rx_link = sr_link_get(st->in.link);
		break;
	case SR_RX_EOF:
		e->ours |= POLLIN | POLLRDNORM | POLLRDHUP;
		break;
	default:
		e->ours |= POLLIN | POLLRDNORM | POLLRDHUP | POLLHUP | POLLOUT |
			   POLLWRNORM;
		if (atomic_load(&st->so_error))
			e->ours |= POLLERR;
	}
	if (sr_st_flags(st) & SR_ST_RDSHUT)
		e->ours |= POLLIN | POLLRDNORM | POLLRDHUP;
out:
	sr_unlock(&st->rx_lock);
}

/*
 * Behind the peer's end nobody reads the anchor any more, so that only the kernel
 * knows of a reset: it is asked for that even if nothing else is.  (Before, a reset
 * is read by the loop.)
 */
static void plain_tx(struct sr_waitset_entry *e, short out)
{
	unsigned both = SR_ST_RDSHUT | SR_ST_HALF;

	ask_kernel(e, out);
	e->ends = e->ours & POLLRDHUP;
	/* It need not have been told of the other direction's. */
	if ((sr_st_flags(e->st) & both) == both ||
	    (e->ends && (sr_st_flags(e->st) & SR_ST_HALF)))
		e->ours |= POLLHUP;
}

static void plan_tx(struct sr_waitset_entry *e)
{
	struct sr_stream *st = e->st;
	short out = e->events & SR_OUT_EVENTS;
	struct iovec v[2];

	if (!sr_gate_shut(&st->out.gate)) {
		plain_tx(e, out);
		return;
	}
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (!sr_gate_shut(&st->out.gate)) {
		plain_tx(e, out);
		goto unlock;
	}
	e->shut = true;
	if (st->out.broken || st->tx.ended || st->tx.state == SR_TX_DONE) {
		e->ours |= POLLOUT | POLLWRNORM;
		if ((e->ours & POLLRDHUP) || (sr_st_flags(st) & SR_ST_RDSHUT))
			e->ours |= POLLHUP;
		/* TCP has our end, or gets it: of the peer's it knows. */
		e->ends = e->hup = e->raw;
	} else if (st->tx.state == SR_TX_WAIT && !st->tx.w &&
		   !(sr_link_events(st->out.link) & SR_LINK_DRAIN)) {
		/* Programs ask for this to learn whether they are connected (Java),
		 * and once they are so, they are.  The first send decides. */
		e->ours |= POLLOUT | POLLWRNORM;
	} else if (st->tx.state == SR_TX_LINK && out) {
		size_t room = st->out.link->ops->tx_room(st->out.link, v);

		st->out.link->ops->tx_commit(st->out.link, 0, st->out.held != 0);
		if (room)
			e->ours |= POLLOUT | POLLWRNORM;
		else if (!e->tx_link)
			e->tx_link = sr_link_get(st->out.link);
	}
unlock:
	if (e->shut && out && !(e->ours & POLLOUT))
		atomic_store(st->tx.state == SR_TX_LINK ? &st->out.full :
							  &st->out.held_off,
			     true);
	sr_unlock(&st->tx_lock);
}

void sr_waitset_drop_links(struct sr_waitset_entry *e)
{
	if (e->rx_link)
		sr_link_put(e->rx_link);
	if (e->tx_link)
		sr_link_put(e->tx_link);
	e->rx_link = e->tx_link = NULL;
}

/* True if there is something for the program already. */
bool sr_waitset_plan(struct sr_waitset_entry *e)
{
	e->ours = e->kernel = e->pass = 0;
	e->shut = e->ends = e->raw = e->hup = false;
	if (!e->st) {
		e->kernel = e->pass = e->events;
		return false;
	}
	plan_rx(e);
	plan_tx(e);
	e->ours &= e->events | POLLERR | POLLHUP;
	return e->ours;
}
