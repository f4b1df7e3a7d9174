/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll.c - epoll(7).  Sets are known from their making on; what is no set of
 * ours, and no stream, is the kernel's.
 */
#include "shim/shim.h"

static int made(int fd)
{
	int saved = errno;

	if (fd < 0 || sr_inside)
		return fd;
	sr_shim_fresh(fd);
	if (sr_process_ours() && sr_shim_ready() &&
	    sr_conf.upgrade != SR_NEVER)
		sr_epoll_opened(fd);
	errno = saved;
	return fd;
}

int sr_epoll_create(int size)
{
	return made(sr_real.epoll_create(size));
}

int sr_epoll_create1(int flags)
{
	return made(sr_real.epoll_create1(flags));
}

/* A set in another one: that one sleeps on its readiness. */
static int nest(int epfd, int op, int fd, struct epoll_event *event)
{
	struct sr_epoll *inside = op == EPOLL_CTL_ADD && fd != epfd ?
					  sr_epoll_get(fd) : NULL;

	if (inside) {
		sr_epoll_watched(inside, true);
		sr_epoll_put(inside);
	}
	return sr_real.epoll_ctl(epfd, op, fd, event);
}

int sr_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct sr_stream *st = sr_inside ? NULL : sr_fdtab_get(fd);
	struct sr_epoll *set;
	int saved = errno, r;

	if (!st)
		return sr_inside ? sr_real.epoll_ctl(epfd, op, fd, event) :
				   nest(epfd, op, fd, event);
	set = sr_epoll_get(epfd);
	r = sr_epoll_ctl_stream(set, st, epfd, op, fd, event);
	if (set)
		sr_epoll_put(set);
	return (int)sr_result(st, saved, r);
}

static int wait_for(struct sr_epoll *set, int epfd, struct epoll_event *events,
		    int max, const struct sr_epoll_time *t)
{
	int saved = errno, r;

	r = sr_epoll_wait_for(set, epfd, events, max, t);
	sr_epoll_put(set);
	return (int)sr_outcome(saved, r);
}

/* NULL also where the kernel has an error to give. */
static struct sr_epoll *waited_for(int epfd, int max)
{
	if (max <= 0 || sr_inside)
		return NULL;
	return sr_epoll_get(epfd);
}

int sr_epoll_wait(int epfd, struct epoll_event *events, int max, int ms)
{
	struct sr_epoll *set = waited_for(epfd, max);
	const struct sr_epoll_time t = { .ms = ms };

	if (!set)
		return sr_real.epoll_wait(epfd, events, max, ms);
	return wait_for(set, epfd, events, max, &t);
}

int sr_epoll_pwait(int epfd, struct epoll_event *events, int max, int ms,
		   const sigset_t *mask)
{
	struct sr_epoll *set = waited_for(epfd, max);
	const struct sr_epoll_time t = { .ms = ms, .mask = mask };

	if (!set)
		return sr_real.epoll_pwait(epfd, events, max, ms, mask);
	return wait_for(set, epfd, events, max, &t);
}

int sr_epoll_pwait2(int epfd, struct epoll_event *events, int max,
		    const struct timespec *timeout, const sigset_t *mask)
{
	const struct sr_epoll_time t = { .ts = timeout, .fine = true,
					 .mask = mask };
	bool valid = !timeout || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
				  timeout->tv_nsec < 1000000000);
	struct sr_epoll *set = valid ? waited_for(epfd, max) : NULL;

	if (!set)
		return sr_real.epoll_pwait2(epfd, events, max, timeout, mask);
	return wait_for(set, epfd, events, max, &t);
}
