/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fork.c - owns what fork(2) does to streams, and what precedes the first one.
 * Each room resets its own state.  Takes every lock of every stream.
 */
#include "base/real.h"

#include <pthread.h>
#include <sys/single_threaded.h>

#include "base/closer.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/process.h"
#include "link/rendezvous.h"
#include "engine/engine.h"
#include "engine/owners.h"
#include "engine/fdtab.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"
#include "epoll/epoll.h"
#include "epoll/hooks.h"

/*
 * Before a fork every lock of every stream is taken (no thread holds two streams'
 * locks, so any order will do), so that the child finds no change half done.  A link
 * stays with the parent; the child starts with no service thread and no links
 * (engine/owners.h).
 *
 * A locked stream gets a reference, so that its memory does not return to the
 * pool locked, and the flag fork_held: a stream that another thread opens
 * before the parent unlocks has neither.
 */
static void lock_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	sr_stream_ref(st);
	st->fork_held = true;
	sr_lock_unordered(&st->rx_lock);
	sr_lock_unordered(&st->tx_lock);
	sr_lock_unordered(&st->epoll_lock);
	sr_lock_unordered(&st->wait_lock);
}

static void unlock_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (!st->fork_held)
		return;
	st->fork_held = false;
	sr_unlock(&st->wait_lock);
	sr_unlock(&st->epoll_lock);
	sr_unlock(&st->tx_lock);
	sr_unlock(&st->rx_lock);
	sr_stream_put(st);
}

static void share_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (st->fork_held)
		sr_owners_share(st, sr_guest_rang);
}

/* There has been nothing so far that fork could disturb, and no other thread makes
 * something of that now.  Written by the only thread. */
static bool nothing_yet;

static bool is_left_alone(void)
{
	return sr_conf.inert || nothing_yet || sr_loop_here();
}

static void before_fork(void)
{
	nothing_yet = __libc_single_threaded && sr_fdtab_max() < 0 &&
		      sr_epoll_max() < 0 && !sr_loop_runs();
	if (is_left_alone())
		return;
	sr_streams_walk(lock_one, NULL);
	sr_streams_walk(share_one, NULL);
	sr_epolls_before_fork();
}

static void in_parent(void)
{
	if (is_left_alone())
		return;
	sr_epolls_in_parent();
	sr_streams_walk(unlock_one, NULL);
}

/* Bells of other processes whose guest this one is. */
static int bells[16], bell_count;

static bool is_bell(int fd)
{
	int i;

	for (i = 0; i < bell_count; i++)
		if (bells[i] == fd)
			return true;
	return false;
}

static void note_bell(struct sr_stream *st, void *arg)
{
	struct sr_slot *slot = atomic_load(&st->slot);

	(void)arg;
	if (atomic_load(&st->guest) && !is_bell(slot->bell) &&
	    bell_count < (int)(sizeof(bells) / sizeof(bells[0])))
		bells[bell_count++] = slot->bell;
}

static void in_child(void)
{
	sr_hold();	/* defers handlers until the locks are new */
	sr_lock_none();
	if (nothing_yet)
		sr_process_begin();
	if (is_left_alone())
		goto out;
	/* The links come first: when a stream drops one later, that must not
	 * reach the parent's link. */
	sr_link_forget();
	sr_rendezvous_shm.forget();
	if (sr_rendezvous_verbs.forget)
		sr_rendezvous_verbs.forget();
	sr_streams_forget();
	sr_epolls_forget();
	sr_waiters_forget();
	sr_answer_forget();
	sr_loop_forget();
	sr_closer_forget();
	sr_bell_forget();
	bell_count = 0;
	sr_streams_walk(note_bell, NULL);
	sr_fd_forget_all(is_bell);
	sr_epolls_inherit();
out:
	sr_hold_none();
}

__attribute__((constructor)) static void begin(void)
{
	sr_answer_init();
	pthread_atfork(before_fork, in_parent, in_child);
}
