/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gate.c - owns the gates: one atomic word for each direction, which counts the plain calls that
 * are in the kernel, and has a bit that says that the gate is shut (impl.h has the argument why a
 * switch needs that).  A plain call enters and leaves the gate without a lock.  Only a holder of the
 * direction's lock shuts or opens it.  Must not know why a gate is shut.
 */
#include "engine/engine.h"
#include "engine/observers.h"
#include "engine/impl.h"

/* Compare-and-swap: add-and-undo would count a call that finds the gate shut as
 * in flight for an instant, and other threads would wait for it.
 * With two calls in flight the order of their bytes is unknown, so the history
 * ends.  The second to enter sets the flag before it enters the kernel; the
 * first checks the flag after its return.  The kernel's lock of the socket orders that. */
static bool gate_enter(struct sr_stream *st, atomic_uint *gate, bool crowd, unsigned stopped)
{
	unsigned g = sr_load(gate);

	do {
		if ((g & SR_GATE_SHUT) || (!crowd && (g & SR_GATE_COUNT)))
			return false;
		/* Pairs with the release of an open gate: the call sees `delta'. */
	} while (!sr_replace(gate, &g, g + 1));
	if (g & SR_GATE_COUNT)
		sr_st_set(st, stopped);
	return true;
}

bool sr_rx_gate_enter(struct sr_stream *st, bool crowd)
{
	return gate_enter(st, &st->in.gate, crowd, SR_ST_RX_HISTORY);
}

bool sr_tx_gate_enter(struct sr_stream *st)
{
	return gate_enter(st, &st->out.gate, true, SR_ST_TX_HISTORY);
}

bool sr_rx_gate_leave(struct sr_stream *st)
{
	unsigned g = sr_load(&st->in.gate);

	do {
		if (g & SR_GATE_SHUT)
			return false;
		/* Pairs with sr_rx_gate_close(), which sees the bytes counted. */
	} while (!sr_replace(&st->in.gate, &g, g - 1));
	return true;
}

void sr_rx_gate_leave_shut(struct sr_stream *st)
{
	/* Pairs with sr_gate_calls(): the bytes are counted. */
	atomic_fetch_sub_explicit(&st->in.gate, 1, memory_order_release);
	sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
}

void sr_tx_gate_leave(struct sr_stream *st)
{
	/* Pairs with sr_tx_gate_close(), which sees the bytes counted. */
	unsigned g = atomic_fetch_sub_explicit(&st->out.gate, 1, memory_order_release);

	if (g != (SR_GATE_WANT | 1))
		return;
	/* The last call in flight starts the switch, because the service thread
	 * would hardly ever find a busy sender outside the kernel. */
	sr_lock(&st->tx_lock);
	sr_tx_try_start(st);
	sr_unlock(&st->tx_lock);
}

bool sr_tx_gate_close(struct sr_stream *st)
{
	unsigned g = sr_load(&st->out.gate), next;

	do {
		if (g & SR_GATE_SHUT)
			return true;
		next = g & SR_GATE_COUNT ? g | SR_GATE_WANT : SR_GATE_SHUT;
	} while (next != g &&
		 /* Pairs with sr_tx_gate_leave(), and with sr_gate_shut(). */
		 !sr_replace(&st->out.gate, &g, next));
	if (next != SR_GATE_SHUT)
		return false;
	if (!sr_sets.gate_shut(st)) {
		sr_publish(&st->out.gate, 0);	/* pairs with gate_enter() */
		sr_sets.gate_opened(st);	/* entries that it has linked */
		return false;
	}
	st->tx.w = sr_load(&st->out.tcp) + (uint64_t)st->out.delta;
	return true;
}

void sr_tx_gate_open(struct sr_stream *st)
{
	st->out.delta = (int64_t)(st->tx.w - sr_load(&st->out.tcp));
	sr_publish(&st->out.gate, 0);	/* pairs with gate_enter() */
	sr_sets.gate_opened(st);
}

/* A call adds its bytes before it leaves the gate, so rx is exact with no call
 * in flight.  With one in flight rx may or may not include its bytes; that call
 * corrects rx under the lock before it leaves (sock/recv.c). */
bool sr_rx_gate_close(struct sr_stream *st)
{
	unsigned g = sr_load(&st->in.gate);

	do {
		if (g & SR_GATE_SHUT)
			return true;
		if ((g & SR_GATE_COUNT) > 1)
			return false;
		/* Pairs with sr_rx_gate_leave(), and with sr_gate_shut(). */
	} while (!sr_replace(&st->in.gate, &g, g | SR_GATE_SHUT));
	st->rx.rx = sr_load(&st->in.tcp) + (uint64_t)st->in.delta;
	if (sr_sets.gate_shut(st))
		return true;
	sr_rx_gate_reopen(st);	/* and entries that it has linked */
	return false;
}

/* Nothing was read while the gate was shut, so in.delta stays valid.  (It must
 * not be recomputed: a call in flight may be adding its bytes right now.) */
void sr_rx_gate_reopen(struct sr_stream *st)
{
	/* Pairs with gate_enter(). */
	atomic_fetch_and_explicit(&st->in.gate, ~SR_GATE_SHUT, memory_order_release);
	sr_sets.gate_opened(st);
}

/* No call is in flight, so rx.rx is exact. */
void sr_rx_gate_open(struct sr_stream *st)
{
	st->in.delta = (int64_t)(st->rx.rx - sr_load(&st->in.tcp));
	/* Pairs with gate_enter(). */
	atomic_fetch_and_explicit(&st->in.gate, ~SR_GATE_SHUT, memory_order_release);
	sr_sets.gate_opened(st);
}
