/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stat.c - owns a stream's slot of the page (base/page.h), which sockrail-stat shows.
 * The library reads nothing of it but the bytes of calls on retired streams, for the
 * report.
 *
 * The bytes of the fast path and of plain calls are counted where they move (struct
 * sr_hot).  Everything else is written at the end of the slow path, under the direction's lock.
 * If two threads make plain calls in one direction at the same time, hot.tcp may miss the bytes of
 * one of them until the next call in that direction.
 */
#include "base/real.h"

#include <string.h>

#include "base/order.h"
#include "base/page.h"
#include "engine/asker.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "sockrail.h"

bool sr_stat_orphans, sr_stat_notes;

void sr_stat_note(struct sr_stream *st)
{
	struct sr_page_slot *slot = st->stat;
	unsigned f = sr_st_flags(st), role = 0;

	if (!slot)
		return;
	role |= f & SR_ST_CONNECT ? SR_PAGE_CONNECT : 0;
	role |= f & SR_ST_ACCEPT ? SR_PAGE_ACCEPT : 0;
	role |= f & SR_ST_LISTEN ? SR_PAGE_LISTEN : 0;
	role |= f & SR_ST_CLOSING ? SR_PAGE_CLOSING : 0;
	if ((f & SR_ST_CONNECT) && sr_ask_is_pending(st))
		role |= SR_PAGE_ASKING;
	role |= sr_load(&slot->role) & SR_PAGE_ENDED;
	/* Each is a fact of its own, so nothing orders them. */
	sr_store(&slot->fd, sr_load(&st->anchor));
	sr_store(&slot->role, role);
	sr_store(&slot->reason, (uint32_t)sr_load(&st->reason));
	sr_store(&slot->error, sr_load(&st->err.ended));
	sr_store(&slot->guesses, sr_load(&st->up.guesses));
}

static void stat_dir_begin(struct sr_page_dir *d, enum sr_state state)
{
	sr_store(&d->seq, sr_load(&d->seq) + 1);
	/* Pairs with the acquire fence in copy_dir() (stat/page.c): a reader that has copied any
	 * of what follows sees that the number is odd, or has changed. */
	atomic_thread_fence(memory_order_release);
	if (d->state != state || !d->since_ns)
		d->since_ns = sr_now_ns();
	d->state = (uint8_t)state;
	d->hot.link = 0;
}

static void stat_dir_finish(struct sr_page_dir *d)
{
	sr_publish(&d->seq, sr_load(&d->seq) + 1); /* pairs with copy_dir() (stat/page.c) */
}

/* What each kind of link has carried, the one in use included; TCP has carried the rest. */
static void stat_fill_ways(struct sr_page_dir *d, const uint64_t way[SR_WAYS],
			   struct sr_link *link, uint64_t base, const char *had)
{
	memcpy(d->way, way, sizeof(d->way));
	d->base = base - way[SR_WAY_SHM] - way[SR_WAY_VERBS];
	if (link)
		d->on = (uint8_t)link->ops->way;
	d->qp = link ? sr_load(&link->qp) : 0;
	memcpy(d->link, had, sizeof(d->link));
}

/* With the gate open the base comes from `delta', because plain calls may be adding to out.tcp
 * and in.tcp at this moment. */
void sr_stat_tx(struct sr_stream *st)
{
	struct sr_page_dir *d = &st->stat->tx;
	struct sr_link *link = st->out.link;
	uint64_t way[SR_WAYS], tcp = sr_load(&st->out.tcp);
	uint64_t base = sr_gate_shut(&st->out.gate) ? st->tx.w - tcp :
						      (uint64_t)st->out.delta;

	sr_stream_tx_ways(st, way);
	stat_dir_begin(d, sr_stream_tx_state(st));
	stat_fill_ways(d, way, link, base + sr_load(&st->tx_own.plain) - st->out.before,
		       st->out.had);
	d->unread = d->room = d->ring = 0;
	if (link && st->tx.state == SR_TX_LINK) {
		d->unread = st->tx.w - sr_load(&link->tx_acked);
		d->room = link->tx_piece.left;
		d->ring = link->ops->ring(link, true);
	}
	d->switches = st->out.switches;
	d->stalls = st->out.stalls;
	d->failovers = st->out.failovers;
	stat_dir_finish(d);
	sr_stat_note(st);
}

void sr_stat_rx(struct sr_stream *st)
{
	struct sr_page_dir *d = &st->stat->rx;
	struct sr_link *link = st->in.link;
	uint64_t tcp = sr_load(&st->in.tcp), there = 0, ring = 0;
	uint64_t base = sr_gate_shut(&st->in.gate) ? st->rx.rx - tcp :
						     (uint64_t)st->in.delta;

	if (link && st->rx.state == SR_RX_LINK) {
		there = sr_load(&link->rx_h);
		ring = link->ops->ring(link, false);
	}
	stat_dir_begin(d, sr_stream_rx_state(st));
	stat_fill_ways(d, st->in.way, link, base + sr_load(&st->rx_own.plain) - st->in.before,
		       st->in.had);
	/* (rx_h may lag behind.) */
	d->unread = there > st->rx.rx ? there - st->rx.rx : 0;
	d->ring = ring;
	d->switches = st->in.switches;
	stat_dir_finish(d);
	sr_stat_note(st);
}

void sr_stat_open(struct sr_stream *st)
{
	struct sr_page_slot *slot = sr_page_take();

	if (!slot)
		return;
	slot->tx.since_ns = slot->rx.since_ns = sr_now_ns();
	sr_store(&slot->opened_ns, slot->tx.since_ns);
	st->stat = slot;
	sr_stat_note(st);
	st->tx_hot = &slot->tx.hot;
	st->rx_hot = &slot->rx.hot;
	sr_publish(&slot->id, sr_page_id());	/* pairs with stat_page_slot() */
}

void sr_stat_close(struct sr_stream *st)
{
	struct sr_page_slot *slot = st->stat;

	st->stat = NULL;
	st->tx_hot = &st->tx_own;
	st->rx_hot = &st->rx_own;
	if (slot)
		sr_page_give(slot);
}

/* The slot stops counting before the totals include the stream.  So a viewer may miss the stream
 * for an instant, but never counts it twice. */
void sr_stat_end(struct sr_stream *st, const struct sr_report *r)
{
	struct sr_page *page = sr_page_here();
	const uint64_t add[SR_COUNTERS] = {
		[SR_COUNTER_TX_PLAIN] = r->tx[SR_WAY_PLAIN],
		[SR_COUNTER_TX_SHM] = r->tx[SR_WAY_SHM],
		[SR_COUNTER_TX_VERBS] = r->tx[SR_WAY_VERBS],
		[SR_COUNTER_RX_PLAIN] = r->rx[SR_WAY_PLAIN],
		[SR_COUNTER_RX_SHM] = r->rx[SR_WAY_SHM],
		[SR_COUNTER_RX_VERBS] = r->rx[SR_WAY_VERBS],
		[SR_COUNTER_SWITCHES] = r->switches,
		[SR_COUNTER_STALLS] = st->out.stalls,
		[SR_COUNTER_FAILOVERS] = st->out.failovers,
		[SR_COUNTER_GUESSES] = sr_load(&st->up.guesses),
	};

	/* First: sockrail-stat, which takes the totals before the slots, then counts no stream in
	 * both.  The releases below pair with the acquires of stat_take_page(). */
	atomic_fetch_or_explicit(&st->stat->role, SR_PAGE_ENDED, memory_order_relaxed);
	for (int i = 0; i < SR_COUNTERS; i++)
		if (add[i])
			atomic_fetch_add_explicit(&page->total[i], add[i], memory_order_release);
	atomic_fetch_add_explicit(&page->ended, 1, memory_order_release);
	if (strcmp(r->link, "plain"))
		atomic_fetch_add_explicit(&page->linked, 1, memory_order_release);
	atomic_fetch_add_explicit(&page->reason[r->reason], 1, memory_order_release);
}

/* ---- child of fork ---- */

/* The page is made after so many calls.  A child that serves one request has ended before, and
 * the page would cost it as much as the request. */
#define SHORT_LIFE 8
static atomic_uint calls;

void sr_stat_inherit(struct sr_stream *st)
{
	st->stat = NULL;
	st->tx_hot = &st->tx_own;
	st->rx_hot = &st->rx_own;
	if (!sr_stat_orphans)
		sr_store(&calls, 0);
	sr_stat_orphans = sr_stat_notes = true;
}

static void adopt_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	sr_stream_lock(st);
	if (!st->stat && !(sr_st_flags(st) & SR_ST_ENDED)) {
		sr_stat_open(st);
		if (st->stat) {
			sr_store(&st->stat->tx.hot.tcp, sr_load(&st->out.tcp));
			sr_store(&st->stat->rx.hot.tcp, sr_load(&st->in.tcp));
			sr_stat_tx(st);
			sr_stat_rx(st);
		}
	}
	sr_stream_unlock(st);
}

void sr_stat_adopt_later(void)
{
	if (sr_count(&calls, 1) >= SHORT_LIFE)
		sr_stat_adopt();
}

void sr_stat_adopt(void)
{
	sr_stat_orphans = false;
	sr_stat_notes = sr_conf.report[0];
	sr_streams_walk(adopt_one, NULL);
}
