/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fast.h - the fast path (fast.c): a direction is fast while it is on its link and
 * nothing unusual is pending.
 */
#ifndef SR_FAST_H
#define SR_FAST_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "engine/fdtab.h"

/* The beginning of a stream.  Written under the direction's lock; to anybody else a
 * hint. */
struct sr_stream_head {
	atomic_bool tx_fast, rx_fast;
	atomic_bool plain;	/* TCP's for good (plain.c): the C library's calls do */
};

static inline bool sr_is_plain(struct sr_stream *st)
{
	struct sr_stream_head *head = (struct sr_stream_head *)st;

	return atomic_load_explicit(&head->plain, memory_order_relaxed);
}

static inline bool sr_tx_is_fast(struct sr_stream *st)
{
	struct sr_stream_head *head = (struct sr_stream_head *)st;

	return atomic_load_explicit(&head->tx_fast, memory_order_relaxed);
}

static inline bool sr_rx_is_fast(struct sr_stream *st)
{
	struct sr_stream_head *head = (struct sr_stream_head *)st;

	return atomic_load_explicit(&head->rx_fast, memory_order_relaxed);
}

/* Is there a stream that may be on a link?  A hint. */
static inline bool sr_stream_lives(int fd)
{
	struct sr_stream *st = sr_fdtab_peek(fd);

	return st && !sr_is_plain(st);
}

/*
 * st, whose direction is fast, was found at fd without a reference.  Moves the bytes of
 * n buffers, which can be read: > 0, as sendmsg(2) and recvmsg(2) do, or 0: nothing has
 * been done, and the slow path knows what to do.  Never sleeps.  errno is kept.
 */
size_t sr_fast_send(struct sr_stream *st, int fd, const struct iovec *v, size_t n);
size_t sr_fast_recv(struct sr_stream *st, int fd, const struct iovec *v, size_t n);

/*
 * What poll(2) says of st, found at fd as above: those bits of events that it has now,
 * 0 if none, all news looked at; -1: to be asked in the slow way (sr_waitset_plan()).
 */
int sr_fast_poll(struct sr_stream *st, int fd, short events);
/* poll(2) of n descriptors without waiting: how many are ready, revents set; -1: one of
 * them is not fast, or no stream. */
int sr_fast_poll_all(struct pollfd *fds, size_t n);

#endif
