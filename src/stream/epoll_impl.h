/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_impl.h - the inside of epoll sets, for src/stream/epoll*.c only.
 *
 * The program's epoll descriptor is a set of the kernel, and every descriptor
 * that the program adds is really in it, so its errors, its limits, its closing
 * are the kernel's.  For each stream in a set we keep an entry.
 *
 * Plain entries.  While both gates of a stream are open its entry in the kernel's
 * set is the program's own, events and data, and costs nothing.  (One-shot
 * entries carry our data, see below.)
 *
 * Shut entries.  When a gate shuts, and before anybody else learns of it (before
 * the ACKSW, so before a mark can be on its way), the entry is muted: it stays in
 * the kernel's set, edge-triggered and without events.  What the kernel reported
 * before was true: raw bytes, room.  From now on its events are ours to say:
 *
 *   inner     a private epoll instance, one for each set that has shut entries.
 *             In it, all edge-triggered: the anchors of shut entries, for the
 *             plain direction and raw bytes before a mark, and the descriptors
 *             that links wake by (shared memory: a bell for each link).
 *   nodes     each shut entry hangs on its stream, so notify() finds it.
 *   ready     a list of the entries that may have something: put there by an
 *             event of inner, by notify(), or by epoll_ctl(2).
 *   bell      an eventfd, for notify() to wake who sleeps in the kernel.
 *
 * A wait takes from the ready list, asks each entry for its level with the rules
 * of poll (waitset_plan.c), and merges what the kernel's set says.  A level-triggered
 * entry stays on the list while it is ready.  Others leave it, and so do those
 * that have nothing; these stand (link.h) and are looked at once more, so that no
 * arrival is missed.  While an entry is on the list its link tells nobody of
 * more.  An idle stream costs nothing, as it is not on the list.
 *
 * What is an edge.  notify(), and the anchor's event where the kernel has a say,
 * each for its direction; and all directions at ADD and MOD, which the kernel has
 * reported itself if a wait that began later has come back with room to spare
 * (calls, complete).  Room is news only after somebody has found none (tx_full): a
 * switch is no edge, and the anchor's events say more than what has changed.  A link's bell is none: it says that it is
 * time to look, and looking notifies, unless somebody else has looked before.
 *
 * Who wakes the sleepers.  Sleeping is the kernel's epoll_wait, on the program's
 * set, so signals, masks and time are exact.  inner, with the bell in it, is in
 * that set, edge-triggered, with the set's address as data: one arrival wakes
 * one thread.  That one empties inner, and if it leaves something on the list
 * it rings for the next.  sleepers and ready are a Dekker pair: a sleeper counts
 * itself and then looks at ready; who lists counts ready up and then looks at
 * sleepers.
 *
 * Parked entries.  Some programs (redis-benchmark) add and delete a descriptor for
 * every message.  So what is deleted while shut stays where it is, mute and deaf, in
 * the kernel's set and in inner, and comes back without a system call when it is
 * added again.  Whatever else happens to it takes it out first.
 *
 * Awake.  Where it pays (spin.h) a thread does not sleep at once.  Then the
 * entries that it found quiet a moment ago linger on the list, not standing, so
 * that the peer need not ring: the thread polls their links.  They stand before
 * it sleeps; nobody sleeps before the list is empty.
 *
 * Level mode.  Where the set's own readiness matters (it is polled, or is in
 * another set), the bell alone is in the kernel's set, level-triggered, and is
 * readable as long as something is ready; the service loop watches inner, and
 * looks at what is listed before it rings.  It is also the way for a set that
 * another process may share, as no wake-up is used up by who cannot serve it,
 * and for a nest too deep for one more instance below.
 *
 * One-shot.  Who gets the event must be decided once, and the kernel does not say
 * whether it has disabled an entry.  So plain one-shot entries carry our data
 * (the entry's address and a count of its MODs) and who returns with it, or finds
 * the entry ready in our list, must take the token `armed`.
 *
 * Descriptor numbers.  The kernel knows an entry by open file and number.  When a
 * number is closed and the file has others, nobody could change the entry any
 * more: it is moved to a private duplicate first; and back, should the number become
 * the file's again.  The last close removes shut entries, as close.c keeps the file
 * open.
 *
 * Closing a set.  In the kernel it lives as long as a thread is asleep in it, which is
 * still woken.  So where threads wait it goes on by a private duplicate, out of the
 * table, and the last of them ends it.  (Not for one that has been asleep since the
 * set had no stream: that one holds no reference.)
 *
 * fork.  Streams become plain first, which restores the program's entries; then
 * inner or the bell leave the kernel's set, and one-shot entries get their own data
 * back.  The child forgets it all: sets that it inherits are foreign, streams in
 * them plain.  The parent may go on, in level mode, until the child uses the set
 * (it says so in shared memory): then the set is foreign to the parent, too.
 *
 * Handed over.  A set whose descriptor is sent to somebody is foreign from then on.
 * The receiver need not have us, and the sender may be it, under a number that is not
 * in the table: so all of the above is done before the message is sent, and none of it
 * comes back.
 *
 * Locks, in this order:
 *   set->look_lock  one thread at a time looks at what is listed, so that another
 *                   one does not find the list empty meanwhile
 *   a stream's rx_lock, tx_lock
 *   st->epoll_lock  the stream's entries, their registration in the kernel
 *   set->lock       inner, bell, epfd, the mode; the set's list of entries
 *   link kinds' own, wait_lock
 *   set->ready_lock the list, and of entries what is marked so
 */
#ifndef SR_EPOLL_IMPL_H
#define SR_EPOLL_IMPL_H

#include "stream/epoll.h"
#include "stream/wait.h"

#define SR_EPOLL_IN (EPOLLIN | EPOLLRDNORM | EPOLLRDBAND | EPOLLPRI | EPOLLRDHUP)
#define SR_EPOLL_OUT (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)

/* A link's bell in inner.  fd < 0: it calls notify(). */
struct sr_epoll_bell {
	struct sr_link *link;	/* with a reference; NULL: none */
	int fd;
	bool own;		/* fd is a duplicate */
};

/* Type-stable, and its set's for as long as that lives. */
struct sr_epoll_entry {
	_Alignas(64) _Atomic(struct sr_epoll *) set;
	struct sr_stream *st;	/* with a reference */

	/* epoll_lock */
	struct sr_epoll_entry *next_of_stream;
	int fd;
	bool fd_private;
	int number;		/* fd_private: the program's, that was closed */
	bool shut;
	bool ours;		/* plain, with our data */
	unsigned since;		/* set->calls when the kernel last made it ready */
	uint32_t asked;		/* of the anchor, in inner: at least what events say */
	struct sr_epoll_bell bell[2];
	struct sr_wait_node node;

	/* set->lock */
	struct sr_epoll_entry *next, **pprev;
	bool passed;		/* the program's own for good: another process's, too */

	/* ready_lock; events, data and count are written under epoll_lock, too */
	uint32_t events;
	epoll_data_t data;
	unsigned count;		/* of MODs, in the low bits of our data */
	bool live;
	bool parked;		/* deleted by the program; also under epoll_lock */
	bool armed;		/* EPOLLONESHOT has not fired */
	bool listed, busy, again;
	bool sure;		/* listed, and was seen to be ready */
	uint32_t edge;		/* news that have not been reported */
	uint32_t anchor;	/* events that the anchor has had */
	unsigned turn;		/* the wait that reported it last */
	unsigned quiet;		/* looks in a row that found nothing */
	struct sr_epoll_entry *next_ready;
};

struct sr_epoll {
	atomic_int refs;	/* 0: free */
	atomic_int fds;		/* entries in the table */
	struct sr_epoll *next_free;
	unsigned number;

	pthread_mutex_t lock;
	atomic_int epfd;	/* a descriptor of the program's, -1: closed */
	atomic_bool left;	/* to who waits in it; epfd is private */
	atomic_int inner, bell;	/* private, -1: none */
	bool installed;
	atomic_bool level;
	bool watched;		/* the loop watches inner */
	atomic_bool forked, foreign, nested;
	atomic_bool oneshots;	/* there have been plain ones with our data */
	atomic_uchar *uses;	/* forked: the child has used it */
	struct sr_watch watch;
	struct sr_task task;	/* level mode: settle */
	struct sr_epoll_entry *entries, *spare;
	atomic_int members;	/* entries; also read without the lock */
	atomic_int shut;	/* entries */

	_Alignas(64) pthread_mutex_t look_lock;
	atomic_bool looking;
	pthread_mutex_t ready_lock;
	struct sr_epoll_entry *first, *last;
	atomic_int ready;	/* listed */
	int sure;		/* of these */
	bool rung;
	atomic_uint sleepers;
	atomic_uint turns;
	atomic_uint calls;	/* of the kernel's epoll_wait */
	atomic_uint complete;	/* the last of them that told all */
	atomic_bool spinning;	/* a thread is */
	struct sr_spin spin;
};

/* ---- epoll_set.c ---- */
/* Inner and bell are there and wake the program's set.  set->lock not held. */
bool sr_epoll_install(struct sr_epoll *set);
void sr_epoll_uninstall(struct sr_epoll *set);
void sr_epoll_to_level(struct sr_epoll *set);
/* For the stream, linked into the set's list.  NULL: no memory. */
struct sr_epoll_entry *sr_epoll_entry_new(struct sr_epoll *set,
					  struct sr_stream *st);
void sr_epoll_entry_free(struct sr_epoll_entry *e);	/* set->lock held */
/* The entry that the program's data is the address of, or NULL. */
struct sr_epoll_entry *sr_epoll_entry_of(struct sr_epoll *set, uint64_t data);
bool sr_epoll_used_by_child(struct sr_epoll *set);
void sr_epoll_foreign_use(struct sr_epoll *set);
void sr_epolls_settle_nested(void);

/* ---- epoll_entry.c ---- */
#define SR_EPOLL_COUNT 63u	/* bits of our data below the address */
#define SR_EPOLL_BELL 1u	/* in inner: a bell's event, not the anchor's */
static inline uint64_t sr_epoll_address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static inline struct sr_epoll_entry *sr_epoll_entries(struct sr_stream *st)
{
	return atomic_load_explicit(&st->epoll, memory_order_relaxed);
}

uint64_t sr_epoll_entry_data(const struct sr_epoll_entry *e);
/* The kernel's epoll_ctl; 0 or -errno. */
int sr_epoll_control(int epfd, int op, int fd, uint32_t events, uint64_t data);
/* The events of a muted entry, and events and data of one that is plain. */
uint32_t sr_epoll_mute(const struct sr_epoll_entry *e);
void sr_epoll_plain_form(struct sr_epoll_entry *e, uint32_t *events,
			 uint64_t *data);
/* The stream goes back to TCP, in the background. */
void sr_epoll_leave(struct sr_stream *st);
/* epoll_lock held: not shut any more, though still mute in the kernel's set; that one
 * in its plain form again (0 or -errno); forgotten, and the kernel's stays or goes. */
void sr_epoll_entry_open(struct sr_epoll_entry *e);
int sr_epoll_restore(struct sr_epoll_entry *e);
void sr_epoll_entry_remove(struct sr_epoll_entry *e);
void sr_epoll_expel(struct sr_epoll_entry *e);
/* A shut entry stands on the links of its stream (NULL: not on that one); for
 * room only if there is none (full), but a sender that finds none later may stand
 * for it, too, and its bell is heard.  False: the entry is not shut any more. */
bool sr_epoll_stand(struct sr_epoll_entry *e, struct sr_link *rx,
		    struct sr_link *tx, bool full);

/* ---- epoll_gone.c ---- */
/* All that the set holds is taken out. */
void sr_epoll_clear(struct sr_epoll *set);
/* Forked or executed: the program's own data for all. */
void sr_epoll_own_data(struct sr_epoll *set);

/* ---- epoll_ready.c ---- */
#define SR_EPOLL_ALL UINT32_MAX
/* Something may have happened.  edge: what is news if edge-triggered. */
void sr_epoll_list(struct sr_epoll_entry *e, uint32_t edge);
void sr_epoll_unlist(struct sr_epoll_entry *e);
void sr_epoll_harvest(struct sr_epoll *set);	/* events of inner */
void sr_epoll_settle(struct sr_epoll *set);	/* drop what has nothing */
void sr_epoll_hush(struct sr_epoll *set);	/* the bell has done its work */
void sr_epoll_ring(struct sr_epoll *set);	/* what called us is for the next */
/* Reports up to max of what is listed, none twice in a turn.  linger: what is quiet
 * may stay on the list, not standing. */
int sr_epoll_collect(struct sr_epoll *set, struct epoll_event *ev, int max,
		     unsigned turn, bool linger);

#endif
