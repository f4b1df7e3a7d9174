/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll.c - epoll(7).  The library knows the sets that were made by calls that it intercepts.
 * Calls on other sets, and on descriptors that are no streams, go to the kernel.
 */
#include "shim/shim.h"

#include <limits.h>

#include "base/loop.h"

static int epoll_made(int fd)
{
	int saved = errno;

	if (fd < 0 || sr_inside || sr_shim_has_made(fd))
		return fd;
	sr_hold();
	sr_shim_fresh(fd);
	if (sr_process_ours() && sr_shim_ready() &&
	    !sr_conf.never)
		sr_epoll_opened(fd);
	sr_release();
	errno = saved;
	return fd;
}

int sr_epoll_create(int size)
{
	sr_shim_makes();
	return epoll_made(sr_real.epoll_create(size));
}

int sr_epoll_create1(int flags)
{
	sr_shim_makes();
	return epoll_made(sr_real.epoll_create1(flags));
}

int sr_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct sr_stream *st = sr_inside ? NULL : sr_active_stream_get(fd);
	int saved = errno;

	if (st)
		return (int)sr_result(st, saved,
				      sr_epoll_ctl_stream(st, epfd, op, fd, event));
	if (sr_shim_hides(fd))
		return sr_shim_not_open();
	if (!sr_inside && op == EPOLL_CTL_ADD) {
		/* fd may be a set: the other set then sleeps until this one is readable. */
		if (fd != epfd)
			sr_epoll_nest(fd, epfd);
		sr_epoll_other(epfd);
	}
	return sr_real.epoll_ctl(epfd, op, fd, event);
}

/* NULL also if the arguments are wrong, so that the kernel returns the error. */
static inline struct sr_epoll *set_of(int epfd, int max)
{
	const int most = INT_MAX / sizeof(struct epoll_event);

	return max > 0 && max <= most && !sr_inside ? sr_epoll_peek(epfd) : NULL;
}

int sr_epoll_wait(int epfd, struct epoll_event *events, int max, int ms)
{
	return sr_epoll_pwait(epfd, events, max, ms, NULL);
}

int sr_epoll_pwait(int epfd, struct epoll_event *events, int max, int ms,
		   const sigset_t *mask)
{
	struct sr_epoll *set = set_of(epfd, max);

	return set ? sr_epoll_wait_ms(set, epfd, events, max, ms, mask) :
		     sr_real.epoll_pwait(epfd, events, max, ms, mask);
}

/* Rounded up. */
static int epoll_milliseconds(const struct timespec *t)
{
	return !t ? -1 : t->tv_sec >= INT_MAX / 1000 ? INT_MAX :
		   (int)(t->tv_sec * 1000 + (t->tv_nsec + 999999) / 1000000);
}

int sr_epoll_pwait2(int epfd, struct epoll_event *events, int max,
		    const struct timespec *timeout, const sigset_t *mask)
{
	struct sr_epoll *set = set_of(epfd, max);

	if (!set || (timeout && !sr_is_time(timeout)))
		return sr_real.epoll_pwait2(epfd, events, max, timeout, mask);
	return sr_epoll_wait_ms(set, epfd, events, max, epoll_milliseconds(timeout), mask);
}
