/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * polled.c - poll(2) on a set that has links: spins before it sleeps.
 *
 * Only the kernel knows whether such a set is readable (nest.c), so each look is a system call.  It
 * is still faster than a wake-up where both ends have a core.  Whether it pays is learned as for
 * other waits (base/spin.h).
 */
#include "base/real.h"

#include <errno.h>

#include "base/conf.h"
#include "base/now.h"
#include "base/signal.h"
#include "base/spin.h"
#include "epoll/epoll.h"
#include "epoll/nest.h"

#define LONG 10			/* times a busy wait */

struct sr_epoll *sr_epoll_find_linked(const struct pollfd *fds, nfds_t n)
{
	struct sr_epoll *set;

	for (nfds_t i = 0; i < n; i++) {
		set = sr_epoll_peek(fds[i].fd);
		if (set && sr_epoll_is_nested(set) &&
		    (sr_epoll_has_links(set) || sr_epoll_has_linked_members(set)))
			return set;
	}
	return NULL;
}

/* Is the time so long that a busy wait on top of it does not matter? */
static bool outlasts_spin(const struct timespec *timeout, uint64_t limit)
{
	return !timeout || timeout->tv_sec > 1000 ||
	       (uint64_t)timeout->tv_sec * 1000000000u + (uint64_t)timeout->tv_nsec >= LONG * limit;
}

/* What poll(2) returns, or 0: time to sleep. */
static int spin_polled(struct sr_epoll *set, struct pollfd *fds, nfds_t n, uint64_t start)
{
	uint64_t limit = sr_conf.spin_us * 1000ull, last = start, now;
	unsigned handled = sr_handled.all;
	int r;

	do {
		r = sr_now_poll(fds, n);
		if (r)
			return r > 0 ? r : 0;	/* the sleep returns the error */
		now = sr_now_ns();
		if (sr_spin_stolen(&set->spin, limit, now - last) || now - start >= limit)
			break;
		last = now;
		sr_relax();
	} while (sr_handled.all == handled);
	if (sr_handled.all == handled)
		return 0;
	errno = EINTR;
	return -1;
}

int sr_epoll_poll(struct sr_epoll *set, struct pollfd *fds, nfds_t n,
		  const struct timespec *timeout)
{
	uint64_t start = sr_now_ns(), limit = sr_conf.spin_us * 1000ull;
	bool may_spin = outlasts_spin(timeout, limit);
	int err = errno, r = 0;

	pthread_testcancel();	/* as in sr_stream_recv() */
	sr_links_before_wait();
	if (may_spin && sr_spin_pays(&set->spin, limit, false))
		r = spin_polled(set, fds, n, start);
	if (!r) {
		errno = err;
		r = sr_real.ppoll(fds, n, timeout, NULL);
	}
	if (may_spin && r > 0)
		sr_spin_learn(&set->spin, limit, sr_now_ns() - start);
	return r;
}
