/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * parts.h - the parts of a stream: its two directions, its side in the loop, its way to
 * a link.  Only impl.h includes this; who may touch what is said there.
 */
#ifndef SR_PARTS_H
#define SR_PARTS_H

#include <stdatomic.h>

#include "base/loop.h"
#include "base/report.h"
#include "link/link.h"
#include "pure/history.h"
#include "pure/switch.h"

struct sr_wait_node;
struct sr_epoll_entry;

/* Sending.  tx_lock, but for the atomic ones. */
struct sr_out {
	atomic_uint gate;
	atomic_uint calls;
	_Atomic uint64_t tcp;	/* bytes written to the anchor */
	_Atomic uint64_t plain;	/* the program's, once TCP's for good */
	struct sr_link *link;
	int64_t delta;		/* gate open: tx.w = tcp + delta */
	uint64_t n;		/* N of the switch in use */
	uint64_t way[SR_WAYS];
	unsigned switches;
	_Atomic size_t held;	/* bytes the link was asked to hold back */
	uint64_t held_ns;	/* since when */
	uint64_t widen_by;	/* ns: so long sends that must not block wait for room */
	_Atomic uint64_t lost_ns; /* since when the peer seems killed, but not by TCP */
	uint64_t wait_since;	/* ns: in WAIT */
	unsigned record_at;	/* bytes of tx.record already in TCP */
	_Atomic(struct sr_link *) next; /* a proven link to switch to (SR_GATE_WANT) */
	uint8_t next_token[SR_TOKEN_LEN];
	atomic_bool on_send;	/* next waits for the program's next send */
	uint64_t started;	/* ns: next was set; loop */
	atomic_bool broken;	/* reset: every send is EPIPE */
	atomic_bool full;	/* a sender, or a poll, found no room */
	atomic_bool held_off;	/* a poll was told so in mid-switch */
	char had[SR_REPORT_LINK]; /* the last link, for the report */
	struct sr_history history;
};

/* Receiving.  rx_lock, but for the atomic ones. */
struct sr_in {
	atomic_uint gate;
	atomic_uint calls;
	_Atomic uint64_t tcp;	/* bytes read from the anchor */
	_Atomic uint64_t plain;	/* the program's, once TCP's for good */
	struct sr_link *link;
	int64_t delta;		/* gate open: rx.rx = tcp + delta */
	_Atomic uint64_t due;	/* a SWITCH waits for tcp to be this; or 0 */
	uint64_t short_of;	/* bytes it waited for when last looked at */
	uint8_t pushback[2 * SR_RECORD_LEN]; /* the program's, already off TCP */
	unsigned pushback_at, pushback_len;
	uint64_t way[SR_WAYS];
	unsigned switches;
	bool fin_seen;		/* TCP's FIN or RST has been read */
	bool rst_seen;		/* the latter, with bytes on the link before it */
	bool disconnected;	/* the anchor is disconnected: back.c */
	char had[SR_REPORT_LINK];
	struct sr_history history;
	struct sr_history shown; /* history and what lies unread */
};

/* The service thread's view; the thread itself, but for kicked (kick.c). */
struct sr_loop_side {
	struct sr_task task;
	atomic_bool kicked;
	struct sr_watch watch;	/* of the anchor */
	atomic_int watched_fd;	/* -1: not watched */
	atomic_uint watched;	/* events armed */
	struct sr_timer timer;
	bool timed;
};

enum { VERDICT_NONE, VERDICT_PENDING, VERDICT_YES, VERDICT_NO };

#define SR_ANSWERED UINT64_MAX

/* On the way to a link.  The service thread's, but for the atomic ones. */
struct sr_attach {
	struct sr_ask ask;
	bool asking;
	unsigned kind;		/* place in the order of kinds being asked */
	unsigned asks;		/* since it last had a link */
	_Atomic uint64_t next_ask_ns;
	_Atomic uint64_t asked_ns; /* a link was asked for; SR_ANSWERED: and made */
	atomic_int verdict;	/* of the attempt under way: VERDICT_ */
	_Atomic(struct sr_link *) att; /* being attached, or in use */
	uint8_t token[SR_TOKEN_LEN]; /* ours, on att or the link in use */
	bool hello, showed, checked, proven; /* of the handshake on att */
	bool started;		/* our direction's switch was begun on att */
	bool took;		/* its SWITCH is dealt with */
	uint64_t since;		/* ns: att was made */
	uint64_t hello_tx, hello_rx; /* what our hello said we have */
	uint64_t known_tx, known_rx; /* what the peer must have */
	int proofs_failed;
	uint64_t due_since, due_seen, due_seen_ns; /* its SWITCH waits */
	bool due_said;		/* DRAIN */
	void *listener[2];	/* rendezvous, by kind */
	atomic_int children;	/* LISTEN: accepted and not yet gone */
	struct sr_stream *parent; /* ACCEPT: the listener */
};

#endif
