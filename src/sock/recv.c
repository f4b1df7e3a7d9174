/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * recv.c - the receiving calls.  It owns the receiving side of recv(2) and its
 * relatives on one stream, and knows no kind of link but through link.h.
 *
 * While the rx gate is open, a call is the kernel's own recvmsg() and may sleep
 * in the kernel; recv_plain() strips what a switch has put into the buffer
 * meanwhile.  While the gate is shut, or for a flag with which the kernel must
 * not sleep for us (MSG_WAITALL, MSG_TRUNC), recv_slow() loops over tries and
 * waits.
 *
 * Locks: rx_lock for everything behind a shut gate; none while the gate is
 * open.
 */
#include "base/real.h"

#include <errno.h>
#include <netinet/in.h>

#include "base/log.h"
#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "engine/iov.h"
#include "upgrade/upgrade.h"
#include "wait/poll.h"
#include "wait/sleep.h"
#include "sock/sock.h"

static bool is_simple(const struct msghdr *msg)
{
	return msg->msg_iovlen == 1 && !msg->msg_control && !msg->msg_name;
}

/* Sets what recvmsg(2) on TCP returns besides the bytes: no name and no control
 * messages.  A call that fails leaves the fields alone. */
static void no_ancillary(struct msghdr *msg, int flags)
{
	if (msg->msg_name)
		msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
}

/* A call that does not block is made while signals are held off, and must be no
 * cancellation point. */
static ssize_t kernel_recv(int fd, struct msghdr *msg, int flags)
{
	bool now = flags & MSG_DONTWAIT;
	ssize_t r;

	if (!is_simple(msg)) {
		r = now ? sr_now_recvmsg(fd, msg, flags) :
			  sr_real.recvmsg(fd, msg, flags);
	} else {
		void *buf = msg->msg_iov->iov_base;
		size_t n = msg->msg_iov->iov_len;

		r = now ? sr_now_recv(fd, buf, n, flags) :
			  sr_real.recv(fd, buf, n, flags);
		if (r >= 0)
			no_ancillary(msg, flags);
	}
	return r < 0 ? -errno : r;
}

/* Turns the result of a plain receive into what the program gets.  A result
 * of 0 is TCP's end, or means an error that a write of ours took from the
 * socket; for an empty buffer it means nothing. */
static ssize_t end_or_error(struct sr_stream *st, const struct msghdr *msg,
			    ssize_t r)
{
	int err;

	if (r < 0)
		sr_stream_failed(st, r);
	/* The program gets this reset now, so a copy that a write of ours kept
	 * (to be reported as EPIPE) is no longer due. */
	if (r == -ECONNRESET && sr_anchor_kept(st))
		atomic_store(&st->so_error, 0);
	if (r == 0 && sr_iov_make(msg->msg_iov, msg->msg_iovlen).left &&
	    sr_rx_short(st))
		return -ECONNRESET;
	if (r != 0 || !sr_anchor_kept(st))
		return r;
	err = atomic_exchange(&st->so_error, 0);
	return err ? -err : 0;
}

/* The gate was shut during this call, which was the only one in flight.  So
 * this call updates rx under the lock before it leaves the gate.  booked: the
 * bytes are raw and already counted, because the gate was still open when the
 * kernel returned, and no mark comes before the ACKSW that follows the
 * shutting. */
static ssize_t returned_late(struct sr_stream *st, struct msghdr *msg,
			     int flags, ssize_t r, unsigned weight, bool booked)
{
	bool peek = flags & MSG_PEEK;
	struct sr_rx copy, *rx = peek ? &copy : &st->rx;

	sr_lock(&st->rx_lock);
	st->rx.rx = atomic_load(&st->in.tcp) + (uint64_t)st->in.delta;
	if (!booked && r > 0) {
		if (!peek)
			atomic_fetch_add(&st->in.tcp, (uint64_t)r);
		copy = st->rx;
		r = (ssize_t)sr_rx_strip(st, rx, msg->msg_iov, msg->msg_iovlen,
					 (size_t)r);
	}
	atomic_fetch_sub(&st->in.gate, weight);
	sr_rx_progress(st);
	sr_unlock(&st->rx_lock);
	sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
	return r;
}

/* Wakes the service thread if the bytes that a pending SWITCH waits for have
 * been read. */
static void note_due(struct sr_stream *st, uint64_t now)
{
	uint64_t due = atomic_load_explicit(&st->in.due, memory_order_relaxed);

	if (due && now >= due)
		sr_stream_kick(st);
}

/* A call that is within the gate. */
struct passage {
	struct sr_stream *st;
	struct msghdr *msg;
	int flags;
	unsigned weight;
};

/* Books what the kernel has returned, r, and leaves the gate.  The result, and
 * *again, are those of recv_plain(). */
static ssize_t returned(const struct passage *p, ssize_t r, bool *again)
{
	struct sr_stream *st = p->st;
	struct msghdr *msg = p->msg;
	unsigned weight = p->weight;
	int flags = p->flags;
	bool booked = false;

	if (!sr_gate_shut(&st->in.gate)) {
		booked = true;
		if (r > 0 && !(flags & MSG_PEEK)) {
			if (flags & MSG_TRUNC)
				sr_st_set(st, SR_ST_RX_HISTORY);
			sr_stream_history_add(st, &st->in.history, SR_ST_RX_HISTORY,
					      msg, (size_t)r);
			note_due(st, atomic_fetch_add(&st->in.tcp, (uint64_t)r) +
					     (uint64_t)r);
		}
		*again = false;
		if (sr_rx_gate_leave(st, weight))
			return end_or_error(st, msg, r);
	}
	*again = r == 0;
	r = returned_late(st, msg, flags, r, weight, booked);
	*again |= r == 0;
	if (r < 0 && !*again)
		sr_stream_failed(st, r);
	return r ? r : -EAGAIN;
}

/* A signal handler has left the call by siglongjmp(3), or the thread is cancelled.
 * Bytes that the kernel had put into the buffer by then are lost to the program, as
 * with TCP, but a mark among them must be seen. */
static void abandoned(void *passage)
{
	const struct passage *p = passage;
	ssize_t r = (ssize_t)sr_anchor_unbooked(p->st, p->weight);
	bool again;

	if (!r || (size_t)r > sr_iov_make(p->msg->msg_iov, p->msg->msg_iovlen).left)
		r = -EINTR;
	returned(p, r, &again);
}

/* The window lets signal handlers run, as this call may sleep. */
SR_WINDOW_FRAME
static ssize_t kernel_recv_asleep(struct passage *p, int fd)
{
	struct sr_window w;
	ssize_t r;

	sr_window_open(&w, abandoned, p);
	r = kernel_recv(fd, p->msg, p->flags);
	sr_window_close(&w);
	return r;
}

/* Receives through the open gate.  Sets *again if the gate is shut, or was shut
 * meanwhile and there is nothing to return yet (only a mark, or an end of file
 * that has to be examined): the slow path must go on. */
SR_WINDOW_FRAME
static ssize_t recv_plain(struct sr_stream *st, int fd, struct msghdr *msg,
			  int flags, unsigned weight, bool *again)
{
	struct passage here = { st, msg, flags, weight };
	ssize_t r;

	*again = true;
	/* A second reader waits in recv_slow(), where it can be woken. */
	if (!sr_rx_gate_enter(st, weight, flags & MSG_DONTWAIT))
		return -EAGAIN;
	r = flags & MSG_DONTWAIT ? kernel_recv(fd, msg, flags) :
				   kernel_recv_asleep(&here, fd);
	return returned(&here, r, again);
}

/* Copies up to n bytes of the ring to the program. */
static size_t copy_ring(struct sr_link *link, size_t n, struct sr_iov *to,
			int flags)
{
	size_t done = 0;
	struct iovec v[2];

	/* It takes several rounds if the ring has wrapped and has grown. */
	while (done < n && to->left && link->ops->rx_data(link, done, v)) {
		int i;

		for (i = 0; i < 2 && done < n && to->left; i++) {
			size_t k = v[i].iov_len < n - done ? v[i].iov_len :
							     n - done;

			if (flags & MSG_TRUNC) {
				k = k < to->left ? k : to->left;
				sr_iov_advance(to, k);
			} else {
				k = sr_iov_fill(to, v[i].iov_base, k);
			}
			done += k;
		}
		if (!(flags & MSG_PEEK))
			break;	/* rx_free() may free the old ring */
	}
	return done;
}

/* The bytes of the ring that the program may have.  rx is the stream's, or a
 * copy in which the mark has been read already. */
static size_t ring_bytes(struct sr_stream *st, const struct sr_rx *rx)
{
	return st->in.link ? (size_t)sr_rx_ready(rx,
				atomic_load(&st->in.link->rx_h)) : 0;
}

/* Copies all that the ring has and the program asked for: by epoll(7), a read
 * from an edge-triggered descriptor that returns less than was asked for has
 * drained it, and programs (nginx) wait for an edge then.  rx_lock held. */
static ssize_t take_ring(struct sr_stream *st, struct sr_iov *to, int flags)
{
	struct sr_link *link = st->in.link;
	size_t n, done, total = 0;

	while (to->left && (n = ring_bytes(st, &st->rx))) {
		done = copy_ring(link, n, to, flags);
		if (!done)
			break;
		sr_rx_took(&st->rx, done);
		st->in.way[sr_way_of(link)] += done;
		link->ops->rx_free(link, done);
		total += done;
	}
	return (ssize_t)total;
}

/* Drops what has arrived, as no program will read it.  rx_lock held. */
void sr_stream_discard(struct sr_stream *st)
{
	struct sr_link *link = st->in.link;
	struct iovec v[2];
	size_t n;

	st->in.pushback_len = 0;
	while (ring_bytes(st, &st->rx) && (n = link->ops->rx_data(link, 0, v))) {
		sr_rx_took(&st->rx, n);
		st->in.way[sr_way_of(link)] += n;
		link->ops->rx_free(link, n);
	}
	sr_rx_progress(st);
}

/* Returns -EAGAIN, so that the caller looks at the new state. */
static ssize_t raw_end(struct sr_stream *st)
{
	sr_rx_tcp_end(st, false);
	return -EAGAIN;
}

/* Reads raw bytes from the anchor while the gate is shut.  rx_lock held. */
static ssize_t take_raw(struct sr_stream *st, struct sr_iov *to, int flags)
{
	size_t limit = sr_rx_limit(&st->rx), bytes;
	struct iovec v[16];
	struct msghdr msg = { .msg_iov = v };
	ssize_t r;

	msg.msg_iovlen = sr_iov_rest(*to, limit, v, 16, &bytes);
	if (!bytes)
		return 0;
	r = sr_now_recvmsg(st->anchor, &msg, flags & MSG_TRUNC);
	if (r < 0)
		return -errno;
	if (r == 0)
		return raw_end(st);
	atomic_fetch_add(&st->in.tcp, (uint64_t)r);
	r = (ssize_t)sr_rx_strip(st, &st->rx, v, msg.msg_iovlen, (size_t)r);
	sr_iov_advance(to, (size_t)r);
	return r ? r : -EAGAIN;
}

#define PIECES 15		/* of the program's buffer that MSG_PEEK fills */

/* MSG_PEEK of raw bytes, and of the ring's if the mark already follows the raw
 * bytes.  Nothing is consumed: rx is a copy that runs ahead, and the mark is
 * peeked into a buffer of our own. */
static ssize_t peek_raw(struct sr_stream *st, struct sr_rx *rx,
			struct sr_iov *to, int flags)
{
	uint8_t mark[SR_RECORD_LEN], out[2 * SR_RECORD_LEN];
	size_t limit = sr_rx_limit(rx), n, bytes, raw;
	struct iovec v[PIECES + 1];
	struct msghdr msg = { .msg_iov = v };
	unsigned todo = 0;
	ssize_t r;

	if (sr_rx_at_mark(rx))
		return -EAGAIN;
	n = sr_iov_rest(*to, limit, v, PIECES, &bytes);
	v[n] = (struct iovec){ mark, sizeof(mark) };
	msg.msg_iovlen = n + (bytes == limit);
	r = sr_now_recvmsg(st->anchor, &msg, MSG_PEEK);
	if (r <= 0)
		return r < 0 ? -errno : raw_end(st);
	raw = (size_t)r < bytes ? (size_t)r : bytes;
	r -= (ssize_t)raw;
	raw = sr_rx_strip(st, rx, v, n, raw);
	sr_iov_advance(to, raw);
	if (r > 0 && sr_rx_tcp(rx, mark, (size_t)r, out, &todo) == 0)
		raw += copy_ring(st->in.link, ring_bytes(st, rx), to, flags);
	return raw ? (ssize_t)raw : -EAGAIN;
}

static size_t copy_pushback(struct sr_stream *st, struct sr_iov *to, int flags)
{
	size_t k = sr_iov_fill(to, st->in.pushback + st->in.pushback_at,
			       st->in.pushback_len);

	if (!(flags & MSG_PEEK)) {
		st->in.pushback_at += (unsigned)k;
		st->in.pushback_len -= (unsigned)k;
	}
	return k;
}

/* Peeks at all that there is, from TCP and the link, as from one buffer. */
static ssize_t peek(struct sr_stream *st, struct sr_iov *to, int flags)
{
	bool late = (atomic_load(&st->in.gate) & SR_GATE_COUNT) ||
		    st->in.fin_seen;
	size_t done = copy_pushback(st, to, flags);
	struct sr_rx rx = st->rx;
	ssize_t r = 0;

	if (rx.state == SR_RX_LINK)
		r = (ssize_t)copy_ring(st->in.link, ring_bytes(st, &rx), to,
				       flags);
	else if ((rx.state == SR_RX_RAW || rx.state == SR_RX_EXPECT) && !late)
		r = peek_raw(st, &rx, to, flags);
	return r < 0 && !done ? r : (ssize_t)done + (r > 0 ? r : 0);
}

/* After shutdown(SHUT_RD) an empty stream is at its end. */
static ssize_t no_bytes(struct sr_stream *st)
{
	return sr_st_flags(st) & SR_ST_RDSHUT ? 0 : -EAGAIN;
}

/* Tries once, under the lock.  Returns > 0, 0 at the end, -EAGAIN, or an error. */
static ssize_t take_slow(struct sr_stream *st, struct sr_iov *to, int flags)
{
	ssize_t r;
	int tries;

	for (tries = 0; tries < 3; tries++) {
		sr_rx_progress(st);
		if (flags & MSG_PEEK) {
			r = peek(st, to, flags);
			if (r && r != -EAGAIN)
				return r;
		}
		if (st->in.pushback_len) {
			r = (ssize_t)copy_pushback(st, to, flags);
			if (st->rx.state == SR_RX_LINK && !(flags & MSG_PEEK))
				r += take_ring(st, to, flags);
			return r;
		}
		switch (st->rx.state) {
		case SR_RX_RAW:
		case SR_RX_EXPECT:
			if ((atomic_load(&st->in.gate) & SR_GATE_COUNT) ||
			    st->in.fin_seen || sr_rx_at_mark(&st->rx) ||
			    (flags & MSG_PEEK))
				r = -EAGAIN;
			else
				r = take_raw(st, to, flags);
			if (r != -EAGAIN)
				return r;
			if (!st->in.fin_seen)
				return no_bytes(st);
			break;
		case SR_RX_LINK:
			r = flags & MSG_PEEK ? 0 : take_ring(st, to, flags);
			if (r) {
				sr_rx_progress(st);
				return r;
			}
			if (st->rx.state == SR_RX_LINK)
				return no_bytes(st);
			break;
		case SR_RX_EOF:
			return 0;
		default:
			r = atomic_exchange(&st->so_error, 0);
			return -r;
		}
	}
	return -EAGAIN;
}

/* The fast path: the ring has more than the program asks for.  Then no event of
 * the link, of TCP or of the service thread can come before these bytes, and
 * the peer's page need not be read. */
static ssize_t take(struct sr_stream *st, struct sr_iov *to, int flags)
{
	bool plenty = !st->in.pushback_len && !(flags & MSG_PEEK) &&
		      ring_bytes(st, &st->rx) > to->left;

	return plenty ? take_ring(st, to, flags) : take_slow(st, to, flags);
}

static ssize_t recv_try(struct sr_stream *st, int fd, struct sr_iov *to,
			int flags, unsigned weight)
{
	struct iovec v[16];
	struct msghdr msg = { .msg_iov = v };
	struct sr_iov before = *to;
	size_t bytes;
	bool again;
	ssize_t r;

	if (sr_gate_shut(&st->in.gate)) {
		sr_lock(&st->rx_lock);
		if (sr_gate_shut(&st->in.gate)) {
			r = take(st, to, flags);
			if (flags & MSG_PEEK)
				*to = before;
			sr_unlock(&st->rx_lock);
			return r;
		}
		sr_unlock(&st->rx_lock);
	}
	msg.msg_iovlen = sr_iov_rest(*to, SIZE_MAX, v, 16, &bytes);
	r = recv_plain(st, fd, &msg, (flags & ~MSG_WAITALL) | MSG_DONTWAIT,
		       weight, &again);
	if (r > 0 && !(flags & MSG_PEEK))
		sr_iov_advance(to, (size_t)r);
	return r;
}

/* Receives into an empty buffer.  The kernel's tcp_recvmsg() waits for bytes in
 * this case too, but once: whether a signal, the timeout or a reset ends the
 * wait, it returns 0. */
static int recv_none(struct sr_stream *st, struct sr_sleep *sleep)
{
	struct pollfd p = { .fd = sleep->fd, .events = POLLIN };
	const struct timespec at_once = { 0, 0 };
	int r = sr_streams_poll(&p, 1, &at_once, NULL, NULL);

	if (r > 0)
		return sr_stream_rx(st) == SR_RX_RESET ?
			       -atomic_exchange(&st->so_error, 0) : 0;
	if (!sr_sleep_allowed(st, sleep))
		return -EAGAIN;
	sleep->partial = true;
	r = sr_sleep(st, sleep, POLLIN);
	return r == -EINTR || r == -EAGAIN ? 0 : r;
}

void sr_stream_keep(struct sr_stream *st, ssize_t r)
{
	/* EBADF is about the descriptor of this call; the stream may have others. */
	if (r != -EAGAIN && r != -EINTR && r != -EBADF)
		atomic_store(&st->so_error, (int)-r);
}

static ssize_t recv_slow(struct sr_stream *st, struct sr_sleep *sleep,
			 struct msghdr *msg, int flags, unsigned weight)
{
	struct sr_iov to = sr_iov_make(msg->msg_iov, msg->msg_iovlen);
	bool all = (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
	bool simple = !(flags & (MSG_PEEK | MSG_WAITALL | MSG_TRUNC));
	ssize_t got = 0, r;

	if (!to.left)
		return recv_none(st, sleep);
	for (;;) {
		r = recv_try(st, sleep->fd, &to, flags, weight);
		if (r > 0) {
			got += r;
			if (!all || !to.left)
				return got;
			continue;
		}
		if (r != -EAGAIN)
			break;
		if (got && !all)
			break;
		sleep->partial = got > 0;
		r = sr_sleep(st, sleep, POLLIN);
		if (r < 0)
			break;
		if (!simple || !sr_rx_is_fast(st))
			continue;
		got = (ssize_t)sr_fast_take(st, sleep->fd, msg->msg_iov,
					    msg->msg_iovlen);
		if (got)
			return got;
	}
	if (got && r < 0)
		sr_stream_keep(st, r);
	return got ? got : r;
}

static ssize_t receive(struct sr_stream *st, int fd, struct msghdr *msg,
		       int flags)
{
	unsigned special = (unsigned)flags & (MSG_WAITALL | MSG_TRUNC);
	unsigned weight = flags & MSG_TRUNC ? SR_GATE_BLIND : 1;
	struct sr_sleep sleep = sr_sleep_begin(fd, flags, SO_RCVTIMEO);
	bool again;
	ssize_t r;

	if (!special && !sr_gate_shut(&st->in.gate)) {
		const struct msghdr asked = *msg;

		r = recv_plain(st, fd, msg, flags, weight, &again);
		if (!again) {
			if (r > 0)
				sr_upgrade_count(st);
			return r;
		}
		/* The kernel may have returned a mark and no bytes. */
		msg->msg_namelen = asked.msg_namelen;
		msg->msg_controllen = asked.msg_controllen;
		msg->msg_flags = asked.msg_flags;
	}
	if (!sr_iov_valid(msg->msg_iov, msg->msg_iovlen))
		return -EINVAL;
	r = recv_slow(st, &sleep, msg, flags, weight);
	if (r >= 0)
		no_ancillary(msg, flags);
	if (r > 0 && !sr_gate_shut(&st->in.gate))
		sr_upgrade_count(st);
	return r;
}

/* MSG_PEEK with MSG_WAITALL on a blocking descriptor.  Peeked bytes stay in the
 * queue, so poll() cannot detect that more have arrived; the kernel has to wait
 * for them. */
static bool peeks_for_all(struct sr_stream *st, int fd, int flags)
{
	struct sr_sleep sleep = { .fd = fd, .flags = flags };

	return (flags & MSG_PEEK) && (flags & MSG_WAITALL) &&
	       sr_sleep_allowed(st, &sleep);
}

ssize_t sr_stream_recv(struct sr_stream *st, int fd, struct msghdr *msg,
		       int flags)
{
	ssize_t r;

	pthread_testcancel(); /* also on paths without a system call */
	if ((flags & (MSG_OOB | MSG_ERRQUEUE)) ||
	    peeks_for_all(st, fd, flags) ||
	    (msg->msg_controllen && (sr_st_flags(st) & SR_ST_STAMPS))) {
		sr_stream_plain(st, fd, SR_REASON_OPTION);
		r = kernel_recv(fd, msg, flags);
		if (r > 0 && !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)))
			atomic_fetch_add(&st->in.tcp, (uint64_t)r);
		return r;
	}
	sr_guest_use(st, SR_NOTIFY_RX);
	sr_upgrade_used(st);
	sr_hold();
	r = receive(st, fd, msg, flags);
	sr_release();
	return r;
}
