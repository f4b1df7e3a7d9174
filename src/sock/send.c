/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * send.c - the sending calls: send(2) and its relatives, and sendfile(2).  It
 * knows no kind of link but through link.h.
 *
 * While the tx gate is open, a call is the kernel's own sendmsg().  While it is
 * shut, send_slow() loops over tries and waits; on a link, a try copies into
 * the ring.
 *
 * Locks: tx_lock for everything behind a shut gate; none while the gate is
 * open.
 */
#include "base/real.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdpriv.h"
#include "base/now.h"
#include "base/probe.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "engine/iov.h"
#include "epoll/epoll.h"
#include "upgrade/upgrade.h"
#include "wait/sleep.h"
#include "sock/sock.h"

/* Bytes are copied and committed to the link in pieces, so that the peer copies
 * one piece out while we copy the next one in. */
#define PIECE 65536
#define HOLD 16384

/* Bytes.  A longer send passes them to the kernel in pieces of this size, and never sleeps in
 * the kernel; a longer sendfile sleeps there for one such piece at a time: see is_long(). */
#define LONG ((size_t)1 << 20)

/* What a call sends: the program's buffers, or iov.left bytes of a file (iov.v is NULL). */
struct source {
	struct sr_iov iov;
	int in_fd;
	off_t *off;		/* may be NULL, as for sendfile(2) */
	int own;		/* send_file()'s duplicate of the anchor, or 0 */
	bool signalled;		/* the kernel has raised SIGPIPE */
	bool linked;		/* some of it went by a link */
	bool cut;		/* a file goes to the kernel in pieces of LONG */
	bool switching;		/* nothing was taken because the direction is about to switch */
};

/* A call that does not block is made while signals are held off, and must not be a
 * cancellation point. */
static ssize_t kernel_send(int fd, const struct msghdr *msg, int flags)
{
	ssize_t r = flags & MSG_DONTWAIT ? sr_now_sendmsg(fd, msg, flags) :
					   sr_real.sendmsg(fd, msg, flags);

	return r < 0 ? -errno : r;
}

/* Sends without blocking, by the anchor, for the reason of anchor_recv() in recv.c; here it is
 * tx_lock that close(2) takes, too. */
static ssize_t anchor_send(struct sr_stream *st, const struct msghdr *msg, int flags)
{
	ssize_t r;
	int fd;

	sr_lock(&st->tx_lock);
	fd = sr_load(&st->anchor);
	r = fd < 0 ? -EBADF : kernel_send(fd, msg, flags | MSG_DONTWAIT);
	sr_unlock(&st->tx_lock);
	return r;
}

static size_t file_piece(const struct source *src)
{
	return src->cut && src->iov.left > LONG ? LONG : src->iov.left;
}

static ssize_t kernel_sendfile(int fd, struct source *src)
{
	ssize_t r = sr_real.sendfile(fd, src->in_fd, src->off, file_piece(src));

	if (r < 0)
		r = -errno;
	src->signalled = r == -EPIPE;
	return r;
}

/* Records that the kernel took less than all bytes, so that sets report the next room as an
 * edge.  If sets have the stream as linked, because the other direction is on a link, the room
 * may have come before this was recorded: then the edge is made here. */
static void note_full(struct sr_stream *st, ssize_t r, size_t asked)
{
	if (r != -EAGAIN && (r <= 0 || (size_t)r == asked))
		return;
	sr_store(&st->out.full, true);
	sr_fence_look(); /* pair full: for_sets(), and news_of_link() behind a gate that shuts */
	if (sr_gate_shut(&st->in.gate) && sr_anchor_writable(st))
		sr_stream_notify(st, SR_NOTIFY_TX);
}

/* The error of a send on a direction that has ended. */
static ssize_t send_error(struct sr_stream *st)
{
	int err = sr_error_take(st);

	return err ? -err : -EPIPE;
}

/* Is an error due?  If a call of ours has taken the error from the socket, the
 * kernel would give the program only EPIPE and a signal. */
static bool is_send_over(struct sr_stream *st)
{
	return sr_load(&st->out.broken) ||
	       sr_load(&st->err.pending);
}

static ssize_t pipe_error(ssize_t r, int flags)
{
	if (r == -EPIPE)
		sr_exit_await();
	if (r == -EPIPE && !(flags & MSG_NOSIGNAL))
		pthread_kill(pthread_self(), SIGPIPE);
	return r;
}

/* The kernel reports EPIPE only after the socket's error, which a call of ours
 * may have taken: then the program gets that error first. */
static ssize_t error_first(struct sr_stream *st, ssize_t r)
{
	int err = 0;

	if (r == -EPIPE && sr_anchor_kept(st))
		err = sr_error_take(st);
	return err ? -err : r;
}

/* The kernel has taken n bytes of msg, or of the file of src. */
static void sent_keep(struct sr_stream *st, const struct source *src, const struct msghdr *msg,
		      size_t n)
{
	uint64_t at = sr_load(&st->out.tcp) + (uint64_t)st->out.delta;

	if (msg)
		sr_stream_history_add(st, &st->rare->out, SR_ST_TX_HISTORY, at, msg, n);
	else
		sr_stream_history_file(st, at, src->in_fd, src->off, n);
}

/* A call that has entered the gate. */
struct passage {
	struct sr_stream *st;
	const struct source *src;
	const struct msghdr *msg;
};

static void sent_book(const struct passage *p, size_t n)
{
	sent_keep(p->st, p->src, p->msg, n);
	sr_tcp_sent(p->st, (ssize_t)n);
}

/* A signal handler has left the call by siglongjmp(3), or the thread is cancelled.  (How much
 * of a file was sent by then is not known; the counters may be too small by that.) */
static void send_abandoned(void *passage)
{
	const struct passage *p = passage;
	size_t n = p->msg ? sr_anchor_unbooked_tx(p->st) : 0;

	if (n && n <= p->src->iov.left)
		sent_book(p, n);
	sr_tx_gate_leave(p->st);
	if (p->src->own)
		sr_fd_close(p->src->own);
	sr_stream_put(p->st);
}

/* Sends msg through the open gate, or the file of src if msg is NULL.  Sets *shut if the gate
 * is shut.  The caller raises SIGPIPE.  fd: the number that the program has just passed, or
 * for a file a duplicate; -1: the call may have slept since (then MSG_DONTWAIT is set), and the
 * anchor is used.  If the call may sleep, a window lets signal handlers run. */
SR_WINDOW_FRAME
static ssize_t send_plain(struct sr_stream *st, int fd, struct source *src,
			  const struct msghdr *msg, int flags, bool *shut)
{
	struct passage here = { st, src, msg };
	struct sr_window w;
	ssize_t r;

	sr_tx_on_send(st);
	*shut = !sr_tx_gate_enter(st);
	if (*shut)
		return -EAGAIN;
	if (is_send_over(st)) {
		sr_tx_gate_leave(st);
		return send_error(st);
	}
	flags |= MSG_NOSIGNAL;
	if (!(flags & MSG_DONTWAIT))
		sr_window_open(&w, send_abandoned, &here);
	if (!msg)
		r = kernel_sendfile(fd, src);
	else
		r = fd < 0 ? anchor_send(st, msg, flags) : kernel_send(fd, msg, flags);
	if (!(flags & MSG_DONTWAIT))
		sr_window_close(&w);
	if (r > 0)
		sent_book(&here, (size_t)r);
	else if (r < 0)
		sr_stream_failed(st, r);
	if (sr_load(&st->sets.first))
		note_full(st, r, msg ? sr_iov_make(msg->msg_iov, msg->msg_iovlen).left :
				       src->iov.left);
	sr_tx_gate_leave(st);
	if (r > 0)
		sr_upgrade_count(st);
	return src->signalled ? r : error_first(st, r);
}

/* Commits n bytes to the link.  With more (MSG_MORE, TCP_CORK), the link holds
 * them back until there are HOLD of them, SR_HOLD_NS have passed, or room gets
 * short. */
static void send_commit(struct sr_stream *st, size_t n, bool more)
{
	size_t held = sr_load(&st->out.held) + n;

	if (!more || held >= HOLD)
		held = 0;
	sr_store(&st->out.held, held);
	st->out.link->ops->tx_commit(st->out.link, n, held != 0);
	if (!held) {
		st->out.held_ns = 0;
	} else if (!st->out.held_ns) {
		st->out.held_ns = sr_now_ns();
		sr_stream_kick(st);
	}
}

/* Reads the file straight into the ring, without a buffer in between. */
static ssize_t source_read_file(struct source *src, void *to, size_t room)
{
	size_t n = room < src->iov.left ? room : src->iov.left;
	ssize_t r = src->off ? sr_now_pread(src->in_fd, to, n, *src->off) :
			       sr_now_read(src->in_fd, to, n);

	if (r < 0)
		return -errno;
	if (src->off)
		*src->off += r;
	src->iov.left -= (size_t)r;
	return r;
}

static ssize_t source_fill(struct source *src, const struct iovec v[2], size_t room)
{
	size_t first = v[0].iov_len < room ? v[0].iov_len : room, done;

	if (!src->iov.v)
		return source_read_file(src, v[0].iov_base, first);
	done = sr_iov_drain(&src->iov, v[0].iov_base, first);
	return (ssize_t)(done + sr_iov_drain(&src->iov, v[1].iov_base, room - done));
}

/* tx_lock held. */
static size_t room_for_call(struct sr_stream *st, struct sr_sleep *sleep, struct iovec v[2])
{
	struct sr_link *link = st->out.link;
	size_t room = link->ops->tx_room(link, v);

	if (!room && link->ops->tx_rest && !sr_sleep_allowed(st, sleep))
		room = link->ops->tx_rest(link, v);
	return room;
}

/* Copies as much as the link has room for; of a file only one piece, because the file may have
 * to be read from a disk.  0: the end of the file.  tx_lock held. */
static ssize_t put_ring(struct sr_stream *st, struct sr_sleep *sleep, struct source *src,
			bool more)
{
	ssize_t total = 0, r;

	while (src->iov.left && (src->iov.v || !total)) {
		struct iovec v[2];
		size_t room = room_for_call(st, sleep, v);

		if (!room) {
			sr_tx_flush(st);
			return total ? total : -EAGAIN;
		}
		r = source_fill(src, v, room < PIECE ? room : PIECE);
		if (r <= 0) {
			sr_tx_flush(st);
			return r;
		}
		st->tx.w += (uint64_t)r;
		send_commit(st, (size_t)r, more && !src->iov.left);
		total += r;
	}
	return total;
}

/* Tries once, under the lock.  *open: the gate is open and the kernel must send. */
static ssize_t send_locked(struct sr_stream *st, struct sr_sleep *sleep, struct source *src,
			   int flags, bool *open)
{
	bool lost = false;
	ssize_t r = -EAGAIN;

	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	src->switching = st->tx.state == SR_TX_WAIT;
	*open = !sr_gate_shut(&st->out.gate);
	if (*open)
		goto out;
	if (sr_load(&st->out.broken) || st->tx.ended || st->tx.state == SR_TX_DONE) {
		r = send_error(st);
	} else if (st->tx.state == SR_TX_LINK) {
		r = put_ring(st, sleep, src, (flags & MSG_MORE) ||
						     (sr_st_flags(st) & SR_ST_CORK));
		src->linked |= r > 0;
		st->out.stalls += r == -EAGAIN;
		lost = r > 0 && sr_ends_took_none(st);
		sr_fast_update_tx(st);	/* bytes are held back, or are no longer */
	}
out:
	sr_unlock(&st->tx_lock);
	if (lost)
		sr_ends_reset_early(st);
	return r;
}

/* Does the socket have an error?  Asked without taking it: it is for the program's next call. */
static bool error_waits(struct sr_stream *st)
{
	struct pollfd p = { .events = 0 };
	bool yes;

	sr_lock(&st->tx_lock);
	p.fd = sr_load(&st->anchor);
	yes = p.fd >= 0 && sr_now_poll(&p, 1) > 0;
	sr_unlock(&st->tx_lock);
	return yes;
}

static bool is_full(struct sr_stream *st)
{
	bool full;

	sr_lock(&st->tx_lock);
	full = sr_load(&st->anchor) >= 0 && !sr_anchor_writable(st);
	sr_unlock(&st->tx_lock);
	return full;
}

/* sendfile(2) has no flag against blocking, so it gets a duplicate of the anchor, whose number
 * no other thread can close and reuse while it sleeps. */
static ssize_t send_file(struct sr_stream *st, struct source *src, bool *shut)
{
	ssize_t r;
	int fd, own;

	sr_lock(&st->tx_lock);
	fd = sr_load(&st->anchor);
	own = fd < 0 ? -EBADF : sr_fd_dup(fd);
	sr_unlock(&st->tx_lock);
	if (own < 0)
		return own;
	src->own = own;
	r = send_plain(st, own, src, NULL, 0, shut);
	src->own = 0;
	sr_fd_close(own);
	return r;
}

/*
 * The kernel has sent n bytes of the file.  It sends in pieces of 64 kB itself, and ends the call
 * behind a piece that is short, be it for the end of the file, for an error or for lack of room.
 * So a call in pieces of ours ends where the kernel's would have, with the same bytes, and with
 * SIGPIPE only where the kernel would have raised it.
 */
static void take_file(struct source *src, size_t n)
{
	src->iov.left = n < file_piece(src) ? 0 : src->iov.left - n;
}

/* (A frame of its own is smaller than one for all of a send.) */
__attribute__((noinline))
static ssize_t send_try(struct sr_stream *st, struct sr_sleep *sleep,
			struct source *src, int flags)
{
	struct iovec v[12];
	struct msghdr msg = { .msg_iov = v };
	bool shut = false, open, file = !src->iov.v;
	size_t bytes;
	ssize_t r;

	for (;;) {
		r = send_locked(st, sleep, src, flags, &open);
		if (!open)
			return r;
		/* The direction is plain, or plain again.  The call may have slept, so it goes on
		 * without blocking in the kernel, unless it sends a file. */
		if (sleep->partial && (file ? src->linked : error_waits(st)))
			return -EPIPE;
		/* A signal during this sleep ends the call, as it does in the kernel. */
		if (sleep->partial && file && is_full(st))
			return -EAGAIN;
		if (file) {
			r = send_file(st, src, &shut);
		} else {
			msg.msg_iovlen = sr_iov_rest(src->iov, LONG, v, 12, &bytes);
			r = send_plain(st, -1, src, &msg, flags | MSG_DONTWAIT, &shut);
		}
		if (shut)
			continue;
		if (r > 0 && file)
			take_file(src, (size_t)r);
		else if (r > 0)
			sr_iov_advance(&src->iov, (size_t)r);
		return r;
	}
}

static ssize_t send_slow(struct sr_stream *st, struct sr_sleep *sleep,
			 struct source *src, int flags)
{
	ssize_t done = 0, r;

	do {
		r = send_try(st, sleep, src, flags);
		if (r > 0) {
			done += r;
			sleep->partial = true;
		}
		if (!r || !src->iov.left)
			break;
		if (r == -EAGAIN) {
			sr_probe(stall, st, src->iov.left);
			r = sr_room_await(st, sleep, src->switching);
		}
	} while (r >= 0);
	/* The error of a stream, but not of a file, is for the next call. */
	if (done && r < 0 && r != -EPIPE && src->iov.v)
		sr_stream_keep(st, r);
	return done || (!src->iov.left && r == -EAGAIN) ? done : r;
}

/* A call that sleeps in the kernel's send keeps its direction on TCP until it returns, so a
 * link that is made meanwhile would carry none of its bytes.  Therefore, if the stream may get a
 * link, a long call sleeps outside of the kernel's send, where the direction can switch.  A file
 * goes to the kernel in pieces, and the direction can switch between two of them. */
static bool is_long(struct sr_stream *st, const struct source *src)
{
	return src->iov.left > LONG && !(sr_st_flags(st) & SR_ST_BARRED);
}

/* A sendfile() that does not block ends when there is no room.  One with SO_SNDTIMEO may take that
 * time for each of the kernel's own pieces, which we cannot see.  Neither is cut. */
static bool is_file_cut(struct sr_stream *st, struct sr_sleep *sleep)
{
	return sr_sleep_allowed(st, sleep) && !sr_sleep_is_timed(st, sleep);
}

/* waited: the call has slept since the program passed fd. */
static ssize_t send_transmit(struct sr_stream *st, int fd, struct source *src,
			     const struct msghdr *msg, int flags, bool waited)
{
	struct sr_sleep sleep = sr_sleep_begin(fd, flags, SO_SNDTIMEO);
	bool cut = is_long(st, src) && (msg || is_file_cut(st, &sleep)), shut = waited || cut;
	ssize_t r;

	src->cut = cut;
	r = shut ? 0 : send_plain(st, fd, src, msg, flags, &shut);
	if (shut && msg && !sr_iov_valid(msg->msg_iov, msg->msg_iovlen))
		r = -EINVAL;
	else if (shut)
		r = send_slow(st, &sleep, src, flags);
	if (sr_load(&st->sets.nested))
		sr_epoll_settle(st);
	return pipe_error(r, src->signalled ? MSG_NOSIGNAL : flags);
}

ssize_t sr_stream_send(struct sr_stream *st, int fd, const struct msghdr *msg,
		       int flags)
{
	struct source src = { .iov = sr_iov_make(msg->msg_iov, msg->msg_iovlen) };
	bool waited;
	ssize_t r;

	pthread_testcancel(); /* as in sr_stream_recv() */
	if ((flags & (MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN)) ||
	    msg->msg_controllen) {
		sr_stream_make_plain(st, SR_REASON_OPTION, true);
		r = kernel_send(fd, msg, flags);
		if (r > 0)	/* the last byte of urgent data is not in the stream */
			sr_tcp_sent(st, r - !!(flags & MSG_OOB));
		return r;
	}
	waited = sr_guest_use(st, SR_NOTIFY_TX);
	sr_upgrade_moves(st, src.iov.left);
	waited |= sr_upgrade_hold(st);
	sr_hold();
	r = send_transmit(st, fd, &src, msg, flags, waited);
	sr_release();
	return r;
}

/* Files that the kernel generates or cannot read at once (/proc, devices,
 * pipes): only the kernel's sendfile() handles them. */
static bool is_odd(int fd)
{
	struct stat file;

	return sr_sys_fstat(fd, &file) == 0 && !(S_ISREG(file.st_mode) && file.st_size > 0);
}

/* The C library's sendfile(2) is no cancellation point, so cancellation is disabled; but not for
 * a thread that may be cancelled at any instruction, because that includes this call. */
ssize_t sr_stream_sendfile(struct sr_stream *st, int fd, int in_fd, off_t *off,
			   size_t count)
{
	struct source src = {
		.iov.left = count < SR_CALL_MAX ? count : SR_CALL_MAX,
		.in_fd = in_fd,
		.off = off,
	};
	bool waited;
	ssize_t r;
	int type, state = PTHREAD_CANCEL_ENABLE;

	if (is_odd(in_fd)) {
		sr_stream_make_plain(st, SR_REASON_OPTION, true);
		r = kernel_sendfile(fd, &src);
		if (r > 0)
			sr_tcp_sent(st, r);
		return r;
	}
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	if (type == PTHREAD_CANCEL_DEFERRED)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	else
		pthread_setcanceltype(type, NULL);
	/* As in sr_stream_send(): signals are held off only after the calls that may sleep. */
	waited = sr_guest_use(st, SR_NOTIFY_TX);
	sr_upgrade_moves(st, src.iov.left);
	waited |= sr_upgrade_hold(st);
	sr_hold();
	r = send_transmit(st, fd, &src, NULL, 0, waited);
	sr_release();
	if (type == PTHREAD_CANCEL_DEFERRED)
		pthread_setcancelstate(state, NULL);
	return r;
}
