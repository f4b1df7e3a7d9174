/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tx.c - owns the sending direction: it does what the state machine S (sender) of pure/switch.c
 * decides, as far as that goes without sleeping.  The service thread, and program threads that
 * find the gate shut, call it in any order, under tx_lock.  Must not know the program's calls or
 * epoll sets.
 */
#include "base/sys.h"

#include <errno.h>

#include "base/log.h"
#include "base/now.h"
#include "base/probe.h"
#include "base/report.h"
#include "engine/engine.h"
#include "engine/waiters.h"

#define LOST_NS 100000000ull	/* how long TCP's end may follow the link's */

static void tx_send_fin(struct sr_stream *st)
{
	sr_sys_shutdown(sr_load(&st->anchor), SHUT_WR);
	sr_stream_notify(st, SR_NOTIFY_CHANGE);
}

/* Lets the link show the peer the bytes that it holds back. */
void sr_tx_flush(struct sr_stream *st)
{
	if (!sr_load(&st->out.held))
		return;
	st->out.link->ops->tx_commit(st->out.link, 0, false);
	sr_store(&st->out.held, 0);
	st->out.held_ns = 0;
	sr_fast_update_tx(st);
}

/*
 * The end that closes first keeps TIME_WAIT, and its port cannot be bound
 * meanwhile (RFC 9293, 3.3.2).  If the peer's end has arrived on the link, its
 * FIN follows, and ours waits for it.  (Both cannot wait: the peer's end came
 * before ours went.)  Only after close(), when the program no longer looks;
 * sr_close_progress() limits the time.
 */
bool sr_tx_is_second(struct sr_stream *st)
{
	return (sr_st_flags(st) & SR_ST_SECOND) && !st->in.fin_seen &&
	       st->rx.state == SR_RX_EOF && !sr_load(&st->out.broken);
}

/* Takes over the link's count of bytes that the peer's program has taken. */
static void sync_ack(struct sr_stream *st)
{
	uint64_t acked;

	if (st->tx.state != SR_TX_LINK)
		return;
	acked = sr_observe(&st->out.link->tx_acked); /* pairs with the kind's publish of it */
	if (sr_tx_ack(&st->tx, acked) < 0)
		st->out.link->ops->drop(st->out.link, "protocol");
}

static void unlink_tx(struct sr_stream *st)
{
	struct sr_link *link = st->out.link;

	st->out.link = NULL;
	sr_store(&st->out.held, 0);
	sr_store(&st->out.lost_ns, 0);
	sr_link_put(link);
}

/* The direction is plain again. */
static void raw_again(struct sr_stream *st)
{
	if (st->out.link)
		unlink_tx(st);
	sr_tx_gate_open(st);
	sr_stream_notify(st, SR_NOTIFY_TX);
	sr_stream_kick(st);
}

static void tx_leave_link(struct sr_stream *st)
{
	bool link = st->tx.state == SR_TX_LINK;
	unsigned todo;

	sync_ack(st);
	if (link)
		sr_tx_flush(st);
	todo = sr_tx_leave(&st->tx);
	if (!link && st->out.link->ops->tx_unmarked)
		st->out.link->ops->tx_unmarked(st->out.link);
	if (todo & SR_DO_DROP)
		st->out.link->ops->drop(st->out.link, "peer-dropped");
	if (link) {
		st->out.way[st->out.link->ops->way] += st->tx.base - st->tx.n;
		st->out.record_at = 0;
		st->out.switches++;
		st->out.failovers += !sr_load(&st->want_tcp);
		sr_probe(switch, st, "out", "tcp", st->tx.base);
		sr_probe(fallback, st, sr_reason_word(sr_load(&st->reason)));
		return;
	}
	if (todo & SR_DO_FIN)
		tx_send_fin(st);
	raw_again(st);
}

/* The stream broke while we wrote to TCP.  Bytes that had gone by the link and
 * were not resent still count as sent by the link. */
static void tx_failed(struct sr_stream *st)
{
	if (st->tx.state == SR_TX_RESEND)
		st->out.way[st->out.link->ops->way] += st->tx.w - st->tx.at;
	sr_store(&st->out.broken, true);
	st->tx.state = SR_TX_DONE;
	if (st->out.link)
		unlink_tx(st);
	sr_stream_notify(st, SR_NOTIFY_CHANGE);
}

/*
 * The kernel has more bytes of this direction than we wrote: somebody wrote to the socket
 * around the library since the SWITCH.  Behind the mark the peer cannot tell such bytes
 * from ours, and a RESUME among them would mean something else.  So the stream ends, at
 * both ends (PROTOCOL.md, 19).  True: it has.
 */
static bool reset_if_bypassed(struct sr_stream *st)
{
	if (!sr_anchor_is_bypassed(st))
		return false;
	sr_warn("%s: reset, because while it was on a link bytes were written to its socket by "
		"calls that bypass the C library",
		sr_stream_label(st, (char[128]){ 0 }));
	sr_anchor_disagrees(st, st->out.link);
	if (!sr_load(&st->err.reported) && !sr_load(&st->err.ended))
		sr_error_keep(st, ECONNRESET);
	sr_stream_failed(st, -ECONNRESET);
	sr_now_disconnect(sr_load(&st->anchor));
	sr_sys_shutdown(sr_load(&st->anchor), SHUT_RDWR);	/* then its end follows the reset, as over TCP */
	tx_failed(st);
	sr_stream_kick(st);	/* the other direction meets the reset */
	return true;
}

/* WAIT: writes the mark once the socket has room, where the history ends.  False: not all
 * of it yet. */
static bool write_mark(struct sr_stream *st)
{
	ssize_t r;

	if (!st->out.record_at && !sr_anchor_writable(st))
		return false;
	r = sr_anchor_write(st, st->tx.record + st->out.record_at,
			    SR_RECORD_LEN - st->out.record_at, false);
	if (r < 0 && r != -EAGAIN) {
		tx_failed(st);
		return false;
	}
	if (r > 0)
		st->out.record_at += (unsigned)r;
	if (st->out.record_at < SR_RECORD_LEN)
		return false;
	sr_st_set(st, SR_ST_TX_HISTORY);
	st->out.switches++;
	sr_probe(switch, st, "out", "link", st->tx.n);
	return true;
}

#define LOOK_NS 2000000 /* in WAIT, between two looks for unread bytes */

/* A direction in WAIT takes no bytes, although a program that has sent little expects room.  So
 * WAIT is short, unless policy wait wants every byte on the link. */
static uint64_t wait_ns(struct sr_stream *st)
{
	if (st->tx.w >= SR_TX_MUCH)
		return 4000000000ull;	/* the peer may have much to read */
	return sr_waits(st) ? 2000000000ull : 100000000ull;
}

/* State WAIT has lasted too long. */
static void wait_timed_out(struct sr_stream *st)
{
	st->out.link->ops->drop(st->out.link, "timeout");
	tx_leave_link(st);
}

static bool is_tx_decided(struct sr_stream *st)
{
	return sr_stream_tx(st) != SR_TX_WAIT;
}

/* Are there bytes that our program has yet to read? */
static bool has_unread(struct sr_stream *st)
{
	struct pollfd p = { .events = POLLIN };
	bool yes;

	sr_lock(&st->rx_lock);
	p.fd = sr_load(&st->anchor);
	yes = sr_gate_shut(&st->in.gate) ? sr_ring_bytes(st) > 0 :
					   p.fd >= 0 && sr_now_poll(&p, 1) == 1;
	sr_unlock(&st->rx_lock);
	return yes;
}

/*
 * A non-blocking send, or one whose time is up, arrives in WAIT.  EAGAIN would
 * say that the socket's buffer is full, which programs that have sent little do
 * not expect.  So the switch is decided soon, one way or the other.  Behind SR_TX_MUCH
 * bytes it may take longer, as the peer's program may have yet to read them.
 *
 * If our program has unread bytes, the peer's program may be asleep in a send until this one
 * reads, which it cannot while this call waits.  So the call then returns after LOOK_NS without
 * the switch, and the stream soon asks for another link.
 */
bool sr_tx_decide(struct sr_stream *st)
{
	uint64_t ms = sr_waits(st) ? 400 : 20, end = st->out.wait_since + ms * 1000000, look;
	bool again;

	do {
		look = sr_now_ns() + LOOK_NS;
		sr_stream_await(st, SR_NOTIFY_TX, is_tx_decided, look < end ? look : end);
	} while (!is_tx_decided(st) && look < end && !has_unread(st));
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (st->tx.state == SR_TX_WAIT && !st->out.record_at && st->tx.w < SR_TX_MUCH)
		wait_timed_out(st);
	again = st->tx.state != SR_TX_WAIT;
	sr_unlock(&st->tx_lock);
	return again;
}

/* The link is dead, but the peer has acknowledged the SWITCH and expects the mark.  The mark, and
 * the RESUME that follows at once, make the peer's direction plain again.  Without them only the
 * program's next byte would. */
static bool owes_mark(struct sr_stream *st, unsigned ev)
{
	return (ev & SR_LINK_ACKSW) && !(ev & (SR_LINK_LEFT | SR_LINK_LOST)) &&
	       !sr_anchor_ended(st);
}

static bool progress_wait(struct sr_stream *st)
{
	unsigned ev = sr_link_events(st->out.link);

	if (!st->out.record_at &&
	    (((ev & SR_LINK_DEAD) && !owes_mark(st, ev)) ||
	     sr_load(&st->want_tcp))) {
		tx_leave_link(st);
		return false;
	}
	if (!st->out.record_at &&
	    sr_now_ns() - st->out.wait_since > wait_ns(st)) {
		wait_timed_out(st);
		return false;
	}
	if (!(ev & SR_LINK_ACKSW))
		return false;
	/* Bytes that were written around the library before the mark belong to the stream, as over
	 * TCP. */
	if (!st->out.record_at && sr_anchor_is_bypassed(st)) {
		sr_anchor_disagrees(st, st->out.link);
		tx_leave_link(st);
		return false;
	}
	sr_tx_acksw(&st->tx);
	if (!write_mark(st))
		return false;
	sr_debug("%s: tx on the link from byte %llu",
		 sr_stream_label(st, (char[128]){ 0 }),
		 (unsigned long long)st->tx.w);
	if (sr_tx_marked(&st->tx) & SR_DO_END) {
		struct sr_msg end = { .type = SR_MSG_END };

		end.end = st->tx.w;
		st->out.link->ops->ctl(st->out.link, &end);
	}
	sr_stream_had(st, st->out.link, st->out.had);
	sr_stream_notify(st, SR_NOTIFY_TX);
	return true;
}

static void reader_is_gone(struct sr_stream *st)
{
	st->out.way[st->out.link->ops->way] += st->tx.w - st->tx.n;
	if (sr_tx_gone(&st->tx) & SR_DO_FIN)
		tx_send_fin(st);
	raw_again(st);
}

/*
 * The peer's process has ended, and a RESUME would draw a reset although the
 * program has sent nothing that TCP would have refused: the direction becomes
 * plain without a RESUME.  If only the peer's end of the link is closed (LOST),
 * TCP's end decides; it follows soon, as the kernel closes a killed process's
 * descriptors one by one.  True: the direction is plain now, or has to wait for TCP's end.
 */
static bool follow_ended_process(struct sr_stream *st, unsigned ev)
{
	uint64_t now;

	/* The peer left bytes unread.  TCP would reset the stream, and so does the RESUME. */
	if ((ev & SR_LINK_LEFT) && st->tx.base < st->tx.w)
		return false;
	if ((ev & SR_LINK_LEFT) || ((ev & SR_LINK_LOST) && sr_anchor_ended(st))) {
		reader_is_gone(st);
		return true;
	}
	if (!(ev & SR_LINK_LOST) || sr_load(&st->want_tcp))
		return false;
	now = sr_now_ns();
	if (!sr_load(&st->out.lost_ns))
		sr_store(&st->out.lost_ns, now);
	return now - sr_load(&st->out.lost_ns) < LOST_NS;
}

static bool progress_link(struct sr_stream *st)
{
	unsigned ev = sr_link_events(st->out.link);

	sync_ack(st);
	if ((ev & SR_LINK_ACKEND) && !sr_tx_is_second(st) &&
	    (sr_tx_ackend(&st->tx) & SR_DO_FIN)) {
		st->out.way[st->out.link->ops->way] += st->tx.w - st->tx.n;
		tx_send_fin(st);
		return false;
	}
	if (follow_ended_process(st, ev))
		return false;
	if (!(ev & SR_LINK_DEAD) && !sr_load(&st->want_tcp))
		return false;
	if (reset_if_bypassed(st))
		return false;
	tx_leave_link(st);
	return true;
}

/* Writes RESUME into TCP, and what the peer's program has not taken. */
static void progress_resend(struct sr_stream *st)
{
	struct iovec v[2];
	unsigned todo;
	ssize_t r = 0;

	while (st->out.record_at < SR_RECORD_LEN) {
		r = sr_anchor_write(st, st->tx.record + st->out.record_at,
				    SR_RECORD_LEN - st->out.record_at,
				    st->tx.at < st->tx.w);
		if (r <= 0)
			goto stop;
		st->out.record_at += (unsigned)r;
		if (st->out.record_at == SR_RECORD_LEN && st->tx.at == st->tx.w)
			sr_anchor_resumed(st);
	}
	do {
		size_t n = st->tx.w - st->tx.at;

		if (n && !st->out.link->ops->tx_retained(st->out.link, st->tx.at, v)) {
			tx_failed(st);	/* retention is broken */
			return;
		}
		r = n ? sr_anchor_write(st, v[0].iov_base, v[0].iov_len, v[0].iov_len < n) : 0;
		if (n && r <= 0)
			goto stop;
		if ((uint64_t)r == st->tx.w - st->tx.at && reset_if_bypassed(st))
			return;
		todo = sr_tx_resent(&st->tx, (uint64_t)r);
	} while (st->tx.state == SR_TX_RESEND);
	sr_debug("%s: tx on TCP again at byte %llu",
		 sr_stream_label(st, (char[128]){ 0 }),
		 (unsigned long long)st->tx.w);
	if (todo & SR_DO_FIN)
		tx_send_fin(st);
	raw_again(st);
	return;
stop:
	if (r < 0 && r != -EAGAIN)
		tx_failed(st);
}

static void tx_advance(struct sr_stream *st)
{
	bool again = true;

	if (!sr_gate_shut(&st->out.gate) || sr_load(&st->anchor) < 0)
		return;
	if (st->out.link)
		st->out.link->ops->poll(st->out.link);
	while (again) {
		switch (st->tx.state) {
		case SR_TX_WAIT:
			again = progress_wait(st);
			break;
		case SR_TX_LINK:
			again = progress_link(st);
			break;
		case SR_TX_RESEND:
			progress_resend(st);
			again = false;
			break;
		case SR_TX_DONE:
			/* Half closed: our end has reached the kernel. */
			if (sr_load(&st->want_tcp) && !sr_load(&st->out.broken))
				raw_again(st);
			again = false;
			break;
		default:
			again = false;
		}
	}
}

void sr_tx_progress(struct sr_stream *st)
{
	tx_advance(st);
	sr_fast_update_tx(st);
}

/* Advancing rx may reset the stream, which needs tx_lock to be free. */
void sr_stream_lock_and_progress(struct sr_stream *st)
{
	sr_lock(&st->rx_lock);
	sr_rx_progress(st);
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
}

/* The gate is shut and out.next is the link to switch to. */
void sr_tx_start(struct sr_stream *st)
{
	struct sr_msg msg = { .type = SR_MSG_SWITCH };
	struct sr_link *link = sr_load(&st->out.next);

	sr_store(&st->out.next, NULL);
	if ((sr_st_flags(st) & SR_ST_HALF) || sr_anchor_shut(st))
		goto out;	/* no mark can follow */
	if (!sr_anchor_tx_agrees(st)) {
		sr_anchor_disagrees(st, link);
		goto out;
	}
	if (sr_tx_want(&st->tx, link->link_no, link->peer_hello.token, &msg.sw) < 0)
		goto out;
	if (link->ops->ctl(link, &msg) < 0) {
		if (sr_tx_leave(&st->tx) & SR_DO_FIN)
			tx_send_fin(st);
		goto out;
	}
	st->out.link = link;
	st->out.record_at = 0;
	st->out.widen_by = 0;
	sr_store(&st->out.lost_ns, 0);
	st->out.wait_since = sr_now_ns();
	sr_debug("%s: tx is to switch at byte %llu",
		 sr_stream_label(st, (char[128]){ 0 }), (unsigned long long)st->tx.w);
	sr_stream_kick(st);
	return;
out:
	sr_link_put(link);
	sr_tx_gate_open(st);
	sr_stream_kick(st);
}

void sr_tx_on_send(struct sr_stream *st)
{
	if (!sr_load(&st->out.on_send))
		return;
	sr_lock(&st->tx_lock);
	if (sr_load(&st->out.on_send))
		sr_tx_try_start(st);
	sr_unlock(&st->tx_lock);
}

void sr_tx_try_start(struct sr_stream *st)
{
	sr_store(&st->out.on_send, false);
	if (!sr_load(&st->out.next)) {
		atomic_fetch_and_explicit(&st->out.gate, ~SR_GATE_WANT, memory_order_relaxed);
		return;
	}
	if (sr_gate_shut(&st->out.gate))
		return;
	if (sr_is_shared(st))
		sr_load(&st->out.next)->ops->drop(sr_load(&st->out.next), "fork");
	if ((sr_link_events(sr_load(&st->out.next)) & SR_LINK_DEAD) ||
	    (sr_st_flags(st) & (SR_ST_HALF | SR_ST_BARRED))) {
		sr_link_put(sr_load(&st->out.next));
		sr_store(&st->out.next, NULL);
		atomic_fetch_and_explicit(&st->out.gate, ~SR_GATE_WANT, memory_order_relaxed);
		return;
	}
	if (sr_tx_gate_close(st))
		sr_tx_start(st);
}
