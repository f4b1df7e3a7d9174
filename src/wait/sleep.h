/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sleep.h - the sleep of a call that finds nothing to do, and poll(2). */
#ifndef SR_WAIT_SLEEP_H
#define SR_WAIT_SLEEP_H

#include "base/signal.h"
#include "engine/stream.h"

/* The mode of the descriptor (O_NONBLOCK, timeouts) may have changed.  Any thread. */
void sr_stream_mode_changed(struct sr_stream *st);

/* A call that may have to sleep; made by sr_sleep_begin(). */
struct sr_sleep {
	int fd;
	int flags;		/* of the call */
	int option;		/* SO_RCVTIMEO or SO_SNDTIMEO */
	bool asked, blocks;
	bool partial;		/* bytes were transferred, so a signal ends the call */
	bool timed;
	uint64_t begun;		/* ns: when it began to wait in the kernel; 0: it did not */
	struct sr_handled since; /* handlers that run later interrupt the call */
	uint64_t deadline;	/* ns; 0: none */
};
/* Starts a call.  Handlers that run from now on interrupt its sleeps, as a
 * signal at any point of a call does in the kernel. */
struct sr_sleep sr_sleep_begin(int fd, int flags, int option);
bool sr_sleep_allowed(struct sr_stream *st, struct sr_sleep *s);
bool sr_sleep_is_timed(struct sr_stream *st, struct sr_sleep *s);	/* SO_RCVTIMEO, SO_SNDTIMEO */
/* Sleeps until the stream may have what events (POLLIN, POLLOUT) asks for.
 * Returns 0; -EAGAIN if the call does not block or its time is over; or
 * -EINTR. */
int sr_sleep(struct sr_stream *st, struct sr_sleep *s, short events);
/* The same, even for a call that does not block: sleeps ns at most, whatever its timeout. */
int sr_sleep_anyhow(struct sr_stream *st, int fd, short events, uint64_t ns);

/* poll(2) on any set.  timeout NULL: none.  sigmask and revents as in ppoll(2).  *deadline
 * (or NULL): when the timeout ends, as for sr_deadline_ns(). */
int sr_streams_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		    const sigset_t *sigmask, uint64_t *deadline);

#endif
