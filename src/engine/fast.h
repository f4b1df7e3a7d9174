/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fast.h - the fast path (fast.c): a direction is fast while it is on its link
 * and nothing unusual is pending.
 */
#ifndef SR_FAST_H
#define SR_FAST_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "engine/fdtab.h"

enum sr_rx_fast {
	SR_RX_SLOW,
	SR_RX_TELLS,	/* fast, but recvmsg(2) has a control message to give (TCP_INQ) */
	SR_RX_FAST,
};

/* The beginning of a stream.  Written under the direction's lock; a reader
 * without that lock gets a hint. */
struct sr_stream_head {
	atomic_bool tx_fast;
	atomic_uchar rx_fast;	/* enum sr_rx_fast */
	atomic_bool retired;	/* upgrade/retire.c: the C library's calls serve it */
};

static inline bool sr_is_retired(struct sr_stream *st)
{
	struct sr_stream_head *head = (struct sr_stream_head *)st;

	return sr_load(&head->retired);
}

static inline bool sr_tx_is_fast(struct sr_stream *st)
{
	struct sr_stream_head *head = (struct sr_stream_head *)st;

	return sr_load(&head->tx_fast);
}

static inline bool sr_rx_is_fast(struct sr_stream *st)
{
	struct sr_stream_head *head = (struct sr_stream_head *)st;

	return sr_load(&head->rx_fast);
}

/* The same for recvmsg(2). */
static inline bool sr_rx_msg_is_fast(struct sr_stream *st)
{
	struct sr_stream_head *head = (struct sr_stream_head *)st;

	return sr_load(&head->rx_fast) == SR_RX_FAST;
}

/* Does fd have a stream that may be on a link?  A hint. */
static inline bool sr_has_active_stream(int fd)
{
	struct sr_stream *st = sr_fdtab_peek(fd);

	return st && !sr_is_retired(st);
}

/*
 * The caller found st, whose direction is fast, at fd, without a reference.
 * Moves the bytes of n readable buffers.  > 0: the result of sendmsg(2) or
 * recvmsg(2); 0: nothing was done, the slow path decides.  Never sleeps; keeps
 * errno.
 */
size_t sr_fast_send(struct sr_stream *st, int fd, const struct iovec *v, size_t n);
size_t sr_fast_recv(struct sr_stream *st, int fd, const struct iovec *v, size_t n);
/* The same without a cancellation point, for a caller that has waited. */
size_t sr_fast_take(struct sr_stream *st, int fd, const struct iovec *v, size_t n);

/* How many bytes there are to receive; 0: none, and the link has no unusual news;
 * -1: the slow path decides. */
ssize_t sr_fast_look(struct sr_stream *st, int fd);

/* poll(2) for one stream, found at fd as above: those bits of `events` that are
 * set now, or 0 if none is set and the link has no unusual news; -1: the caller
 * takes the slow path (sr_waitset_move_on()). */
int sr_fast_poll(struct sr_stream *st, int fd, short events);
/* poll(2) of n descriptors without waiting: sets revents and returns how many
 * are ready; -1: the kernel has to be asked for one of them, or takes part in a switch. */
int sr_fast_poll_all(struct pollfd *fds, size_t n);

/*
 * SOCKRAIL_UNASKED_US.  A poll that finds something ready on a link may skip asking the kernel
 * about its other descriptors, if this thread has asked about the same ones within that time.
 * sr_fast_poll_all() remembers the descriptors that it is given.  If the slow path takes over,
 * sr_may_leave_unasked() says whether to skip, and sr_kernel_asked() notes that it did not.
 */
bool sr_may_leave_unasked(void);
void sr_kernel_asked(void);

#endif
