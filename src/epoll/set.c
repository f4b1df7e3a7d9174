/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_set.c - the sets of the process: the table, the memory of sets and entries, the
 * bell in the kernel's set, fork.  The argument is in epoll_impl.h.
 *
 * sets_lock and pool_lock are leaves but for fork, which takes sets_lock first.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/fdmap.h"
#include "base/fdpriv.h"
#include "base/now.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "engine/stream.h"
#include "epoll/epoll.h"
#include "epoll/hooks.h"
#include "epoll/impl.h"

#define CHUNK 65536
#define SETS 4096
#define ACK_MS 10		/* that a child gives its parent to notice */

static pthread_mutex_t sets_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct sr_epoll *) sets[SETS];
static atomic_uint set_count;
static struct sr_epoll *free_sets;
struct sr_fdmap sr_epoll_map;

/* ---- entries: address space of a fixed size, whose memory is never given back ---- */

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_epoll_entry *free_entries;
static atomic_size_t pool_used;
_Atomic uintptr_t sr_epoll_pool;

static bool reserve(void)
{
	char *p = mmap(NULL, SR_EPOLL_POOL, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	atomic_store(&sr_epoll_pool, (uintptr_t)p);
	pool_used = CHUNK; /* the first is never an entry's: the bell's token */
	return true;
}

bool sr_epoll_known(uint64_t token)
{
	return token - sr_epoll_pool < pool_used;
}

/* pool_lock held. */
static bool grow(void)
{
	struct sr_epoll_entry *e;
	unsigned i;

	if ((!pool_used && !reserve()) || pool_used == SR_EPOLL_POOL)
		return false;
	e = (struct sr_epoll_entry *)(sr_epoll_pool + pool_used);
	if (mprotect(e, CHUNK, PROT_READ | PROT_WRITE))
		return false;
	pool_used += CHUNK;
	for (i = 0; i < CHUNK / sizeof(*e); i++) {
		e[i].next = free_entries;
		free_entries = &e[i];
	}
	return true;
}

struct sr_epoll_entry *sr_epoll_entry_new(struct sr_epoll *set,
					  struct sr_stream *st)
{
	struct sr_epoll_entry *e;
	int err = errno;

	sr_lock(&pool_lock);
	e = free_entries || grow() ? free_entries : NULL;
	if (e)
		free_entries = e->next;
	sr_unlock(&pool_lock);
	errno = err;
	if (!e)
		return NULL;
	/* (The count of changes goes on: an old token is no new one's.) */
	atomic_store(&e->state, e->state & ~(SR_EPOLL_STEP - 1u));
	atomic_store(&e->edge, 0);
	atomic_store(&e->set, set);
	e->st = sr_stream_ref(st);
	e->quiet = 0;
	e->shut = e->deleted = e->ours = e->passed = false;
	e->asked = 0;
	sr_lock(&set->lock);
	e->next = set->entries;
	e->pprev = &set->entries;
	if (e->next)
		e->next->pprev = &e->next;
	set->entries = e;
	sr_unlock(&set->lock);
	atomic_fetch_add(&set->members, 1);
	return e;
}

void sr_epoll_entry_free(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;

	e->st = NULL;
	atomic_store(&e->listed, false);
	sr_lock(&pool_lock);
	e->next = free_entries;
	free_entries = e;
	sr_unlock(&pool_lock);
	sr_stream_put(st);
}

/* ---- sets ---- */

static void init_locks(struct sr_epoll *set)
{
	pthread_mutex_init(&set->look_lock, NULL);
	pthread_mutex_init(&set->lock, NULL);
}

static struct sr_epoll *set_new(void)
{
	struct sr_epoll *set;
	unsigned n;

	sr_lock(&sets_lock);
	set = free_sets;
	n = atomic_load(&set_count);
	if (set) {
		free_sets = set->next_free;
	} else if (n < SETS) {
		sr_enter();
		set = aligned_alloc(64, sizeof(*set));
		sr_leave();
		if (set) {
			memset(set, 0, sizeof(*set));
			init_locks(set);
			atomic_store(&sets[n], set);
			atomic_store(&set_count, n + 1);
		}
	}
	sr_unlock(&sets_lock);
	return set;
}

static void close_bell(struct sr_epoll *set)
{
	if (set->bell >= 0)
		sr_fd_close(set->bell);
	set->bell = -1;
}

static void set_free(struct sr_epoll *set)
{
	sr_epoll_drain(set);
	close_bell(set);
	sr_lock(&sets_lock);
	set->next_free = free_sets;
	free_sets = set;
	sr_unlock(&sets_lock);
}

static bool tryget(struct sr_epoll *set)
{
	int n = atomic_load(&set->refs);

	while (n > 0)
		if (atomic_compare_exchange_weak(&set->refs, &n, n + 1))
			return true;
	return false;
}

void sr_epoll_put(struct sr_epoll *set)
{
	if (atomic_fetch_sub(&set->refs, 1) == 1)
		set_free(set);
}

/* ---- the table ---- */

void sr_epoll_opened(int fd)
{
	struct sr_epoll *set = set_new();
	void *old;

	sr_epoll_gone(fd);
	if (!set)
		return; /* foreign, then */
	set->epfd = fd;
	set->bell = -1;
	set->installed = set->foreign = set->forked = set->heir = false;
	set->others = set->rung = set->spinning = false;
	memset(&set->spin, 0, sizeof(set->spin));
	atomic_store(&set->fds, 1);
	atomic_store(&set->refs, 1);
	if (!sr_fdmap_set(&sr_epoll_map, fd, set, &old)) {
		set->epfd = -1;
		sr_epoll_put(set);
	}
}

struct sr_epoll *sr_epoll_get(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_epoll_map, fd);
	struct sr_epoll *set;

	/* As in fdtab.c. */
	while (e && (set = atomic_load_explicit(e, memory_order_acquire))) {
		if (!tryget(set))
			continue;
		if (atomic_load(e) == set)
			return set;
		sr_epoll_put(set);
	}
	return NULL;
}

void sr_epoll_duplicated(int fd, int got)
{
	struct sr_epoll *set = sr_epoll_get(fd);
	void *old;

	sr_epoll_gone(got);
	if (!set)
		return;
	atomic_fetch_add(&set->fds, 1);
	if (!sr_fdmap_set(&sr_epoll_map, got, set, &old)) {
		atomic_fetch_sub(&set->fds, 1);
		sr_epoll_put(set);
	}
}

void sr_epoll_other(int epfd)
{
	struct sr_epoll *set = sr_epoll_peek(epfd);

	if (set)
		atomic_store(&set->others, true);
}

/* Another of its descriptors is the one that we use. set->lock held. */
static void move_epfd(struct sr_epoll *set)
{
	int fd, max = sr_epoll_max();

	set->epfd = -1;
	for (fd = 0; fd <= max && set->epfd < 0; fd++)
		if (sr_epoll_peek(fd) == set)
			set->epfd = fd;
}

static void end(struct sr_epoll *set)
{
	sr_epoll_clear(set);
	sr_lock(&set->lock);
	if (set->installed)
		sr_epoll_control(set->epfd, EPOLL_CTL_DEL, set->bell, 0, 0);
	set->installed = false;
	set->epfd = -1;
	sr_unlock(&set->lock);
	sr_epoll_drain(set);
}

void sr_epoll_gone(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_epoll_map, fd);
	struct sr_epoll *set = e ? atomic_exchange(e, NULL) : NULL;
	int err = errno;

	if (!set)
		return;
	if (atomic_fetch_sub(&set->fds, 1) == 1) {
		end(set);
	} else {
		sr_lock(&set->lock);
		if (set->epfd == fd)
			move_epfd(set);
		sr_unlock(&set->lock);
	}
	sr_epoll_put(set);
	errno = err;
}

/* ---- the kernel's set ---- */

int sr_epoll_control(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return sr_real.epoll_ctl(epfd, op, fd, &ev) < 0 ? -errno : 0;
}

int sr_epoll_set_control(struct sr_epoll *set, int op, int fd, uint32_t events,
			 uint64_t data)
{
	int r;

	sr_lock(&set->lock);
	r = sr_epoll_control(set->epfd, op, fd, events, data);
	sr_unlock(&set->lock);
	return r;
}

static bool make_bell(struct sr_epoll *set)
{
	if (set->bell < 0)
		set->bell = sr_fd_own(
			eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	return set->bell >= 0;
}

bool sr_epoll_install(struct sr_epoll *set)
{
	int err = errno;
	bool ok;

	if (atomic_load(&set->installed))
		return !atomic_load(&set->foreign);
	sr_lock(&set->lock);
	if (!set->installed && set->epfd >= 0 && !atomic_load(&set->foreign) &&
	    make_bell(set))
		set->installed = !sr_epoll_control(set->epfd, EPOLL_CTL_ADD,
						   set->bell, EPOLLIN | EPOLLET,
						   sr_epoll_bell_token());
	ok = set->installed;
	sr_unlock(&set->lock);
	errno = err;
	return ok;
}

/* ---- other processes ---- */

/* Those that are free may become somebody's before the fork: all are locked. */
static struct sr_epoll *at(unsigned i)
{
	return atomic_load(&sets[i]);
}

/* Before the locks of streams. */
void sr_epolls_fork_begins(void)
{
	unsigned i;

	sr_lock(&sets_lock);
	for (i = 0; i < atomic_load(&set_count); i++)
		sr_lock(&at(i)->look_lock);
}

/* The locks of all streams are held, and all are plain, but for those whose peer did
 * not answer in time. */
void sr_epolls_before_fork(void)
{
	unsigned i;

	for (i = 0; i < atomic_load(&set_count); i++) {
		sr_lock(&at(i)->lock);
		if (!atomic_load(&at(i)->refs))
			continue;
		at(i)->forked = at(i)->others = true; /* the child, for one */
		if (!make_bell(at(i)))
			at(i)->foreign = true;
	}
	sr_lock(&pool_lock);
	/* The child is to know the parent's tokens as such. */
	if (i && !pool_used)
		reserve();
}

void sr_epolls_in_parent(void)
{
	unsigned i;

	sr_unlock(&pool_lock);
	for (i = atomic_load(&set_count); i-- > 0;) {
		sr_unlock(&at(i)->lock);
		sr_unlock(&at(i)->look_lock);
	}
	sr_unlock(&sets_lock);
}

/* The entries in the kernel's set are the parent's, too: left alone.  Ours stay in
 * memory for the sake of their tokens. */
static void forget(struct sr_epoll *set)
{
	init_locks(set);
	set->heir = atomic_load(&set->refs) && set->bell >= 0;
	/* Our descriptors are about to be closed: this is a copy, nobody's. */
	set->bell = set->heir ? sr_real.fcntl(set->bell, F_DUPFD_CLOEXEC, 3) : -1;
	set->foreign = true;
	set->installed = set->rung = set->spinning = false;
	set->first = set->last = NULL;
	set->news = NULL;
	set->queued = set->ready = set->shut = set->members = 0;
	set->sleepers = 0;
	while (set->entries) {
		struct sr_epoll_entry *e = set->entries;

		set->entries = e->next;
		e->st->epoll = NULL;
		sr_stream_put(e->st);
	}
}

void sr_epolls_forget(void)
{
	unsigned i;

	pthread_mutex_init(&sets_lock, NULL);
	pthread_mutex_init(&pool_lock, NULL);
	for (i = 0; i < atomic_load(&set_count); i++)
		forget(at(i));
}

/* Those that we had before the fork are closed. */
void sr_epolls_inherit(void)
{
	unsigned i;

	for (i = 0; i < atomic_load(&set_count); i++)
		if (at(i)->heir)
			at(i)->bell = sr_fd_own(at(i)->bell);
}

void sr_epoll_tell_parent(struct sr_epoll *set)
{
	const uint64_t used = SR_EPOLL_USED;
	const struct timespec ms = { 0, 1000000 };
	struct pollfd p = { set->bell, POLLIN, 0 };
	int i;

	if (!atomic_load(&set->heir) || !atomic_exchange(&set->heir, false))
		return;
	/* While we do not wait in the set ourselves the wake-up is the parent's. */
	if (sr_now_write(set->bell, &used, sizeof(used)) > 0)
		for (i = 0; i < ACK_MS && sr_now_poll(&p, 1) == 1; i++)
			sr_real.syscall(SYS_nanosleep, (long)&ms, 0, 0, 0, 0, 0);
	close_bell(set);
}

void sr_epoll_mind_family(int epfd)
{
	struct sr_epoll *set = sr_epoll_get(epfd);
	int err = errno;
	uint64_t n;

	if (!set)
		return;
	sr_epoll_tell_parent(set);
	if (!atomic_load(&set->foreign) &&
	    sr_now_read(set->bell, &n, sizeof(n)) > 0 && n >= SR_EPOLL_USED)
		sr_epoll_give_up(set, false);
	sr_epoll_put(set);
	errno = err;
}
