/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_set.c - the sets of the process: the table, their memory, what we put
 * into the kernel's (epoll_impl.h), fork.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/fdmap.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "stream/epoll_impl.h"

/* ---- memory: chunks that are never given back ---- */

#define CHUNK 65536
#define PER_CHUNK (CHUNK / sizeof(struct sr_epoll_entry))
#define CHUNKS 4096		/* a hash table of their addresses */
#define SETS 4096

static pthread_mutex_t sets_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER; /* entries */
static _Atomic(char *) chunks[CHUNKS];
static unsigned chunk_count;
static struct sr_epoll_entry *free_entries;
static _Atomic(struct sr_epoll *) sets[SETS];
static atomic_uint set_count;
static struct sr_epoll *free_sets;
static struct sr_fdmap map;

static unsigned hash(const char *chunk)
{
	return (unsigned)((uintptr_t)chunk / CHUNK * 2654435761u) % CHUNKS;
}

/* pool_lock held. */
static bool grow(void)
{
	char *p, *end;
	unsigned i;

	if (chunk_count >= CHUNKS / 2)
		return false;
	p = mmap(NULL, 2 * CHUNK, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return false;
	end = p + 2 * CHUNK;
	if ((uintptr_t)p % CHUNK) {
		char *start = p + (CHUNK - (uintptr_t)p % CHUNK);

		munmap(p, (size_t)(start - p));
		p = start;
	}
	munmap(p + CHUNK, (size_t)(end - (p + CHUNK)));
	for (i = 0; i < PER_CHUNK; i++) {
		struct sr_epoll_entry *e = (struct sr_epoll_entry *)p + i;

		e->next = free_entries;
		free_entries = e;
	}
	i = hash(p);
	while (atomic_load(&chunks[i]))
		i = (i + 1) % CHUNKS;
	atomic_store(&chunks[i], p);
	chunk_count++;
	return true;
}

static bool is_entry(uintptr_t address)
{
	char *chunk = (char *)(address - address % CHUNK), *c;
	unsigned i = hash(chunk);
	size_t at = address % CHUNK;

	if (at % sizeof(struct sr_epoll_entry) ||
	    at / sizeof(struct sr_epoll_entry) >= PER_CHUNK)
		return false;
	while ((c = atomic_load(&chunks[i])) && c != chunk)
		i = (i + 1) % CHUNKS;
	return c && chunk;
}

struct sr_epoll_entry *sr_epoll_entry_of(struct sr_epoll *set, uint64_t data)
{
	uintptr_t address = (uintptr_t)(data & ~(uint64_t)SR_EPOLL_COUNT);
	struct sr_epoll_entry *e = (struct sr_epoll_entry *)address;

	return is_entry(address) && e->set == set ? e : NULL;
}

struct sr_epoll_entry *sr_epoll_entry_new(struct sr_epoll *set,
					  struct sr_stream *st)
{
	struct sr_epoll_entry *e;

	sr_lock(&set->lock);
	e = set->spare;
	if (e) {
		set->spare = e->next;
	} else {
		sr_lock(&pool_lock);
		if (free_entries || grow()) {
			e = free_entries;
			free_entries = e->next;
			e->set = set;
		}
		sr_unlock(&pool_lock);
	}
	if (e) {
		e->st = sr_stream_ref(st);
		e->fd_private = e->shut = e->parked = e->passed = false;
		e->listed = e->busy = e->again = e->sure = false;
		e->edge = e->anchor = 0;
		e->turn = e->quiet = 0;
		e->live = true;
		e->next = set->entries;
		e->pprev = &set->entries;
		if (e->next)
			e->next->pprev = &e->next;
		set->entries = e;
		atomic_fetch_add(&set->members, 1);
	}
	sr_unlock(&set->lock);
	return e;
}

void sr_epoll_entry_free(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;

	*e->pprev = e->next;
	atomic_fetch_sub(&e->set->members, 1);
	if (e->next)
		e->next->pprev = e->pprev;
	e->st = NULL;
	e->next = e->set->spare;
	e->set->spare = e;
	sr_stream_put(st);
}

static void init_locks(struct sr_epoll *set)
{
	pthread_mutex_init(&set->look_lock, NULL);
	pthread_mutex_init(&set->lock, NULL);
	pthread_mutex_init(&set->ready_lock, NULL);
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
			set->number = n;
			init_locks(set);
			atomic_store(&sets[n], set);
			atomic_store(&set_count, n + 1);
		}
	}
	sr_unlock(&sets_lock);
	return set;
}

static void close_private(atomic_int *fd)
{
	if (*fd >= 0)
		sr_fd_close(*fd);
	*fd = -1;
}

static void set_free(struct sr_epoll *set)
{
	struct sr_epoll_entry *e;

	close_private(&set->inner);
	close_private(&set->bell);
	sr_lock(&pool_lock);
	while ((e = set->spare)) {
		set->spare = e->next;
		e->set = NULL;
		e->next = free_entries;
		free_entries = e;
	}
	sr_unlock(&pool_lock);
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

static void end(struct sr_epoll *set);

/* Who leaves a closed set last ends it.  Looked at again with a reference, as it may be
 * another set by then. */
void sr_epoll_put(struct sr_epoll *set)
{
	int n;

	while ((n = atomic_fetch_sub(&set->refs, 1)) == 2 &&
	       atomic_load(&set->left) && tryget(set)) {
		if (atomic_load(&set->refs) == 2 &&
		    atomic_exchange(&set->left, false)) {
			end(set);
			atomic_fetch_sub(&set->refs, 1);
		}
	}
	if (n == 1)
		set_free(set);
}

/* ---- in the loop ---- */

static void on_inner(struct sr_watch *w, uint32_t events)
{
	struct sr_epoll *set = (struct sr_epoll *)
		((char *)w - offsetof(struct sr_epoll, watch));

	(void)events;
	if (!tryget(set))
		return;
	sr_epoll_harvest(set);
	sr_epoll_settle(set);
	sr_epoll_put(set);
}

static void on_task(struct sr_task *t)
{
	struct sr_epoll *set = (struct sr_epoll *)
		((char *)t - offsetof(struct sr_epoll, task));

	if (!tryget(set))
		return;
	sr_epoll_settle(set);
	sr_epoll_put(set);
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
	set->inner = set->bell = -1;
	set->watch.fn = on_inner;
	set->task.fn = on_task;
	set->installed = set->watched = set->rung = false;
	set->level = set->forked = set->foreign = set->nested = false;
	set->oneshots = set->left = false;
	set->uses = NULL;
	set->spinning = false;
	memset(&set->spin, 0, sizeof(set->spin));
	atomic_store(&set->fds, 1);
	atomic_store(&set->refs, 1);
	if (!sr_fdmap_set(&map, fd, set, &old)) {
		set->epfd = -1;
		sr_epoll_put(set);
	}
}

struct sr_epoll *sr_epoll_peek(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&map, fd);

	return e ? atomic_load_explicit(e, memory_order_acquire) : NULL;
}

bool sr_epoll_has(int fd)
{
	return sr_epoll_peek(fd);
}

int sr_epoll_max(void)
{
	return atomic_load_explicit(&map.top, memory_order_relaxed) - 1;
}

struct sr_epoll *sr_epoll_get(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&map, fd);
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
	if (!sr_fdmap_set(&map, got, set, &old)) {
		atomic_fetch_sub(&set->fds, 1);
		sr_epoll_put(set);
	}
}

static void uninstall(struct sr_epoll *set);

/* Another of its descriptors is the one that we use. set->lock held. */
static void move_epfd(struct sr_epoll *set)
{
	int fd, max = sr_epoll_max();

	set->epfd = -1;
	for (fd = 0; fd <= max && set->epfd < 0; fd++) {
		sr_fdmap_entry *e = sr_fdmap_find(&map, fd);

		if (e && atomic_load(e) == set)
			set->epfd = fd;
	}
}

static void end(struct sr_epoll *set)
{
	int err = errno;

	sr_epoll_clear(set);
	sr_lock(&set->lock);
	uninstall(set);
	if (sr_fd_is_private(set->epfd))
		sr_fd_close(set->epfd);
	set->epfd = -1;
	sr_unlock(&set->lock);
	errno = err;
}

/* Threads are asleep in it, and sleep on.  Theirs is the table's reference. */
static bool leave(struct sr_epoll *set, int fd)
{
	if (atomic_load(&set->refs) == 1 || !atomic_load(&set->members) ||
	    atomic_load(&set->foreign))
		return false;
	fd = sr_fd_dup(fd);
	if (fd < 0)
		return false;
	sr_lock(&set->lock);
	set->epfd = fd;
	sr_unlock(&set->lock);
	atomic_fetch_add(&set->refs, 1);
	atomic_store(&set->left, true);
	return true;
}

static void taken_out(int fd, bool open)
{
	sr_fdmap_entry *e = sr_fdmap_find(&map, fd);
	struct sr_epoll *set = e ? atomic_exchange(e, NULL) : NULL;
	int err = errno;

	if (!set)
		return;
	if (atomic_fetch_sub(&set->fds, 1) == 1) {
		if (!open || !leave(set, fd))
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

void sr_epoll_closing(int fd)
{
	taken_out(fd, true);
}

void sr_epoll_gone(int fd)
{
	taken_out(fd, false);
}

/* ---- what we have in the kernel's set ---- */

static int control(int epfd, int op, int fd, uint32_t events, void *ptr)
{
	struct epoll_event ev = { .events = events, .data.ptr = ptr };

	return sr_real.epoll_ctl(epfd, op, fd, &ev) < 0 ? -errno : 0;
}

static bool make(struct sr_epoll *set)
{
	if (set->inner < 0)
		set->inner = sr_fd_own(sr_real.epoll_create1(EPOLL_CLOEXEC));
	if (set->bell < 0)
		set->bell = sr_fd_own(
			eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	return set->inner >= 0 && set->bell >= 0;
}

static bool install_edge(struct sr_epoll *set)
{
	if (control(set->inner, EPOLL_CTL_ADD, set->bell, EPOLLIN, set) < 0)
		return false;
	if (!control(set->epfd, EPOLL_CTL_ADD, set->inner, EPOLLIN | EPOLLET,
		     set))
		return true;
	control(set->inner, EPOLL_CTL_DEL, set->bell, 0, NULL);
	return false;
}

static bool install_level(struct sr_epoll *set)
{
	if (control(set->epfd, EPOLL_CTL_ADD, set->bell, EPOLLIN, set) < 0)
		return false;
	set->watch.fd = set->inner;
	if (!sr_loop_watch(&set->watch, EPOLLIN)) {
		set->watched = true;
		return true;
	}
	control(set->epfd, EPOLL_CTL_DEL, set->bell, 0, NULL);
	return false;
}

static void uninstall(struct sr_epoll *set)
{
	if (!set->installed)
		return;
	if (set->watched) {
		sr_loop_release(&set->watch);
		set->watched = false;
		control(set->epfd, EPOLL_CTL_DEL, set->bell, 0, NULL);
	} else {
		control(set->epfd, EPOLL_CTL_DEL, set->inner, 0, NULL);
		control(set->inner, EPOLL_CTL_DEL, set->bell, 0, NULL);
	}
	set->installed = false;
}

void sr_epoll_uninstall(struct sr_epoll *set)
{
	sr_lock(&set->lock);
	uninstall(set);
	sr_unlock(&set->lock);
}

static bool install(struct sr_epoll *set)
{
	int err = errno;

	if (set->epfd < 0 || atomic_load(&set->foreign))
		return false;
	if (sr_epoll_used_by_child(set) || !make(set))
		return false;
	if (set->forked)
		set->level = true;
	set->installed = !set->level && install_edge(set);
	if (!set->installed && install_level(set)) {
		set->level = true;
		set->installed = true;
	}
	errno = err;
	return set->installed;
}

bool sr_epoll_install(struct sr_epoll *set)
{
	bool ok;

	sr_lock(&set->lock);
	ok = set->installed || install(set);
	sr_unlock(&set->lock);
	return ok;
}

void sr_epoll_to_level(struct sr_epoll *set)
{
	if (atomic_load(&set->level))
		return;
	sr_lock(&set->lock);
	if (!set->level && set->installed) {
		uninstall(set);
		set->level = true;
		set->installed = install_level(set);
		if (!set->installed)
			sr_warn("epoll: a set is deaf: %s",
				sr_errno_name(errno));
	}
	set->level = true;
	sr_unlock(&set->lock);
}

static atomic_bool any_nested;

void sr_epoll_watched(struct sr_epoll *set, bool nested)
{
	int err = errno;

	if (nested) {
		atomic_store(&set->nested, true);
		atomic_store(&any_nested, true);
	}
	sr_epoll_to_level(set);
	if (atomic_load(&set->shut)) {
		sr_epoll_harvest(set);
		sr_epoll_settle(set);
	}
	errno = err;
}

/* ---- sets in sets ---- */

static void each(void (*fn)(struct sr_epoll *set))
{
	unsigned i, n = atomic_load(&set_count);

	for (i = 0; i < n; i++) {
		struct sr_epoll *set = atomic_load(&sets[i]);

		if (!tryget(set))
			continue;
		fn(set);
		sr_epoll_put(set);
	}
}

static void settle_nested(struct sr_epoll *set)
{
	if (!atomic_load(&set->nested) || !atomic_load(&set->shut))
		return;
	sr_epoll_harvest(set);
	sr_epoll_settle(set);
}

void sr_epolls_settle_nested(void)
{
	if (atomic_load_explicit(&any_nested, memory_order_relaxed))
		each(settle_nested);
}

/* ---- other processes ---- */

/* One page that the child of a fork shares, a byte for each set. */
static _Atomic(atomic_uchar *) page;

static void share_one(struct sr_epoll *set)
{
	set->forked = true;
	set->uses = atomic_load(&page) ? &atomic_load(&page)[set->number] :
					 NULL;
	uninstall(set);
	sr_epoll_own_data(set);
}

static void make_page(void)
{
	void *p;

	if (atomic_load(&page) || !atomic_load(&set_count))
		return;
	p = mmap(NULL, SETS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		 -1, 0);
	if (p != MAP_FAILED)
		atomic_store(&page, p);
}

bool sr_epoll_used_by_child(struct sr_epoll *set)
{
	return set->forked && (!set->uses || atomic_load(set->uses));
}

void sr_epoll_foreign_use(struct sr_epoll *set)
{
	if (set->forked && set->uses)
		atomic_store(set->uses, 1);
}

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

	make_page();
	for (i = 0; i < atomic_load(&set_count); i++)
		sr_lock(&at(i)->lock);
	for (i = 0; i < atomic_load(&set_count); i++)
		if (atomic_load(&at(i)->refs))
			share_one(at(i));
	for (i = 0; i < atomic_load(&set_count); i++)
		sr_lock(&at(i)->ready_lock);
	sr_lock(&pool_lock);
}

void sr_epolls_in_parent(void)
{
	unsigned i;

	sr_unlock(&pool_lock);
	for (i = atomic_load(&set_count); i-- > 0;) {
		sr_unlock(&at(i)->ready_lock);
		sr_unlock(&at(i)->lock);
		sr_unlock(&at(i)->look_lock);
	}
	sr_unlock(&sets_lock);
}

/* A stream could not be plain in time: its events go on coming from us. */
static void still_shut(struct sr_epoll *set)
{
	if (atomic_load(&set->shut))
		sr_epoll_install(set);
}

void sr_epolls_after_fork(void)
{
	each(still_shut);
}

/* The entries in the kernel's set are the parent's, too: left alone. */
static void forget(struct sr_epoll *set)
{
	init_locks(set);
	set->foreign = true;
	if (atomic_exchange(&set->left, false))
		set->epfd = -1;
	set->inner = set->bell = -1;
	set->installed = set->watched = set->rung = false;
	set->first = set->last = NULL;
	set->sure = 0;
	set->ready = set->shut = set->sleepers = 0;
	set->task.queued = 0;
	set->spinning = false;
	while (set->entries) {
		struct sr_epoll_entry *e = set->entries;

		e->st->epoll = NULL;
		e->live = e->listed = e->busy = false;
		sr_epoll_entry_free(e);
	}
}

void sr_epolls_forget(void)
{
	unsigned i;

	pthread_mutex_init(&sets_lock, NULL);
	pthread_mutex_init(&pool_lock, NULL);
	atomic_store(&page, NULL);
	for (i = 0; i < atomic_load(&set_count); i++)
		forget(at(i));
}
