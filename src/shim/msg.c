/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * msg.c - sending and receiving with flags, addresses and control messages.
 */
#include "shim/shim.h"

#include <limits.h>
#include <string.h>

#include "base/loop.h"
#include "engine/fast.h"
#include "engine/fdtab.h"
#include "engine/iov.h"
#include "upgrade/upgrade.h"
#include "sock/sock.h"

/* Calls fn for each descriptor that a message carries. */
static void each_passed(const struct msghdr *msg, void (*fn)(int fd))
{
	struct cmsghdr *c;

	if (msg->msg_controllen < sizeof(struct cmsghdr))
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

/* The C library's call on a stream that is TCP's for good, or on no stream. */
static ssize_t sent(struct sr_stream *st, int flags, ssize_t r)
{
	if (st)		/* of urgent data the last byte is beside the stream */
		sr_plain_sent(st, r - (r > 0 && (flags & MSG_OOB)));
	return r;
}

/* What is only looked at, and what is beside the stream, does not count. */
static ssize_t received(struct sr_stream *st, int flags, ssize_t r)
{
	if (st && (r < 0 || !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))))
		sr_plain_received(st, r);
	return r;
}

/* TCP names no sender.  The kernel looks at the length when it has the bytes. */
static int name_nobody(socklen_t *len)
{
	if ((int)*len < 0)
		return -EINVAL;
	*len = 0;
	return 0;
}

static __attribute__((noinline)) ssize_t recv_from(int fd, void *buf, size_t n,
						   int flags, struct sockaddr *addr,
						   socklen_t *len)
{
	struct sr_stream *st = sr_fdtab_get(fd);
	struct iovec iov = {buf, n < SSIZE_MAX ? n : SSIZE_MAX};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int saved = errno;
	ssize_t r, named = 0;

	if (!st)
		return sr_real.recvfrom(fd, buf, n, flags, addr, len);
	r = sr_stream_recv(st, fd, &msg, flags);
	if (r >= 0 && addr)
		named = name_nobody(len);
	return sr_result(st, saved, named < 0 ? named : r);
}

/* Flags that change nothing for what is there, or is taken, at once. */
static bool is_fast(int flags)
{
	return !(flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL));
}

ssize_t sr_recv(int fd, void *buf, size_t n, int flags)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	struct iovec iov = {buf, n};
	size_t fast;

	if (!st || sr_is_plain(st))
		return received(st, flags, sr_real.recv(fd, buf, n, flags));
	fast = is_fast(flags) && sr_rx_is_fast(st) ? sr_fast_recv(st, fd, &iov, 1) : 0;
	return fast ? (ssize_t)fast : recv_from(fd, buf, n, flags, NULL, NULL);
}

ssize_t sr_recvfrom(int fd, void *buf, size_t n, int flags,
		    struct sockaddr *addr, socklen_t *len)
{
	struct sr_stream *st = sr_fdtab_peek(fd);

	if (st && !sr_is_plain(st))
		return addr ? recv_from(fd, buf, n, flags, addr, len) :
			      sr_recv(fd, buf, n, flags);
	return received(st, flags, sr_real.recvfrom(fd, buf, n, flags, addr, len));
}

#define FEW 8	/* buffers */

static bool has_few(const struct msghdr *msg)
{
	return !msg->msg_name && !msg->msg_controllen && msg->msg_iovlen <= FEW;
}

ssize_t sr_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	int saved = errno;
	size_t fast = 0;
	ssize_t r;

	if (st && sr_is_plain(st))
		return received(st, flags, sr_real.recvmsg(fd, msg, flags));
	if (st && is_fast(flags) && sr_rx_is_fast(st) && has_few(msg))
		fast = sr_fast_recv(st, fd, msg->msg_iov, msg->msg_iovlen);
	if (fast) {
		msg->msg_flags = 0;
		return (ssize_t)fast;
	}
	st = st ? sr_fdtab_get(fd) : NULL;
	if (st) {
		r = sr_msg_refused(msg);
		return sr_result(st, saved,
				 r < 0 ? r : sr_stream_recv(st, fd, msg, flags));
	}
	r = sr_real.recvmsg(fd, msg, flags);
	if (r >= 0)
		each_passed(msg, take_over);
	return r;
}

/* The number of messages, or -errno if there was none; an error behind some is for
 * the next call.  As in the kernel the timeout is looked at only between messages. */
static ssize_t recv_many(struct sr_stream *st, int fd, struct mmsghdr *vec,
			 unsigned n, int flags, const struct timespec *timeout)
{
	uint64_t end;
	ssize_t r = 0;
	unsigned i;

	if (timeout && !sr_is_time(timeout))
		return -EINVAL;
	end = timeout ? sr_deadline_ns((uint64_t)timeout->tv_sec,
				       (uint64_t)timeout->tv_nsec) : 0;
	for (i = 0; i < n; i++) {
		if (i && timeout && sr_now_ns() >= end)
			break;
		r = sr_msg_refused(&vec[i].msg_hdr);
		if (r == 0)
			r = sr_stream_recv(st, fd, &vec[i].msg_hdr,
					   flags & ~MSG_WAITFORONE);
		if (r < 0)
			break;
		vec[i].msg_len = (unsigned)r;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
	}
	if (i && r < 0)
		sr_stream_keep(st, r);
	return i ? (ssize_t)i : r;
}

int sr_recvmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags,
		struct timespec *timeout)
{
	struct sr_stream *plain = sr_fdtab_peek(fd), *st = sr_stream_live(fd);
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

static __attribute__((noinline)) ssize_t send_to(int fd, const void *buf, size_t n,
						 int flags,
						 const struct sockaddr *addr,
						 socklen_t len)
{
	struct sr_stream *st = sr_fdtab_get(fd);
	struct iovec iov = {(void *)buf, n < SSIZE_MAX ? n : SSIZE_MAX};
	struct msghdr msg = {
		.msg_name = (void *)addr,
		.msg_namelen = addr ? len : 0,
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	int saved = errno;

	if (!st)
		return sr_real.sendto(fd, buf, n, flags, addr, len);
	/* Where sendmsg(2) cuts the length. */
	if (addr && len > sizeof(struct sockaddr_storage))
		return sr_result(st, saved, -EINVAL);
	return sr_result(st, saved, sr_stream_send(st, fd, &msg, flags));
}

ssize_t sr_send(int fd, const void *buf, size_t n, int flags)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	struct iovec iov = {(void *)buf, n};
	size_t fast;

	if (!st || sr_is_plain(st))
		return sent(st, flags, sr_real.send(fd, buf, n, flags));
	fast = is_fast(flags) && sr_tx_is_fast(st) ? sr_fast_send(st, fd, &iov, 1) : 0;
	return fast ? (ssize_t)fast : send_to(fd, buf, n, flags, NULL, 0);
}

ssize_t sr_sendto(int fd, const void *buf, size_t n, int flags,
		  const struct sockaddr *addr, socklen_t len)
{
	struct sr_stream *st = sr_fdtab_peek(fd);

	if (st && !sr_is_plain(st))
		return addr ? send_to(fd, buf, n, flags, addr, len) :
			      sr_send(fd, buf, n, flags);
	return sent(st, flags, sr_real.sendto(fd, buf, n, flags, addr, len));
}

ssize_t sr_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	int saved = errno;
	size_t fast = 0;
	ssize_t r;

	if (st && sr_is_plain(st))
		return sent(st, flags, sr_real.sendmsg(fd, msg, flags));
	if (st && is_fast(flags) && sr_tx_is_fast(st) && has_few(msg))
		fast = sr_fast_send(st, fd, msg->msg_iov, msg->msg_iovlen);
	if (fast)
		return (ssize_t)fast;
	st = st ? sr_fdtab_get(fd) : NULL;
	if (!st) {
		if (!sr_shim_unused())
			each_passed(msg, hand_over);
		return sr_real.sendmsg(fd, msg, flags);
	}
	r = sr_msg_refused(msg);
	return sr_result(st, saved, r < 0 ? r : sr_stream_send(st, fd, msg, flags));
}

/* The number of messages, or -errno if there was none.  As in the kernel a message of
 * which only a part was taken is the last. */
static ssize_t send_many(struct sr_stream *st, int fd, struct mmsghdr *vec,
			 unsigned n, int flags)
{
	ssize_t r = 0, left = 0;
	unsigned i;

	for (i = 0; i < n && i < UIO_MAXIOV && !left; i++) {
		const struct msghdr *msg = &vec[i].msg_hdr;

		r = sr_msg_refused(msg);
		if (r == 0)
			r = sr_stream_send(st, fd, msg, flags);
		if (r < 0)
			break;
		vec[i].msg_len = (unsigned)r;
		left = (ssize_t)sr_iov_make(msg->msg_iov, msg->msg_iovlen).left - r;
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
