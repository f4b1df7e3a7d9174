/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * now.h - I/O that does not sleep, for callers that hold a lock; and a sleep.
 *
 * The C library's functions are cancellation points (pthreads(7)) even if they do not
 * wait: a thread that is being cancelled would end while it holds our locks, or inside a
 * call that is no cancellation point (dup2).  These functions are the bare system
 * calls (sys.h).
 */
#ifndef SR_NOW_H
#define SR_NOW_H

#include "base/sys.h"

static inline ssize_t sr_now_send_flags(int fd, const void *buf, size_t n, int flags)
{
	return SR_SYS(SYS_sendto, fd, buf, n, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
}

static inline ssize_t sr_now_send(int fd, const void *buf, size_t n)
{
	return sr_now_send_flags(fd, buf, n, 0);
}

static inline ssize_t sr_now_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return SR_SYS(SYS_sendmsg, fd, msg, flags | MSG_DONTWAIT);
}

static inline ssize_t sr_now_recv(int fd, void *buf, size_t n, int flags)
{
	return SR_SYS(SYS_recvfrom, fd, buf, n, flags | MSG_DONTWAIT);
}

static inline ssize_t sr_now_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return SR_SYS(SYS_recvmsg, fd, msg, flags | MSG_DONTWAIT);
}

/* The descriptor is O_NONBLOCK. */
static inline int sr_now_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return (int)SR_SYS(SYS_connect, fd, to, len);
}

/* Dissolves the connection (connect(2), AF_UNSPEC): the peer gets a reset. */
static inline void sr_now_disconnect(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)sr_now_connect(fd, &none, sizeof(none));
}

static inline ssize_t sr_now_read(int fd, void *buf, size_t n)
{
	return SR_SYS(SYS_read, fd, buf, n);
}

static inline ssize_t sr_now_pread(int fd, void *buf, size_t n, off_t at)
{
	return SR_SYS(SYS_pread64, fd, buf, n, at);
}

static inline ssize_t sr_now_write(int fd, const void *buf, size_t n)
{
	return SR_SYS(SYS_write, fd, buf, n);
}

static inline int sr_now_open(const char *path, int flags, mode_t mode)
{
	return (int)SR_SYS(SYS_openat, AT_FDCWD, path, flags, mode);
}

static inline int sr_now_close(int fd)
{
	return (int)SR_SYS(SYS_close, fd);
}

static inline int sr_now_poll(struct pollfd *fds, size_t n)
{
	return sr_sys_poll(fds, n, 0);
}

/* Sleeps.  A signal handler cuts it short.  Leaves errno alone. */
static inline void sr_now_sleep(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	(void)sr_sys_raw(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&t, 0, 0, 0);
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
	return (int)SR_SYS(SYS_epoll_pwait, epfd, ev, max, 0, 0, _NSIG / 8);
}

#endif
