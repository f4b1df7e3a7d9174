/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * long_call.c - single calls that move more than TCP's buffers hold; and a server that is
 * asleep in a send, with requests unread, when its client's direction is to switch.
 */
#include "case.h"

#include <sys/mman.h>
#include <sys/sendfile.h>

#define LONG ((size_t)24 << 20)
#define FIRST ((size_t)100000) /* enough to make a lazy stream ask for a link */

static void send_long(int fd, struct data *d, size_t n)
{
	char *bytes = malloc(n);

	data_fill(d, bytes, n);
	say_result("in one call", send(fd, bytes, n, MSG_NOSIGNAL));
	free(bytes);
}

/* Reads on, but slowly, while the link is made, and until the test has seen it: on a slow
 * machine much of the call would be over by then, or the link given up as nobody reads. */
static void take_slowly(int fd, struct data *d)
{
	uint64_t end = 0;

	take_data(fd, d, FIRST, FIRST);
	while (!is_posted("go")) {
		if (!patient(&end))
			die("go");
		take_data(fd, d, 4096, 4096);
	}
}

/* ---- the client sends ---- */

static void send_server(int lfd)
{
	struct data d = DATA(0);
	int fd = answer(lfd);

	take_slowly(fd, &d);
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void send_client(void)
{
	struct data d = DATA(1);
	int fd = dial();

	send_long(fd, &d, LONG);
	say_data("sent", &d);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* ---- the client sends a file ---- */

static void count_signal(int signal)
{
	(void)signal;
	say("SIGPIPE");
}

static void file_client(void)
{
	int file = memfd_create("long", 0), fd = dial();
	struct data d = DATA(1);
	off_t at = 0;
	char *bytes = malloc(LONG);

	signal(SIGPIPE, count_signal);
	data_fill(&d, bytes, LONG);
	if (write(file, bytes, LONG) != (ssize_t)LONG)
		die("write");
	free(bytes);
	say_result("in one call", sendfile(fd, file, &at, LONG));
	say("offset: %lld", (long long)at);
	say_data("sent", &d);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* The server ends while the client is asleep in its call, which has sent some. */
static void broken_file_client(void)
{
	int file = memfd_create("long", 0), fd = dial();
	off_t at = 0;
	ssize_t n;

	signal(SIGPIPE, count_signal);
	if (ftruncate(file, LONG))
		die("ftruncate");
	n = sendfile(fd, file, &at, LONG);
	say("some: %d, and so says the offset: %d", n > 0 && n < (ssize_t)LONG, n == at);
	close(fd);
}

static void broken_file_server(int lfd)
{
	int fd = answer(lfd);

	await_peer_asleep();
	close(fd);
}

/* ---- the server sends ---- */

static void answer_server(int lfd)
{
	struct data d = DATA(2);
	int fd = answer(lfd);

	await_go(fd);
	send_long(fd, &d, LONG);
	say_data("sent", &d);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void answer_client(void)
{
	struct data d = DATA(0);
	int fd = dial();

	send_go(fd);
	take_slowly(fd, &d);
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

/* ---- the client receives in one call ---- */

static void take_server(int lfd)
{
	struct data d = DATA(3);
	int fd = answer(lfd);

	await_go(fd);
	put_data(fd, &d, FIRST, FIRST);
	await_post("go"); /* the test has seen the link */
	send_long(fd, &d, LONG - FIRST);
	say_data("sent", &d);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void take_client(void)
{
	struct data d = DATA(0);
	char *bytes = malloc(LONG);
	int fd = dial();

	send_go(fd);
	say_result("in one call", recv(fd, bytes, LONG, MSG_WAITALL));
	data_sum(&d, bytes, LONG);
	say_data("got", &d);
	free(bytes);
	await_end(fd);
}

/* ---- the server does not read while the client does not ---- */

#define ANSWER ((size_t)16 << 20)

static void ahead_server(int lfd)
{
	struct data d = DATA(4);
	int fd = answer(lfd);
	char c;

	put_data(fd, &d, ANSWER, ANSWER);
	while (take(fd, &c, 1))
		put(fd, &c, 1);
	close(fd);
}

static void ahead_client(void)
{
	struct data d = DATA(0);
	int fd = dial();
	char c;

	send_go(fd);
	take_data(fd, &d, FIRST, FIRST);
	await_post("go"); /* the test has seen the link */
	fcntl(fd, F_SETFL, O_NONBLOCK);
	say_result("a request", send(fd, "!", 1, 0));
	fcntl(fd, F_SETFL, 0);
	take_data(fd, &d, ANSWER - FIRST, ANSWER);
	say_data("got", &d);
	for (int i = 0; i < 2; i++)
		take(fd, &c, 1);
	/* one after the other, until the test sees the link */
	for (int i = 0; !is_posted("linked") && i < 20000; i++) {
		send_go(fd);
		take(fd, &c, 1);
		nap(1);
	}
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"ahead", ahead_server, ahead_client},
	{"send", send_server, send_client},
	{"file", send_server, file_client},
	{"broken-file", broken_file_server, broken_file_client},
	{"answer", answer_server, answer_client},
	{"take", take_server, take_client},
	{0},
};
