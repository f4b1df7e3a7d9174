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

struct sr_epoll *sr_epoll_find_linked(const struct pollfd *fds, nfds_t n)
{
	struct sr_epoll *set;

	for (nfds_t i = 0; i < n; i++) {
		set = sr_epoll_peek(fds[i].fd);
		if (set && sr_epoll_is_nested(set) && sr_load(&set->linked))
			return set;
	}
	return NULL;
}

/* What poll(2) returns, or 0: time to sleep. */
static int spin_polled(struct sr_epoll *set, struct pollfd *fds, nfds_t n, uint64_t start)
{
	uint64_t limit = sr_conf.spin_us * 1000ull, last = start, now;
	unsigned handled = sr_handled.all;
	int r;

	for (;;) {
		r = sr_now_poll(fds, n);
		if (r)
			return r > 0 ? r : 0;	/* the sleep returns the error */
		if (sr_handled.all != handled) {
			errno = EINTR;
			return -1;
		}
		now = sr_now_ns();
		if (sr_spin_stolen(&set->spin, limit, now - last) || now - start >= limit)
			return 0;
		last = now;
		sr_relax();
	}
}

int sr_epoll_poll(struct sr_epoll *set, struct pollfd *fds, nfds_t n,
		  const struct timespec *timeout)
{
	uint64_t start = sr_now_ns(), limit = sr_conf.spin_us * 1000ull;
	int err = errno, r = 0;

	if (sr_spin_pays(&set->spin, limit, false))
		r = spin_polled(set, fds, n, start);
	if (!r) {
		errno = err;
		r = sr_real.ppoll(fds, n, timeout, NULL);
	}
	if (r > 0)
		sr_spin_learn(&set->spin, limit, sr_now_ns() - start);
	return r;
}
