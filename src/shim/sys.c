/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sys.c - syscall(2).  Some system calls are passed to the functions that we intercept:
 * those that make, close and replace descriptors (libuv closes by syscall(2)), that make and
 * use epoll sets, and that execute another program or end this one.  Those that change the
 * user are noticed.  All others go to the kernel: a program that moves the bytes of a stream
 * by syscall(2) bypasses the library.
 */
#include "shim/shim.h"

#include <sys/syscall.h>

/*
 * Each argument of a system call is in a register, whatever its type.  On x86-64 and
 * aarch64 that is also so for these functions, so each may be called with six arguments.
 */
typedef int any_call(long a, long b, long c, long d, long e, long f);

#define CALL(name) (any_call *)(void *)name

__thread volatile int sr_made __attribute__((tls_model("initial-exec")));

static any_call *const calls[] = {
	[SYS_socket] = CALL(sr_socket),
#ifdef SYS_accept		/* not on s390x */
	[SYS_accept] = CALL(sr_accept),
#endif
	[SYS_accept4] = CALL(sr_accept4),
	[SYS_close] = CALL(sr_close),
	[SYS_close_range] = CALL(sr_close_range),
	[SYS_dup] = CALL(sr_dup),
	[SYS_dup3] = CALL(sr_dup3),
#ifdef SYS_dup2			/* the older calls are x86-64's only */
	[SYS_dup2] = CALL(sr_dup2),
	[SYS_epoll_create] = CALL(sr_epoll_create),
	[SYS_epoll_wait] = CALL(sr_epoll_wait),
#endif
	[SYS_epoll_create1] = CALL(sr_epoll_create1),
	[SYS_epoll_ctl] = CALL(sr_epoll_ctl),
	[SYS_epoll_pwait] = CALL(sr_epoll_pwait),
	[SYS_epoll_pwait2] = CALL(sr_epoll_pwait2),
	[SYS_execve] = CALL(sr_execve),
	[SYS_execveat] = CALL(sr_execveat),
	[SYS_exit_group] = CALL(sr__exit),
};

/* We do not see I/O that goes through io_uring.  True: the call fails. */
static bool no_io_uring(void)
{
	int saved = errno;

	if (!sr_shim_ready() || sr_conf.never)
		return false;
	if (!sr_conf.io_uring) {
		errno = ENOSYS;
		return true;
	}
	sr_streams_bar_all(SR_REASON_IO_URING);
	sr_streams_make_all_plain();
	errno = saved;
	return false;
}

long sr_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	size_t n = (size_t)number;
	bool was = sr_direct;
	long r;

	if (n < sizeof(calls) / sizeof(calls[0]) && calls[n]) {
		sr_direct = true;
		r = calls[n](a, b, c, d, e, f);
		sr_direct = was;
		sr_made = (int)r;	/* used only if the call has made a descriptor */
		return r;
	}
	if (number == SYS_io_uring_setup && no_io_uring())
		return -1;
	if (number == SYS_setuid || number == SYS_setreuid || number == SYS_setresuid)
		sr_shim_user();	/* but not the C library's call, which changes all threads */
	return sr_real.syscall(number, a, b, c, d, e, f);
}
