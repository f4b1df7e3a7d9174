/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sleep.h - the sleep of a call that finds nothing to do.
 */
#ifndef SR_WAIT_SLEEP_H
#define SR_WAIT_SLEEP_H

#include "base/signal.h"
#include "engine/stream.h"

/* O_NONBLOCK may have been set or cleared.  Any thread. */
void sr_stream_mode_changed(struct sr_stream *st);

/* ---- sleep.c ---- */
/* A call that may have to sleep, begun as { .fd, .flags, .option }. */
struct sr_sleep {
	int fd;
	int flags;		/* the call's */
	int option;		/* SO_RCVTIMEO, SO_SNDTIMEO */
	bool asked, blocks;
	bool partial;		/* something has been transferred: a signal ends it */
	bool timed;
	struct sr_handled since; /* what has run later interrupts it */
	uint64_t deadline;	/* ns; 0: none */
};
/* The beginning of a call.  Handlers that run from now on interrupt its sleeps, as to
 * the kernel a signal does that comes anywhere in a call. */
struct sr_sleep sr_sleep_begin(int fd, int flags, int option);
bool sr_sleep_allowed(struct sr_stream *st, struct sr_sleep *s);
/* Until the stream may have what is in events (POLLIN, POLLOUT).  0; -EAGAIN if
 * the call does not block or its time is over; -EINTR. */
int sr_sleep(struct sr_stream *st, struct sr_sleep *s, short events);
/* The same, for a call which does not block: at most ns, whatever its own limits. */
int sr_sleep_anyhow(struct sr_stream *st, int fd, short events, uint64_t ns);

#endif
