/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * service.c - owns the service thread's part in a stream: after a kick (engine/kick.c) it
 * advances all of the stream that can advance, by the functions of the rooms below.  Takes
 * rx_lock and tx_lock, one at a time.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/observers.h"
#include "engine/impl.h"
#include "engine/stream.h"
#include "epoll/epoll.h"
#include "upgrade/upgrade.h"
#include "service/service.h"
#include "sock/sock.h"

#define TICK_MS 5		/* period while something is in transition */

static bool in_transition(struct sr_stream *st)
{
	enum sr_tx_state tx = sr_stream_tx(st);

	return sr_attach_busy(st) || tx == SR_TX_WAIT || tx == SR_TX_RESEND ||
	       (sr_load(&st->out.next) && !sr_load(&st->out.on_send)) ||
	       sr_load(&st->out.lost_ns) || (sr_st_flags(st) & SR_ST_CLOSING) ||
	       sr_load(&st->out.held) || sr_load(&st->in.part_ns) || sr_load(&st->want_tcp);
}

static void stream_on_timer(struct sr_timer *t)
{
	struct sr_stream *st = SR_OF(struct sr_stream, loop.timer, t);

	st->loop.timed = false;
	sr_stream_kick(st);
	sr_stream_put(st);
}

static void call_again(struct sr_stream *st, unsigned ms)
{
	if (st->loop.timed)
		return;
	st->loop.timed = true;
	sr_stream_ref(st);
	st->loop.timer.fn = stream_on_timer;
	sr_timer_set(&st->loop.timer, ms);
}

static void service_retime(struct sr_stream *st)
{
	if (!(sr_st_flags(st) & SR_ST_ENDED) && in_transition(st))
		call_again(st, TICK_MS);
}

static void work_links(struct sr_stream *st)
{
	struct sr_link *link = sr_stream_att(st);

	if (!link || !(sr_link_events(link) & SR_LINK_UP))
		return;
	if (link->ops->work)
		link->ops->work(link);
	if (!link->ops->tx_work)
		return;
	sr_lock(&st->tx_lock);
	link->ops->tx_work(link);
	sr_unlock(&st->tx_lock);
}

static void service_work(struct sr_task *t)
{
	struct sr_stream *st = SR_OF(struct sr_stream, loop.task, t);
	struct sr_link *link;
	unsigned ms;

	/* A keeper without SR_ST_LISTEN has to be closed, because listen(2) has failed. */
	if ((sr_st_flags(st) & SR_ST_LISTEN) || sr_listener_of(st)->keeper) {
		ms = sr_listener_progress(sr_listener_of(st));
		if (ms)
			call_again(st, ms);
		sr_stream_put(st);
		return;
	}
	work_links(st);
	sr_ask_progress(st);
	sr_attach_progress(st);
	sr_lock(&st->rx_lock);
	sr_rx_progress(st);
	sr_unlock(&st->rx_lock);
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (sr_load(&st->out.held) && sr_now_ns() - st->out.held_ns >= SR_HOLD_NS)
		sr_tx_flush(st);
	sr_unlock(&st->tx_lock);
	sr_attach_progress(st);
	link = sr_stream_att(st);
	if (sr_load(&st->want_tcp) && link)
		link->ops->drop(link, "peer-dropped");
	sr_guest_progress(st);
	sr_close_progress(st);
	sr_stream_rewatch(st);
	service_retime(st);
	if (sr_load(&st->sets.nested))
		sr_epoll_settle(st);
	sr_epolls_tidy();
	sr_stream_put(st);
}

void sr_service_begin(void)
{
	sr_epolls_observe();
	sr_kicked = service_work;
}
