/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * direction.c - moves a direction on: does what pure/switch.c asks for, as far
 * as it goes without sleeping.  Called by program threads on their way through
 * a shut gate and by the service thread, always under the direction's lock, so
 * it does not matter who comes first.
 */
#include "base/real.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "base/log.h"
#include "stream/wait.h"
#include "stream/iov.h"

/* For the report. */
static void had(struct sr_stream *st, struct sr_link *link)
{
	const char *device = link->device ? link->device : "";

	sr_option_keepalive(st, true);
	sr_format(st->best, sizeof(st->best), "%s%s%s", link->ops->name,
		  *device ? ":" : "", device);
}

/* ---- sender ---- */

static void fin(struct sr_stream *st)
{
	int err = errno;

	sr_real.shutdown(st->anchor, SHUT_WR);
	errno = err;
	sr_stream_notify(st, SR_NOTIFY_TX | SR_NOTIFY_RX);
}

/* The link's word on what the peer's program has taken. */
static void sync_ack(struct sr_stream *st)
{
	uint64_t acked;

	if (st->tx.state != SR_TX_LINK || !(sr_link_events(st->tx_link) &
					    SR_LINK_ACKSW))
		return;
	acked = atomic_load(&st->tx_link->tx_acked);
	if (sr_tx_ack(&st->tx, acked) < 0)
		st->tx_link->ops->drop(st->tx_link, "protocol");
}

static void unlink_tx(struct sr_stream *st)
{
	struct sr_link *link = st->tx_link;

	st->tx_link = NULL;
	st->tx_held = 0;
	sr_link_put(link);
}

/* A direction that is plain again. */
static void raw_again(struct sr_stream *st)
{
	if (st->tx_link)
		unlink_tx(st);
	if (!sr_gate_shut(&st->rx_gate))
		sr_option_keepalive(st, false);
	sr_tx_gate_open(st);
	sr_stream_notify(st, SR_NOTIFY_TX);
	sr_stream_kick(st);
}

static void leave(struct sr_stream *st)
{
	bool link = st->tx.state == SR_TX_LINK;
	unsigned todo;

	sync_ack(st);
	if (link)
		sr_tx_flush(st);
	todo = sr_tx_leave(&st->tx);
	if (todo & SR_DO_DROP)
		st->tx_link->ops->drop(st->tx_link, "peer-dropped");
	if (link) {
		st->tx_way[sr_way_of(st->tx_link)] += st->tx.base - st->tx_n;
		st->record_at = 0;
		st->switches++;
		return;
	}
	if (todo & SR_DO_FIN)
		fin(st);
	raw_again(st);
}

/* The stream's own death while we were writing to TCP.  What had gone by the
 * link and was not sent again is booked as gone that way. */
static void tx_failed(struct sr_stream *st)
{
	if (st->tx.state == SR_TX_RESEND)
		st->tx_way[sr_way_of(st->tx_link)] += st->tx.w - st->tx.at;
	st->broken = true;
	st->tx.state = SR_TX_DONE;
	if (st->tx_link)
		unlink_tx(st);
	sr_stream_notify(st, SR_NOTIFY_TX | SR_NOTIFY_RX);
}

/* WAIT: the mark, in one piece and only if it fits as a whole.  False: later. */
static bool write_mark(struct sr_stream *st)
{
	ssize_t r;

	if (!st->record_at && !sr_anchor_writable(st))
		return false;
	r = sr_anchor_write(st, st->tx.record + st->record_at,
			    SR_RECORD_LEN - st->record_at);
	if (r < 0 && r != -EAGAIN) {
		tx_failed(st);
		return false;
	}
	if (r > 0)
		st->record_at += (unsigned)r;
	if (st->record_at < SR_RECORD_LEN)
		return false;
	st->switches++;
	return true;
}

/* WAIT takes nothing from the program, which expects room as long as it has sent
 * little: so it is short, except where every byte is to go by the link. */
static uint64_t wait_ns(struct sr_stream *st)
{
	if (sr_link_events(st->tx_link) & SR_LINK_DRAIN)
		return 4500000000ull;	/* the peer has an eye on it */
	return sr_conf.upgrade == SR_WAIT ? 2000000000ull : 100000000ull;
}

/* WAIT has lasted too long. */
static void too_late(struct sr_stream *st)
{
	st->tx_link->ops->drop(st->tx_link, "timeout");
	leave(st);
}

static bool decided_locked(struct sr_stream *st)
{
	return st->tx.state != SR_TX_WAIT ||
	       (sr_link_events(st->tx_link) & SR_LINK_DRAIN);
}

static bool decided(struct sr_stream *st)
{
	bool yes;

	pthread_mutex_lock(&st->tx_lock);
	yes = decided_locked(st);
	pthread_mutex_unlock(&st->tx_lock);
	return yes;
}

/*
 * A send that must not block comes in WAIT.  EAGAIN would say that the socket's
 * buffer is full, and programs that have sent little do not reckon with that: so
 * it is decided now, one way or the other.  Not if much of what has been sent is
 * unread (DRAIN): that may be EAGAIN with TCP as well.
 */
bool sr_tx_decide(struct sr_stream *st)
{
	uint64_t ms = sr_conf.upgrade == SR_WAIT ? 400 : 20;
	bool again;

	if (sr_stream_tx(st) != SR_TX_WAIT)
		return false;
	sr_stream_await(st, SR_NOTIFY_TX, decided, sr_now_ns() + ms * 1000000);
	pthread_mutex_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (!decided_locked(st) && !st->record_at)
		too_late(st);
	again = st->tx.state != SR_TX_WAIT;
	pthread_mutex_unlock(&st->tx_lock);
	return again;
}

static bool progress_wait(struct sr_stream *st)
{
	unsigned ev = sr_link_events(st->tx_link);

	if (!st->record_at &&
	    ((ev & SR_LINK_DEAD) || atomic_load(&st->want_back))) {
		leave(st);
		return false;
	}
	if (!st->record_at &&
	    sr_now_ns() - st->tx_wait_since > wait_ns(st)) {
		too_late(st);
		return false;
	}
	if (!(ev & SR_LINK_ACKSW))
		return false;
	sr_tx_acksw(&st->tx);
	if (!write_mark(st))
		return false;
	sr_debug("%s: tx on the link from byte %llu",
		 sr_stream_label(st, (char[128]){ 0 }),
		 (unsigned long long)st->tx.w);
	if (sr_tx_marked(&st->tx) & SR_DO_END) {
		struct sr_msg end = { .type = SR_MSG_END };

		end.end = st->tx.w;
		st->tx_link->ops->ctl(st->tx_link, &end);
	}
	had(st, st->tx_link);
	sr_stream_notify(st, SR_NOTIFY_TX);
	return true;
}

static bool progress_link(struct sr_stream *st)
{
	unsigned ev = sr_link_events(st->tx_link);
	int err = 0;

	sync_ack(st);
	if ((ev & SR_LINK_ACKEND) && st->tx.end_sent) {
		if (sr_tx_ackend(&st->tx, &err) & SR_DO_FIN) {
			st->tx_way[sr_way_of(st->tx_link)] += st->tx.w - st->tx_n;
			fin(st);
			return false;
		}
	}
	if ((ev & (SR_LINK_DEAD | SR_LINK_BACK)) || err ||
	    atomic_load(&st->want_back)) {
		leave(st);
		return true;
	}
	return false;
}

/* RESUME, then what the peer's program has not taken, into TCP. */
static bool progress_resend(struct sr_stream *st)
{
	struct iovec v[2];
	unsigned todo = 0;
	ssize_t r;
	int i;

	while (st->record_at < SR_RECORD_LEN) {
		r = sr_anchor_write(st, st->tx.record + st->record_at,
				    SR_RECORD_LEN - st->record_at);
		if (r <= 0)
			goto stop;
		st->record_at += (unsigned)r;
	}
	do {
		size_t n = st->tx_link->ops->tx_retained(st->tx_link,
							 st->tx.at, v);
		for (i = 0; i < 2 && n; i++) {
			if (!v[i].iov_len)
				continue;
			r = sr_anchor_write(st, v[i].iov_base, v[i].iov_len);
			if (r <= 0)
				goto stop;
			todo = sr_tx_resent(&st->tx, (uint64_t)r);
			if ((size_t)r < v[i].iov_len)
				break;
		}
		if (!n && st->tx.at < st->tx.w) {
			tx_failed(st);	/* cannot be: retention is broken */
			return false;
		}
		if (!n)
			todo = sr_tx_resent(&st->tx, 0);
	} while (st->tx.state == SR_TX_RESEND);
	sr_debug("%s: tx on TCP again at byte %llu",
		 sr_stream_label(st, (char[128]){ 0 }),
		 (unsigned long long)st->tx.w);
	if (todo & SR_DO_FIN)
		fin(st);
	raw_again(st);
	return false;
stop:
	if (r < 0 && r != -EAGAIN)
		tx_failed(st);
	return false;
}

void sr_tx_progress(struct sr_stream *st)
{
	bool again = true;

	if (!sr_gate_shut(&st->tx_gate) || st->anchor < 0)
		return;
	if (st->tx_link)
		st->tx_link->ops->poll(st->tx_link);
	while (again) {
		switch (st->tx.state) {
		case SR_TX_WAIT:
			again = progress_wait(st);
			break;
		case SR_TX_LINK:
			again = progress_link(st);
			break;
		case SR_TX_RESEND:
			again = progress_resend(st);
			break;
		default:
			again = false;
		}
	}
}

/* The gate is shut and tx_next is a link to go to. */
void sr_tx_start(struct sr_stream *st)
{
	struct sr_msg msg = { .type = SR_MSG_SWITCH };
	struct sr_link *link = st->tx_next;

	st->tx_next = NULL;
	sr_st_set(st, SR_ST_TX_HISTORY);
	if (!sr_anchor_tx_agrees(st)) {
		sr_stream_bar(st, SR_REASON_COUNTERS);
		link->ops->drop(link, "counters");
		goto out;
	}
	if (sr_tx_want(&st->tx, link->link_no, st->tx_next_token, -1,
		       &msg.sw) < 0)
		goto out;
	if (link->ops->ctl(link, &msg) < 0) {
		if (sr_tx_leave(&st->tx) & SR_DO_FIN)
			fin(st);
		goto out;
	}
	st->tx_link = link;
	st->tx_n = st->tx.w;
	st->record_at = 0;
	st->tx_wait_since = sr_now_ns();
	sr_stream_kick(st);
	return;
out:
	sr_link_put(link);
	sr_tx_gate_open(st);
	sr_stream_kick(st);
}

void sr_tx_on_send(struct sr_stream *st)
{
	if (!atomic_load_explicit(&st->tx_on_send, memory_order_relaxed))
		return;
	pthread_mutex_lock(&st->tx_lock);
	if (st->tx_on_send)
		sr_tx_try_start(st);
	pthread_mutex_unlock(&st->tx_lock);
}

void sr_tx_try_start(struct sr_stream *st)
{
	st->tx_on_send = false;
	if (!st->tx_next) {
		atomic_fetch_and(&st->tx_gate, ~SR_GATE_WANT);
		return;
	}
	if (sr_gate_shut(&st->tx_gate))
		return;
	if ((sr_link_events(st->tx_next) & SR_LINK_DEAD) ||
	    (sr_st_flags(st) & (SR_ST_HALF | SR_ST_BARRED))) {
		sr_link_put(st->tx_next);
		st->tx_next = NULL;
		atomic_fetch_and(&st->tx_gate, ~SR_GATE_WANT);
		return;
	}
	if (sr_tx_gate_shut(st))
		sr_tx_start(st);
}

/* ---- receiver ---- */

void sr_stream_broke(struct sr_stream *st, int err)
{
	int none = 0;

	if (!st->rx_rst_seen && !atomic_load(&st->error_asked))
		atomic_compare_exchange_strong(&st->so_error, &none, err);
	sr_stream_failed(st, -err);
	pthread_mutex_lock(&st->tx_lock);
	st->broken = true;
	pthread_mutex_unlock(&st->tx_lock);
	sr_stream_notify(st, SR_NOTIFY_RX | SR_NOTIFY_TX);
	sr_stream_kick(st);
}

static uint64_t head(struct sr_stream *st)
{
	return st->rx_link ? atomic_load(&st->rx_link->rx_h) : st->rx.rx;
}

static void spill(struct sr_stream *st, const uint8_t *buf, size_t n)
{
	/* At most a record's worth can be held, and it is taken out before
	 * anything more is read at a mark. */
	if (!n)
		return;
	if (st->spill_at) {
		memmove(st->spill, st->spill + st->spill_at, st->spill_len);
		st->spill_at = 0;
	}
	if (st->spill_len + n > sizeof(st->spill))
		n = sizeof(st->spill) - st->spill_len;
	memcpy(st->spill + st->spill_len, buf, n);
	st->spill_len += (unsigned)n;
}

static void do_rx(struct sr_stream *st, unsigned todo)
{
	struct sr_msg msg = { .type = SR_MSG_ACKEND };

	if ((todo & SR_DO_DROP) && st->rx_link)
		st->rx_link->ops->drop(st->rx_link, "peer-dropped");
	if ((todo & SR_DO_ACKEND) && st->rx_link)
		st->rx_link->ops->ctl(st->rx_link, &msg);
}

/* END, and whether it is over; called whenever h, rx or TCP's end moved. */
static void settle(struct sr_stream *st)
{
	enum sr_rx_state before = st->rx.state;

	if (before == SR_RX_LINK && st->rx_link && !st->rx.end &&
	    (sr_link_events(st->rx_link) & SR_LINK_END) &&
	    sr_rx_end(&st->rx, st->rx_link->peer_end, head(st)) < 0)
		st->rx_link->ops->drop(st->rx_link, "protocol");
	do_rx(st, sr_rx_settle(&st->rx, head(st)));
	if (st->rx.state == before)
		return;
	if (st->rx.state == SR_RX_RESET)
		sr_stream_broke(st, ECONNRESET);
	else
		sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
}

static void tcp_end(struct sr_stream *st, bool reset)
{
	uint8_t out[SR_RECORD_LEN];
	bool ended = st->rx.state == SR_RX_EOF;

	st->rx_fin_seen = true;
	/* What the peer had put on the link before. */
	if (st->rx_link)
		st->rx_link->ops->poll(st->rx_link);
	spill(st, out, sr_rx_fin(&st->rx, reset, head(st), out));
	if (st->rx.state == SR_RX_RESET)
		sr_stream_broke(st, ECONNRESET);
	if (st->rx.state == SR_RX_LINK && reset) {
		/* What is unread comes first, but the program learns of it. */
		int none = 0;

		atomic_compare_exchange_strong(&st->so_error, &none, ECONNRESET);
		st->rx_rst_seen = true;
		sr_stream_notify(st, SR_NOTIFY_TX | SR_NOTIFY_RX);
	}
	settle(st);
	if (!ended)	/* else no news */
		sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
}

/* Counts what the report calls switches.  An answerer's own direction may follow the
 * asker's mark, see attach.c. */
static void rx_moved(struct sr_stream *st, enum sr_rx_state before)
{
	if (before == SR_RX_EXPECT && st->rx.state == SR_RX_LINK) {
		st->rx_switches++;
		if (st->tx_next)
			st->tx_on_send = true;
		if (st->rx_link)
			had(st, st->rx_link);
	}
	if (before == SR_RX_LINK && st->rx.state == SR_RX_RAW)
		st->rx_switches++;
}

/* Bytes from the kernel, in place: what is the program's moves to the front.
 * The writing cursor never overtakes the reading one, as nothing was held when
 * the call came back (nobody else reads the anchor meanwhile). */
size_t sr_rx_strip(struct sr_stream *st, struct sr_rx *rx,
		   const struct iovec *iov, size_t iovlen, size_t n)
{
	uint8_t in[1024], out[sizeof(in) + SR_RECORD_LEN];
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
				sr_stream_broke(st, ECONNRESET);
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

/* On the link only a record or TCP's end can come by the anchor, which need not
 * be seen at once: while the loop watches for it, program threads spare the
 * system call.  Who waits for a mark looks. */
static bool left_to_loop(struct sr_stream *st)
{
	return st->rx.state == SR_RX_LINK &&
	       (atomic_load(&st->watched) & EPOLLIN);
}

/* The next bytes on TCP are mark or record: read them, never beyond. */
static void read_record(struct sr_stream *st)
{
	while (sr_rx_at_mark(&st->rx) && !st->rx_fin_seen) {
		uint8_t in[SR_RECORD_LEN], out[2 * SR_RECORD_LEN];
		size_t want = sr_rx_limit(&st->rx);
		enum sr_rx_state before = st->rx.state;
		unsigned todo = 0;
		ssize_t r, n;

		if (want > sizeof(in))
			want = sizeof(in);
		r = sr_anchor_read(st, in, want, 0);
		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0) {
			tcp_end(st, r < 0);
			return;
		}
		n = sr_rx_tcp(&st->rx, in, (size_t)r, out, &todo);
		do_rx(st, todo);
		rx_moved(st, before);
		if (n < 0) {
			sr_warn("%s: bad record from the peer",
				sr_stream_label(st, (char[128]){ 0 }));
			sr_stream_broke(st, ECONNRESET);
			return;
		}
		spill(st, out, (size_t)n);
		sr_stream_notify(st, SR_NOTIFY_RX);
		sr_stream_kick(st);
	}
}

/*
 * RAW after RESUME: drops what the program has had already, and sees whether all
 * that the sender owes up to m has reached the kernel.  Then a FIN can only come
 * after it, and the kernel can be left alone with the descriptor.
 */
static void catch_up(struct sr_stream *st)
{
	uint8_t buf[4096];
	unsigned todo;
	int queued, err = errno;

	while (st->rx.dup) {
		size_t n = st->rx.dup < sizeof(buf) ? st->rx.dup : sizeof(buf);
		ssize_t r = sr_anchor_read(st, buf, n, 0);

		if (r == 0)
			tcp_end(st, false);
		if (r <= 0)
			return;
		sr_rx_tcp(&st->rx, buf, (size_t)r, buf, &todo);
	}
	if (st->rx.rx < st->rx.m &&
	    sr_real.ioctl(st->anchor, SIOCINQ, &queued) == 0 &&
	    (uint64_t)queued >= st->rx.m - st->rx.rx)
		st->rx.m = st->rx.rx;
	errno = err;
}

/* While the gate is shut the anchor must wake the loop for every byte; how many
 * the program waits for is ours to count. */
static void lowat(struct sr_stream *st, int n)
{
	if (sr_st_flags(st) & SR_ST_LOWAT)
		sr_real.setsockopt(st->anchor, SOL_SOCKET, SO_RCVLOWAT, &n,
				   sizeof(n));
}

static void rx_raw_again(struct sr_stream *st)
{
	struct sr_link *link = st->rx_link;

	st->rx_link = NULL;
	if (link)
		sr_link_put(link);
	sr_debug("%s: rx on TCP again at byte %llu",
		 sr_stream_label(st, (char[128]){ 0 }),
		 (unsigned long long)st->rx.rx);
	if (sr_st_flags(st) & SR_ST_RDSHUT)
		sr_real.shutdown(st->anchor, SHUT_RD);
	if (!sr_gate_shut(&st->tx_gate))
		sr_option_keepalive(st, false);
	lowat(st, st->rcvlowat);
	sr_rx_gate_open(st);
	sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
}

void sr_rx_progress(struct sr_stream *st)
{
	bool alone;

	if (!sr_gate_shut(&st->rx_gate) || st->anchor < 0)
		return;
	if (st->rx_link)
		st->rx_link->ops->poll(st->rx_link);
	alone = !(atomic_load(&st->rx_gate) & SR_GATE_COUNT);
	if (alone && !left_to_loop(st))
		read_record(st);
	settle(st);
	if (atomic_load(&st->want_back) && st->rx_link)
		st->rx_link->ops->drop(st->rx_link, "peer-dropped");
	if (alone && st->rx.state == SR_RX_RAW)
		catch_up(st);
	/* Below m a FIN is no end of file, which only the slow way knows. */
	if (alone && st->rx.state == SR_RX_RAW && !st->rx.dup &&
	    st->rx.rx >= st->rx.m && !st->spill_len && !st->rx_fin_seen)
		rx_raw_again(st);
}

/*
 * Bytes before N that the program has yet to read: a mark behind them would have
 * to be read by whoever the descriptor is handed to, who does not know what it is.
 * So the ACKSW waits for the program (PROTOCOL.md, 16).
 */
static bool ahead(struct sr_stream *st, uint64_t n)
{
	if (!sr_gate_shut(&st->rx_gate)) {
		uint64_t due = n - (uint64_t)st->rx_delta;

		atomic_store(&st->rx_due, due);
		st->rx_short = due - atomic_load(&st->rx_tcp);
		return atomic_load(&st->rx_tcp) < due;
	}
	st->rx_short = n - st->rx.rx;
	return n > st->rx.rx + st->rx.part || st->spill_len || st->rx.dup;
}

bool sr_rx_take_switch(struct sr_stream *st, struct sr_link *link, bool proven)
{
	uint8_t out[SR_RECORD_LEN];
	struct sr_msg ack = { .type = SR_MSG_ACKSW };
	bool was_open = !sr_gate_shut(&st->rx_gate);
	unsigned todo;
	size_t n = 0;

	if (was_open && (sr_st_flags(st) & SR_ST_RDSHUT)) {
		sr_stream_bar(st, SR_REASON_SHORT);
		link->ops->drop(link, "short");
		return true;
	}
	if (ahead(st, link->peer_switch.n))
		return false;
	if (was_open && !sr_rx_gate_shut(st))
		return false;		/* several asleep */
	if (was_open && !sr_anchor_rx_agrees(st)) {
		/* Or one in flight has read and not booked yet: look again. */
		bool busy = atomic_load(&st->rx_gate) & SR_GATE_COUNT;

		if (!busy) {
			sr_stream_bar(st, SR_REASON_COUNTERS);
			link->ops->drop(link, "counters");
		}
		sr_rx_gate_reopen(st);
		return !busy;
	}
	sr_st_set(st, SR_ST_RX_HISTORY);
	todo = sr_rx_switch(&st->rx, &link->peer_switch, st->token, proven,
			    out, &n);
	spill(st, out, n);
	if (todo & SR_DO_LATER)
		return false;
	if (todo & SR_DO_DROP) {
		bool passed = sr_rx_passed(&st->rx, &link->peer_switch);

		link->ops->drop(link, passed ? "peer-dropped" : "protocol");
		if (was_open)
			sr_rx_gate_reopen(st);
		return true;
	}
	if (st->rx_link)
		sr_link_put(st->rx_link);
	st->rx_link = sr_link_get(link);
	lowat(st, 1);
	link->ops->ctl(link, &ack);
	return true;
}
