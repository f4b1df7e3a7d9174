/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * parts.h - the parts of a stream: its two directions, its side in the loop, its way to a
 * link.  Only impl.h includes this file, and lists the locks.
 */
#ifndef SR_PARTS_H
#define SR_PARTS_H

#include <stdatomic.h>

#include "base/family.h"
#include "base/lock.h"
#include "base/loop.h"
#include "base/report.h"
#include "base/spin.h"
#include "engine/listener.h"
#include "link/link.h"
#include "link/rendezvous.h"
#include "pure/history.h"
#include "pure/switch.h"

struct sr_wait_node;
struct sr_epoll_entry;

/* Sending.  tx_lock protects what is not atomic. */
struct sr_out {
	atomic_uint gate;
	atomic_uint calls;	/* of both directions, while plain */
	_Atomic uint64_t tcp;	/* bytes written to the anchor */
	struct sr_link *link;
	int64_t delta;		/* while the gate is open, tx.w = tcp + delta */
	uint64_t way[SR_WAYS];
	uint64_t before;	/* bytes that are not this process's: before a fork */
	unsigned switches;
	unsigned stalls;	/* sends that found no room */
	unsigned failovers;	/* returns to TCP because of a dead link */
	_Atomic size_t held;	/* bytes that the link holds back */
	uint64_t held_ns;	/* ns: when `held` became nonzero */
	uint64_t widen_by; /* ns: sends wait until then for a ring that grows */
	_Atomic uint64_t lost_ns; /* ns: when the peer seemed lost */
	uint64_t wait_since;	/* ns: when state WAIT began */
	unsigned record_at;	/* bytes of tx.record already in TCP */
	_Atomic(struct sr_link *) next; /* the proven link to switch to once the gate can be shut */
	atomic_bool on_send;	/* `next` waits for the program's next send */
	uint64_t started;	/* ns: our direction switched; loop */
	atomic_bool broken;	/* reset: every send fails with EPIPE */
	atomic_bool full;	/* a send or a poll found no room on the link */
	atomic_bool held_off;	/* a poll found no room because of a switch */
	char had[SR_REPORT_LINK]; /* the last link, for the report */
};

/* Receiving.  rx_lock protects what is not atomic. */
struct sr_in {
	atomic_uint gate;
	_Atomic uint64_t tcp;	/* bytes read from the anchor */
	struct sr_link *link;
	int64_t delta;		/* gate open: rx.rx = tcp + delta */
	_Atomic uint64_t due;	/* value of `tcp' at which a waiting SWITCH is taken, or 0 */
	uint8_t pushback[2 * SR_RECORD_LEN]; /* read before the program asked */
	unsigned pushback_len;
	_Atomic uint64_t part_ns; /* ns: since when a part of a record is here, or 0 */
	uint64_t way[SR_WAYS];
	uint64_t before;
	unsigned switches;
	bool fin_seen;		/* TCP's FIN or RST has been read */
	bool disconnected;	/* upgrade/back.c disconnected the anchor */
	atomic_bool dropped;	/* bytes that had come were dropped: the end is a reset */
	char had[SR_REPORT_LINK];
};

/* The loop's view; only the service thread uses what is not atomic (kick.c). */
struct sr_loop_side {
	struct sr_task task;
	struct sr_watch watch;	/* watches the anchor */
	atomic_bool watching;	/* the loop has the anchor, */
	atomic_uint watched;	/* with these events armed */
	struct sr_timer timer;
	bool timed;
};

/* What ended it. */
struct sr_err {
	atomic_int pending;	/* reported once, as SO_ERROR does */
	/* `pending` was set for the reset, or SO_ERROR has returned it. */
	atomic_bool reported;
	atomic_int ended;	/* errno that ended it, for the report */
};

/* The epoll sets that contain it (epoll/impl.h). */
struct sr_sets {
	struct sr_mutex lock;
	_Atomic(struct sr_epoll_entry *) first;
	atomic_int nested;	/* linked entries in sets that are waited for (epoll/nest.c) */
};

/* Who waits for it (waiters.h), and how (wait/sleep.c). */
struct sr_waits {
	struct sr_mutex lock;
	_Atomic(struct sr_wait_node *) first;
	struct sr_spin spin;
	_Atomic uint64_t mode, mode_changes;
	atomic_uint unlooked; /* polls to come that do not look first (wait/poll.c) */
};

/* What few streams need, in pages apart from those of the rest (stream.c).  Not cleared
 * when the memory becomes another stream. */
struct sr_rare {
	struct sr_history in, out; /* what went over TCP before a link (history.c) */
	struct sr_history ahead; /* in, and what is unread (upgrade/prove.c) */
	struct sockaddr_storage local, peer; /* with SR_ST_NAMED; local: LISTEN, too */
	struct sr_name name;	/* with SR_ST_NAMED */
	struct sr_ask ask;	/* the service thread's */
};

/* The other processes that hold it (owners.h). */
struct sr_owned {
	/* NULL: this process alone holds it.  sr_owners_share() publishes it to the other threads
	 * of the process that forks; they observe it. */
	_Atomic(struct sr_slot *) slot;
	/* Directions that are on the parent's link.  upgrade/guest.c takes one over, and then
	 * clears its bit with a release; a thread that observes the word sees the direction so. */
	atomic_uint guest;
};

/* The proof that a link is the stream's (upgrade/prove.c).  loop. */
struct sr_proving {
	uint64_t hello_tx, hello_rx; /* byte counts in our hello */
	uint64_t known_tx, known_rx; /* bytes the peer must be able to show */
	uint64_t stock_tx, stock_rx; /* bytes that our hello waits for */
	uint64_t stock_ns;	/* since when the program has not read */
	uint64_t stock_moved;	/* bytes of both directions then */
	bool able;		/* we have libsodium, as our hello says */
	bool ahead;		/* rare->ahead takes the place of rare->in */
	struct sr_pake pake;
	uint8_t tag[2][SR_TAG_LEN]; /* of the asker, of the answerer; once SHARE came */
	bool keyed;
};

/* asker.h says what they are.  In the first two a call may ask; the next four are pending. */
enum sr_ask_state {
	SR_ASK_IDLE,
	SR_ASK_PAUSED,
	SR_ASK_CLAIMED,
	SR_ASK_WANTED,
	SR_ASK_ASKING,
	SR_ASK_SHAKING,
	SR_ASK_LINKED,
	SR_ASK_BROKEN,
	SR_ASK_OVER,
};

#define SR_ANSWERED UINT64_MAX

/* The way to a link.  Only the service thread uses what is not atomic. */
struct sr_attach {
	atomic_int state;	/* enum sr_ask_state: sr_ask_move() */
	atomic_int outcome;	/* enum sr_reason: sr_ask_ended() */
	unsigned kind;		/* ASKING: index of the link kind to ask for next */
	bool heard;		/* a process of the peer has answered */
	unsigned asks, breaks;	/* asks since the stream last had a link; links that broke */
	_Atomic uint64_t next_ask_ns;
	_Atomic uint64_t asked_ns; /* ns: of the ask; or SR_ANSWERED */
	_Atomic(const void *) domain; /* the set that is to wait for it, as the ask began; or NULL */
	atomic_bool alone;	/* its link is to share nothing: as the ask began */
	_Atomic(struct sr_link *) att; /* SHAKING, LINKED: the link */
	uint8_t token[SR_TOKEN_LEN]; /* the token we chose for `att` */
	bool checked, proven;	/* the handshake on att */
	bool started;		/* our direction's switch has begun on `att` */
	bool took;		/* the peer's SWITCH on `att` was handled */
	uint64_t since;		/* ns: when `att` was made */
	struct sr_proving proving;
	_Atomic uint64_t promises; /* options that a link cannot carry (upgrade/promise.c) */
	atomic_bool tclass_set;	/* the program has set an option of upgrade/tclass.c */
	uint8_t tclass;		/* of the link that is asked for, or in use; loop */
	atomic_uint guesses;	/* failed proofs of peers, on all its links (upgrade/prove.c) */
	uint64_t due_seen, due_seen_ns; /* while SWITCH waits */
	atomic_bool claimed;	/* ACCEPT: upgrade/claim.c */
	struct sr_listener *listener; /* ACCEPT: it came from there; holds its socket */
};

#endif
