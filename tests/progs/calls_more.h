/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* calls_more.h - two threads: many bytes, full buffers, a call that sleeps; and listeners. */
#ifndef TEST_CALLS_MORE_H
#define TEST_CALLS_MORE_H

#include "calls.h"

/* Does nothing stand in the way of bytes to this end? */
static bool is_calm(const struct end *e)
{
	const struct end *p = e->peer;

	return !e->closed && !p->closed && !e->dead && !p->dead && !p->wr_shut && !e->rd_shut &&
	       !p->held && !p->corked && e->least == 1;
}

static void await_event(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	if (errno != EAGAIN || poll(&p, 1, 5000) != 1)
		die("poll");
}

/* ------------------------------------------------------------ many bytes */

struct bulk {
	struct end *from;
	size_t left;
};

static void *send_bulk(void *arg)
{
	static char piece[BUF];
	struct bulk *b = arg;

	while (b->left) {
		size_t n = b->left < sizeof(piece) ? b->left : sizeof(piece), at = 0;

		data_fill(&b->from->tx, piece, n);
		while (at < n) {
			ssize_t r = send(b->from->fd[0], piece + at, n - at, MSG_NOSIGNAL);

			if (r < 0)
				await_event(b->from->fd[0], POLLOUT);
			else
				at += (size_t)r;
		}
		b->left -= n;
	}
	return NULL;
}

/* Receives what is unread and n bytes more, by pieces of random sizes. */
static void receive_all(struct end *e, size_t n)
{
	struct data in = {0}, sizes = DATA(pick(1000) + 1);
	size_t left = e->in + n;
	int fd = any_fd(e);

	while (left) {
		size_t most = data_size(&sizes, BUF);
		ssize_t r = recv(fd, buf, most < left ? most : left,
				 most % 2 ? MSG_WAITALL : 0);

		if (r < 0) {
			await_event(e->fd[0], POLLIN);
			continue;
		}
		if (!r)
			break;
		data_sum(&in, buf, (size_t)r);
		left -= (size_t)r;
	}
	e->in = 0;
	printf("%d %c ", step, e->name);
	say_data("bulk", &in);
}

static void bulk(struct end *e)
{
	struct bulk b = {e->peer, 10000 + pick(once_in(3) ? 600000 : 60000)};
	size_t n = b.left;
	pthread_t t;

	if (!is_calm(e))
		return;
	t = start(send_bulk, &b);
	receive_all(e, n);
	pthread_join(t, NULL);
}

/* Sends until there is no room, and reads all of it: how much that is, TCP decides. */
static void fill(struct end *e)
{
	struct data out = {0}, in = {0}, sizes = DATA(pick(1000) + 1);
	size_t n = 0, got = 0;
	ssize_t r;
	int from;

	if (!is_calm(e) || e->in)
		return;
	from = any_fd(e->peer);
	memset(buf, 'f', sizeof(buf));
	while ((r = send(from, buf, data_size(&sizes, BUF), MSG_DONTWAIT)) > 0) {
		data_sum(&out, buf, (size_t)r);
		n += (size_t)r;
	}
	tell_result(e->peer, "full", r);
	while (got < n && (r = recv(e->fd[0], buf, BUF, 0))) {
		if (r < 0) {
			await_event(e->fd[0], POLLIN);
			continue;
		}
		data_sum(&in, buf, (size_t)r);
		got += (size_t)r;
	}
	say("  %s, %s", got == n ? "all" : "not all", in.crc == out.crc ? "the same" : "another");
}

/* ------------------------------------------------------------ asleep */

struct asleep {
	int fd, how;
	ssize_t r;
	int error;
};

static void *sleep_in_call(void *arg)
{
	struct asleep *a = arg;
	struct pollfd p = {.fd = a->fd, .events = POLLIN | POLLRDHUP};
	static char into[10];
	struct iovec iov = {into, 10};
	fd_set set;

	errno = 0;
	switch (a->how) {
	case 0:
		a->r = read(a->fd, into, 10);
		break;
	case 1:
		a->r = readv(a->fd, &iov, 1);
		break;
	case 2:
		a->r = recv(a->fd, into, 3, MSG_PEEK);
		break;
	case 3:
		a->r = poll(&p, 1, -1) == 1 ? p.revents : -1;
		break;
	default:
		FD_ZERO(&set);
		FD_SET(a->fd, &set);
		a->r = select(a->fd + 1, &set, NULL, NULL, NULL);
	}
	a->error = errno;
	return NULL;
}

/* A call that the peer's bytes wake, or its end. */
static void be_woken(struct end *e)
{
	struct asleep a = {.fd = any_fd(e), .how = (int)pick(5)};
	bool end = once_in(6);
	pthread_t t;
	ssize_t r;

	if (!is_calm(e) || ready(e) || e->nonblock || e->timed || !may_send(e->peer))
		return;
	await_room();
	t = start_asleep(sleep_in_call, &a);
	if (end) {
		r = shutdown(any_fd(e->peer), SHUT_WR);
		e->peer->wr_shut = e->fin = true;
	} else {
		r = send(any_fd(e->peer), "wake up", 7, 0);
		e->in += 7;
	}
	tell_result(e->peer, end ? "ends" : "wakes", r);
	pthread_join(t, NULL);
	errno = a.error;
	printf("%d ", a.how);
	tell_result(e, "was asleep", a.r);
	if (a.how < 2 && a.r > 0)
		e->in -= (size_t)a.r;
	settle(e);
	settle(e->peer);
}

/* ------------------------------------------------------------ listeners */

static void say_poll(const char *what, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};

	say_result(what, poll(&p, 1, 0));
	say("  %x", p.revents);
}

/* Connects without waiting, and asks what has come of it. */
static void connect_soon(struct sockaddr_in *a, int lfd)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	say_poll("unconnected", fd);
	say_result("connect", connect(fd, (void *)a, sizeof(*a)));
	poll(&p, 1, 5000);
	say_poll("connecting", fd);
	if (once_in(2))
		say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	say_result("again", connect(fd, (void *)a, sizeof(*a)));
	if (once_in(2)) {
		p.fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK);
		say_result("accepted", p.fd < 0 ? p.fd : fcntl(p.fd, F_GETFL));
		say_result("recv", recv(fd, buf, 1, 0));
		close(p.fd);
	}
	close(fd);
}

/* A listener that is shut down, and opened again. */
static void listener(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	int l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), how = (int)pick(3), fd;
	socklen_t len = sizeof(a);

	a.sin_addr = ((struct sockaddr_in *)&peer_addr)->sin_addr;
	say_result("bind", bind(l, (void *)&a, sizeof(a)));
	getsockname(l, (void *)&a, &len);
	if (once_in(3))
		connect_soon(&a, l);	/* nobody listens */
	say_result("listen", listen(l, 3));
	say_result("none", accept(l, NULL, NULL));
	connect_soon(&a, l);
	say_result("shutdown", shutdown(l, how));
	say_poll("shut", l);
	if (how == SHUT_WR)
		connect_soon(&a, l);
	say_result("listen", listen(l, 3));
	fd = accept(l, NULL, NULL);
	say_result("accept", fd < 0 ? fd : close(fd));
	say_result("recv", recv(l, buf, 1, 0));
	say_result("close", close(l));
}

#endif
