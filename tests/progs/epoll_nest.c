/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_nest.c - epoll sets that are themselves waited for: whether the kernel says of them
 * what they have to report, as soon as that changes.
 */
#include "epoll.h"

#define ROUNDS 300

/* ---- exchanges ---- */

static int outer_set(int inner, uint32_t events)
{
	int outer = new_set();

	add(outer, inner, events, 7);
	return outer;
}

/* Echoes n bytes; each wait on the outer set finds the inner one ready, and that has
 * the stream. */
static void echo_nested(int fd, int inner, int outer, size_t n)
{
	struct epoll_event ev;

	for (size_t got = 0; got < n;) {
		ssize_t r;

		if (epoll_wait(outer, &ev, 1, 20000) != 1 || ev.data.u64 != 7)
			die("outer");
		if (epoll_wait(inner, &ev, 1, 0) != 1 || ev.data.u64 != 1)
			die("inner");
		r = read(fd, buf, sizeof(buf));
		if (r <= 0)
			die("read");
		put(fd, buf, (size_t)r);
		got += (size_t)r;
	}
}

static void exchange_server(int lfd)
{
	int inner = new_set(), outer = outer_set(inner, EPOLLIN), fd = answer(lfd);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	add(inner, fd, EPOLLIN, 1);
	for (int i = 0; i < ROUNDS; i++)
		echo_nested(fd, inner, outer, 64);
	for (int i = 0; i < ROUNDS; i++)
		echo_nested(fd, inner, outer, sizeof(buf));
	say("ready: %x, %x", poll_one(inner, 0), poll_one(outer, 0));
	close(fd);
}

static void exchange(int fd, struct data *out, struct data *in, size_t n)
{
	static char back[sizeof(buf)];

	for (int i = 0; i < ROUNDS; i++) {
		data_fill(out, buf, n);
		put(fd, buf, n);
		if (take(fd, back, n) != n)
			die("take");
		data_sum(in, back, n);
	}
}

static void exchange_client(void)
{
	struct data out = DATA(3), in = DATA(3);
	int fd = dial();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	exchange(fd, &out, &in, 64);
	exchange(fd, &out, &in, sizeof(buf));
	say_data("sent", &out);
	say_data("got", &in);
	close(fd);
}

/* ---- what makes a set ready, and not ready ---- */

/* Bytes are taken without a wait on the set. */
static void taken_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer = outer_set(inner, EPOLLIN);

	unblock(fd);
	for (int edge = 0; edge < 2; edge++) {
		add(inner, fd, EPOLLIN | (edge ? EPOLLET : 0), 1);
		for (int i = 0; i < 20; i++) {
			order(fd);
			say("there: %x %x", poll_one(inner, 5000), poll_one(outer, 5000));
			if (i % 2)
				say_wait("inner", inner, 0);
			if (take(fd, buf, MESSAGE / 2) != MESSAGE / 2)
				die("take");
			say("half: %x", poll_one(inner, 0));
			if (take(fd, buf, MESSAGE / 2) != MESSAGE / 2)
				die("take");
			say("taken: %x %x", poll_one(inner, 0), poll_one(outer, 0));
			say_wait("inner", inner, 0);
		}
		del(inner, fd);
	}
	close(fd);
}

/* Entries that are deleted, changed, or have fired once. */
static void entry_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), third = new_set();
	int outer = outer_set(inner, EPOLLIN);

	add(third, outer, EPOLLIN, 3);
	add(inner, fd, EPOLLIN | EPOLLONESHOT, 1);
	for (int i = 0; i < 5; i++) {
		order(fd);
		say_wait("third", third, 5000);
		say_wait("once", inner, 5000);
		say("fired: %x %x", poll_one(inner, 0), poll_one(third, 0));
		order(fd);
		say("more: %x", poll_one(inner, 0));
		mod(inner, fd, EPOLLIN | EPOLLONESHOT, 2);
		say("armed: %x", poll_one(outer, 0));
		del(inner, fd);
		say("deleted: %x", poll_one(inner, 0));
		order(fd);
		say("more: %x", poll_one(inner, 0));
		add(inner, fd, EPOLLOUT, 4);
		say("room: %x", poll_one(inner, 0));
		say_wait("room", inner, 0);
		mod(inner, fd, EPOLLIN | EPOLLONESHOT, 5);
		say("added: %x", poll_one(outer, 0));
		for (int k = 0; k < 3; k++)
			swallow(fd);
		say("taken: %x", poll_one(outer, 0));
	}
	close(inner);
	say("closed: %x", poll_one(outer, 0));
	close(fd);
}

/* The outer set is edge-triggered: each message is an edge, whether the last one was taken
 * or not. */
static void edge_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer;

	add(inner, fd, EPOLLIN, 1);
	outer = outer_set(inner, EPOLLIN | EPOLLET);
	for (int i = 0; i < 10; i++) {
		order(fd);
		say_wait("edge", outer, 5000);
		say_wait("no edge", outer, 0);
		say_wait("inner", inner, 0);
		say_wait("no edge", outer, 0);
		order(fd);
		say_wait("edge", outer, 5000);
		say_wait("inner", inner, 0);
		swallow(fd);
		order(fd);
		say_wait("edge", outer, 5000);
		swallow(fd);
		swallow(fd);
		say_wait("none", outer, 0);
	}
	close(fd);
}

/* ---- a set becomes nested ---- */

static void *wait_in(void *ep)
{
	struct epoll_event ev;

	say("asleep: %d", epoll_wait(*(int *)ep, &ev, 1, 20000));
	return NULL;
}

/* While a thread sleeps in it; and behind a wait that has found its stream ready, or not. */
static void late_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer, other = new_set();
	pthread_t t;

	add(inner, fd, EPOLLIN, 1);
	t = start_asleep(wait_in, &inner);
	outer = outer_set(inner, EPOLLIN);
	order(fd);
	pthread_join(t, NULL);
	say_wait("outer", outer, 5000);
	say_wait("inner", inner, 0);
	swallow(fd);
	say_wait("outer", outer, 0);
	del(inner, fd);
	for (int i = 0; i < 2; i++) {
		other = new_set();
		add(other, fd, EPOLLIN, 1);
		if (i)
			order(fd);
		say_wait("ordinary", other, 0);
		outer = outer_set(other, EPOLLIN);
		say("nested: %x", poll_one(other, 0));
		if (!i)
			order(fd);
		say_wait("outer", outer, 5000);
		swallow(fd);
		say_wait("outer", outer, 0);
		close(other);
		close(outer);
	}
	close(fd);
}

const struct tcp_case cases[] = {
	{"exchange", exchange_server, exchange_client},
	{"taken", taken_server, obey_client},
	{"entry", entry_server, obey_client},
	{"edge", edge_server, obey_client},
	{"late", late_server, obey_client},
	{0},
};
