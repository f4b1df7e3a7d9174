/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * listener.h - what a listening socket has and a connection has not: its rendezvous, where
 * askers find this process, and how many of the streams that it accepted are left.
 * upgrade/listener.c opens the rendezvous.
 *
 * A program makes a socket before it says by connect(2) or listen(2) what the socket is for.  Until
 * then it may have set options, added the descriptor to epoll sets and forked.  So the descriptor's
 * entry is a struct sr_stream for both, of which a listener uses what belongs to any socket: policy,
 * address, options, epoll sets, owners and references; of the flags those of a socket (flags.h).
 * It is not an object of its own behind a tag: then each call would have to look at the tag of what
 * the table of descriptors has, before it looks whether the direction is fast, and listen(2) would
 * have to replace an entry that other threads and a child of fork may be using.  A listener's two
 * directions stay plain and without a byte.
 *
 * A listener lives as long as its socket, and each accepted stream holds a reference to that
 * (up.listener).  Members that are not atomic are the service thread's.
 */
#ifndef SR_ENGINE_LISTENER_H
#define SR_ENGINE_LISTENER_H

#include <stdatomic.h>
#include <stdint.h>

#include "pure/request.h"

struct sr_keeper;
struct sr_stream;

/* sr_listener.flags */
enum {
	SR_LISTENER_OPENED = 1,		/* who answers has been settled */
	SR_LISTENER_ANSWERED = 2,	/* it is this process, or will be */
	SR_LISTENER_WORTH = 4,		/* one of its streams is worth a link */
	SR_LISTENER_UNAVAILABLE = 8,	/* it has no rendezvous */
	SR_LISTENER_CLAIMED = 16,	/* this process was about to become another user */
	SR_LISTENER_AWAITED = 32,	/* this process accepts, and another one called listen(2) */
};

struct sr_listener {
	struct sr_stream *socket; /* that listens; never another one (stream.c) */
	atomic_uint flags;
	atomic_int children;	/* accepted streams still alive */
	void *rendezvous[SR_KINDS];
	struct sr_keeper *keeper; /* upgrade/keeper.c */
	unsigned watches;	/* times that it has begun to watch the keeper */
	unsigned brief_lines;	/* lines to the keeper that have ended at once, in a row; */
	uint64_t rests_until_ns; /* after some of them no line is made before this time */
	/* What sr_listener_awaited() has opened, until the service thread takes it: */
	atomic_int early_name;	/* the keeper's name: a descriptor + 1, or 0 */
	void *_Atomic early;	/* the rendezvous for shared memory, or NULL */
	atomic_int claims;	/* upgrade/claim.c: a descriptor + 1, or 0 */
	/* For an asker that policy wait holds (upgrade/answer.c): */
	atomic_int awaiting;	/* threads that are in accept(2), poll(2) or select(2) for it */
	_Atomic uintptr_t acceptor; /* sr_hold_thread() of the last one that used it, or 0 */
};

#endif
