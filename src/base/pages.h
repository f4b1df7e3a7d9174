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

/* Of LeakSanitizer, if the program has it. */
void __lsan_register_root_region(const void *p, size_t size) __attribute__((weak));
void __lsan_unregister_root_region(const void *p, size_t size) __attribute__((weak));

/*
 * Pages that lead to memory of malloc(3)'s.  LeakSanitizer does not look into pages that it
 * has not been told of, and would say that the program has lost that memory.  Not in a
 * signal handler, because LeakSanitizer has a lock.
 */
static inline void *sr_pages_get_root(size_t size)
{
	void *p = sr_pages_get(size);

	if (p && __lsan_register_root_region)
		__lsan_register_root_region(p, size);
	return p;
}

static inline void sr_pages_put_root(void *p, size_t size)
{
	if (__lsan_unregister_root_region)
		__lsan_unregister_root_region(p, size);
	sr_pages_put(p, size);
}

#endif
