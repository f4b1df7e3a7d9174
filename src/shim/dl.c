/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dl.c - the functions that preload/tail.c calls before dlopen(3), dlmopen(3), dlsym(3) and
 * dlvsym(3).  It then jumps to the function that they return.
 */
#include "shim/shim.h"

#include <dlfcn.h>

#include "base/object.h"

/* ---- dlopen(3), dlmopen(3) ---- */

/* We do not see the calls of a library that resolves symbols in its own dependences first
 * (RTLD_DEEPBIND, as each extension of PHP), or that has a C library of its own (dlmopen).  It
 * may use any stream, so there are no links in this process from now on. */
static void *before_foreign(bool foreign, void *real)
{
	int saved = errno;

	if (foreign && !sr_inside && sr_process_ours() && sr_shim_ready() && !sr_conf.never) {
		sr_streams_bar_all(SR_REASON_FOREIGN_LIBRARY);
		sr_streams_make_all_plain();
	}
	errno = saved;
	return real;
}

void *sr_before_dlopen(const char *file, int mode)
{
	return before_foreign(file && (mode & (RTLD_DEEPBIND | RTLD_NOLOAD)) == RTLD_DEEPBIND,
			      (void *)sr_real.dlopen);
}

void *sr_before_dlmopen(Lmid_t ns)
{
	return before_foreign(ns != LM_ID_BASE, (void *)sr_real.dlmopen);
}

/* ---- dlsym(3), dlvsym(3) ---- */

/*
 * Is the caller looking up the C library's own function, so that it should get ours instead?
 * A foreign-function interface (ctypes of Python, JNA) opens the C library by its name and
 * looks functions up there, which bypasses all preloaded libraries.
 *
 * A library that was preloaded behind us may do the same to find the next function, because
 * for it the C library's is the next one.  It must not get ours: sr_real leads to that
 * library, so the two would call each other for ever.
 */
static bool is_libc(void *handle, const char *name, const char *version, const void *caller)
{
	void *found;

	found = version ? sr_next_dlvsym()(handle, name, version) :
			  sr_next_dlsym()(handle, name);
	return found && found == sr_real_libc(name) && !sr_real_is_chained(caller, found);
}

SR_EARLY static void *find_ours(void *handle, const char *name)
{
	(void)handle;
	return sr_object_find(sr_object_own(), name);
}

/* Does the loader find the right function itself?  For RTLD_DEFAULT and RTLD_NEXT it finds ours,
 * unless it is asked for one of the C library's versions, because ours have none.  For callers
 * behind us RTLD_NEXT rightly skips ours. */
SR_EARLY static bool is_found(void *handle, const char *version, const void *caller)
{
	if (handle == RTLD_NEXT)
		return !version || !sr_object_is_before(sr_object_at(caller), sr_object_own());
	return handle == RTLD_DEFAULT && !version;
}

SR_EARLY static bool may_be_libc(void *handle, const char *name, const char *version,
				 const void *caller)
{
	/* (Last, because a sanitizer's runtime looks up others before its dladdr1() works.) */
	return name && !sr_inside && find_ours(handle, name) &&
	       !is_found(handle, version, caller);
}

SR_EARLY void *sr_before_dlsym(void *handle, const char *name, const char *unused,
			       const void *caller)
{
	(void)unused;
	if (may_be_libc(handle, name, NULL, caller) && is_libc(handle, name, NULL, caller))
		return (void *)find_ours;
	return (void *)sr_next_dlsym();
}

SR_EARLY void *sr_before_dlvsym(void *handle, const char *name, const char *version,
				const void *caller)
{
	if (version && may_be_libc(handle, name, version, caller) &&
	    is_libc(handle, name, version, caller))
		return (void *)find_ours;
	return (void *)sr_next_dlvsym();
}
