/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waiters.h - program threads that sleep until a stream moves on.
 *
 * A waiter, from a pool, wakes a sleeping thread: by a futex, its own or a word that
 * the link's other end has, too, or by an eventfd if the thread watches other
 * descriptors meanwhile.  A node attaches it to each stream that it waits
 * for.  No wake-up is lost: the thread attaches its nodes, full fence, checks
 * the streams, sleeps; another thread changes a stream, full fence, looks for
 * nodes.  One of the two sees the other.
 */
#ifndef SR_WAITERS_H
#define SR_WAITERS_H

#include "base/pool.h"
#include "engine/impl.h"

struct sr_wait_node {
	struct sr_waiter *waiter;	/* a thread's, or */
	struct sr_epoll_entry *entry;	/* an entry of an epoll set */
	unsigned want;		/* SR_NOTIFY_RX, _TX */
	struct sr_wait_node *next, **link;
};

/* Nodes are never on a thread's stack: a signal handler may longjmp out of a
 * sleep, and would leave a stream with a node in a dead frame. */
#define SR_WAITER_NODES 2

struct sr_waiter {
	struct sr_pooled pooled; /* first */
	int efd;		/* -1: not needed so far */
	atomic_int state;	/* waiters.c */
	_Atomic uint32_t own;
	_Atomic uint32_t *word;	/* own, or a link's, in state AT_WORD */
	struct sr_wait_node node[SR_WAITER_NODES];
};

struct sr_waiter *sr_waiter_get(void);	/* NULL: no memory */
void sr_waiter_put(struct sr_waiter *w);
/* The waiter's eventfd; -1: no descriptor is free. */
int sr_waiter_fd(struct sr_waiter *w);
/* Before a sleep in poll(2) on its eventfd.  False: called already, do not. */
bool sr_waiter_sleeping(struct sr_waiter *w);
/* The thread is awake; readable: its eventfd was readable. */
void sr_waiter_awake(struct sr_waiter *w, bool readable);
/* Sleeps until the waiter is called, deadline_ns is over (UINT64_MAX: none), a signal is
 * handled, or a link's word (NULL: none) changes.  Does not sleep if that word lacks a bit of
 * `want' (futex() in link/ops.h).
 * Returns 0, perhaps without a reason, or -EINTR.  A cancellation point, in a window
 * (signal.h); what undoes the window sets the cancellation type back to deferred. */
int sr_waiter_wait(struct sr_waiter *w, _Atomic uint32_t *word, unsigned want,
		   uint64_t deadline_ns);

void sr_wait_attach(struct sr_stream *st, struct sr_wait_node *node);
void sr_wait_detach(struct sr_stream *st, struct sr_wait_node *node);
/* The stream's anchor is another one, or gone.  Wakes the threads, and tells no epoll set. */
void sr_waiters_wake(struct sr_stream *st);

/* Sleeps until done(st) or end_ns; asks done() each time the stream notifies
 * `what`.  Without memory it does not sleep. */
void sr_stream_await(struct sr_stream *st, unsigned what,
		     bool (*done)(struct sr_stream *st), uint64_t end_ns);

void sr_waiters_forget(void);		/* child of fork */

#endif
