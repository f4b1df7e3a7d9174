/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link.h - a link carries a stream beside its anchor: two rings (one for each
 * direction), credit, and small messages.  How bytes get there is left to the
 * kind of link (shm/, verbs/).  The engine knows only this header.
 *
 * Offsets are absolute and count the program's bytes of a direction; byte k of
 * a direction is at ring[k & (size - 1)].
 *
 * A link is made, becomes UP, carries messages and data, becomes DEAD, and is
 * freed.  Both directions live and die together; a dead link never comes back,
 * but its memory (received bytes, retained bytes) stays readable until it is
 * freed.
 *
 * Threads.  "loop": only the service thread (loop.h).  "tx": the caller holds
 * the stream's tx_lock.  "rx": the rx_lock.  "any": no lock needed.  The kind
 * calls notify() from whatever thread moved the link forward (also from inside
 * poll(), tx_commit(), rx_free(), ctl()), so notify() takes no stream lock.
 * The kind calls it with none of its own locks held that tx_, rx_ or ctl()
 * functions need.
 */
#ifndef SR_LINK_H
#define SR_LINK_H

#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "pure/wire.h"

/* What arrived.  Each happens at most once in a link's life: a second one
 * violates the protocol and kills the link.  The fields named here are written
 * before the bit. */
enum {
	SR_LINK_UP = 1 << 0,	/* messages may be sent */
	SR_LINK_HELLO = 1 << 1,	/* peer_hello */
	SR_LINK_PROOF = 1 << 2,	/* peer_proof */
	SR_LINK_SWITCH = 1 << 3,	/* peer_switch; rx_h, rx_taken are set to N */
	SR_LINK_ACKSW = 1 << 4,
	SR_LINK_END = 1 << 5,	/* peer_end */
	SR_LINK_ACKEND = 1 << 6,
	SR_LINK_BACK = 1 << 7,	/* the peer asks us to switch our direction back */
	SR_LINK_DEAD = 1 << 8,	/* error or drop; `reason` says why */
	SR_LINK_DRAIN = 1 << 9,	/* ACKSW waits until the peer's program reads */
	SR_LINK_LEFT = 1 << 10,	/* DEAD because the peer's process ends (leave()) */
	SR_LINK_LOST = 1 << 11,	/* DEAD, probably because it was killed (shm) */
};

/* Why notify() is called. */
enum {
	SR_NOTIFY_RX = 1 << 0,	/* rx_h grew, or END */
	SR_NOTIFY_TX = 1 << 1,	/* room to write, or tx_acked grew */
	SR_NOTIFY_CTL = 1 << 2,	/* a bit in events was set */
	SR_NOTIFY_WORK = 1 << 3, /* work() must be called in the loop */
};

struct sr_ask;
struct sr_request;

#define SR_THERE "there"
#define SR_THERE_LEN 20		/* with the final 0 */
#define SR_THERE_MOST 3		/* so often an asker lets itself be sent elsewhere */

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
	void *owner;		/* the stream; no reference: notify() may come late */
	struct sr_link *next_free; /* link.c: list of links to free in the loop */

	atomic_uint events;	/* SR_LINK_ bits, only ever set */
	atomic_uint said;	/* 1 << sr_msg_type for each message ctl() has sent */
	const char *reason;	/* a word of reasons.def once DEAD, or NULL */
	struct sr_hello peer_hello;
	uint8_t peer_proof[SR_DIGEST_LEN];
	struct sr_switch peer_switch;
	uint64_t peer_end;

	/* The free bytes from tx_w on that may be filled and committed without
	 * a call of tx_room().  The kind sets this and moves it on.  tx */
	struct sr_piece tx_piece;

	_Atomic uint64_t rx_h;	/* received so far, including bytes in the ring; may
				 * lag behind rx_taken if rx_look() is used */
	_Atomic uint64_t rx_taken; /* taken by our program (rx_free) */
	_Atomic uint64_t tx_w;	/* given to the link (tx_commit) */
	_Atomic uint64_t tx_acked; /* taken by the peer's program, as the peer
				    * claims; the kind checks that it never decreases
				    * and is <= tx_w */
};

struct sr_link_ops {
	const char *name;	/* "shm", "verbs" */
	/* The kernel has said that both ends of the link have the two ends of one TCP
	 * connection: neither shows its history. */
	bool vouched;

	/* Fills in the ring and slots of our hello.  NULL: it has none.  loop. */
	void (*hello)(struct sr_link *link, struct sr_hello *hello);

	/* The link's identity, to be bound into the digest: the same at both
	 * ends and unlike that of any other link (QPNs and GIDs).  Returns its
	 * length, at most 64.  NULL if vouched.  loop, UP. */
	size_t (*identity)(struct sr_link *link, uint8_t id[64]);

	/*
	 * Sends one of HELLO, PROOF, SWITCH, DRAIN, ACKSW, END, ACKEND, BACK, in
	 * order with data committed before.  Never blocks and never lacks
	 * credit: room is reserved, as each is sent once.  Fills in msg->ack
	 * and ->slots.
	 * SWITCH{N} also sets tx_w = tx_acked = N.  Returns 0 or -EPIPE (DEAD).
	 * any.
	 */
	int (*ctl)(struct sr_link *link, struct sr_msg *msg);

	/* Finds free space for bytes from tx_w on, in at most two pieces.
	 * Returns their sum, 0 if there is no credit or too little space to be
	 * worth a piece.  tx. */
	size_t (*tx_room)(struct sr_link *link, struct iovec v[2]);

	/* Is there no room only because the ring is new, and will the peer
	 * probably offer a larger one at once?  NULL: no.  tx. */
	bool (*tx_widens)(struct sr_link *link);

	/* Sends n bytes that were put into the free space.  more: others follow
	 * at once, so small ones may be held back (a commit of 0 without more
	 * sends them).  tx. */
	void (*tx_commit)(struct sr_link *link, size_t n, bool more);

	/* Finds the bytes [from, tx_w), from >= tx_acked, which a switch back
	 * sends again.  Also when DEAD.  Returns their number, which may be
	 * less than all (two pieces): call again from there.  tx. */
	size_t (*tx_retained)(struct sr_link *link, uint64_t from,
			      struct iovec v[2]);

	/* How far the peer's host has received what tx_commit() sent, tx_acked
	 * <= result <= tx_w: what TCP's ACK says.  poll() moves it on.  tx. */
	uint64_t (*tx_arrived)(struct sr_link *link);

	/* Finds received bytes from rx_taken + skip on, in at most two pieces.
	 * Also when DEAD.  Returns their number, 0 if there are none.  rx. */
	size_t (*rx_data)(struct sr_link *link, size_t skip,
			  struct iovec v[2]);

	/* The look of the fast path.  Returns how many received bytes there are
	 * from rx_taken on, of which `piece` is the beginning; 0 if there are
	 * none and the reader has nothing else to learn; -1 for something
	 * unusual, which poll() and rx_data() have to examine.  Changes no
	 * state and calls no notify().  NULL: always -1.  rx. */
	ssize_t (*rx_look)(struct sr_link *link, struct sr_piece *piece);

	/* The program took n bytes: moves rx_taken on and returns credit to the
	 * peer, in batches.  rx. */
	void (*rx_free)(struct sr_link *link, size_t n);

	/* TCP has ended.  Takes in what the peer has put on the link until
	 * then, also when DEAD.  Returns true if that is all that the peer's
	 * program had sent.  NULL: unknown.  rx. */
	bool (*rx_last)(struct sr_link *link);

	/* This process ends; committed bytes and END outlive it, and the peer
	 * can still read them, but sends nothing back.  Returns false if the
	 * peer has given the link up and relies on TCP.  resent: TCP has all of
	 * the bytes too.  NULL: they do not outlive the process.  any. */
	bool (*leave)(struct sr_link *link, bool resent);

	/* LEFT: does TCP have all that the peer sent?  rx. */
	bool (*rx_resent)(struct sr_link *link);

	/* Looks for arrivals and completions; never sleeps.  any. */
	void (*poll)(struct sr_link *link);

	/* Called before a sleep.  want: SR_NOTIFY_RX and/or _TX.  From now on,
	 * an arrival of that sort makes the returned fd readable, or calls
	 * notify() if there is no fd to watch (-1).  The caller calls poll()
	 * before it sleeps, and awake() afterwards, whether it slept or not.
	 * any; several threads may be between arm() and awake() on one link. */
	int (*arm)(struct sr_link *link, unsigned want);

	/* Called between arm() and the sleep, by a caller that watches nothing
	 * else.  Returns a word to sleep on instead of the fd (futex(2),
	 * shared), as long as the word holds all bits of want.  May be NULL.
	 * any. */
	_Atomic uint32_t *(*futex)(struct sr_link *link, unsigned want);

	/* Called after a sleep: disarms, and looks for arrivals.  slept: the fd
	 * was readable, and is drained.  any. */
	void (*awake)(struct sr_link *link, unsigned want, bool slept);

	/*
	 * Before a busy wait: does the peer's thread run on this core, as far as
	 * is known?  Then it cannot run while we look.  May be NULL: not known.
	 * any.
	 */
	bool (*same_core)(struct sr_link *link);

	/*
	 * Arms the link once for a sleeper that is not a thread, an epoll set.
	 * The next arrival of what is wanted makes the returned fd readable (an
	 * edge: nobody drains it), or calls notify() if there is no fd (-1).
	 * The caller calls poll() afterwards.  Later arrivals are not reported
	 * before the next stand(); there is nothing to disarm.  want 0: only
	 * returns the fd.  any.
	 */
	int (*stand)(struct sr_link *link, unsigned want);

	/* Maintenance that the kind asked for with SR_NOTIFY_WORK: work() grows
	 * rings (loop); tx_work() does what needs a ring that nobody is filling
	 * (loop and tx).  Both may be NULL. */
	void (*work)(struct sr_link *link);
	void (*tx_work)(struct sr_link *link);

	/* Gives the link up, both directions: nothing more is sent on it or
	 * taken from it, the peer will find out, and DEAD is set.  Idempotent.
	 * any. */
	void (*drop)(struct sr_link *link, const char *reason);

	/* Frees everything after the last reference is gone.  loop. */
	void (*free)(struct sr_link *link);

	/* The pinned or shared memory (bytes) and the descriptors that the link
	 * holds. */
	void (*usage)(struct sr_link *link, size_t *bytes, int *fds);

	/* In the child of fork: forgets the parent's links, listeners and
	 * requests.  May be NULL. */
	void (*forget)(void);

	/* ---- rendezvous, all in the loop ---- */

	/* Can this kind work on this host at all?  Returns NULL, or a reason
	 * word ("no-device", "no-library", "off").  Cheap; loads nothing. */
	const char *(*usable)(void);

	/* True if it is certain, and found out quickly, that nobody would
	 * answer a request for a link to this address now.  NULL: never.
	 * any. */
	bool (*absent)(const struct sockaddr *to);

	/*
	 * Asks the accepting side of the connection for a link.  done() is
	 * called once, later, unless cancelled: with a link that is UP, or with
	 * NULL and a reason.  Returns 0; or -ENODEV, -ELIBACC (the library
	 * cannot be loaded) or -ENOMEM, and done() is not called.  The peer of
	 * the rendezvous must have the TCP peer's own address, or be on this
	 * host.
	 */
	int (*ask)(struct sr_ask *ask);
	void (*cancel)(struct sr_ask *ask);

	/*
	 * Answers requests for connections accepted on this local address
	 * (0.0.0.0 or :: for any).  there: not where an asker looks first, but at a
	 * place of this process's own, which is stored in there[SR_THERE_LEN] as a
	 * text: refuse(req, SR_THERE " " text) by any process sends the asker of req
	 * there.  *out is for unlisten().  Returns 0 or -errno, as ask() does.
	 */
	int (*listen)(const struct sockaddr *addr, char *there, void **out);
	void (*unlisten)(void *listener);

	/* Answers a request, with req->anchor set.  Returns a new link that is not yet UP; or NULL
	 * and a reason if none could be made, after refusing the asker.  The
	 * reason that refuse() sends goes to the peer's log. */
	struct sr_link *(*accept)(struct sr_request *req, void *owner,
				  void (*notify)(struct sr_link *, unsigned),
				  const char **reason);
	void (*refuse)(struct sr_request *req, const char *reason);
};

struct sr_ask {
	const struct sr_link_ops *ops;
	struct sr_name name;
	struct sockaddr_storage src, dst; /* our and the peer's TCP address */
	int anchor;			/* our socket */
	void *owner;			/* for the link */
	void (*notify)(struct sr_link *link, unsigned what); /* for the link */
	void (*done)(struct sr_ask *ask, struct sr_link *link,
		     const char *reason);
	void *kind;			/* the kind's own */
};

/* An asker's request, in the kind's memory until accept() or refuse(). */
struct sr_request {
	const struct sr_link_ops *ops;
	struct sr_name name;
	int anchor;			/* the upgrade room's: our socket, for accept() */
};

/* Set once by the upgrade room, which handles requests.  loop.
 * sr_link_gone(): the asker left before it was answered; the kind frees the
 * request afterwards. */
extern void (*sr_link_request)(struct sr_request *req);
extern void (*sr_link_gone)(struct sr_request *req);
/* A process without the right to has asked for this connection, and was
 * refused.  loop. */
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

/*
 * Does what all kinds do with a decoded HELLO, PROOF, SWITCH, DRAIN, ACKSW,
 * END, ACKEND or BACK: fills in the fields and raises the bit.  Returns 0, or
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
