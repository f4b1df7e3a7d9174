/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* long_call.c - single calls that move more than TCP's buffers hold. */
#include "case.h"

#define LONG ((size_t)24 << 20)
#define FIRST ((size_t)100000) /* enough to make a lazy stream ask for a link */

/* Waits until the test has seen that the link is made.  Nothing is called on a stream
 * meanwhile. */
static void await_link(void)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/go", getenv("HOLD") ?: "");
	while (access(path, F_OK))
		nap(10);
}

static void send_long(int fd, struct data *d, size_t n)
{
	char *bytes = malloc(n);

	data_fill(d, bytes, n);
	say_result("in one call", send(fd, bytes, n, MSG_NOSIGNAL));
	free(bytes);
}

/* ---- the client sends ---- */

static void send_server(int lfd)
{
	struct data d = DATA(0);
	int fd = answer(lfd);

	take_data(fd, &d, FIRST, FIRST);
	await_link();
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
	take_data(fd, &d, FIRST, FIRST);
	await_link();
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
	await_link();
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

const struct tcp_case cases[] = {
	{"send", send_server, send_client},
	{"answer", answer_server, answer_client},
	{"take", take_server, take_client},
	{0},
};
