/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * real.c - owns sr_real and sr_libc: finds the functions behind those that we intercept,
 * which are libc's own or those of a library that was preloaded behind us.  Does not know what
 * the functions do.  No locks: any thread may look a function up, and all find the same one.
 */
#include "base/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <sys/syscall.h>

#include "base/apart.h"
#include "base/object.h"

/* Finds the first function of this name behind us, in the order in which the loader searches.
 * If there is none, because we were opened at run time and come behind the C library, finds
 * the first one of all that is not ours. */
SR_EARLY static void *find_next(const char *name)
{
	const struct link_map *own = sr_object_own(), *object = own;
	void *fn = NULL;

	while (object && !fn && (object = object->l_next))
		fn = sr_object_find(object, name);
	if (fn || !own)
		return fn;
	for (object = own; object->l_prev;)
		object = object->l_prev;
	for (; object != own && !fn; object = object->l_next)
		fn = sr_object_find(object, name);
	return fn;
}

SR_EARLY static void *find_once(void **place, const char *name)
{
	void *fn = __atomic_load_n(place, __ATOMIC_RELAXED);

	if (!fn) {
		fn = find_next(name);
		__atomic_store_n(place, fn, __ATOMIC_RELAXED);
	}
	return fn;
}

SR_EARLY __typeof__(&dlsym) sr_next_dlsym(void)
{
	static void *found;

	return (__typeof__(&dlsym))find_once(&found, "dlsym");
}

SR_EARLY __typeof__(&dlvsym) sr_next_dlvsym(void)
{
	static void *found;

	return (__typeof__(&dlvsym))find_once(&found, "dlvsym");
}

/* RTLD_NEXT searches only the libraries behind us in the loader's order.  If we were opened at
 * run time or are another library's dependency, we may come behind libc. */
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

/* Takes the place of a function that this libc does not have.  Returns a long, because each
 * listed function returns a long or something smaller, and -1 means failure.  Functions that
 * return pointers are in every libc that we run on; callers of those that return error
 * numbers check for -1. */
static long call_missing(void)
{
	errno = ENOSYS;
	return -1;
}

static void real_set(void *slot, void *fn)
{
	__atomic_store_n((void **)slot, fn, __ATOMIC_RELAXED);
}

static void real_find(void *slot, const char *name)
{
	int saved = errno;
	void *handle, *fn;

	sr_enter();
	/* (Not dlopen() at once: that allocates memory, and a program's own malloc() may open
	 * a file while it initialises itself, with its locks held: jemalloc does.) */
	fn = sr_next_dlsym()(RTLD_NEXT, name);
	handle = fn ? NULL : libc_handle();
	if (handle)
		fn = sr_next_dlsym()(handle, name);
	sr_leave();
	errno = saved;
	real_set(slot, fn ?: (void *)call_missing);
}

/*
 * Declares arg, the variable argument behind `last'.  It is passed on as a pointer,
 * whatever its type, and even if the caller gave none: on x86-64 and aarch64 Linux
 * an argument of any of these types is in the same register, and libc looks at it
 * only if the command takes an argument.
 */
#define VARIABLE_ARG(last) \
	va_list ap; \
	void *arg; \
\
	va_start(ap, last); \
	arg = va_arg(ap, void *); \
	va_end(ap);

/* The stubs that the pointers start with. */
#define SR_CALL(family, ret, name, params, args) \
	static ret stub_##name params \
	{ \
		real_find(&sr_real.name, #name); \
		return sr_real.name args; \
	}
#define SR_VARIADIC(family, ret, name, params, args, last) \
	static ret stub_##name params \
	{ \
		VARIABLE_ARG(last) \
		real_find(&sr_real.name, #name); \
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
/* Until find_all() has run these pointers lead to sr_real's functions. */
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
struct sr_real sr_libc = {
#include "calls.def"
};
#undef SR_CALL

/*
 * The functions of a library that was preloaded behind us.  If there is such a function,
 * sr_real points at chained_NAME(), which calls either it or libc's own; so a process
 * without such a library pays nothing for the choice.  While this thread holds a lock of
 * ours, libc's own is called, because another library's function may call us again.
 */
SR_APART static struct sr_real next;
__thread volatile bool sr_direct __attribute__((tls_model("initial-exec")));

static inline const struct sr_real *call_chain(void)
{
	bool ours = sr_inside || sr_direct || sr_held.count >= SR_HELD_LOCK;

	return ours ? &sr_libc : &next;
}

#define SR_CALL(family, ret, name, params, args) \
	static ret chained_##name params \
	{ \
		return call_chain()->name args; \
	}
#define SR_VARIADIC(family, ret, name, params, args, last) \
	static ret chained_##name params \
	{ \
		VARIABLE_ARG(last) \
		return call_chain()->name args; \
	}
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
#include "calls.def"
#undef SR_CALL

static int clock_early(clockid_t clock, struct timespec *now)
{
	return (int)sr_libc.syscall(SYS_clock_gettime, clock, (long)now, 0, 0, 0, 0);
}

/* libc's function, not the system call, because it uses the vDSO. */
int (*sr_clock)(clockid_t clock, struct timespec *now) = clock_early;

/*
 * Resolves all functions while the process still has one thread.  Otherwise the
 * first call of a function might come from a signal handler or from the child of
 * a fork, and dlsym() takes the loader's lock.
 */
__attribute__((constructor(101))) static void find_all(void)
{
	int saved = errno;
	__typeof__(&dlsym) look_up = sr_next_dlsym();
	void *libc, *own, *fn;

	sr_enter();
	libc = libc_handle();
#define SR_CALL(family, ret, name, params, args) \
	own = look_up(libc, #name); \
	fn = look_up(RTLD_NEXT, #name) ?: own ?: (void *)call_missing; \
	real_set(&sr_libc.name, own ?: fn); \
	real_set(&next.name, fn); \
	real_set(&sr_real.name, own && fn != own ? (void *)chained_##name : fn);
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
#include "calls.def"
#undef SR_CALL
	fn = look_up(libc, "clock_gettime");
	if (fn)
		real_set(&sr_clock, fn);
	sr_leave();
	errno = saved;
}

/* ---- for dlsym(3): libc's own functions, and which callers need them ---- */

static bool is_listed(const struct link_map *object)
{
#define SR_CALL(family, ret, name, params, args) \
	if (sr_object_find(object, #name)) \
		return true;
#include "calls.def"
#undef SR_CALL
	return false;
}

void *sr_real_libc(const char *name)
{
	return sr_next_dlsym()(libc_handle(), name);
}

bool sr_real_is_chained(const void *caller, const void *fn)
{
	const struct link_map *object = sr_object_at(caller), *own = sr_object_own();
	const struct link_map *behind = sr_object_at(fn);

	while (behind && behind != object && behind != own)
		behind = behind->l_prev;
	return behind && behind != own && is_listed(object);
}
