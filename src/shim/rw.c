/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rw.c - streams read and written like files.
 */
#include "shim/shim.h"

#include <limits.h>

#include "engine/fast.h"
#include "engine/fdtab.h"
#include "engine/iov.h"
#include "upgrade/upgrade.h"
#include "sock/sock.h"

/*
 * The calls of this file also fit what is no socket: -ENOTSOCK from a stream
 * says that its number now is a file's.  The entry goes and the call is made
 * again, as the C library's.
 */
static ssize_t recv_vec(struct sr_stream *st, int fd, const struct iovec *iov,
			size_t cnt, int flags)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)iov,
		.msg_iovlen = cnt,
	};
	int saved = errno;
	ssize_t r = sr_stream_recv(st, fd, &msg, flags);

	if (r != -ENOTSOCK)
		return sr_result(st, saved, r);
	sr_shim_stale(fd, st);
	errno = saved;
	return sr_real.readv(fd, iov, (int)cnt);
}

static ssize_t send_vec(struct sr_stream *st, int fd, const struct iovec *iov,
			size_t cnt, int flags)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)iov,
		.msg_iovlen = cnt,
	};
	int saved = errno;
	ssize_t r = sr_stream_send(st, fd, &msg, flags);

	if (r != -ENOTSOCK)
		return sr_result(st, saved, r);
	sr_shim_stale(fd, st);
	errno = saved;
	return sr_real.writev(fd, iov, (int)cnt);
}

/* The kernel answers what moves no byte: a count that it refuses (EINVAL, where
 * sendmsg() says EMSGSIZE), and no bytes at all, for which it does not even ask the
 * socket. */
static bool is_vec(const struct iovec *iov, int cnt)
{
	if (cnt < 0 || cnt > IOV_MAX)
		return false;
	return sr_iov_valid(iov, (size_t)cnt) && sr_iov_make(iov, (size_t)cnt).left;
}

/* The C library's call on a stream that is TCP's for good, or on no stream. */
static ssize_t received(struct sr_stream *st, ssize_t r)
{
	if (st)
		sr_plain_received(st, r);
	return r;
}

static ssize_t sent(struct sr_stream *st, ssize_t r)
{
	if (st)
		sr_plain_sent(st, r);
	return r;
}

static __attribute__((noinline)) ssize_t read_slow(int fd, void *buf, size_t n)
{
	struct sr_stream *st = (ssize_t)n > 0 ? sr_fdtab_get(fd) : NULL;
	struct iovec iov = {buf, n};

	return st ? recv_vec(st, fd, &iov, 1, 0) : sr_real.read(fd, buf, n);
}

ssize_t sr_read(int fd, void *buf, size_t n)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	struct iovec iov = {buf, n};
	size_t fast;

	if (!st || sr_is_plain(st))
		return received(st, sr_real.read(fd, buf, n));
	/* (A length beyond an ssize_t is the kernel's to refuse.) */
	fast = sr_rx_is_fast(st) && (ssize_t)n > 0 ? sr_fast_recv(st, fd, &iov, 1) : 0;
	return fast ? (ssize_t)fast : read_slow(fd, buf, n);
}

ssize_t sr_readv(int fd, const struct iovec *iov, int cnt)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	size_t fast;

	if (!st || sr_is_plain(st) || !is_vec(iov, cnt))
		return received(st, sr_real.readv(fd, iov, cnt));
	fast = sr_rx_is_fast(st) ? sr_fast_recv(st, fd, iov, (size_t)cnt) : 0;
	if (fast)
		return (ssize_t)fast;
	st = sr_fdtab_get(fd);
	return st ? recv_vec(st, fd, iov, (size_t)cnt, 0) :
		    sr_real.readv(fd, iov, cnt);
}

static __attribute__((noinline)) ssize_t write_slow(int fd, const void *buf, size_t n)
{
	struct sr_stream *st = (ssize_t)n >= 0 ? sr_fdtab_get(fd) : NULL;
	struct iovec iov = {(void *)buf, n};

	return st ? send_vec(st, fd, &iov, 1, 0) : sr_real.write(fd, buf, n);
}

ssize_t sr_write(int fd, const void *buf, size_t n)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	struct iovec iov = {(void *)buf, n};
	size_t fast;

	if (!st || sr_is_plain(st))
		return sent(st, sr_real.write(fd, buf, n));
	fast = sr_tx_is_fast(st) ? sr_fast_send(st, fd, &iov, 1) : 0;
	return fast ? (ssize_t)fast : write_slow(fd, buf, n);
}

ssize_t sr_writev(int fd, const struct iovec *iov, int cnt)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	size_t fast;

	if (!st || sr_is_plain(st) || !is_vec(iov, cnt))
		return sent(st, sr_real.writev(fd, iov, cnt));
	fast = sr_tx_is_fast(st) ? sr_fast_send(st, fd, iov, (size_t)cnt) : 0;
	if (fast)
		return (ssize_t)fast;
	st = sr_fdtab_get(fd);
	return st ? send_vec(st, fd, iov, (size_t)cnt, 0) :
		    sr_real.writev(fd, iov, cnt);
}

/*
 * preadv2() and pwritev2() without a position.  With one they fail with ESPIPE on any
 * socket and leave its bytes alone: the kernel says so itself.  The flags that order
 * writing out or ask for polling mean nothing to a socket, and RWF_NOWAIT is
 * MSG_DONTWAIT.  What others may mean in a later kernel cannot be known.
 */
#define FLAGS (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND | RWF_NOWAIT)

ssize_t sr_preadv2(int fd, const struct iovec *iov, int cnt, off_t off,
		   int flags)
{
	struct sr_stream *st = NULL;

	if (off == -1 && sr_fdtab_has(fd) && is_vec(iov, cnt))
		st = sr_fdtab_get(fd);
	if (!st)
		return sr_real.preadv2(fd, iov, cnt, off, flags);
	if (flags & ~FLAGS)
		return sr_result(st, 0, -EOPNOTSUPP);
	return recv_vec(st, fd, iov, (size_t)cnt,
			flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

ssize_t sr_pwritev2(int fd, const struct iovec *iov, int cnt, off_t off,
		    int flags)
{
	struct sr_stream *st = NULL;

	if (off == -1 && sr_fdtab_has(fd) && is_vec(iov, cnt))
		st = sr_fdtab_get(fd);
	if (!st)
		return sr_real.pwritev2(fd, iov, cnt, off, flags);
	if (flags & ~FLAGS)
		return sr_result(st, 0, -EOPNOTSUPP);
	return send_vec(st, fd, iov, (size_t)cnt,
			flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

ssize_t sr_sendfile(int fd, int in, off_t *off, size_t n)
{
	struct sr_stream *st = sr_fdtab_peek(fd);
	int saved = errno;
	ssize_t r;

	if (st && sr_is_plain(st))
		return sent(st, sr_real.sendfile(fd, in, off, n));
	st = st ? sr_fdtab_get(fd) : NULL;
	if (!st)
		return sr_real.sendfile(fd, in, off, n);
	r = sr_stream_sendfile(st, fd, in, off, n, false);
	if (r != -ENOTSOCK)
		return sr_result(st, saved, r);
	sr_shim_stale(fd, st);
	errno = saved;
	return sr_real.sendfile(fd, in, off, n);
}

/*
 * Pages that move between a pipe and the kernel's socket never pass us.  So a
 * stream that is spliced is a plain one: programs that splice lose the link,
 * which sockrail(7) says.
 */
ssize_t sr_splice(int in, off_t *in_off, int out, off_t *out_off, size_t n,
		  unsigned flags)
{
	sr_shim_plain(in, SR_REASON_OPTION);
	sr_shim_plain(out, SR_REASON_OPTION);
	return sr_real.splice(in, in_off, out, out_off, n, flags);
}
