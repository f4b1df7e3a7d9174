/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sys.c - syscall(2): a number of a call that we intercept is that call (libuv
 * closes its descriptors so), the rest is the kernel's.
 *
 * Some system calls differ from the C library's function of their name.  What of that
 * is not imitated: ppoll and pselect6 do not write back the time that is left, and the
 * size of a signal mask is not looked at.
 */
#include "shim/shim.h"

#include <sys/syscall.h>

/* The offset comes in two halves, the low one whole. */
static ssize_t number_preadv2(int fd, const struct iovec *iov, int cnt, off_t off,
			      long high, int flags)
{
	(void)high;
	return sr_preadv2(fd, iov, cnt, off, flags);
}

static ssize_t number_pwritev2(int fd, const struct iovec *iov, int cnt, off_t off,
			       long high, int flags)
{
	(void)high;
	return sr_pwritev2(fd, iov, cnt, off, flags);
}

/* The last is a pointer to the mask and its size. */
static int number_pselect6(int n, fd_set *rd, fd_set *wr, fd_set *ex,
			   const struct timespec *timeout, const sigset_t *const *six)
{
	return sr_pselect(n, rd, wr, ex, timeout, six ? *six : NULL);
}

static int number_ioctl(int fd, unsigned long req, void *arg)
{
	return sr_ioctl(fd, req, arg);
}

static int number_fcntl(int fd, int cmd, void *arg)
{
	return sr_fcntl(fd, cmd, arg);
}

/*
 * Each argument of a system call is a register, whatever its type, and so it is with
 * these functions on x86-64 and aarch64: they may all be called with six.  An int that
 * comes back is half a register.
 */
typedef long any_call(long a, long b, long c, long d, long e, long f);

#define LONG(name) { (any_call *)(void *)name, false }
#define INT(name) { (any_call *)(void *)name, true }

static const struct {
	any_call *fn;
	bool is_int;
} calls[] = {
	[SYS_read] = LONG(sr_read),
	[SYS_readv] = LONG(sr_readv),
	[SYS_preadv2] = LONG(number_preadv2),
	[SYS_write] = LONG(sr_write),
	[SYS_writev] = LONG(sr_writev),
	[SYS_pwritev2] = LONG(number_pwritev2),
	[SYS_sendfile] = LONG(sr_sendfile),
	[SYS_splice] = LONG(sr_splice),
	[SYS_recvfrom] = LONG(sr_recvfrom),
	[SYS_recvmsg] = LONG(sr_recvmsg),
	[SYS_recvmmsg] = INT(sr_recvmmsg),
	[SYS_sendto] = LONG(sr_sendto),
	[SYS_sendmsg] = LONG(sr_sendmsg),
	[SYS_sendmmsg] = INT(sr_sendmmsg),

	[SYS_socket] = INT(sr_socket),
	[SYS_connect] = INT(sr_connect),
	[SYS_listen] = INT(sr_listen),
	[SYS_accept] = INT(sr_accept),
	[SYS_accept4] = INT(sr_accept4),
	[SYS_shutdown] = INT(sr_shutdown),
	[SYS_getsockopt] = INT(sr_getsockopt),
	[SYS_setsockopt] = INT(sr_setsockopt),
	[SYS_ioctl] = INT(number_ioctl),
	[SYS_fcntl] = INT(number_fcntl),

#ifdef SYS_poll			/* the older calls are x86-64's only */
	[SYS_poll] = INT(sr_poll),
	[SYS_select] = INT(sr_select),
	[SYS_epoll_wait] = INT(sr_epoll_wait),
	[SYS_epoll_create] = INT(sr_epoll_create),
	[SYS_dup2] = INT(sr_dup2),
#endif
	[SYS_ppoll] = INT(sr_ppoll),
	[SYS_pselect6] = INT(number_pselect6),
	[SYS_epoll_ctl] = INT(sr_epoll_ctl),
	[SYS_epoll_pwait] = INT(sr_epoll_pwait),
#ifdef SYS_epoll_pwait2
	[SYS_epoll_pwait2] = INT(sr_epoll_pwait2),
#endif
	[SYS_epoll_create1] = INT(sr_epoll_create1),

	[SYS_close] = INT(sr_close),
#ifdef SYS_close_range
	[SYS_close_range] = INT(sr_close_range),
#endif
	[SYS_dup] = INT(sr_dup),
	[SYS_dup3] = INT(sr_dup3),
	[SYS_execve] = INT(sr_execve),
	[SYS_execveat] = INT(sr_execveat),
	[SYS_exit_group] = INT(sr__exit),
};

#ifdef SYS_io_uring_setup
/* What goes through a ring does not pass us. */
static bool no_io_uring(void)
{
	if (!sr_shim_ready() || sr_conf.upgrade == SR_NEVER)
		return false;
	if (!sr_conf.io_uring) {
		errno = ENOSYS;
		return true;
	}
	sr_streams_bar(SR_REASON_IO_URING);
	sr_streams_plain();
	return false;
}
#endif

long sr_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	size_t n = (size_t)number;
	long r;

	if (n < sizeof(calls) / sizeof(calls[0]) && calls[n].fn) {
		r = calls[n].fn(a, b, c, d, e, f);
		return calls[n].is_int ? (int)r : r;
	}
#ifdef SYS_io_uring_setup
	if (number == SYS_io_uring_setup && no_io_uring())
		return -1;
#endif
	return sr_real.syscall(number, a, b, c, d, e, f);
}
