/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* state.c - what getsockopt(2) and ioctl(2) say of a stream, and what its calls say, agree. */
#include "case.h"

#include <linux/sockios.h>
#include <sys/epoll.h>

static char buf[4096];

/* struct tcp_info of <linux/tcp.h>, which has more than the C library's */
#define NOTSENT_BYTES 144 /* offset of tcpi_notsent_bytes */

static void info(int fd, unsigned char ti[NOTSENT_BYTES + 4])
{
	socklen_t len = NOTSENT_BYTES + 4;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &len) || len < NOTSENT_BYTES + 4)
		die("TCP_INFO");
}

static unsigned not_sent(int fd)
{
	unsigned char ti[NOTSENT_BYTES + 4];
	unsigned n;

	info(fd, ti);
	memcpy(&n, ti + NOTSENT_BYTES, sizeof(n));
	return n;
}

static const char *state(int fd)
{
	static const char *const name[] = {
		[TCP_ESTABLISHED] = "ESTABLISHED", [TCP_FIN_WAIT1] = "FIN_WAIT1",
		[TCP_FIN_WAIT2] = "FIN_WAIT2",	   [TCP_TIME_WAIT] = "TIME_WAIT",
		[TCP_CLOSE] = "CLOSE",		   [TCP_CLOSE_WAIT] = "CLOSE_WAIT",
		[TCP_LAST_ACK] = "LAST_ACK",	   [TCP_CLOSING] = "CLOSING",
		[TCP_LISTEN] = "LISTEN",
	};
	unsigned char ti[NOTSENT_BYTES + 4];

	info(fd, ti);
	return ti[0] < COUNT(name) && name[ti[0]] ? name[ti[0]] : "?";
}

/* Until the last acknowledgement has come */
static void await_state(int fd, const char *wanted)
{
	uint64_t end = 0;

	while (strcmp(state(fd), wanted) && patient(&end))
		;
	say("%s", state(fd));
}

static int outq(int fd, unsigned long req)
{
	int n = -1;

	if (ioctl(fd, req, &n))
		die("ioctl");
	return n;
}

/* ------------------------------------------------------------- states */

/* The peer's end is told: by a set, by poll(2), by recv(2). */
static void half_server(int lfd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP};
	int fd = answer_warm(lfd), set = epoll_create1(0);
	struct pollfd p = {fd, POLLRDHUP, 0};
	char first;
	socklen_t one = 1;

	say("listener %s, stream %s", state(lfd), state(fd));
	epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev);
	send_go(fd);
	do
		epoll_wait(set, &ev, 1, 5000);
	while (!(ev.events & EPOLLRDHUP));
	say("EPOLLRDHUP: %s", state(fd));
	say("poll %d: %s", poll(&p, 1, 5000), state(fd));
	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &first, &one);
	say("its first byte: %d", first);
	say_bytes("request", (ssize_t)take(fd, buf, 7), buf);
	say("before the end: %s", state(fd));
	say_result("end", recv(fd, buf, 1, 0));
	say("behind it: %s", state(fd));
	put(fd, "answer", 6);
	await_post("half");
	say_result("wr", shutdown(fd, SHUT_WR));
	await_state(fd, "CLOSE");
	close(set);
	close(fd);
}

static void half_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, "request", 7);
	say_result("wr", shutdown(fd, SHUT_WR));
	await_state(fd, "FIN_WAIT2");
	post("half");
	say_bytes("answer", (ssize_t)take(fd, buf, sizeof(buf)), buf);
	await_state(fd, "CLOSE");
	close(fd);
}

/* What is held back has not been sent, and what has come lies unread. */
static void queues_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_readable(fd, 300);
	say("unread %d", outq(fd, SIOCINQ));
	take(fd, buf, 100);
	say("unread %d", outq(fd, SIOCINQ));
	send_go(fd);
	await_post("held");
	say("unread %d", outq(fd, SIOCINQ));
	post("looked");
	await_readable(fd, 300);
	say_result("rest", (ssize_t)take(fd, buf, sizeof(buf)));
	close(fd);
}

static void queues_client(void)
{
	uint64_t end = 0;
	int fd = dial_warm();

	put(fd, buf, 300);
	await_go(fd);
	set_int(fd, IPPROTO_TCP, TCP_CORK, 1);
	put(fd, buf, 100);
	say("not acknowledged %d, not sent %d, %u", outq(fd, SIOCOUTQ),
	    outq(fd, SIOCOUTQNSD), not_sent(fd));
	post("held");
	await_post("looked");
	set_int(fd, IPPROTO_TCP, TCP_CORK, 0);
	while (outq(fd, SIOCOUTQ) && patient(&end))
		;
	say("not acknowledged %d, not sent %d, %u", outq(fd, SIOCOUTQ),
	    outq(fd, SIOCOUTQNSD), not_sent(fd));
	close(fd);
}

/* ------------------------------------------------- sends behind the end */

static void say_sends(int fd)
{
	struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};

	say_result("first", send(fd, "more", 4, MSG_NOSIGNAL));
	say_result("second", send(fd, "more", 4, MSG_NOSIGNAL));
	say_result("third", send(fd, "more", 4, MSG_NOSIGNAL));
	say("state %s", state(fd));
	poll(&p, 1, 0);
	say("poll %x", (unsigned)p.revents);
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	say_result("recv", recv(fd, buf, 1, 0));
}

static void behind_server(int lfd)
{
	for (int how = 0; how < 20; how++) {
		int fd = answer_warm(lfd);

		await_go(fd);
		put(fd, "answer", 6);
		if (how % 2)
			shutdown(fd, how % 4 == 1 ? SHUT_RDWR : SHUT_WR);
		close(fd);
		post(how % 2 ? "odd" : "even");
	}
	await_post("done");	/* a process that ends is another case */
}

/* The peer has closed: TCP takes one send, and a reset answers it. */
static void behind_client(void)
{
	char path[4096];

	for (int how = 0; how < 20; how++) {
		int fd = dial_warm();

		send_go(fd);
		say_bytes("answer", (ssize_t)take(fd, buf, sizeof(buf)), buf);
		await_post(how % 2 ? "odd" : "even");
		note_path(path, how % 2 ? "odd" : "even");
		unlink(path);
		say_sends(fd);
		close(fd);
	}
	post("done");
}

/* The error of the reset is told once, by whichever call comes first. */
static void told_server(int lfd)
{
	int fd = answer_warm(lfd);

	close(fd);
	post("closed");
	await_post("done");
}

static void told_client(void)
{
	int fd = dial_warm();

	say_result("end", recv(fd, buf, 1, 0));
	await_post("closed");
	say_result("first", send(fd, "more", 4, MSG_NOSIGNAL));
	for (int i = 0; i < 20; i++) {
		say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
		nap(1);
	}
	say_result("second", send(fd, "more", 4, MSG_NOSIGNAL));
	post("done");
	close(fd);
}

/* It has shut down both directions, and not closed. */
static void deaf_server(int lfd)
{
	int fd = answer_warm(lfd);

	say_result("rdwr", shutdown(fd, SHUT_RDWR));
	post("deaf");
	await_post("sent");
	close(fd);
}

static void deaf_client(void)
{
	int fd = dial_warm();

	say_result("end", recv(fd, buf, 1, 0));
	await_post("deaf");
	say_sends(fd);
	post("sent");
	close(fd);
}

const struct tcp_case cases[] = {
	{"half", half_server, half_client},
	{"queues", queues_server, queues_client},
	{"behind", behind_server, behind_client},
	{"told", told_server, told_client},
	{"deaf", deaf_server, deaf_client},
	{0},
};
