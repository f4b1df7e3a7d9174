/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.c - waiting for sets of descriptors.  A set without a stream is the
 * kernel's.
 */
#include "shim/shim.h"

static bool has_stream(const struct pollfd *fds, nfds_t n)
{
	if (sr_shim_unused())
		return false;
	for (nfds_t i = 0; i < n; i++) {
		if (sr_fdtab_has(fds[i].fd))
			return true;
	}
	return false;
}

int sr_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec t = {
		.tv_sec = timeout_ms / 1000,
		.tv_nsec = timeout_ms % 1000 * 1000000L,
	};
	int saved = errno;

	if (!has_stream(fds, n))
		return sr_real.poll(fds, n, timeout_ms);
	return (int)sr_outcome(
		saved,
		sr_streams_poll(fds, n, timeout_ms < 0 ? NULL : &t, NULL));
}

int sr_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
	     const sigset_t *mask)
{
	int saved = errno;

	if (!has_stream(fds, n) ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 ||
			 timeout->tv_nsec >= 1000000000)))
		return sr_real.ppoll(fds, n, timeout, mask);
	return (int)sr_outcome(saved, sr_streams_poll(fds, n, timeout, mask));
}

/*
 * The kernel's socket knows nothing of what comes by a link, so the stream goes
 * back to TCP.  Bytes that are still on their way there wake the set when they
 * arrive, which is why this need not wait longer than once.
 */
int sr_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct sr_stream *st = op == EPOLL_CTL_ADD ? sr_fdtab_get(fd) : NULL;
	int saved = errno;

	if (st) {
		sr_stream_plain(st, fd, SR_REASON_EPOLL);
		sr_stream_put(st);
		errno = saved;
	}
	return sr_real.epoll_ctl(epfd, op, fd, event);
}
