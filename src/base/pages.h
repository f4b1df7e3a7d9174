/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pages.h - memory that does not come from malloc(3): for streams, and for the few objects
 * that the service thread of a listening process has.  If that thread called malloc(3), the
 * C library would make an arena for it: two more mappings that each fork has to copy, and a
 * lock that each fork writes in parent and child.
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
 * Pages that contain pointers to memory of malloc(3).  LeakSanitizer looks only into pages that
 * it has been told of, and would otherwise report that memory as lost.  Not in a signal
 * handler, because LeakSanitizer takes a lock.
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
