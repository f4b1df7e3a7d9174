/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * close.c - counts the descriptors of a stream, and closes it.  It owns a stream's
 * life after close(2), and knows no kind of link.
 *
 * close(2) returns at once, and queued bytes still arrive.  A stream on a link
 * lives on under a private duplicate of the anchor until END is acknowledged
 * and TCP's FINs are exchanged.  If the anchor were closed earlier, the kernel
 * would answer the peer's resend with a RST (hole 13 of tests/model/PROTOCOL.md).
 * As over TCP, the connection is reset if there are unread bytes at close, or if
 * bytes arrive after it.
 *
 * Locks: rx_lock, then tx_lock.  "loop" is the service thread.
 */
#include "base/real.h"

#include <errno.h>

#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"
#include "engine/asker.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/fdtab.h"
#include "engine/impl.h"
#include "engine/owners.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"
#include "epoll/epoll.h"
#include "sock/sock.h"

/* Both locks held. */
static void put_links(struct sr_stream *st)
{
	struct sr_link *rx = st->in.link, *tx = st->out.link;

	st->in.link = st->out.link = NULL;
	sr_store(&st->out.held, 0);
	if (rx) {
		rx->ops->drop(rx, "short");
		sr_link_put(rx);
	}
	if (tx) {
		/* The report counts these bytes as sent by the link. */
		if (st->tx.state == SR_TX_LINK)
			st->out.way[tx->ops->way] += st->tx.w - st->tx.n;
		st->tx.state = SR_TX_DONE;
		tx->ops->drop(tx, "short");
		sr_link_put(tx);
	}
	sr_fast_update_rx(st);
	sr_fast_update_tx(st);
}

/* Called before the link is dropped: otherwise the peer would resend bytes over TCP that no
 * program will read. */
static void reset_now(int fd)
{
	sr_ends_reset_on_close(fd);
	sr_now_disconnect(fd);
}

/* Makes another of the stream's descriptors the anchor.  fd < 0: one of them
 * was closed without our knowledge, and we cannot know which. */
static void move_anchor(struct sr_stream *st, int fd)
{
	int i, max = sr_fdtab_max(), other = -1;

	for (i = 0; i <= max && other < 0; i++) {
		struct sr_stream *s = i == fd ? NULL : sr_fdtab_get(i);

		if (s == st)
			other = i;
		if (s)
			sr_stream_put(s);
	}
	sr_stream_lock(st);
	if (sr_load(&st->anchor) == fd || fd < 0) {
		sr_stream_unwatch(st);
		sr_store(&st->anchor, other);
	}
	sr_stream_unlock(st);
	sr_stream_kick(st);
}

/* SO_LINGER: waits until the peer's host has acknowledged everything, l_linger
 * is over, or a signal comes.  In none of these cases does Linux's close() return
 * an error. */
static void await_arrival(struct sr_stream *st, int seconds)
{
	uint64_t end = sr_now_ns() + (uint64_t)seconds * 1000000000u;
	bool all = false;

	while (!all && !(sr_st_flags(st) & SR_ST_ENDED) && sr_now_ns() < end &&
	       !sr_held.off) {
		sr_lock(&st->tx_lock);
		all = sr_ends_arrived(st);
		sr_unlock(&st->tx_lock);
		if (!all)
			sr_now_sleep(1000000);
	}
}

/* Locks the stream and moves it up to date.  If it is on a link, returns a
 * duplicate of the anchor for its life after close, or -errno.  If no
 * descriptor is left, the stream goes back to TCP, which needs no duplicate. */
static int lock_and_keep(struct sr_stream *st, int fd)
{
	bool tried = false;
	int dup;

	for (;;) {
		sr_stream_lock_and_progress(st);
		if (!sr_any_gate_shut(st))
			return -1;
		dup = sr_fd_dup(fd);
		if (dup >= 0 || tried)
			return dup;
		sr_stream_unlock(st);
		sr_stream_make_plain(st, SR_REASON_DESCRIPTORS, false);
		tried = true;
	}
}

/* (A function of its own, because detach_last() shall not have the label in its frame.) */
static __attribute__((noinline)) void warn_lost(struct sr_stream *st, int err)
{
	sr_warn("%s: closed, but its socket cannot be duplicated (%s): bytes may be lost",
		sr_stream_label(st, (char[128]){ 0 }), sr_errno_name(err));
}

/* The stream is closed, and nothing of it remains to be done.  Gives the locks back. */
static void close_end(struct sr_stream *st)
{
	sr_owners_leave(st);
	sr_stream_unlock(st);
	sr_stream_end_report(st);
	sr_stream_over(st);
	sr_stream_kick(st);
}

/* The stream does not outlive its last descriptor, whose duplicate is dup or -errno: it is reset,
 * or there is no duplicate.  Gives the locks back. */
static void close_without_anchor(struct sr_stream *st, bool reset, int dup)
{
	if (!reset)
		warn_lost(st, -dup);
	else if (dup >= 0)
		sr_fd_close(dup);
	put_links(st);
	close_end(st);
}

/* The stream lives on by dup until its bytes and its end have arrived.  Gives the locks back. */
static void live_on(struct sr_stream *st, bool shared, int dup, const struct linger *l)
{
	sr_stream_ref(st);		/* close_finish() drops it */
	sr_store(&st->anchor, dup);
	st->close_since = sr_now_ns();
	if (shared)
		sr_store(&st->want_tcp, true);
	else
		sr_ends_finish(st);
	sr_stream_unlock(st);
	sr_stream_kick(st);
	if (l->l_onoff && !shared)
		await_arrival(st, l->l_linger);
}

/*
 * Closes the last descriptor of a stream that is, or may soon be, on a link.
 * The same locks are held while it is decided what becomes of the stream and while
 * the epoll sets forget it: if both gates are open, the kernel removes the entries
 * together with the descriptor; otherwise we must remove them, because the anchor
 * lives on.
 *
 * If another process holds the stream, too, it is on its way back to TCP.  We keep it
 * only until the bytes that the program has sent are in TCP, and end no direction.
 */
static void detach_last(struct sr_stream *st, int fd)
{
	bool shared = sr_is_shared(st), reset;
	struct linger l = { 0, 0 };
	socklen_t len = sizeof(l);
	int dup;

	sr_sys_getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len);
	dup = lock_and_keep(st, fd);
	sr_st_set(st, SR_ST_CLOSING | (shared ? SR_ST_SHARED : 0));
	sr_stream_unwatch(st);
	sr_epoll_stream_gone(st);
	if (!sr_any_gate_shut(st)) {
		sr_store(&st->anchor, -1);
		close_end(st);
		return;
	}
	if ((sr_st_flags(st) & SR_ST_PEER_END) && !st->tx.ended)
		sr_st_set(st, SR_ST_SECOND);
	if (!shared)
		sr_rx_over(st);
	reset = sr_load(&st->out.broken) ||
		(!shared && ((l.l_onoff && !l.l_linger) || sr_ends_leave_unread(st)));
	sr_store(&st->anchor, -1);
	if (reset && !shared)
		reset_now(fd);
	if (reset || dup < 0)
		close_without_anchor(st, reset, dup);
	else
		live_on(st, shared, dup, &l);
}

static bool may_have_link(struct sr_stream *st)
{
	return !(sr_st_flags(st) & SR_ST_LISTEN) && !sr_is_retired(st) &&
	       !sr_observe(&st->owned.guest) &&
	       (sr_ask_has_begun(st) || sr_stream_att(st));
}

/* A server that forks for each stream leaves the stream to its child, and moves no bytes itself.
 * So it has no rendezvous yet if not this process but its parent called listen(2), before it
 * went into the background.  This process opens the rendezvous now, for all its children.  It
 * must be this process, because a child that becomes another user can answer only through a
 * keeper to which it has sent a claim before (upgrade/claim.c). */
static void note_left(struct sr_stream *st)
{
	const unsigned never = SR_ST_HEIR | SR_ST_BARRED | SR_ST_ANSWERED;

	if ((sr_st_flags(st) & (SR_ST_ACCEPT | never)) != SR_ST_ACCEPT ||
	    !sr_is_shared(st) || st->policy->upgrade == SR_NEVER)
		return;
	sr_hold();
	sr_listener_worth(st);
	sr_release();
}

/*
 * Closes the stream's last descriptor.  The first look whether the stream may have a link is
 * without a lock, because most streams never ask for one, and their close shall make no
 * system call but close(2).  The service thread may put the stream onto a link right after
 * the first look, so there is a second look with both locks held.  If a link is made even
 * later, it finds the anchor gone, and the service thread drops it: either that thread finds
 * SR_ST_CLOSING, or this one finds the link and kicks.
 */
static void close_last(struct sr_stream *st, int fd)
{
	bool asked = may_have_link(st);

	note_left(st);
	/* The report needs the name, and the descriptor still has it. */
	if (asked || sr_conf.report[0])
		sr_stream_name(st);
	if (!asked) {
		sr_stream_lock(st);
		asked = may_have_link(st);
		if (asked)
			sr_stream_unlock(st);
	}
	if (asked) {
		detach_last(st, fd);
		return;
	}
	sr_st_set(st, SR_ST_CLOSING);
	sr_epoll_stream_gone(st);
	sr_store(&st->anchor, -1);
	sr_owners_leave(st);
	sr_stream_unlock(st);
	sr_stream_end_report(st);
	sr_stream_over(st);
	if ((sr_st_flags(st) & SR_ST_LISTEN) || sr_stream_att(st))
		sr_stream_kick(st);
}

struct sr_stream *sr_stream_attach(struct sr_stream *st)
{
	sr_count(&st->fds, 1);
	return sr_stream_ref(st);
}

void sr_stream_detach(struct sr_stream *st, int fd)
{
	/* Pairs with itself: who closes the last descriptor sees what was done by the others. */
	if (atomic_fetch_sub_explicit(&st->fds, 1, memory_order_acq_rel) > 1) {
		sr_epoll_number_gone(st, fd);
		if (sr_load(&st->anchor) == fd || fd < 0)
			move_anchor(st, fd);
	} else {
		close_last(st, fd);
	}
	sr_waiters_wake(st);
	sr_epolls_tidy();
	sr_stream_put(st);
}

/* The process ends while the stream is open, or is closed but not over.  Does what
 * close does, except for the descriptor, which the kernel closes a moment later.
 * For a plain stream, and for one that another process may hold, that is all. */
void sr_close_at_exit(struct sr_stream *st)
{
	struct linger l = { 0, 0 };
	socklen_t len = sizeof(l);

	sr_stream_lock_and_progress(st);
	if (sr_load(&st->anchor) >= 0 && sr_any_gate_shut(st) &&
	    !(sr_st_flags(st) & SR_ST_CLOSING) && !sr_is_shared(st)) {
		sr_sys_getsockopt(sr_load(&st->anchor), SOL_SOCKET, SO_LINGER, &l, &len);
		sr_rx_over(st);
		if ((l.l_onoff && !l.l_linger) || sr_ends_leave_unread(st))
			sr_ends_reset_on_close(sr_load(&st->anchor));
		else if (sr_gate_shut(&st->out.gate))
			sr_ends_finish(st);
	}
	sr_unlock(&st->tx_lock);
	sr_rx_progress(st);	/* ACKEND may be due, if unread bytes were dropped */
	sr_unlock(&st->rx_lock);
	sr_stream_kick(st);
}

/*
 * The last step on a stream at exit.  A link of shared memory outlives the
 * process, and END is already in it.  Even so, bytes that the peer's program has
 * not taken are also written to TCP, as far as TCP has room: the peer may have to
 * go back to TCP later (fork, splice), when no process is left to resend them.
 * The peer finds the rest in the ring.
 *
 * Returns false if the peer does not read the ring because it is going back to
 * TCP itself; then our process must live until the peer's RESUME has come.
 */
bool sr_close_leave(struct sr_stream *st)
{
	struct sr_link *link;
	bool done = true;

	sr_stream_lock_and_progress(st);
	link = st->out.link ?: st->in.link;
	if (!link)
		goto out;
	sr_link_get(link);
	done = link->ops->leave(link, false);
	if (st->tx.ended && st->tx.base < st->tx.w)
		sr_store(&st->want_tcp, true);
	sr_tx_progress(st);
	if (st->tx.state != SR_TX_RESEND && st->tx.state != SR_TX_LINK)
		link->ops->leave(link, true);
	sr_link_put(link);
out:
	sr_stream_unlock(st);
	sr_stream_kick(st);
	return done;
}

/* ---- the rest of a closed stream's life: loop ---- */

static void close_finish(struct sr_stream *st, bool reset)
{
	sr_stream_lock(st);
	sr_stream_unwatch(st);
	if (reset)
		reset_now(sr_load(&st->anchor));
	put_links(st);
	sr_fd_close(sr_load(&st->anchor));
	sr_store(&st->anchor, -1);
	sr_owners_leave(st);
	sr_stream_unlock(st);
	/* Wakes the threads that still sleep on the stream: nothing more will
	 * come. */
	sr_stream_notify(st, SR_NOTIFY_RX | SR_NOTIFY_TX);
	sr_stream_end_report(st);
	sr_stream_over(st);
	sr_stream_put(st);
}

/* Does new data still come on the anchor?  Bytes that TCP carries again after a
 * RESUME are not new.  rx_lock held. */
static bool still_coming(struct sr_stream *st)
{
	char c;
	ssize_t r;

	if (sr_ends_unread(st))
		return true;
	if (st->in.fin_seen || sr_rx_at_mark(&st->rx) || st->rx.dup ||
	    st->rx.state == SR_RX_EOF || st->rx.state == SR_RX_RESET)
		return false;
	r = sr_anchor_read(st, &c, 1, MSG_PEEK);
	if (r == 0 || (r < 0 && r != -EAGAIN && r != -EINTR))
		st->in.fin_seen = true;
	return r > 0;
}

/* Advances a stream that is closed but not over.  (The thread that sets SR_ST_CLOSING holds
 * both locks until it has decided whether the stream lives on.)  If another process has the
 * stream, too, this process is done with it when both directions are plain: until then only
 * this process can write to TCP what it sent on the link, and read the peer's RESUME. */
void sr_close_progress(struct sr_stream *st)
{
	bool data = false, over = false, late;
	struct sr_link *link;

	if (!(sr_st_flags(st) & SR_ST_CLOSING))
		return;
	sr_stream_lock_and_progress(st);
	late = sr_now_ns() - st->close_since > SR_ORPHAN_NS;
	if (!st->close_since || sr_load(&st->anchor) < 0) {
		link = sr_stream_att(st);
		if (link)
			link->ops->drop(link, "short");
	} else if (sr_st_flags(st) & SR_ST_SHARED) {
		over = sr_load(&st->out.broken) || !sr_any_gate_shut(st) || late;
	} else {
		data = still_coming(st);
		if (!sr_gate_shut(&st->out.gate))
			st->tx.state = SR_TX_DONE; /* the kernel sends the FIN */
		over = sr_load(&st->out.broken) ||
		       (st->tx.state == SR_TX_DONE &&
			(st->in.fin_seen || st->rx.state == SR_RX_RESET || late));
	}
	sr_stream_unlock(st);
	if (data || over)
		close_finish(st, data);
}
