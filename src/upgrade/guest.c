/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * guest.c - the directions that a fork has left on the parent's link (owners.h): how
 * the child asks for them, and how the parent gives them.  Must not know the kind of
 * link.  Takes rx_lock and tx_lock, and waits without a lock.
 */
#include "base/sys.h"

#include <errno.h>

#include "base/log.h"
#include "base/now.h"
#include "engine/engine.h"
#include "engine/owners.h"
#include "upgrade/upgrade.h"

#define ASK_NS 3000000000ull	/* for the peer to return to TCP */

/* ---- the child ---- */

/* True: the parent has given all of dirs. */
static bool guest_await(struct sr_slot *slot, unsigned dirs)
{
	uint64_t step = 0;
	uint64_t since = sr_now_ns(), limit;
	unsigned given;
	bool there;

	for (;;) {
		there = sr_doorbell_ring(sr_load(&slot->doorbell));
		given = sr_observe(&slot->given);	/* pairs with sr_owners_give(): `owed' */
		if ((given & dirs) == dirs)
			return true;
		limit = given & SR_OWNERS_SENDS ? SR_ORPHAN_NS : ASK_NS;
		if (!there || (given & SR_OWNERS_LOST) || sr_now_ns() - since > limit)
			return false;
		sr_signals_breathe();
		sr_now_sleep_longer(&step);
	}
}

/* What the link carried is out of reach, so the stream ends here. */
static void guest_lose(struct sr_stream *st)
{
	sr_inform("%s: the process that has its link does not answer: reset",
		sr_stream_label(st, (char[128]){ 0 }));
	sr_back_disconnect(st);
	st->rx.state = SR_RX_RESET;
	st->tx.state = SR_TX_DONE;
	sr_store(&st->err.pending, ECONNRESET);
	sr_store(&st->out.broken, true);
	sr_publish(&st->owned.guest, 0); /* pairs as parts.h says */
}

static void guest_take(struct sr_stream *st, struct sr_slot *slot, unsigned dirs)
{
	if (dirs & SR_NOTIFY_TX) {
		st->tx.state = SR_TX_RAW;
		sr_tx_gate_open(st);
	}
	if (dirs & SR_NOTIFY_RX) {
		/* From now on rx counts as the kernel does. */
		sr_rx_init(&st->rx);
		st->rx.rx = sr_load(&st->in.tcp);
		st->rx.m = sr_load(&slot->owed);
		st->in.fin_seen = false;
		sr_rx_gate_open(st);
	}
	sr_owners_recount(st, dirs);
	/* Pairs as parts.h says. */
	atomic_fetch_and_explicit(&st->owned.guest, ~dirs, memory_order_release);
}

bool sr_guest_use(struct sr_stream *st, unsigned dirs)
{
	struct sr_slot *slot = sr_load(&st->owned.slot);
	bool ok;

	dirs &= sr_load(&st->owned.guest);
	if (!dirs || !slot)
		return false;
	/* Relaxed: after this guest_await() rings the doorbell, by a system call, and the parent
	 * looks at `asked' when it hears that. */
	atomic_fetch_or_explicit(&slot->asked, dirs, memory_order_relaxed);
	ok = guest_await(slot, dirs);
	sr_hold();
	sr_stream_lock(st);
	dirs &= sr_load(&st->owned.guest);	/* another thread may have them */
	if (dirs && ok)
		guest_take(st, slot, dirs);
	else if (dirs)
		guest_lose(st);
	sr_stream_unlock(st);
	/* The kernel's counters and ours are not of the same bytes any more. */
	sr_stream_bar(st, SR_REASON_FORK);
	sr_release();
	return true;
}

/* ---- the parent ---- */

/* Do guests wait for a direction? */
static bool is_asked(struct sr_stream *st)
{
	struct sr_slot *slot = sr_observe(&st->owned.slot);

	return slot && !sr_observe(&st->owned.guest) &&
	       (sr_load(&slot->asked) & ~sr_load(&slot->given) &
		SR_OWNERS_BOTH);
}

static void guest_begin(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (!is_asked(st))
		return;
	if (sr_stream_att(st))
		sr_stream_att(st)->ops->drop(sr_stream_att(st), sr_reason_word(SR_REASON_FORK));
	sr_back_begin(st);
}

void sr_guest_rang(void)
{
	sr_streams_walk(guest_begin, NULL);
}

/* Tells the guests also what they have not asked for yet: if the parent is killed later
 * they can have it. */
void sr_guest_progress(struct sr_stream *st)
{
	struct sr_slot *slot = sr_observe(&st->owned.slot);
	bool lost;
	unsigned given;

	if (!slot || sr_observe(&st->owned.guest) || !sr_is_shared(st) ||
	    (sr_load(&slot->given) & SR_OWNERS_BOTH) == SR_OWNERS_BOTH)
		return;
	lost = sr_back_is_orphaned(st);
	sr_stream_lock(st);
	given = sr_owners_tcp_dirs(st);
	if (st->tx.state == SR_TX_RESEND)
		given |= SR_OWNERS_SENDS;
	if (lost || sr_load(&st->out.broken) || st->rx.state == SR_RX_RESET)
		given |= SR_OWNERS_LOST;
	sr_owners_give(st, given);
	sr_stream_unlock(st);
	if ((given & SR_OWNERS_BOTH) == SR_OWNERS_BOTH && sr_load(&slot->asked) &&
	    !(sr_st_flags(st) & SR_ST_BARRED))
		sr_store(&st->want_tcp, false);
}
