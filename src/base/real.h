/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * real.h - the functions behind those that we intercept, one pointer for each entry of
 * include/calls.def.  Each pointer starts at a stub that resolves it on its first use
 * (which may come before any constructor).  No other file of src/ calls an intercepted
 * name.
 */
#ifndef SR_REAL_H
#define SR_REAL_H

#include "base/calls.h"

#include "base/lock.h"

#define SR_CALL(family, ret, name, params, args) ret (*name) params;
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
struct sr_real {
#include "calls.def"
};
#undef SR_CALL

/* For calls of the program: the next function of that name, which is libc's own or that of
 * a library that was preloaded behind us.  Under sr_inside it is libc's own. */
extern struct sr_real sr_real;

/* libc's own functions, which bypass all preloaded libraries.  For the library's own calls
 * there is sys.h; these are for calls that sleep, which must be cancellation points. */
extern struct sr_real sr_libc;

/* clock_gettime(2), libc's own: a library that shows the program another time must not
 * stop our clocks. */
extern int (*sr_clock)(clockid_t clock, struct timespec *now);

/* Set while we carry out a syscall(2) of the program by a function that we intercept.
 * sr_real then leads to libc's own functions, because a library that was preloaded behind us
 * may implement that function by this very system call. */
extern __thread volatile bool sr_direct __attribute__((tls_model("initial-exec")));

/* The next dlsym(3) and dlvsym(3), to which our own jump; also before any constructor. */
__typeof__(&dlsym) sr_next_dlsym(void);
__typeof__(&dlvsym) sr_next_dlvsym(void);

/* libc's own function of this name, as dlsym(3) finds it; NULL: it has none. */
void *sr_real_libc(const char *name);

/* Is `caller', an address in code, in a library between us and libc that defines a function of
 * calls.def itself?  sr_real may lead to that library, so its own dlsym() must not find our
 * function.  fn: a function of libc. */
bool sr_real_is_chained(const void *caller, const void *fn);

#endif
