/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wake.c - sleeping and waking of the two ends of a shared memory link: doorbells,
 * the line, futexes.  It knows no bytes and no messages.  Locks: arm_lock (shm.h).
 *
 * No wake-up is lost.  A sleeper sets a flag in its own page, and looks again.
 * An end that moves an offset stores it, and then reads the sleeper's flag.
 * This is a store-load pair (base/order.h), so at least one of them sees what the
 * other stored: either the sleeper does not sleep, or the other end rings the
 * doorbell.  It clears the flag before it writes a packet to the doorbell.  So if
 * a flag is clear while a thread sleeps that has set it, then a packet is on its
 * way, or another thread of the sleeper's process has drained it, and that thread
 * notifies the sleeper (see awake()).
 *
 * The doorbell is a pair of connected sockets, an end for each process: a
 * packet wakes the other end's sleepers, and one descriptor serves both
 * directions.  It is a stream of bytes, so that one call drains it, unless the peer is a
 * stranger, who might attach descriptors to a byte.
 *
 * A message or a drop always wakes the other end's service thread, by a packet on the
 * line, which is the connection of the rendezvous.  It rings the doorbell, too, if the
 * other end sleeps; but not if a sleeper there is an epoll set that the program itself
 * waits for (BY_LINE), because the doorbell would make that set readable, and a message is
 * nothing that the set could report.  The line and the doorbell are two descriptors, so
 * that data do not wake the service thread as well (that took 4 us of a sleeping round
 * trip of 10).  The line's end of file says that the peer is gone.
 *
 * Why there are two ways to wait, and counts of who waits.  A thread waits from arm() to
 * awake(), and drains the doorbell.  An epoll set waits for as long as its entry is linked,
 * across many calls, and its edge-triggered doorbell needs no draining; so nothing ends
 * arm_once().  All of them share the flags of one page, and the counts (armed_rx, armed_tx,
 * armed_once) say for whom a flag is.  A thread that stops waiting has to clear the flags that
 * nobody else needs: if it left them set, the peer would ring for nothing after each wait that
 * found something before it slept; if it cleared all, the others would not be woken.  And
 * a thread that has drained the doorbell cannot leave it to its look to notify the others,
 * because a send takes in credit without notify() (tx_room()): then the look finds nothing new,
 * and a thread that sleeps for room has a cleared flag and no packet.
 * tests/model/order.pml has one sleeper (DOORBELL); there is no model of several.
 *
 * The asker has its end of the doorbell from the answerer, which may have kept a copy
 * of that end, and may read from it.  If the asker does not trust the answerer, the line
 * is the doorbell as well.
 */
#include "base/real.h"

#include "link/shm/shm.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "base/now.h"
#include "base/order.h"

/* ---- doorbells ---- */

/* Puts a packet on the doorbell or the line.  If the socket is full, the
 * packets in it wake the peer just as well. */
static void ring_bell(int fd)
{
	int err = errno;

	if (fd >= 0)
		(void)!sr_now_send(fd, "", 1);
	errno = err;
}

/* More packets than an honest peer sends: one for each bit of `asleep`, and one for each
 * message. */
#define DRAIN_MAX 64

/* Returns false if the other end is closed, or lies.  arm_lock, for sr_local_recv().  A stream of
 * bytes is empty when a call has had less than it asked for.  (That its end has come, too, the
 * next call shows, and the line.) */
static bool drain_bell(struct sr_shm *l, int fd)
{
	size_t most = fd == l->doorbell && l->bell_streams ? DRAIN_MAX : 1;
	int err = errno, i = 0;
	char c[DRAIN_MAX];
	ssize_t n;
	bool open;

	do {
		n = l->stranger ? sr_local_recv(fd, c, 1) :
				  sr_now_recv(fd, c, most, 0);
	} while (n > 0 && (size_t)n == most && ++i < DRAIN_MAX);
	open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
	errno = err;
	return open;
}

/* In `asleep`, besides the SR_NOTIFY_ bits: how the sleeper is to be woken. */
enum { BY_LINE = SR_ARM_DATA, BY_DOORBELL = 1 << 6, BY_FUTEX = 1 << 7 };
#define WANTED (SR_NOTIFY_RX | SR_NOTIFY_TX)
static_assert((WANTED & (BY_LINE | BY_DOORBELL | BY_FUTEX)) == 0, "bits of their own");

static void wake_futex(_Atomic uint32_t *word)
{
	int err = errno;

	SR_SYS(SYS_futex, word, FUTEX_WAKE, INT_MAX);
	errno = err;
}

/* Says where this thread runs.  Returns what it says. */
static uint32_t tell_core(struct sr_shm *l)
{
	uint32_t core = (uint32_t)sched_getcpu() + 1;

	if (sr_load(&l->own->core) != core)
		sr_store(&l->own->core, core);
	return core;
}

/* An end tells its core when it begins to wait and when it wakes the other one. */
bool sr_shm_same_core(struct sr_link *link)
{
	struct sr_shm *l = sr_shm_of(link);
	uint32_t own = tell_core(l);

	return own && own == sr_load(&l->peer->core);
}

/* pair doorbell: the caller has changed an offset; arm() and arm_once() change `asleep'. */
void sr_shm_ring(struct sr_shm *l, unsigned bit)
{
	_Atomic uint32_t *asleep = &l->peer->asleep;
	uint32_t was;

	if (!(sr_look(asleep) & bit))
		return;
	/* Pairs with arm_once() and awake(): a thread that finds the bit gone sees the change. */
	was = atomic_fetch_and_explicit(asleep, ~bit, memory_order_acq_rel);
	if (!(was & bit))
		return;
	tell_core(l);
	if (was & BY_FUTEX)
		wake_futex(asleep);
	if (was & BY_DOORBELL)
		ring_bell(l->doorbell);
}

void sr_shm_ring_all(struct sr_shm *l)
{
	if (sr_observe(&l->by_line)) /* pairs with go_to_memory(): nothing there but messages */
		return;
	sr_fence_look(); /* pair doorbell: arm(), arm_once() */
	if (!(sr_look(&l->peer->asleep) & BY_LINE))
		sr_shm_ring(l, WANTED);
	ring_bell(l->line.fd);
}

/* The other end of the line or doorbell is closed.  The peer has dropped the
 * link, and recorded that before, or it was killed. */
void sr_shm_line_lost(struct sr_shm *l)
{
	sr_shm_look(&l->link);
	if (!sr_observe(&l->peer->dropped)) /* pairs with the peer's say_dropped() */
		sr_link_raise(&l->link, SR_LINK_LOST);
	sr_shm_drop(&l->link, "peer-dropped");
}

/* ---- sleeping ---- */

int sr_shm_arm(struct sr_link *link, unsigned want)
{
	struct sr_shm *l = sr_shm_of(link);

	tell_core(l);
	sr_lock(&l->arm_lock);
	l->armed_rx += (want & SR_NOTIFY_RX) != 0;
	l->armed_tx += (want & SR_NOTIFY_TX) != 0;
	atomic_fetch_or_explicit(&l->own->asleep, (want & WANTED) | BY_DOORBELL, memory_order_relaxed);
	sr_unlock(&l->arm_lock);
	sr_fence_look(); /* pair doorbell: sr_shm_ring() */
	return l->doorbell;
}

/* If a flag that an earlier call set is clear, its wake-up has come.  Then the doorbell
 * is drained, because a doorbell that is readable already would cause no edge, and the
 * other waiters, for whom these packets may have been meant, are notified. */
int sr_shm_arm_once(struct sr_link *link, unsigned want)
{
	struct sr_shm *l = sr_shm_of(link);
	unsigned others = 0, flags, how = BY_DOORBELL | (want & BY_LINE);
	bool open = true;

	want &= WANTED;
	if (!want)
		return l->doorbell;
	tell_core(l);
	sr_lock(&l->arm_lock);
	flags = sr_observe(&l->own->asleep); /* pairs with the peer's sr_shm_ring() */
	if (l->armed_once & ~flags) {
		open = drain_bell(l, l->doorbell);
		others |= l->armed_rx ? SR_NOTIFY_RX : 0;
		others |= l->armed_tx ? SR_NOTIFY_TX : 0;
		flags = sr_observe(&l->own->asleep); /* as above */
	}
	l->armed_once |= want;
	atomic_fetch_or_explicit(&l->own->asleep, want | how, memory_order_relaxed);
	sr_unlock(&l->arm_lock);
	sr_fence_look(); /* pair doorbell: sr_shm_ring() */
	if (others & ~flags)
		link->notify(link, others & ~flags);
	if (!open)
		sr_shm_line_lost(l);
	return l->doorbell;
}

/* The peer first clears a wanted bit, which changes the word, and then wakes
 * sleepers if BY_FUTEX is set.  So a thread that calls futex(2) with a value that has
 * the bit set either does not fall asleep, or is woken.  The caller must check whether
 * the bit is clear already.  (Not for a stranger: by FUTEX_CMP_REQUEUE it could move our
 * sleeping thread to another word, where no process would wake it after the stranger
 * has ended.) */
_Atomic uint32_t *sr_shm_futex(struct sr_link *link, unsigned want)
{
	struct sr_shm *l = sr_shm_of(link);

	(void)want;
	if (l->stranger)
		return NULL;
	sr_lock(&l->arm_lock);
	atomic_fetch_or_explicit(&l->own->asleep, BY_FUTEX, memory_order_relaxed);
	/* no waiter but the caller */
	if (l->armed_rx + l->armed_tx == 1 && !l->armed_once)
		atomic_fetch_and_explicit(&l->own->asleep, ~BY_DOORBELL, memory_order_relaxed);
	sr_unlock(&l->arm_lock);
	return &l->own->asleep;
}

/* All armed threads sleep on one doorbell, and the first thread that wakes drains it.
 * If a flag that another thread waits for is clear, the packet was meant for
 * that thread as well, and it is notified.  An epoll set armed by arm_once() is
 * notified once. */
void sr_shm_awake(struct sr_link *link, unsigned want, bool watched, bool slept)
{
	struct sr_shm *l = sr_shm_of(link);
	unsigned others = 0, flags, kept = 0;
	bool open;

	(void)watched;
	sr_lock(&l->arm_lock);
	open = !slept || drain_bell(l, l->doorbell);
	l->armed_rx -= (want & SR_NOTIFY_RX) != 0;
	l->armed_tx -= (want & SR_NOTIFY_TX) != 0;
	others |= l->armed_rx ? SR_NOTIFY_RX : 0;
	others |= l->armed_tx ? SR_NOTIFY_TX : 0;
	others |= l->armed_once;
	if (others)
		kept = others | ~(uint32_t)WANTED;
	if (!l->armed_rx && !l->armed_tx)	/* a set is left, and no thread on the futex */
		kept &= ~(uint32_t)BY_FUTEX;
	/* Acquires: pairs with the peer's sr_shm_ring(), as in arm_once(). */
	flags = atomic_fetch_and_explicit(&l->own->asleep, kept, memory_order_acq_rel);
	l->armed_once &= flags;
	sr_unlock(&l->arm_lock);
	if (others & ~flags)
		link->notify(link, others & ~flags);
	if (!open)
		sr_shm_line_lost(l);
	sr_shm_look(&l->link);
}

void sr_shm_line_readable(struct sr_watch *w, uint32_t events)
{
	struct sr_shm *l = SR_OF(struct sr_shm, line, w);
	bool open;

	(void)events;
	sr_lock(&l->arm_lock);
	open = drain_bell(l, w->fd);
	sr_unlock(&l->arm_lock);
	if (open) {
		if (l->doorbell == w->fd)	/* the sleepers' packets were drained, too */
			sr_shm_awake(&l->link, 0, false, false);
		else
			sr_shm_look(&l->link);
		return;
	}
	sr_loop_unwatch(w); /* the fd is closed later, when no thread can write to it */
	sr_shm_line_lost(l);
}
