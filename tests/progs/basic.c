/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* basic.c - bytes both ways: sizes, directions, half close, threads. */
#include "case.h"

#include <sys/resource.h>

#define CROWD 140

static const uint32_t sizes[] = {
	1,    2,    3,	  7,	8,     31,    32,    33,     63,     64,
	65,   100,  1000, 1023, 1024,  1025,  1460,  4095,   4096,   4097,
	9000, 16384, 32768, 65535, 65536, 65537, 100000, 262144, 1000000};

/* Each size once there and once back; the server gets the size first. */
static void echo_server(int lfd)
{
	int fd = answer(lfd);
	uint32_t n;

	while (take(fd, &n, sizeof(n)) == sizeof(n)) {
		char *buf = malloc(n);
		struct data d = DATA(0);

		if (take(fd, buf, n) != n)
			die("take");
		data_sum(&d, buf, n);
		say_data("server", &d);
		put(fd, buf, n);
		free(buf);
	}
	close(fd);
	say("end");
}

static void echo_sizes(int fd, const uint32_t *list, size_t count)
{
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (size_t i = 0; i < count; i++) {
		uint32_t n = list[i];
		char *out = malloc(n), *in = malloc(n);
		struct data d = DATA(n);

		data_fill(&d, out, n);
		put(fd, &n, sizeof(n));
		put(fd, out, n);
		if (take(fd, in, n) != n)
			die("take");
		say("%u %s", n, memcmp(in, out, n) ? "DIFFERS" : "equal");
		free(out);
		free(in);
	}
	close(fd);
}

static void echo_client(void)
{
	echo_sizes(dial(), sizes, COUNT(sizes));
}

static void big_client(void)
{
	static const uint32_t big[] = {10 << 20, 3 << 20};

	echo_sizes(dial(), big, COUNT(big));
}

/* The client asks with one byte; all the bytes come from the server. */
static void download_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(1);

	await_go(fd);
	put_data(fd, &d, 10 << 20, 100000);
	say_data("sent", &d);
	close(fd);
}

static void download_client(void)
{
	int fd = dial();
	struct data d = DATA(0);

	send_go(fd);
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void upload_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	take_rest(fd, &d);
	say_data("got", &d);
	put(fd, &d.crc, sizeof(d.crc));
	close(fd);
}

static void upload_client(void)
{
	int fd = dial();
	struct data d = DATA(2);
	uint32_t crc = 0;

	put_data(fd, &d, 10 << 20, 200000);
	say_result("shutdown", shutdown(fd, SHUT_WR));
	say("answer: %zu %s", take(fd, &crc, sizeof(crc)),
	    crc == d.crc ? "equal" : "DIFFERS");
	close(fd);
}

/* The server speaks first; the client says nothing before it has heard it. */
static void greeting_server(int lfd)
{
	int fd = answer(lfd);
	char buf[32] = "";

	put(fd, "220 hello\n", 10);
	say_bytes("client", (ssize_t)take(fd, buf, 5), buf);
	put(fd, "221 bye\n", 8);
	close(fd);
}

static void greeting_client(void)
{
	int fd = dial();
	char buf[32] = "";

	say_bytes("server", (ssize_t)take(fd, buf, 10), buf);
	put(fd, "QUIT\n", 5);
	say_bytes("server", (ssize_t)take(fd, buf, sizeof(buf)), buf);
	close(fd);
}

/* Client ends first, server goes on sending. */
static void half_client_server(int lfd)
{
	int fd = answer(lfd);
	struct data in = DATA(0), out = DATA(3);

	take_rest(fd, &in);
	say_data("got", &in);
	put_data(fd, &out, 2 << 20, 50000);
	close(fd);
}

static void half_client_client(void)
{
	int fd = dial();
	struct data in = DATA(0), out = DATA(4);
	char c;

	put_data(fd, &out, 300000, 20000);
	say_result("shutdown", shutdown(fd, SHUT_WR));
	take_rest(fd, &in);
	say_data("got", &in);
	say_result("again", recv(fd, &c, 1, 0));
	close(fd);
}

/* Server ends first, client goes on sending. */
static void half_server_server(int lfd)
{
	int fd = answer(lfd);
	struct data in = DATA(0), out = DATA(5);

	await_go(fd);
	put_data(fd, &out, 300000, 20000);
	say_result("shutdown", shutdown(fd, SHUT_WR));
	take_rest(fd, &in);
	say_data("got", &in);
	close(fd);
}

static void half_server_client(void)
{
	int fd = dial();
	struct data in = DATA(0), out = DATA(6);

	send_go(fd);
	take_rest(fd, &in);
	say_data("got", &in);
	put_data(fd, &out, 2 << 20, 50000);
	close(fd);
}

/* Both ends send random sizes at the same time, a thread for each direction. */
static void *duplex_send(void *arg)
{
	int fd = *(int *)arg;
	struct data d = DATA(7);

	put_data(fd, &d, 6 << 20, 30000);
	shutdown(fd, SHUT_WR);
	return NULL;
}

static void duplex(int fd)
{
	pthread_t t = start(duplex_send, &fd);
	struct data d = DATA(0);

	take_rest(fd, &d);
	pthread_join(t, NULL);
	say_data("got", &d);
	close(fd);
}

static void duplex_server(int lfd)
{
	int fd = answer_warm(lfd);

	duplex(fd);
}

static void duplex_client(void)
{
	int fd = dial_warm();

	duplex(fd);
}

/* The same at once, without a word before. */
static void rush_server(int lfd)
{
	duplex(answer(lfd));
}

static void rush_client(void)
{
	duplex(dial());
}

/* Requests and answers of random sizes, strictly in turn. */
static void chat(int fd, bool first)
{
	struct data lengths = DATA(8), in = DATA(0), out = DATA(9 + first);
	static char buf[20000];

	for (int i = 0; i < 600; i++) {
		size_t n = data_size(&lengths, i % 3 ? sizeof(buf) : 40);

		if (first == !(i & 1)) {
			data_fill(&out, buf, n);
			put(fd, buf, n);
		} else {
			if (take(fd, buf, n) != n)
				die("chat");
			data_sum(&in, buf, n);
		}
	}
	say_data("sent", &out);
	say_data("got", &in);
	close(fd);
}

static void chat_server(int lfd)
{
	chat(answer(lfd), false);
}

static void chat_client(void)
{
	chat(dial(), true);
}

static void crumbs_client(void)
{
	int fd = dial();
	struct data d = DATA(11);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (int i = 0; i < 5000; i++) {
		char c;

		data_fill(&d, &c, 1);
		put(fd, &c, 1);
	}
	say_data("sent", &d);
	shutdown(fd, SHUT_WR);
	say("answer: %zu", take(fd, &d, 4));
	close(fd);
}

/* A reader that lets everything fill up, then reads odd pieces. */
static void slow_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	await_go(fd);
	await_peer_asleep();
	take_data(fd, &d, 1 << 20, 777);
	await_peer_asleep();
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void slow_client(void)
{
	int fd = dial();
	struct data d = DATA(12);

	send_go(fd);
	put_data(fd, &d, 12 << 20, 1 << 20);
	say_data("sent", &d);
	close(fd);
}

/* Many short streams, one after the other. */
static void series_server(int lfd)
{
	struct data d = DATA(0);

	for (int i = 0; i < 40; i++) {
		int fd = answer(lfd);

		take_rest(fd, &d);
		put(fd, "ok", 2);
		close(fd);
	}
	say_data("got", &d);
}

static void series_client(void)
{
	char buf[8];
	int good = 0;

	for (int i = 0; i < 40; i++) {
		int fd = dial();
		struct data d = DATA(i + 1);

		put_data(fd, &d, (size_t)(i + 1) * 50, 1000);
		shutdown(fd, SHUT_WR);
		good += take(fd, buf, sizeof(buf)) == 2;
		close(fd);
	}
	say("%d answers", good);
}

/* The client ends with the answer's last byte, before the server does. */
static void last_byte_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	take_rest(fd, &d);
	say_data("asked", &d);
	put(fd, "bye!", 4);
	usleep(200000);
	close(fd);
}

static void last_byte_client(void)
{
	int fd = dial();
	char buf[8];

	put(fd, "quit", 4);
	say_result("shutdown", shutdown(fd, SHUT_WR));
	say_bytes("answer", (ssize_t)take(fd, buf, 4), buf);
}

/* Streams wait in the accept queue, with data, some already closed. */
static void backlog_server(int lfd)
{
	int control = answer(lfd);

	await_go(control);
	for (int i = 0; i < 6; i++) {
		char buf[64];
		int fd = answer(lfd);
		size_t n = take(fd, buf, 10);

		say_bytes("got", (ssize_t)n, buf);
		if (i & 1)
			put(fd, buf, n);
		close(fd);
	}
	send_go(control);
	close(control);
}

static void backlog_client(void)
{
	int control = dial(), fds[6];
	char buf[64];

	for (int i = 0; i < 6; i++) {
		fds[i] = dial();
		snprintf(buf, sizeof(buf), "stream %03d", i);
		/* A sender may be made to wait for its link here, with
		 * nobody accepting; bytes and order stay the same. */
		put(fds[i], buf, 10);
		if (!(i & 1))
			close(fds[i]);
	}
	send_go(control);
	for (int i = 1; i < 6; i += 2) {
		say_bytes("echo", (ssize_t)take(fds[i], buf, 10), buf);
		close(fds[i]);
	}
	await_go(control);
	close(control);
}

static void more_descriptors(void)
{
	struct rlimit rl;

	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
}

/* All have been accepted before one asks, and all have asked before the server uses one:
 * Sockrail refuses a stream that its program does not use for a second.  So the server then
 * uses all of them at once. */
static void crowd_server(int lfd)
{
	int control = answer(lfd), fds[CROWD], good = 0;
	struct pollfd p[CROWD];
	char c;

	more_descriptors();
	for (int i = 0; i < CROWD; i++) {
		fds[i] = answer(lfd);
		p[i] = (struct pollfd){fds[i], POLLIN, 0};
	}
	await_go(control);
	post("accepted");
	await_post("asked");
	nap(50);
	poll(p, CROWD, 0);
	for (int i = 0; i < CROWD; i++) {
		good += take(fds[i], &c, 1) == 1 && c == (char)i;
		put(fds[i], &c, 1);
	}
	/* Bytes that are unread when their sender closes may go back to TCP. */
	for (int i = 0; i < CROWD; i++)
		await_end(fds[i]);
	say("%d of %d", good, CROWD);
	close(control);
}

static void crowd_client(void)
{
	int control = dial(), fds[CROWD], good = 0;
	char c;

	more_descriptors();
	for (int i = 0; i < CROWD; i++)
		fds[i] = dial();
	send_go(control);
	await_post("accepted");
	for (int i = 0; i < CROWD; i++)
		if (recv(fds[i], &c, 1, MSG_DONTWAIT) >= 0)
			die("recv");
	post("asked");
	for (int i = 0; i < CROWD; i++) {
		c = (char)i;
		put(fds[i], &c, 1);
	}
	for (int i = 0; i < CROWD; i++) {
		good += take(fds[i], &c, 1) == 1 && c == (char)i;
		close(fds[i]);
	}
	say("%d of %d", good, CROWD);
	close(control);
}

/* What a connected socket refuses must not keep it from leaving the link. */
static void refused_client(void)
{
	char name[20];

	for (int i = 0; i < 20; i++) {
		int fd = dial_warm();

		send_go(fd);
		for (int k = 0; k < 100; k++)
			if (listen(fd, 5) == 0 || errno != EINVAL)
				say("listens");
		snprintf(name, sizeof(name), "plain%d", i);
		await_post(name);
		await_end(fd);
	}
}

static void refused_server(int lfd)
{
	char c, name[20];

	for (int i = 0; i < 20; i++) {
		int fd = answer_warm(lfd);

		await_go(fd);
		/* No link serves this flag. */
		say_result("nothing", recv(fd, &c, 1, MSG_TRUNC | MSG_DONTWAIT));
		snprintf(name, sizeof(name), "plain%d", i);
		post(name);
		close(fd);
	}
}

const struct tcp_case cases[] = {
	{"echo", echo_server, echo_client},
	{"big", echo_server, big_client},
	{"download", download_server, download_client},
	{"upload", upload_server, upload_client},
	{"greeting", greeting_server, greeting_client},
	{"half-close-client", half_client_server, half_client_client},
	{"half-close-server", half_server_server, half_server_client},
	{"duplex", duplex_server, duplex_client},
	{"rush", rush_server, rush_client},
	{"chat", chat_server, chat_client},
	{"crumbs", upload_server, crumbs_client},
	{"slow-reader", slow_server, slow_client},
	{"series", series_server, series_client},
	{"last-byte", last_byte_server, last_byte_client},
	{"crowd", crowd_server, crowd_client},
	{"backlog", backlog_server, backlog_client},
	{"refused", refused_server, refused_client},
	{0},
};
