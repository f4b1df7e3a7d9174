/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * send.c - the program sends.  Gate open: the kernel's own sendmsg.  Gate shut: a
 * loop of tries and waits; on the link a try is a copy into the ring.
 */
#include "base/real.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "stream/impl.h"
#include "stream/iov.h"

/* Copied and handed to the link in pieces, so that the peer's copy out runs
 * beside our copy in. */
#define PIECE 65536
#define SLICE (256 * 1024)
#define HOLD 16384

static ssize_t kernel_send(int fd, const struct msghdr *msg, int flags)
{
	ssize_t r;

	if (msg->msg_iovlen == 1 && !msg->msg_control && !msg->msg_name)
		r = sr_real.send(fd, msg->msg_iov->iov_base,
				 msg->msg_iov->iov_len, flags);
	else
		r = sr_real.sendmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

/* send(2) is a cancellation point: a cancelled thread leaves the gate. */
static void leave_cancelled(struct sr_stream **inside)
{
	if (*inside)
		sr_tx_gate_leave(*inside);
}

/* The kernel had no room for all of it, and will have an edge for sets. */
static void note_full(struct sr_stream *st, ssize_t r, size_t asked)
{
	if (atomic_load_explicit(&st->epoll, memory_order_relaxed) &&
	    (r == -EAGAIN || (r >= 0 && (size_t)r < asked)))
		atomic_store(&st->tx_full, true);
}

static ssize_t send_plain(struct sr_stream *st, int fd,
			  const struct msghdr *msg, int flags, bool *shut)
{
	__attribute__((cleanup(leave_cancelled))) struct sr_stream *inside =
		NULL;
	ssize_t r;

	sr_tx_on_send(st);
	*shut = !sr_tx_gate_enter(st);
	if (*shut)
		return -EAGAIN;
	inside = st;
	r = kernel_send(fd, msg, flags);
	inside = NULL;
	if (r > 0) {
		sr_past_add(st, &st->tx_history, SR_ST_TX_HISTORY, msg,
			    (size_t)r);
		atomic_fetch_add(&st->tx_tcp, (uint64_t)r);
	} else if (r < 0) {
		sr_stream_failed(st, r);
	}
	note_full(st, r, sr_iov_make(msg->msg_iov, msg->msg_iovlen).left);
	sr_tx_gate_leave(st);
	return r;
}

/* The link may show the peer what it was asked to hold back. tx_lock held. */
void sr_tx_flush(struct sr_stream *st)
{
	if (!st->tx_held)
		return;
	st->tx_link->ops->tx_commit(st->tx_link, 0, false);
	st->tx_held = 0;
	st->tx_held_ns = 0;
}

/* n bytes go to the link.  more (MSG_MORE, TCP_CORK): it holds them back until
 * there are HOLD, SR_HOLD_NS have passed, or room gets short. */
static void commit(struct sr_stream *st, size_t n, bool more)
{
	st->tx_held = more && st->tx_held + n < HOLD ? st->tx_held + n : 0;
	st->tx_link->ops->tx_commit(st->tx_link, n, st->tx_held != 0);
	if (!st->tx_held) {
		st->tx_held_ns = 0;
	} else if (!st->tx_held_ns) {
		st->tx_held_ns = sr_now_ns();
		sr_stream_kick(st);
	}
}

/* As much as the link has room for. tx_lock held. */
static ssize_t put_ring(struct sr_stream *st, struct sr_iov *from, bool more)
{
	struct sr_link *link = st->tx_link;
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

/* The error a send gets on a stream whose direction is over. */
static ssize_t over(struct sr_stream *st)
{
	int err = atomic_exchange(&st->so_error, 0);

	return err ? -err : -EPIPE;
}

/* One try under the lock. *open: the gate is open, it is the kernel's turn. */
static ssize_t put(struct sr_stream *st, struct sr_iov *from, int flags,
		   bool *open)
{
	ssize_t r = -EAGAIN;

	pthread_mutex_lock(&st->tx_lock);
	sr_tx_progress(st);
	*open = !sr_gate_shut(&st->tx_gate);
	if (*open)
		goto out;
	if (st->broken || st->tx.ended || st->tx.state == SR_TX_DONE) {
		r = over(st);
	} else if (st->tx.state == SR_TX_LINK) {
		bool more = (flags & MSG_MORE) ||
			    (sr_st_flags(st) & SR_ST_CORK);

		r = put_ring(st, from, more);
		if (!r)
			r = -EAGAIN;
	}
out:
	pthread_mutex_unlock(&st->tx_lock);
	return r;
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
		/* Plain again: asleep in the kernel, as ever. */
		msg.msg_iovlen = sr_iov_rest(*from, SIZE_MAX, v, 64, &bytes);
		r = send_plain(st, sleep->fd, &msg, flags | MSG_NOSIGNAL,
			       &shut);
		if (!shut) {
			if (r > 0)
				sr_iov_advance(from, (size_t)r);
			return r;
		}
	}
}

static ssize_t pipe_error(ssize_t r, int flags)
{
	if (r == -EPIPE && !(flags & MSG_NOSIGNAL))
		pthread_kill(pthread_self(), SIGPIPE);
	return r;
}

/*
 * The program is told EAGAIN and may wait for an edge of a set now.  True: there
 * is room after all.
 */
static bool room_after_all(struct sr_stream *st)
{
	bool room = false;

	if (!atomic_load(&st->epoll))
		return false;
	pthread_mutex_lock(&st->tx_lock);
	atomic_store(&st->tx_full, true);
	if (sr_gate_shut(&st->tx_gate) && st->tx.state == SR_TX_LINK) {
		struct sr_link *link = st->tx_link;
		struct iovec v[2];

		link->ops->stand(link, SR_NOTIFY_TX);
		link->ops->poll(link);
		room = link->ops->tx_room(link, v);
		link->ops->tx_commit(link, 0, st->tx_held != 0);
	}
	pthread_mutex_unlock(&st->tx_lock);
	return room;
}

static ssize_t send_slow(struct sr_stream *st, int fd, struct sr_iov *from,
			 int flags)
{
	struct sr_sleep sleep = { .fd = fd, .flags = flags,
				  .option = SO_SNDTIMEO };
	ssize_t done = 0, r;

	for (;;) {
		r = send_try(st, &sleep, from, flags);
		if (r > 0)
			done += r;
		if (!from->left && (r >= 0 || r == -EAGAIN))
			return done;
		if (r > 0)
			continue;
		if (r != -EAGAIN)
			break;
		if (!sr_sleep_allowed(&sleep) && sr_tx_decide(st))
			continue;
		sleep.partial = done > 0;
		r = sr_sleep(st, &sleep, POLLOUT);
		if (r < 0 && (r != -EAGAIN || !room_after_all(st)))
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
 * A program that hands over megabytes in one blocking call would hold the
 * direction for as long as the kernel takes: it goes there in slices, and the
 * direction may switch between two.
 */
static ssize_t send_sliced(struct sr_stream *st, int fd, struct sr_iov *from,
			   int flags, bool *shut)
{
	struct iovec v[64];
	struct msghdr msg = { .msg_iov = v };
	ssize_t done = 0, r;
	size_t bytes;

	do {
		msg.msg_iovlen = sr_iov_rest(*from, SLICE, v, 64, &bytes);
		r = send_plain(st, fd, &msg,
			       done ? flags | MSG_NOSIGNAL : flags, shut);
		if (r < 0)
			break;
		done += r;
		sr_iov_advance(from, (size_t)r);
		sr_upgrade_count(st);
	} while (from->left && (size_t)r == bytes);
	/* An error after the first slice is for the next call. */
	return done ? done : r;
}

ssize_t sr_stream_send(struct sr_stream *st, int fd, const struct msghdr *msg,
		       int flags)
{
	struct sr_iov from;
	bool shut;
	ssize_t r, done = 0;

	if ((flags & (MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN)) ||
	    msg->msg_controllen) {
		sr_stream_plain(st, fd, SR_REASON_OPTION);
		return kernel_send(fd, msg, flags);
	}
	sr_upgrade_used(st);
	sr_upgrade_hold(st);
	from = sr_iov_make(msg->msg_iov, msg->msg_iovlen);
	if (from.left > SLICE) {
		done = send_sliced(st, fd, &from, flags, &shut);
		if (!shut)
			return done;
	} else {
		r = send_plain(st, fd, msg, flags, &shut);
		if (!shut) {
			if (r > 0)
				sr_upgrade_count(st);
			return r;
		}
	}
	if (done < 0)
		done = 0;
	if (!sr_iov_valid(msg->msg_iov, msg->msg_iovlen))
		return -EINVAL;
	r = send_slow(st, fd, &from, done ? flags | MSG_NOSIGNAL : flags);
	return r < 0 ? (done ? done : r) : done + r;
}

/*
 * What sendfile says to a file that it may not be able to read: devices, pipes, what
 * proc makes up.  Only the kernel knows, so it is asked with a byte that goes nowhere
 * and leaves the position alone.  A file without one is refused before it is read.
 * *moves: reading it moves a position; not so with /dev/zero.
 */
static int file_refused(int in_fd, const off_t *off, bool *moves)
{
	off_t at = off ? *off : lseek(in_fd, 0, SEEK_CUR);
	off_t before = at;
	ssize_t r;
	int nowhere;

	nowhere = sr_real.open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (nowhere < 0)
		return -EINVAL;
	r = sr_real.sendfile(nowhere, in_fd, off || at >= 0 ? &at : NULL, 1);
	if (r < 0)
		r = -errno;
	if (r > 0)
		*moves = at != before;
	sr_real.close(nowhere);
	return r < 0 ? (int)r : 0;
}

/* Nothing to copy from memory: read the file straight into the ring. */
static ssize_t file_to_ring(struct sr_stream *st, int in_fd, off_t *off,
			    size_t count, bool more)
{
	struct sr_link *link = st->tx_link;
	struct iovec v[2];
	size_t room = link->ops->tx_room(link, v);
	struct stat file;
	bool moves = true;
	ssize_t r;

	if (fstat(in_fd, &file) < 0)
		r = -errno;
	else if (S_ISREG(file.st_mode) && file.st_size > 0)
		r = 0;
	else
		r = file_refused(in_fd, off, &moves);
	if (!r && !room)
		r = -EAGAIN;
	if (r < 0)
		goto out;
	if (room > count)
		room = count;
	if (v[0].iov_len > room)
		v[0].iov_len = room;
	if (v[0].iov_len > PIECE)
		v[0].iov_len = PIECE;
	if (off)
		r = pread(in_fd, v[0].iov_base, v[0].iov_len, *off);
	else
		r = sr_real.read(in_fd, v[0].iov_base, v[0].iov_len);
	if (r < 0)
		r = -errno;
	if (r > 0 && off && moves)
		*off += r;
out:
	sr_tx_took(&st->tx, r > 0 ? (uint64_t)r : 0);
	commit(st, r > 0 ? (size_t)r : 0, r > 0 && more);
	return r;
}

/* *plain: it was the kernel's turn, SIGPIPE included. */
static ssize_t file_try(struct sr_stream *st, int fd, int in_fd, off_t *off,
			size_t count, bool more, bool *eof, bool *plain)
{
	ssize_t r = -EAGAIN;

	*eof = false;
	sr_tx_on_send(st);
	*plain = sr_tx_gate_enter(st);
	if (*plain) {
		sr_st_set(st, SR_ST_TX_HISTORY);	/* not seen by us */
		r = sr_real.sendfile(fd, in_fd, off, count);
		if (r < 0)
			r = -errno;
		if (r > 0)
			atomic_fetch_add(&st->tx_tcp, (uint64_t)r);
		*eof = r == 0;
		note_full(st, r, *eof ? 0 : count);
		sr_tx_gate_leave(st);
		return r;
	}
	pthread_mutex_lock(&st->tx_lock);
	sr_tx_progress(st);
	if (!sr_gate_shut(&st->tx_gate)) {
		r = 0;			/* once more */
	} else if (st->broken || st->tx.ended ||
		   st->tx.state == SR_TX_DONE) {
		r = over(st);
	} else if (st->tx.state == SR_TX_LINK) {
		r = file_to_ring(st, in_fd, off, count, more);
		*eof = r == 0;
	}
	pthread_mutex_unlock(&st->tx_lock);
	return r;
}

ssize_t sr_stream_sendfile(struct sr_stream *st, int fd, int in_fd,
			   off_t *off, size_t count, bool more)
{
	struct sr_sleep sleep = { .fd = fd, .option = SO_SNDTIMEO };
	ssize_t done = 0, r = 0;
	bool eof, plain = false;

	sr_upgrade_used(st);
	sr_upgrade_hold(st);
	while ((size_t)done < count) {
		size_t left = count - (size_t)done;
		size_t n = left < SLICE ? left : SLICE; /* send_sliced() */

		r = file_try(st, fd, in_fd, off, n, more || n < left, &eof,
			     &plain);
		if (r > 0) {
			done += r;
			if (sr_gate_shut(&st->tx_gate))
				continue;
			sr_upgrade_count(st);
			if ((size_t)r < n)
				break;	/* the kernel's own short count */
			continue;
		}
		if (r == 0 && !eof)
			continue;
		if (r != -EAGAIN)
			break;
		plain = false;
		if (!sr_sleep_allowed(&sleep) && sr_tx_decide(st))
			continue;
		sleep.partial = done > 0;
		r = sr_sleep(st, &sleep, POLLOUT);
		if (r < 0 && (r != -EAGAIN || !room_after_all(st)))
			break;
	}
	return done ? done : pipe_error(r, plain ? MSG_NOSIGNAL : 0);
}
