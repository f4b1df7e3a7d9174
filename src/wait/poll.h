/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll.h - poll(2) with streams among the descriptors.
 */
#ifndef SR_WAIT_POLL_H
#define SR_WAIT_POLL_H

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

/*
 * poll(2) for sets that hold streams.  May be called with any set; without a
 * stream in it that is (or may get) on a link it is the kernel's ppoll.
 * timeout NULL: none.  sigmask as ppoll.  revents as the kernel gives them.
 * end (may be NULL) becomes the time at which the timeout is over (sr_now_ns),
 * UINT64_MAX without one, or 0 if it did not have to wait.
 */
int sr_streams_poll(struct pollfd *fds, nfds_t n,
		    const struct timespec *timeout, const sigset_t *sigmask,
		    uint64_t *end);

#endif
