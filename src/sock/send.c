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
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/now.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "engine/iov.h"
#include "upgrade/upgrade.h"
#include "wait/sleep.h"
#include "sock/sock.h"

/* Bytes are copied and committed to the link in pieces, so that the peer copies
 * one piece out while we copy the next one in. */
#define PIECE 65536
#define SLICE (256 * 1024)
#define HOLD 16384
#define WIDEN_NS (50 * 1000000ull)

static bool is_simple(const struct msghdr *msg)
{
	return msg->msg_iovlen == 1 && !msg->msg_control && !msg->msg_name;
}

static ssize_t kernel_send(int fd, const struct msghdr *msg, int flags)
{
	ssize_t r;

	if (is_simple(msg))
		r = sr_real.send(fd, msg->msg_iov->iov_base,
				 msg->msg_iov->iov_len, flags);
	else
		r = sr_real.sendmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

/* send(2) is a cancellation point: a cancelled thread must leave the gate. */
static void leave_cancelled(struct sr_stream *volatile *inside)
{
	if (*inside)
		sr_tx_gate_leave(*inside);
	*inside = NULL;
}

static void leave_abandoned(void *inside)
{
	leave_cancelled(inside);
}

/* The window lets signal handlers run, as this call may sleep. */
SR_WINDOW_FRAME
static ssize_t kernel_send_asleep(struct sr_stream *volatile *inside, int fd,
				  const struct msghdr *msg, int flags)
{
	struct sr_window w;
	ssize_t r;

	sr_window_open(&w, leave_abandoned, (void *)inside);
	r = kernel_send(fd, msg, flags);
	sr_window_close(&w);
	return r;
}

/* since is NULL for the first system call of the program's call.  A later one
 * does not begin if a handler has run since sr_handled.all had the value
 * *since. */
SR_WINDOW_FRAME
static ssize_t kernel_sendfile(struct sr_stream *volatile *inside, int fd,
			       int in_fd, off_t *off, size_t count,
			       const unsigned *since)
{
	struct sr_window w;
	ssize_t r = -EINTR;

	sr_window_open(&w, leave_abandoned, (void *)inside);
	if (!since || sr_handled.all == *since) {
		r = sr_real.sendfile(fd, in_fd, off, count);
		if (r < 0)
			r = -errno;
	}
	sr_window_close(&w);
	return r;
}

/* Records that the kernel took less than all, so that it will give sets an edge. */
static void note_full(struct sr_stream *st, ssize_t r, size_t asked)
{
	if (r == -EAGAIN || (r >= 0 && (size_t)r < asked))
		atomic_store(&st->out.full, true);
}

static bool in_a_set(struct sr_stream *st)
{
	return atomic_load_explicit(&st->epoll, memory_order_relaxed);
}

/* The error of a send on a direction that has ended. */
static ssize_t over(struct sr_stream *st)
{
	int err = atomic_exchange(&st->so_error, 0);

	return err ? -err : -EPIPE;
}

/* Is an error due?  A call of ours may have taken it from the socket; the
 * kernel would then have only EPIPE, and a signal, for the program. */
static bool is_over(struct sr_stream *st)
{
	return atomic_load_explicit(&st->out.broken, memory_order_relaxed) ||
	       atomic_load_explicit(&st->so_error, memory_order_relaxed);
}

/* The thread that has called exit(), and its process: a child of fork is another. */
static atomic_int last_thread, last_process;

void sr_send_last(void)
{
	atomic_store(&last_thread, gettid());
	atomic_store(&last_process, getpid());
}

/* On TCP, other threads could send until the process is gone, so one that gets
 * EPIPE because of our exit waits for that. */
static void await_exit(void)
{
	const struct timespec second = { 1, 0 };

	while (atomic_load(&last_process) == getpid() &&
	       atomic_load(&last_thread) != gettid())
		nanosleep(&second, NULL);
}

static ssize_t pipe_error(ssize_t r, int flags)
{
	if (r == -EPIPE)
		await_exit();
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
		err = atomic_exchange(&st->so_error, 0);
	return err ? -err : r;
}

static ssize_t send_plain(struct sr_stream *st, int fd,
			  const struct msghdr *msg, int flags, bool *shut)
{
	__attribute__((cleanup(leave_cancelled))) struct sr_stream
		*volatile inside = NULL;
	ssize_t r;

	sr_tx_on_send(st);
	*shut = !sr_tx_gate_enter(st);
	if (*shut)
		return -EAGAIN;
	if (is_over(st)) {
		sr_tx_gate_leave(st);
		return pipe_error(over(st), flags);
	}
	inside = st;
	r = flags & MSG_DONTWAIT ?
		    kernel_send(fd, msg, flags | MSG_NOSIGNAL) :
		    kernel_send_asleep(&inside, fd, msg, flags | MSG_NOSIGNAL);
	inside = NULL;
	if (r > 0) {
		sr_stream_history_add(st, &st->out.history, SR_ST_TX_HISTORY,
				      msg, (size_t)r);
		atomic_fetch_add(&st->out.tcp, (uint64_t)r);
	} else if (r < 0) {
		sr_stream_failed(st, r);
	}
	if (in_a_set(st))
		note_full(st, r, sr_iov_make(msg->msg_iov, msg->msg_iovlen).left);
	sr_tx_gate_leave(st);
	return pipe_error(error_first(st, r), flags);
}

/* Commits n bytes to the link.  With more (MSG_MORE, TCP_CORK), the link holds
 * them back until there are HOLD of them, SR_HOLD_NS have passed, or room gets
 * short. */
static void commit(struct sr_stream *st, size_t n, bool more)
{
	st->out.held = more && st->out.held + n < HOLD ? st->out.held + n : 0;
	st->out.link->ops->tx_commit(st->out.link, n, st->out.held != 0);
	if (!st->out.held) {
		st->out.held_ns = 0;
	} else if (!st->out.held_ns) {
		st->out.held_ns = sr_now_ns();
		sr_stream_kick(st);
	}
}

/* Copies as much as the link has room for.  tx_lock held. */
static ssize_t put_ring(struct sr_stream *st, struct sr_iov *from, bool more)
{
	struct sr_link *link = st->out.link;
	ssize_t total = 0;

	while (from->left) {
		struct iovec v[2];
		size_t room = link->ops->tx_room(link, v), done = 0;
		int i;

		if (!room) {
			sr_tx_flush(st);
			break;
		}
		if (room > PIECE)
			room = PIECE;
		for (i = 0; i < 2 && done < room && from->left; i++) {
			size_t k = v[i].iov_len < room - done ? v[i].iov_len :
								room - done;

			done += sr_iov_drain(from, v[i].iov_base, k);
		}
		sr_tx_took(&st->tx, done);
		commit(st, done, more && !from->left);
		total += (ssize_t)done;
	}
	return total;
}

/* Tries once, under the lock.  *open: the gate is open and the kernel must send. */
static ssize_t put(struct sr_stream *st, struct sr_iov *from, int flags,
		   bool *open)
{
	ssize_t r = -EAGAIN;

	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	*open = !sr_gate_shut(&st->out.gate);
	if (*open)
		goto out;
	if (st->out.broken || st->tx.ended || st->tx.state == SR_TX_DONE) {
		r = over(st);
	} else if (st->tx.state == SR_TX_LINK) {
		bool more = (flags & MSG_MORE) ||
			    (sr_st_flags(st) & SR_ST_CORK);

		r = put_ring(st, from, more);
		if (!r)
			r = -EAGAIN;
		sr_fast_update_tx(st);	/* bytes are held back, or are no longer */
	}
out:
	sr_unlock(&st->tx_lock);
	return r;
}

/* Does the socket have an error?  It is for the program's next call. */
static bool error_waits(int fd)
{
	struct pollfd p = { .fd = fd, .events = 0 };

	return sr_now_poll(&p, 1) > 0;
}

static ssize_t send_try(struct sr_stream *st, struct sr_sleep *sleep,
			struct sr_iov *from, int flags)
{
	struct iovec v[64];
	struct msghdr msg = { .msg_iov = v };
	bool shut, open;
	size_t bytes;
	ssize_t r;

	for (;;) {
		r = put(st, from, flags, &open);
		if (!open)
			return r;
		/* The direction is plain again.  The call sleeps in the kernel
		 * as before, unless the kernel would restart it after a
		 * signal. */
		if (sleep->partial && error_waits(sleep->fd))
			return -EPIPE;
		msg.msg_iovlen = sr_iov_rest(*from, SLICE, v, 64, &bytes);
		r = send_plain(st, sleep->fd, &msg,
			       flags | MSG_NOSIGNAL |
				       (sleep->partial ? MSG_DONTWAIT : 0),
			       &shut);
		if (!shut) {
			if (r > 0) {
				sr_iov_advance(from, (size_t)r);
				sr_upgrade_count(st);
			}
			return r;
		}
	}
}

/* The program gets EAGAIN and may now wait for an edge from a set.  Returns
 * true if there is room after all. */
static bool room_after_all(struct sr_stream *st)
{
	bool room = false;

	if (!atomic_load(&st->epoll))
		return false;
	sr_lock(&st->tx_lock);
	atomic_store(&st->out.full, true);
	if (sr_gate_shut(&st->out.gate) && st->tx.state == SR_TX_LINK) {
		struct sr_link *link = st->out.link;
		struct iovec v[2];

		link->ops->stand(link, SR_NOTIFY_TX);
		link->ops->poll(link);
		room = link->ops->tx_room(link, v);
		link->ops->tx_commit(link, 0, st->out.held != 0);
	}
	sr_unlock(&st->tx_lock);
	return room;
}

/* A send that must not block has filled the link's first ring.  TCP takes some
 * 50 kB of a first write, and there are programs that rely on it; the peer
 * offers a larger ring as soon as it sees a full one.  So the send waits for
 * that ring, for at most WIDEN_NS over the stream's life.  Returns true if
 * there is room. */
static bool room_soon(struct sr_stream *st, int fd)
{
	const struct sr_link_ops *ops;
	uint64_t now = sr_now_ns(), until = 0;

	sr_lock(&st->tx_lock);
	if (sr_gate_shut(&st->out.gate) && st->tx.state == SR_TX_LINK) {
		ops = st->out.link->ops;
		if (!st->out.widen_by)
			st->out.widen_by = now + WIDEN_NS;
		if (ops->tx_widens && ops->tx_widens(st->out.link))
			until = st->out.widen_by;
	}
	sr_unlock(&st->tx_lock);
	return until > now && !sr_sleep_anyhow(st, fd, POLLOUT, until - now);
}

/* Waits for room.  Returns 0 to try again, or -EAGAIN if the call may not wait,
 * or no longer. */
static ssize_t await_room(struct sr_stream *st, struct sr_sleep *sleep)
{
	ssize_t r = sr_sleep(st, sleep, POLLOUT);

	if (r == -EAGAIN && (sr_tx_decide(st) || room_soon(st, sleep->fd) ||
			     room_after_all(st)))
		r = 0;
	return r;
}

static ssize_t send_slow(struct sr_stream *st, struct sr_sleep *sleep,
			 struct sr_iov *from, int flags)
{
	ssize_t done = 0, r;

	for (;;) {
		r = send_try(st, sleep, from, flags);
		if (r > 0) {
			done += r;
			sleep->partial = true;
		}
		if (!from->left && (r >= 0 || r == -EAGAIN))
			return done;
		if (r > 0)
			continue;
		if (r != -EAGAIN)
			break;
		r = await_room(st, sleep);
		if (r < 0)
			break;
	}
	if (done) {
		/* The error is for the next call. */
		if (r < 0 && r != -EAGAIN && r != -EINTR && r != -EPIPE)
			atomic_store(&st->so_error, (int)-r);
		return done;
	}
	return pipe_error(r, flags);
}

#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

/*
 * A program that passes megabytes in one blocking call would keep the direction
 * from switching for as long as the kernel takes.  So the kernel gets them in
 * slices, and the direction may switch between two.  The call may sleep in the
 * kernel with the first slice only.  For later ones it waits as on a link, so
 * that a signal ends the call at any point: a second system call that slept
 * would go on after a handler with SA_RESTART, and would miss one that ran
 * before it began.
 */
static ssize_t transmit(struct sr_stream *st, int fd, const struct msghdr *msg,
			int flags)
{
	struct sr_iov from = sr_iov_make(msg->msg_iov, msg->msg_iovlen);
	struct iovec v[64];
	struct msghdr slice = { .msg_iov = v };
	struct sr_sleep sleep = sr_sleep_begin(fd, flags, SO_SNDTIMEO);
	bool valid = sr_iov_valid(msg->msg_iov, msg->msg_iovlen), shut;
	size_t bytes = from.left;
	ssize_t r, done = 0;

	if (bytes > SLICE && valid)
		slice.msg_iovlen = sr_iov_rest(from, SLICE, v, 64, &bytes);
	r = send_plain(st, fd, slice.msg_iovlen ? &slice : msg, flags, &shut);
	if (!shut && r > 0)
		sr_upgrade_count(st);
	if (!shut && (r < (ssize_t)bytes || bytes == from.left))
		return r;
	if (!shut) {
		done = r;
		sr_iov_advance(&from, bytes);
		sleep.partial = true;
	}
	if (!valid)
		return -EINVAL;
	r = send_slow(st, &sleep, &from, done ? flags | MSG_NOSIGNAL : flags);
	if (r < 0 && done && r != -EPIPE)
		sr_stream_keep(st, r);
	return r < 0 ? (done ? done : r) : done + r;
}

ssize_t sr_stream_send(struct sr_stream *st, int fd, const struct msghdr *msg,
		       int flags)
{
	ssize_t r;

	pthread_testcancel(); /* as in sr_stream_recv() */
	if ((flags & (MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN)) ||
	    msg->msg_controllen) {
		sr_stream_plain(st, fd, SR_REASON_OPTION);
		return kernel_send(fd, msg, flags);
	}
	sr_guest_use(st, SR_NOTIFY_TX);
	sr_upgrade_used(st);
	sr_upgrade_hold(st);
	sr_hold();
	r = transmit(st, fd, msg, flags);
	sr_release();
	return r;
}

/* Reads the file straight into the ring, without a buffer in between. */
static ssize_t file_to_ring(struct sr_stream *st, int in_fd, off_t *off,
			    size_t count, bool more)
{
	struct sr_link *link = st->out.link;
	struct iovec v[2];
	size_t room = link->ops->tx_room(link, v);
	ssize_t r;

	if (!room) {
		commit(st, 0, false);
		return -EAGAIN;
	}
	if (room > count)
		room = count;
	if (v[0].iov_len > room)
		v[0].iov_len = room;
	if (v[0].iov_len > PIECE)
		v[0].iov_len = PIECE;
	if (off)
		r = sr_now_pread(in_fd, v[0].iov_base, v[0].iov_len, *off);
	else
		r = sr_now_read(in_fd, v[0].iov_base, v[0].iov_len);
	if (r < 0)
		r = -errno;
	if (r > 0 && off)
		*off += r;
	sr_tx_took(&st->tx, r > 0 ? (uint64_t)r : 0);
	commit(st, r > 0 ? (size_t)r : 0, r > 0 && more);
	return r;
}

/* The kernel has taken a slice: may the next one go?  The kernel must have room
 * for some of it, or it would sleep and go on after a handler with SA_RESTART,
 * while this call must end then.  An error is for the next call. */
static bool next_slice(struct sr_stream *st, struct sr_sleep *sleep)
{
	struct pollfd p = { .fd = sleep->fd, .events = POLLOUT };

	sleep->partial = true;
	while (!sr_gate_shut(&st->out.gate)) {
		if (sr_now_poll(&p, 1) > 0)
			return !(p.revents & (POLLERR | POLLHUP));
		if (!sr_sleep_allowed(st, sleep))
			return true;
		sleep->timed = false;	/* the kernel starts the timeout anew, too */
		if (sr_sleep(st, sleep, POLLOUT) < 0)
			return false;
	}
	return true;
}

/* plain: the kernel sent, and has raised SIGPIPE itself if that was due.
 * since: see kernel_sendfile(). */
static ssize_t file_try(struct sr_stream *st, int fd, int in_fd, off_t *off,
			size_t count, bool more, bool *eof, bool *plain,
			const unsigned *since)
{
	struct sr_stream *volatile inside = st;
	ssize_t r = -EAGAIN;

	*eof = false;
	sr_tx_on_send(st);
	*plain = sr_tx_gate_enter(st);
	if (*plain && is_over(st)) {
		sr_tx_gate_leave(st);
		*plain = false;
		return over(st);
	}
	if (*plain) {
		sr_st_set(st, SR_ST_TX_HISTORY);	/* these bytes never pass us */
		r = kernel_sendfile(&inside, fd, in_fd, off, count, since);
		if (r > 0)
			atomic_fetch_add(&st->out.tcp, (uint64_t)r);
		*eof = r == 0;
		if (in_a_set(st))
			note_full(st, r, *eof ? 0 : count);
		sr_tx_gate_leave(st);
		return r;
	}
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (!sr_gate_shut(&st->out.gate)) {
		r = 0;			/* try again */
	} else if (st->out.broken || st->tx.ended ||
		   st->tx.state == SR_TX_DONE) {
		r = over(st);
	} else if (st->tx.state == SR_TX_LINK) {
		r = file_to_ring(st, in_fd, off, count, more);
		*eof = r == 0;
	}
	sr_unlock(&st->tx_lock);
	return r;
}

static ssize_t transmit_file(struct sr_stream *st, int fd, int in_fd, off_t *off,
			     size_t count, bool more)
{
	struct sr_sleep sleep = sr_sleep_begin(fd, 0, SO_SNDTIMEO);
	ssize_t done = 0, r = 0;
	bool eof, plain = false;

	while ((size_t)done < count) {
		size_t left = count - (size_t)done;
		size_t n = left < SLICE ? left : SLICE; /* as transmit() does */

		if (done && !next_slice(st, &sleep))
			break;
		r = file_try(st, fd, in_fd, off, n, more || n < left, &eof,
			     &plain, done ? &sleep.since.all : NULL);
		if (r > 0) {
			done += r;
			if (sr_gate_shut(&st->out.gate))
				continue;
			sr_upgrade_count(st);
			if ((size_t)r < n)
				break;	/* a short count is the kernel's own decision */
			continue;
		}
		if (r == 0 && !eof)
			continue;
		if (r != -EAGAIN)
			break;
		plain = false;
		sleep.partial = done > 0;
		r = await_room(st, &sleep);
		if (r < 0)
			break;
	}
	return done ? done : pipe_error(r, plain ? MSG_NOSIGNAL : 0);
}

/* Files that the kernel generates or cannot read at once (/proc, devices,
 * pipes): only the kernel's sendfile() handles them. */
static bool is_odd(int fd)
{
	struct stat file;

	return fstat(fd, &file) == 0 && !(S_ISREG(file.st_mode) && file.st_size > 0);
}

/* In the C library sendfile(2) is no cancellation point. */
ssize_t sr_stream_sendfile(struct sr_stream *st, int fd, int in_fd,
			   off_t *off, size_t count, bool more)
{
	ssize_t r;
	int state;

	if (is_odd(in_fd)) {
		sr_stream_plain(st, fd, SR_REASON_OPTION);
		r = sr_real.sendfile(fd, in_fd, off, count);
		if (r > 0)
			atomic_fetch_add(&st->out.tcp, (uint64_t)r);
		return r < 0 ? -errno : r;
	}
	sr_hold();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	sr_guest_use(st, SR_NOTIFY_TX);
	sr_upgrade_used(st);
	sr_upgrade_hold(st);
	r = transmit_file(st, fd, in_fd, off,
			  count < SR_CALL_MAX ? count : SR_CALL_MAX, more);
	pthread_setcancelstate(state, NULL);
	sr_release();
	return r;
}
