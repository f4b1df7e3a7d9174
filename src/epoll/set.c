/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * set.c - the sets of the process: the table, the memory of sets, the waker in the
 * kernel's set, fork.
 *
 * A set has no reference count: its memory is only ever used for sets, and is used again.  So a
 * thread that adds an entry (set->lock), or visits the queue (look_lock), checks under that lock
 * whether the table still has the set at the program's descriptor.  sr_epoll_gone() takes the set
 * out of the table before it takes these locks.
 *
 * fork.  In the parent, streams that are on a link stay there, and so do their entries.  In the
 * child the set is inherited: it has no entries and is foreign.  When the child first uses such a
 * set, either no other process has it any more, or the others give it up (family.c).
 *
 * sets_lock is a leaf.
 */
#include "base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cancel.h"
#include "base/fdmap.h"
#include "base/fdpriv.h"
#include "engine/engine.h"
#include "engine/observers.h"
#include "engine/stream.h"
#include "upgrade/upgrade.h"
#include "epoll/epoll.h"
#include "epoll/family.h"
#include "epoll/impl.h"
#include "epoll/nest.h"
#include "epoll/pool.h"

static struct sr_mutex sets_lock = SR_MUTEX(SR_RANK_LEAF);
static struct sr_epoll *sets;	/* all there ever were */
struct sr_epoll sr_epoll_parents = {
	.epfd = -1,
	.waker = -1,
	.flag = -1,
	.foreign = true,
	.flag_lock = SR_MUTEX(SR_RANK_LEAF),
	.lock = SR_MUTEX(SR_RANK_SET),
	.look_lock = SR_MUTEX(SR_RANK_SET_LOOK),
};
SR_APART struct sr_fdmap sr_epoll_map;

/* ---- a thread that is cancelled ---- */

/* A cancelled thread may have taken the wake-up, and doorbells, out of the kernel's set.  So all
 * entries are listed, and the waker may ring again. */
static void set_lost(void *asks)
{
	struct sr_epoll *set = asks;
	struct sr_epoll_entry *e;

	if (sr_epoll_is_shared(set)) {
		sr_epoll_return_wakeup();
		return;
	}
	sr_store(&set->woken, false);	/* the lists below wake again */
	sr_lock(&set->look_lock);
	sr_lock(&set->lock);
	for (e = set->entries; e; e = e->next)
		if (sr_load(&e->state) & SR_EPOLL_LIVE)
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
	sr_mutex_init(&set->flag_lock, SR_RANK_LEAF);
	sr_store(&set->waker, -1);
	sr_store(&set->flag, -1);
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

	sr_store(&sr_cancel_lost, set_lost);
	sr_epoll_gone(fd);
	sr_lock(&sets_lock);
	set = find_free();
	if (!set)
		goto out;	/* foreign, then */
	set->epfd = fd;
	sr_store(&set->installed, false);
	sr_store(&set->foreign, false);
	sr_store(&set->others, false);
	sr_store(&set->woken, false);
	sr_store(&set->forked, false);
	sr_store(&set->outer, NULL);
	sr_store(&set->listener, NULL);
	sr_store(&set->inherited, SR_EPOLL_MADE);
	set->slot = set->paused = NULL;
	memset(&set->spin, 0, sizeof(set->spin));
	set->fds = sr_fdmap_set(&sr_epoll_map, fd, set, &old);
	sr_epoll_note_made(set);
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
		sr_store(&set->others, true);
}

void sr_epoll_listens(struct sr_epoll *set, struct sr_stream *listener)
{
	struct sr_stream *was = NULL;

	if (!atomic_compare_exchange_strong_explicit(&set->listener, &was, listener,
						     memory_order_relaxed,
						     memory_order_relaxed) &&
	    was != listener)
		sr_store(&set->listener, SR_EPOLL_LISTENERS);
}

static bool may_contain_listener(struct sr_epoll *set, struct sr_stream *listener)
{
	struct sr_stream *has = sr_load(&set->listener);

	return set->fds && (has == listener || has == SR_EPOLL_LISTENERS);
}

/* (A thread that has left its wait by siglongjmp(3), or was cancelled there, is still counted.) */
static bool is_listener_awaited(struct sr_stream *listener)
{
	struct sr_epoll *set;

	sr_lock(&sets_lock);
	for (set = sets; set; set = set->next_set)
		if (may_contain_listener(set, listener) &&
		    (sr_load(&set->sleepers) & SR_EPOLL_SLEEPERS) >
			    sr_epoll_is_nested(set))
			break;
	sr_unlock(&sets_lock);
	return set;
}

/* The descriptor `from' is closed: the library goes on with another one of the set. */
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

int sr_epoll_control_locked(struct sr_epoll *set, int op, int fd, uint32_t events,
			    uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return sr_sys_epoll_ctl(set->epfd, op, fd, &ev) < 0 ? -errno : 0;
}

/* The waker, or the flag, leaves the kernel's set; set->lock held. */
void sr_epoll_uninstall(struct sr_epoll *set)
{
	if (sr_load(&set->installed))
		sr_epoll_control_locked(set, EPOLL_CTL_DEL,
			sr_epoll_is_nested(set) ? sr_load(&set->flag) : sr_load(&set->waker), 0, 0);
	sr_store(&set->installed, false);
}

static void set_clear(struct sr_epoll *set)
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

/* The last descriptor is about to be closed.  A thread that is asleep in the set is not
 * woken by links any more. */
static void set_end(struct sr_epoll *set)
{
	sr_epoll_hand_down(set);
	set_clear(set);
	sr_lock(&set->lock);
	sr_epoll_uninstall(set);
	set->epfd = -1;
	sr_epoll_make_own(set);
	if (set->slot)
		sr_slot_put(set->slot);
	set->slot = NULL;
	sr_unlock(&set->lock);
	sr_epoll_drain(set);
	sr_epoll_unnest(set);
	sr_epoll_outer_ends(set);
	sr_lock(&sets_lock);
	set->fds = 0;
	sr_unlock(&sets_lock);
}

void sr_epoll_gone(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_epoll_map, fd);
	struct sr_epoll *set;
	bool last;

	if (!e || !sr_load(e))
		return;
	sr_lock(&sets_lock);
	set = sr_swap(e, NULL);	/* pairs with sr_fdmap_set() */
	last = set && set->fds == 1;
	if (set && !last)
		set->fds--;
	sr_unlock(&sets_lock);
	if (last)
		set_end(set);
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
	sr_stream_make_plain(st, SR_REASON_EPOLL, g->must);
	sr_epoll_each(st, g->set, -1, sr_epoll_release);
}

void sr_epoll_lose(struct sr_epoll *set, bool must)
{
	struct giving g = { set, must };
	int err = errno;

	/* pair foreign: sr_epoll_each() looks for the stream's first entry; entry_add() changes
	 * that, and looks at `foreign'. */
	if (atomic_exchange_explicit(&set->foreign, true, memory_order_seq_cst) && !must)
		return;
	if (sr_epoll_is_nested(set))
		sr_epoll_tell(set, false);
	sr_epoll_say_members(set);
	sr_streams_walk(give_one, &g);
	/* A waker that has rung would make the set ready. */
	sr_lock(&set->lock);
	if (must || sr_load(&set->linked) == sr_load(&set->nests))
		sr_epoll_uninstall(set);
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
	sr_epoll_lose(set, must);
}

/* ---- the kernel's set ---- */

int sr_epoll_control(struct sr_epoll *set, int op, int fd, uint32_t events,
		     uint64_t data)
{
	int r;

	sr_lock(&set->lock);
	r = sr_epoll_control_locked(set, op, fd, events, data);
	sr_unlock(&set->lock);
	return r;
}

bool sr_epoll_is_kernel_quiet(struct sr_epoll *set)
{
	struct pollfd p = { .events = POLLIN };
	bool quiet;

	sr_lock(&set->lock);
	p.fd = set->epfd;
	quiet = p.fd >= 0 && sr_sys_poll(&p, 1, 0) == 0;
	sr_unlock(&set->lock);
	return quiet;
}

bool sr_epoll_install(struct sr_epoll *set)
{
	uint32_t events = EPOLLIN;
	atomic_int *fd;
	bool ok;

	/* pair foreign: sr_epoll_lose(); entry_add() has changed the list of entries */
	if (sr_observe(&set->installed))	/* pairs with the publish below */
		return !sr_look(&set->foreign);
	if (!sr_epoll_family_watch())
		return false;
	sr_lock(&set->lock);
	fd = sr_epoll_is_nested(set) ? &set->flag : &set->waker;
	events |= sr_epoll_is_nested(set) ? 0 : EPOLLET;
	if (sr_load(fd) < 0)
		sr_store(fd, sr_fd_own(sr_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	if (!sr_load(&set->installed) && set->epfd >= 0 && !sr_look(&set->foreign))
		sr_publish(&set->installed, !sr_epoll_control_locked(set, EPOLL_CTL_ADD, sr_load(fd), events,
						     sr_load(&sr_epoll_pool)));
	ok = sr_load(&set->installed);
	sr_unlock(&set->lock);
	return ok;
}

/* ---- fork ---- */

void sr_epolls_await_locks(void)
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
	if (!set->slot && !sr_load(&set->foreign))
		set->slot = sr_slot_get();
	if (set->slot)
		sr_count(&set->slot->owners, 1);
}

void sr_epolls_before_fork(void)
{
	struct sr_epoll *set;
	bool ok;

	if (sr_epoll_max() < 0)
		return;
	sr_epoll_pool_before_fork();
	ok = sr_epoll_family_make();
	sr_lock_unordered(&sets_lock);
	for (set = sets; set; set = set->next_set) {
		sr_store(&set->others, true);	/* the child, for one */
		sr_store(&set->forked, true);
		if (!ok)
			sr_store(&set->foreign, true);
		if (set->fds)
			set_share(set);
	}
	sr_unlock(&sets_lock);
	for (set = sr_epoll_first(); set; set = set->next_set)
		if (sr_load(&set->outer))
			sr_epoll_tell(set, false);
}

/* In the child: a set without entries, whose locks are free. */
static void set_inherit(struct sr_epoll *set)
{
	sr_mutex_init(&set->lock, SR_RANK_SET);
	sr_mutex_init(&set->look_lock, SR_RANK_SET_LOOK);
	sr_mutex_init(&set->flag_lock, SR_RANK_LEAF);
	sr_store(&set->waker, -1);
	sr_store(&set->flag, -1);
	set->raised = false;
	set->unsaid = NULL;
	sr_store(&set->outer, SR_EPOLL_OUTERS);
	sr_store(&set->untidy, false);
	sr_store(&set->listener, NULL);
	sr_store(&set->installed, false);
	sr_store(&set->woken, false);
	sr_store(&set->spinning, false);
	sr_store(&set->nests, false);
	set->entries = set->first = set->last = NULL;
	sr_store(&set->news, NULL);
	sr_store(&set->ready, 0);
	sr_store(&set->dead, 0);
	sr_store(&set->plain, 0);
	sr_store(&set->drained, 0);
	sr_store(&set->sleepers, sr_load(&set->nested));
	sr_store(&set->inherited, set->fds ? SR_EPOLL_SHARED : SR_EPOLL_MADE);
	sr_store(&set->foreign, set->fds);
	sr_store(&set->linked, set->fds ? 1 : 0);
}

void sr_epolls_forget(void)
{
	struct sr_epoll *set;

	sr_mutex_init(&sets_lock, SR_RANK_LEAF);
	sr_mutex_init(&sr_epoll_parents.lock, SR_RANK_SET);
	sr_mutex_init(&sr_epoll_parents.look_lock, SR_RANK_SET_LOOK);
	sr_mutex_init(&sr_epoll_parents.flag_lock, SR_RANK_LEAF);
	sr_epoll_family_forget();
	for (set = sets; set; set = set->next_set)
		set_inherit(set);
	sr_epoll_pool_forget();
}

void sr_epolls_observe(void)
{
	sr_sets = (struct sr_sets_observer){
		.gate_shut = sr_epoll_gate_shut,
		.gate_opened = sr_epoll_gate_opened,
		.notified = sr_epoll_notified,
		.retired = sr_epoll_stream_retired,
		.inherited = sr_epoll_stream_inherited,
		.lent = sr_epoll_stream_lent,
		.awaits = is_listener_awaited,
		.domain = sr_epoll_domain,
	};
}
