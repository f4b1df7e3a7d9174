/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdtab.c - owns the table of descriptors.  Knows of streams only how to get
 * and put a reference.  No locks; pages of the table are never freed.
 */
#include "shim/fdtab.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "stream/stream.h"

#define PAGE 1024
#define PAGES 1024 /* 2^20 numbers: the kernel's default fs.nr_open */

typedef _Atomic(struct sr_stream *) entry;

static _Atomic(entry *) pages[PAGES];
static atomic_int top = -1;

static entry *find(int fd)
{
	unsigned n = (unsigned)fd;
	entry *page;

	if (n >= PAGE * PAGES)
		return NULL;
	page = atomic_load_explicit(&pages[n / PAGE], memory_order_acquire);
	return page ? &page[n % PAGE] : NULL;
}

/* mmap() and not malloc(): socket() may be called by an allocator, and in a
 * signal handler. */
static entry *make(int fd)
{
	unsigned n = (unsigned)fd;
	entry *page, *other = NULL;

	if (n >= PAGE * PAGES)
		return NULL;
	if (find(fd))
		return find(fd);
	page = mmap(NULL, PAGE * sizeof(entry), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (!atomic_compare_exchange_strong(&pages[n / PAGE], &other, page)) {
		munmap(page, PAGE * sizeof(entry));
		page = other;
	}
	return &page[n % PAGE];
}

struct sr_stream *sr_fdtab_get(int fd)
{
	entry *e = find(fd);
	struct sr_stream *st;

	while (e) {
		st = atomic_load_explicit(e, memory_order_acquire);
		if (!st)
			return NULL;
		/* Between the load and tryget the entry may have gone and the
		 * memory have become another stream.  What the entry holds
		 * cannot: with it there the reference is on the right one. */
		if (sr_stream_tryget(st)) {
			if (atomic_load(e) == st)
				return st;
			sr_stream_put(st);
		}
	}
	return NULL;
}

bool sr_fdtab_has(int fd)
{
	entry *e = find(fd);

	return e && atomic_load_explicit(e, memory_order_relaxed);
}

struct sr_stream *sr_fdtab_set(int fd, struct sr_stream *st)
{
	entry *e = make(fd);
	int old = atomic_load(&top);

	if (!e)
		return st;
	/* First, so that a walk up to it misses no entry. */
	while (old < fd && !atomic_compare_exchange_weak(&top, &old, fd))
		;
	return atomic_exchange(e, st);
}

struct sr_stream *sr_fdtab_take(int fd)
{
	entry *e = find(fd);

	return e ? atomic_exchange(e, NULL) : NULL;
}

bool sr_fdtab_drop(int fd, struct sr_stream *st)
{
	entry *e = find(fd);

	return e && atomic_compare_exchange_strong(e, &st, NULL);
}

int sr_fdtab_max(void)
{
	return atomic_load_explicit(&top, memory_order_relaxed);
}
