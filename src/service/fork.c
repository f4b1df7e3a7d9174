/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fork.c - owns the handlers of fork(2), in the order in which the rooms need them.
 * Each room resets its own state.
 */
#include "base/real.h"

#include <pthread.h>
#include <string.h>
#include <sys/single_threaded.h>

#include "base/apart.h"
#include "base/closer.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/gather.h"
#include "base/jobs.h"
#include "base/last.h"
#include "base/log.h"
#include "base/process.h"
#include "link/rendezvous.h"
#include "engine/engine.h"
#include "engine/owners.h"
#include "engine/fdtab.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"
#include "wait/waitset.h"
#include "epoll/epoll.h"

/*
 * During fork no thread holds a lock of a set or of a stream (base/lock.h), so the child
 * finds no change half done; and no thread of the library is in malloc(3).  The links stay
 * with the parent.  The child starts with no service thread and no links, and makes a stream
 * its own when it looks the stream up (engine/owners.h).
 */

/* There is nothing that fork could disturb, and no other thread that could make such a thing
 * meanwhile.  Written while the process has one thread. */
static bool nothing_yet;

static bool is_fork_left_alone(void)
{
	return sr_conf.inert || nothing_yet || sr_loop_here();
}

static void before_fork(void)
{
	bool nothing = __libc_single_threaded && sr_fdtab_max() < 0 &&
		       sr_epoll_max() < 0 && !sr_loop_runs();

	if (nothing_yet != nothing)	/* else the page is not written */
		nothing_yet = nothing;
	if (is_fork_left_alone())
		return;
	sr_locks_stop();
	sr_epolls_await_locks();
	sr_streams_before_fork(sr_guest_rang);
	sr_epolls_before_fork();
	sr_locks_await_loading();
	sr_locks_await_work();
}

static void in_parent(void)
{
	if (!is_fork_left_alone())
		sr_locks_go();
}

/* Doorbells of the processes whose guest this one may be: parent, grandparent, ... */
#define DOORBELLS 16
static int doorbells[DOORBELLS], doorbell_count;

SR_SELDOM static bool is_kept_in_child(int fd)
{
	int i;

	if (sr_fd_is_slow(fd) || sr_gather_keeps(fd) || sr_log_keeps(fd))
		return true;
	for (i = 0; i < doorbell_count; i++)
		if (doorbells[i] == fd)
			return true;
	return sr_epolls_keep(fd);
}

static void note_bell(int doorbell)
{
	if (doorbell < 0)
		return;
	if (doorbell_count == DOORBELLS)
		memmove(doorbells, doorbells + 1, sizeof(doorbells[0]) * (size_t)--doorbell_count);
	doorbells[doorbell_count++] = doorbell;
}

SR_SELDOM static void in_child(void)
{
	sr_hold();	/* defers handlers until the locks are new */
	sr_locks_go_in_child();
	if (nothing_yet)
		sr_process_begin();
	if (is_fork_left_alone())
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
	sr_waitset_space_forget();
	sr_answer_forget();
	sr_loop_forget();
	sr_jobs_forget();
	sr_closer_forget();
	sr_last_forget();
	sr_gather_forget();
	note_bell(sr_doorbell_forget());
	sr_fd_forget_all(is_kept_in_child);
	sr_closer_inherit();
out:
	sr_hold_none();
}

__attribute__((constructor)) static void fork_begin(void)
{
	sr_answer_init();
	pthread_atfork(before_fork, in_parent, in_child);
}
