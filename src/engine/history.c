/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.c - owns access to a stream's history: those bytes that TCP has carried before a link
 * of which a copy is kept (pure/history.h).  Plain calls, one at a time in a direction, add to it
 * while the service thread reads, so a spin lock guards it; most calls only add to a count.
 * Signal handlers are deferred while it is locked (sr_hold()).  Must not know the handshake.
 */
#include "base/real.h"

#include <errno.h>
#include <unistd.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"

/* A lock: its acquire and its release pair. */
void sr_stream_history_lock(struct sr_stream *st)
{
	sr_hold();
	while (atomic_flag_test_and_set_explicit(&st->history_busy, memory_order_acquire))
		;
}

void sr_stream_history_unlock(struct sr_stream *st)
{
	atomic_flag_clear_explicit(&st->history_busy, memory_order_release);
	sr_release();
}

/* Ends the history if some bytes went around the library, or by a link. */
static bool history_goes_on(struct sr_stream *st, struct sr_history *h, unsigned stopped,
		    uint64_t at)
{
	if (sr_st_flags(st) & stopped)
		return false;
	if (at == sr_history_seen(h))
		return true;
	sr_st_set(st, stopped);
	return false;
}

void sr_stream_history_keep(struct sr_stream *st, struct sr_history *h,
			    unsigned stopped, uint64_t at, const struct msghdr *msg, size_t n)
{
	size_t i;

	if (!history_goes_on(st, h, stopped, at))
		return;
	sr_stream_history_lock(st);
	for (i = 0; i < msg->msg_iovlen && n; i++) {
		size_t k = msg->msg_iov[i].iov_len;

		k = k < n ? k : n;
		sr_history_add(h, msg->msg_iov[i].iov_base, k);
		n -= k;
	}
	sr_stream_history_unlock(st);
}

/* Reads from the file once more what is to be kept.  If the file has changed meanwhile, the two
 * ends' histories differ, and the proof fails. */
void sr_stream_history_file(struct sr_stream *st, uint64_t at, int fd, const off_t *after,
			    size_t n)
{
	struct sr_history *h = &st->rare->out;
	uint8_t buf[SR_HISTORY_FIRST / 2];	/* (a small stack) */
	uint64_t to = at + n;
	off_t end = 0;

	if (!history_goes_on(st, h, SR_ST_TX_HISTORY, at))
		return;
	if (h->next < to)
		end = after ? *after : sr_sys_lseek(fd, 0, SEEK_CUR);
	while (sr_history_seen(h) < to) {
		bool skip = h->next > sr_history_seen(h);
		uint64_t left = (skip && h->next < to ? h->next : to) - sr_history_seen(h);
		size_t len = skip || left < sizeof(buf) ? (size_t)left : sizeof(buf);

		if (!skip && sr_now_pread(fd, buf, len, end - (off_t)(to - sr_history_seen(h))) !=
				     (ssize_t)len) {
			sr_st_set(st, SR_ST_TX_HISTORY);
			break;
		}
		sr_stream_history_lock(st);
		sr_history_add(h, buf, len); /* looks at what is to be kept only */
		sr_stream_history_unlock(st);
	}
}
