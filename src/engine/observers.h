/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * observers.h - what the engine calls in the rooms above it, and what upgrade calls in epoll.
 * These rooms hand their functions down once, before the first stream is made
 * (sr_service_begin()), so that no room below refers to them by name.
 */
#ifndef SR_ENGINE_OBSERVERS_H
#define SR_ENGINE_OBSERVERS_H

#include "engine/impl.h"

/* A stream's epoll sets.  Until they are handed down no stream is in one. */
struct sr_sets_observer {
	/* A gate has been shut, under the direction's lock; the sets know before other
	 * waiters.  False: a set cannot wait for links: reopen the gate. */
	bool (*gate_shut)(struct sr_stream *st);
	void (*gate_opened)(struct sr_stream *st);
	/* A notification for one entry; news: its edges.  waits.lock held. */
	void (*notified)(struct sr_epoll_entry *e, unsigned what, unsigned news);
	/* The stream is retired: the sets drop it.  sets.lock held, gates open. */
	void (*retired)(struct sr_stream *st);
	/* The parent's sets have the stream, the child's have not.  Are there any? */
	bool (*inherited)(struct sr_stream *st);
	/* Do other processes have one of the stream's sets?  Then it gets no link now: it does later
	 * if they go away, or is barred. */
	bool (*lent)(struct sr_stream *st);
	/* Does a thread wait in a set for this listener, or perhaps for another one? */
	bool (*awaits)(struct sr_stream *socket);
	/* The set that the stream was put into first; if it is in none, one in which the calling
	 * thread has waited, which may be gone; NULL: there is none.  *nested: a set that it is in
	 * is nested.  No lock held. */
	const struct sr_epoll *(*domain)(struct sr_stream *st, bool *nested);
};

extern struct sr_sets_observer sr_sets;

/* A kick's work, done in the loop, which ends with sr_stream_put(). */
extern void (*sr_kicked)(struct sr_task *task);

#endif
