/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* shutdown.c - shutdown(2): what may still be done, who is left in TIME_WAIT. */
#include "case.h"

#include <sys/epoll.h>

static char buf[1 << 17];

/* shutdown(2) in its three ways */
static void shutdown_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};

	say_result("rd", shutdown(fd, SHUT_RD));
	say_result("recv", recv(fd, buf, 10, 0));
	say_result("recv", recv(fd, buf, 10, MSG_DONTWAIT));
	poll(&p, 1, 0);
	say("poll %x", p.revents);
	put(fd, "still here", 10);
	say_result("wr", shutdown(fd, SHUT_WR));
	say_result("wr", shutdown(fd, SHUT_WR));
	say_result("send", send(fd, buf, 10, MSG_NOSIGNAL));
	say_result("send 0", send(fd, buf, 0, MSG_NOSIGNAL));
	say_result("bad", shutdown(fd, 77));
	poll(&p, 1, 0);
	say("poll %x", p.revents);
	close(fd);
	post("closed");
}

static void shutdown_client(void)
{
	int fd = dial(), lone = new_socket(0);
	char c[20] = "";

	say_result("lone", shutdown(lone, SHUT_WR));
	warm_up(fd, true);
	say_bytes("got", (ssize_t)take(fd, c, sizeof(c)), c);
	await_post("closed");
	say_result("rdwr", shutdown(fd, SHUT_RDWR));
	say_result("recv", recv(fd, buf, 10, 0));
	say_result("send", send(fd, buf, 10, MSG_NOSIGNAL));
	close(fd);
	close(lone);
}

/* What is read after shutdown(SHUT_RD) on a stream that is back on TCP */
static void back_server(int lfd)
{
	int fd = answer_warm(lfd);

	/* No link serves this flag. */
	say_result("nothing", recv(fd, buf, 10, MSG_TRUNC | MSG_DONTWAIT));
	say_result("rd", shutdown(fd, SHUT_RD));
	for (int i = 0; i < 2; i++)
		say_result("recv", recv(fd, buf, 10, 0));
	send_go(fd);
	await_end(fd);
}

static void back_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	close(fd);
}

/* The same by who has shut down both ways: the peer's end has not come. */
static void back_both_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_post("shut");
	say_result("end", recv(fd, buf, 10, MSG_TRUNC));
	post("back");
	await_post("again");
	say_result("close", close(fd));
}

static void back_both_client(void)
{
	int fd = dial_warm();

	say_result("rdwr", shutdown(fd, SHUT_RDWR));
	post("shut");
	await_post("back");
	for (int how = SHUT_RD; how <= SHUT_RDWR; how++)
		say_result("again", shutdown(fd, how));
	post("again");
	say_result("recv", recv(fd, buf, 10, 0));
	say_result("close", close(fd));
}

/*
 * Both directions have ended, and both ends know: there is nothing to shut down.  The
 * last acknowledgement takes its time.
 */
static void say_over(int fd, int how)
{
	uint64_t end = 0;
	struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};

	while (!shutdown(fd, SHUT_RDWR) && patient(&end))
		;
	/* The FINs of a stream on a link may still be on their way. */
	for (int i = 0; i < 1000; i++)
		if (!shutdown(fd, how))
			say("no longer over");
	say_result("over", shutdown(fd, how));
	poll(&p, 1, 0);
	say("poll %x", (unsigned)p.revents);
	say_result("bad", shutdown(fd, 77));
	say_result("recv", recv(fd, buf, 10, 0));
	say_result("send", send(fd, buf, 10, MSG_NOSIGNAL));
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
}

/* Who ends first, who reads it, in turn. */
static void over_server(int lfd)
{
	for (int how = 0; how < 3; how++) {
		int fd = answer_warm(lfd);

		say_result("wr", shutdown(fd, SHUT_WR));
		say_result("end", recv(fd, buf, 10, 0));
		say_over(fd, how);
		close(fd);
	}
}

static void over_client(void)
{
	for (int how = 0; how < 3; how++) {
		int fd = dial_warm();

		if (how)
			say_result("end", recv(fd, buf, 10, 0));
		say_result("wr", shutdown(fd, SHUT_WR));
		if (!how)
			say_result("end", recv(fd, buf, 10, 0));
		say_over(fd, how);
		close(fd);
	}
}

/* Nothing more to read, long before there is a link. */
static void read_end_server(int lfd)
{
	for (int k = 0; k < 5; k++) {
		int fd = answer(lfd);
		struct data d = DATA(9);

		say_result("rd", shutdown(fd, SHUT_RD));
		for (int i = 0; i < 10; i++) {
			put_data(fd, &d, 10000, 10000);
			nap(4);
		}
		say_data("sent", &d);
		say_result("recv", recv(fd, buf, 10, 0));
		say_result("rd", shutdown(fd, SHUT_RD));
		close(fd);
	}
}

static void read_end_client(void)
{
	for (int k = 0; k < 5; k++) {
		int fd = dial();
		struct data d = DATA(0);

		take_rest(fd, &d);
		say_data("got", &d);
		close(fd);
	}
}

/* One end only ever receives, and ends the stream when the other has: with lazy and
 * eager its own direction is plain. */
static void one_way_server(int lfd)
{
	static const int how[] = {SHUT_WR, SHUT_RDWR};

	for (size_t i = 0; i < COUNT(how); i++) {
		int fd = answer(lfd);

		while (recv(fd, buf, sizeof(buf), 0) > 0)
			;
		say_result("shutdown", shutdown(fd, how[i]));
		close(fd);
	}
}

static void one_way_client(void)
{
	for (int i = 0; i < 2; i++) {
		int fd = dial();
		struct pollfd p = {fd, POLLIN, 0};

		for (int k = 0; k < 100; k++) {
			put(fd, buf, 4000);
			nap(1);
		}
		shutdown(fd, SHUT_WR);
		say("poll %d", poll(&p, 1, 5000));
		close(fd);
	}
}

/* Is there a stream between these ports in TIME_WAIT, at the first one's end? */
static bool has_time_wait(unsigned at, unsigned to)
{
	const char *files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
	unsigned local, remote, state;
	char line[300];
	bool found = false;

	for (size_t i = 0; i < COUNT(files); i++) {
		FILE *f = fopen(files[i], "r");

		while (f && fgets(line, sizeof(line), f))
			found |= sscanf(line, " %*d: %*[^:]:%x %*[^:]:%x %x", &local, &remote,
					&state) == 3 &&
				 state == 6 && local == at && remote == to;
		if (f)
			fclose(f);
	}
	return found;
}

static unsigned port_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	if (name(fd, (struct sockaddr *)&a, &len))
		die("name");
	return ntohs(((struct sockaddr_in *)&a)->sin_port);
}

static bool two_way;

/* The client ends the stream first: TIME_WAIT is at its end. */
static void second_server(int lfd)
{
	uint64_t end = 0;
	int ctl = answer(lfd);

	for (int k = 0; k < 5; k++) {
		int fd = answer(lfd);
		unsigned here = port_of(fd, getsockname), there = port_of(fd, getpeername);
		ssize_t n;

		while ((n = recv(fd, buf, 4000, 0)) > 0)
			if (two_way)
				put(fd, buf, (size_t)n);
		close(fd);
		end = 0;
		while (!has_time_wait(here, there) && !has_time_wait(there, here) &&
		       patient(&end))
			;
		say("TIME_WAIT here %d, there %d", has_time_wait(here, there),
		    has_time_wait(there, here));
		send_go(ctl);
	}
	close(ctl);
}

static void second_client(void)
{
	int ctl = dial();

	for (int k = 0; k < 5; k++) {
		int fd = dial();

		for (int i = 0; i < 60; i++) {
			put(fd, buf, 4000);
			if (two_way)
				take(fd, buf, 4000);
			nap(1);
		}
		close(fd);
		await_go(ctl);
	}
	close(ctl);
}

static void both_ways_server(int lfd)
{
	two_way = true;
	second_server(lfd);
}

static void both_ways_client(void)
{
	two_way = true;
	second_client();
}

/* Both have shut down, and neither has read. */
static void say_both(int fd, bool first)
{
	uint64_t end = 0;
	struct epoll_event ev = {.events = EPOLLOUT};
	int ep = epoll_create1(0);
	struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};

	warm_up(fd, first);
	put(fd, buf, 1000);
	say_result("wr", shutdown(fd, SHUT_WR));
	do
		poll(&p, 1, -1);
	while (!(p.revents & POLLHUP));
	say("poll %x", p.revents);
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) || epoll_wait(ep, &ev, 1, 1000) != 1)
		die("epoll");
	say("epoll %x", ev.events);
	close(ep);
	/* The last acknowledgement takes its time. */
	while (!shutdown(fd, SHUT_WR) && patient(&end))
		;
	say_result("shutdown", shutdown(fd, SHUT_WR));
	say_result("shutdown", shutdown(fd, SHUT_RDWR));
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
}

static void both_shut_server(int lfd)
{
	int fd = answer(lfd), ctl = answer(lfd);
	struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};

	say_both(fd, false);
	send_go(ctl);
	await_go(ctl);
	/* The other one has closed, with bytes unread. */
	poll(&p, 1, 0);
	say("poll %x", p.revents);
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	say("got %zu", take(fd, buf, sizeof(buf)));
	say_result("recv", recv(fd, buf, 1, 0));
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	close(fd);
	close(ctl);
}

static void both_shut_client(void)
{
	int fd = dial(), ctl = dial();

	say_both(fd, true);
	await_go(ctl);
	say_result("close", close(fd));
	nap(100); /* for what comes of it */
	send_go(ctl);
	say_result("end", recv(ctl, buf, 1, 0));
	close(ctl);
}

const struct tcp_case cases[] = {
	{"shutdown", shutdown_server, shutdown_client},
	{"back", back_server, back_client},
	{"back-both", back_both_server, back_both_client},
	{"over", over_server, over_client},
	{"read-end", read_end_server, read_end_client},
	{"one-way", one_way_server, one_way_client},
	{"second", second_server, second_client},
	{"second-both", both_ways_server, both_ways_client},
	{"both-shut", both_shut_server, both_shut_client},
	{0},
};
