/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * exit.c - the end of the process.  It owns the order in which exit() ends the
 * streams, and knows no kind of link.  It holds no lock but a stream's, one
 * stream at a time.
 *
 * What the program has sent must outlive the process.  So every direction ends
 * as at close, and exit() waits a moment for the peer's program to take all bytes,
 * which it usually does.  After that, shared memory holds the rest until the
 * peer has read it, and the process ends.  Queue pairs end with the process: on
 * those links both directions go back to TCP, which delivers after the process
 * is gone; and the process must not end before the peer's RESUME has come.  If TCP
 * does not take all bytes in time, a process that deliver.c makes writes the rest.
 *
 * Nothing of this is done if exit() is called in a signal handler that has interrupted
 * a holder of our locks, because the thread would wait for itself.  (Only the handler
 * of a fault, or one that was installed without us, can do that.)  Then the streams end
 * as in a program that is killed.
 */
#include "base/sys.h"

#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "engine/owners.h"
#include "link/rendezvous.h"
#include "upgrade/upgrade.h"
#include "sock/sock.h"

#define LEAVE_NS 10000000ull	/* for the peer to read, and for TCP after that */
/* For the peer to read, if every byte must go by the link (policy wait); and if, besides, the
 * link does not outlive the process. */
#define LEAVE_WAIT_NS 100000000ull
#define END_WAIT_NS 1000000000ull
#define REPORT_NS 250000000ull	/* for a report line that is being written */

/* The thread that has called exit(). */
static atomic_int last_thread;

static void send_last(void)
{
	sr_store(&last_thread, sr_sys_gettid());
	sr_publish(&sr_streams_ending, sr_sys_getpid()); /* pairs with sr_exit_await() */
}

/* Over TCP the other threads could send until the process is gone.  So a thread that
 * gets EPIPE because the process is ending sleeps until it has ended. */
void sr_exit_await(void)
{
	/* Pairs with send_last(). */
	while (sr_observe(&sr_streams_ending) == sr_sys_getpid() &&
	       sr_load(&last_thread) != sr_sys_gettid())
		sr_now_sleep(1000000000);
}

static void end_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (sr_back_concerns(st))
		sr_close_at_exit(st);
}

/* Will the last close of this stream be a reset?  Then nothing more is to be done. */
static bool is_reset(struct sr_stream *st)
{
	bool yes;

	sr_lock(&st->tx_lock);
	yes = st->tx.state == SR_TX_LINK && !st->tx.ended;
	sr_unlock(&st->tx_lock);
	return yes;
}

/* Is the stream on a link, waiting for the peer's program to read? */
static bool is_read_on(struct sr_stream *st)
{
	bool yes;

	sr_lock(&st->tx_lock);
	yes = st->tx.state == SR_TX_LINK && st->tx.ended && !sr_load(&st->out.broken) &&
	      !(sr_link_events(st->out.link) & SR_LINK_DEAD);
	sr_unlock(&st->tx_lock);
	return yes;
}

struct leaving {
	uint64_t began;		/* ns; 0: no stream has been waited for yet */
	bool all;		/* policy wait: every byte must go by the link */
};

/* When the first wait began.  So a process without streams never asks for the time. */
static uint64_t leaving_since(struct leaving *l)
{
	if (!l->began)
		l->began = sr_now_ns();
	return l->began;
}

static bool is_within(struct leaving *l, uint64_t ns)
{
	uint64_t began = leaving_since(l);	/* first: it may start the clock */

	return sr_now_ns() - began < ns;
}

static __attribute__((noinline)) void pause_shortly(void)
{
	sr_now_sleep(50000);
}

/* Waits for the peer's program to read; and before that for a mark that is due, because the
 * mark decides whether the link outlives this process. */
static void wait_read(struct sr_stream *st, void *arg)
{
	struct leaving *l = arg;
	uint64_t ns = LEAVE_NS;

	if (!sr_back_concerns(st))
		return;
	while (sr_stream_rx(st) == SR_RX_EXPECT && is_within(l, LEAVE_NS))
		pause_shortly();
	if (l->all)
		ns = sr_back_outlives(st, false) ? LEAVE_WAIT_NS : END_WAIT_NS;
	while (is_read_on(st) && is_within(l, ns))
		pause_shortly();
}

static void exit_leave_link(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (!sr_back_concerns(st))
		return;
	if (!sr_is_shared(st) &&
	    (is_reset(st) || (sr_back_outlives(st, false) && sr_close_leave(st))))
		st->exiting = true;
	else
		sr_back_begin(st);
}

static void wait_gone(struct sr_stream *st, void *arg)
{
	struct leaving *l = arg;

	if (!sr_back_concerns(st) || st->exiting)
		return;
	if (sr_is_shared(st)) {	/* guests wait for us */
		sr_back_wait(st, sr_back_is_plain, leaving_since(l), SR_ORPHAN_NS);
		return;
	}
	while (!sr_back_is_plain(st) && is_within(l, LEAVE_NS))
		pause_shortly();
}

static void exit_owners_leave(struct sr_stream *st, void *arg)
{
	(void)arg;
	sr_stream_lock(st);
	sr_owners_leave(st);
	sr_stream_unlock(st);
}

static void wait_reported(struct sr_stream *st, void *arg)
{
	struct leaving *l = arg;

	while ((sr_st_flags(st) & SR_ST_ENDED) &&
	       !(sr_st_flags(st) & SR_ST_REPORTED) &&
	       is_within(l, REPORT_NS))
		pause_shortly();
}

void sr_streams_exit(void)
{
	struct leaving l = { 0, sr_conf.policy.upgrade == SR_WAIT };

	if (sr_held.count)
		return;
	send_last();
	sr_rendezvous_shm.leave();
	sr_streams_walk(end_one, NULL);
	sr_streams_walk(wait_read, &l);
	sr_streams_walk(exit_leave_link, NULL);
	l.began = 0;
	sr_streams_walk(wait_gone, &l);
	sr_streams_deliver();
	sr_streams_report();
	sr_streams_walk(exit_owners_leave, NULL);
	sr_streams_leave_heirs(true);
	l.began = 0;
	sr_streams_walk(wait_reported, &l);
}
