/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gate.c - the gates of a plain direction (argument in impl.h).  No locks; the
 * shutting side holds the direction's lock, so there is one of it.
 */
#include "engine/engine.h"
#include "engine/impl.h"

/* Compare-and-swap, not add-and-undo: a call that finds the gate shut must not
 * be seen in flight for an instant, as others then would wait for it. */
static bool enter(atomic_uint *gate, unsigned weight, bool crowd,
		  unsigned *before)
{
	unsigned g = atomic_load_explicit(gate, memory_order_relaxed);

	do {
		if ((g & SR_GATE_SHUT) || (!crowd && (g & SR_GATE_COUNT)))
			return false;
	} while (!atomic_compare_exchange_weak(gate, &g, g + weight));
	*before = g & SR_GATE_COUNT;
	return true;
}

/* Two calls in flight: nobody can tell the order of their bytes, so the
 * history ends here.  The second to enter says so before it goes to the
 * kernel; the first looks after it has come back from it. */
bool sr_rx_gate_enter(struct sr_stream *st, unsigned weight, bool crowd)
{
	unsigned before;

	if (!enter(&st->in.gate, weight, crowd, &before))
		return false;
	if (before)
		sr_st_set(st, SR_ST_RX_HISTORY);
	return true;
}

bool sr_tx_gate_enter(struct sr_stream *st)
{
	unsigned before;

	if (!enter(&st->out.gate, 1, true, &before))
		return false;
	if (before)
		sr_st_set(st, SR_ST_TX_HISTORY);
	return true;
}

bool sr_rx_gate_leave(struct sr_stream *st, unsigned weight)
{
	unsigned g = atomic_load_explicit(&st->in.gate, memory_order_relaxed);

	do {
		if (g & SR_GATE_SHUT)
			return false;
	} while (!atomic_compare_exchange_weak(&st->in.gate, &g, g - weight));
	return true;
}

void sr_rx_gate_leave_shut(struct sr_stream *st, unsigned weight)
{
	atomic_fetch_sub(&st->in.gate, weight);
	sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
}

void sr_tx_gate_leave(struct sr_stream *st)
{
	unsigned g = atomic_fetch_sub(&st->out.gate, 1);

	if (g != (SR_GATE_WANT | 1))
		return;
	/* Last one out, and a switch is wanted: do it here, as the service
	 * thread would hardly ever find a busy sender outside the kernel. */
	sr_lock(&st->tx_lock);
	sr_tx_try_start(st);
	sr_unlock(&st->tx_lock);
}

bool sr_tx_gate_shut(struct sr_stream *st)
{
	unsigned g = atomic_load(&st->out.gate), next;

	do {
		if (g & SR_GATE_SHUT)
			return true;
		next = g & SR_GATE_COUNT ? g | SR_GATE_WANT : SR_GATE_SHUT;
	} while (next != g &&
		 !atomic_compare_exchange_weak(&st->out.gate, &g, next));
	if (next != SR_GATE_SHUT)
		return false;
	if (!sr_sets_ops.gate_shut(st)) {
		atomic_store(&st->out.gate, 0);
		return false;
	}
	st->tx.w = atomic_load(&st->out.tcp) + (uint64_t)st->out.delta;
	return true;
}

void sr_tx_gate_open(struct sr_stream *st)
{
	st->out.delta = (int64_t)(st->tx.w - atomic_load(&st->out.tcp));
	atomic_store(&st->out.gate, 0);
	sr_sets_ops.gate_opened(st);
}

/* The counts are booked before a call leaves, so rx is exact with nobody in
 * flight.  With one in flight rx may or may not include what it is bringing;
 * it puts that right under the lock before it leaves (recv.c). */
bool sr_rx_gate_hold(struct sr_stream *st)
{
	unsigned g = atomic_load(&st->in.gate);

	do {
		if (g & SR_GATE_SHUT)
			return true;
		if ((g & SR_GATE_COUNT) > 1)
			return false;
	} while (!atomic_compare_exchange_weak(&st->in.gate, &g,
					       g | SR_GATE_SHUT));
	st->rx.rx = atomic_load(&st->in.tcp) + (uint64_t)st->in.delta;
	return true;
}

bool sr_rx_gate_shut(struct sr_stream *st)
{
	bool was = sr_gate_shut(&st->in.gate);

	if (!sr_rx_gate_hold(st))
		return false;
	if (was || sr_sets_ops.gate_shut(st))
		return true;
	atomic_fetch_and(&st->in.gate, ~SR_GATE_SHUT);
	return false;
}

/* Nothing was read with the gate shut: the books stay as they are.  (A call in
 * flight may be booking right now, so they must not be made up anew.) */
void sr_rx_gate_reopen(struct sr_stream *st)
{
	atomic_fetch_and(&st->in.gate, ~SR_GATE_SHUT);
	sr_sets_ops.gate_opened(st);
}

/* Nobody is in flight, and rx.rx is right. */
void sr_rx_gate_open(struct sr_stream *st)
{
	st->in.delta = (int64_t)(st->rx.rx - atomic_load(&st->in.tcp));
	atomic_fetch_and(&st->in.gate, ~SR_GATE_SHUT);
	sr_sets_ops.gate_opened(st);
}
