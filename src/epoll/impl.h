/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_impl.h - the inside of epoll sets, for src/stream/epoll*.c only.
 *
 * The program's epoll descriptor is a set of the kernel.  For each stream that the
 * program adds we keep an entry.
 *
 * Plain entries.  While both gates of a stream are open, the entry in the kernel's set
 * is the program's own, events and data, and costs nothing.  (One-shot entries carry
 * our data, see below.)
 *
 * Linked entries.  When a gate shuts, and before anybody else learns of it (before the
 * ACKSW, so before a mark can be on its way), the kernel stops reporting the entry to
 * the program.  The kernel's set then holds what wakes us, all edge-triggered and with
 * data that is an address of ours (tokens, below):
 *
 *   anchor	while the kernel has a say: the plain direction, raw bytes before a mark.
 *		An entry that is added to the set when both directions are on their
 *		links has no anchor there, until look() finds that it needs one.
 *   doorbell	of each link that the entry has been armed on, if the link has a
 *		descriptor (shared memory); other links call notify().
 *   bell	an eventfd, one for the set, for notify() to wake a thread that sleeps.
 *
 * The list.  An entry that may have something is listed: by notify(), by an event of
 * its anchor or doorbell, by epoll_ctl(2).  `listed' is the right to have the entry on
 * a list: who sets it pushes the entry onto `news', without a lock.  A wait, under
 * look_lock, moves the news to the end of `queue' and visits what is there: it asks
 * each entry for its level by the rules of poll (waitset_plan.c).
 *   - A level-triggered entry that is ready stays in the queue.
 *   - An entry that was quiet a few times is armed on its links, looked at once more, so
 *     that no arrival is missed, and leaves the queue.
 *   - Until then it stays in the queue unarmed, and is polled by each wait: its peer
 *     need not ring.  No thread sleeps before the queue is empty.
 * Whoever drops an entry clears `listed' and looks for SR_EPOLL_AGAIN in `edge'; whoever
 * lists one sets that and then `listed'.  One of the two sees the other.
 *
 * Changes.  `state' counts the program's changes of an entry; a change makes it not LIVE
 * first and LIVE last, so a visit that finds the same LIVE state before and behind has
 * read events and data of one change, and none that was over before the visit began.
 * A removed entry is DEAD and listed; the next visit frees its memory and its
 * reference to the stream.
 *
 * Edges.  notify(), the anchor's events, each for its direction; and all directions at
 * ADD, at MOD, and at a switch.  Room is news only after somebody has found none
 * (wait.c).  A doorbell is none: looking makes the news, as notify() is called by
 * whoever sees an arrival first.
 *
 * Sleeping is the kernel's epoll_wait on the program's set, so signals, masks and time
 * are exact.  All of the above is edge-triggered there, so one arrival wakes one
 * thread; a thread that leaves something on the list rings for the next.  `sleepers' and
 * `ready' are a Dekker pair: a sleeper counts itself and then looks at ready (how
 * many are listed); who lists counts ready up and then looks at sleepers.
 *
 * One-shot.  Which thread gets the event must be decided once, and the kernel does not
 * say whether it has disabled an entry.  So plain one-shot entries carry a token
 * with the count of changes, and a thread that returns with it, or that finds the entry
 * ready, must clear ARMED.
 *
 * fork.  Streams go plain first, which restores the program's entries.  To the child all
 * sets are foreign.  The parent goes on as before, until the child uses the set and
 * could take the parent's wake-ups: it has kept the set's bell, and adds SR_EPOLL_USED to
 * its count, which wakes the parent, and which the parent reads before it asks the
 * kernel for anything.  Then the set is foreign to the parent, too.
 *
 * Closing a set takes its entries out.  A thread that is asleep in it is not woken by
 * links any more.
 *
 * Locks, in this order:
 *   set->look_lock  the queue; visits
 *   a stream's rx_lock, tx_lock
 *   st->epoll_lock  the stream's entries, their registration in the kernel
 *   set->lock       bell, epfd; the set's list of entries
 *   link kinds' own, wait_lock
 */
#ifndef SR_EPOLL_IMPL_H
#define SR_EPOLL_IMPL_H

#include "engine/waiters.h"
#include "epoll/epoll.h"

#define SR_EPOLL_IN (EPOLLIN | EPOLLRDNORM | EPOLLRDBAND | EPOLLPRI | EPOLLRDHUP)
#define SR_EPOLL_OUT (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)
#define SR_EPOLL_ALL (SR_EPOLL_IN | SR_EPOLL_OUT | EPOLLERR | EPOLLHUP)
#define SR_EPOLL_AGAIN (1u << 31)	/* of an entry's edge: to be visited */
#define SR_EPOLL_USED (1ull << 62)	/* of a bell's count */

enum { /* of an entry's state */
	SR_EPOLL_LIVE = 1,	/* what it says is whole */
	SR_EPOLL_ARMED = 2,	/* EPOLLONESHOT has not fired */
	SR_EPOLL_DEAD = 4,
	SR_EPOLL_STEP = 8,	/* the count of changes */
};

/* Tokens: an entry's address with one of these. */
enum {
	SR_EPOLL_ANCHOR = 0,
	SR_EPOLL_DOORBELL = 1,
	SR_EPOLL_ONESHOT = 2,	/* and the low bits of the count above it */
	SR_EPOLL_KIND = 3,
};

struct sr_epoll_doorbell {
	struct sr_link *link;	/* with a reference; NULL: none */
	int fd;			/* < 0: the link calls notify() */
};

/* Type-stable, and its set's for as long as it is on one of its lists. */
struct sr_epoll_entry {
	_Alignas(256) _Atomic(struct sr_epoll *) set;
	struct sr_stream *st;	/* with a reference */

	/* What a visit reads; written under epoll_lock. */
	atomic_uint state;
	_Atomic uint32_t events;
	_Atomic uint64_t data;

	_Atomic uint32_t edge;	/* news that have not been reported, AGAIN */
	atomic_bool listed;
	struct sr_epoll_entry *next_listed;
	unsigned quiet;		/* visits in a row that found nothing */

	/* epoll_lock */
	struct sr_epoll_entry *next_of_stream;
	int number;		/* the program's */
	bool shut;
	bool deleted;		/* by the program, while shut: not LIVE */
	bool ours;		/* plain, with our token */
	atomic_bool passed;	/* plain, and the program's own for good */
	uint32_t asked;		/* of the anchor; 0: it is not in the kernel's set */
	struct sr_epoll_doorbell door[2];
	struct sr_wait_node node;

	/* set->lock */
	struct sr_epoll_entry *next, **pprev;
};

struct sr_epoll {
	atomic_int refs;	/* 0: free */
	atomic_int fds;		/* entries in the table */
	struct sr_epoll *next_free;

	pthread_mutex_t lock;
	int epfd;		/* a descriptor of the program's, -1: closed */
	atomic_int bell;	/* private, -1: none */
	atomic_bool installed;	/* it is in the kernel's set */
	atomic_bool foreign;
	atomic_bool forked;	/* a child has the set, too */
	atomic_bool heir;	/* we are the child, and have not used it */
	struct sr_epoll_entry *entries;

	_Alignas(64) pthread_mutex_t look_lock;
	struct sr_epoll_entry *first, *last;	/* the queue */
	int queued;
	_Atomic(struct sr_epoll_entry *) news;
	atomic_int ready;	/* listed */
	atomic_int shut;	/* entries that are linked */
	atomic_int members;	/* entries */
	atomic_bool others;	/* what is no stream has been added */
	atomic_bool rung;	/* the bell, and nobody has come yet */
	atomic_uint sleepers;
	atomic_uint turns, unasked;	/* calls; and since the kernel was asked */
	atomic_long tick;	/* of the coarse clock, at that time */
	atomic_bool spinning;	/* a thread is */
	struct sr_spin spin;
};

/* ---- epoll_set.c ---- */
#define SR_EPOLL_POOL (64u << 20)	/* bytes of address space */
extern _Atomic uintptr_t sr_epoll_pool;	/* entries; 0: none yet */

static inline bool sr_epoll_is_token(uint64_t data)
{
	uint64_t pool = atomic_load_explicit(&sr_epoll_pool, memory_order_relaxed);

	return data - pool < SR_EPOLL_POOL && pool;
}

/* Is there an entry, of whatever process? */
bool sr_epoll_known(uint64_t token);

/* The bell's; no entry is there. */
static inline uint64_t sr_epoll_bell_token(void)
{
	return atomic_load_explicit(&sr_epoll_pool, memory_order_relaxed);
}

static inline struct sr_epoll_entry *sr_epoll_of_token(uint64_t data)
{
	return (struct sr_epoll_entry *)(uintptr_t)(data & ~(uint64_t)255);
}

static inline uint64_t sr_epoll_token(const struct sr_epoll_entry *e, unsigned kind)
{
	return (uint64_t)(uintptr_t)e | kind;
}

/* The bell is there and in the kernel's set.  set->lock not held. */
bool sr_epoll_install(struct sr_epoll *set);
/* For the stream, in the set's list, not yet LIVE.  NULL: no memory. */
struct sr_epoll_entry *sr_epoll_entry_new(struct sr_epoll *set,
					  struct sr_stream *st);
/* DEAD, and no longer listed; look_lock held. */
void sr_epoll_entry_free(struct sr_epoll_entry *e);
/* The kernel's epoll_ctl; 0 or -errno.  By the set's own descriptor: set->lock not
 * held. */
int sr_epoll_control(int epfd, int op, int fd, uint32_t events, uint64_t data);
int sr_epoll_set_control(struct sr_epoll *set, int op, int fd, uint32_t events,
			 uint64_t data);
/* Notifies the parent process, if there is one, before a foreign set is used. */
void sr_epoll_tell_parent(struct sr_epoll *set);
/* The set of epfd has been in a fork: the same, or, has a child used it? */
void sr_epoll_mind_family(int epfd);

/* ---- entry.c ---- */
/* The data of an entry whose one-shot events a token decides. */
uint64_t sr_epoll_oneshot(unsigned state, const struct sr_epoll_entry *e);

static inline struct sr_epoll_entry *sr_epoll_entries(struct sr_stream *st)
{
	return atomic_load_explicit(&st->epoll, memory_order_relaxed);
}

/* The stream goes back to TCP, in the background. */
void sr_epoll_leave(struct sr_stream *st);
/* A linked entry is armed on the links of its stream (NULL: not on that one), for room
 * only if there is none (full), and on its anchor if the kernel has a say.  False: it is
 * not linked any more. */
bool sr_epoll_arm(struct sr_epoll_entry *e, struct sr_link *rx,
		  struct sr_link *tx, bool full, bool anchor);

/* All that the set holds is taken out. */
void sr_epoll_clear(struct sr_epoll *set);

/* ---- ready.c ---- */
/* Something may have happened.  edge: what is news if edge-triggered. */
void sr_epoll_list(struct sr_epoll_entry *e, uint32_t edge);
/* A DEAD entry: freed by the next visit. */
void sr_epoll_bury(struct sr_epoll_entry *e);
/* By notify(), see sr_sets_ops. */
void sr_epoll_told(struct sr_epoll_entry *e, unsigned what, unsigned news);
/* An event of an entry's anchor or doorbell. */
void sr_epoll_heard(uint32_t events, uint64_t token);
void sr_epoll_ring(struct sr_epoll *set);	/* if something is listed */
/* Reports up to max of what is listed, if the set is still that of epfd. */
enum {
	SR_EPOLL_NEWS = 1,	/* not what has been visited before */
	SR_EPOLL_POLL = 2,	/* what is quiet may stay in the queue, not armed */
	SR_EPOLL_SPIN = 4,	/* a look of a busy wait, which has its own limit */
};
int sr_epoll_collect(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     unsigned how);
/* Does the peer of the entry that is polled first run on this core, as far as is
 * known? */
bool sr_epoll_same_core(struct sr_epoll *set, int epfd);
/* Frees the dead; what lives is dropped. */
void sr_epoll_drain(struct sr_epoll *set);

#endif
