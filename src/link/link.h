/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link.h - a link carries a stream beside its anchor: two rings (one for each
 * direction), credit, and small messages.  How bytes get there is left to the
 * kind of link (ops.h; shm/, verbs/).  The engine knows only link.h and ops.h.
 *
 * Offsets are absolute and count the program's bytes of a direction; byte k of
 * a direction is at ring[k & (size - 1)].
 *
 * A link is made, becomes UP, carries messages and data, becomes DEAD, and is
 * freed.  Both directions live and die together.  A dead link never comes back,
 * but its memory (received bytes, retained bytes) stays readable until it is
 * freed.
 *
 * Threads.  One of these words ends the comment of each function: "loop": only
 * the service thread (loop.h) calls it; "tx": the caller holds the stream's
 * tx_lock; "rx": the rx_lock; "any": no lock is needed.  The kind calls notify()
 * from any thread that moved the link forward (also from inside poll(),
 * tx_commit(), rx_free(), ctl()), so notify() takes no lock of the stream.  The
 * kind holds none of its own locks then.
 */
#ifndef SR_LINK_H
#define SR_LINK_H

#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/loop.h"
#include "base/order.h"
#include "link/ops.h"
#include "pure/wire.h"

/* What arrived.  Each happens at most once in a link's life: a second one
 * violates the protocol and kills the link.  The fields named here are written
 * before the bit. */
enum {
	SR_LINK_UP = 1 << 0,	/* messages may be sent */
	SR_LINK_HELLO = 1 << 1,	/* peer_hello */
	SR_LINK_PROOF = 1 << 2,	/* peer_tag */
	SR_LINK_SWITCH = 1 << 3,	/* peer_switch; rx_h, rx_taken are set to N */
	SR_LINK_ACKSW = 1 << 4,
	SR_LINK_END = 1 << 5,	/* peer_end */
	SR_LINK_ACKEND = 1 << 6,
	SR_LINK_DEAD = 1 << 7,	/* error or drop; `reason` says why */
	SR_LINK_SHARE = 1 << 8,	/* peer_share */
	SR_LINK_LEFT = 1 << 9,	/* DEAD because the peer's process ends (leave()) */
	SR_LINK_LOST = 1 << 10,	/* DEAD, probably because it was killed (shm) */
};

/* Why notify() is called. */
enum {
	SR_NOTIFY_RX = 1 << 0,	/* rx_h grew, or END */
	SR_NOTIFY_TX = 1 << 1,	/* room to write, or tx_acked grew */
	SR_NOTIFY_CTL = 1 << 2,	/* a bit in events was set */
	SR_NOTIFY_WORK = 1 << 3, /* work() must be called in the loop */
	SR_NOTIFY_VERDICT = 1 << 4, /* of a stream only: the link exists, or is refused */
	/* of a stream only: its way or its end has changed; there may be no new bytes */
	SR_NOTIFY_CHANGE = SR_NOTIFY_RX | SR_NOTIFY_TX | SR_NOTIFY_CTL,
	SR_ARM_DATA = 1 << 5,	/* to arm_once() only (ops.h) */
};

struct sr_link {
	const struct sr_link_ops *ops;
	atomic_int refs;
	enum sr_role role;
	enum sr_proof proof;	/* that of policy, unless the kind sets another one */
	bool greets;		/* an answerer's: it need not wait for the asker's HELLO */
	uint32_t link_no;
	const char *name;	/* the kind's, and its device: "shm", "verbs:rxe0" */
	_Atomic uint32_t qp;	/* the number of its queue pair; 0: it has none, or none yet */
	void (*notify)(struct sr_link *link, unsigned what);
	void *owner;		/* the stream; no reference: notify() may come late */
	struct sr_task unreferenced; /* link.c: frees it in the loop */

	atomic_uint events;	/* SR_LINK_ bits, only ever set */
	atomic_uint said;	/* 1 << sr_msg_type for each message ctl() has sent */
	_Atomic(const char *) reason; /* a word of reasons.def once it ends */
	struct sr_hello peer_hello;
	uint8_t peer_share[SR_SHARE_LEN], peer_tag[SR_TAG_LEN];
	struct sr_switch peer_switch;
	uint64_t peer_end;

	/* tx_piece: free bytes from tx_w on, which the fast path may fill and commit
	 * without calling tx_room().  The kind sets it and moves it on.  tx_ready:
	 * tx_piece is not empty, and comes from tx_room(), not tx_rest(); so poll(2)
	 * may report room.  tx. */
	struct sr_piece tx_piece;
	bool tx_ready;

	/* rx_h and tx_acked are published by a thread that has heard from the peer, tx_w and
	 * rx_taken by a thread whose call has moved bytes.  A thread that does not hold the lock
	 * under which that was done observes them. */
	_Atomic uint64_t rx_h;	/* received so far, including bytes in the ring; may
				 * lag behind rx_taken if rx_look() is used */
	_Atomic uint64_t rx_taken; /* taken by our program (rx_free) */
	_Atomic uint64_t tx_w;	/* given to the link (tx_commit) */
	_Atomic uint64_t tx_acked; /* taken by the peer's program, as the peer
				    * claims; the kind checks that it never decreases
				    * and is <= tx_w */
};

struct sr_link *sr_link_get(struct sr_link *link);
/* The kind's function that sends what the calling thread has left in links, and clears
 * sr_link_left.  NULL: the thread has left nothing. */
extern __thread void (*volatile sr_link_left)(void) __attribute__((tls_model("initial-exec")));
/* The calling thread is about to wait for streams, or in an epoll set with links.  No locks held. */
static inline void sr_links_before_wait(void)
{
	void (*left)(void) = sr_link_left;	/* once: a signal handler may wait, too */

	if (left)
		left();
}

void sr_link_put(struct sr_link *link);	/* any; freed in the loop */
/* In the child of fork: the links are the parent's, and so is their memory. */
void sr_link_forget(void);

static inline unsigned sr_link_events(struct sr_link *link)
{
	return sr_observe(&link->events); /* pairs with sr_link_raise()'s fetch_or */
}

/* Has ctl() sent a message of that type? */
static inline bool sr_link_has_said(struct sr_link *link, enum sr_msg_type type)
{
	return sr_observe(&link->said) & (1u << type); /* pairs with sr_link_say() */
}

/* For the kinds: sr_link_offer() lets the fast path fill the first piece that tx_room()
 * (ready) or tx_rest() (not ready) has found; sr_link_offer_none() takes that back;
 * sr_link_offer_moves() moves the piece on in tx_commit() of n bytes. */
static inline void sr_link_offer(struct sr_link *link, const struct iovec *first, bool ready)
{
	link->tx_piece = (struct sr_piece){ first->iov_base, first->iov_len };
	link->tx_ready = ready && first->iov_len;
}

static inline void sr_link_offer_none(struct sr_link *link)
{
	link->tx_piece = (struct sr_piece){ 0 };
	link->tx_ready = false;
}

static inline void sr_link_offer_moves(struct sr_link *link, size_t n)
{
	struct sr_piece *room = &link->tx_piece;

	if (n < room->left)
		*room = (struct sr_piece){ room->at + n, room->left - n };
	else
		sr_link_offer_none(link);
}

static inline bool sr_link_same_core(struct sr_link *link)
{
	return link->ops->same_core && link->ops->same_core(link);
}

/* Sets bits; true if one was not set before.  For the kinds. */
bool sr_link_raise(struct sr_link *link, unsigned bits);

/* For the kinds: says why the link is about to be DEAD.  False: it has a reason already, and
 * keeps that. */
bool sr_link_set_reason(struct sr_link *link, const char *reason);

/*
 * Does what all kinds do with a decoded HELLO, SHARE, PROOF, SWITCH, ACKSW,
 * END or ACKEND: fills in the fields and raises the bit.  Returns 0, or
 * -EPROTO if the message came twice or out of order (drop the link).
 */
int sr_link_take(struct sr_link *link, const struct sr_msg *msg);

/* For ctl(): may this message be sent now?  Notes it in `said`; for SWITCH sets
 * tx_w = tx_acked = N.  Returns 0; -EPIPE: DEAD; -EINVAL: sent twice (a bug in
 * the caller). */
int sr_link_say(struct sr_link *link, const struct sr_msg *msg);

/* Makes a link with one reference in memory of calloc(size).  size is that of
 * the kind's struct, whose first member is the link.  NULL: no memory. */
struct sr_link *sr_link_new(const struct sr_link_ops *ops, size_t size,
			    enum sr_role role, uint32_t link_no, void *owner,
			    void (*notify)(struct sr_link *, unsigned));

/* ---- process-wide memory limit (SOCKRAIL_MEMORY) ---- */
bool sr_memory_take(size_t bytes);	/* any */
void sr_memory_give(size_t bytes);	/* any */
size_t sr_memory_used(void);

#endif
