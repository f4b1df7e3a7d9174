/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * impl.h - the private part of a stream, for the rooms that work on streams.
 *
 * What protects which member
 *
 *   plain calls   (calls on a plain direction) take no lock: they pass a gate
 *                 (below) and enter the kernel
 *   rx_lock       rx, in; reads from the anchor while the rx gate is shut
 *   tx_lock       tx, out; writes to the anchor while the tx gate is shut
 *   both locks    to change anchor (the descriptor number)
 *   loop          up, and the progress of a close: the service thread only
 *
 * Lock order: an epoll set's look_lock, rx_lock, tx_lock, the other locks of epoll/impl.h,
 * then the link kind's own, then waits.lock (HACKING.md has them all).  Nothing sleeps with
 * a lock held, except on the kernel's socket lock in non-blocking calls on the anchor.
 *
 * The gates.  A direction is plain while its gate is open: a call adds itself
 * to the count of calls in flight, enters the kernel, adds the bytes it moved
 * to out.tcp or in.tcp, and subtracts itself.  A shut gate sends calls to the
 * slow path, under the lock.  How a gate is shut:
 *   tx: only with no call in flight (the switch waits for a send asleep in the
 *       kernel; no call waits for the switch).  SR_GATE_WANT asks the last call
 *       in flight to shut it on leaving; otherwise a busy sender would never
 *       switch.
 *   rx: with at most one call in flight, counting recv() and poll() sleepers.  A second
 *       sleeper does not enter; it attaches a wait node (waiters.h) and is
 *       woken through it.  The one call in flight will read the mark, and sees
 *       on leaving that the gate was shut meanwhile; no other thread reads the
 *       anchor until then.  This is the one-sleeper rule of
 *       sockrail-protocol(7).
 */
#ifndef SR_ENGINE_IMPL_H
#define SR_ENGINE_IMPL_H

#include "base/conf.h"
#include "base/order.h"
#include "base/page.h"
#include "pure/switch_rx.h"
#include "engine/fast.h"
#include "engine/flags.h"
#include "engine/hold.h"
#include "engine/parts.h"
#include "engine/stream.h"

#define SR_GATE_SHUT (1u << 31)
#define SR_GATE_WANT (1u << 30)
#define SR_GATE_COUNT (SR_GATE_WANT - 1)

struct sr_stream {
	/* These members survive when the memory becomes another stream: a
	 * thread may still look at head, lock (fast.c), and count (upgrade/retire.c). */
	_Alignas(128) struct sr_stream_head head;
	atomic_int refs;		/* 0: the stream is free */
	atomic_uint generation;	/* of the process that looked at it last (owners.h) */
	struct sr_rare *rare;
	struct sr_stream *next_free;	/* pool_lock of stream.c */
	_Alignas(64) char heir[64]; /* zero: the inherited stream (stream.c) */
	_Alignas(64) struct sr_mutex rx_lock;
	struct sr_hot *rx_hot, rx_own; /* counts: of its slot, or its own (stat.c) */
	_Alignas(64) struct sr_mutex tx_lock;
	struct sr_hot *tx_hot, tx_own;

	_Alignas(64) atomic_uint flags;	/* take_free() clears from here on */
	atomic_int fds;			/* entries in the descriptor table */
	atomic_int reason;		/* enum sr_reason: why it is plain */

	_Alignas(64) struct sr_tx tx;
	struct sr_out out;
	_Alignas(64) struct sr_rx rx;
	struct sr_in in;

	const struct sr_policy *policy;	/* never NULL; sr_stream_policy() */
	_Alignas(64) atomic_int anchor;	/* descriptor number, -1 when gone */
	uint32_t link_no;	/* number of the last link */
	struct sr_err err;

	struct sr_sets sets;
	struct sr_waits waits;
	struct sr_loop_side loop;
	struct sr_indexed indexed;	/* index.c */
	struct sr_attach up;
	struct sr_hold_state hold;

	atomic_bool want_tcp;	/* return to TCP: plain, fork, exec */
	bool exiting;		/* at exit: nothing remains to be done */
	struct sr_page_slot *stat;	/* stat.c; NULL: not shown */
	struct sr_owned owned;
	struct sr_listener listener; /* not in `rare': an accept writes this page anyway */
	uint64_t close_since;	/* ns: when the anchor became a duplicate of the library's; or 0 */
	atomic_flag history_busy; /* locks both histories in `rare` (history.c) */
};

/* ---- flags ---- */

static inline unsigned sr_st_flags(struct sr_stream *st)
{
	return sr_load(&st->flags);
}

static inline unsigned sr_st_set(struct sr_stream *st, unsigned bits)
{
	/* The release in it pairs with sr_stream_name() and sr_stream_label().  It is a change of
	 * pair children (SR_ST_CLOSING) and pair barred (SR_ST_BARRED). */
	return atomic_fetch_or_explicit(&st->flags, bits, memory_order_seq_cst);
}

static inline void sr_st_clear(struct sr_stream *st, unsigned bits)
{
	atomic_fetch_and_explicit(&st->flags, ~bits, memory_order_relaxed);
}

/* May another process hold its descriptor?  Then nothing is done to the anchor that
 * the program has not asked for, and no switch begins. */
static inline bool sr_is_shared(struct sr_stream *st)
{
	struct sr_slot *slot = sr_observe(&st->owned.slot); /* pairs with sr_owners_share() */

	return (sr_st_flags(st) & SR_ST_SHARED) ||
	       (slot && sr_observe(&slot->owners) > 1);	/* pairs with sr_slot_put() */
}

/* Keeps an error for the program, unless there is one already.  Relaxed, as all of st->err:
 * these numbers tell of nothing but themselves. */
static inline void sr_error_keep(struct sr_stream *st, int err)
{
	int none = 0;

	atomic_compare_exchange_strong_explicit(&st->err.pending, &none, err,
						memory_order_relaxed, memory_order_relaxed);
}

/* The error that is reported to the program now, or 0. */
static inline int sr_error_take(struct sr_stream *st)
{
	return atomic_exchange_explicit(&st->err.pending, 0, memory_order_relaxed);
}

/* ---- listeners ---- */

/* Of any socket; it says nothing unless the socket has, or is about to get, SR_ST_LISTEN. */
static inline struct sr_listener *sr_listener_of(struct sr_stream *socket)
{
	return &socket->listener;
}

static inline bool sr_listener_has(struct sr_listener *l, unsigned flag)
{
	return sr_observe(&l->flags) & flag;	/* pairs with sr_listener_set() */
}

static inline unsigned sr_listener_set(struct sr_listener *l, unsigned flag)
{
	/* Pairs with sr_listener_has(): who answers has been settled before. */
	return atomic_fetch_or_explicit(&l->flags, flag, memory_order_acq_rel);
}

static inline void sr_listener_clear(struct sr_listener *l, unsigned flags)
{
	atomic_fetch_and_explicit(&l->flags, ~flags, memory_order_relaxed);
}

static inline const struct sockaddr *sr_listener_addr(struct sr_listener *l)
{
	return (const struct sockaddr *)&l->socket->rare->local;
}

/* Does policy wait hold the stream's sends?  Not after a send that was held and got no link: from
 * then on the stream goes on as under policy eager. */
static inline bool sr_waits(struct sr_stream *st)
{
	return st->policy->upgrade == SR_WAIT && !(sr_st_flags(st) & SR_ST_UNHELD);
}

/* The link that is being made, or in use.  Only the service thread uses what it points to, and
 * changes it. */
static inline struct sr_link *sr_stream_att(struct sr_stream *st)
{
	return sr_load(&st->up.att);
}

/* ---- counting ---- */

/* n bytes went to TCP, or came from it.  Returns the sum so far.  A call counts before it leaves
 * the gate, so the thread that shuts the gate sees the count. */
static inline uint64_t sr_tcp_sent(struct sr_stream *st, ssize_t n)
{
	uint64_t sum = sr_count(&st->out.tcp, (uint64_t)n) + (uint64_t)n;

	sr_store(&st->tx_hot->tcp, sum);
	return sum;
}

static inline uint64_t sr_tcp_received(struct sr_stream *st, ssize_t n)
{
	/* pair due: note_due() looks next */
	uint64_t sum = (uint64_t)n + atomic_fetch_add_explicit(&st->in.tcp, (uint64_t)n,
							       memory_order_seq_cst);

	sr_store(&st->rx_hot->tcp, sum);
	return sum;
}

/* The bytes of the ring that the program may have.  rx_lock.  Pairs with the kind's publish of
 * rx_h. */
static inline size_t sr_ring_bytes(struct sr_stream *st)
{
	return st->in.link ? sr_rx_ready(&st->rx, sr_observe(&st->in.link->rx_h)) : 0;
}

/* The program took n bytes from the link.  rx_lock. */
static inline void sr_link_received(struct sr_stream *st, size_t n)
{
	st->rx.rx += n;
	st->in.way[st->in.link->ops->way] += n;
	st->rx_hot->link += n;
}

/* ---- both locks ---- */

static inline void sr_stream_lock(struct sr_stream *st)
{
	sr_lock(&st->rx_lock);
	sr_lock(&st->tx_lock);
}

static inline void sr_stream_unlock(struct sr_stream *st)
{
	sr_unlock(&st->tx_lock);
	sr_unlock(&st->rx_lock);
}

/* ---- gates ---- */

/* gate.c has the other ends of both acquires: who sees a gate shut sees what was done before
 * that, and who sees that no call is in flight sees the bytes that the calls have counted. */
static inline bool sr_gate_shut(atomic_uint *gate)
{
	return sr_observe(gate) & SR_GATE_SHUT;
}

static inline unsigned sr_gate_calls(atomic_uint *gate)
{
	return sr_observe(gate) & SR_GATE_COUNT;
}

static inline bool sr_any_gate_shut(struct sr_stream *st)
{
	return sr_gate_shut(&st->in.gate) || sr_gate_shut(&st->out.gate);
}

/* Is nothing left to be done of an earlier link, so that the stream may have another one?  (In
 * EXPECT the receiver waits for the peer's next byte, or for the next link.)  Both locks. */
static inline bool sr_is_done_with_links(struct sr_stream *st)
{
	return !sr_gate_shut(&st->out.gate) &&
	       (!sr_gate_shut(&st->in.gate) || st->rx.state == SR_RX_EXPECT);
}

#endif
