/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owners.c - owns a stream's slot, and what a fork makes of the stream in the child
 * (owners.h).  Must not know how a direction returns to TCP.
 *
 * During fork no thread holds the lock of a stream (base/lock.h), so parent and child agree on
 * which directions are plain.  If a switch had begun, even if only its SWITCH had been sent, the
 * parent completes it.  If it had not begun, the thread that begins it later finds, under the
 * direction's lock, that the stream is shared, and does not begin.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/owners.h"

unsigned sr_owners_tcp_dirs(struct sr_stream *st)
{
	unsigned dirs = 0;

	if (!sr_gate_shut(&st->in.gate))
		dirs |= SR_NOTIFY_RX;
	if (!sr_gate_shut(&st->out.gate))
		dirs |= SR_NOTIFY_TX;
	return dirs;
}

/* If a RESUME has promised bytes up to m, the guest, too, has to check that they come.  `owed' says
 * where they end in the kernel's count of bytes, because both processes see the same count. */
void sr_owners_give(struct sr_stream *st, unsigned given)
{
	struct sr_slot *slot = sr_observe(&st->owned.slot);
	uint64_t owed = st->rx.m ? st->rx.m - (uint64_t)st->in.delta : 0;

	if (!slot)	/* a close has left it */
		return;
	if (given & SR_NOTIFY_RX)
		sr_store(&slot->owed, owed);
	sr_publish(&slot->given, given); /* pairs with the guest's look at it (upgrade/guest.c) */
}

void sr_owners_share(struct sr_stream *st, void (*rang)(void))
{
	struct sr_slot *slot = sr_observe(&st->owned.slot);
	unsigned given = sr_owners_tcp_dirs(st);

	if (sr_is_retired(st) || (sr_st_flags(st) & SR_ST_CLOSING))
		return;
	if (!slot) {
		slot = sr_slot_get();
		if (!slot) {
			sr_st_set(st, SR_ST_SHARED);
			return;
		}
		sr_publish(&st->owned.slot, slot);
	}
	if (sr_count(&slot->owners, 1) == 1)	/* the child has it by fork */
		sr_store(&slot->asked, 0);
	if (sr_load(&st->owned.guest))
		return;
	sr_owners_give(st, given);
	if (given != SR_OWNERS_BOTH)
		sr_store(&slot->doorbell, sr_doorbell_open(rang));
}

void sr_owners_share_heir(struct sr_stream *st)
{
	struct sr_slot *slot = sr_observe(&st->owned.slot);

	if (slot)
		sr_count(&slot->owners, 1);
}

/* Tells the guests for the last time what they may have: both directions, if both are plain;
 * otherwise LOST, because what is on this process's link will not return to TCP. */
static void owners_settle(struct sr_stream *st)
{
	unsigned given = sr_owners_tcp_dirs(st);

	if (sr_is_shared(st) && !sr_load(&st->owned.guest))
		sr_owners_give(st, given == SR_OWNERS_BOTH ? given : SR_OWNERS_LOST);
}

void sr_owners_leave(struct sr_stream *st)
{
	struct sr_slot *slot;

	owners_settle(st);
	slot = sr_swap(&st->owned.slot, NULL);	/* pairs with sr_owners_share() */
	if (slot && !(sr_st_flags(st) & SR_ST_PAUSED))
		sr_slot_put(slot);
}

/* The last owner keeps its place in the count, because the stream ends with it. */
void sr_owners_pause(struct sr_stream *st, void *unused)
{
	(void)unused;
	sr_stream_lock(st);
	owners_settle(st);
	if (!(sr_st_flags(st) & SR_ST_SHARED) &&
	    sr_slot_put_unless_last(sr_observe(&st->owned.slot)))
		sr_st_set(st, SR_ST_PAUSED);
	sr_stream_unlock(st);
}

void sr_owners_leave_heir(struct sr_stream *st, bool ends)
{
	struct sr_slot *slot = sr_observe(&st->owned.slot);

	if (slot && ends)
		sr_slot_put(slot);
	else
		sr_slot_put_unless_last(slot);
}

void sr_owners_resume(struct sr_stream *st, void *unused)
{
	struct sr_slot *slot = sr_observe(&st->owned.slot);

	(void)unused;
	if (slot && (sr_st_flags(st) & SR_ST_PAUSED))
		sr_count(&slot->owners, 1);
	sr_st_clear(st, SR_ST_PAUSED);
}

void sr_owners_recount(struct sr_stream *st, unsigned dirs)
{
	if (dirs & SR_NOTIFY_TX) {
		memset(st->out.way, 0, sizeof(st->out.way));
		st->out.had[0] = 0;
		st->out.switches = st->out.stalls = st->out.failovers = 0;
		st->out.before = sr_stream_total_sent(st);
	}
	if (dirs & SR_NOTIFY_RX) {
		memset(st->in.way, 0, sizeof(st->in.way));
		st->in.had[0] = 0;
		st->in.switches = 0;
		st->in.before = sr_stream_total_received(st);
	}
}

/* Forgets the parent's requests for a link, and its link.  (Relaxed, as all of an inherited
 * stream: other threads see it when they see the generation, in stream.c.) */
static void forget_attempts(struct sr_stream *st)
{
	sr_store(&st->up.att, NULL);
	sr_store(&st->up.state, SR_ASK_IDLE);
	st->up.asks = 0;
	sr_store(&st->up.next_ask_ns, 0);
	sr_store(&st->up.asked_ns, 0);
	sr_store(&st->out.next, NULL);
	sr_store(&st->out.on_send, false);
	sr_store(&st->want_tcp, false);
	st->exiting = false;
	atomic_flag_clear_explicit(&st->history_busy, memory_order_relaxed);
	sr_store(&st->up.claimed, false);
	sr_st_clear(st, SR_ST_WAITED | SR_ST_ANSWERED);
}

/* Keeps the count of accepted streams, and that no rendezvous is possible.  (Writes nothing if
 * there is nothing to forget, as in a connection: the page would be copied.) */
static void forget_listener(struct sr_listener *l)
{
	const unsigned kept = SR_LISTENER_UNAVAILABLE;

	if (!(sr_load(&l->flags) & ~kept) && !l->keeper && !sr_load(&l->claims) &&
	    !sr_load(&l->awaiting))
		return;
	*l = (struct sr_listener){ .socket = l->socket, .flags = sr_load(&l->flags) & kept,
				   .children = sr_load(&l->children),
				   .acceptor = sr_load(&l->acceptor) };
}

/* The calls in flight are those of the parent's threads. */
static void settle_gate(atomic_uint *gate)
{
	sr_store(gate, sr_load(gate) & SR_GATE_SHUT);
}

void sr_owners_inherit(struct sr_stream *st)
{
	unsigned guest = SR_OWNERS_BOTH & ~sr_owners_tcp_dirs(st);
	struct sr_slot *slot;

	sr_st_set(st, SR_ST_HEIR);
	/* Without a slot: another thread was opening the stream during the fork, which has not
	 * counted the child as an owner. */
	if (!sr_load(&st->owned.slot) && !sr_is_retired(st))
		sr_st_set(st, SR_ST_SHARED | SR_ST_BARRED);
	forget_attempts(st);
	forget_listener(sr_listener_of(st));
	settle_gate(&st->in.gate);
	settle_gate(&st->out.gate);
	if (!guest || sr_is_retired(st)) {
		sr_owners_recount(st, SR_OWNERS_BOTH);
		return;
	}
	st->head = (struct sr_stream_head){ 0 };
	sr_store(&st->owned.guest, guest);
	if (guest & SR_NOTIFY_RX) {
		sr_store(&st->in.gate, SR_GATE_SHUT);
		st->in.link = NULL;
		st->in.pushback_len = 0;
		st->rx.state = SR_RX_RESET;
	}
	if (guest & SR_NOTIFY_TX) {
		st->out.link = NULL;
		sr_store(&st->out.held, 0);
		st->tx.state = SR_TX_DONE;
	}
	sr_owners_recount(st, SR_OWNERS_BOTH);
	slot = sr_load(&st->owned.slot);
	if (slot && sr_load(&slot->doorbell) >= 0)
		return;
	sr_store(&st->owned.guest, 0);
	sr_store(&st->err.pending, ECONNRESET);
	sr_store(&st->out.broken, true);
}
