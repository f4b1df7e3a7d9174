/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.c - owns access to a stream's history, what it has carried over TCP before a
 * link (pure/history.h).  Plain calls, one at a time in a direction, add to it while the
 * service thread reads, so a spin lock guards what is kept; most calls add nothing but a
 * count.  Signal handlers are deferred while it is locked (sr_hold()).  Must not know
 * the handshake.
 */
#include "engine/engine.h"
#include "engine/impl.h"

void sr_stream_history_lock(struct sr_stream *st)
{
	sr_hold();
	while (atomic_flag_test_and_set(&st->history_busy))
		;
}

void sr_stream_history_unlock(struct sr_stream *st)
{
	atomic_flag_clear(&st->history_busy);
	sr_release();
}

void sr_stream_history_add(struct sr_stream *st, struct sr_history *h,
			   unsigned stopped, uint64_t at, const struct msghdr *msg, size_t n)
{
	size_t i;

	if (sr_st_flags(st) & stopped)
		return;
	/* Some bytes have passed us, or went by a link. */
	if (at != atomic_load_explicit(&h->n, memory_order_relaxed)) {
		sr_st_set(st, stopped);
		return;
	}
	if (at + n <= h->next) {
		atomic_store_explicit(&h->n, at + n, memory_order_release);
		return;
	}
	sr_stream_history_lock(st);
	for (i = 0; i < msg->msg_iovlen && n; i++) {
		size_t k = msg->msg_iov[i].iov_len;

		k = k < n ? k : n;
		sr_history_add(h, msg->msg_iov[i].iov_base, k);
		n -= k;
	}
	sr_stream_history_unlock(st);
}
