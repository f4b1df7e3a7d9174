/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waitset.h - the one wait engine: poll(2) over streams and other descriptors,
 * and the sleep of a blocking call, which is a poll of one stream.
 */
#ifndef SR_WAITSET_H
#define SR_WAITSET_H

#include "engine/waiters.h"

/* Of the incoming direction, and of the outgoing one. */
#define SR_IN_EVENTS (POLLIN | POLLRDNORM | POLLRDHUP | POLLRDBAND | POLLPRI)
#define SR_OUT_EVENTS (POLLOUT | POLLWRNORM | POLLWRBAND)

struct sr_waitset_entry {
	struct sr_stream *st;	/* NULL: not a stream */
	int fd;
	short events;		/* what the program asked for */
	short ours;		/* what we know of without the kernel */
	short kernel;		/* what to ask the kernel for */
	short pass;		/* what of its answer is the program's */
	bool counted;		/* at the rx gate */
	bool shut;		/* one of the gates is */
	bool ends;		/* the kernel is to say whether it is reset */
	bool raw;		/* what comes in comes by TCP, and so does its end */
	bool hup;		/* ours went by a link: the kernel's POLLRDHUP is POLLHUP */
	struct sr_link *rx_link, *tx_link;	/* to sleep on */
	struct sr_link *rx_armed, *tx_armed;
	int rx_fd, tx_fd;
	int rx_slot, tx_slot;	/* their places in the kernel's array, or -1 */
	struct sr_wait_node *node;
};

struct sr_waitset {
	struct sr_waitset_entry *e;
	size_t n;
	struct sr_waiter *waiter;	/* once it sleeps on a link */
	struct sr_wait_node *nodes;	/* more than FEW: n of them */
	/* The time to wait, if its clock does not run yet; else NULL. */
	const struct timespec *timeout;
	uint64_t deadline;	/* ns; UINT64_MAX none; 0 at once */
	const sigset_t *sigmask;
	unsigned handled;	/* sr_handled.all, as the call began */
	struct pollfd *k;	/* n entries, then waiter, then links */
	size_t kn;
	bool armed;
	bool slept;		/* another thread may have closed some of them */
	uint64_t start;		/* ns: when it began to wait on a link */
};

/* Fills ours, kernel, pass, shut; and the links that it would have to wait for,
 * with references.  True if there is something. */
bool sr_waitset_plan(struct sr_waitset_entry *e);
void sr_waitset_drop_links(struct sr_waitset_entry *e);

/*
 * Waits until an entry has something, s->deadline is over or a signal is handled.
 * fds or *one get the answers; with sigmask as ppoll(2).  What ppoll returns, and
 * errno.  The caller owns all that s points to; afterwards sr_waitset_done().
 */
int sr_waitset_wait(struct sr_waitset *s, struct pollfd *fds, short *one);
/* Starts the clock of s->timeout.  The wait does it when it finds nothing at once:
 * what is ready need not pay for the time. */
void sr_waitset_clock(struct sr_waitset *s);
/* Gives back what the wait still holds. */
void sr_waitset_done(struct sr_waitset *s);

#endif
