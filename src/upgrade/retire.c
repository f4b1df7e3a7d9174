/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * retire.c - owns the state "retired": the stream is plain, and this end will neither ask
 * for a link nor grant one any more.  Calls are then the C library's, without gates,
 * histories, signal windows or even a reference; the library only counts bytes and notes
 * an error for the report.  (If the descriptor is closed during a call, the call's bytes may
 * be counted for the number's next stream, so these counters are separate.)
 * Takes rx_lock, tx_lock, sets.lock.
 *
 * When.  Both gates are open, no link exists or is being asked for, and
 *   - the stream is barred;
 *   - or we have asked, and will not again (upgrade.c);
 *   - or a listener without any rendezvous accepted it;
 * and no RESUME has promised bytes without which TCP's end would be a reset.
 * From then on nothing shuts a gate: a switch of ours needs a link, and the
 * peer's SWITCH or mark comes after one, too.  So calls that began before may
 * end as they began, and calls that begin later need not check.
 *
 * In epoll sets the entries get the program's own events and data, and the library forgets
 * them.
 *
 * Why the library still counts the bytes, although the kernel does, too (TCP_INFO).  The kernel
 * counts those of all processes that hold the socket, but the report and sockrail-stat say what
 * this process has moved; and a fork notes no new owner of a retired stream
 * (sr_owners_share()), so nothing would show that the kernel's count has others' bytes in it.
 * sockrail-stat reads the counts of a running process in shared memory; for that the service
 * thread would have to ask the kernel for each stream again and again, with three system calls
 * (anchor_sample() in engine/anchor.c).  And calls would have to look the stream up all the same,
 * to note an error.  Counting costs a call one locked addition.
 */
#include "base/real.h"

#include <errno.h>

#include "engine/engine.h"
#include "engine/observers.h"
#include "engine/fast.h"
#include "engine/fdtab.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"

static bool may_retire(struct sr_stream *st)
{
	return !sr_stream_att(st) && sr_load(&st->up.state) != SR_ASK_ASKING &&
	       !sr_any_gate_shut(st) && !sr_load(&st->out.next) && st->tx.state == SR_TX_RAW &&
	       st->rx.state == SR_RX_RAW && !st->rx.m && !sr_load(&st->out.broken) &&
	       !sr_load(&st->err.pending);
}

/* Stops the loop's watch, because the stream's close will not. */
static bool retire_unwatch(struct sr_stream *st)
{
	if (sr_load(&st->loop.watching) && !sr_loop_here())
		return false;
	sr_stream_unwatch(st);
	return true;
}

void sr_stream_retire(struct sr_stream *st)
{
	if (sr_is_retired(st) ||
	    (sr_st_flags(st) & (SR_ST_LISTEN | SR_ST_CLOSING | SR_ST_FRESH)) ||
	    sr_load(&st->err.pending))	/* SO_ERROR must show it */
		return;
	sr_stream_lock(st);
	sr_lock(&st->sets.lock);
	if (may_retire(st) && retire_unwatch(st)) {
		sr_sets.retired(st);
		sr_store(&st->want_tcp, false);
		sr_store(&st->head.retired, true);
	}
	sr_unlock(&st->sets.lock);
	sr_stream_unlock(st);
}

/* ---- calls of retired streams ---- */

struct sr_stream *sr_active_stream_get(int fd)
{
	return sr_has_active_stream(fd) ? sr_fdtab_get(fd) : NULL;
}

/* What a call does besides counting: for the report, or if it failed. */
static __attribute__((noinline, cold)) void note_call(struct sr_stream *st, ssize_t r)
{
	sr_hold();
	if (sr_stat_orphans)
		sr_stat_adopt_later();
	if (sr_conf.report[0])
		sr_upgrade_connected(st);
	if (r < 0)
		sr_stream_failed(st, -errno);
	sr_release();
}

static inline bool is_noted(ssize_t r)
{
	return __builtin_expect(sr_stat_notes || r < 0, 0);
}

static inline void retired_count(_Atomic uint64_t *sum, ssize_t r)
{
	atomic_fetch_add_explicit(sum, (uint64_t)r, memory_order_relaxed);
}

void sr_retired_received(struct sr_stream *st, ssize_t r)
{
	if (is_noted(r))
		note_call(st, r);
	if (r > 0)
		retired_count(&st->rx_hot->plain, r);
}

void sr_retired_sent(struct sr_stream *st, ssize_t r)
{
	if (is_noted(r))
		note_call(st, r);
	if (r > 0)
		retired_count(&st->tx_hot->plain, r);
}
