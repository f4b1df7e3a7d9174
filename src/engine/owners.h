/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owners.h - the processes that hold a stream's descriptor.
 *
 * A stream has one owner, or it has a slot (base/family.h), which counts them.  As
 * long as there are several, sr_is_shared(), no process begins a switch, and a close
 * is close(2) and no more (PROTOCOL.md, "Several owners").
 *
 * A direction that is not plain at a fork stays with the parent, as it is; in the
 * child it is a guest's.  The child may close the descriptor and ask what the kernel
 * knows of the socket.  Before it uses the direction it asks the parent to return to
 * TCP, and waits (upgrade/guest.c).  Until then the direction's gate in the child is shut,
 * without a link, and its state machine is in a final state.
 *
 * fork writes nothing into the child's streams, as each page would have to be copied for
 * that: a stream is made the child's when the child first looks it up (stream.c).  What
 * the child never looks up stays as the parent left it, and is out of everybody's reach.
 *
 * In the slot, SR_NOTIFY_RX and _TX stand for the directions.
 */
#ifndef SR_OWNERS_H
#define SR_OWNERS_H

#include "engine/impl.h"

enum {
	SR_OWNERS_BOTH = SR_NOTIFY_RX | SR_NOTIFY_TX,
	/* Further bits of a slot's `given'. */
	SR_OWNERS_LOST = 1 << 8,  /* it will not be TCP's again */
	SR_OWNERS_SENDS = 1 << 9, /* TCP has yet to take what the parent had sent */
};

/* fork is about to copy the stream, whose locks nobody holds.  rang: see
 * sr_doorbell_open(). */
void sr_owners_share(struct sr_stream *st, void (*rang)(void));
/* The stream is made the child's, with fresh locks. */
void sr_owners_inherit(struct sr_stream *st);
/* The same as share and leave, of a stream that has not been made this process's. */
void sr_owners_share_heir(struct sr_stream *st);
void sr_owners_leave_heir(struct sr_stream *st, bool ends);

/* This process gives the stream up.  Tells the guests for the last time what they may have of the
 * directions that were this process's.  Both locks held, or nobody else uses it. */
void sr_owners_leave(struct sr_stream *st);

/* pause: exec is about to begin, and the process no longer counts as an owner.  (The new program
 * does not have the stream if its descriptor is close-on-exec; otherwise the stream is SHARED.)
 * resume: the exec has failed.  For sr_streams_walk(). */
void sr_owners_pause(struct sr_stream *st, void *unused);
void sr_owners_resume(struct sr_stream *st, void *unused);

/* The directions that are TCP's.  Both locks held. */
unsigned sr_owners_tcp_dirs(struct sr_stream *st);
/* Tells the guests which directions they may have.  Both locks held. */
void sr_owners_give(struct sr_stream *st, unsigned given);

/* The report and the counters begin anew.  Both locks held. */
void sr_owners_recount(struct sr_stream *st, unsigned dirs);

#endif
