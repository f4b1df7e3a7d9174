/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sys.c - syscall(2): a number of a call that we intercept is that call (libuv
 * closes its descriptors so), the rest is the kernel's.
 *
 * Some system calls differ from the C library's function of their name: ppoll and
 * pselect6 write back the time that is left, those with a mask take its size, and
 * rt_sigaction has a structure of its own.
 */
#include "shim/shim.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/loop.h"
#include "base/readable.h"

#define FD(x) ((int)(x))
#define N(x) ((size_t)(x))
#define P(x) ((void *)(x))

static long transfer(long number, const long arg[6], bool *ours)
{
	long a = arg[0], b = arg[1], c = arg[2], d = arg[3], e = arg[4],
	     f = arg[5];

	switch (number) {
	case SYS_read:
		return sr_read(FD(a), P(b), N(c));
	case SYS_readv:
		return sr_readv(FD(a), P(b), (int)c);
	case SYS_preadv2:	/* the offset comes in two halves, the low one whole */
		return sr_preadv2(FD(a), P(b), (int)c, d, (int)f);
	case SYS_write:
		return sr_write(FD(a), P(b), N(c));
	case SYS_writev:
		return sr_writev(FD(a), P(b), (int)c);
	case SYS_pwritev2:
		return sr_pwritev2(FD(a), P(b), (int)c, d, (int)f);
	case SYS_sendfile:
		return sr_sendfile(FD(a), FD(b), P(c), N(d));
	case SYS_splice:
		return sr_splice(FD(a), P(b), FD(c), P(d), N(e), (unsigned)f);
	case SYS_recvfrom:
		return sr_recvfrom(FD(a), P(b), N(c), (int)d, P(e), P(f));
	case SYS_recvmsg:
		return sr_recvmsg(FD(a), P(b), (int)c);
	case SYS_recvmmsg:
		return sr_recvmmsg(FD(a), P(b), (unsigned)c, (int)d, P(e));
	case SYS_sendto:
		return sr_sendto(FD(a), P(b), N(c), (int)d, P(e), (socklen_t)f);
	case SYS_sendmsg:
		return sr_sendmsg(FD(a), P(b), (int)c);
	case SYS_sendmmsg:
		return sr_sendmmsg(FD(a), P(b), (unsigned)c, (int)d);
	default:
		*ours = false;
		return -1;
	}
}

static long connection(long number, const long arg[6], bool *ours)
{
	long a = arg[0], b = arg[1], c = arg[2], d = arg[3], e = arg[4];

	switch (number) {
	case SYS_socket:
		return sr_socket((int)a, (int)b, (int)c);
	case SYS_connect:
		return sr_connect(FD(a), P(b), (socklen_t)c);
	case SYS_listen:
		return sr_listen(FD(a), (int)b);
	case SYS_accept:
		return sr_accept(FD(a), P(b), P(c));
	case SYS_accept4:
		return sr_accept4(FD(a), P(b), P(c), (int)d);
	case SYS_shutdown:
		return sr_shutdown(FD(a), (int)b);
	case SYS_getsockopt:
		return sr_getsockopt(FD(a), (int)b, (int)c, P(d), P(e));
	case SYS_setsockopt:
		return sr_setsockopt(FD(a), (int)b, (int)c, P(d), (socklen_t)e);
	case SYS_ioctl:
		return sr_ioctl(FD(a), (unsigned long)b, P(c));
	case SYS_fcntl:
		return sr_fcntl(FD(a), (int)b, P(c));
	default:
		*ours = false;
		return -1;
	}
}

#define MASK_BYTES 8		/* of a signal mask, to the kernel */

static uint64_t end_of(const struct timespec *t)
{
	return t && sr_is_time(t) ? sr_deadline_ns((uint64_t)t->tv_sec,
						   (uint64_t)t->tv_nsec) : 0;
}

/* Where that cannot be written the kernel says nothing, and the program may have put
 * it there on purpose. */
static long time_left(long r, struct timespec *t, uint64_t end)
{
	uint64_t now = end ? sr_now_ns() : 0;
	struct timespec left = sr_timespec(end > now ? end - now : 0);
	struct iovec from = { &left, sizeof(left) }, to = { t, sizeof(left) };
	int saved = errno;

	if (end)
		process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	errno = saved;
	return r;
}

static long number_ppoll(const long arg[6])
{
	uint64_t end = end_of(P(arg[2]));

	return time_left(sr_ppoll(P(arg[0]), (nfds_t)arg[1], P(arg[2]), P(arg[3])),
			 P(arg[2]), end);
}

static long number_pselect6(const long arg[6])
{
	const sigset_t *mask = arg[5] ? *(const sigset_t **)arg[5] : NULL;
	uint64_t end = end_of(P(arg[4]));

	return time_left(sr_pselect((int)arg[0], P(arg[1]), P(arg[2]), P(arg[3]),
				    P(arg[4]), mask),
			 P(arg[4]), end);
}

static bool is_bad(long address, size_t n)
{
	return address && !sr_readable(P(address), n);
}

/* The kernel has an error for that.  (Of a bad address of a time the C library's
 * functions have none: they look at it themselves.) */
static bool refused(long number, const long arg[6])
{
	switch (number) {
#ifdef SYS_select
	case SYS_select:
		return is_bad(arg[4], sizeof(struct timeval));
#endif
	case SYS_ppoll:
		return is_bad(arg[2], sizeof(struct timespec)) ||
		       (arg[3] && arg[4] != MASK_BYTES);
	case SYS_pselect6:	/* the last: a pointer to mask and size */
		return is_bad(arg[4], sizeof(struct timespec)) ||
		       is_bad(arg[5], 2 * sizeof(long)) ||
		       (arg[5] && ((long *)arg[5])[0] &&
			((long *)arg[5])[1] != MASK_BYTES);
	case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
#endif
		return arg[4] && arg[5] != MASK_BYTES;
	default:
		return false;
	}
}

static long waiting(long number, const long arg[6], bool *ours)
{
	long a = arg[0], b = arg[1], c = arg[2], d = arg[3], e = arg[4];

	if (refused(number, arg)) {
		*ours = false;
		return -1;
	}
	switch (number) {
#ifdef SYS_poll
	case SYS_poll:
		return sr_poll(P(a), (nfds_t)b, (int)c);
#endif
#ifdef SYS_select
	case SYS_select:
		return sr_select((int)a, P(b), P(c), P(d), P(arg[4]));
#endif
	case SYS_ppoll:
		return number_ppoll(arg);
	case SYS_pselect6:
		return number_pselect6(arg);
	case SYS_epoll_ctl:
		return sr_epoll_ctl(FD(a), (int)b, FD(c), P(d));
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
		return sr_epoll_wait(FD(a), P(b), (int)c, (int)d);
#endif
	case SYS_epoll_pwait:
		return sr_epoll_pwait(FD(a), P(b), (int)c, (int)d, P(e));
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
		return sr_epoll_pwait2(FD(a), P(b), (int)c, P(d), P(e));
#endif
#ifdef SYS_epoll_create
	case SYS_epoll_create:
		return sr_epoll_create((int)a);
#endif
	case SYS_epoll_create1:
		return sr_epoll_create1((int)a);
	default:
		*ours = false;
		return -1;
	}
}

static long descriptor(long number, const long arg[6], bool *ours)
{
	long a = arg[0], b = arg[1], c = arg[2], d = arg[3];

	switch (number) {
	case SYS_close:
		return sr_close(FD(a));
#ifdef SYS_close_range
	case SYS_close_range:
		return sr_close_range((unsigned)a, (unsigned)b, (int)c);
#endif
	case SYS_dup:
		return sr_dup(FD(a));
#ifdef SYS_dup2
	case SYS_dup2:
		return sr_dup2(FD(a), FD(b));
#endif
	case SYS_dup3:
		return sr_dup3(FD(a), FD(b), (int)c);
	case SYS_execve:
		return sr_execve(P(a), P(b), P(c));
	case SYS_execveat:
		return sr_execveat(FD(a), P(b), P(c), P(d), (int)arg[4]);
	case SYS_rt_sigaction:
		return sr_rt_sigaction((int)a, P(b), P(c), N(d));
	case SYS_exit_group:
		sr__exit((int)a);
	default:
		*ours = false;
		return -1;
	}
}

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
	static long (*const families[])(long, const long[6], bool *) = {
		transfer, connection, waiting, descriptor,
	};
	const long arg[6] = { a, b, c, d, e, f };
	long r;

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		bool ours = true;

		r = families[i](number, arg, &ours);
		if (ours)
			return r;
	}
#ifdef SYS_io_uring_setup
	if (number == SYS_io_uring_setup && no_io_uring())
		return -1;
#endif
	return sr_real.syscall(number, a, b, c, d, e, f);
}
