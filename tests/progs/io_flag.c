/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* io_flag.c - what MSG_PEEK, WAITALL, DONTWAIT, TRUNC and MORE do to a call. */
#include "case.h"

#include <linux/sockios.h>

static char buf[1 << 20];

/* ------------------------------------------------------------- MSG_PEEK */

static void peek_server(int lfd)
{
	int fd = answer_warm(lfd);

	say_result("empty", recv(fd, buf, 5, MSG_PEEK | MSG_DONTWAIT));
	send_go(fd);
	await_readable(fd, 11);
	say_bytes("peek", recv(fd, buf, 5, MSG_PEEK), buf);
	say_bytes("peek", recv(fd, buf, 100, MSG_PEEK), buf);
	say_bytes("recv", recv(fd, buf, 6, 0), buf);
	say_bytes("peek", recv(fd, buf, 100, MSG_PEEK), buf);
	say_bytes("recv", recv(fd, buf, 100, 0), buf);
	send_go(fd);
	/* Asleep in a peek when bytes come. */
	say_bytes("sleep", recv(fd, buf, 1, MSG_PEEK), buf);
	say_bytes("recv", (ssize_t)take(fd, buf, 3), buf);
	send_go(fd);
	say_result("end", recv(fd, buf, 5, MSG_PEEK));
	say_result("end", recv(fd, buf, 5, 0));
	close(fd);
}

static void peek_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, "hello world", 11);
	await_go(fd);
	await_peer_asleep();
	put(fd, "xyz", 3);
	await_go(fd);
	close(fd);
	say("done");
}

/* A peek that waits: for all, a time, the end. */
static void peek_all_server(int lfd)
{
	const int all = MSG_PEEK | MSG_WAITALL;
	struct timeval t = {0, 200000}, none = {0, 0};
	struct iovec iov[2] = {{buf, 3}, {buf + 3, 7}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	int fd = answer_warm(lfd);
	uint64_t from;

	send_go(fd);
	await_readable(fd, 4);
	say_bytes("dontwait", recv(fd, buf, 10, all | MSG_DONTWAIT), buf);
	say_bytes("peek", recv(fd, buf, 10, all), buf);
	say_bytes("peek", recvmsg(fd, &m, all), buf);
	say_bytes("recv", recv(fd, buf, 10, 0), buf);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
		die("SO_RCVTIMEO");
	send_go(fd);
	await_readable(fd, 2);
	from = now_ms();
	say_bytes("timeout", recv(fd, buf, 4, all), buf);
	say("waited: %d", now_ms() - from >= 195);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)))
		die("SO_RCVTIMEO");
	send_go(fd);
	from = now_ms();
	say_bytes("end", recv(fd, buf, 4, all), buf);
	say("waited: %d", now_ms() - from >= 95);
	say_bytes("recv", recv(fd, buf, 4, MSG_WAITALL), buf);
	say_result("end", recv(fd, buf, 4, all));
	close(fd);
}

static void peek_all_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, "abcd", 4);
	await_peer_asleep();
	put(fd, "123", 3);
	await_peer_asleep();
	put(fd, "456", 3);
	await_go(fd);
	put(fd, "xy", 2);
	await_go(fd);
	nap(120);
	put(fd, "z", 1);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* A message in two pieces, with a pause for a switch between them. */
static void peek_across_server(int lfd)
{
	int fd = answer(lfd);
	struct pollfd p = {fd, POLLIN, 0};

	poll(&p, 1, 5000);
	await_readable(fd, 16);
	say_bytes("peek", recv(fd, buf, 16, MSG_PEEK), buf);
	say_bytes("peek", recv(fd, buf, 100, MSG_PEEK), buf);
	say_bytes("peek", recv(fd, buf, 10, MSG_PEEK), buf);
	say_bytes("recv", recv(fd, buf, 16, MSG_WAITALL), buf);
	close(fd);
}

static void peek_across_client(void)
{
	int fd = dial();

	put(fd, "12345678", 8);
	nap(300);
	put(fd, "abcdefgh", 8);
	await_end(fd);
}

/* ----------------------------------------- MSG_WAITALL, DONTWAIT, TRUNC */

static void waitall_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);
	struct timeval t = {0, 200000};
	struct iovec iov[2] = {{buf, 300}, {buf + 300, 700}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

	say_result("recv", recv(fd, buf, 1000, MSG_WAITALL));
	data_sum(&d, buf, 1000);
	say_result("recvmsg", recvmsg(fd, &m, MSG_WAITALL));
	data_sum(&d, buf, 1000);
	say_result("large", recv(fd, buf, 900000, MSG_WAITALL));
	data_sum(&d, buf, 900000);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
		die("SO_RCVTIMEO");
	send_go(fd);
	say_result("timeout", recv(fd, buf, 1000, MSG_WAITALL));
	send_go(fd);
	t.tv_usec = 0;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
		die("SO_RCVTIMEO");
	say_result("short", recv(fd, buf, 1000, MSG_WAITALL));
	data_sum(&d, buf, 40);
	say_result("end", recv(fd, buf, 1000, MSG_WAITALL));
	say_data("got", &d);
	close(fd);
}

static void waitall_client(void)
{
	int fd = dial();
	struct data d = DATA(21);

	for (int i = 0; i < 20; i++) {
		data_fill(&d, buf, 100);
		put(fd, buf, 100);
		nap(5);
	}
	data_fill(&d, buf, 900000);
	put(fd, buf, 900000);
	await_go(fd);
	put(fd, "1234567", 7);
	await_go(fd);
	data_fill(&d, buf, 40);
	put(fd, buf, 40);
	close(fd);
	say_data("sent", &d);
}

/* A sender that never waits: EAGAIN when full, and all that was sent arrives. */
static void dontwait_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct data d = DATA(0);

	say_result("empty", recv(fd, buf, 10, MSG_DONTWAIT));
	say_result("empty", read(fd, buf, 0));
	send_go(fd);
	await_post("full");
	take_rest(fd, &d);
	put(fd, &d.bytes, sizeof(d.bytes));
	put(fd, &d.crc, sizeof(d.crc));
	close(fd);
}

static void dontwait_client(void)
{
	int fd = dial_warm(), full = 0;
	struct data d = DATA(22), sent = DATA(0);
	uint64_t bytes;
	uint32_t crc;
	ssize_t n;

	data_fill(&d, buf, sizeof(buf));
	await_go(fd);
	while (full < 3) {
		n = send(fd, buf, 300000, MSG_DONTWAIT);
		if (n > 0) {
			data_sum(&sent, buf, (size_t)n);
			continue;
		}
		if (!full)
			say_result("full", n);
		full++;
		nap(30);
	}
	post("full");
	shutdown(fd, SHUT_WR);
	take(fd, &bytes, sizeof(bytes));
	take(fd, &crc, sizeof(crc));
	say("%s", bytes == sent.bytes && crc == sent.crc ? "equal" : "DIFFERS");
	close(fd);
}

/* On TCP MSG_TRUNC discards what it would have copied. */
static void trunc_server(int lfd)
{
	int fd = answer_warm(lfd);

	send_go(fd);
	await_readable(fd, 26);
	memset(buf, '-', 10);
	say_bytes("peek, trunc", recv(fd, buf, 2, MSG_PEEK | MSG_TRUNC), buf);
	say_bytes("trunc", recv(fd, buf, 5, MSG_TRUNC), buf);
	say_bytes("recv", recv(fd, buf, 5, 0), buf);
	say_result("trunc null", recv(fd, NULL, 6, MSG_TRUNC));
	say_bytes("recv", recv(fd, buf, 100, 0), buf);
	close(fd);
}

static void trunc_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, "abcdefghijklmnopqrstuvwxyz", 26);
	await_end(fd);
}

/* When this process has stopped it goes on after more than the 3 s for which a return to
 * TCP is awaited where the call can be made without. */
static void be_continued(void)
{
	pid_t self = getpid();

	if (fork())
		return;
	while (thread_state(self, self) != 'T')
		nap(5);
	nap(3500);
	kill(self, SIGCONT);
	_exit(0);
}

/* A call that a link does not serve, while the peer cannot return to TCP. */
static void trunc_stopped_server(int lfd)
{
	int fd = answer(lfd);
	pid_t peer = peer_pid();

	warm_up(fd, false);
	send_go(fd);
	await_readable(fd, 26);
	while (thread_state(peer, peer) != 'T')
		nap(5);
	say_result("trunc", recv(fd, NULL, 5, MSG_TRUNC));
	say_bytes("recv", (ssize_t)take(fd, buf, 21), buf);
	close(fd);
}

static void trunc_stopped_client(void)
{
	int fd;

	be_continued();
	fd = dial_warm();
	await_go(fd);
	put(fd, "abcdefghijklmnopqrstuvwxyz", 26);
	raise(SIGSTOP);
	await_end(fd);
}

/* ------------------------------------------------------------- MSG_MORE */

/* Until the other end has said that it has all: an acknowledgement that comes
 * later, up to 40 ms after the go, pushes out what MSG_MORE holds back. */
static void await_acked(int fd)
{
	uint64_t end = 0;
	int n = -1;

	do {
		if (ioctl(fd, SIOCOUTQ, &n))
			die("SIOCOUTQ");
	} while (n && patient(&end));
}

/* Held back while more is announced, but not for ever (200 ms on TCP). */
static void more_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct pollfd p = {fd, POLLIN, 0};

	for (int i = 0; i < 2; i++) {
		await_go(fd);
		say("held: %d", poll(&p, 1, 100));
		send_go(fd);
		say_bytes("all", (ssize_t)take(fd, buf, 6), buf);
		send_go(fd);
	}
	say("late: %d", poll(&p, 1, 5000));
	say_bytes("late", (ssize_t)take(fd, buf, 4), buf);
	send_go(fd);
	say_bytes("big", (ssize_t)take(fd, buf, 0), buf);
	say_result("big", (ssize_t)take(fd, buf, 500000));
	close(fd);
}

static void more_client(void)
{
	int fd = dial_warm();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	send_go(fd);
	await_acked(fd);
	say_result("more", send(fd, "ab", 2, MSG_MORE));
	say_result("more", send(fd, "cd", 2, MSG_MORE));
	await_go(fd);
	say_result("last", send(fd, "ef", 2, 0));
	await_go(fd);

	send_go(fd);
	set_int(fd, IPPROTO_TCP, TCP_CORK, 1);
	say_result("cork", send(fd, "uvw", 3, 0));
	say_result("cork", write(fd, "xyz", 3));
	await_go(fd);
	set_int(fd, IPPROTO_TCP, TCP_CORK, 0);
	await_go(fd);

	say_result("more", send(fd, "tail", 4, MSG_MORE));
	await_go(fd);
	for (int i = 0; i < 5; i++)
		say_result("big", send(fd, buf, 100000, MSG_MORE));
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* TCP_NODELAY pushes out what is held back, even by TCP_CORK.  (Held for its time it
 * takes 200 ms, each time.) */
static bool pushed(int fd, bool corked)
{
	uint64_t from = now_ms();

	set_int(fd, IPPROTO_TCP, TCP_CORK, corked);
	put(fd, buf, 100);
	if (!corked && send(fd, buf, 100, MSG_MORE) != 100)
		die("send");
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	await_acked(fd);
	return now_ms() - from < 150;
}

static void push_server(int lfd)
{
	int fd = answer_warm(lfd);

	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
}

static void push_client(void)
{
	int fd = dial_warm(), tries;

	for (int corked = 0; corked < 2; corked++) {
		for (tries = 0; tries < 20 && !pushed(fd, corked); tries++)
			;
		say("pushed: %d", tries < 20);
	}
	close(fd);
}

/* Megabytes in pieces of odd sizes, each with a tail that is held back: rings
 * grow meanwhile. */
static void more_bulk_server(int lfd)
{
	struct data d = DATA(5);
	int fd = answer_warm(lfd);

	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void more_bulk_client(void)
{
	struct data d = DATA(5), sizes = DATA(6);
	int fd = dial_warm();

	for (int i = 0; d.bytes < 20 << 20; i++) {
		size_t n = data_size(&sizes, i % 8 ? 3000 : 300000);

		if (i % 500 == 0)
			set_int(fd, IPPROTO_TCP, TCP_CORK, i % 1000 == 0);
		data_fill(&d, buf, n);
		for (size_t done = 0; done < n;) {
			ssize_t k = send(fd, buf + done, n - done,
					 i % 3 ? MSG_MORE : 0);

			if (k < 0)
				die("send");
			done += (size_t)k;
		}
	}
	shutdown(fd, SHUT_WR);
	say_data("sent", &d);
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"peek", peek_server, peek_client},
	{"peek-all", peek_all_server, peek_all_client},
	{"peek-across", peek_across_server, peek_across_client},
	{"waitall", waitall_server, waitall_client},
	{"dontwait", dontwait_server, dontwait_client},
	{"trunc", trunc_server, trunc_client},
	{"trunc-stopped", trunc_stopped_server, trunc_stopped_client},
	{"more", more_server, more_client},
	{"push", push_server, push_client},
	{"more-bulk", more_bulk_server, more_bulk_client},
	{0},
};
