/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link.h - a link: what carries a stream beside its anchor.  Two rings (one per
 * direction), credit, and small messages; how bytes get there is the kind's
 * affair (link_shm.c, link_verbs*.c).  The engine knows only this page.
 *
 * Offsets are the direction's program bytes, absolute; byte k of a direction
 * is at ring[k & (size - 1)].
 *
 * A link goes through  made -> UP -> (data, messages) -> DEAD -> freed.  Both
 * directions live and die together; a dead link never comes back, but its
 * memory (received bytes, retained bytes) stays readable until it is freed.
 *
 * Threads.  "loop": only in the service thread (loop.h).  "tx": the caller
 * holds the stream's tx lock.  "rx": the rx lock.  "any": no lock needed.
 * The kind calls notify() from whatever thread moved the link forward (also
 * from inside poll(), tx_commit(), rx_free(), ctl()), so notify() takes no
 * stream lock.  It is never called with a lock of the kind held that tx_, rx_
 * or ctl() need.
 */
#ifndef SR_LINK_H
#define SR_LINK_H

#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "pure/wire.h"

/* What arrived.  Each happens at most once in a link's life: a second one is a
 * lie and kills the link.  The fields beside are written before the bit. */
enum {
	SR_LINK_UP = 1 << 0,	/* messages may be sent */
	SR_LINK_HELLO = 1 << 1,	/* peer_hello */
	SR_LINK_PROOF = 1 << 2,	/* peer_proof */
	SR_LINK_SWITCH = 1 << 3,	/* peer_switch; rx_h, rx_taken are set to N */
	SR_LINK_ACKSW = 1 << 4,
	SR_LINK_END = 1 << 5,	/* peer_end */
	SR_LINK_ACKEND = 1 << 6,
	SR_LINK_BACK = 1 << 7,	/* peer asks us to switch our direction back */
	SR_LINK_DEAD = 1 << 8,	/* error or drop; why in `reason` */
	SR_LINK_DRAIN = 1 << 9,	/* ACKSW waits for the peer's program to read */
	SR_LINK_LEFT = 1 << 10,	/* DEAD, as the peer's process ends (leave()) */
	SR_LINK_LOST = 1 << 11,	/* DEAD, as it was killed, it seems (shm) */
};

/* Why notify() is called. */
enum {
	SR_NOTIFY_RX = 1 << 0,	/* rx_h grew, or END */
	SR_NOTIFY_TX = 1 << 1,	/* room to write, or tx_acked grew */
	SR_NOTIFY_CTL = 1 << 2,	/* a bit in events was set */
	SR_NOTIFY_WORK = 1 << 3, /* work() wants to be called in the loop */
};

struct sr_ask;
struct sr_request;

/* A piece of a ring. */
struct sr_piece {
	uint8_t *at;
	size_t left;
};

struct sr_link {
	const struct sr_link_ops *ops;
	atomic_int refs;
	enum sr_role role;
	uint32_t link_no;
	const char *device;	/* "rxe0", or "" */
	void (*notify)(struct sr_link *link, unsigned what);
	void *owner;		/* the stream; no reference, notify() may be late */
	struct sr_link *next_free; /* link.c: to be freed in the loop */

	atomic_uint events;	/* SR_LINK_ bits, only ever set */
	atomic_uint said;	/* 1 << sr_msg_type: what ctl() has sent */
	const char *reason;	/* a word of reasons.def once DEAD, or NULL */
	struct sr_hello peer_hello;
	uint8_t peer_proof[SR_DIGEST_LEN];
	struct sr_switch peer_switch;
	uint64_t peer_end;

	/* The free bytes from tx_w on that may be filled and committed without asking
	 * tx_room().  The kind sets and moves it on.  tx */
	struct sr_piece tx_piece;

	_Atomic uint64_t rx_h;	/* received so far, with the ring's; may lag behind
				 * rx_taken where rx_look() is used */
	_Atomic uint64_t rx_taken; /* taken by our program (rx_free) */
	_Atomic uint64_t tx_w;	/* given to the link (tx_commit) */
	_Atomic uint64_t tx_acked; /* taken by the peer's program, as it says;
				 * the kind checks tx_acked <= it <= tx_w */
};

struct sr_link_ops {
	const char *name;	/* "shm", "verbs" */

	/*
	 * Fills our hello's ring and slots.  loop.
	 */
	void (*hello)(struct sr_link *link, struct sr_hello *hello);

	/*
	 * The link's identity, the same at both ends and unlike any other
	 * link's (QPNs and GIDs; peer credentials and the memfd's inode), to be
	 * bound into the digest.  Returns its length, at most 64.  loop, UP.
	 */
	size_t (*identity)(struct sr_link *link, uint8_t id[64]);

	/*
	 * Sends one of HELLO, PROOF, SWITCH, DRAIN, ACKSW, END, ACKEND, BACK,
	 * PROBE.
	 * In order with data committed before.  Never blocks and never lacks
	 * credit: room for them is reserved, as each goes once (PROBE: dropped
	 * if one is unanswered).  msg->ack and ->slots are filled in here.
	 * SWITCH{N} also sets tx_w = tx_acked = N.  0 or -EPIPE (DEAD).  any.
	 */
	int (*ctl)(struct sr_link *link, struct sr_msg *msg);

	/*
	 * Free space for bytes from tx_w on, at most two pieces; returns their
	 * sum, 0 if there is no credit or no decent gap yet.  tx.
	 */
	size_t (*tx_room)(struct sr_link *link, struct iovec v[2]);

	/* Is there no room only because the ring is new, and is the peer likely to
	 * offer a larger one at once?  May be NULL: no.  tx. */
	bool (*tx_widens)(struct sr_link *link);

	/* n bytes are there and go out; more: others follow at once, small
	 * ones may be held back (commit of 0 without more sends them).  tx. */
	void (*tx_commit)(struct sr_link *link, size_t n, bool more);

	/* The bytes [from, tx_w), from >= tx_acked: what a switch back sends
	 * again.  Also when DEAD.  Returns their number, which may be less than
	 * all (two pieces): ask again from there.  tx. */
	size_t (*tx_retained)(struct sr_link *link, uint64_t from,
			      struct iovec v[2]);

	/* How far the peer's host has what tx_commit() gave, tx_acked <= it <= tx_w:
	 * what TCP's ACK says.  Goes on with poll().  tx. */
	uint64_t (*tx_arrived)(struct sr_link *link);

	/* Received bytes from rx_taken + skip on, as far as two pieces go.  Also
	 * when DEAD.  Returns their number; 0: there are none.  rx. */
	size_t (*rx_data)(struct sr_link *link, size_t skip,
			  struct iovec v[2]);

	/*
	 * The fast path's look: how many received bytes there are from rx_taken on, of
	 * which `piece` is the beginning.  0: none, and no other news for the reader.
	 * -1: something unusual, which poll() and rx_data() have to look at.  Sets
	 * nothing and tells nobody.  NULL: always -1.  rx.
	 */
	ssize_t (*rx_look)(struct sr_link *link, struct sr_piece *piece);

	/* The program took n bytes: rx_taken grows, credit goes back in
	 * batches.  rx. */
	void (*rx_free)(struct sr_link *link, size_t n);

	/*
	 * TCP has ended.  Takes in what the peer has put on the link until then, also
	 * when DEAD; true: that is all that its program had sent.  NULL: nobody can
	 * say.  rx.
	 */
	bool (*rx_last)(struct sr_link *link);

	/*
	 * This process ends, and what has been committed outlives it, as END does: the
	 * peer reads it all the same, and sends nothing back.  False: the peer has given
	 * the link up, and counts on TCP.  resent: TCP has all of it as well.  NULL: it
	 * does not outlive the process.  any.
	 */
	bool (*leave)(struct sr_link *link, bool resent);

	/* LEFT: has TCP all that the peer sent?  rx. */
	bool (*rx_resent)(struct sr_link *link);

	/* Looks for arrivals and completions; never sleeps.  any. */
	void (*poll)(struct sr_link *link);

	/*
	 * Before sleeping: want is SR_NOTIFY_RX and/or _TX.  From now on what
	 * is wanted makes the returned fd readable, or calls notify() if there
	 * is no fd to watch (-1).  The caller poll()s before it sleeps, and
	 * calls awake() after, whether it slept or not.  any; several threads
	 * may be between arm and awake on one link.
	 */
	int (*arm)(struct sr_link *link, unsigned want);

	/*
	 * Between arm and the sleep of a caller with nothing else to watch: a
	 * word to wait on (futex(2), shared) for as long as it holds all bits of
	 * want, instead of the fd.  May be NULL.  any.
	 */
	_Atomic uint32_t *(*futex)(struct sr_link *link, unsigned want);

	/* slept: the fd was readable.  Drains it, looks for arrivals.  any. */
	void (*awake)(struct sr_link *link, unsigned want, bool slept);

	/*
	 * Before a busy wait and in it: does the peer's thread run on this core, as far
	 * as is known?  Then it cannot run while we look.  May be NULL: nobody knows.
	 * any.
	 */
	bool (*same_core)(struct sr_link *link);

	/*
	 * For a sleeper that is no thread, an epoll set.  Once, the next
	 * arrival of what is wanted is told of: the returned fd becomes
	 * readable (an edge: nobody drains it), or notify() is called if there
	 * is none (-1).  The caller poll()s after.  Until the next stand() it is
	 * not told again; there is nothing to take back.  want 0: just the fd. any.
	 */
	int (*stand)(struct sr_link *link, unsigned want);

	/* Maintenance asked for with SR_NOTIFY_WORK: ring growth (loop), and what
	 * needs a ring that nobody is filling meanwhile (loop and tx; may be NULL). */
	void (*work)(struct sr_link *link);
	void (*tx_work)(struct sr_link *link);

	/*
	 * Gives the link up, both directions: nothing more is sent or taken
	 * from it, the peer will find out; DEAD is set.  Idempotent.  any.
	 */
	void (*drop)(struct sr_link *link, const char *reason);

	/* The last reference is gone: frees everything.  loop. */
	void (*free)(struct sr_link *link);

	/* Pinned or shared memory in bytes, and descriptors, that it holds. */
	void (*usage)(struct sr_link *link, size_t *bytes, int *fds);

	/* In the child of fork: the parent's links, listeners and requests are none of
	 * ours.  May be NULL. */
	void (*forget)(void);

	/* ---- rendezvous, all in the loop ---- */

	/* Can this kind work on this host at all?  NULL, or a reason word
	 * ("no-device", "no-library", "off").  Cheap; nothing is loaded. */
	const char *(*usable)(void);

	/* Would nobody answer who is asked for a link to this address now?  Only
	 * if that is sure and quickly found out; NULL: never.  any. */
	bool (*absent)(const struct sockaddr *to);

	/*
	 * Asks the accepting side of the connection for a link.  done() is
	 * called once, later, unless cancelled: with a link that is UP, or
	 * NULL and a reason.  0; or -ENODEV, -ELIBACC (the library cannot be
	 * loaded), -ENOMEM, and done() is not called.  The peer of the
	 * rendezvous must be the TCP peer's own address or this host.
	 */
	int (*ask)(struct sr_ask *ask);
	void (*cancel)(struct sr_ask *ask);

	/* Answers requests for connections accepted on this local address
	 * (0.0.0.0 or :: for any).  *out is for unlisten.  Or -errno, as ask. */
	int (*listen)(const struct sockaddr *addr, void **out);
	void (*unlisten)(void *listener);

	/* Answers a request: a new link, not yet UP; or NULL and a reason: it
	 * could not be made, and the asker has been refused.  refuse: reason
	 * goes to the peer's log. */
	struct sr_link *(*accept)(struct sr_request *req, void *owner,
				  void (*notify)(struct sr_link *, unsigned),
				  const char **reason);
	void (*refuse)(struct sr_request *req, const char *reason);
};

struct sr_ask {
	const struct sr_link_ops *ops;
	struct sr_name name;
	struct sockaddr_storage src, dst; /* our and the peer's TCP address */
	void *owner;			/* for the link */
	void (*notify)(struct sr_link *link, unsigned what); /* for the link */
	void (*done)(struct sr_ask *ask, struct sr_link *link,
		     const char *reason);
	void *kind;			/* the kind's own */
};

/* A request from an asker, in the kind's memory until accept or refuse. */
struct sr_request {
	const struct sr_link_ops *ops;
	struct sr_name name;
	void *user;			/* the stream floor's own */
};

/* Set once by the stream floor: what to do with requests.  loop.  gone(): the
 * asker left before it was answered; the request is freed after. */
extern void (*sr_link_request)(struct sr_request *req);
extern void (*sr_link_gone)(struct sr_request *req);
/* Somebody who may not has asked for this connection, and was told so.  loop. */
extern void (*sr_link_refused)(const struct sr_name *name, const char *reason);

extern const struct sr_link_ops sr_link_shm, sr_link_verbs;

struct sr_link *sr_link_get(struct sr_link *link);
void sr_link_put(struct sr_link *link);	/* any; freed in the loop */

static inline unsigned sr_link_events(struct sr_link *link)
{
	return atomic_load_explicit(&link->events, memory_order_acquire);
}

static inline bool sr_link_same_core(struct sr_link *link)
{
	return link->ops->same_core && link->ops->same_core(link);
}

/* Sets bits; true if one was not set before.  For the kinds. */
bool sr_link_raise(struct sr_link *link, unsigned bits);

/* The kinds' common work on a decoded message that is not theirs alone
 * (HELLO, PROOF, SWITCH, DRAIN, ACKSW, END, ACKEND, BACK): fills fields, raises the
 * bit.  0, or -EPROTO: sent twice or out of order (drop the link). */
int sr_link_take(struct sr_link *link, const struct sr_msg *msg);

/* For ctl(): may this message be sent now?  Notes it in `said`; for SWITCH
 * sets tx_w = tx_acked = N.  0; -EPIPE: DEAD; -EINVAL: twice (a bug above). */
int sr_link_say(struct sr_link *link, const struct sr_msg *msg);

/* A fresh link with one reference, memory from calloc(size), size being that
 * of the kind's struct, whose first member is the link.  NULL: no memory. */
struct sr_link *sr_link_new(const struct sr_link_ops *ops, size_t size,
			    enum sr_role role, uint32_t link_no, void *owner,
			    void (*notify)(struct sr_link *, unsigned));

/* ---- process-wide memory limit (SOCKRAIL_MEMORY) ---- */
bool sr_memory_take(size_t bytes);	/* any */
void sr_memory_give(size_t bytes);	/* any */
size_t sr_memory_used(void);

#endif
