/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * back.c - owns the return to TCP that this end requests: before the descriptor
 * is used in a way that a link cannot serve, before exec, and when the child of a
 * fork asks for the stream (guest.c).  Must not know the kind of link.  Waits without a
 * lock.
 *
 * The direction that this end sends returns without the peer's consent: RESUME, and what the peer's
 * program has not taken is sent again.  For the other direction this end drops the link, and the
 * peer's service thread resumes; that takes a moment, or for ever if the peer is stopped, so the
 * wait for it is bounded.
 */
#include "base/real.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/now.h"
#include "base/process.h"
#include "engine/asker.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "engine/impl.h"
#include "engine/owners.h"
#include "engine/stream.h"
#include "upgrade/upgrade.h"

#define BACK_NS 3000000000ull

bool sr_back_is_plain(struct sr_stream *st)
{
	return !sr_stream_att(st) && !sr_gate_shut(&st->out.gate) &&
	       !sr_gate_shut(&st->in.gate);
}

/* The child of vfork looks without a lock: if its parent is killed, the threads that hold
 * one are gone, and the child is not. */
static bool lock_to_look(struct sr_mutex *m)
{
	bool yes = sr_process_ours();

	if (yes)
		sr_lock(m);
	return yes;
}

static void unlock_if(struct sr_mutex *m, bool locked)
{
	if (locked)
		sr_unlock(m);
}

static bool both_have_ended(struct sr_stream *st)
{
	bool rx = lock_to_look(&st->rx_lock), tx = lock_to_look(&st->tx_lock);
	bool yes = st->tx.state == SR_TX_DONE && st->rx.state >= SR_RX_EOF;

	unlock_if(&st->tx_lock, tx);
	unlock_if(&st->rx_lock, rx);
	return yes;
}

/* The stream has ended or is about to: nothing is left to make plain. */
static bool is_over(struct sr_stream *st)
{
	return sr_load(&st->out.broken) || sr_load(&st->anchor) < 0 || both_have_ended(st);
}

static bool is_resending(struct sr_stream *st)
{
	bool locked = lock_to_look(&st->tx_lock), yes = st->tx.state == SR_TX_RESEND;

	unlock_if(&st->tx_lock, locked);
	return yes;
}

/* The link's ring holds bytes, and their sender was killed, so nobody can send
 * them by TCP. */
static bool ring_is_orphaned(struct sr_stream *st)
{
	bool locked = lock_to_look(&st->rx_lock);
	bool yes = st->rx.state == SR_RX_LINK && st->rx.tcp_over;

	unlock_if(&st->rx_lock, locked);
	return yes;
}

/* The same, or about to be so: the sender has ended before TCP took all. */
bool sr_back_is_orphaned(struct sr_stream *st)
{
	bool locked = lock_to_look(&st->rx_lock), yes;

	yes = st->rx.state == SR_RX_RAW && st->rx.rx < st->rx.m && st->in.link &&
	      (sr_link_events(st->in.link) & (SR_LINK_LEFT | SR_LINK_LOST)) &&
	      sr_anchor_ended(st);
	unlock_if(&st->rx_lock, locked);
	return yes || ring_is_orphaned(st);
}

/* A process that reads the descriptor without us would find TCP's end in place
 * of those bytes.  So the anchor is disconnected, which is no end to a reader
 * (connect(2), AF_UNSPEC).  A process that has the ring reads on there. */
void sr_back_disconnect(struct sr_stream *st)
{
	if (!st->in.disconnected)
		sr_now_disconnect(sr_load(&st->anchor));
	st->in.disconnected = true;
}

static bool is_involved(struct sr_stream *st)
{
	/* pair barred: the caller has set SR_ST_BARRED; sr_ask_move() and sr_attach_begin() */
	return sr_ask_has_begun(st) || sr_look(&st->up.att) || !sr_back_is_plain(st);
}

/* The child of vfork, on its way to exec, has our memory, but not the descriptors that
 * other threads have made since, such as their epoll sets, nor those that it has closed.
 * So it asks the service thread, if it can. */
void sr_back_begin(struct sr_stream *st)
{
	struct sr_link *l;

	sr_hold();
	sr_store(&st->want_tcp, true);
	if (sr_process_ours() || !sr_loop_in_reach()) {
		sr_lock(&st->tx_lock);
		sr_tx_progress(st);
		sr_unlock(&st->tx_lock);
		sr_lock(&st->rx_lock);
		l = st->in.link;
		if (l)
			l->ops->drop(l, "peer-dropped");
		sr_unlock(&st->rx_lock);
	}
	sr_stream_kick(st);
	sr_release();
}

/* Has the child of vfork waited for a service thread that was killed?  Then no other thread uses
 * its memory.  parent: the child's parent when the wait began; 0: this is no such child.  late:
 * it has waited for long. */
static bool is_left_alone(pid_t parent, bool late)
{
	pid_t now = parent ? sr_sys_getppid() : 0;

	return now != parent || (parent && late && now != sr_process_owner());
}

/* The child of vfork resets the stream, because no service thread is left to take it back. */
static void reset_left_alone(struct sr_stream *st)
{
	sr_back_disconnect(st);
	sr_store(&st->out.broken, true);
}

/* Bytes that the program had sent may wait for room in TCP because the peer's
 * program does not read; the caller chooses the limit for that (resend_ns). */
bool sr_back_wait(struct sr_stream *st, bool (*done)(struct sr_stream *st),
		     uint64_t since, uint64_t resend_ns)
{
	uint64_t step = 0;
	pid_t parent = sr_process_ours() ? 0 : sr_sys_getppid();
	uint64_t limit;
	bool late;

	while (!done(st) && !is_over(st) && !sr_back_is_orphaned(st)) {
		limit = is_resending(st) ? resend_ns : BACK_NS;
		late = sr_now_ns() - since > limit;
		if (is_left_alone(parent, late)) {
			reset_left_alone(st);
			return true;
		}
		if (late || sr_loop_here())
			return false;
		sr_signals_breathe();
		sr_now_sleep_longer(&step);
	}
	return true;
}

void sr_stream_make_plain(struct sr_stream *st, enum sr_reason reason, bool must)
{
	bool ok;

	do {
		sr_guest_use(st, SR_OWNERS_BOTH);
		sr_stream_bar(st, reason);
		if (!is_involved(st))
			return;
		sr_back_begin(st);
		ok = sr_back_wait(st, sr_back_is_plain, sr_now_ns(), BACK_NS);
		if (ring_is_orphaned(st) && !st->in.disconnected) {
			sr_lock(&st->rx_lock);
			sr_back_disconnect(st);
			st->rx.state = SR_RX_RESET;
			sr_fast_update_rx(st);
			sr_stream_broke(st, ECONNRESET);
			sr_unlock(&st->rx_lock);
		}
		if (!ok)
			sr_inform("%s: the peer has not answered, so it is not back on TCP yet (%s)",
				sr_stream_label(st, (char[128]){ 0 }),
				sr_reason_word(reason));
	} while (!ok && must);
}

/* ---- streams that another process or program receives ---- */

/* All streams begin before the first is waited for. */
struct sweep {
	uint64_t since;		/* ns */
	uint64_t resend_ns;	/* limit for TCP to take what was sent */
	bool wait;		/* the second round */
};

static void sweep_move(struct sr_stream *st, struct sweep *s,
		       bool (*done)(struct sr_stream *st))
{
	if (s->wait)
		sr_back_wait(st, done, s->since, s->resend_ns);
	else
		sr_back_begin(st);
}

bool sr_back_concerns(struct sr_stream *st)
{
	return is_involved(st) && !(sr_st_flags(st) & SR_ST_LISTEN) &&
	       !sr_observe(&st->owned.guest);
}

static void back_one(struct sr_stream *st, void *arg)
{
	if (sr_back_concerns(st))
		sweep_move(st, arg, sr_back_is_plain);
}

/* Does its link outlive the process?  live: only if the peer still has it.  Not before the
 * peer's mark has come, which must not meet a closed socket. */
bool sr_back_outlives(struct sr_stream *st, bool live)
{
	struct sr_link *link;
	bool yes;

	sr_stream_lock(st);
	link = st->out.link ?: st->in.link;
	yes = link && link->ops->leave && st->tx.state != SR_TX_RESEND &&
	      st->rx.state != SR_RX_EXPECT && !(live && (sr_link_events(link) & SR_LINK_DEAD));
	sr_stream_unlock(st);
	return yes;
}

/* Does what the program sent no longer need this process?  Shared memory
 * outlives it unless the peer has given the link up, and the kernel delivers
 * what TCP has, once the peer's RESUME cannot meet a closed socket. */
static bool is_delivered(struct sr_stream *st)
{
	return (!sr_is_shared(st) && sr_back_outlives(st, true)) || sr_back_is_plain(st) || is_over(st);
}

static void deliver_one(struct sr_stream *st, void *arg)
{
	if (sr_back_concerns(st) && !is_delivered(st))
		sweep_move(st, arg, is_delivered);
}

/* The next program inherits all descriptors that are not close-on-exec. */
static void back_hand_over(struct sweep *s)
{
	int fd, flags, max = sr_fdtab_max();

	for (fd = 0; fd <= max; fd++) {
		struct sr_stream *st;

		if (!sr_fdtab_has(fd))
			continue;
		flags = sr_sys_fcntl(fd, F_GETFD, 0);
		st = flags >= 0 && !(flags & FD_CLOEXEC) ? sr_fdtab_get(fd) : NULL;
		if (!st)
			continue;
		sr_guest_use(st, SR_OWNERS_BOTH);
		sr_st_set(st, SR_ST_SHARED);
		sr_stream_bar(st, SR_REASON_EXEC);
		back_one(st, s);
		sr_stream_put(st);
	}
}

static void back_release(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (!(sr_st_flags(st) & SR_ST_BARRED))
		sr_store(&st->want_tcp, false);
}

static void disconnect_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (!(sr_st_flags(st) & SR_ST_SHARED) || !ring_is_orphaned(st) || st->in.disconnected)
		return;
	sr_lock(&st->rx_lock);
	sr_back_disconnect(st);
	sr_unlock(&st->rx_lock);
}

static void in_two_rounds(void (*round)(struct sweep *s), uint64_t resend_ns)
{
	struct sweep s = { sr_now_ns(), resend_ns, false };

	round(&s);
	s.wait = true;
	round(&s);
	sr_streams_walk(disconnect_one, NULL);
}

void sr_streams_hand_over(void)
{
	in_two_rounds(back_hand_over, BACK_NS);
}

static void back_before_exec(struct sweep *s)
{
	back_hand_over(s);
	sr_streams_walk(deliver_one, s);
}

void sr_streams_before_exec(void)
{
	in_two_rounds(back_before_exec, SR_ORPHAN_NS);
	sr_streams_walk(back_release, NULL);
	sr_streams_walk(sr_owners_pause, NULL);
	sr_streams_leave_heirs(false);
}

void sr_streams_after_exec(void)
{
	int err = errno;

	sr_streams_walk(sr_owners_resume, NULL);
	errno = err;
}

static void all_plain(struct sweep *s)
{
	sr_streams_walk(back_one, s);
}

void sr_streams_make_all_plain(void)
{
	in_two_rounds(all_plain, BACK_NS);
	sr_streams_walk(back_release, NULL);
}
