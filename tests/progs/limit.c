/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* limit.c - numbers of descriptors: how many a program can have, and which are open. */
#include "case.h"
#include "entries.h"

#include <sys/epoll.h>
#include <sys/resource.h>

static char buf[1 << 16];

static int count_open(void)
{
	return count_entries("/proc/self/fd");
}

static int listen_anew(void)
{
	struct sockaddr_storage a = peer_addr;
	int fd = new_socket(0);

	((struct sockaddr_in *)&a)->sin_port = 0;
	if (bind(fd, (struct sockaddr *)&a, peer_len) || listen(fd, 5))
		die("listen");
	return fd;
}

static in_port_t port_of(int fd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	getsockname(fd, (struct sockaddr *)&a, &len);
	return ((struct sockaddr_in *)&a)->sin_port;
}

/* ------------------------------------------- closed under a sleeper */

enum { ROUNDS = 4 };

static int set;

static void *sleeper(void *unused)
{
	struct epoll_event ev;

	epoll_wait(set, &ev, 1, -1);
	return unused;
}

/* A listener and its stream, which is in a set, are closed while a thread sleeps in that
 * set: their descriptors are gone, not only when that thread wakes. */
static void closed_server(int lfd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT};
	int ctl = answer_warm(lfd), wake[2], before = 0, fd;
	pthread_t t;

	set = epoll_create1(0);
	if (pipe(wake))
		die("pipe");
	epoll_ctl(set, EPOLL_CTL_ADD, wake[0], &ev);
	t = start_asleep(sleeper, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		in_port_t port;

		lfd = listen_anew();
		port = port_of(lfd);
		put(ctl, &port, sizeof(port));
		fd = answer_warm(lfd);
		ev.events = EPOLLONESHOT;
		epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev);
		await_go(fd);
		close(fd);
		close(lfd);
		if (i == 1)
			nap(300);	/* what is made once is made, what was closed is gone */
		if (i == 1)
			before = count_open();
	}
	for (int ms = 0; ms < 3000 && count_open() > before; ms += 10)
		nap(10);
	say("%s", count_open() > before ? "MORE" : "no more");
	(void)!write(wake[1], "", 1);
	pthread_join(t, NULL);
	close(ctl);
}

static void closed_client(void)
{
	int ctl = dial_warm(), fd;
	in_port_t port;

	for (int i = 0; i < ROUNDS; i++) {
		take(ctl, &port, sizeof(port));
		((struct sockaddr_in *)&peer_addr)->sin_port = port;
		fd = dial_warm();
		send_go(fd);
		await_end(fd);
	}
	await_end(ctl);
}

/* ------------------------------------------------- the last number */

enum { LAST = 100 };

/* Takes all numbers but so many. */
static void leave_numbers(int fd, int spare)
{
	struct rlimit few = {40, 40};
	int last[40], n = 0;

	if (setrlimit(RLIMIT_NOFILE, &few))
		die("setrlimit");
	while (n < 40 && (last[n] = dup(fd)) >= 0)
		n++;
	for (int i = 0; i < spare; i++)
		close(last[--n]);
}

/* It is the program's, whoever asks for a link meanwhile. */
static void last_server(int lfd)
{
	struct pollfd p = {lfd, POLLIN, 0};
	int fd, n = 0;

	leave_numbers(0, 1);
	for (int i = 0; i < LAST; i++) {
		poll(&p, 1, 10000);
		nap(i % 2);	/* the peer asks */
		fd = answer(lfd);
		await_go(fd);
		put(fd, buf, 1);
		close(fd);
		n++;
	}
	say("%d", n);
}

static void last_client(void)
{
	for (int i = 0; i < LAST; i++) {
		int fd = dial();

		send_go(fd);
		await_end(fd);
	}
}

static void listens_server(int lfd)
{
	int other = new_socket(0);
	struct sockaddr_storage a = peer_addr;

	((struct sockaddr_in *)&a)->sin_port = 0;
	if (bind(other, (struct sockaddr *)&a, peer_len))
		die("bind");
	leave_numbers(0, 1);
	say_result("listen", listen(other, 5));
	nap(50);		/* what is done in the background */
	say("socket: %d", socket(AF_INET, SOCK_STREAM, 0) >= 0);
	close(other);
	close(lfd);
	post("done");
}

static void listens_client(void)
{
	await_post("done");
}

/* ---------------------------------------------- numbers of others */

/* How many calls succeed on numbers that the program has not opened.  (F_GETFD is not among
 * them: it shows that a number of the library's can't be taken.) */
static int count_answers(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), value, open = 0, copy[2];
	struct epoll_event ev = { .events = EPOLLIN };
	socklen_t len = sizeof(value);

	for (int i = 200; i < 512; i++) {
		open += fcntl(i, F_SETFD, 0) >= 0;
		open += fcntl(i, F_GETFL) >= 0;
		open += (copy[0] = dup(i)) >= 0;
		open += (copy[1] = fcntl(i, F_DUPFD, 0)) >= 0;
		open += dup2(i, 190) >= 0;
		open += dup2(i, i) >= 0;
		open += dup3(i, 190, O_CLOEXEC) >= 0;
		open += !epoll_ctl(ep, EPOLL_CTL_ADD, i, &ev);
		open += ioctl(i, FIONREAD, &value) >= 0;
		open += !getsockopt(i, SOL_SOCKET, SO_TYPE, &value, &len);
		close(copy[0]);
		close(copy[1]);
	}
	close(ep);
	return open;
}

/* A number that the library takes while it is counted may be open for a microsecond: so twice
 * the same count. */
static void others_server(int lfd)
{
	int fd = answer_warm(lfd), value, before, open = -1;
	socklen_t len = sizeof(value);

	do {
		before = open;
		open = count_answers();
	} while (open != before);
	say("open %d", open);
	say_result("SO_TYPE", getsockopt(255, SOL_SOCKET, SO_TYPE, &value, &len));
	await_end(fd);
}

static void others_client(void)
{
	close(dial_warm());
}

const struct tcp_case cases[] = {
	{"closed", closed_server, closed_client},
	{"last", last_server, last_client},
	{"listens", listens_server, listens_client},
	{"others", others_server, others_client},
	{0},
};
