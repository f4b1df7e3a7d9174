/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ops.h - what each kind of link does in its own way.  link.h says which threads
 * may call what: loop, tx, rx, any.  How two ends find each other is in
 * rendezvous.h.
 */
#ifndef SR_LINK_OPS_H
#define SR_LINK_OPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/report.h"

struct sr_hello;
struct sr_link;
struct sr_msg;

/* A piece of a ring. */
struct sr_piece {
	uint8_t *at;
	size_t left;
};

#define SR_ID_MAX 64		/* bytes of a link's identity */

/* An epoll set that watches a descriptor of several links, which the kernel's set takes only once.
 * `doors' are the set's entries that rely on it; the lock is the set's. */
struct sr_watcher {
	const void *set;	/* NULL: none */
	int fd;
	struct sr_watch_door {
		struct sr_watch_door *next, **pprev;
	} *doors;
};

/* Whether a link's peer must prove that it has the other end of the stream, by the stream's
 * history. */
enum sr_proof {
	SR_PROOF_POLICY,	/* in policy lazy; the others trust the two hosts */
	SR_PROOF_NONE,		/* the kernel has said that it has */
	SR_PROOF_ALWAYS,
};

struct sr_link_ops {
	const char *name;	/* "shm", "verbs" */
	enum sr_way way;	/* the same, for counting */

	/* Fills in the ring of our hello.  NULL: it has none.  loop. */
	void (*hello)(struct sr_link *link, struct sr_hello *hello);

	/* The link's identity (QPNs and GIDs), which the proof includes: the same at both
	 * ends, and different from that of any other link.  Returns its
	 * length.  NULL if no link of the kind needs a proof.  loop, UP. */
	size_t (*identity)(struct sr_link *link, uint8_t id[SR_ID_MAX]);

	/* The peer has proven that it holds the stream: our end has verified its proof or its
	 * mark.  NULL: the kind does not need to know.  any. */
	void (*proven)(struct sr_link *link);

	/*
	 * Sends one of HELLO, SHARE, PROOF, SWITCH, ACKSW, END, ACKEND, in
	 * order with data committed before.  Never blocks and never lacks
	 * credit: room is reserved, as each is sent once.  Fills in msg->ack.
	 * SWITCH{N} also sets tx_w = tx_acked = N.  Returns 0 or -EPIPE (DEAD).
	 * any.
	 */
	int (*ctl)(struct sr_link *link, struct sr_msg *msg);

	/* Finds free space for bytes from tx_w on, in at most two pieces.
	 * Returns their sum; 0, without pieces, if it is DEAD, there is no credit, or
	 * too little space to be worth one.  It may take in credit without notify().
	 * tx. */
	size_t (*tx_room)(struct sr_link *link, struct iovec v[2]);

	/*
	 * For a non-blocking send, when tx_room() has found nothing: a smaller space is
	 * enough, because over TCP such a send takes what fits.  Returns as tx_room() does.
	 * Until tx_room() finds room again, further calls find only what is left of the
	 * space that was free at the first call.  Otherwise a sender that tries again and
	 * again would fill each piece that the reader frees, however small.  poll(2) does
	 * not report this space as room, and no thread is woken for it.  NULL: what
	 * tx_room() leaves is never worth it.  tx.
	 */
	size_t (*tx_rest)(struct sr_link *link, struct iovec v[2]);

	/* Is there no room only because the ring is new, and will the peer
	 * probably offer a larger one at once?  NULL: no.  tx. */
	bool (*tx_widens)(struct sr_link *link);

	/* Sends the n bytes that were put into the free space.  more: further bytes
	 * follow at once, so these may be held back; a commit without more, even of
	 * 0 bytes, sends them.  tx. */
	void (*tx_commit)(struct sr_link *link, size_t n, bool more);

	/* Finds the bytes [from, tx_w), from >= tx_acked, which a switch back
	 * sends again.  Also when DEAD.  Returns how many bytes the two pieces
	 * have; if these are not all, call again for the rest.  tx. */
	size_t (*tx_retained)(struct sr_link *link, uint64_t from,
			      struct iovec v[2]);

	/* How far the peer's host has received what tx_commit() sent, tx_acked
	 * <= result <= tx_w: what TCP's ACK says.  poll() moves it on.  tx. */
	uint64_t (*tx_arrived)(struct sr_link *link);

	/* Finds received bytes from rx_taken + skip on, in at most two pieces.
	 * Also when DEAD.  Returns their number, 0 if there are none.  rx. */
	size_t (*rx_data)(struct sr_link *link, size_t skip,
			  struct iovec v[2]);

	/* For the fast path.  Returns how many received bytes there are
	 * from rx_taken on, of which `piece` is the beginning; 0 if there are no
	 * bytes and nothing else has come; -1 if something else may have come, so
	 * that the caller has to call poll() and rx_data().  A kind may look for
	 * arrivals as poll() does, and then calls notify() as poll() does (verbs);
	 * shared memory does not, so rx_h stays behind.  NULL: always -1.  rx. */
	ssize_t (*rx_look)(struct sr_link *link, struct sr_piece *piece);

	/* The program took n bytes: moves rx_taken on and returns credit to the
	 * peer, in batches.  rx. */
	void (*rx_free)(struct sr_link *link, size_t n);

	/* rx_over() tells the peer that our program takes no more bytes (TCP would answer
	 * them with a reset).  tx_over(): had the peer's program said so before the last
	 * commit?  The two are a store-load pair: either tx_over() after a tx_commit() is
	 * true, or a look for bytes after rx_over() finds those of that commit.  NULL: the
	 * peer learns it only by the reset.  rx, tx. */
	void (*rx_over)(struct sr_link *link);
	bool (*tx_over)(struct sr_link *link);

	/* Called when TCP has ended.  Takes in all that the peer has put on the link by
	 * then, also when DEAD.  Returns true if the peer's program has sent no more
	 * than that.  NULL: unknown.  rx. */
	bool (*rx_last)(struct sr_link *link);

	/* Called when this process ends.  Bytes that were committed, and END, outlive it:
	 * the peer can still read them, but sends nothing back.  resent: TCP has all of
	 * these bytes, too.  Returns false if the peer has given the link up and relies
	 * on TCP.  NULL: the bytes do not outlive the process.  any. */
	bool (*leave)(struct sr_link *link, bool resent);

	/* After LEFT: has the peer put all that it sent into TCP, too?  rx. */
	bool (*rx_resent)(struct sr_link *link);

	/* tx_unmarked() tells the peer that we have given up the switch to this link, and
	 * that no mark is in TCP, nor will be; also when DEAD.  rx_unmarked(): has the
	 * peer said so?  NULL: it cannot be told.  tx, rx. */
	void (*tx_unmarked)(struct sr_link *link);
	bool (*rx_unmarked)(struct sr_link *link);

	/* Looks for arrivals and completions; never sleeps.  any. */
	void (*poll)(struct sr_link *link);

	/* Called before a sleep.  want: SR_NOTIFY_RX and/or _TX.  From now on
	 * what is wanted makes the returned fd readable when it arrives, or calls
	 * notify() if there is no fd to watch (-1).  The caller calls poll()
	 * before it sleeps, and awake() afterwards, whether it slept or not.
	 * Several threads may be between arm() and awake() on one link.  any. */
	int (*arm)(struct sr_link *link, unsigned want);

	/* Called between arm() and the sleep by a caller that watches nothing
	 * else.  Returns a word of shared memory on which the caller may sleep by
	 * futex(2), instead of on the fd, as long as the word has all bits of want.
	 * Returns NULL if the peer is not trusted with it.  The pointer may be NULL.
	 * any. */
	_Atomic uint32_t *(*futex)(struct sr_link *link, unsigned want);

	/* Called after arm(): disarms, and looks for arrivals.  watched: arm() has
	 * returned a fd.  slept: the fd has become readable, so awake() drains it.
	 * any. */
	void (*awake)(struct sr_link *link, unsigned want, bool watched, bool slept);

	/*
	 * Called before a busy wait: does the peer's thread run on this core, as far
	 * as is known?  Then it cannot run while this thread spins.  NULL: not known.
	 * any.
	 */
	bool (*same_core)(struct sr_link *link);

	/*
	 * Arms the link once for an epoll set, which is a sleeper but no thread.
	 * The next arrival of what is wanted makes the returned fd readable
	 * (edge-triggered: the set does not drain it), or calls notify() if there is no
	 * fd (-1).  The caller calls poll() afterwards.  Later arrivals are not reported
	 * before the next arm_once(); there is nothing to disarm.  want 0: only returns
	 * the fd.  SR_ARM_DATA in want: only bytes and room have to make the fd readable.
	 * Messages need not, because the service thread hears of them anyway and calls
	 * notify().  A kind may ignore that bit.  any.
	 */
	int (*arm_once)(struct sr_link *link, unsigned want);

	/*
	 * For links that share a descriptor; NULL: those of the kind do not.  Called before the
	 * set arms the link for the first time.  Returns the place of the set among those that
	 * watch the descriptor: arrivals of all these links make it readable (edge-triggered),
	 * and the set calls rang() then.  NULL: what arm_once() says about its fd holds.  set
	 * NULL: the set does not want to watch a shared descriptor.  unwatch(): it has no door
	 * there any more.  any, with the set's lock held.
	 */
	struct sr_watcher *(*watch)(struct sr_link *link, const void *set);
	void (*unwatch)(struct sr_link *link, struct sr_watcher *w);

	/* The shared descriptor has become readable in a set: looks for arrivals of all its
	 * links, and calls notify().  As long as a link is armed the next arrival makes it
	 * readable again.  any. */
	void (*rang)(struct sr_link *link);

	/* Maintenance that the kind asks for by SR_NOTIFY_WORK.  work() grows rings
	 * (loop).  tx_work() does what must not happen while a thread fills the ring
	 * (loop and tx).  Both may be NULL. */
	void (*work)(struct sr_link *link);
	void (*tx_work)(struct sr_link *link);

	/* Gives the link up, both directions: nothing more is sent on it or
	 * taken from it, the peer will find out, and DEAD is set.  Idempotent.
	 * any. */
	void (*drop)(struct sr_link *link, const char *reason);

	/* Frees everything after the last reference is gone.  loop. */
	void (*free)(struct sr_link *link);

	/* The size of the ring by which bytes are sent, or received.  tx, or rx. */
	size_t (*ring)(struct sr_link *link, bool tx);
};

extern const struct sr_link_ops sr_link_shm, sr_link_verbs;

#endif
