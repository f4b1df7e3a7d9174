/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * service.c - the service thread's share of a stream: one function, work(), that
 * looks at everything and moves on what can be moved.  Whoever changes something
 * kicks the stream; kicks coalesce.  A kick holds a reference.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "stream/impl.h"

#define TICK_MS 5		/* while something is in transition */

void sr_stream_kick(struct sr_stream *st)
{
	/* Without the loop nothing is under way, and nobody would give the
	 * reference back.  A link may notify a stream that has just ended, as it holds
	 * none. */
	if (!sr_loop_runs() || !sr_stream_tryget(st))
		return;
	if (atomic_exchange(&st->kicked, true))
		sr_stream_put(st);
	else
		sr_loop_post(&st->task);
}

void sr_stream_on_link(struct sr_link *link, unsigned what)
{
	struct sr_stream *st = link->owner;

	if (what & (SR_NOTIFY_CTL | SR_NOTIFY_WORK))
		sr_stream_kick(st);
	if (what & SR_NOTIFY_CTL)
		what |= SR_NOTIFY_RX | SR_NOTIFY_TX;
	sr_stream_notify(st, what);
}

/* What to watch the anchor for.  Only what nobody else reads: a mark when no
 * program thread of plain days is in flight, records, TCP's end; and room for
 * a mark or a resend. */
static uint32_t wanted(struct sr_stream *st)
{
	uint32_t ev = 0;

	sr_lock(&st->rx_lock);
	if (sr_gate_shut(&st->rx_gate) && !st->rx_fin_seen &&
	    !(atomic_load(&st->rx_gate) & SR_GATE_COUNT) &&
	    (sr_rx_at_mark(&st->rx) || st->rx.dup ||
	     st->rx.state == SR_RX_EOF))
		ev |= EPOLLIN;
	sr_lock(&st->tx_lock);
	if (sr_gate_shut(&st->tx_gate) &&
	    (st->tx.state == SR_TX_RESEND ||
	     (st->tx.state == SR_TX_WAIT && st->tx.acked)))
		ev |= EPOLLOUT;
	sr_unlock(&st->tx_lock);
	sr_unlock(&st->rx_lock);
	return ev;
}

static void on_anchor(struct sr_watch *w, uint32_t events)
{
	struct sr_stream *st = (struct sr_stream *)
		((char *)w - offsetof(struct sr_stream, watch));

	(void)events;
	st->watched = 0;	/* one shot */
	sr_stream_kick(st);
}

/* Elsewhere than in the loop on_anchor() may be under way, and come once more.  It
 * only kicks; and the kick of whoever closes, which follows, keeps the stream until
 * then, for tasks come after events. */
void sr_stream_unwatch(struct sr_stream *st)
{
	if (st->watched_fd >= 0 && sr_loop_here())
		sr_loop_unwatch(&st->watch);
	else if (st->watched_fd >= 0)
		sr_loop_release(&st->watch);
	st->watched_fd = -1;
	st->watched = 0;
}

static void rewatch(struct sr_stream *st)
{
	uint32_t ev = wanted(st);
	int r;

	sr_lock(&st->rx_lock);
	sr_lock(&st->tx_lock);
	if (st->watched_fd >= 0 && st->watched_fd != st->anchor) {
		st->watched_fd = -1;
		st->watched = 0;
	}
	if (st->anchor < 0 || ev == st->watched || (!ev && st->watched_fd < 0))
		goto out;
	st->watch.fd = st->anchor;
	st->watch.fn = on_anchor;
	if (st->watched_fd < 0)
		r = sr_loop_watch(&st->watch, ev | EPOLLONESHOT);
	else
		r = sr_loop_rearm(&st->watch, ev | EPOLLONESHOT);
	if (r < 0)
		goto out; /* program threads look themselves */
	st->watched_fd = st->anchor;
	st->watched = ev;
out:
	sr_unlock(&st->tx_lock);
	sr_unlock(&st->rx_lock);
}

static bool in_transition(struct sr_stream *st)
{
	enum sr_tx_state tx = sr_stream_tx(st);

	return sr_attach_busy(st) || tx == SR_TX_WAIT || tx == SR_TX_RESEND ||
	       (st->tx_next && !st->tx_on_send) || st->tx_lost_ns ||
	       (sr_st_flags(st) & SR_ST_CLOSING) || st->tx_held ||
	       atomic_load(&st->want_back);
}

static void on_timer(struct sr_timer *t)
{
	struct sr_stream *st = (struct sr_stream *)
		((char *)t - offsetof(struct sr_stream, timer));

	st->timed = false;
	sr_stream_kick(st);
	sr_stream_put(st);
}

static void retime(struct sr_stream *st)
{
	if (st->timed || (sr_st_flags(st) & SR_ST_ENDED) || !in_transition(st))
		return;
	st->timed = true;
	sr_stream_ref(st);
	st->timer.fn = on_timer;
	sr_timer_set(&st->timer, TICK_MS);
}

static void work_links(struct sr_stream *st)
{
	struct sr_link *link = st->att;

	if (!link || !(sr_link_events(link) & SR_LINK_UP))
		return;
	link->ops->work(link);
	if (!link->ops->tx_work)
		return;
	sr_lock(&st->tx_lock);
	link->ops->tx_work(link);
	sr_unlock(&st->tx_lock);
}

static void work(struct sr_task *t)
{
	struct sr_stream *st = (struct sr_stream *)
		((char *)t - offsetof(struct sr_stream, task));

	atomic_store(&st->kicked, false);
	if (sr_st_flags(st) & SR_ST_LISTEN) {
		if (!(sr_st_flags(st) & SR_ST_CLOSING))
			sr_answer_open(st);
		else if (!atomic_load(&st->children))
			sr_answer_unlisten(st);
		sr_stream_put(st);
		return;
	}
	if (st->listener[0] || st->listener[1])
		sr_answer_unlisten(st);	/* listen(2) failed after all */
	work_links(st);
	sr_ask_progress(st);
	sr_attach_progress(st);
	sr_lock(&st->rx_lock);
	sr_rx_progress(st);
	sr_unlock(&st->rx_lock);
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (st->tx_held && sr_now_ns() - st->tx_held_ns >= SR_HOLD_NS)
		sr_tx_flush(st);
	sr_unlock(&st->tx_lock);
	sr_attach_progress(st);
	if (atomic_load(&st->want_back) && st->att)
		st->att->ops->drop(st->att, "peer-dropped");
	sr_close_progress(st);
	rewatch(st);
	retime(st);
	sr_stream_put(st);
}

void sr_service_task(struct sr_stream *st)
{
	st->task.fn = work;
}
