/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kick.c - owns loop.task and loop.watch: what makes the service thread look at a
 * stream.  A thread that changes something kicks the stream, and so does an event on its
 * anchor.  Kicks coalesce; each holds a reference until the work is done.  The service
 * room knows the work.  Takes rx_lock and tx_lock.
 */
#include "base/real.h"

#include "base/list.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "engine/stream.h"

void sr_stream_kick(struct sr_stream *st)
{
	/* Without the loop nothing is under way, and nothing would give the
	 * reference back.  A link holds no reference of its stream, so it may
	 * notify one that has just ended. */
	if (!sr_loop_runs() || !sr_stream_tryget(st))
		return;
	if (!sr_loop_post(&st->loop.task))
		sr_stream_put(st);
}

void sr_stream_on_link(struct sr_link *link, unsigned what)
{
	struct sr_stream *st = link->owner;

	if (what & (SR_NOTIFY_CTL | SR_NOTIFY_WORK))
		sr_stream_kick(st);
	if (what & SR_NOTIFY_CTL)
		what |= SR_NOTIFY_RX | SR_NOTIFY_TX;
	if (what & ~(unsigned)SR_NOTIFY_WORK)
		sr_stream_notify(st, what);
}

/* The events to watch the anchor for: those that no program thread reads.  That
 * is a mark while no plain call is in flight, records, TCP's end, and room for
 * a mark or a resend.  Both locks held. */
static uint32_t anchor_events_wanted(struct sr_stream *st)
{
	uint32_t ev = 0;

	if (sr_gate_shut(&st->in.gate) && !st->in.fin_seen &&
	    !sr_gate_calls(&st->in.gate) &&
	    (sr_rx_at_mark(&st->rx) || st->rx.dup ||
	     st->rx.state == SR_RX_EOF))
		ev |= EPOLLIN;
	if (sr_gate_shut(&st->out.gate) &&
	    (st->tx.state == SR_TX_RESEND ||
	     (st->tx.state == SR_TX_WAIT && st->tx.acked)))
		ev |= EPOLLOUT;
	return ev;
}

static void on_anchor(struct sr_watch *w, uint32_t events)
{
	struct sr_stream *st = SR_OF(struct sr_stream, loop.watch, w);

	(void)events;
	sr_store(&st->loop.watched, 0);	/* EPOLLONESHOT */
	sr_stream_kick(st);
}

/* Outside the loop, on_anchor() may be running and may run once more.  It only
 * kicks, and the closing thread's own kick, which follows, keeps the stream
 * alive until then, because the loop runs tasks after events. */
void sr_stream_unwatch(struct sr_stream *st)
{
	if (sr_load(&st->loop.watching) && sr_loop_here())
		sr_loop_unwatch(&st->loop.watch);
	else if (sr_load(&st->loop.watching))
		sr_loop_release(&st->loop.watch);
	sr_store(&st->loop.watching, false);
	sr_store(&st->loop.watched, 0);
}

void sr_stream_rewatch(struct sr_stream *st)
{
	uint32_t ev;
	int r;

	sr_stream_lock(st);
	ev = anchor_events_wanted(st);
	if (sr_load(&st->anchor) < 0 || ev == sr_load(&st->loop.watched))
		goto out;
	st->loop.watch.fd = sr_load(&st->anchor);
	st->loop.watch.fn = on_anchor;
	if (!sr_load(&st->loop.watching))
		r = sr_loop_watch(&st->loop.watch, ev | EPOLLONESHOT);
	else
		r = sr_loop_rearm(&st->loop.watch, ev | EPOLLONESHOT);
	if (r < 0)
		goto out; /* program threads read the anchor themselves */
	sr_store(&st->loop.watching, true);
	sr_store(&st->loop.watched, ev);
out:
	sr_stream_unlock(st);
}
