/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * family.c - sets that a process has inherited, or has left to its children.
 *
 * All processes of the family, a process and those forked from it, share an eventfd, which their
 * service threads watch.  A child writes to it when it first uses a set that other processes have,
 * too, and whenever it receives a token there, because that event may have been meant to wake the
 * parent.  Then each process that watches the eventfd makes those of its sets foreign that are
 * older than a fork.
 *
 * A slot (base/family.h) counts the processes that have a set.  A process counts itself out
 * when it ends, executes another program or closes the set.  Before that it makes its entries
 * in the kernel's set the program's own again, because no other process understands its tokens.
 * (Those of its doorbells vanish with its descriptors, a moment later.)  When a child uses an
 * inherited set and no other process has the set any more, the set becomes an ordinary one.  A
 * daemon that makes its set and then forks into the background is such a case.  A process that
 * is killed never counts itself out, so the set stays foreign.
 *
 * Until then the set is lent (sr_epoll_is_lent()).  A stream that is added to a lent set has a
 * plain entry, and gets no link yet.  A plain entry needs no token in the kernel's set, unless it
 * is one-shot; so one-shot entries are not kept in a lent set.
 *
 * Locks: family_lock, a leaf; set->lock.
 */
#include "base/sys.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "base/family.h"
#include "base/fdpriv.h"
#include "base/loop.h"
#include "base/now.h"
#include "engine/engine.h"
#include "epoll/epoll.h"
#include "epoll/family.h"

static struct sr_mutex family_lock = SR_MUTEX(SR_RANK_LEAF);

/* Another process of the family uses an inherited set, and may have taken a wake-up of ours. */
static void family_rang(struct sr_watch *w, uint32_t events)
{
	(void)w;
	(void)events;
	for (struct sr_epoll *set = sr_epoll_first(); set; set = set->next_set)
		if (sr_load(&set->forked))	/* else no other process has it */
			sr_epoll_lose(set, false);
}

static struct sr_watch family = { .fd = -1, .fn = family_rang };

bool sr_epoll_family_make(void)
{
	bool ok;

	sr_lock_unordered(&family_lock);
	if (family.fd < 0)
		family.fd = sr_fd_own(sr_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	ok = family.fd >= 0;
	sr_unlock(&family_lock);
	return ok;
}

static atomic_bool watched;	/* the family, by this process */

bool sr_epoll_family_watch(void)
{
	uint64_t n;
	int r;

	if (sr_load(&watched))
		return true;
	if (!sr_epoll_family_make())
		return false;
	(void)!sr_now_read(family.fd, &n, sizeof(n)); /* from before we were in a set */
	r = sr_loop_watch(&family, EPOLLIN | EPOLLET);
	if (r && r != -EEXIST)	/* another thread was first */
		return false;
	sr_store(&watched, true);
	return true;
}

void sr_epoll_return_wakeup(void)
{
	const uint64_t one = 1;
	int err = errno;

	(void)!sr_now_write(family.fd, &one, sizeof(one));
	errno = err;
}

static atomic_bool used_inherited;

void sr_epoll_use_inherited(struct sr_epoll *set)
{
	bool alone;

	sr_lock(&set->lock);
	alone = set->slot && sr_observe(&set->slot->owners) == 1; /* pairs with sr_slot_put() */
	if (alone)
		sr_epoll_make_own(set);
	sr_unlock(&set->lock);
	if (!alone && !atomic_exchange_explicit(&used_inherited, true, memory_order_relaxed))
		sr_epoll_return_wakeup();
}

bool sr_epoll_is_lent(struct sr_epoll *set)
{
	bool lent;

	sr_lock(&set->lock);
	lent = sr_epoll_is_shared(set) && set->slot;
	sr_unlock(&set->lock);
	return lent;
}

void sr_epoll_make_own(struct sr_epoll *set)
{
	if (!sr_epoll_is_shared(set))
		return;
	sr_store(&set->foreign, false);
	atomic_fetch_sub_explicit(&set->linked, 1, memory_order_relaxed);
	sr_store(&set->inherited, SR_EPOLL_LEFT);
}

static void release_one(struct sr_stream *st, void *set)
{
	sr_epoll_each(st, set, -1, sr_epoll_release);
}

void sr_epoll_hand_down(struct sr_epoll *set)
{
	bool others;

	sr_lock(&set->lock);
	others = set->entries && set->slot && sr_load(&set->slot->owners) > 1;
	sr_unlock(&set->lock);
	if (others)
		sr_streams_walk(release_one, set);
}

void sr_epoll_family_forget(void)
{
	sr_mutex_init(&family_lock, SR_RANK_LEAF);
	sr_store(&used_inherited, false);
	sr_store(&watched, false);
}

bool sr_epolls_keep(int fd)
{
	return fd == family.fd;
}
