/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.c - poll() and ppoll().  Calls without a stream are passed to the kernel.
 */
#include "shim/shim.h"

#include <sys/resource.h>

#include "base/loop.h"

void sr_shim_poll_sets(const struct pollfd *fds, nfds_t n)
{
	if (sr_epoll_max() < 0)
		return;
	for (nfds_t i = 0; i < n; i++)
		if (sr_epoll_has(fds[i].fd))
			sr_epoll_nest(fds[i].fd, -1);
}

#define FEW 64			/* no program's limit is lower */

/* The kernel refuses more descriptors than RLIMIT_NOFILE.  (Out of line, because the
 * system call would cost the fast path registers.) */
static __attribute__((noinline)) bool is_above_limit(nfds_t n)
{
	struct rlimit most;

	return sr_sys_getrlimit(RLIMIT_NOFILE, &most) == 0 && n > most.rlim_cur;
}

static inline bool too_many(nfds_t n)
{
	return n > FEW && is_above_limit(n);
}

/* Is there a stream that may be on a link, in a call that the kernel would not refuse? */
static inline bool is_ours(const struct pollfd *fds, nfds_t n)
{
	if (sr_shim_unused() || sr_inside || too_many(n))
		return false;
	for (nfds_t i = 0; i < n; i++) {
		if (sr_has_active_stream(fds[i].fd))
			return true;
	}
	sr_shim_poll_sets(fds, n);
	return false;
}

bool sr_shim_polled(const struct pollfd *fds, nfds_t n)
{
	return is_ours(fds, n);
}

static struct timespec timespec_of(int ms)
{
	return (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
}

static __attribute__((noinline)) int poll_slow(struct pollfd *fds, nfds_t n,
					       int timeout_ms)
{
	struct timespec t = timespec_of(timeout_ms);
	int saved = errno;

	sr_shim_poll_sets(fds, n);
	return (int)sr_outcome(saved, sr_streams_poll(fds, n, timeout_ms < 0 ? NULL : &t,
						      NULL, NULL));
}

/* No stream is among the descriptors.  A set with links, if there is one, for a call that may
 * sleep. */
static struct sr_epoll *linked_set(const struct pollfd *fds, nfds_t n,
				   const struct timespec *timeout)
{
	if (sr_inside || too_many(n) || (timeout && !timeout->tv_sec && !timeout->tv_nsec))
		return NULL;
	return sr_epoll_find_linked(fds, n);
}

static __attribute__((noinline)) int poll_others(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec t = timespec_of(timeout_ms), *timeout = timeout_ms < 0 ? NULL : &t;
	struct sr_epoll *set = linked_set(fds, n, timeout);

	return set ? sr_epoll_poll(set, fds, n, timeout) : sr_real.poll(fds, n, timeout_ms);
}

static __attribute__((noinline)) int ppoll_others(struct pollfd *fds, nfds_t n,
						  const struct timespec *timeout,
						  const sigset_t *mask)
{
	struct sr_epoll *set = NULL;

	if (!mask && (!timeout || sr_is_time(timeout)))
		set = linked_set(fds, n, timeout);
	return set ? sr_epoll_poll(set, fds, n, timeout) : sr_real.ppoll(fds, n, timeout, mask);
}

int sr_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int fast;

	if (!is_ours(fds, n))
		return sr_epoll_any_nested() ? poll_others(fds, n, timeout_ms) :
					       sr_real.poll(fds, n, timeout_ms);
	fast = sr_fast_poll_all(fds, n);
	if (fast > 0 || (!fast && !timeout_ms))
		return fast;
	return poll_slow(fds, n, timeout_ms);
}

int sr_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
	     const sigset_t *mask)
{
	int saved = errno, fast;

	if (!is_ours(fds, n) || (timeout && !sr_is_time(timeout)))
		return sr_epoll_any_nested() ? ppoll_others(fds, n, timeout, mask) :
					       sr_real.ppoll(fds, n, timeout, mask);
	fast = mask ? -1 : sr_fast_poll_all(fds, n);
	if (fast > 0)
		return fast;
	sr_shim_poll_sets(fds, n);
	return (int)sr_outcome(saved, sr_streams_poll(fds, n, timeout, mask, NULL));
}
