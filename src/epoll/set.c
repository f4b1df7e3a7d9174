/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * set.c - the sets of the process: the table, the memory of sets, the waker in the
 * kernel's set, fork.
 *
 * A set has no reference count: its memory stays a set's, and is used again.  What
 * changes a set looks under a lock whether the table still has it at the number that
 * the program gave; sr_epoll_gone() takes it out of the table before it takes that lock.
 *
 * fork.  Streams that are on a link stay so, and so do their entries.  The parent goes
 * on as before.  In the child the set is inherited: it has no entries and is foreign.  When
 * the child first uses such a set, and when it receives a token
 * there, which may have been to wake the parent, it writes to an eventfd that the service
 * threads of all processes of the family watch, and they give their sets up.
 *
 * A slot (base/family.h) counts the processes that have a set.  A process that ends, executes
 * another program or closes the set counts itself out, when nothing in the kernel's set needs
 * that process any more to be understood.  Its tokens vanish with its descriptors a moment
 * later.  The last one finds, when it uses the set next, that it is alone: the set is an
 * ordinary one then (a daemon makes its set and forks into the background).  A process that
 * is killed never counts itself out, and the set stays foreign.
 *
 * sets_lock is a leaf.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cancel.h"
#include "base/family.h"
#include "base/fdmap.h"
#include "base/fdpriv.h"
#include "base/loop.h"
#include "base/now.h"
#include "engine/engine.h"
#include "engine/observers.h"
#include "engine/stream.h"
#include "upgrade/upgrade.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"
#include "epoll/pool.h"

static struct sr_mutex sets_lock = SR_MUTEX(SR_RANK_LEAF);
static struct sr_epoll *sets;	/* all there ever were */
struct sr_epoll sr_epoll_parents = {
	.epfd = -1,
	.waker = -1,
	.foreign = true,
	.lock = SR_MUTEX(SR_RANK_SET),
	.look_lock = SR_MUTEX(SR_RANK_SET_LOOK),
};
SR_APART struct sr_fdmap sr_epoll_map;

/* ---- a thread that is cancelled ---- */

/* It may have taken the wake-up, and doorbells, out of the kernel's set: all entries are
 * looked at, and the waker may ring again. */
static void lost(void *asks)
{
	struct sr_epoll *set = asks;
	struct sr_epoll_entry *e;

	if (sr_epoll_is_shared(set)) {
		sr_epoll_return_wakeup();
		return;
	}
	atomic_store(&set->woken, false);
	sr_lock(&set->look_lock);
	sr_lock(&set->lock);
	for (e = set->entries; e; e = e->next)
		if (atomic_load(&e->state) & SR_EPOLL_LIVE)
			sr_epoll_list(e, 0);
	sr_unlock(&set->lock);
	sr_unlock(&set->look_lock);
}

/* ---- sets ---- */

/* One that is not used; sets_lock held. */
static struct sr_epoll *find_free(void)
{
	struct sr_epoll *set = sets;

	while (set && set->fds)
		set = set->next_set;
	if (set)
		return set;
	sr_enter();
	set = aligned_alloc(64, sizeof(*set));
	sr_leave();
	if (!set)
		return NULL;
	memset(set, 0, sizeof(*set));
	sr_mutex_init(&set->look_lock, SR_RANK_SET_LOOK);
	sr_mutex_init(&set->lock, SR_RANK_SET);
	set->waker = -1;
	set->next_set = sets;
	sets = set;
	return set;
}

struct sr_epoll *sr_epoll_first(void)
{
	struct sr_epoll *set;

	sr_lock(&sets_lock);
	set = sets;
	sr_unlock(&sets_lock);
	return set;
}

void sr_epoll_opened(int fd)
{
	struct sr_epoll *set;
	void *old;

	atomic_store(&sr_cancel_lost, lost);
	sr_epoll_gone(fd);
	sr_lock(&sets_lock);
	set = find_free();
	if (!set)
		goto out;	/* foreign, then */
	set->epfd = fd;
	set->installed = set->foreign = set->others = set->woken = false;
	set->listener = NULL;
	set->inherited = SR_EPOLL_MADE;
	set->slot = set->paused = NULL;
	memset(&set->spin, 0, sizeof(set->spin));
	set->fds = sr_fdmap_set(&sr_epoll_map, fd, set, &old);
out:
	sr_unlock(&sets_lock);
}

void sr_epoll_duplicated(int fd, int got)
{
	struct sr_epoll *set;
	void *old;

	sr_epoll_gone(got);
	sr_lock(&sets_lock);
	set = sr_epoll_peek(fd);
	if (set)
		set->fds += sr_fdmap_set(&sr_epoll_map, got, set, &old);
	sr_unlock(&sets_lock);
}

void sr_epoll_other(int epfd)
{
	struct sr_epoll *set = sr_epoll_peek(epfd);

	if (set)
		atomic_store(&set->others, true);
}

void sr_epoll_listens(struct sr_epoll *set, struct sr_stream *listener)
{
	struct sr_stream *was = NULL;

	if (!atomic_compare_exchange_strong(&set->listener, &was, listener) && was != listener)
		atomic_store(&set->listener, SR_EPOLL_LISTENERS);
}

static bool has_listener(struct sr_epoll *set, struct sr_stream *listener)
{
	struct sr_stream *has = atomic_load(&set->listener);

	return set->fds && (has == listener || has == SR_EPOLL_LISTENERS);
}

/* (A thread that has left its wait by siglongjmp(3), or was cancelled there, counts on.) */
bool sr_epoll_awaits(struct sr_stream *listener)
{
	struct sr_epoll *set;

	sr_lock(&sets_lock);
	for (set = sets; set; set = set->next_set)
		if (has_listener(set, listener) &&
		    (atomic_load(&set->sleepers) & SR_EPOLL_SLEEPERS))
			break;
	sr_unlock(&sets_lock);
	return set;
}

/* Another of its descriptors is the one that we use. */
static void move_epfd(struct sr_epoll *set, int from)
{
	int fd, max = sr_epoll_max();

	sr_lock(&set->lock);
	if (set->epfd == from) {
		set->epfd = -1;
		for (fd = 0; fd <= max && set->epfd < 0; fd++)
			if (sr_epoll_peek(fd) == set)
				set->epfd = fd;
	}
	sr_unlock(&set->lock);
}

static int control(struct sr_epoll *set, int op, int fd, uint32_t events,
		   uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return sr_sys_epoll_ctl(set->epfd, op, fd, &ev) < 0 ? -errno : 0;
}

/* The waker leaves the kernel's set; set->lock held. */
static void uninstall(struct sr_epoll *set)
{
	if (set->installed)
		control(set, EPOLL_CTL_DEL, set->waker, 0, 0);
	set->installed = false;
}

static void clear(struct sr_epoll *set)
{
	struct sr_stream *st;

	for (;;) {
		sr_lock(&set->lock);
		st = set->entries ? sr_stream_ref(set->entries->st) : NULL;
		sr_unlock(&set->lock);
		if (!st)
			return;
		sr_epoll_each(st, set, -1, sr_epoll_remove);
		sr_stream_put(st);
	}
}

static void release_one(struct sr_stream *st, void *set)
{
	sr_epoll_each(st, set, -1, sr_epoll_release);
}

void sr_epoll_hand_down(struct sr_epoll *set)
{
	if (set->entries && set->slot && atomic_load(&set->slot->owners) > 1)
		sr_streams_walk(release_one, set);
}

/* set->lock held. */
static void set_make_own(struct sr_epoll *set)
{
	if (!sr_epoll_is_shared(set))
		return;
	atomic_store(&set->foreign, false);
	atomic_fetch_sub(&set->linked, 1);
	atomic_store(&set->inherited, SR_EPOLL_LEFT);
}

/* The last descriptor is about to be closed.  A thread that is asleep in the set is not
 * woken by links any more. */
static void end(struct sr_epoll *set)
{
	sr_epoll_hand_down(set);
	clear(set);
	sr_lock(&set->lock);
	uninstall(set);
	set->epfd = -1;
	set_make_own(set);
	if (set->slot)
		sr_slot_put(set->slot);
	set->slot = NULL;
	sr_unlock(&set->lock);
	sr_epoll_drain(set);
	sr_lock(&sets_lock);
	set->fds = 0;
	sr_unlock(&sets_lock);
}

void sr_epoll_gone(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_epoll_map, fd);
	struct sr_epoll *set;
	bool last;

	if (!e || !atomic_load(e))
		return;
	sr_lock(&sets_lock);
	set = atomic_exchange(e, NULL);
	last = set && set->fds == 1;
	if (set && !last)
		set->fds--;
	sr_unlock(&sets_lock);
	if (last)
		end(set);
	else if (set)
		move_epfd(set, fd);
}

/* ---- sets are no longer ours alone ---- */

struct giving {
	struct sr_epoll *set;
	bool must;
};

static void give_one(struct sr_stream *st, void *arg)
{
	struct giving *g = arg;

	if (!sr_epoll_each(st, g->set, -1, NULL))
		return;
	sr_stream_plain(st, SR_REASON_EPOLL, g->must);
	sr_epoll_each(st, g->set, -1, sr_epoll_release);
}

static void give_up(struct sr_epoll *set, bool must)
{
	struct giving g = { set, must };
	int err = errno;

	/* pair foreign: sr_epoll_each() looks for the stream's first entry; add() in entry.c
	 * changes that and looks at `foreign'. */
	if (atomic_exchange(&set->foreign, true) && !must)
		return;
	sr_streams_walk(give_one, &g);
	/* A waker that has rung would make the set ready. */
	sr_lock(&set->lock);
	if (must || !atomic_load(&set->linked))
		uninstall(set);
	sr_unlock(&set->lock);
	errno = err;
}

void sr_epoll_give_up(int epfd, bool must)
{
	struct sr_epoll *set = sr_epoll_peek(epfd);

	if (!set)
		return;
	sr_lock(&set->lock);
	if (must || sr_epoll_is_shared(set))
		set->slot = NULL;	/* never counted out: it stays foreign to all */
	sr_unlock(&set->lock);
	give_up(set, must);
}

/* ---- the kernel's set ---- */

int sr_epoll_control(struct sr_epoll *set, int op, int fd, uint32_t events,
		     uint64_t data)
{
	int r;

	sr_lock(&set->lock);
	r = control(set, op, fd, events, data);
	sr_unlock(&set->lock);
	return r;
}

/* ---- fork ---- */

/* A wake-up was lost to another process of the family. */
static void family_rang(struct sr_watch *w, uint32_t events)
{
	(void)w;
	(void)events;
	for (struct sr_epoll *set = sr_epoll_first(); set; set = set->next_set)
		give_up(set, false);
}

static struct sr_watch family = { .fd = -1, .fn = family_rang };

/* sets_lock held. */
static bool make_family(void)
{
	if (family.fd < 0)
		family.fd = sr_fd_own(sr_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	return family.fd >= 0;
}

static atomic_bool watched;	/* the family, by this process */

static bool watch_family(void)
{
	uint64_t n;
	bool ok;
	int r;

	if (atomic_load(&watched))
		return true;
	sr_lock(&sets_lock);
	ok = make_family();
	sr_unlock(&sets_lock);
	if (!ok)
		return false;
	(void)!sr_now_read(family.fd, &n, sizeof(n)); /* from before we were in a set */
	r = sr_loop_watch(&family, EPOLLIN | EPOLLET);
	if (r && r != -EEXIST)	/* another thread was first */
		return false;
	atomic_store(&watched, true);
	return true;
}

bool sr_epoll_install(struct sr_epoll *set)
{
	bool ok;

	if (atomic_load(&set->installed))
		return !atomic_load(&set->foreign);
	if (!watch_family())
		return false;
	sr_lock(&set->lock);
	if (set->waker < 0)
		set->waker = sr_fd_own(sr_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (!set->installed && set->epfd >= 0 && !atomic_load(&set->foreign))
		set->installed = !control(set, EPOLL_CTL_ADD, set->waker,
					  EPOLLIN | EPOLLET, sr_epoll_pool);
	ok = set->installed;
	sr_unlock(&set->lock);
	return ok;
}

static atomic_bool used_inherited;

void sr_epoll_use_inherited(struct sr_epoll *set)
{
	bool alone;

	sr_lock(&set->lock);
	alone = set->slot && atomic_load(&set->slot->owners) == 1;
	if (alone)
		set_make_own(set);
	sr_unlock(&set->lock);
	if (!alone && !atomic_exchange(&used_inherited, true))
		sr_epoll_return_wakeup();
}

void sr_epoll_return_wakeup(void)
{
	const uint64_t one = 1;
	int err = errno;

	(void)!sr_now_write(family.fd, &one, sizeof(one));
	errno = err;
}

void sr_epolls_await(void)
{
	struct sr_epoll *set;

	if (sr_epoll_max() < 0)
		return;
	sr_lock_unordered(&sets_lock);
	set = sets;
	sr_unlock(&sets_lock);
	for (; set; set = set->next_set)
		sr_lock_await(&set->look_lock);
}

/* A set that is neither counted nor foreign is this process's alone so far. */
static void set_share(struct sr_epoll *set)
{
	if (!set->slot && !atomic_load(&set->foreign))
		set->slot = sr_slot_get();
	if (set->slot)
		atomic_fetch_add(&set->slot->owners, 1);
}

void sr_epolls_before_fork(void)
{
	struct sr_epoll *set;
	bool ok;

	if (sr_epoll_max() < 0)
		return;
	sr_epoll_pool_before_fork();
	sr_lock_unordered(&sets_lock);
	ok = make_family();
	for (set = sets; set; set = set->next_set) {
		set->others = true;	/* the child, for one */
		if (!ok)
			set->foreign = true;
		if (set->fds)
			set_share(set);
	}
	sr_unlock(&sets_lock);
}

/* In the child: a set without entries, whose locks are free. */
static void set_inherit(struct sr_epoll *set)
{
	sr_mutex_init(&set->lock, SR_RANK_SET);
	sr_mutex_init(&set->look_lock, SR_RANK_SET_LOOK);
	set->waker = -1;
	set->listener = NULL;
	set->installed = set->woken = set->spinning = false;
	set->entries = set->first = set->last = NULL;
	set->news = NULL;
	set->ready = set->plain = 0;
	set->sleepers = set->drained = 0;
	set->inherited = set->fds ? SR_EPOLL_SHARED : SR_EPOLL_MADE;
	set->foreign = set->fds;
	set->linked = set->fds ? 1 : 0;
}

void sr_epolls_forget(void)
{
	struct sr_epoll *set;

	sr_mutex_init(&sets_lock, SR_RANK_LEAF);
	sr_mutex_init(&sr_epoll_parents.lock, SR_RANK_SET);
	sr_mutex_init(&sr_epoll_parents.look_lock, SR_RANK_SET_LOOK);
	used_inherited = watched = false;
	for (set = sets; set; set = set->next_set)
		set_inherit(set);
	sr_epoll_pool_forget();
}

bool sr_epolls_keep(int fd)
{
	return fd == family.fd;
}
