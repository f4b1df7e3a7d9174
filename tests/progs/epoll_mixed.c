/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* epoll_mixed.c - sets that are polled, and members of which half is on a link. */
#include "epoll.h"

#include <sys/eventfd.h>

static void polled_server(int lfd)
{
	int ep = new_set(), fd = answer(lfd);
	struct data d = DATA(0);
	ssize_t n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	add(ep, fd, EPOLLIN, 5);
	for (;;) {
		struct epoll_event ev;

		if (poll_one(ep, 10000) != POLLIN)
			die("poll");
		if (epoll_wait(ep, &ev, 1, 0) != 1)
			die("epoll_wait");
		n = read(fd, buf, 500);
		if (n <= 0)
			break;
		data_sum(&d, buf, (size_t)n);
		put(fd, buf, (size_t)n);
	}
	say_data("got", &d);
	close(fd);
}

/* A stream is reset, and only then its set is polled, or a number of it closed. */
static void broken_server(int lfd)
{
	int fd = begin(lfd), copy = dup(fd), ep = new_set(), other = new_set(),
	    late = new_set(), last = new_set();
	struct epoll_event ev = {0};

	add(ep, fd, EPOLLIN, 1);
	add(other, copy, EPOLLIN, 2);
	send_go(fd);
	while (!(ev.events & EPOLLHUP) && epoll_wait(ep, &ev, 1, 5000) == 1)
		;
	add(last, fd, EPOLLIN | EPOLLEXCLUSIVE, 4);
	say_result("twice", control(last, EPOLL_CTL_ADD, fd, EPOLLIN, 5));
	add(late, fd, EPOLLIN, 1);
	say("poll: %d", poll_one(late, 5000));
	say("poll: %d", poll_one(ep, 5000));
	say_result("twice", control(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 3));
	say("wait: %d", epoll_wait(ep, &ev, 1, 0));
	say("data: %d", ev.data.u32);
	close(copy);
	say("closed: %d", epoll_wait(other, &ev, 1, 5000));
	say("data: %d", ev.data.u32);
	close(fd);
}

static void broken_client(void)
{
	int fd = begin_client();

	await_go(fd);
	close_by_reset(fd);
}

static void *modified_waiter(void *arg)
{
	struct epoll_event ev;

	say("woken: %d", epoll_wait(*(int *)arg, &ev, 1, 5000));
	return NULL;
}

/* A set is not ready because a thread was woken in the one before. */
static void idle_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();
	pthread_t t;

	add(ep, fd, EPOLLIN, 1);
	t = start_asleep(modified_waiter, &ep);
	mod(ep, fd, EPOLLOUT, 2);
	pthread_join(t, NULL);
	close(ep);
	ep = new_set();
	add(ep, fd, EPOLLIN, 3);
	say("poll: %d", poll_one(ep, 0));
	send_go(fd);
	close(fd);
}

static void idle_client(void)
{
	int fd = begin_client();

	await_go(fd);
	close(fd);
}

/* The peer returns to TCP, while our direction has ended on the link; what it sends then is
 * an edge, although bytes from before lie there and another member is always ready. */
static void half_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), found = 0;
	struct epoll_event ev[4];

	add(ep, eventfd(1, 0), EPOLLIN, 9);
	add(ep, fd, EPOLLIN | EPOLLET, 1);
	shutdown(fd, SHUT_WR);
	await_post("plain");
	for (int i = 0; i < 20; i++) {
		epoll_wait(ep, ev, 4, 0);
		nap(2);
	}
	post("waited");
	await_readable(fd, 2 * MESSAGE);
	for (int i = 0; i < 100 && !found; i++)
		for (int n = epoll_wait(ep, ev, 4, 0); n > 0; n--)
			found |= ev[n - 1].data.u64 == 1;
	say("edge: %d", found);
	post("seen");
	close(fd);
}

static void half_client(void)
{
	int fd = begin_client(), ep = new_set();

	say("end: %zu", take(fd, buf, 1));
	message(fd);
	add(ep, fd, EPOLLIN, 1);
	say("poll: %d", poll_one(ep, 5000));
	post("plain");
	await_post("waited");
	message(fd);
	await_post("seen");
	close(fd);
}

const struct tcp_case cases[] = {
	{"polled", polled_server, ping_client},
	{"broken", broken_server, broken_client},
	{"idle", idle_server, idle_client},
	{"half", half_server, half_client},
	{0},
};
