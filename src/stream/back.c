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

#include "base/fdpriv.h"
#include "base/log.h"
#include "stream/fdtab.h"
#include "stream/impl.h"

#define BACK_NS 3000000000ull
#define END_NS 250000000ull	/* for the peer to read on, at exit */
#define END_WAIT_NS 1000000000ull /* the same where every byte is to go by the link */

static bool is_plain(struct sr_stream *st)
{
	return !st->att && !sr_gate_shut(&st->tx_gate) &&
	       !sr_gate_shut(&st->rx_gate);
}

/* Over, or on the way out: nothing left that could be made plain. */
static bool is_over(struct sr_stream *st)
{
	return st->broken || st->anchor < 0 ||
	       (sr_stream_tx(st) == SR_TX_DONE &&
		sr_stream_rx(st) >= SR_RX_EOF);
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
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	sr_unlock(&st->tx_lock);
	sr_lock(&st->rx_lock);
	l = st->rx_link;
	if (l)
		l->ops->drop(l, "peer-dropped");
	sr_unlock(&st->rx_lock);
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
		sr_tell("%s: not plain yet (%s)",
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

	sweep(all, &a);
	a.wait = true;
	sweep(all, &a);
	sr_streams_walk(release, NULL);
	errno = err;
}

/* ---- the program has run out of descriptors ---- */

#define WAY 16			/* streams at a time */
#define GIVE_NS 1000000000ull	/* for them to be plain: the program waits */
#define CLOSE_NS 500000000ull	/* for the loop to close theirs */
#define ASK_NS 20000000ull	/* for asks under way to end */

struct way {
	struct sr_stream *st[WAY];
	unsigned n;
	bool more;		/* others are on their way already */
};

static void choose(struct sr_stream *st, void *arg)
{
	struct way *w = arg;

	if ((sr_st_flags(st) & SR_ST_LISTEN) ||
	    (atomic_load(&st->verdict) != VERDICT_PENDING && !st->att &&
	     !sr_any_gate_shut(st)))
		return;
	/* One that is on its way already may take long: the caller waits for what the
	 * library gives up, not for this stream. */
	if (atomic_load(&st->want_back) || (sr_st_flags(st) & SR_ST_CLOSING))
		w->more = true;
	else if (w->n < WAY)
		w->st[w->n++] = sr_stream_ref(st);
}

bool sr_streams_give_way(void)
{
	struct timespec step = { 0, 100000 };
	struct way w = { .n = 0 };
	unsigned i, had = sr_fd_held();
	uint64_t end = sr_now_ns() + GIVE_NS;
	int err = errno;

	if (sr_loop_here() || sr_held.count)
		return false;
	sr_fd_ran_out(false);
	sr_streams_walk(choose, &w);
	for (i = 0; i < w.n; i++) {
		sr_stream_bar(w.st[i], SR_REASON_DESCRIPTORS);
		go_back(w.st[i]);
	}
	for (i = 0; i < w.n; i++) {
		wait_plain(w.st[i], end);
		sr_stream_put(w.st[i]);
	}
	end = sr_now_ns() + (w.n || w.more ? CLOSE_NS : sr_fd_busy() ? ASK_NS : 0);
	while (sr_fd_held() >= had && sr_now_ns() < end)
		nanosleep(&step, NULL);
	sr_fd_ran_out(true);
	errno = err;
	return sr_fd_held() < had;
}

/* ---- exit ---- */

static void end_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (involved(st) && !(sr_st_flags(st) & SR_ST_LISTEN))
		sr_close_at_exit(st);
}

static bool ending(struct sr_stream *st)
{
	bool yes;

	sr_lock(&st->tx_lock);
	yes = st->tx.state == SR_TX_LINK && st->tx.ended && !st->broken &&
	      !(sr_link_events(st->tx_link) & SR_LINK_DEAD);
	sr_unlock(&st->tx_lock);
	return yes;
}

static void wait_ended(struct sr_stream *st, void *arg)
{
	uint64_t *deadline = arg;
	struct timespec step = { 0, 50000 };

	while (ending(st) && sr_now_ns() < *deadline)
		nanosleep(&step, NULL);
}

static void wait_reported(struct sr_stream *st, void *arg)
{
	uint64_t *deadline = arg;
	struct timespec step = { 0, 50000 };

	while ((sr_st_flags(st) & SR_ST_ENDED) &&
	       !(sr_st_flags(st) & SR_ST_REPORTED) && sr_now_ns() < *deadline)
		nanosleep(&step, NULL);
}

/*
 * What the program has sent must outlive the process, and a queue pair or a
 * mapping does not.  So every direction ends as at close; a moment for the
 * peer's program to take the rest from the link, which is the usual case; then
 * what is left goes to the kernel, which delivers after our death.
 *
 * Not in a handler that runs above our locks (of a fault, or installed around us): it
 * would wait for itself.  Then streams end as in a program that is killed.
 */
void sr_streams_exit(void)
{
	struct all a = { .reason = SR_REASON_NONE };
	uint64_t deadline = sr_now_ns() + (sr_conf.upgrade == SR_WAIT ?
						   END_WAIT_NS : END_NS);
	int err = errno;

	if (sr_held.count)
		return;
	sr_streams_walk(end_one, NULL);
	sr_streams_walk(wait_ended, &deadline);
	a.deadline = sr_now_ns() + BACK_NS;
	sweep(true, &a);
	a.wait = true;
	sweep(true, &a);
	sr_streams_report();
	deadline = sr_now_ns() + END_NS;
	sr_streams_walk(wait_reported, &deadline);
	errno = err;
}
