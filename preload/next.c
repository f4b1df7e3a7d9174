/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * next.c - the function behind the one that we interpose, for src/base/real.c.
 * Here, as dlsym(3) takes "next" to be what follows the caller's own library, and
 * this is the library that is preloaded: libc comes after it, and so does whatever
 * else was preloaded.
 *
 * dlopen(3) would do, but allocates memory, and a program's own malloc() may open
 * a file while it initialises itself, with its locks held: jemalloc does.
 */
#include <dlfcn.h>

void *sr_preload_next(const char *name) __attribute__((visibility("default")));

void *sr_preload_next(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	__asm__ volatile("" : "+r"(fn)); /* no tail call: the caller would be its caller */
	return fn;
}
