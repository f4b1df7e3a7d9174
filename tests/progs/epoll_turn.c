/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_turn.c - a request and its answer in turns, each end in an epoll set of its
 * own, as redis and redis-benchmark do it: thousands of sleeps, each of which one
 * arrival has to end.
 */
#include "epoll.h"

#define TURNS 3000
#define REQUEST 36
#define ANSWER 5

static void await_event(int ep, uint32_t event)
{
	struct epoll_event ev;
	int n;

	do
		n = epoll_wait(ep, &ev, 1, 20000);
	while (n < 0 && errno == EINTR);
	if (n != 1 || !(ev.events & event))
		die("epoll_wait: no event");
}

/* The descriptor stays in the set. */
static void turns_server(int lfd)
{
	int fd = answer(lfd), ep = new_set(), turns = 0;
	struct data in = DATA(0);
	ssize_t n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	unblock(fd);
	add(ep, fd, EPOLLIN, 1);
	for (;;) {
		await_event(ep, EPOLLIN);
		n = recv(fd, buf, REQUEST, 0);
		if (n <= 0)
			break;
		data_sum(&in, buf, (size_t)n);
		if (in.bytes / REQUEST > (uint64_t)turns) {
			put(fd, "$-1\r\n", ANSWER);
			turns++;
		}
	}
	say("%d turns", turns);
	say_data("got", &in);
	close(fd);
}

/* The descriptor is in the set for what is waited for, and no longer. */
static void turns_client(void)
{
	int fd = dial(), ep = new_set();
	struct data out = DATA(7);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	unblock(fd);
	for (int i = 0; i < TURNS; i++) {
		add(ep, fd, EPOLLOUT, 2);
		await_event(ep, EPOLLOUT);
		data_fill(&out, buf, REQUEST);
		put(fd, buf, REQUEST);
		del(ep, fd);
		add(ep, fd, EPOLLIN, 3);
		for (size_t got = 0; got < ANSWER;) {
			await_event(ep, EPOLLIN);
			got += (size_t)recv(fd, buf, ANSWER - got, 0);
		}
		del(ep, fd);
	}
	say_data("sent", &out);
	close(fd);
}

const struct tcp_case cases[] = {
	{"turns", turns_server, turns_client},
	{0},
};
