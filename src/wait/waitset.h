/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waitset.h - the one wait engine: poll(2) on streams and other descriptors,
 * and the sleep of a blocking call, which is a poll of one stream.
 */
#ifndef SR_WAITSET_H
#define SR_WAITSET_H

#include "engine/waiters.h"

/* The events of the incoming direction, and of the outgoing one. */
#define SR_IN_EVENTS (POLLIN | POLLRDNORM | POLLRDHUP | POLLRDBAND | POLLPRI)
#define SR_OUT_EVENTS (POLLOUT | POLLWRNORM | POLLWRBAND)

/* What a plan says of an entry.  The program gets the events in `ours', and those of the
 * kernel's events that are in `pass'; sr_waitset_asks() and sr_waitset_answer() work that out. */
struct sr_plan {
	short ours;		/* events that are known without the kernel */
	short kernel;		/* events to ask the kernel for; POLLIN may only wake us */
	short pass;		/* the kernel's events that the program gets */
	bool shut;		/* one of the gates is shut; else the kernel decides alone */
	bool ends;		/* the kernel must report a reset, even if asked for no event */
	bool hup;		/* our end went by a link, so the kernel's POLLRDHUP means POLLHUP */
	struct sr_plan_in {	/* the incoming direction, for edges (epoll/look.c) */
		bool open;	/* its gate is open */
		bool ended;	/* its end has come by a link, with all bytes before it, */
		bool over;	/* and the program has taken all of them */
		unsigned switches; /* in.switches; 0: the gate is open */
	} in;
};

struct sr_waitset_entry {
	struct sr_stream *st;	/* NULL: not a stream */
	int fd;
	short events;		/* asked for by the program */
	bool counted;		/* in flight at the rx gate */
	struct sr_plan plan;
	/* Of the incoming direction, and of the outgoing one: */
	struct sr_link *link[2];	/* to sleep on */
	struct sr_link *armed[2];
	int slot[2];		/* the place in the kernel's array, or -1 */
	struct sr_wait_node *node;
};

struct sr_waitset {
	struct sr_waitset_entry *e;
	size_t n;
	struct sr_waiter *waiter;	/* set once it sleeps on a link */
	struct sr_wait_node *nodes;	/* n of them, for more than SR_WAITER_NODES
					 * entries */
	uint64_t deadline;	/* ns; UINT64_MAX: none; 0: do not wait */
	bool listens;		/* some streams are listeners: */
	bool awaits;		/* they count this thread (engine/listener.h) */
	bool program_polls;	/* the program has called poll(2) or the like */
	bool one_call;		/* a call on one stream: it sleeps on the anchor, and wakes
				 * if the anchor changes */
	const sigset_t *sigmask;
	unsigned handled;	/* sr_handled.all when the call began */
	struct pollfd *k;	/* n entries, then waiter, then links */
	size_t kn;
	bool armed;
	_Atomic uint32_t *word;	/* a link's futex to sleep on, and its bits (link/ops.h) */
	unsigned word_want;
	uint64_t start;		/* ns: when the wait on a link began */
	void *memory;		/* of e, nodes and k if it was allocated, or NULL */
};

/* Moves the stream on as far as possible.  Fills in the plan, and the links by which events of
 * the entry may arrive (with references).  Returns true if there is something for the program. */
bool sr_waitset_move_on(struct sr_waitset_entry *e);
void sr_waitset_drop_links(struct sr_waitset_entry *e);
/* After a plan: the events to ask the kernel for; and what the program gets, which are
 * our events and those of the kernel that count. */
short sr_waitset_asks(const struct sr_waitset_entry *e);
short sr_waitset_answer(const struct sr_waitset_entry *e, short revents);
/* Arms a wait that has a waiter.  From then on it is woken by whatever arrives at its streams
 * and their links; the plan that follows finds what arrived before. */
void sr_waitset_arm(struct sr_waitset *s);
void sr_waitset_disarm(struct sr_waitset *s);
/* After that plan: is a direction on another link now, which is not armed? */
bool sr_waitset_has_unarmed(struct sr_waitset *s);
/* Does the peer's thread run on this core, as far as is known?  Then it cannot run
 * during a busy wait. */
bool sr_stream_same_core(struct sr_stream *st);

/* Waits until an entry has something, s->deadline is over, or a signal is
 * handled.  Stores the answers in fds.  Returns what ppoll(2) does, or -errno.  The caller
 * owns all that s points to, and calls sr_waitset_done() afterwards. */
int sr_waitset_wait(struct sr_waitset *s, struct pollfd *fds);
/* Releases what the wait still holds. */
void sr_waitset_done(struct sr_waitset *s);
/* Drops the references of its streams and frees its memory: at the end of poll(2), or if the
 * thread never returns from its sleep. */
void sr_waitset_free(struct sr_waitset *s);

/* The memory of a waitset (space.c): all zero, or NULL. */
void *sr_waitset_space_get(size_t size);
void sr_waitset_space_put(void *memory);
void sr_waitset_space_forget(void);	/* in the child of fork */

#endif
