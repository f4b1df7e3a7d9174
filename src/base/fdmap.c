/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdmap.c - a table of descriptors (fdmap.h).
 */
#include "base/fdmap.h"

#include <sys/mman.h>

/* mmap() and not malloc(): socket() may be called by an allocator, and in a
 * signal handler. */
static sr_fdmap_entry *make(struct sr_fdmap *map, int fd)
{
	size_t size = SR_FDMAP_PAGE * sizeof(sr_fdmap_entry);
	unsigned n = (unsigned)fd;
	sr_fdmap_entry *page, *other = NULL;

	if (n >= SR_FDMAP_PAGE * SR_FDMAP_PAGES)
		return NULL;
	if (sr_fdmap_find(map, fd))
		return sr_fdmap_find(map, fd);
	page = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (!atomic_compare_exchange_strong(&map->pages[n / SR_FDMAP_PAGE],
					    &other, page)) {
		munmap(page, size);
		page = other;
	}
	return &page[n % SR_FDMAP_PAGE];
}

bool sr_fdmap_set(struct sr_fdmap *map, int fd, void *value, void **old)
{
	sr_fdmap_entry *e = make(map, fd);
	int top = atomic_load(&map->top);

	if (!e)
		return false;
	/* First, so that a walk up to it misses no entry. */
	while (top <= fd &&
	       !atomic_compare_exchange_weak(&map->top, &top, fd + 1))
		;
	*old = atomic_exchange(e, value);
	return true;
}
