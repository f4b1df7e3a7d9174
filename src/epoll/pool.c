/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pool.c - the memory of the entries of epoll sets: address space of a fixed size, whose
 * memory is never given back, so that a token that comes from the kernel can be told
 * from the program's data, and its entry looked at.
 *
 * pool_lock is a leaf.
 */
#include "base/sys.h"

#include <assert.h>
#include <sys/mman.h>

#include "engine/engine.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"
#include "epoll/pool.h"

static_assert(sizeof(struct sr_epoll_entry) == 256, "sr_epoll_of_token() masks so many");

#define CHUNK 65536
#define SMALL (1u << 28)	/* descriptors and indices are below */

static struct sr_mutex pool_lock = SR_MUTEX(SR_RANK_LEAF);
static struct sr_epoll_entry *free_entries;
/* Changed under pool_lock.  Relaxed: a token comes by way of the kernel, which got it later. */
static atomic_size_t pool_used;
_Atomic uintptr_t sr_epoll_pool;

static char *pool_map(uintptr_t hint)
{
	return sr_sys_mmap((void *)hint, SR_EPOLL_POOL, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* A program may write a descriptor or an index, a small number, to the lower 32 bits of an entry's
 * data, and leave half of some old address in the upper ones, as CPython does.  So that this never
 * looks like a token, the lower halves of our addresses must not be small numbers. */
static bool is_apart(const char *p)
{
	uint32_t low = (uint32_t)(uintptr_t)p;

	return low >= SMALL && low <= UINT32_MAX - SR_EPOLL_POOL;
}

static bool pool_reserve(void)
{
	const uintptr_t middle = (uintptr_t)1 << 31;
	char *p = pool_map(0);
	uintptr_t high = (uintptr_t)p >> 32 << 32;

	if (p != MAP_FAILED && !is_apart(p)) {
		sr_sys_munmap(p, SR_EPOLL_POOL);
		p = pool_map(high ? high - middle : middle);
	}
	if (p == MAP_FAILED)
		return false;
	if (!is_apart(p)) {
		sr_sys_munmap(p, SR_EPOLL_POOL);
		return false;
	}
	sr_store(&sr_epoll_pool, (uintptr_t)p);
	sr_store(&pool_used, CHUNK); /* the first is never an entry's: the waker's token */
	return true;
}

bool sr_epoll_known(uint64_t token)
{
	return token - sr_load(&sr_epoll_pool) < sr_load(&pool_used);
}

/* pool_lock held. */
static bool pool_grow(void)
{
	struct sr_epoll_entry *e;
	unsigned i;

	if ((!sr_load(&pool_used) && !pool_reserve()) || sr_load(&pool_used) == SR_EPOLL_POOL)
		return false;
	e = (struct sr_epoll_entry *)(sr_load(&sr_epoll_pool) + sr_load(&pool_used));
	if (sr_sys_mprotect(e, CHUNK, PROT_READ | PROT_WRITE))
		return false;
	sr_store(&pool_used, sr_load(&pool_used) + CHUNK);
	for (i = 0; i < CHUNK / sizeof(*e); i++) {
		e[i].next = free_entries;
		free_entries = &e[i];
	}
	return true;
}

struct sr_epoll_entry *sr_epoll_entry_new(struct sr_epoll *set, int epfd,
					  struct sr_stream *st)
{
	struct sr_epoll_entry *e;

	sr_lock(&set->lock);
	sr_lock(&pool_lock);
	e = sr_epoll_peek(epfd) == set && (free_entries || pool_grow()) ? free_entries : NULL;
	if (e)
		free_entries = e->next;
	sr_unlock(&pool_lock);
	if (!e)
		goto out;
	sr_store(&e->edge, 0);
	sr_store(&e->listed, false);
	e->st = sr_stream_ref(st);
	/* The count of changes goes on, so that a token of the last entry here does not
	 * fit this one.  But a token of its doorbell does: take_token() observes the state before
	 * it looks at the stream. */
	sr_publish(&e->state, sr_load(&e->state) & ~(SR_EPOLL_STEP - 1u));
	sr_publish(&e->set, set);	/* pairs with sr_epoll_set_of() */
	e->quiet = 0;
	e->end.told_in = 0;
	e->linked = false;
	sr_store(&e->rings, false);
	e->asked = 0;
	SR_LIST_ADD(set->entries, e);
	sr_count(&set->plain, 1);
out:
	sr_unlock(&set->lock);
	return e;
}

void sr_epoll_entry_free(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;

	e->st = NULL;
	sr_lock(&pool_lock);
	e->next = free_entries;
	free_entries = e;
	sr_unlock(&pool_lock);
	sr_stream_put(st);
}

/* Reserves the address space before a fork, so that the child recognizes the parent's tokens. */
void sr_epoll_pool_before_fork(void)
{
	sr_lock_unordered(&pool_lock);
	if (!sr_load(&pool_used))
		pool_reserve();
	sr_unlock(&pool_lock);
}

/* What the kernel's set holds is the parent's, too, and stays.  The parent's entries stay in
 * memory, so that their tokens are recognized, and the child makes its own elsewhere. */
void sr_epoll_pool_forget(void)
{
	struct sr_epoll_entry *e = (struct sr_epoll_entry *)(sr_load(&sr_epoll_pool) + CHUNK);

	sr_mutex_init(&pool_lock, SR_RANK_LEAF);
	free_entries = NULL;
	for (; sr_epoll_known((uintptr_t)e); e++)
		if (e->st)
			sr_store(&e->set, &sr_epoll_parents);
}
