/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rx.c - owns the receiving direction: it does what the state machine R (receiver) of
 * pure/switch.c decides; tx.c does so for S (sender).  Nothing here sleeps.  The caller holds
 * rx_lock.  Must not know the program's calls or epoll sets.
 */
#include "base/sys.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "base/log.h"
#include "base/probe.h"
#include "engine/asker.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "engine/iov.h"

#define PART_NS 1000000000ull	/* for the rest of a record: longer than a TCP retransmission */

atomic_int sr_streams_ending;

void sr_stream_broke(struct sr_stream *st, int err)
{
	/* An earlier call on the anchor may have met the reset: then its error is already kept
	 * for the program, or the program has had it. */
	if (!sr_load(&st->err.reported) && !sr_load(&st->err.ended))
		sr_error_keep(st, err);
	sr_stream_failed(st, -err);
	sr_lock(&st->tx_lock);
	sr_store(&st->out.broken, true);
	sr_fast_update_tx(st);
	sr_unlock(&st->tx_lock);
	sr_stream_notify(st, SR_NOTIFY_CHANGE);
	sr_stream_kick(st);
}

/* rx_h may lag behind what the program has taken (link.h). */
static uint64_t rx_head(struct sr_stream *st)
{
	/* Pairs with the kind's publish of rx_h. */
	uint64_t h = st->in.link ? sr_observe(&st->in.link->rx_h) : 0;

	return h > st->rx.rx ? h : st->rx.rx;
}

static void rx_push_back(struct sr_stream *st, const uint8_t *buf, size_t n)
{
	/* The buffer never holds more than a record's worth: it is emptied
	 * before anything more is read where a mark may come. */
	if (st->in.pushback_len + n > sizeof(st->in.pushback))
		return;
	memcpy(st->in.pushback + st->in.pushback_len, buf, n);
	st->in.pushback_len += (unsigned)n;
}

static void do_rx(struct sr_stream *st, unsigned todo)
{
	struct sr_msg msg = { .type = SR_MSG_ACKEND };

	if ((todo & SR_DO_DROP) && st->in.link)
		st->in.link->ops->drop(st->in.link, "peer-dropped");
	if ((todo & SR_DO_ACKEND) && st->in.link)
		st->in.link->ops->ctl(st->in.link, &msg);
}

/* The peer's end has come, which may be a close: from now on each send checks whether the
 * peer still takes bytes (sock/send.c). */
static void note_end(struct sr_stream *st)
{
	sr_st_set(st, SR_ST_PEER_END);
	sr_lock(&st->tx_lock);
	sr_fast_update_tx(st);
	sr_unlock(&st->tx_lock);
}

/* Handles the peer's END and the stream's end.  Called when the ring's head, the program's
 * position or TCP's end may have changed. */
static void rx_handle_end(struct sr_stream *st)
{
	enum sr_rx_state before = st->rx.state;

	if (before == SR_RX_LINK && st->in.link && !st->rx.end &&
	    (sr_link_events(st->in.link) & SR_LINK_END)) {
		if (sr_rx_end(&st->rx, st->in.link->peer_end, rx_head(st)) < 0)
			st->in.link->ops->drop(st->in.link, "protocol");
		else
			note_end(st);
	}
	do_rx(st, sr_rx_settle(&st->rx, rx_head(st)));
	if (st->rx.state == before)
		return;
	if (st->rx.state == SR_RX_RESET)
		sr_stream_broke(st, sr_reset_error(st));
	else
		sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
}

/* Takes in the peer's last bytes on the link.  True: the peer sent no more than these, and
 * TCP ended by a FIN. */
static bool last_look(struct sr_stream *st)
{
	struct sr_link *link = st->in.link;
	bool used = st->rx.state == SR_RX_LINK ||
		    (st->rx.state == SR_RX_RAW &&
		     (st->rx.rx < st->rx.m || st->rx.dup));

	if (link && used && link->ops->rx_last)
		return link->ops->rx_last(link) && sr_anchor_fin(st);
	if (link)
		link->ops->poll(link);
	return false;
}

void sr_rx_tcp_end(struct sr_stream *st, bool reset)
{
	uint8_t out[SR_RECORD_LEN];
	bool ended = st->rx.state == SR_RX_EOF;
	bool raw = st->rx.state == SR_RX_RAW, whole = last_look(st), cut;

	st->in.fin_seen = true;
	rx_push_back(st, out, sr_rx_fin(&st->rx, reset, whole, rx_head(st), out));
	if (raw && st->rx.state == SR_RX_LINK)	/* the ring has the rest */
		st->in.link->ops->rx_free(st->in.link,
			st->rx.rx - sr_load(&st->in.link->rx_taken));
	cut = reset && st->rx.state == SR_RX_LINK;
	if (cut || st->rx.state == SR_RX_RESET)
		sr_stream_broke(st, sr_reset_error(st));
	if (cut)	/* Unread bytes come first, but SO_ERROR shows it now. */
		sr_store(&st->err.reported, true);
	rx_handle_end(st);
	sr_fast_update_rx(st);
	if (!ended)	/* otherwise nothing has changed */
		sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
}

/* Called when the state may have changed.  Counts the switches for the report.  Ends the history
 * at the first mark, where the sender's history ends too (not at a SWITCH, which may be given
 * up).  Lets an answerer's own direction follow the asker's mark (upgrade/attach.c). */
static void rx_moved(struct sr_stream *st, enum sr_rx_state before)
{
	if (st->rx.seen)
		sr_st_set(st, SR_ST_RX_HISTORY);
	if (before == SR_RX_EXPECT && st->rx.state == SR_RX_LINK) {
		st->in.switches++;
		sr_probe(switch, st, "in", "link", st->rx.rx);
		if (sr_load(&st->out.next))
			sr_store(&st->out.on_send, true);
		if (st->in.link)
			sr_stream_had(st, st->in.link, st->in.had);
	}
	/* No mark came.  The service thread notes the link's end, but perhaps after the report. */
	if (before == SR_RX_EXPECT && st->rx.state == SR_RX_RAW)
		sr_ask_ended(st, SR_REASON_PEER_DROPPED);
	if (before == SR_RX_LINK && st->rx.state == SR_RX_RAW) {
		st->in.switches++;
		sr_probe(switch, st, "in", "tcp", st->rx.rx);
	}
}

/*
 * What came by TCP is no record.  Its sender, whose program is on the link, did not
 * send it: somebody wrote to the peer's socket around the library (PROTOCOL.md, 19), or the
 * peer lies.  The peer's Sockrail finds the link given up, compares the kernel's count
 * with its own, and resets the connection.
 */
static void reset_bypassed(struct sr_stream *st)
{
	if (!sr_load(&sr_streams_ending))
		sr_warn("%s: reset, because while it was on a link bytes came by TCP that Sockrail did "
			"not write: the peer's program, or a process that has its socket, writes by "
			"calls that bypass the C library",
			sr_stream_label(st, (char[128]){ 0 }));
	if (st->in.link)
		st->in.link->ops->drop(st->in.link, "protocol");
	sr_stream_broke(st, ECONNRESET);
}

/* Strips bytes from the kernel in place: the program's bytes move to the front.  The write
 * cursor never overtakes the read cursor, because the machine holds no part of a record before
 * the first of these bytes (no other thread reads the anchor meanwhile). */
size_t sr_rx_strip(struct sr_stream *st, struct sr_rx *rx,
		   const struct iovec *iov, size_t iovlen, size_t n)
{
	uint8_t in[128], out[sizeof(in) + SR_RECORD_LEN];	/* (a small stack) */
	struct sr_iov from = sr_iov_make(iov, iovlen), to = from;
	enum sr_rx_state before = rx->state;
	size_t total = from.left;
	unsigned todo = 0;

	while (n) {
		size_t len = n < sizeof(in) ? n : sizeof(in);
		ssize_t kept;

		sr_iov_drain(&from, in, len);
		n -= len;
		kept = sr_rx_tcp(rx, in, len, out, &todo);
		if (kept < 0) {
			if (rx == &st->rx)
				reset_bypassed(st);
			break;
		}
		sr_iov_fill(&to, out, (size_t)kept);
	}
	if (rx == &st->rx) {
		do_rx(st, todo);
		rx_moved(st, before);
	}
	return total - to.left;
}

/* On a link only a record or TCP's end can arrive on the anchor, and neither is
 * urgent: while the loop watches for them, program threads save the system
 * call.  In state EXPECT a program thread reads the anchor itself. */
static bool loop_watches(struct sr_stream *st)
{
	return st->rx.state == SR_RX_LINK &&
	       (sr_load(&st->loop.watched) & EPOLLIN);
}

/* The next bytes on TCP are a mark or a record: reads them, and never beyond.
 * Where a mark should be it peeks first, so that bytes of the program stay in
 * the kernel, in case the stream becomes plain. */
static void read_record(struct sr_stream *st)
{
	while (sr_rx_at_mark(&st->rx) && !st->in.fin_seen) {
		uint8_t in[SR_RECORD_LEN], out[2 * SR_RECORD_LEN];
		size_t want = sr_rx_limit(&st->rx);
		enum sr_rx_state before = st->rx.state;
		bool looks = before == SR_RX_EXPECT && !st->rx.part;
		unsigned todo = 0;
		ssize_t r, n = 0;

		if (want > sizeof(in))
			want = sizeof(in);
		r = sr_anchor_read(st, in, want, looks ? MSG_PEEK : 0);
		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0) {
			sr_rx_tcp_end(st, r < 0);
			return;
		}
		if (looks)
			todo = sr_rx_peek(&st->rx, in, (size_t)r);
		if (looks && !todo)
			r = sr_anchor_read(st, in, (size_t)r, 0);
		if (!todo && r > 0)
			n = sr_rx_tcp(&st->rx, in, (size_t)r, out, &todo);
		do_rx(st, todo);
		rx_moved(st, before);
		if (n < 0) {
			reset_bypassed(st);
			return;
		}
		rx_push_back(st, out, (size_t)n);
		sr_stream_notify(st, SR_NOTIFY_RX);
		sr_stream_kick(st);
	}
}

/* The sender writes a record at once, so the rest of one follows soon.  Bytes that begin like a
 * record and stop there may have bypassed the library.  After PART_NS the link is dropped: the
 * sender then compares the kernel's count with its own, and completes the record or resets. */
static void await_record(struct sr_stream *st)
{
	uint64_t since = sr_load(&st->in.part_ns);

	if (!st->rx.part || !sr_rx_at_mark(&st->rx) || st->rx.state == SR_RX_EXPECT)
		sr_store(&st->in.part_ns, 0);
	else if (!since)
		sr_store(&st->in.part_ns, sr_now_ns());
	else if (st->in.link && sr_now_ns() - since > PART_NS)
		st->in.link->ops->drop(st->in.link, "protocol");
}

/* Leaves EXPECT if the sender has said on the link that no mark will come.  The next byte by TCP
 * would show that, too, but a thread that waits for the direction to become plain might wait
 * long for such a byte. */
static void expect_no_more(struct sr_stream *st)
{
	struct sr_link *link = st->in.link;

	if (st->rx.state != SR_RX_EXPECT || !link || !link->ops->rx_unmarked ||
	    !link->ops->rx_unmarked(link))
		return;
	sr_rx_unmarked(&st->rx);
	rx_moved(st, SR_RX_EXPECT);
}

/* RESUME came after a link's END, whose ACKEND the sender has not seen. */
static bool has_resumed_after_end(const struct sr_stream *st)
{
	return st->rx.state == SR_RX_EOF && !st->rx.end && !st->in.fin_seen;
}

/*
 * After RESUME: drops the bytes that the program has already had, and checks
 * whether all bytes up to m have reached the kernel.  A FIN then comes behind
 * them, and the kernel alone can serve the descriptor.  In EOF only TCP's end
 * may follow.
 *
 * A return to TCP that this end requested cannot wait for that: what does not
 * fit into the kernel's buffer arrives only as the program reads.  So the gate
 * opens, and a receiver that meets TCP's end compares the kernel's count with m
 * (sr_rx_short()).
 */
static void catch_up(struct sr_stream *st)
{
	uint8_t buf[384];	/* (a small stack) */
	unsigned todo;
	int queued;

	while (st->rx.dup || has_resumed_after_end(st)) {
		size_t n = st->rx.dup < sizeof(buf) ? st->rx.dup : sizeof(buf);
		ssize_t r = sr_anchor_read(st, buf, n ? n : 1, 0);

		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0) {
			sr_rx_tcp_end(st, r < 0);
			return;
		}
		if (sr_rx_tcp(&st->rx, buf, (size_t)r, buf, &todo) < 0) {
			reset_bypassed(st);
			return;
		}
	}
	if (st->rx.rx < st->rx.m &&
	    sr_sys_ioctl(sr_load(&st->anchor), SIOCINQ, &queued) == 0 &&
	    (uint64_t)queued >= st->rx.m - st->rx.rx)
		st->rx.m = st->rx.rx;
}

static void rx_raw_again(struct sr_stream *st)
{
	struct sr_link *link = st->in.link;

	st->in.link = NULL;
	if (link)
		sr_link_put(link);
	sr_debug("%s: rx on TCP again at byte %llu",
		 sr_stream_label(st, (char[128]){ 0 }),
		 (unsigned long long)st->rx.rx);
	if (sr_st_flags(st) & SR_ST_RDSHUT)
		sr_sys_shutdown(sr_load(&st->anchor), SHUT_RD);
	sr_rx_gate_open(st);
	sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
}

/* We requested the return to TCP: will all bytes up to m come by TCP?  If the
 * sender ends in the middle of its resend, only the ring has the rest. */
static bool comes_by_tcp(struct sr_stream *st)
{
	struct sr_link *link = st->in.link;

	return sr_load(&st->want_tcp) &&
	       (!link || !(sr_link_events(link) & (SR_LINK_LEFT | SR_LINK_LOST)) ||
		(link->ops->rx_resent && link->ops->rx_resent(link)));
}

bool sr_rx_short(struct sr_stream *st)
{
	uint64_t received;
	bool yes = false, fin;

	sr_lock(&st->rx_lock);
	if (st->rx.m && !sr_gate_shut(&st->in.gate) && sr_anchor_ended(st)) {
		/* The kernel counts 1 for a FIN.  If the end was an error, no FIN came. */
		fin = !sr_load(&st->err.ended);
		received = sr_anchor_received(st);
		yes = received && received - fin + (uint64_t)st->in.delta < st->rx.m;
	}
	sr_unlock(&st->rx_lock);
	return yes;
}

/*
 * May the kernel serve the program's receives again?  This is decided here only; all other code
 * looks at the gate.  An open gate means that the program's next byte is the kernel's next byte,
 * so the program must have taken the pushed-back bytes before.  rx_lock held, no call in flight.
 */
static bool kernel_may_serve(struct sr_stream *st)
{
	if (st->in.pushback_len)
		return false;
	switch (st->rx.state) {
	case SR_RX_RAW:
		/* Below m a FIN is not the end; only the slow path knows that. */
		return !st->rx.dup && (st->rx.rx >= st->rx.m || comes_by_tcp(st)) &&
		       !st->in.fin_seen;
	case SR_RX_EOF:
		/* The peer half-closed, and its end has reached the kernel, too. */
		return st->in.fin_seen && sr_load(&st->want_tcp) && !sr_load(&st->out.broken) &&
		       !st->in.disconnected;
	default:
		return false;
	}
}

static void rx_advance(struct sr_stream *st)
{
	bool alone;

	if (!sr_gate_shut(&st->in.gate) || sr_load(&st->anchor) < 0)
		return;
	if (st->in.link)
		st->in.link->ops->poll(st->in.link);
	alone = !sr_gate_calls(&st->in.gate);
	if (alone && !loop_watches(st))
		read_record(st);
	if (alone)
		expect_no_more(st);
	if (st->rx.part || sr_load(&st->in.part_ns))
		await_record(st);
	rx_handle_end(st);
	if (sr_load(&st->want_tcp) && st->in.link)
		st->in.link->ops->drop(st->in.link, "peer-dropped");
	if (alone && (st->rx.state == SR_RX_RAW || has_resumed_after_end(st)))
		catch_up(st);
	if (alone && kernel_may_serve(st))
		rx_raw_again(st);
}

void sr_rx_progress(struct sr_stream *st)
{
	rx_advance(st);
	sr_fast_update_rx(st);
}

/*
 * Says whether the program has bytes before N to read yet, and asks to be told when it has read
 * them.  If the descriptor is handed to another process, that process would read a mark behind
 * them and not know what it is.  So the ACKSW waits for the program (PROTOCOL.md, 16).
 */
static bool must_read_before(struct sr_stream *st, uint64_t n)
{
	if (!sr_gate_shut(&st->in.gate)) {
		uint64_t due = n - (uint64_t)st->in.delta;

		sr_change(&st->in.due, due);	/* pair due: note_due() */
		return sr_look(&st->in.tcp) < due;
	}
	return n > st->rx.rx + st->rx.part || st->in.pushback_len || st->rx.dup;
}

void sr_rx_over(struct sr_stream *st)
{
	struct sr_link *link = st->in.link;

	if (link && link->ops->rx_over)
		link->ops->rx_over(link);
}

/* Shuts the gate, so that the SWITCH can be taken.  LATER: the caller tries again.  NEVER: the
 * link was dropped. */
enum entry { ENTRY_MADE, ENTRY_LATER, ENTRY_NEVER };
static enum entry shut_for_switch(struct sr_stream *st, struct sr_link *link, bool was_open)
{
	bool busy;

	if (was_open && (sr_st_flags(st) & SR_ST_RDSHUT)) {
		sr_stream_bar(st, SR_REASON_SHORT);
		link->ops->drop(link, "short");
		return ENTRY_NEVER;
	}
	/* Whichever process reads next would meet the mark. */
	if (sr_is_shared(st)) {
		link->ops->drop(link, "fork");
		return ENTRY_NEVER;
	}
	if (must_read_before(st, link->peer_switch.n))
		return ENTRY_LATER;
	if (was_open && !sr_rx_gate_close(st))
		return ENTRY_LATER; /* several calls are asleep in the kernel */
	if (!was_open || sr_anchor_rx_agrees(st))
		return ENTRY_MADE;
	/* A call in flight may not have added its bytes yet: retry. */
	busy = sr_gate_calls(&st->in.gate);
	if (!busy)
		sr_anchor_disagrees(st, link);
	sr_rx_gate_reopen(st);
	return busy ? ENTRY_LATER : ENTRY_NEVER;
}

bool sr_rx_take_switch(struct sr_stream *st, struct sr_link *link, bool proven)
{
	uint8_t out[SR_RECORD_LEN];
	struct sr_msg ack = { .type = SR_MSG_ACKSW };
	bool was_open = !sr_gate_shut(&st->in.gate);
	enum entry entry = shut_for_switch(st, link, was_open);
	unsigned todo;
	size_t n = 0;

	if (entry != ENTRY_MADE)
		return entry == ENTRY_NEVER;
	todo = sr_rx_switch(&st->rx, &link->peer_switch, st->up.token, proven,
			    out, &n);
	rx_push_back(st, out, n);
	if (todo & SR_DO_LATER)
		return false;
	if (todo & SR_DO_DROP) {
		/* The sender may have given up the switch, and gone on by TCP. */
		bool passed = link->peer_switch.n < st->rx.rx;

		link->ops->drop(link, passed ? "peer-dropped" : "protocol");
		if (was_open)	/* in state RAW, where nothing is held: n is 0 */
			sr_rx_gate_reopen(st);
		return true;
	}
	if (st->in.link)
		sr_link_put(st->in.link);
	st->in.link = sr_link_get(link);
	if (sr_st_flags(st) & SR_ST_CLOSING)
		sr_rx_over(st);
	link->ops->ctl(link, &ack);
	return true;
}
