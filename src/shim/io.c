/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * io.c - the calls that move bytes.  In each the fast path comes first; the slow path
 * turns the call into a recvmsg() or sendmsg() on the stream.
 */
#include "shim/shim.h"

#include <limits.h>
#include <string.h>

#include "engine/iov.h"

#define FEW 8	/* buffers that the fast path takes */

/* ---- descriptors that a message carries ---- */

/* Calls fn for each. */
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

/* The process that receives a stream's descriptor may run without the library. */
static void passed_leave(int fd)
{
	sr_shim_make_plain(fd, SR_REASON_PASSED);
}

static void passed_arrive(int fd)
{
	sr_shim_fresh(fd);
}

/* ---- plain streams ---- */

/* After the C library's call on a retired stream, or on no stream (NULL): counts its
 * bytes.  Bytes that were only peeked, or are not in the stream, do not count. */
static ssize_t io_count_received(struct sr_stream *st, int flags, ssize_t r)
{
	if (st && (r < 0 || !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))))
		sr_retired_received(st, r);
	return r;
}

/* The last byte of urgent data is not in the stream. */
static ssize_t io_count_sent(struct sr_stream *st, int flags, ssize_t r)
{
	if (st)
		sr_retired_sent(st, r - (r > 0 && (flags & MSG_OOB)));
	return r;
}

/* For calls that a link cannot serve: makes the stream of fd plain, and returns it, or
 * NULL. */
static struct sr_stream *plain_stream_get(int fd)
{
	if (sr_has_active_stream(fd))
		sr_shim_make_plain(fd, SR_REASON_OPTION);
	return sr_fdtab_peek(fd);
}

/* ---- the slow path ---- */

/* Has the program closed the stream's descriptor without our seeing it, and opened a file with
 * the same number?  Then the call returns -ENOTSOCK, and the stream's entry is removed. */
static bool is_stale(struct sr_stream *st, int fd, int saved, ssize_t r)
{
	if (r != -ENOTSOCK)
		return false;
	sr_shim_stale(fd, st);
	errno = saved;
	return true;
}

/* False: there is no stream, and the caller calls the C library. */
static bool io_slow(int fd, struct msghdr *msg, int flags, bool sends, ssize_t *result)
{
	struct sr_stream *st = sr_fdtab_get(fd);
	int saved = errno;
	ssize_t r;

	if (!st)
		return false;
	r = sr_msg_refused(msg);
	if (!r)
		r = sends ? sr_stream_send(st, fd, msg, flags) :
			    sr_stream_recv(st, fd, msg, flags);
	if (is_stale(st, fd, saved, r))
		return false;
	*result = sr_result(st, saved, r);
	return true;
}

/* ---- as with files ---- */

/* Does this call move bytes?  If not, the kernel answers it: a count that it refuses
 * (with EINVAL, where sendmsg() has EMSGSIZE), or no bytes at all, for which it does not
 * even ask the socket. */
static bool is_vec(const struct iovec *iov, int cnt)
{
	if (cnt < 0 || cnt > IOV_MAX)
		return false;
	return sr_iov_valid(iov, (size_t)cnt) && sr_iov_make(iov, (size_t)cnt).left;
}

static __attribute__((noinline)) ssize_t vec_slow(int fd, const struct iovec *iov,
						  int cnt, bool sends)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)cnt};
	ssize_t r;

	if (io_slow(fd, &msg, 0, sends, &r))
		return r;
	return sends ? sr_real.writev(fd, iov, cnt) : sr_real.readv(fd, iov, cnt);
}

ssize_t sr_read(int fd, void *buf, size_t n)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	struct iovec iov = {buf, n};
	size_t fast;

	/* (A length beyond an ssize_t is the kernel's to refuse.) */
	if (!st || sr_is_retired(st) || (ssize_t)n <= 0)
		return io_count_received(st, 0, sr_real.read(fd, buf, n));
	fast = sr_rx_is_fast(st) ? sr_fast_recv(st, fd, &iov, 1) : 0;
	return fast ? (ssize_t)fast : vec_slow(fd, &iov, 1, false);
}

ssize_t sr_readv(int fd, const struct iovec *iov, int cnt)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	size_t fast;

	if (!st || sr_is_retired(st) || !is_vec(iov, cnt))
		return io_count_received(st, 0, sr_real.readv(fd, iov, cnt));
	fast = sr_rx_is_fast(st) ? sr_fast_recv(st, fd, iov, (size_t)cnt) : 0;
	return fast ? (ssize_t)fast : vec_slow(fd, iov, cnt, false);
}

ssize_t sr_write(int fd, const void *buf, size_t n)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	struct iovec iov = {(void *)buf, n};
	size_t fast;

	if (!st || sr_is_retired(st) || (ssize_t)n < 0)
		return io_count_sent(st, 0, sr_real.write(fd, buf, n));
	fast = sr_tx_is_fast(st) ? sr_fast_send(st, fd, &iov, 1) : 0;
	return fast ? (ssize_t)fast : vec_slow(fd, &iov, 1, true);
}

ssize_t sr_writev(int fd, const struct iovec *iov, int cnt)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	size_t fast;

	if (!st || sr_is_retired(st) || !is_vec(iov, cnt))
		return io_count_sent(st, 0, sr_real.writev(fd, iov, cnt));
	fast = sr_tx_is_fast(st) ? sr_fast_send(st, fd, iov, (size_t)cnt) : 0;
	return fast ? (ssize_t)fast : vec_slow(fd, iov, cnt, true);
}

/* ---- as with sockets ---- */

/* Are there only flags that do not matter if the call need not wait? */
static bool is_fast(int flags)
{
	return !(flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL));
}

static bool has_few(const struct msghdr *msg)
{
	return !msg->msg_name && !msg->msg_controllen && msg->msg_iovlen <= FEW;
}

static __attribute__((noinline)) ssize_t recv_from(int fd, void *buf, size_t n,
						   int flags, struct sockaddr *addr,
						   socklen_t *len)
{
	struct iovec iov = {buf, n < SSIZE_MAX ? n : SSIZE_MAX};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t r;

	if (!io_slow(fd, &msg, flags, false, &r))
		return sr_real.recvfrom(fd, buf, n, flags, addr, len);
	if (r < 0 || !addr)
		return r;
	/* The kernel checks the length only after it has the bytes.  TCP reports no sender. */
	if ((int)*len < 0)
		return sr_outcome(0, -EINVAL);
	*len = 0;
	return r;
}

/* The C library's call and the link's have a function each, so that a call on a plain stream
 * does not save the registers that only a call on a link needs. */
static __attribute__((noinline)) ssize_t recv_by_libc(int fd, void *buf, size_t n, int flags,
						      struct sr_stream *st)
{
	return io_count_received(st, flags, sr_real.recv(fd, buf, n, flags));
}

static __attribute__((noinline)) ssize_t recv_on_link(int fd, void *buf, size_t n, int flags,
						     struct sr_stream *st)
{
	struct iovec iov = {buf, n};
	size_t fast;

	fast = is_fast(flags) && sr_rx_is_fast(st) ? sr_fast_recv(st, fd, &iov, 1) : 0;
	return fast ? (ssize_t)fast : recv_from(fd, buf, n, flags, NULL, NULL);
}

ssize_t sr_recv(int fd, void *buf, size_t n, int flags)
{
	struct sr_stream *st = sr_fdtab_peek(fd);

	return !st || sr_is_retired(st) ? recv_by_libc(fd, buf, n, flags, st) :
					recv_on_link(fd, buf, n, flags, st);
}

ssize_t sr_recvfrom(int fd, void *buf, size_t n, int flags,
		    struct sockaddr *addr, socklen_t *len)
{
	struct sr_stream *st = sr_fdtab_peek(fd);

	if (st && !sr_is_retired(st))
		return addr ? recv_from(fd, buf, n, flags, addr, len) :
			      sr_recv(fd, buf, n, flags);
	return io_count_received(st, flags, sr_real.recvfrom(fd, buf, n, flags, addr, len));
}

ssize_t sr_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	size_t fast = 0;
	ssize_t r;

	if (st && sr_is_retired(st))
		return io_count_received(st, flags, sr_real.recvmsg(fd, msg, flags));
	if (st && is_fast(flags) && sr_rx_msg_is_fast(st) && has_few(msg))
		fast = sr_fast_recv(st, fd, msg->msg_iov, msg->msg_iovlen);
	if (fast) {
		msg->msg_flags = 0;
		return (ssize_t)fast;
	}
	if (st && io_slow(fd, msg, flags, false, &r))
		return r;
	r = sr_real.recvmsg(fd, msg, flags);
	if (r >= 0)
		each_passed(msg, passed_arrive);
	return r;
}

int sr_recvmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags,
		struct timespec *timeout)
{
	struct sr_stream *st = plain_stream_get(fd);
	int r = sr_real.recvmmsg(fd, vec, n, flags, timeout);

	if (r < 0)
		io_count_received(st, flags, r);
	for (int i = 0; i < r; i++) {
		io_count_received(st, flags, vec[i].msg_len);
		if (!st)
			each_passed(&vec[i].msg_hdr, passed_arrive);
	}
	return r;
}

static __attribute__((noinline)) ssize_t send_to(int fd, const void *buf, size_t n,
						 int flags,
						 const struct sockaddr *addr,
						 socklen_t len)
{
	struct iovec iov = {(void *)buf, n < SSIZE_MAX ? n : SSIZE_MAX};
	struct msghdr msg = {
		.msg_name = (void *)addr,
		.msg_namelen = addr ? len : 0,
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	ssize_t r;

	/* sendto(2) refuses this length; sendmsg(2) would shorten it. */
	if (addr && len > sizeof(struct sockaddr_storage))
		return sr_outcome(0, -EINVAL);
	return io_slow(fd, &msg, flags, true, &r) ?
		       r : sr_real.sendto(fd, buf, n, flags, addr, len);
}

/* As recv_by_libc() and recv_on_link(). */
static __attribute__((noinline)) ssize_t send_by_libc(int fd, const void *buf, size_t n,
						      int flags, struct sr_stream *st)
{
	return io_count_sent(st, flags, sr_real.send(fd, buf, n, flags));
}

static __attribute__((noinline)) ssize_t send_on_link(int fd, const void *buf, size_t n, int flags,
						     struct sr_stream *st)
{
	struct iovec iov = {(void *)buf, n};
	size_t fast;

	fast = is_fast(flags) && sr_tx_is_fast(st) ? sr_fast_send(st, fd, &iov, 1) : 0;
	return fast ? (ssize_t)fast : send_to(fd, buf, n, flags, NULL, 0);
}

ssize_t sr_send(int fd, const void *buf, size_t n, int flags)
{
	struct sr_stream *st = sr_fdtab_peek(fd);

	return !st || sr_is_retired(st) ? send_by_libc(fd, buf, n, flags, st) :
					send_on_link(fd, buf, n, flags, st);
}

ssize_t sr_sendto(int fd, const void *buf, size_t n, int flags,
		  const struct sockaddr *addr, socklen_t len)
{
	struct sr_stream *st = sr_fdtab_peek(fd);

	if (st && !sr_is_retired(st))
		return addr ? send_to(fd, buf, n, flags, addr, len) :
			      sr_send(fd, buf, n, flags);
	return io_count_sent(st, flags, sr_real.sendto(fd, buf, n, flags, addr, len));
}

ssize_t sr_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	size_t fast = 0;
	ssize_t r;

	if (st && sr_is_retired(st))
		return io_count_sent(st, flags, sr_real.sendmsg(fd, msg, flags));
	if (st && is_fast(flags) && sr_tx_is_fast(st) && has_few(msg))
		fast = sr_fast_send(st, fd, msg->msg_iov, msg->msg_iovlen);
	if (fast)
		return (ssize_t)fast;
	if (st && io_slow(fd, (struct msghdr *)msg, flags, true, &r))
		return r;
	if (!sr_shim_unused())
		each_passed(msg, passed_leave);
	return sr_real.sendmsg(fd, msg, flags);
}

int sr_sendmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags)
{
	struct sr_stream *st = plain_stream_get(fd);
	int r;

	for (unsigned i = 0; i < n && i < UIO_MAXIOV && !sr_shim_unused(); i++)
		each_passed(&vec[i].msg_hdr, passed_leave);
	r = sr_real.sendmmsg(fd, vec, n, flags);
	if (r < 0)
		io_count_sent(st, flags, r);
	for (int i = 0; i < r; i++)
		io_count_sent(st, flags, vec[i].msg_len);
	return r;
}

/* ---- calls that files share ---- */

ssize_t sr_sendfile(int fd, int in, off_t *off, size_t n)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	int saved = errno;
	ssize_t r;

	/* (For no bytes at all the kernel does not ask the socket.) */
	if (!st || sr_is_retired(st) || !n)
		return io_count_sent(st, 0, sr_real.sendfile(fd, in, off, n));
	st = sr_fdtab_get(fd);
	if (!st)
		return sr_real.sendfile(fd, in, off, n);
	r = sr_stream_sendfile(st, fd, in, off, n);
	return is_stale(st, fd, saved, r) ? sr_real.sendfile(fd, in, off, n) :
					    sr_result(st, saved, r);
}
