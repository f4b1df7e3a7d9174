/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pages.h - memory that is not malloc(3)'s: for streams, and for the few objects that a
 * listening process has in its service thread.  With malloc the thread would get an arena:
 * two mappings for each fork to copy, and a lock in it that the C library writes in parent
 * and child.
 */
#ifndef SR_PAGES_H
#define SR_PAGES_H

#include "base/sys.h"

#include <stddef.h>
#include <sys/mman.h>

/* All zero; NULL: there is no memory. */
static inline void *sr_pages_get(size_t size)
{
	void *p = sr_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static inline void sr_pages_put(void *p, size_t size)
{
	sr_sys_munmap(p, size);
}

#endif
