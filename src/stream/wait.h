/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wait.h - program threads that sleep until a stream moves on.
 *
 * A waiter is a sleeping thread's eventfd, from a pool.  It hangs on each stream
 * it waits for by a node.  No wake-up is lost: the thread hangs its nodes up,
 * full fence, looks at the streams, sleeps; who changes a stream changes it,
 * full fence, looks for nodes.  One of the two sees the other.
 */
#ifndef SR_WAIT_H
#define SR_WAIT_H

#include "stream/impl.h"

struct sr_wait_node {
	struct sr_waiter *waiter;
	unsigned want;		/* SR_NOTIFY_RX, _TX */
	struct sr_wait_node *next, **link;
};

/* Nodes are never on a thread's stack: a signal handler may longjmp out of a
 * sleep, and a stream must not be left with a node in a dead frame. */
#define SR_WAITER_NODES 8

struct sr_waiter {
	int efd;
	atomic_int state;	/* AWAKE, ASLEEP, CALLED */
	struct sr_waiter *next;
	struct sr_wait_node node[SR_WAITER_NODES];
};

struct sr_waiter *sr_waiter_get(void);	/* NULL: no descriptor left */
void sr_waiter_put(struct sr_waiter *w);
/* False: called already, do not sleep. */
bool sr_waiter_sleeping(struct sr_waiter *w);
/* readable: its eventfd was. */
void sr_waiter_awake(struct sr_waiter *w, bool readable);

void sr_wait_attach(struct sr_stream *st, struct sr_wait_node *node);
void sr_wait_detach(struct sr_stream *st, struct sr_wait_node *node);

void sr_waiters_forget(void);		/* child of fork */

#endif
