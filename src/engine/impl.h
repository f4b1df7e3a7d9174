/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * impl.h - the inside of a stream, for src/stream only.
 *
 * Who may touch what
 *
 *   plain calls   take no lock: they pass a gate (below) and go to the kernel.
 *   rx_lock       rx, spill, rx_link, rx_delta, what is read from the anchor
 *                 while the rx gate is shut
 *   tx_lock       tx, tx_link, tx_delta, what is written to the anchor while
 *                 the tx gate is shut
 *   both locks    anchor (the descriptor number), to change it
 *   loop          att_*, ask, closing's progress: the service thread only
 *
 * Lock order: rx_lock, tx_lock, those of epoll_impl.h, then the link kind's own,
 * then wait_lock.
 * Nothing sleeps with a lock held, except on the kernel's socket lock in
 * non-blocking calls on the anchor.
 *
 * The gates.  A direction is plain as long as its gate is open: a call adds
 * itself to the count of calls in flight, goes to the kernel, books what went
 * through in tx_tcp or rx_tcp, and subtracts itself.  A shut gate sends calls
 * the slow way, under the lock.  Shutting:
 *   tx: only with no call in flight (the switch waits for a send asleep in the
 *       kernel, nobody waits for the switch).  SR_GATE_WANT asks the last call
 *       in flight to do it when it leaves, else a busy sender would never
 *       switch.
 *   rx: with at most one in flight, counting recv() and poll() sleepers (a call
 *       whose result could not be stripped counts as two).  A second sleeper
 *       does not enter; it hangs up a node (wait.h) and is called.  That one will get
 *       the mark, and sees on leaving that the gate was shut meanwhile; nobody
 *       else reads the anchor before it has left.  This is the one-sleeper rule
 *       of sockrail-protocol(7).
 */
#ifndef SR_STREAM_IMPL_H
#define SR_STREAM_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/conf.h"
#include "base/lock.h"
#include "base/loop.h"
#include "base/report.h"
#include "link/link.h"
#include "pure/history.h"
#include "pure/switch.h"
#include "engine/fast.h"
#include "engine/stream.h"
#include "base/spin.h"

#define SR_GATE_SHUT (1u << 31)
#define SR_GATE_WANT (1u << 30)
#define SR_GATE_COUNT (SR_GATE_WANT - 1)
#define SR_GATE_BLIND 2		/* a read that cannot be stripped */

enum {				/* sr_stream.flags */
	SR_ST_CONNECT = 1 << 0,	/* we connected: we ask */
	SR_ST_ACCEPT = 1 << 1,	/* accepted: we answer */
	SR_ST_LISTEN = 1 << 2,
	SR_ST_USED = 1 << 3,	/* sent, received or waited through us */
	SR_ST_BARRED = 1 << 4,	/* no link any more */
	SR_ST_NAMED = 1 << 5,	/* local, peer are known */
	SR_ST_ASKED = 1 << 6,	/* an ask is under way, or not to be repeated */
	SR_ST_CLOSING = 1 << 7,	/* the program has closed it */
	SR_ST_RDSHUT = 1 << 8,	/* the program said shutdown(SHUT_RD) */
	SR_ST_TX_HISTORY = 1 << 9, /* tx_history has stopped */
	SR_ST_RX_HISTORY = 1 << 16, /* rx_history has stopped */
	SR_ST_WAITED = 1 << 10,	/* policy wait: has waited */
	SR_ST_ENDED = 1 << 11,	/* reported */
	SR_ST_CORK = 1 << 12,	/* TCP_CORK is set */
	SR_ST_FRESH = 1 << 13,	/* connect() not yet known to be through */
	SR_ST_REPORTED = 1 << 17, /* ... and the line is written */
	SR_ST_STAMPS = 1 << 18,	/* SO_TIMESTAMP or the like was set */
	SR_ST_AGAIN = 1 << 19, /* has asked a peer without listener twice */
	SR_ST_SHARED = 1 << 20, /* another process may hold its descriptor, too */
	SR_ST_DEAF = 1 << 22,	/* LISTEN: without a rendezvous of any kind */
	SR_ST_OPENED = 1 << 23,	/* LISTEN: its rendezvous is open, or cannot be */
	SR_ST_HALF = 1 << 15,	/* the program has ended its direction */
	SR_ST_PEER_END = 1 << 24, /* the peer's end has come by a link */
	SR_ST_OVER = 1 << 25,	/* both ends have come: TCP's state CLOSE, for good */
	SR_ST_SECOND = 1 << 26,	/* CLOSING, begun behind the peer's end by a link */
};

enum { VERDICT_NONE, VERDICT_PENDING, VERDICT_YES, VERDICT_NO };

#define SR_ANSWERED UINT64_MAX

struct sr_wait_node;
struct sr_epoll_entry;

struct sr_stream {
	/* What stays when the stream becomes another one: a thread may still look at
	 * head, and lock (fast.c). */
	struct sr_stream_head head;
	atomic_int refs;		/* 0: free */
	_Alignas(64) pthread_mutex_t rx_lock;
	_Alignas(64) pthread_mutex_t tx_lock;

	_Alignas(64) atomic_uint flags;	/* the first word that is cleared */
	atomic_int fds;			/* entries in the table */
	atomic_int reason;		/* enum sr_reason: why it is plain */

	_Alignas(64) atomic_uint tx_gate;
	atomic_uint tx_calls;
	_Atomic uint64_t tx_tcp;	/* bytes written to the anchor */
	_Alignas(64) atomic_uint rx_gate;
	atomic_uint rx_calls;
	_Atomic uint64_t rx_tcp;	/* bytes read from the anchor */
	_Atomic uint64_t tx_plain, rx_plain; /* program bytes, once TCP's for good */
	_Atomic uint64_t rx_due;	/* a SWITCH waits for rx_tcp to be this; or 0 */
	uint64_t rx_short;	/* bytes it waited for when last looked at */

	_Alignas(64) struct sr_rx rx;
	struct sr_link *rx_link;
	int64_t rx_delta;	/* gate open: rx.rx = rx_tcp + rx_delta */
	uint8_t spill[2 * SR_RECORD_LEN]; /* the program's, already off TCP */
	unsigned spill_at, spill_len;
	uint64_t rx_way[SR_WAYS];
	unsigned rx_switches;
	atomic_int so_error;	/* to be reported once, as SO_ERROR does */
	atomic_bool error_told;	/* so_error was set for it, or SO_ERROR has said it */
	atomic_int error;	/* errno that ended it, for the report */
	bool rx_fin_seen;	/* TCP's FIN or RST has been read */
	bool rx_cut;		/* the anchor is disconnected: back.c */
	bool rx_rst_seen;	/* the latter, with bytes on the link before it */

	struct sr_tx tx;
	struct sr_link *tx_link;
	int64_t tx_delta;	/* gate open: tx.w = tx_tcp + tx_delta */
	uint64_t tx_n;		/* N of the switch in use */
	uint64_t tx_way[SR_WAYS];
	_Atomic size_t tx_held;	/* bytes the link was asked to hold back */
	uint64_t tx_held_ns;	/* since when */
	uint64_t tx_widen_by;	/* ns: so long sends that must not block wait for room */
	_Atomic uint64_t tx_lost_ns;	/* since when the peer seems killed, but not by TCP */
	unsigned record_at;	/* bytes of tx.record already in TCP */
	_Atomic(struct sr_link *) tx_next; /* a proven link to switch to (SR_GATE_WANT) */
	uint8_t tx_next_token[SR_TOKEN_LEN];
	atomic_bool tx_on_send;	/* tx_next waits for the program's next send */
	atomic_bool broken;	/* reset: every send is EPIPE */

	atomic_int anchor;	/* descriptor number, -1 when gone */
	atomic_bool anchor_private;
	int family;
	unsigned switches;	/* of tx; tx_lock */
	uint32_t link_no;	/* the last link's number */
	struct sockaddr_storage local, peer;
	struct sr_name name;
	_Atomic uint64_t mode, mode_changes; /* sleep.c */
	char tx_had[SR_REPORT_LINK], rx_had[SR_REPORT_LINK]; /* the last link of each */

	atomic_flag history_busy;
	struct sr_history tx_history, rx_history;
	struct sr_history rx_shown;	/* rx_history and what lies unread */

	pthread_mutex_t epoll_lock;	/* epoll_impl.h */
	_Atomic(struct sr_epoll_entry *) epoll; /* the sets that it is in */
	atomic_bool tx_full;	/* a sender, or who asked, found no room */
	atomic_bool tx_held_off;	/* who asked was told so in mid-switch */

	pthread_mutex_t wait_lock;
	_Atomic(struct sr_wait_node *) waiters;
	struct sr_spin spin;

	/* loop only */
	struct sr_task task;
	atomic_bool kicked;
	struct sr_watch watch;
	atomic_int watched_fd;	/* -1: not watched */
	atomic_uint watched;	/* events armed */
	struct sr_timer timer;
	struct sr_ask ask;
	bool asking;
	bool timed;
	_Atomic(struct sr_link *) att;	/* being attached, or in use */
	uint8_t token[SR_TOKEN_LEN];	/* ours, on att or the link in use */
	bool att_hello, att_showed, att_checked, att_proven;
	uint64_t hello_tx, hello_rx;	/* what our hello said we have */
	uint64_t known_tx, known_rx;	/* what the peer must have */
	int proofs_failed;
	uint64_t att_since;	/* ns */
	uint64_t due_since, due_seen, due_seen_ns; /* its SWITCH waits */
	bool due_said;		/* DRAIN */
	_Atomic uint64_t next_ask_ns;
	_Atomic uint64_t asked_ns; /* a link was asked for; SR_ANSWERED: and made */
	unsigned asks;		/* since it last had a link */
	uint64_t tx_wait_since;	/* ns; also read under tx_lock */
	uint64_t close_since;
	atomic_bool want_back;	/* plain(), fork, exec */
	bool left;		/* at exit: nothing more is to be done */
	bool fork_held;		/* fork.c: from before a fork until after it */
	atomic_int verdict;	/* of the attempt under way: VERDICT_ */
	unsigned kind;		/* place in the order of kinds being asked */
	bool att_started;	/* our direction's switch was begun on att */
	bool att_took;		/* its SWITCH is dealt with */
	uint64_t tx_started;	/* ns */
	void *listener[2];	/* rendezvous, by kind */
	atomic_int children;	/* LISTEN: accepted and not yet gone */
	struct sr_stream *parent; /* ACCEPT: the listener */
};

/* For the report: by which kind of link. */
static inline enum sr_way sr_way_of(const struct sr_link *link)
{
	return link->ops == &sr_link_shm ? SR_WAY_SHM : SR_WAY_VERBS;
}

/* ---- flags ---- */

static inline unsigned sr_st_flags(struct sr_stream *st)
{
	return atomic_load_explicit(&st->flags, memory_order_relaxed);
}

static inline unsigned sr_st_set(struct sr_stream *st, unsigned bits)
{
	return atomic_fetch_or(&st->flags, bits);
}

static inline void sr_st_clear(struct sr_stream *st, unsigned bits)
{
	atomic_fetch_and(&st->flags, ~bits);
}

static inline bool sr_gate_shut(atomic_uint *gate)
{
	return atomic_load(gate) & SR_GATE_SHUT;
}

static inline bool sr_any_gate_shut(struct sr_stream *st)
{
	return sr_gate_shut(&st->rx_gate) || sr_gate_shut(&st->tx_gate);
}

#endif
