/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* poll.h - poll(2) on sets that hold streams. */
#ifndef SR_WAIT_POLL_H
#define SR_WAIT_POLL_H

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

/* poll(2) on any set.  A set without a stream that is (or may get) on a link
 * goes to the kernel's ppoll.  timeout NULL: none.  sigmask and revents as in
 * ppoll(2).  *end (end may be NULL) becomes the time at which the timeout is
 * over (sr_now_ns), UINT64_MAX without a timeout, or 0 if the call did not have
 * to wait. */
int sr_streams_poll(struct pollfd *fds, nfds_t n,
		    const struct timespec *timeout, const sigset_t *sigmask,
		    uint64_t *end);

#endif
