/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * plain.c - streams that are TCP's for good: nobody will ask for a link, or be
 * asked, any more.  Their calls are the C library's, without gates, histories,
 * windows for signals and even without a reference: bytes are counted, and an error
 * noted, for the report, and that is all.  (A thread whose descriptor is closed under
 * its call may book on the number's next stream, so the books are of their own.)
 *
 * When.  Both gates are open, no link is there or being asked for, and
 *   - the stream is barred;
 *   - or we have asked, and will not again (upgrade.c);
 *   - or it was accepted by a listener without any rendezvous;
 * and no RESUME has promised bytes whose want would make TCP's end a reset.
 * From then on nothing shuts a gate: a switch of ours needs a link, and the peer's
 * SWITCH or mark comes after one, too.  So calls that had begun before may end as
 * they began, and those that begin after need not look.
 *
 * In epoll sets its entries are the program's own, events and data, and from now on
 * nobody else's: we forget them.  Those that carry our data (one-shot), or whose
 * number is ours, we cannot; then the stream stays under our eyes.
 */
#include "base/real.h"

#include <errno.h>

#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/fdtab.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"

static bool is_plain(struct sr_stream *st)
{
	return !st->up.att && !st->up.asking && !sr_any_gate_shut(st) &&
	       !atomic_load(&st->out.next) && st->tx.state == SR_TX_RAW &&
	       st->rx.state == SR_RX_RAW && !st->rx.m && !st->in.pushback_len &&
	       !st->out.broken &&
	       !atomic_load(&st->so_error);
}

/* Its close will not look for the loop's watch any more. */
static bool unwatch(struct sr_stream *st)
{
	if (st->loop.watched_fd >= 0 &&
	    (!sr_loop_here() || st->loop.watched_fd != st->anchor))
		return false;
	sr_stream_unwatch(st);
	return true;
}

void sr_plain_for_good(struct sr_stream *st)
{
	if (sr_is_plain(st) ||
	    (sr_st_flags(st) & (SR_ST_LISTEN | SR_ST_CLOSING | SR_ST_FRESH)) ||
	    atomic_load(&st->so_error))	/* which the kernel would not tell */
		return;
	sr_lock(&st->rx_lock);
	sr_lock(&st->tx_lock);
	sr_lock(&st->epoll_lock);
	if (is_plain(st) && unwatch(st) && sr_sets_ops.forget(st)) {
		atomic_store(&st->want_back, false);
		atomic_store(&st->head.plain, true);
	}
	sr_unlock(&st->epoll_lock);
	sr_unlock(&st->tx_lock);
	sr_unlock(&st->rx_lock);
}

/* ---- their calls ---- */

struct sr_stream *sr_stream_live(int fd)
{
	return sr_stream_lives(fd) ? sr_fdtab_get(fd) : NULL;
}

static void book(struct sr_stream *st, _Atomic uint64_t *sum, ssize_t r)
{
	if (sr_conf.report[0])
		sr_upgrade_connected(st);
	if (r < 0)
		sr_stream_failed(st, -errno);
	else
		atomic_fetch_add_explicit(sum, (uint64_t)r, memory_order_relaxed);
}

void sr_plain_received(struct sr_stream *st, ssize_t r)
{
	book(st, &st->in.plain, r);
}

void sr_plain_sent(struct sr_stream *st, ssize_t r)
{
	book(st, &st->out.plain, r);
}
