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
static bool await(struct sr_slot *slot, unsigned dirs)
{
	uint64_t step = 0;
	uint64_t since = sr_now_ns(), limit;
	unsigned given;
	bool there;

	for (;;) {
		there = sr_doorbell_ring(atomic_load(&slot->doorbell));
		given = atomic_load(&slot->given);
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
static void lose(struct sr_stream *st)
{
	sr_inform("%s: the process that has its link does not answer: reset",
		sr_stream_label(st, (char[128]){ 0 }));
	sr_back_disconnect(st);
	st->rx.state = SR_RX_RESET;
	st->tx.state = SR_TX_DONE;
	st->err.pending = ECONNRESET;
	st->out.broken = true;
	atomic_store(&st->owned.guest, 0);
}

static void take(struct sr_stream *st, struct sr_slot *slot, unsigned dirs)
{
	if (dirs & SR_NOTIFY_TX) {
		st->tx.state = SR_TX_RAW;
		sr_tx_gate_open(st);
	}
	if (dirs & SR_NOTIFY_RX) {
		/* From now on rx counts as the kernel does. */
		sr_rx_init(&st->rx);
		st->rx.rx = atomic_load(&st->in.tcp);
		st->rx.m = atomic_load(&slot->owed);
		st->in.fin_seen = false;
		sr_rx_gate_open(st);
	}
	sr_owners_recount(st, dirs);
	atomic_fetch_and(&st->owned.guest, ~dirs);
}

bool sr_guest_use(struct sr_stream *st, unsigned dirs)
{
	struct sr_slot *slot = atomic_load_explicit(&st->owned.slot, memory_order_relaxed);
	bool ok;

	dirs &= atomic_load_explicit(&st->owned.guest, memory_order_relaxed);
	if (!dirs || !slot)
		return false;
	atomic_fetch_or(&slot->asked, dirs);
	ok = await(slot, dirs);
	sr_hold();
	sr_stream_lock(st);
	dirs &= atomic_load(&st->owned.guest);	/* another thread may have them */
	if (dirs && ok)
		take(st, slot, dirs);
	else if (dirs)
		lose(st);
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
	struct sr_slot *slot = atomic_load(&st->owned.slot);

	return slot && !atomic_load(&st->owned.guest) &&
	       (atomic_load(&slot->asked) & ~atomic_load(&slot->given) &
		SR_OWNERS_BOTH);
}

static void guest_begin(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (!is_asked(st))
		return;
	if (st->up.att)
		st->up.att->ops->drop(st->up.att, sr_reason_word(SR_REASON_FORK));
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
	struct sr_slot *slot = atomic_load(&st->owned.slot);
	bool lost;
	unsigned given;

	if (!slot || atomic_load(&st->owned.guest) || !sr_is_shared(st) ||
	    (atomic_load(&slot->given) & SR_OWNERS_BOTH) == SR_OWNERS_BOTH)
		return;
	lost = sr_back_is_orphaned(st);
	sr_stream_lock(st);
	given = sr_owners_tcp_dirs(st);
	if (st->tx.state == SR_TX_RESEND)
		given |= SR_OWNERS_SENDS;
	if (lost || st->out.broken || st->rx.state == SR_RX_RESET)
		given |= SR_OWNERS_LOST;
	sr_owners_give(st, given);
	sr_stream_unlock(st);
	if ((given & SR_OWNERS_BOTH) == SR_OWNERS_BOTH && atomic_load(&slot->asked) &&
	    !(sr_st_flags(st) & SR_ST_BARRED))
		atomic_store(&st->want_tcp, false);
}
