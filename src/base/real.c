/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * real.c - owns sr_real: finds the functions behind those that we interpose: libc's own,
 * or those of a library that was preloaded behind us.  Knows nothing of what they are
 * for.  No locks: any thread may find a function, and all find the same.
 */
#include "base/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>

/* RTLD_NEXT searches what comes after us in the loader's order; a library that others pull
 * in or open may come behind libc. */
static void *libc_handle(void)
{
	static void *handle;
	void *h = __atomic_load_n(&handle, __ATOMIC_RELAXED);

	if (!h) {
		h = dlopen(LIBC_SO, RTLD_NOLOAD | RTLD_LAZY);
		__atomic_store_n(&handle, h, __ATOMIC_RELAXED);
	}
	return h;
}

/* Takes the place of a function that this libc does not have.  It returns a long, as
 * each listed function returns that or less, and -1 is failure; those that return pointers
 * are older than any libc we run on, and those that return error numbers see to it. */
static long missing(void)
{
	errno = ENOSYS;
	return -1;
}

static void find(void *slot, const char *name)
{
	int saved = errno;
	void *handle, *fn;

	sr_enter();
	/* (Not dlopen() at once: that allocates memory, and a program's own malloc() may open
	 * a file while it initialises itself, with its locks held: jemalloc does.) */
	fn = dlsym(RTLD_NEXT, name);
	handle = fn ? NULL : libc_handle();
	if (handle)
		fn = dlsym(handle, name);
	sr_leave();
	errno = saved;
	if (!fn)
		fn = (void *)missing;
	__atomic_store_n((void **)slot, fn, __ATOMIC_RELAXED);
}

/*
 * The stubs that the pointers start with.  One variable argument is always
 * passed on as a pointer, given or not: on x86-64 and aarch64 Linux it is in
 * the same register whatever its type, and libc looks at it only if the
 * command calls for one.
 */
#define SR_CALL(family, ret, name, params, args) \
	static ret stub_##name params \
	{ \
		find(&sr_real.name, #name); \
		return sr_real.name args; \
	}
#define SR_VARIADIC(family, ret, name, params, args, last) \
	static ret stub_##name params \
	{ \
		va_list ap; \
		void *arg; \
\
		va_start(ap, last); \
		arg = va_arg(ap, void *); \
		va_end(ap); \
		find(&sr_real.name, #name); \
		return sr_real.name args; \
	}
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
#include "calls.def"
#undef SR_CALL

#define SR_CALL(family, ret, name, params, args) .name = stub_##name,
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
struct sr_real sr_real = {
#include "calls.def"
};
#undef SR_CALL

/*
 * All at once, while the process is young and has one thread: later a signal
 * handler or the child of a fork may be the first to call, and dlsym() takes
 * the loader's lock.
 */
__attribute__((constructor(101))) static void find_all(void)
{
#define SR_CALL(family, ret, name, params, args) find(&sr_real.name, #name);
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
#include "calls.def"
#undef SR_CALL
}
