/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * recv.c - the receiving calls.  It owns the receiving side of recv(2) and its
 * relatives on one stream, and knows no kind of link but through link.h.
 *
 * While the rx gate is open, a call is the kernel's own recvmsg() and may sleep
 * in the kernel.  If a switch happens meanwhile, recv_plain() strips the mark and the
 * records from the buffer.  While the gate is shut, recv_slow() loops over tries and
 * waits.  It also does so for the rest of a MSG_WAITALL: the kernel does not get that flag,
 * because it would go on sleeping after a mark.
 *
 * Locks: rx_lock for everything behind a shut gate; none while the gate is open.
 */
#include "base/real.h"

#include <errno.h>
#include <netinet/tcp.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "engine/iov.h"
#include "epoll/epoll.h"
#include "upgrade/upgrade.h"
#include "wait/sleep.h"
#include "sock/sock.h"

/* A call that does not block is made while signals are held off, and must not be a
 * cancellation point.  If a reset comes after the peer's end, the kernel keeps the error EPIPE.
 * A receiver sees it only if the library has disconnected the socket since: otherwise the end
 * is reported first, but Linux's tcp_disconnect() forgets it (SOCK_DONE).  Over TCP alone the
 * error of a receive is ECONNRESET. */
static ssize_t kernel_recv(int fd, struct msghdr *msg, int flags)
{
	ssize_t r = flags & MSG_DONTWAIT ? sr_now_recvmsg(fd, msg, flags) :
					   sr_real.recvmsg(fd, msg, flags);

	if (r >= 0)
		return r;
	return errno == EPIPE ? -ECONNRESET : -errno;
}

/*
 * Receives without blocking, by the anchor.  Once a call has slept, the program's number may
 * name another socket, because another thread may have closed it and got it back from
 * accept(2).  The anchor cannot name another socket under rx_lock: close(2) and dup2(2) take
 * that lock before they give a number of the stream back.
 */
static ssize_t anchor_recv(struct sr_stream *st, struct msghdr *msg, int flags)
{
	ssize_t r;
	int fd;

	sr_lock(&st->rx_lock);
	fd = sr_load(&st->anchor);
	r = fd < 0 ? -EBADF : kernel_recv(fd, msg, flags | MSG_DONTWAIT);
	sr_unlock(&st->rx_lock);
	return r;
}

/* Turns the result of a plain receive into what the program gets.  A result of 0 is
 * TCP's end; or there was an error, which a write of ours has taken from the socket
 * (EPIPE: an error after that end).  For an empty buffer 0 means nothing. */
static ssize_t end_or_error(struct sr_stream *st, const struct msghdr *msg, ssize_t r)
{
	int err;

	if (r < 0)
		sr_stream_failed(st, r);
	/* The program gets this reset now, so an error that was kept for it is void. */
	if (r == -ECONNRESET) {
		if (sr_gate_shut(&st->out.gate))
			sr_stream_broke(st, ECONNRESET);
		sr_store(&st->err.pending, 0);
	}
	if (r == 0 && sr_iov_make(msg->msg_iov, msg->msg_iovlen).left &&
	    (sr_rx_short(st) || sr_load(&st->in.dropped)))
		return -ECONNRESET;
	if (r != 0 || (err = sr_anchor_kept(st)) == 0 || err == EPIPE)
		return r;
	err = sr_error_take(st);
	return err ? -err : 0;
}

/* The last r bytes of the direction were read from TCP while the gate was shut. */
static void add_slow(struct sr_stream *st, const struct msghdr *msg, ssize_t r)
{
	if (r > 0)
		sr_stream_history_add(st, &st->rare->in, SR_ST_RX_HISTORY,
				      st->rx.rx - (uint64_t)r, msg, (size_t)r);
}

/* The gate was shut during this call, which was the only one in flight.  So
 * this call updates rx under the lock before it leaves the gate.  booked: the gate
 * was still open when the kernel returned, so the bytes are counted already and
 * contain no mark, because a mark comes only after ACKSW, which is sent after the gate
 * was shut. */
static ssize_t returned_late(struct sr_stream *st, struct msghdr *msg, int flags, ssize_t r,
			     bool booked)
{
	bool peek = flags & MSG_PEEK;
	struct sr_rx copy, *rx = peek ? &copy : &st->rx;

	sr_lock(&st->rx_lock);
	st->rx.rx = sr_load(&st->in.tcp) + (uint64_t)st->in.delta;
	if (!booked && r > 0) {
		if (!peek)
			sr_tcp_received(st, r);
		copy = st->rx;
		r = (ssize_t)sr_rx_strip(st, rx, msg->msg_iov, msg->msg_iovlen,
					 (size_t)r);
		if (!peek)
			add_slow(st, msg, r);
	}
	/* Pairs with sr_gate_calls(). */
	atomic_fetch_sub_explicit(&st->in.gate, 1, memory_order_release);
	sr_rx_progress(st);
	sr_unlock(&st->rx_lock);
	sr_stream_notify(st, SR_NOTIFY_RX);
	sr_stream_kick(st);
	return r;
}

/* Wakes the service thread if the bytes that a pending SWITCH waits for have been read.
 * pair due: the caller has changed in.tcp; must_read_before() changes `due'. */
static void note_due(struct sr_stream *st, uint64_t now)
{
	uint64_t due = sr_look(&st->in.due);	/* pair due: must_read_before() */

	if (due && now >= due)
		sr_stream_kick(st);
}

/* A call that has entered the gate. */
struct passage {
	struct sr_stream *st;
	struct msghdr *msg;
	int flags;
};

/* Counts the bytes that the kernel has returned, r, and leaves the gate.  The result, and
 * *again, are those of recv_plain(). */
static ssize_t recv_returned(const struct passage *p, ssize_t r, bool *again)
{
	struct sr_stream *st = p->st;
	struct msghdr *msg = p->msg;
	int flags = p->flags;
	bool booked = false;

	if (!sr_gate_shut(&st->in.gate)) {
		booked = true;
		if (r > 0 && !(flags & MSG_PEEK)) {
			sr_stream_history_add(st, &st->rare->in, SR_ST_RX_HISTORY,
					      sr_load(&st->in.tcp) +
						      (uint64_t)st->in.delta,
					      msg, (size_t)r);
			note_due(st, sr_tcp_received(st, r));
		}
		*again = false;
		if (sr_rx_gate_leave(st))
			return end_or_error(st, msg, r);
	}
	*again = r == 0;
	r = returned_late(st, msg, flags, r, booked);
	*again |= r == 0;
	if (r < 0 && !*again)
		sr_stream_failed(st, r);
	return r ? r : -EAGAIN;
}

/* A signal handler has left the call by siglongjmp(3), or the thread is cancelled.
 * Bytes that the kernel had put into the buffer by then are lost to the program, as
 * with TCP, but a mark among them must be seen. */
static void recv_abandoned(void *passage)
{
	const struct passage *p = passage;
	ssize_t r = (ssize_t)sr_anchor_unbooked_rx(p->st);
	bool again;

	if (!r || (size_t)r > sr_iov_make(p->msg->msg_iov, p->msg->msg_iovlen).left)
		r = -EINTR;
	recv_returned(p, r, &again);
	sr_stream_put(p->st);
}

/* Receives through the open gate.  Sets *again if the slow path must go on: the gate is shut, or
 * was shut meanwhile and there is nothing to return yet.  fd: the number that the program has
 * just passed; -1: the call may have slept since (then MSG_DONTWAIT is set), and the anchor is
 * used.  If the call may sleep, a window lets signal handlers run. */
SR_WINDOW_FRAME
static ssize_t recv_plain(struct sr_stream *st, int fd, struct msghdr *msg, int flags,
			  bool *again)
{
	struct passage here = { st, msg, flags };
	struct sr_window w;
	ssize_t r;

	*again = true;
	/* A second reader waits in recv_slow(), where it can be woken. */
	if (!sr_rx_gate_enter(st, flags & MSG_DONTWAIT))
		return -EAGAIN;
	if (!(flags & MSG_DONTWAIT))
		sr_window_open(&w, recv_abandoned, &here);
	r = fd < 0 ? anchor_recv(st, msg, flags) : kernel_recv(fd, msg, flags);
	if (!(flags & MSG_DONTWAIT))
		sr_window_close(&w);
	return recv_returned(&here, r, again);
}

/* Copies all that the ring has and the program asked for: by epoll(7), a read
 * from an edge-triggered descriptor that returns less than was asked for has
 * drained it, and programs (nginx) wait for an edge then.  rx_lock held. */
static size_t take_ring(struct sr_stream *st, struct sr_iov *to, bool peek)
{
	struct sr_link *link = st->in.link;
	size_t n, done, total = 0;
	struct iovec v[2];

	/* It takes several rounds if the ring has wrapped and has grown. */
	while (to->left && (n = sr_ring_bytes(st) - (peek ? total : 0)) &&
	       link->ops->rx_data(link, peek ? total : 0, v)) {
		done = 0;
		for (int i = 0; i < 2; i++)
			done += sr_iov_fill(to, v[i].iov_base,
					    v[i].iov_len < n - done ? v[i].iov_len :
								      n - done);
		total += done;
		if (!peek) {
			sr_link_received(st, done);
			link->ops->rx_free(link, done);
		}
	}
	return total;
}

/* Reads plain bytes from the anchor while the gate is shut.  No mark can follow them yet,
 * because ACKSW waits until the program has read what comes before the mark.  So a peek, for
 * which rx is a copy of st->rx, need not look beyond them.  -EAGAIN: there are none, or the
 * state has changed.  rx_lock held. */
__attribute__((noinline))
static ssize_t take_raw(struct sr_stream *st, struct sr_rx *rx, struct sr_iov *to)
{
	bool peek = rx != &st->rx;
	struct iovec v[16];
	struct msghdr msg = { .msg_iov = v };
	size_t bytes;
	ssize_t r;

	if (sr_gate_calls(&st->in.gate) || st->in.fin_seen ||
	    sr_rx_at_mark(rx))
		return -EAGAIN;
	msg.msg_iovlen = sr_iov_rest(*to, sr_rx_limit(rx), v, 16, &bytes);
	if (!bytes)
		return -EAGAIN;
	r = kernel_recv(sr_load(&st->anchor), &msg, (peek ? MSG_PEEK : 0) | MSG_DONTWAIT);
	if (r < 0)
		return r;
	if (r == 0) {
		sr_rx_tcp_end(st, false);
		return -EAGAIN;
	}
	if (!peek)
		sr_tcp_received(st, r);
	r = (ssize_t)sr_rx_strip(st, rx, v, msg.msg_iovlen, (size_t)r);
	if (!peek)
		add_slow(st, &msg, r);
	sr_iov_advance(to, (size_t)r);
	return r ? r : -EAGAIN;
}

static size_t copy_pushback(struct sr_stream *st, struct sr_iov *to, bool peek)
{
	size_t k = sr_iov_fill(to, st->in.pushback, st->in.pushback_len);

	if (!peek) {
		st->in.pushback_len -= (unsigned)k;
		memmove(st->in.pushback, st->in.pushback + k, st->in.pushback_len);
	}
	return k;
}

/* Copies what there is; a peek shows all of it, as if it were in one queue.  (When the bytes
 * that were pushed back have been read, the gate opens and sets get an edge.)  rx_lock held. */
static ssize_t recv_copy(struct sr_stream *st, struct sr_iov *to, bool peek)
{
	size_t done = copy_pushback(st, to, peek);
	struct sr_rx seen = st->rx;
	ssize_t r = -EAGAIN;

	if (seen.state == SR_RX_LINK)
		done += take_ring(st, to, peek);
	else if (seen.state <= SR_RX_EXPECT && (peek || !done))
		r = take_raw(st, peek ? &seen : &st->rx, to);
	if (r > 0)
		done += (size_t)r;
	return done ? (ssize_t)done : r;
}

/* Tries once, under the lock.  Returns > 0, 0 at the end, -EAGAIN, or an error. */
__attribute__((noinline))
static ssize_t recv_locked(struct sr_stream *st, struct sr_iov *to, bool peek)
{
	enum sr_rx_state before;
	ssize_t r;

	do {
		before = st->rx.state;
		r = recv_copy(st, to, peek);
	} while (r == -EAGAIN && st->rx.state != before);
	if (r > 0 && !peek)
		sr_rx_progress(st);
	if (r != -EAGAIN)
		return r;
	if (st->rx.state == SR_RX_RESET)
		return -sr_error_take(st);
	if (st->rx.state == SR_RX_EOF) /* dropped: exit() in another thread has dropped bytes */
		return sr_load(&st->in.dropped) ? -ECONNRESET : 0;
	/* After shutdown(SHUT_RD) an empty stream is at its end, but an error comes first. */
	return sr_st_flags(st) & SR_ST_RDSHUT ? -sr_error_take(st) : -EAGAIN;
}

/* (A frame of its own is smaller than one for all of a receive.) */
__attribute__((noinline))
static ssize_t recv_try(struct sr_stream *st, struct sr_iov *to, int flags)
{
	struct iovec v[16];
	struct msghdr msg = { .msg_iov = v };
	struct sr_iov before = *to;
	bool shut = sr_gate_shut(&st->in.gate), again; /* a plain stream takes no lock */
	size_t bytes;
	ssize_t r;

	if (shut) {
		sr_lock(&st->rx_lock);
		sr_rx_progress(st);
		shut = sr_gate_shut(&st->in.gate);
		r = shut ? recv_locked(st, to, flags & MSG_PEEK) : 0;
		sr_unlock(&st->rx_lock);
	}
	if (!shut) {
		msg.msg_iovlen = sr_iov_rest(*to, SIZE_MAX, v, 16, &bytes);
		r = recv_plain(st, -1, &msg, (flags & ~MSG_WAITALL) | MSG_DONTWAIT, &again);
		if (r > 0)
			sr_iov_advance(to, (size_t)r);
	}
	if (flags & MSG_PEEK)
		*to = before;
	return r;
}

void sr_stream_keep(struct sr_stream *st, ssize_t r)
{
	/* EBADF is about the descriptor of this call; the stream may have others. */
	if (r != -EAGAIN && r != -EINTR && r != -EBADF)
		sr_store(&st->err.pending, (int)-r);
}

/* got: bytes that the call has received already. */
static ssize_t recv_slow(struct sr_stream *st, struct sr_sleep *sleep, struct msghdr *msg,
			 int flags, ssize_t got)
{
	struct sr_iov to = sr_iov_make(msg->msg_iov, msg->msg_iovlen);
	bool all = (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
	bool simple = !(flags & (MSG_PEEK | MSG_WAITALL));
	ssize_t r;

	sr_iov_advance(&to, (size_t)got);
	for (;;) {
		r = recv_try(st, &to, flags);
		if (r > 0) {
			got += r;
			if (!all || !to.left)
				return got;
			if (!sr_gate_shut(&st->in.gate))
				sr_upgrade_count(st); /* the rest may come by a link */
			continue;
		}
		if (r != -EAGAIN)
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

/* Writes the control message of TCP_INQ into `room' bytes, as the kernel's put_cmsg() does. */
static void put_inq(struct sr_stream *st, struct msghdr *msg, size_t room)
{
	struct cmsghdr head = {
		.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = IPPROTO_TCP,
		.cmsg_type = TCP_CM_INQ,
	};
	int n;

	if (!msg->msg_control || room < sizeof(head)) {
		msg->msg_flags |= MSG_CTRUNC;
		return;
	}
	if (room < head.cmsg_len) {
		msg->msg_flags |= MSG_CTRUNC;
		head.cmsg_len = room;
	}
	n = sr_state_inq(st);
	memcpy(msg->msg_control, &head, sizeof(head));
	memcpy((char *)msg->msg_control + sizeof(head), &n, head.cmsg_len - sizeof(head));
	msg->msg_controllen = room < CMSG_SPACE(sizeof(n)) ? room : CMSG_SPACE(sizeof(n));
}

/* What recvmsg(2) on TCP returns besides the bytes; asked: what the program passed. */
static void fill_in(struct sr_stream *st, struct msghdr *msg, const struct msghdr *asked,
		    int flags)
{
	if (msg->msg_name)
		msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
	if (sr_st_flags(st) & SR_ST_INQ)
		put_inq(st, msg, asked->msg_controllen);
}

/* MSG_WAITALL: has the kernel, which was not given the flag, returned only a part? */
static bool wants_more(const struct msghdr *msg, int flags, ssize_t r)
{
	return r > 0 && (flags & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL &&
	       (size_t)r < sr_iov_make(msg->msg_iov, msg->msg_iovlen).left;
}

/* The gate is open: the kernel receives.  Returns true if that ends the call, with its result in
 * *r; else *r is how many bytes have been received. */
static bool recv_by_kernel(struct sr_stream *st, int fd, struct msghdr *msg,
			   const struct msghdr *asked, int flags, ssize_t *r)
{
	bool again;

	*r = recv_plain(st, fd, msg, flags & ~MSG_WAITALL, &again);
	if (!again && *r > 0)
		sr_upgrade_count(st);
	if (!again && *r >= 0 && !wants_more(asked, flags, *r)) {
		/* The kernel may have counted a mark among the bytes. */
		if (sr_gate_shut(&st->in.gate))
			fill_in(st, msg, asked, flags);
		return true;
	}
	/* The kernel may have returned a mark and no bytes, or the end behind an error that
	 * was kept. */
	msg->msg_namelen = asked->msg_namelen;
	msg->msg_controllen = asked->msg_controllen;
	msg->msg_flags = asked->msg_flags;
	if (!again && *r < 0)
		return true;
	if (*r < 0)
		*r = 0;
	return false;
}

/* waited: the call has slept since the program passed fd. */
static ssize_t recv_message(struct sr_stream *st, int fd, struct msghdr *msg, int flags,
			    bool waited)
{
	struct sr_sleep sleep = sr_sleep_begin(fd, flags, SO_RCVTIMEO);
	const struct msghdr asked = *msg;
	ssize_t r, got = 0;

	if (!waited && !sr_gate_shut(&st->in.gate)) {
		if (flags & MSG_WAITALL)
			sleep.begun = sr_now_ns();
		if (recv_by_kernel(st, fd, msg, &asked, flags, &got))
			return got;
		sleep.partial = got;
	}
	if (!sr_iov_valid(msg->msg_iov, msg->msg_iovlen))
		return -EINVAL;
	r = recv_slow(st, &sleep, msg, flags, got);
	if (r >= 0)
		fill_in(st, msg, &asked, flags);
	if (r > 0 && !sr_gate_shut(&st->in.gate))
		sr_upgrade_count(st);
	return r;
}

/* Does a link not serve this call?  These are urgent data and the error queue, discarding
 * (MSG_TRUNC), waiting with an empty buffer, time stamps, and MSG_PEEK with MSG_WAITALL: that
 * waits for more bytes while some stay in the queue, and poll() cannot tell when they come. */
static bool is_special(struct sr_stream *st, int fd, const struct msghdr *msg, int flags)
{
	const int peek_all = MSG_PEEK | MSG_WAITALL;
	struct sr_sleep sleep = { .fd = fd, .flags = flags };

	return (flags & (MSG_OOB | MSG_ERRQUEUE | MSG_TRUNC)) ||
	       ((flags & peek_all) == peek_all && sr_sleep_allowed(st, &sleep)) ||
	       (msg->msg_controllen && (sr_st_flags(st) & SR_ST_STAMPS)) ||
	       !sr_iov_make(msg->msg_iov, msg->msg_iovlen).left;
}

ssize_t sr_stream_recv(struct sr_stream *st, int fd, struct msghdr *msg, int flags)
{
	bool waited;
	ssize_t r;

	pthread_testcancel(); /* also on paths without a system call */
	if (is_special(st, fd, msg, flags)) {
		sr_stream_make_plain(st, SR_REASON_OPTION, true);
		r = kernel_recv(fd, msg, flags);
		if (r > 0 && !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)))
			sr_tcp_received(st, r);
		return r;
	}
	waited = sr_guest_use(st, SR_NOTIFY_RX);
	sr_upgrade_moves(st, 0);
	sr_hold();
	r = recv_message(st, fd, msg, flags, waited);
	if (sr_load(&st->sets.nested))
		sr_epoll_settle(st);
	sr_release();
	return r;
}
