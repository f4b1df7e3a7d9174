/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * msg.c - sending and receiving with flags, addresses and control messages.
 */
#include "shim/shim.h"

#include <limits.h>
#include <string.h>

#include "base/loop.h"
#include "stream/iov.h"

/* Calls fn for each descriptor that a message carries. */
static void each_passed(const struct msghdr *msg, void (*fn)(int fd))
{
	struct cmsghdr *c;

	if (!sr_readable(msg, sizeof(*msg)) ||
	    msg->msg_controllen < sizeof(struct cmsghdr) ||
	    !sr_readable(msg->msg_control, msg->msg_controllen))
		return;
	for (c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR((struct msghdr *)msg, c)) {
		size_t len = c->cmsg_len - CMSG_LEN(0);
		int fd;

		/* A length that the kernel is going to refuse. */
		if (c->cmsg_len < CMSG_LEN(0) ||
		    c->cmsg_len > msg->msg_controllen -
					  (size_t)((char *)c -
						   (char *)msg->msg_control))
			return;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < len / sizeof(int); i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
			fn(fd);
		}
	}
}

/* Whoever gets a stream's descriptor may run without us. */
static void hand_over(int fd)
{
	sr_shim_plain(fd, SR_REASON_PASSED);
}

static void take_over(int fd)
{
	sr_shim_fresh(fd);
}

static ssize_t sent(struct sr_stream *plain, int flags, ssize_t r)
{
	if (r > 0 && (flags & MSG_OOB))	/* the last byte is urgent */
		return sr_plain_sent(plain, r - 1) + 1;
	return sr_plain_sent(plain, r);
}

/* What is only looked at, and what is beside the stream, does not count. */
static ssize_t received(struct sr_stream *plain, int flags, ssize_t r)
{
	bool counts = !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE));

	return sr_plain_received(counts || r < 0 ? plain : NULL, r);
}

ssize_t sr_recv(int fd, void *buf, size_t n, int flags)
{
	return sr_recvfrom(fd, buf, n, flags, NULL, NULL);
}

/* TCP names no sender.  The kernel looks at the length when it has the bytes. */
static int name_nobody(socklen_t *len)
{
	if (!sr_readable(len, sizeof(*len)))
		return -EFAULT;
	if ((int)*len < 0)
		return -EINVAL;
	*len = 0;
	return 0;
}

ssize_t sr_recvfrom(int fd, void *buf, size_t n, int flags,
		    struct sockaddr *addr, socklen_t *len)
{
	struct sr_stream *plain, *st = sr_stream_of(fd, &plain);
	struct iovec iov = {buf, n < SSIZE_MAX ? n : SSIZE_MAX};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int saved;
	ssize_t r, named = 0;

	if (!st)
		return received(plain, flags,
				sr_real.recvfrom(fd, buf, n, flags, addr, len));
	saved = errno;
	r = sr_stream_recv(st, fd, &msg, flags);
	if (r >= 0 && addr)
		named = name_nobody(len);
	return sr_result(st, saved, named < 0 ? named : r);
}

ssize_t sr_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sr_stream *plain, *st = sr_stream_of(fd, &plain);
	int saved;
	ssize_t r;

	if (st) {
		saved = errno;
		r = sr_msg_refused(msg);
		return sr_result(st, saved,
				 r < 0 ? r : sr_stream_recv(st, fd, msg, flags));
	}
	r = received(plain, flags, sr_real.recvmsg(fd, msg, flags));
	if (r >= 0 && !plain)
		each_passed(msg, take_over);
	return r;
}

/* What is left of a timeout after a message, as recvmmsg(2) counts: false when
 * it is used up. */
static bool time_left(const struct timespec *end, struct timespec *left)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left->tv_sec = end->tv_sec - now.tv_sec;
	left->tv_nsec = end->tv_nsec - now.tv_nsec;
	if (left->tv_nsec < 0) {
		left->tv_sec--;
		left->tv_nsec += 1000000000;
	}
	if (left->tv_sec < 0)
		*left = (struct timespec){0};
	return left->tv_sec || left->tv_nsec;
}

static void add_time(struct timespec *t, const struct timespec *more)
{
	t->tv_sec += more->tv_sec;
	t->tv_nsec += more->tv_nsec;
	if (t->tv_nsec >= 1000000000) {
		t->tv_sec++;
		t->tv_nsec -= 1000000000;
	}
}

/* An error that the socket keeps, as recvmmsg(2) asks for it first: -errno, or 0. */
static int error_kept(struct sr_stream *st, int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	sr_stream_getsockopt(st, fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return -err;
}

/* The number of messages, or -errno if there was none; an error behind some is for
 * the next call.  As in the kernel the timeout is looked at only between messages. */
static ssize_t recv_many(struct sr_stream *st, int fd, struct mmsghdr *vec,
			 unsigned n, int flags, struct timespec *timeout)
{
	struct sr_handled began = sr_handled_now();
	struct timespec end;
	unsigned i;
	ssize_t r;

	if (timeout) {
		if (!sr_readable(timeout, sizeof(*timeout)))
			return -EFAULT;
		if (!sr_is_time(timeout))
			return -EINVAL;
		clock_gettime(CLOCK_MONOTONIC, &end);
		add_time(&end, timeout);
	}
	r = error_kept(st, fd);
	if (r < 0)
		return r;
	for (i = 0; i < n; i++) {
		r = sr_msg_refused(&vec[i].msg_hdr);
		if (r == 0)
			r = sr_stream_recv_next(st, fd, &vec[i].msg_hdr,
						flags & ~MSG_WAITFORONE,
						i ? &began : NULL);
		if (r < 0)
			break;
		if (!i)
			sr_handled_anew(&began);
		vec[i].msg_len = (unsigned)r;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if ((timeout && !time_left(&end, timeout)) ||
		    vec[i].msg_hdr.msg_flags & MSG_OOB) {
			i++;
			break;
		}
	}
	if (i && r < 0)
		sr_stream_keep(st, r);
	return i ? (ssize_t)i : r;
}

int sr_recvmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags,
		struct timespec *timeout)
{
	struct sr_stream *plain, *st = sr_stream_of(fd, &plain);
	int saved = errno, r;

	if (st)
		return (int)sr_result(
			st, saved, recv_many(st, fd, vec, n, flags, timeout));
	r = sr_real.recvmmsg(fd, vec, n, flags, timeout);
	if (r < 0)
		received(plain, flags, r);
	for (int i = 0; i < r; i++) {
		received(plain, flags, vec[i].msg_len);
		if (!plain)
			each_passed(&vec[i].msg_hdr, take_over);
	}
	return r;
}

ssize_t sr_send(int fd, const void *buf, size_t n, int flags)
{
	return sr_sendto(fd, buf, n, flags, NULL, 0);
}

ssize_t sr_sendto(int fd, const void *buf, size_t n, int flags,
		  const struct sockaddr *addr, socklen_t len)
{
	struct sr_stream *plain, *st = sr_stream_of(fd, &plain);
	struct iovec iov = {(void *)buf, n < SSIZE_MAX ? n : SSIZE_MAX};
	struct msghdr msg = {
		.msg_name = (void *)addr,
		.msg_namelen = addr ? len : 0,
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	int saved;

	if (!st)
		return sent(plain, flags,
			    sr_real.sendto(fd, buf, n, flags, addr, len));
	saved = errno;
	/* Where sendmsg(2) cuts the length. */
	if (addr && len > sizeof(struct sockaddr_storage))
		return sr_result(st, saved, -EINVAL);
	return sr_result(st, saved, sr_stream_send(st, fd, &msg, flags));
}

ssize_t sr_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sr_stream *plain, *st = sr_stream_of(fd, &plain);
	int saved;
	ssize_t r;

	if (!st) {
		if (!sr_shim_unused() && !plain)
			each_passed(msg, hand_over);
		return sent(plain, flags, sr_real.sendmsg(fd, msg, flags));
	}
	saved = errno;
	r = sr_msg_refused(msg);
	return sr_result(st, saved, r < 0 ? r : sr_stream_send(st, fd, msg, flags));
}

/* The number of messages, or -errno if there was none. */
static ssize_t send_many(struct sr_stream *st, int fd, struct mmsghdr *vec,
			 unsigned n, int flags)
{
	struct sr_handled began = sr_handled_now();
	size_t want;
	unsigned i;
	ssize_t r = 0;

	for (i = 0; i < n && i < UIO_MAXIOV; i++) {
		const struct msghdr *msg = &vec[i].msg_hdr;

		r = sr_msg_refused(msg);
		if (r == 0)
			r = sr_stream_send_next(st, fd, msg, flags,
						i ? &began : NULL);
		if (r < 0)
			break;
		if (!i)
			sr_handled_anew(&began);
		vec[i].msg_len = (unsigned)r;
		want = 0;
		for (size_t k = 0; k < msg->msg_iovlen; k++)
			want += msg->msg_iov[k].iov_len;
		if ((size_t)r < want) {
			i++;
			break;
		}
	}
	return i ? (ssize_t)i : r;
}

int sr_sendmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags)
{
	struct sr_stream *st = sr_fdtab_get(fd);
	int saved;

	if (st) {
		saved = errno;
		return (int)sr_result(st, saved,
				      send_many(st, fd, vec, n, flags));
	}
	for (unsigned i = 0; i < n && i < UIO_MAXIOV && !sr_shim_unused(); i++)
		each_passed(&vec[i].msg_hdr, hand_over);
	return sr_real.sendmmsg(fd, vec, n, flags);
}
