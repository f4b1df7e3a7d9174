/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * back.c - back to TCP at our own wish: before the descriptor is used in a way
 * that a link cannot serve, before exec, fork and exit.
 *
 * Our direction needs nobody's consent (RESUME and resend).  For the other one
 * the link is dropped, and the peer resumes by itself; that takes its service
 * thread a moment, so it is waited for, bounded.
 */
#include "base/real.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "shim/fdtab.h"
#include "stream/impl.h"

#define BACK_NS 3000000000ull

static bool is_plain(struct sr_stream *st)
{
	return !st->att && !sr_gate_shut(&st->tx_gate) &&
	       !sr_gate_shut(&st->rx_gate);
}

/* Over, or on the way out: nothing left that could be made plain. */
static bool is_over(struct sr_stream *st)
{
	return st->broken || st->anchor < 0 ||
	       (st->tx.state == SR_TX_DONE &&
		(st->rx.state == SR_RX_EOF || st->rx.state == SR_RX_RESET));
}

static bool involved(struct sr_stream *st)
{
	return atomic_load(&st->verdict) != VERDICT_NONE || st->att ||
	       !is_plain(st);
}

static void go_back(struct sr_stream *st)
{
	struct sr_link *l;

	atomic_store(&st->want_back, true);
	pthread_mutex_lock(&st->tx_lock);
	sr_tx_progress(st);
	pthread_mutex_unlock(&st->tx_lock);
	pthread_mutex_lock(&st->rx_lock);
	l = st->rx_link;
	if (l)
		l->ops->drop(l, "peer-dropped");
	pthread_mutex_unlock(&st->rx_lock);
	sr_stream_kick(st);
}

static bool wait_plain(struct sr_stream *st, uint64_t deadline)
{
	struct timespec step = { 0, 100000 };

	while (!is_plain(st) && !is_over(st)) {
		if (sr_now_ns() > deadline)
			return false;
		if (sr_loop_here())
			return false;
		nanosleep(&step, NULL);
		if (step.tv_nsec < 2000000)
			step.tv_nsec *= 2;
	}
	return true;
}

int sr_stream_plain(struct sr_stream *st, int fd, enum sr_reason reason)
{
	int err = errno;
	bool ok;

	(void)fd;
	sr_stream_bar(st, reason);
	if (!involved(st))
		return 0;
	go_back(st);
	ok = wait_plain(st, sr_now_ns() + BACK_NS);
	if (!ok)
		sr_info("%s: not plain yet (%s)",
			sr_stream_label(st, (char[128]){ 0 }),
			sr_reason_word(reason));
	errno = err;
	return ok ? 0 : -ETIMEDOUT;
}

struct all {
	uint64_t deadline;
	enum sr_reason reason;
	bool wait;
};

static void one(struct sr_stream *st, void *arg)
{
	struct all *a = arg;

	if (!involved(st) || (sr_st_flags(st) & SR_ST_LISTEN))
		return;
	if (a->wait)
		wait_plain(st, a->deadline);
	else
		go_back(st);
}

/* At exit, as tcp(7) does at close: unread bytes make it a reset. */
static void unread_at_exit(struct sr_stream *st, void *arg)
{
	struct linger now = { 1, 0 };

	(void)arg;
	pthread_mutex_lock(&st->rx_lock);
	if (st->rx_link && st->anchor >= 0 &&
	    sr_rx_ready(&st->rx, atomic_load(&st->rx_link->rx_h)))
		sr_real.setsockopt(st->anchor, SOL_SOCKET, SO_LINGER, &now,
				   sizeof(now));
	pthread_mutex_unlock(&st->rx_lock);
}

static void surviving(struct sr_stream *st, int fd, struct all *a)
{
	int flags = sr_real.fcntl(fd, F_GETFD, NULL);

	if (flags < 0 || (flags & FD_CLOEXEC))
		return;
	sr_stream_bar(st, a->reason);
	one(st, a);
}

static void sweep(bool all, struct all *a)
{
	int fd, max = sr_fdtab_max();

	if (all) {
		sr_streams_walk(one, a);
		return;
	}
	for (fd = 0; fd <= max; fd++) {
		struct sr_stream *st = sr_fdtab_get(fd);

		if (!st)
			continue;
		surviving(st, fd, a);
		sr_stream_put(st);
	}
}

static void release(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (!(sr_st_flags(st) & SR_ST_BARRED))
		atomic_store(&st->want_back, false);
}

void sr_streams_plain(bool all, enum sr_reason reason)
{
	struct all a = { .deadline = sr_now_ns() + BACK_NS, .reason = reason };
	int err = errno;

	if (all && reason == SR_REASON_NONE)
		sr_streams_walk(unread_at_exit, NULL);
	sweep(all, &a);
	a.wait = true;
	sweep(all, &a);
	if (all && reason == SR_REASON_NONE)
		sr_streams_report();
	else
		sr_streams_walk(release, NULL);
	errno = err;
}
