/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* poll.h - poll(2) on sets that hold streams. */
#ifndef SR_WAIT_POLL_H
#define SR_WAIT_POLL_H

#include <poll.h>
#include <signal.h>
#include <time.h>

/* poll(2) on any set.  timeout NULL: none.  sigmask and revents as in ppoll(2).  *deadline
 * (or NULL): when the timeout ends, as for sr_deadline_ns(). */
int sr_streams_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		    const sigset_t *sigmask, uint64_t *deadline);

#endif
