/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * impl.h - the inside of epoll sets, for src/epoll/ only.
 *
 * The program's epoll descriptor is a set of the kernel.  We keep an entry for each
 * stream that the program adds, until the stream is retired.
 *
 * Plain entries.  While both gates of a stream are open, the entry in the kernel's
 * set has the program's events and data, and costs nothing.  (One-shot entries carry
 * a token, see below.)
 *
 * Linked entries.  When one of the gates shuts, the entry is changed in the kernel's set, so
 * that the kernel no longer reports the program's data.  This happens before the peer learns of
 * the switch (before ACKSW is sent, so before the peer can write a mark).  From then on the
 * kernel's set holds only what wakes the library.  All of it is edge-triggered, but for the flag,
 * and its data is an address in the library's memory, a token:
 *
 *   anchor	while some events of the stream still come by TCP: those of a plain direction,
 *		and raw bytes before a mark.  An entry that is added when both directions are
 *		on their links has no anchor there, until sr_epoll_look() finds that it needs
 *		one.
 *   doorbell	of each link that the entry has been armed on, if the link has a
 *		descriptor; other links call notify().  A doorbell that several links share is
 *		there once, with the token of one of their entries (member.c).
 *   waker	an eventfd, one for the set, by which notify() wakes a thread.  A nested set
 *		has its flag instead, level-triggered.
 *
 * Where the rest is described: the list of entries that may have something to report in ready.c,
 * epoll_ctl(2) and one-shot entries in entry.c, sleeping in wait.c, fork in set.c and family.c,
 * sets that are themselves waited for in nest.c.
 *
 * Locks, in this order:
 *   set->look_lock  the queue; visits
 *   a stream's rx_lock, tx_lock
 *   st->sets.lock   the stream's entries, and what the kernel's sets hold for them
 *   set->lock       waker, epfd; the set's list of entries
 *   the locks of links, waits.lock
 *   set->flag_lock  the flag
 */
#ifndef SR_EPOLL_IMPL_H
#define SR_EPOLL_IMPL_H

#include "base/list.h"
#include "engine/waiters.h"
#include "epoll/epoll.h"

#define SR_EPOLL_IN (EPOLLIN | EPOLLRDNORM | EPOLLRDBAND | EPOLLPRI | EPOLLRDHUP)
#define SR_EPOLL_OUT (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)
#define SR_EPOLL_ALL (SR_EPOLL_IN | SR_EPOLL_OUT | EPOLLERR | EPOLLHUP)
#define SR_EPOLL_AGAIN (1u << 31)	/* of an entry's edge: to be visited */
#define SR_EPOLL_SLEEPERS 0xffffu
#define SR_EPOLL_CALL (SR_EPOLL_SLEEPERS + 1ull)

#define SR_EPOLL_LISTENERS ((struct sr_stream *)1)
#define SR_EPOLL_OUTERS ((struct sr_epoll *)1)
#define SR_EPOLL_UNSAID (1 << 20)	/* in `ready', behind the entries, which are fewer */

enum { /* of an entry's state */
	SR_EPOLL_LIVE = 1,	/* events and data belong together; not deleted */
	SR_EPOLL_ARMED = 2,	/* EPOLLONESHOT has not fired */
	SR_EPOLL_DEAD = 4,
	SR_EPOLL_STEP = 8,	/* the count of changes */
};

/* The memory of an entry is used for entries only (pool.c), and it belongs to one set for as
 * long as it is on one of that set's lists. */
struct sr_epoll_entry {
	_Alignas(256) _Atomic(struct sr_epoll *) set; /* sr_epoll_set_of() */
	struct sr_stream *st;	/* with a reference */

	/* What a visit reads; written under sets.lock.  set_events() publishes a state without
	 * LIVE, then events and data, then the new state.  A visit observes the state, then the
	 * other two, and then the state again: if it is the same, they belong together. */
	atomic_uint state;
	_Atomic uint32_t events;
	_Atomic uint64_t data;

	/* News that has not been reported, and AGAIN.  list_entry() sets it (release) after the
	 * event has happened, and a visit takes it before it looks at the stream. */
	_Atomic uint32_t edge;
	atomic_bool listed;	/* pair listed: ready.c */
	struct sr_epoll_entry *next_listed;
	unsigned quiet;		/* visits in a row that found nothing */
	bool stays;		/* look_lock; what the last look says: look.h */
	struct sr_epoll_end {	/* look_lock; look.c, Ends */
		bool here, over;	/* what the last look saw: waitset.h, ended and over */
		unsigned switches;
		unsigned told_in;	/* `state' when the end was reported; 0: it was not */
		unsigned told_switches;
		uint32_t told;	/* SR_EPOLL_IN, and EPOLLHUP if it was reported */
	} end;

	/* sets.lock */
	struct sr_epoll_entry *next_of_stream;
	int number;		/* the program's */
	uint64_t since;		/* a call with a greater number has begun after the change */
	bool linked;
	uint32_t asked;		/* of a linked entry's anchor; 0: it is not in the
				 * kernel's set */
	struct sr_epoll_doorbell {
		struct sr_link *link;	/* with a reference; NULL: none */
		int fd;		/* < 0: the link calls notify(), or has a watcher */
		struct sr_watcher *watcher;
		struct sr_watch_door shared;	/* of the watcher; set->lock */
	} door[2];
	/* Each link that the entry was last armed on has a doorbell in the kernel's set. */
	atomic_bool rings;
	struct sr_wait_node node;

	/* set->lock */
	struct sr_epoll_entry *next, **pprev;
};

struct sr_epoll {
	struct sr_epoll *next_set;
	int fds;		/* entries in the table, 0: it is free; sets_lock */

	struct sr_mutex lock;
	int epfd;		/* a descriptor of the program's, -1: closed */
	atomic_int waker;	/* private, -1: none; outlives the set */
	/* It is in the kernel's set.  Published under `lock', observed by sr_epoll_install(). */
	atomic_bool installed;
	atomic_bool foreign;	/* pair foreign: entry_add(); elsewhere a hint */
	atomic_uchar inherited;	/* enum sr_epoll_inherited, family.h */
	atomic_bool nested;	/* it is waited for itself (nest.c) */
	atomic_bool nests;	/* a set in it has, or has had, a link (nest.c) */
	atomic_bool forked;	/* the process has forked since the set was made, or before */
	atomic_bool untidy;	/* an entry was listed since the queue was looked at */
	struct sr_slot *paused;	/* `slot' before an exec that may fail */
	struct sr_slot *slot;	/* counts the processes that have the set; NULL: not counted */
	struct sr_epoll_entry *entries;

	_Alignas(64) struct sr_mutex look_lock;
	struct sr_epoll_entry *first, *last;	/* the queue */
	_Atomic(struct sr_epoll_entry *) news;
	/* Both are released behind a change, and is_any_listed() of nest.c acquires them. */
	atomic_int ready;	/* entries that are listed; pair sleepers, pair woken.  And
				 * SR_EPOLL_UNSAID for each set in this one that is ready, unsaid
				 * (nest.c) */
	atomic_int dead;	/* how many of them have gone from the set */
	/* Counted by calls of the program, whose order is its own. */
	/* Entries that are linked; and one more if `nests', and one if shared, so that the kernel
	 * alone serves no wait.  sr_epoll_has_links() */
	atomic_int linked;
	atomic_int plain;	/* entries that are not */
	/* A listener in the kernel's set; SR_EPOLL_LISTENERS: there have been several.  Without a
	 * reference, and only compared. */
	_Atomic(struct sr_stream *) listener;
	atomic_bool others;	/* the kernel's set may hold descriptors without an entry of ours */
	atomic_bool woken;	/* the waker has rung, and no thread has taken its event yet */
	/* How many threads are in the kernel's epoll_wait (SR_EPOLL_SLEEPERS; one more if the
	 * set is nested), and above that how many such calls have begun. */
	_Atomic uint64_t sleepers;
	/* The value of `sleepers' at the start of the last call that is known to have returned
	 * all that was ready. */
	_Atomic uint64_t drained;
	_Atomic uint64_t turns;	/* calls that asked the kernel besides */
	atomic_uint unasked;	/* calls since then */
	atomic_long tick;	/* of the coarse clock, at that time */
	atomic_long left;	/* of the coarse clock, when the last call ended */
	atomic_uint slow;	/* calls for which nothing is polled (wait.c) */
	atomic_bool spinning;	/* a thread is */
	struct sr_spin spin;

	struct sr_mutex flag_lock;	/* a leaf */
	atomic_int flag;	/* private, -1: none; outlives the set */
	bool raised;		/* it is readable; flag_lock */
	/* The one that this set is in; SR_EPOLL_OUTERS: there are several, or it has been polled.
	 * Changed under flag_lock. */
	_Atomic(struct sr_epoll *) outer;
	struct sr_epoll *unsaid;	/* that set, if this one is counted there; flag_lock */
};

/* The stream's; sets.lock. */
static inline struct sr_epoll_entry *sr_epoll_entries(struct sr_stream *st)
{
	return sr_load(&st->sets.first);
}

/* A thread that finds an entry by a token from the kernel holds no lock, so the entry may be free,
 * or belong to another set.  Pairs with sr_epoll_entry_new(). */
static inline struct sr_epoll *sr_epoll_set_of(const struct sr_epoll_entry *e)
{
	return sr_observe(&e->set);
}

/* Is it one in the set (NULL: any) under the number (-1: any)? */
static inline bool sr_epoll_is_of(const struct sr_epoll_entry *e, const struct sr_epoll *set,
				  int number)
{
	return (!set || sr_epoll_set_of(e) == set) && (number < 0 || e->number == number);
}

/* By the program; it may still be linked. */
static inline bool sr_epoll_is_deleted(const struct sr_epoll_entry *e)
{
	return !(sr_observe(&e->state) & SR_EPOLL_LIVE);	/* pairs with set_events() */
}

/* ---- set.c ---- */
/* The listener is in the kernel's set from now on. */
void sr_epoll_listens(struct sr_epoll *set, struct sr_stream *listener);
extern struct sr_epoll sr_epoll_parents; /* the set of the entries of the parent process */

/* Puts the waker, or the flag, into the kernel's set.  True: it is there.  set->lock not held. */
bool sr_epoll_install(struct sr_epoll *set);
void sr_epoll_uninstall(struct sr_epoll *set);	/* set->lock held */
/* The kernel's epoll_ctl; 0 or -errno.  set->lock not held. */
int sr_epoll_control(struct sr_epoll *set, int op, int fd, uint32_t events,
		     uint64_t data);
int sr_epoll_control_locked(struct sr_epoll *set, int op, int fd, uint32_t events,
			    uint64_t data);	/* the same; set->lock held */
/* Has the kernel's set nothing to tell?  set->lock not held. */
bool sr_epoll_is_kernel_quiet(struct sr_epoll *set);

/* ---- what the engine calls: engine/observers.h says when ---- */
bool sr_epoll_gate_shut(struct sr_stream *st);			/* entry.c */
void sr_epoll_gate_opened(struct sr_stream *st);		/* entry.c */
void sr_epoll_notified(struct sr_epoll_entry *e, unsigned what, unsigned news); /* ready.c */
void sr_epoll_stream_retired(struct sr_stream *st);		/* gone.c */
bool sr_epoll_stream_inherited(struct sr_stream *st);		/* gone.c */
bool sr_epoll_stream_lent(struct sr_stream *st);		/* entry.c */
void sr_epoll_note_made(const struct sr_epoll *set);	/* wait.c: by the calling thread */
const struct sr_epoll *sr_epoll_domain(struct sr_stream *st, bool *nested);	/* wait.c */

/* ---- entry.c ---- */
/* The stream goes back to TCP, in the background. */
void sr_epoll_go_plain(struct sr_stream *st);
/* The entry goes; if it is plain it stays in the kernel's set. */
void sr_epoll_remove(struct sr_epoll_entry *e);
/* Gives the entry in the kernel's set back to the program for good, and removes ours.  Does nothing
 * if the stream is not plain yet. */
void sr_epoll_release(struct sr_epoll_entry *e);
void sr_epoll_release_now(struct sr_epoll_entry *e);	/* whatever the stream is */

/* ---- gone.c ---- */
/* Applies fn (NULL: nothing) to the stream's entries in the set (NULL: any) under the
 * number (-1: any).  Returns how many there are. */
int sr_epoll_each(struct sr_stream *st, struct sr_epoll *set, int number,
		  void (*fn)(struct sr_epoll_entry *e));

/* ---- ready.c ---- */
/* Something may have happened.  edge: what is news if edge-triggered. */
void sr_epoll_list(struct sr_epoll_entry *e, uint32_t edge);
/* Some of the n events in the kernel's answer have the token of an entry's anchor or doorbell.
 * Replaces each of them by what its entry has to report, or removes it if that is nothing, or if
 * epfd is not the set's any more.  Returns how many events are left.  The call has `before` events
 * more, in front of ev. */
int sr_epoll_resolve(struct sr_epoll *set, int epfd, struct epoll_event *ev, int before,
		     int n);
/* Reports up to max of what is listed, if the set is still that of epfd. */
enum {
	SR_EPOLL_POLL = 1,	/* what is quiet may stay in the queue, not armed */
	SR_EPOLL_SPIN = 2,	/* a look of a busy wait, which has its own limit */
	SR_EPOLL_ARMS = 4,	/* the set is nested: what is ready is armed, too */
	SR_EPOLL_PEEKS = 8,	/* what the entry has is not reported by this call */
};
int sr_epoll_collect(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     unsigned how);
/* Does the peer of the entry that is polled first run on this core, as far as is
 * known? */
bool sr_epoll_same_core(struct sr_epoll *set, int epfd);
/* Empties the queue: frees dead entries, and takes the others off the list. */
void sr_epoll_drain(struct sr_epoll *set);
/* Lists the entry, and wakes no thread.  _linked: only if it is linked. */
void sr_epoll_enqueue(struct sr_epoll_entry *e, uint32_t edge);
void sr_epoll_enqueue_linked(struct sr_epoll_entry *e);

#endif
