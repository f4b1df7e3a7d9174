/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* epoll_process.c - epoll sets of several processes: handed to others, over a fork. */
#include "epoll.h"

#include <sys/resource.h>

/* ---- handed to others, and back ---- */

static void passed_server(int lfd)
{
	int s[2], fd, ep, other;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		die("socketpair");
	pid = split();
	if (pid == 0) {
		ep = receive_fd(s[1]);
		say_wait("child: idle", ep, 20);
		put(s[1], "x", 1);
		say_wait("child", ep, 5000);
		say_wait("child", ep, 0);
		put(s[1], "x", 1);
		_exit(0);
	}
	fd = begin(lfd);
	ep = new_set();
	add(ep, fd, EPOLLIN, 1);
	order(fd);
	say_wait("before", ep, -1);
	swallow(fd);
	send_fd(s[0], ep);
	take(s[0], buf, 1);
	send_go(fd);
	take(s[0], buf, 1);
	say_wait("own", ep, -1);
	swallow(fd);
	reap(pid);
	close(ep);
	close(fd);
	/* To itself, under another number. */
	fd = begin(lfd);
	ep = new_set();
	add(ep, fd, EPOLLIN | EPOLLONESHOT, 2);
	add(ep, s[0], EPOLLIN, 3);
	send_fd(s[0], ep);
	other = receive_fd(s[1]);
	say_wait("idle", other, 20);
	order(fd);
	say_wait("other", other, 5000);
	say_wait("fired", ep, 20);
	mod(other, fd, EPOLLIN, 4);
	say_wait("own", ep, 5000);
	close(ep);
	say_wait("other", other, -1);
	swallow(fd);
	say_wait("read", other, 20);
	del(other, fd);
	say_result("delete", control(other, EPOLL_CTL_DEL, fd, 0, 0));
	add(other, fd, EPOLLOUT, 5);
	say_wait("added", other, -1);
	close(fd);
	say_wait("closed", other, 20);
}

/* ---- fork ---- */

static void fork_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();
	int up[2], down[2];
	pid_t pid;
	char c;

	add(ep, fd, EPOLLIN, 1);
	order(fd);
	say_wait("before", ep, -1);
	swallow(fd);
	if (pipe(up) || pipe(down))
		die("pipe");
	pid = split();
	if (pid == 0) {
		say_wait("child: idle", ep, 20);
		if (read(down[0], &c, 1) != 1)
			die("read");
		say_wait("child", ep, 5000);
		swallow(fd);
		say_wait("child: read", ep, 20);
		if (write(up[1], "x", 1) != 1)
			die("write");
		_exit(0);
	}
	await_asleep(pid, pid);
	order(fd);
	say_wait("parent", ep, -1);
	if (write(down[1], "x", 1) != 1 || read(up[0], &c, 1) != 1)
		die("pipe");
	say_wait("parent: read", ep, 20);
	reap(pid);
	order(fd);
	say_wait("after", ep, -1);
	swallow(fd);
	/* A stream that comes after the fork is the set's as ever. */
	close(fd);
	fd = begin(lfd);
	add(ep, fd, EPOLLIN | EPOLLONESHOT, 2);
	order(fd);
	say_wait("second", ep, -1);
	say_wait("fired", ep, 20);
	swallow(fd);
	mod(ep, fd, EPOLLIN, 3);
	send_go(fd);
	say_wait("asleep", ep, 5000);
	swallow(fd);
	close(fd);
}

/* The child waits in the set that its parent goes on to use, and takes wake-ups that are
 * not its own.  full: at the fork there is no descriptor left.  apart: the parent uses a new set,
 * and has a stream in it before the child begins. */
static void thief(int lfd, bool full, bool apart)
{
	int fd = begin(lfd), ep = new_set(), over[2], begins[2], spare[300], n = 0;
	struct rlimit most = {COUNT(spare), COUNT(spare)};
	struct epoll_event ev[4];
	pid_t pid;

	add(ep, fd, EPOLLIN, 1);
	if (pipe(over) || pipe(begins))
		die("pipe");
	if (full && setrlimit(RLIMIT_NOFILE, &most))
		die("setrlimit");
	while (full && (spare[n] = dup(over[0])) >= 0)
		n++;
	pid = split();
	while (n > 0)
		close(spare[--n]);
	if (pid == 0) {
		struct pollfd p = {over[0], POLLIN, 0};

		close(fd);
		close(over[1]);
		if (apart && read(begins[0], spare, 1) != 1)
			die("read");
		while (!poll(&p, 1, 0))
			epoll_wait(ep, ev, 4, 20);
		_exit(0);
	}
	close(fd);
	fd = begin(lfd);
	if (apart)
		ep = new_set();
	add(ep, fd, EPOLLIN, 2);
	for (int i = 0; i < 10; i++) {
		send_go(fd);
		say_wait("parent", ep, 5000);
		swallow(fd);
		if (!i && write(begins[1], "", 1) != 1)
			die("write");
	}
	close(over[1]);
	reap(pid);
	close(fd);
}

static void thief_server(int lfd) { thief(lfd, false, false); }
static void full_server(int lfd) { thief(lfd, true, false); }
static void apart_server(int lfd) { thief(lfd, false, true); }

/* Each message finds the parent asleep. */
static void thief_client(void)
{
	int fd;

	obey_client();
	fd = begin_client();
	while (take(fd, buf, 1) == 1) {
		await_peer_asleep();
		message(fd);
	}
	close(fd);
}

/* Half closed, in a set, over a fork: the set goes on saying what it has. */
static void half_fork_server(int lfd)
{
	int fd = answer_warm(lfd);

	say("end: %zd", recv(fd, buf, 1, 0));
	send_go(fd);
	say("closed: %zd", recv(fd, buf, 1, 0));
	close(fd);
}

static void half_fork(int fd, bool before)
{
	struct pollfd p = {.events = POLLIN};
	pid_t pid;

	p.fd = new_set();
	add(p.fd, fd, EPOLLIN, 1);
	if (before)
		say("poll: %d", poll(&p, 1, 10000));
	pid = split();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	say("poll: %d", poll(&p, 1, 10000));
	say("poll again: %d", poll(&p, 1, 500));
	say_wait("set", p.fd, 0);
	close(p.fd);
}

static void half_fork_client(void)
{
	int fd = dial_warm();

	shutdown(fd, SHUT_WR);
	await_readable(fd, 1);
	half_fork(fd, false);
	half_fork(fd, true);
	close(fd);
}

static void obey_server(int lfd)
{
	int fd = begin(lfd);

	obey(fd);
	close(fd);
}

/* The child of a fork waits in the set that its parent made, with a stream of its
 * own that it has used before, or not. */
static void heir(bool used)
{
	int ep = new_set();
	pid_t pid = split();

	if (pid == 0) {
		int fd = dial();

		set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
		if (!used)
			add(ep, fd, EPOLLIN, 1);
		warm_up(fd, true);
		if (used)
			add(ep, fd, EPOLLIN, 1);
		settle(fd, true);
		send_go(fd);
		say_wait("child", ep, 5000);
		swallow(fd);
		close(fd);
		_exit(0);
	}
	reap(pid);
}

static void heir_client(void) { heir(false); }
static void heir_used_client(void) { heir(true); }

/* ---- into the background ---- */

#define ROUNDS 100

/* Each message comes back, and the set tells of it, and before the set the one (outer; -1:
 * none) that it is in.  (Over RDMA, where rounds are slow, the service thread may find bytes that
 * the program takes before the outer set has been told.) */
static void exchange(int outer, int ep, int fd, int rounds)
{
	struct epoll_event ev;
	size_t got;

	for (int i = 0; i < rounds; i++) {
		put(fd, buf, 1000);
		for (got = 0; got < 1000;) {
			int n = outer >= 0 ? epoll_wait(outer, &ev, 1, 20000) : 1;

			n = n == 1 ? epoll_wait(ep, &ev, 1, outer >= 0 ? 0 : 20000) : -1;
			if (n == 0 && outer >= 0 && in_vain++ < ROUNDS)
				continue;
			if (n != 1) {
				say("round %d: NO EVENT", i);
				exit(1);
			}
			got += take(fd, buf, 1000 - got);
		}
	}
}

static void repeat_server(int lfd)
{
	ssize_t r;
	int fd;

	for (int i = 0; i < 2; i++) {
		fd = answer(lfd);
		while ((r = recv(fd, buf, sizeof(buf), 0)) > 0)
			put(fd, buf, (size_t)r);
		say_result("end", r);
		close(fd);
	}
}

/* A program that has made its set ends, and its child goes on.  early: it has connected, too.
 * nests: the set is in another one. */
static void background(bool early, bool nests)
{
	int ends[2], over[2], fd = -1, ep, outer = -1;
	pid_t pid;
	char c;

	if (pipe(over))
		die("pipe");
	pid = split();
	if (pid) {
		close(over[1]);
		if (waitpid(pid, NULL, 0) != pid)
			die("waitpid");
		say_result("all have ended", read(over[0], &c, 1));
		return;
	}
	if (pipe(ends))
		die("pipe");
	ep = new_set();
	if (nests) {
		outer = new_set();
		add(outer, ep, EPOLLIN, 7);
	}
	if (early) {
		fd = dial();
		add(ep, fd, EPOLLIN, 1);
	}
	pid = split();
	if (pid)
		_exit(0);
	close(ends[1]);
	say_result("its parent has ended", read(ends[0], &c, 1));
	for (int i = 0; i < 2; i++) {
		if (fd < 0) {
			fd = dial();
			add(ep, fd, EPOLLIN, 1);
		}
		exchange(outer, ep, fd, ROUNDS);
		del(ep, fd);
		close(fd);
		fd = -1;
	}
	fflush(stdout);
	_exit(0);
}

static void background_client(void)
{
	background(false, false);
}

static void background_early_client(void)
{
	background(true, false);
}

static void background_nested_client(void)
{
	background(false, true);
}

/* ---- a stream comes into the set before the process that made it has ended ---- */

/* Makes the set, and lets a child of a child go on with it, while that one's parent stays until
 * the child calls await_parent(): the main process returns -1, behind their end. */
static int set_of_two(int gate[2])
{
	int over[2], ends[2], go[2], ep;
	char c;

	if (pipe(over) || pipe(ends) || pipe(go))
		die("pipe");
	if (split()) {
		close(over[1]);
		close(ends[1]);
		close(go[1]);
		say_result("all have ended", read(over[0], &c, 1));
		return -1;
	}
	ep = new_set();
	if (split()) {
		close(go[1]);
		(void)!read(go[0], &c, 1);
		_exit(0);
	}
	close(ends[1]);
	gate[0] = ends[0];
	gate[1] = go[1];
	return ep;
}

static void await_parent(int gate[2])
{
	char c;

	close(gate[1]);
	say_result("its parent has ended", read(gate[0], &c, 1));
}

static void late_client(void)
{
	int gate[2], ep = set_of_two(gate), fd;

	if (ep < 0)
		return;
	fd = dial();
	add(ep, fd, EPOLLIN, 1);
	exchange(-1, ep, fd, ROUNDS);
	await_parent(gate);
	/* until the test sees the link */
	for (int i = 0; !is_posted("linked") && i < 20000; i++) {
		exchange(-1, ep, fd, 1);
		nap(1);
	}
	exchange(-1, ep, fd, ROUNDS);
	close(fd);
	fflush(stdout);
	_exit(0);
}

static void once_server(int lfd)
{
	int fd = answer(lfd);
	ssize_t r;

	while ((r = recv(fd, buf, sizeof(buf), 0)) > 0)
		put(fd, buf, (size_t)r);
	say_result("end", r);
	close(fd);
}

static void late_server(int lfd)
{
	int gate[2], ep = set_of_two(gate), fd;
	struct epoll_event ev;
	size_t got = 0, n;

	if (ep < 0)
		return;
	fd = answer(lfd);
	close(lfd);
	add(ep, fd, EPOLLIN, 1);
	do {
		if (epoll_wait(ep, &ev, 1, 20000) != 1)
			die("epoll_wait");
		n = take(fd, buf, 1000);
		put(fd, buf, n);
		got += n;
		if (got == ROUNDS * 1000)
			await_parent(gate);
	} while (n);
	close(fd);
	fflush(stdout);
	_exit(0);
}

static void once_client(void)
{
	int fd = dial();

	for (int i = 0; i < 2 * ROUNDS || (!is_posted("linked") && i < 20000); i++) {
		put(fd, buf, 1000);
		if (take(fd, buf, 1000) != 1000)
			die("take");
		nap(i > ROUNDS);
	}
	close(fd);
}

const struct tcp_case cases[] = {
	{"passed", passed_server, two_clients},
	{"fork", fork_server, two_clients},
	{"thief", thief_server, thief_client},
	{"full", full_server, thief_client},
	{"apart", apart_server, thief_client},
	{"heir", obey_server, heir_client},
	{"heir-used", obey_server, heir_used_client},
	{"half-fork", half_fork_server, half_fork_client},
	{"background", repeat_server, background_client},
	{"background-early", repeat_server, background_early_client},
	{"background-nested", repeat_server, background_nested_client},
	{"late", once_server, late_client},
	{"late-server", late_server, once_client},
	{0},
};
