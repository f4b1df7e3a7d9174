/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* calls_io.h - the random calls that move bytes. */
#ifndef TEST_CALLS_IO_H
#define TEST_CALLS_IO_H

#include <limits.h>
#include <sys/sendfile.h>

#include "calls.h"

#define COMMON_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)
#define FILE_SIZE 5000
static FILE *file;

/* ------------------------------------------------------------ buffers */

/* n bytes of buf in some pieces, of which some are empty. */
static int cut(struct iovec *iov, size_t n)
{
	unsigned most = once_in(8) ? 100 : 5;
	size_t at = 0, k;
	int i = 0;

	for (; i < (int)most - 1 && at < n; i++) {
		k = once_in(4) ? 0 : 1 + pick((unsigned)(n - at));
		iov[i] = (struct iovec){k ? buf + at : NULL, k};
		at += k;
	}
	iov[i] = (struct iovec){buf + at, n - at};
	return i + 1;
}

static size_t some(size_t most)
{
	size_t n = 1 + pick(once_in(2) ? 40 : once_in(3) ? 4000 : 600);

	return n < most ? n : most;
}

/* ------------------------------------------------------------ sending */

#define REPEATS 5	/* of a send behind which a switch has begun */

/* Has a switch begun between await_room() and the send that returned r? */
static bool has_switched(ssize_t r)
{
	return late && r < 0 && errno == EAGAIN;
}

static void by_file(struct end *e)
{
	bool ended = e->wr_shut || e->dead || e->peer->closed;
	off_t at = pick(FILE_SIZE + (ended ? 0 : 100)), *off = once_in(2) ? &at : NULL;
	size_t n = once_in(8) ? 0 : some(room(e));
	int times = 0, to = any_fd(e);
	ssize_t r;

	if (!off)
		lseek(fileno(file), at, SEEK_SET);
	do {
		await_room();
		errno = 0;
		r = sendfile(to, fileno(file), off, n);
	} while (has_switched(r) && times++ < REPEATS);
	tell(e, off ? "sendfile at" : "sendfile", n, 0, r, 0);
	if (!off)
		at = lseek(fileno(file), 0, SEEK_CUR);
	say("  offset %lld", (long long)at);
	has_sent(e, r, false);
}

static ssize_t send_many(int fd, struct iovec *iov, int n, int flags)
{
	struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = iov, .msg_iovlen = (size_t)n / 2}},
			       {.msg_hdr = {.msg_iov = iov + n / 2,
					    .msg_iovlen = (size_t)(n - n / 2)}}};
	int r = sendmmsg(fd, m, 2, flags);

	return r < 0 ? r : (ssize_t)(m[0].msg_len + (r > 1 ? m[1].msg_len : 0));
}

static ssize_t send_by(int how, int fd, struct iovec *iov, int cnt, size_t n, int flags)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)cnt};

	switch (how) {
	case 0:
		return write(fd, buf, n);
	case 1:
		return writev(fd, iov, cnt);
	case 2:
		return send(fd, buf, n, flags);
	case 3:
		return sendto(fd, buf, n, flags, (void *)&any, n % 2 ? sizeof(any) : 0);
	case 4:
		return sendmsg(fd, &m, flags);
	}
	return send_many(fd, iov, cnt, flags);
}

static void send_some(struct end *e)
{
	static const char *const names[] = {"write", "writev", "send", "sendto", "sendmsg",
					    "sendmmsg"};
	size_t n = once_in(12) ? 0 : some(room(e) + !!e->held);
	int how = (int)pick(odd_for(e, 3) ? 6 : 5), fd = any_fd(e), cnt;
	int flags = how < 2 ? 0 : (int)pick(0x10000) & COMMON_FLAGS;
	struct iovec iov[128];
	int times = 0;
	ssize_t r;

	if (how > 1 && once_in(6) && e->held < 3000)
		flags |= MSG_MORE;
	data_fill(&e->tx, buf, n);
	cnt = cut(iov, n);
	do {
		await_room();
		errno = 0;
		r = send_by(how, fd, iov, cnt, n, flags);
	} while (has_switched(r) && times++ < REPEATS);
	tell(e, names[how], n, flags, r, digest(buf, r));
	has_sent(e, r, flags & MSG_MORE);
}

/* ------------------------------------------------------------ receiving */

static ssize_t receive_many(int fd, struct iovec *iov, int n, int flags)
{
	struct mmsghdr m = {.msg_hdr = {.msg_iov = iov, .msg_iovlen = (size_t)n}};
	int r = recvmmsg(fd, &m, 1, flags, NULL);

	return r < 0 ? r : (ssize_t)m.msg_len;
}

static ssize_t receive_message(int fd, struct iovec *iov, int n, int flags)
{
	char control[64], name[64];
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)n, .msg_flags = 0x77};
	ssize_t r;

	if (once_in(2)) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		m.msg_name = name;
		m.msg_namelen = sizeof(name);
	}
	errno = 0;
	r = recvmsg(fd, &m, flags);
	printf("  flags%s %x name %u control %zu\n", flag_names(m.msg_flags), m.msg_flags,
	       m.msg_namelen, m.msg_controllen);
	return r;
}

/* Flags with which the call returns. */
static int receive_flags(const struct end *e, size_t n)
{
	bool waits = !(e->nonblock || e->timed), all = once_in(5);
	int flags = (int)pick(0x10000) & COMMON_FLAGS;

	if (once_in(4))
		flags |= MSG_PEEK;
	if (odd_for(e, 8))
		flags |= MSG_TRUNC;
	if (all && (!(flags & MSG_PEEK) || odd_for(e, 1)))
		flags |= MSG_WAITALL;
	if (waits && (!ready(e) || (all && e->in < n && !e->fin && !e->dead)))
		flags |= MSG_DONTWAIT;
	return flags;
}

static ssize_t receive_from(int fd, size_t n, int flags)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	ssize_t r = recvfrom(fd, buf, n, flags, (void *)&ss, &len);

	printf("  length %u\n", len);
	return r;
}

static ssize_t receive_by(int how, int fd, struct iovec *iov, int cnt, size_t n, int flags)
{
	switch (how) {
	case 0:
		return read(fd, buf, n);
	case 1:
		return readv(fd, iov, cnt);
	case 2:
		return recv(fd, buf, n, flags);
	case 3:
		return receive_from(fd, n, flags);
	case 4:
		return receive_message(fd, iov, cnt, flags);
	}
	return receive_many(fd, iov, cnt, flags);
}

static void receive_some(struct end *e)
{
	static const char *const names[] = {"read", "readv", "recv", "recvfrom", "recvmsg",
					    "recvmmsg"};
	size_t n = odd_for(e, 12) ? 0 : once_in(4) ? BUF : some(BUF);
	int flags = receive_flags(e, n), fd = any_fd(e), cnt;
	bool bare = ready(e) || e->nonblock || e->timed;
	int how = bare ? (int)pick(odd_for(e, 3) ? 6 : 5) : 2 + (int)pick(3);
	struct iovec iov[128];
	ssize_t r;

	if (how < 2)
		flags = 0;
	memset(buf, 0, n);
	cnt = cut(iov, n);
	errno = 0;
	r = receive_by(how, fd, iov, cnt, n, flags);
	tell(e, names[how], n, flags, r, digest(buf, r));
	if (r > 0 && !(flags & MSG_PEEK))
		e->in -= (size_t)r < e->in ? (size_t)r : e->in;
}

/* ------------------------------------------------------------ odd counts and lengths */

static ssize_t odd_by(unsigned which, int fd)
{
	static struct iovec iov[IOV_MAX + 1];
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = which > 6 ? 0 : IOV_MAX + 1};

	for (int i = 0; i <= IOV_MAX; i++)
		iov[i] = (struct iovec){buf, 1};
	switch (which) {
	case 0:
		return writev(fd, iov, IOV_MAX + 1);
	case 1:
		return readv(fd, iov, IOV_MAX + 1);
	case 2:
	case 7:
		return sendmsg(fd, &m, MSG_DONTWAIT);
	case 3:
	case 8:
		return recvmsg(fd, &m, MSG_DONTWAIT);
	case 4:
		return writev(fd, iov, 0);
	case 5:
		return readv(fd, iov, (int)pick(2) - 1);
	}
	iov[1].iov_len = SIZE_MAX;
	return writev(fd, iov, 2);
}

static void odd_count(struct end *e)
{
	unsigned which = pick(odd_for(e, 1) ? 9 : 7);
	int fd = any_fd(e);

	errno = 0;
	tell(e, "odd count", which, 0, odd_by(which, fd), 0);
}

#endif
