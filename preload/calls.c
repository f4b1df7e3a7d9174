/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * calls.c - the interposers: for each entry of include/calls.def a function of
 * that name, which calls sr_NAME().  Those with variable arguments are in
 * variadic.c.
 */
#include "base/calls.h"

#include "sockrail.h"

/* Of the C library: "buffer overflow detected". */
void __chk_fail(void) __attribute__((noreturn));

/* What the fortified twins check: room for n. */
static inline size_t checked_size(size_t n, size_t room)
{
	if (n > room)
		__chk_fail();
	return n;
}

/* How a call of a family ends: _exit() and its like do not return. */
#define END_rw(call) return call
#define END_msg(call) return call
#define END_conn(call) return call
#define END_opt(call) return call
#define END_poll(call) return call
#define END_epoll(call) return call
#define END_fd(call) return call
#define END_file(call) return call
#define END_proc(call) return call
#define END_signal(call) return call
#define END_thread(call) return call
#define END_exit(call) call

#define SR_CALL(family, ret, name, params, args) \
	SR_ALIAS(family, ret, name, params, sr_##name args)
#define SR_ALIAS(family, ret, name, params, expression) \
	SR_API ret name params; \
	ret name params \
	{ \
		END_##family(expression); \
	}
#define SR_VARIADIC(family, ret, name, params, args, last)
#define SR_SYSCALL(family, ret, name, params, args)
#define SR_TAIL(family, ret, name, params, args)
#define SR_BY_HAND(family, ret, name, params)
#include "calls.def"
