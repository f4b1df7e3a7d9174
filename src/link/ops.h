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

struct sr_link_ops {
	const char *name;	/* "shm", "verbs" */
	enum sr_way way;	/* the same, for counting */
	/* The kernel has said that both ends of the link have the two ends of one TCP
	 * connection: neither shows its history. */
	bool vouched;

	/* Fills in the ring of our hello.  NULL: it has none.  loop. */
	void (*hello)(struct sr_link *link, struct sr_hello *hello);

	/* The link's identity, to be bound into the proof: the same at both
	 * ends and unlike that of any other link (QPNs and GIDs).  Returns its
	 * length.  NULL if vouched.  loop, UP. */
	size_t (*identity)(struct sr_link *link, uint8_t id[SR_ID_MAX]);

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
	 * Called when tx_room() has found nothing, for a send that may not wait: less
	 * space is enough, because over TCP such a send takes what fits.  It
	 * finds the space that is free at the first of these calls; what is freed later it
	 * leaves to tx_room(), which needs more.  Otherwise a sender that tries again and
	 * again would fill each piece that the reader frees, however small.  This space is no
	 * room for poll(2), nor for a thread that sleeps.  NULL: tx_room() leaves too little
	 * to be worth it.  tx.
	 */
	size_t (*tx_rest)(struct sr_link *link, struct iovec v[2]);

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

	/* Our program takes none of the bytes that come from now on: says so, as a reset
	 * will answer them.  Has the peer's program said so before the last commit?
	 * A pair: tx_over() is true behind a tx_commit(), or else a look behind rx_over()
	 * finds its bytes.  NULL: only the reset tells.  rx, tx. */
	void (*rx_over)(struct sr_link *link);
	bool (*tx_over)(struct sr_link *link);

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

	/* The switch to this link was given up, and no mark is in TCP, nor will be: says
	 * so, also when DEAD; did the peer say so?  NULL: it cannot.  tx, rx. */
	void (*tx_unmarked)(struct sr_link *link);
	bool (*rx_unmarked)(struct sr_link *link);

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
	 * shared), as long as the word holds all bits of want; NULL: the peer is not
	 * trusted with it.  May be NULL.  any. */
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
	 * before the next arm_once(); there is nothing to disarm.  want 0: only
	 * returns the fd.  With SR_ARM_DATA in want the peer's messages, which are no bytes
	 * and no room, need not make the fd readable, because the service thread hears
	 * of them anyway and calls notify(); a kind may ignore it.  any.
	 */
	int (*arm_once)(struct sr_link *link, unsigned want);

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

	/* The size of the ring by which bytes are sent, or received.  tx, or rx. */
	size_t (*ring)(struct sr_link *link, bool tx);
};

extern const struct sr_link_ops sr_link_shm, sr_link_verbs;

#endif
