/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* epoll_close.c - what closing does to epoll sets: of a stream in them, of the set. */
#include <stdatomic.h>

#include "epoll.h"

/* ---- a stream ---- */

static void closing_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), copy, other;

	copy = dup(fd);
	add(ep, fd, EPOLLIN, 1);
	add(ep, copy, EPOLLIN, 2);
	order(fd);
	say_wait("both", ep, -1);
	swallow(fd);
	say_wait("read", ep, 20);
	del(ep, copy);
	close(fd);		/* stays in the set: the copy is open */
	order(copy);
	say_wait("by the closed one", ep, -1);
	say_result("unknown", control(ep, EPOLL_CTL_DEL, fd, 0, 0));
	say_result("unknown", control(ep, EPOLL_CTL_MOD, copy, EPOLLIN, 0));
	other = open("/dev/null", O_RDONLY);
	say("number %d", other == fd);
	swallow(copy);
	say_wait("read", ep, 20);
	add(ep, copy, EPOLLIN | EPOLLET, 3);
	order(copy);
	say_wait("again both", ep, -1);
	say_wait("level", ep, -1);
	swallow(copy);
	close(copy);
	say_wait("closed", ep, 20);
	close(other);
	fd = begin(lfd);
	say_result("gone", control(ep, EPOLL_CTL_DEL, fd, 0, 0));
	add(ep, fd, EPOLLIN, 4);
	order(fd);
	say_wait("second", ep, -1);
	swallow(fd);
	copy = dup2(lfd, fd);	/* closes it */
	say("number %d", copy == fd);
	say_wait("replaced", ep, 20);
}

/* A number that is closed while the file has another, and then the file's again:
 * the entry is known by it as before. */
static void number_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), copy = dup(fd);

	add(ep, fd, EPOLLIN | EPOLLOUT, 1);
	mod(ep, fd, EPOLLIN, 2);
	close(fd);
	order(copy);
	say_wait("by the closed one", ep, -1);
	say("number %d", dup2(copy, fd) == fd);
	say_result("add", control(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 0));
	say_wait("back", ep, -1);
	mod(ep, fd, EPOLLIN | EPOLLOUT, 3);
	say_wait("modified", ep, -1);
	swallow(fd);
	say_wait("read", ep, -1);
	del(ep, fd);
	say_wait("deleted", ep, 20);
	add(ep, fd, EPOLLIN | EPOLLET, 4);
	add(ep, copy, EPOLLIN | EPOLLONESHOT, 5);
	close(fd);
	order(copy);
	say_wait("both", ep, -1);
	say("number %d", dup(copy) == fd);
	mod(ep, copy, EPOLLIN | EPOLLONESHOT, 6);
	mod(ep, fd, EPOLLIN | EPOLLET, 7);
	say_wait("modified", ep, -1);
	close(copy);
	swallow(fd);
	say_wait("read", ep, 20);
	say_result("delete", control(ep, EPOLL_CTL_DEL, copy, 0, 0));
	del(ep, fd);
	say_result("delete", control(ep, EPOLL_CTL_DEL, fd, 0, 0));
	order(fd);
	say_wait("not known by a number", ep, 20);
	swallow(fd);
	say("number %d", dup2(fd, copy) == copy);
	mod(ep, copy, EPOLLIN | EPOLLONESHOT, 8);
	close(fd);
	order(copy);
	say_wait("one", ep, 5000);
	swallow(copy);
	del(ep, copy);
	order(copy);
	say_wait("deleted", ep, 20);
	swallow(copy);
	close(copy);
}

/*
 * A server accepts, echoes until the client's end, or until it has echoed as much as the
 * client wants, and closes without EPOLL_CTL_DEL.  Of three connections two are in its loop,
 * one of these edge-triggered, and a thread serves the third.  An event of a connection that
 * is closed would be another one's, or that of freed memory.
 */
enum { CONNECTIONS_MAX = 12000, CLIENTS = 4, PIECE = 1500, PIECES = 12 };

static int connections(void)
{
	const char *wanted = getenv("CASE_CONNECTIONS");

	return wanted ? atoi(wanted) : 3000;
}

struct conn {
	int fd;		/* -1: closed */
	bool edge;
	size_t echoed, all;
};

/* Echoes what there is.  True: the connection is over. */
static bool echo(struct conn *c)
{
	char piece[PIECE];
	ssize_t n;

	do {
		n = recv(c->fd, piece, sizeof(piece), c->edge ? MSG_DONTWAIT : 0);
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0)
			die("recv");
		put(c->fd, piece, (size_t)n);
		c->echoed += (size_t)n;
		if (n && !c->all)
			c->all = (size_t)piece[0] * PIECE;
	} while (n && c->edge && c->echoed < c->all);
	return !n || c->echoed == c->all;
}

static atomic_int served;

static void *loop_thread(void *arg)
{
	struct conn *c = arg;

	while (!echo(c))
		;
	close(c->fd);
	atomic_fetch_add(&served, 1);
	return NULL;
}

static void accept_one(int ep, int lfd, struct conn *conns, int i)
{
	struct conn *c = conns + i;

	c->fd = answer(lfd);
	c->edge = i % 3 == 1;
	if (i % 3 == 2)
		pthread_detach(start(loop_thread, c));
	else
		add(ep, c->fd, EPOLLIN | (c->edge ? EPOLLET : 0), (uint64_t)i);
}

static void loop_server(int lfd)
{
	static struct conn conns[CONNECTIONS_MAX];
	int ep = new_set(), used = 0, closed = 0, stale = 0;
	struct epoll_event ev[64];

	add(ep, lfd, EPOLLIN, UINT64_MAX);
	while (closed + atomic_load(&served) < connections()) {
		int n = epoll_wait(ep, ev, 64, 100); /* the last ones may be the threads' */

		for (int i = 0; i < n; i++) {
			struct conn *c = conns + ev[i].data.u64;

			if (ev[i].data.u64 == UINT64_MAX) {
				accept_one(ep, lfd, conns, used++);
			} else if (c->fd < 0) {
				stale++;
			} else if (echo(c)) {
				close(c->fd);
				c->fd = -1;
				closed++;
			}
		}
	}
	say("stale: %d", stale);
}

/* Every other connection is the client's to end. */
static void *loop_dialer(void *arg)
{
	char mine[PIECE];

	(void)arg;
	for (int i = 0; i < connections() / CLIENTS; i++) {
		int fd = dial(), pieces = 2 + i % PIECES, ours = i / 2 % 2;

		memset(mine, pieces + ours, sizeof(mine));
		for (int k = 0; k < pieces; k++) {
			put(fd, mine, PIECE);
			if (take(fd, mine, PIECE) != PIECE)
				die("echo");
		}
		if (!ours && take(fd, mine, 1))
			die("end");
		close(fd);
	}
	return NULL;
}

static void loop_client(void)
{
	pthread_t t[CLIENTS];

	for (int i = 0; i < CLIENTS; i++)
		t[i] = start(loop_dialer, NULL);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(t[i], NULL);
}

const struct tcp_case cases[] = {
	{"loop", loop_server, loop_client},
	{"closing", closing_server, two_clients},
	{"number", number_server, obey_client},
	{0},
};
