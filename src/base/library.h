/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * library.h - the libraries that are loaded by name when they are needed, and their names.
 * A library whose interface changes gets another number; if we can use several of them, all
 * are listed, the latest first.
 */
#ifndef SR_LIBRARY_H
#define SR_LIBRARY_H

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct sr_library {
	const char *name;
	const char *file[3];	/* up to the first NULL */
};

static const struct sr_library sr_library_verbs = { "libibverbs", { "libibverbs.so.1" } };
static const struct sr_library sr_library_cm = { "librdmacm", { "librdmacm.so.1" } };
/* 26 since libsodium 1.0.19; the functions that we call are the same in both. */
static const struct sr_library sr_library_sodium = {
	"libsodium", { "libsodium.so.26", "libsodium.so.23" }
};

/* load: dlopen(3), or sr_real.dlopen inside the library.  NULL: none could be loaded, and a
 * sentence in `why' says why. */
static inline void *sr_library_open(const struct sr_library *library,
				    void *(*load)(const char *file, int mode), char *why,
				    size_t size)
{
	int len = snprintf(why, size, "%s cannot be loaded:", library->name);
	const char *err;

	for (int i = 0; i < 3 && library->file[i]; i++) {
		void *lib = load(library->file[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

		if (lib)
			return lib;
		err = dlerror() ?: library->file[i];
		if (len >= 0 && (size_t)len < size)
			len += snprintf(why + len, size - (size_t)len, "%s %s",
					i ? ";" : "", err);
	}
	return NULL;
}

#endif
