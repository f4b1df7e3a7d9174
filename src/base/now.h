/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * now.h - I/O that does not sleep, for callers that hold a lock; and a sleep.
 *
 * The C library's functions are cancellation points (pthreads(7)) even if they are
 * not going to wait: a thread with a cancellation pending would leave from within our
 * locks, or from within a call that promises to be no cancellation point (close, dup2).
 * These are the system calls alone.  Results and errno as the library's.
 */
#ifndef SR_NOW_H
#define SR_NOW_H

#include "base/real.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

static inline ssize_t sr_now_send_flags(int fd, const void *buf, size_t n, int flags)
{
	return sr_real.syscall(SYS_sendto, fd, (long)buf, (long)n,
			       flags | MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
}

static inline ssize_t sr_now_send(int fd, const void *buf, size_t n)
{
	return sr_now_send_flags(fd, buf, n, 0);
}

static inline ssize_t sr_now_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return sr_real.syscall(SYS_sendmsg, fd, (long)msg, flags | MSG_DONTWAIT, 0, 0,
			       0);
}

static inline ssize_t sr_now_recv(int fd, void *buf, size_t n, int flags)
{
	return sr_real.syscall(SYS_recvfrom, fd, (long)buf, (long)n,
			       flags | MSG_DONTWAIT, 0, 0);
}

static inline ssize_t sr_now_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return sr_real.syscall(SYS_recvmsg, fd, (long)msg, flags | MSG_DONTWAIT, 0, 0,
			       0);
}

/* The descriptor is O_NONBLOCK. */
static inline int sr_now_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return (int)sr_real.syscall(SYS_connect, fd, (long)to, (long)len, 0, 0, 0);
}

/* Dissolves the connection (connect(2), AF_UNSPEC): the peer gets a reset. */
static inline void sr_now_disconnect(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)sr_now_connect(fd, &none, sizeof(none));
}

static inline ssize_t sr_now_read(int fd, void *buf, size_t n)
{
	return sr_real.syscall(SYS_read, fd, (long)buf, (long)n, 0, 0, 0);
}

static inline ssize_t sr_now_pread(int fd, void *buf, size_t n, off_t at)
{
	return sr_real.syscall(SYS_pread64, fd, (long)buf, (long)n, at, 0, 0);
}

static inline ssize_t sr_now_write(int fd, const void *buf, size_t n)
{
	return sr_real.syscall(SYS_write, fd, (long)buf, (long)n, 0, 0, 0);
}

static inline int sr_now_open(const char *path, int flags, mode_t mode)
{
	return (int)sr_real.syscall(SYS_openat, AT_FDCWD, (long)path, flags, (long)mode,
				    0, 0);
}

static inline int sr_now_close(int fd)
{
	return (int)sr_real.syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline int sr_now_poll(struct pollfd *fds, size_t n)
{
	struct timespec at_once = { 0, 0 };

	return (int)sr_real.syscall(SYS_ppoll, (long)fds, (long)n, (long)&at_once, 0,
				    _NSIG / 8, 0);
}

/* Sleeps.  A signal handler cuts it short.  Leaves errno alone. */
static inline void sr_now_sleep(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
	int err = errno;

	sr_real.syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&t, 0, 0, 0);
	errno = err;
}

/* Sleeps between two looks at something: 0.1 ms at first (*ns is 0 then), and twice as long
 * each time, up to some 2 ms. */
static inline void sr_now_sleep_longer(uint64_t *ns)
{
	*ns = !*ns ? 100000 : *ns < 2000000 ? 2 * *ns : *ns;
	sr_now_sleep(*ns);
}

static inline int sr_now_epoll(int epfd, struct epoll_event *ev, int max)
{
	return (int)sr_real.syscall(SYS_epoll_pwait, epfd, (long)ev, max, 0, 0,
				    _NSIG / 8);
}

#endif
