/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* buffer.c - how much is there, how much has room: SO_RCVLOWAT, FIONREAD, SO_SNDBUF. */
#include "case.h"

#include <linux/sockios.h>
#include <sys/mman.h>

static char buf[1 << 17];

/* A reader, and a poll, that want at least so many bytes. */
static void lowat_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct pollfd p = {fd, POLLIN, 0};
	ssize_t n;

	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 100);
	say("lowat %d", get_int(fd, SOL_SOCKET, SO_RCVLOWAT));
	send_go(fd);
	await_readable(fd, 40);
	say("poll %d", poll(&p, 1, 30));
	say_result("dontwait", recv(fd, buf, 40, MSG_DONTWAIT));
	send_go(fd);
	n = recv(fd, buf, 1000, 0);
	say("recv: %d", n >= 100);
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
	say_result("rest", (ssize_t)take(fd, buf, 200 - (size_t)n) + n);
	send_go(fd);
	take(fd, buf, 5);
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 50);
	say_result("end", recv(fd, buf, 1000, 0));
	close(fd);
}

static void lowat_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, buf, 40);
	await_go(fd);
	for (int i = 0; i < 10; i++) {
		put(fd, buf, 10);
		nap(10);
	}
	/* A kernel that found ten bytes took them, and wants 100 more. */
	put(fd, buf, 100);
	await_go(fd);
	put(fd, buf, 5);
	close(fd);
	say("done");
}

/* Sends that may hardly wait find room, also while a link is being made. */
#define HURRIES 60

static void hurry(int fd, bool first)
{
	const struct timeval least = {0, 1};

	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &least, sizeof(least)))
		die("SO_SNDTIMEO");
	for (int i = 0; i < 100; i++) {
		if (first)
			put(fd, buf, 200);
		if (take(fd, buf, 200) != 200)
			die("hurry");
		if (!first)
			put(fd, buf, 200);
	}
	close(fd);
}

static void hurry_server(int lfd)
{
	for (int i = 0; i < HURRIES; i++)
		hurry(answer(lfd), false);
}

static void hurry_client(void)
{
	for (int i = 0; i < HURRIES; i++)
		hurry(dial(), true);
}

/* A first write that must not block is taken, most of it. */
static void first_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	await_peer_asleep();
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void first_client(void)
{
	int fd = dial();
	size_t n = 100000;
	ssize_t r;

	memset(buf, 'f', n);
	r = send(fd, buf, n, MSG_DONTWAIT);
	say("first: %d", r >= 40000);
	if (r > 0)
		put(fd, buf + r, n - (size_t)r);
	close(fd);
}

/* ----------------------------------------------------- queue lengths */

static void queues_server(int lfd)
{
	int fd = answer_warm(lfd), n = -1;

	ioctl(fd, FIONREAD, &n);
	say("FIONREAD %d", n);
	send_go(fd);
	await_readable(fd, 1000);
	ioctl(fd, FIONREAD, &n);
	say("FIONREAD %d", n);
	say_result("recv", recv(fd, buf, 400, 0));
	ioctl(fd, FIONREAD, &n);
	say("FIONREAD %d", n);
	say_result("recv", recv(fd, buf, 1000, 0));
	ioctl(fd, SIOCINQ, &n);
	say("SIOCINQ %d", n);
	send_go(fd);
	say_result("end", recv(fd, buf, 1, 0));
	ioctl(fd, FIONREAD, &n);
	say("FIONREAD %d", n);
	close(fd);
}

static void queues_client(void)
{
	uint64_t end = 0;
	int fd = dial_warm(), n = -1;

	await_go(fd);
	put(fd, buf, 1000);
	await_go(fd);
	do {
		if (ioctl(fd, SIOCOUTQ, &n))
			die("SIOCOUTQ");
	} while (n && patient(&end));
	say("SIOCOUTQ %d", n);
	close(fd);
}

/* Buffers that are to hold a sender back. */
static void bounded_server(int lfd)
{
	int fd;

	set_int(lfd, SOL_SOCKET, SO_RCVBUF, 4096);
	fd = answer_warm(lfd);
	await_post("sent");
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
}

static void bounded_client(void)
{
	int fd = dial();
	ssize_t n, sum = 0;

	set_int(fd, SOL_SOCKET, SO_SNDBUF, 4096);
	warm_up(fd, true);
	while ((n = send(fd, buf, 1000, MSG_DONTWAIT)) > 0 && sum < 1000000)
		sum += n;
	say("held back %s", sum < 100000 ? "soon" : "late");
	post("sent");
	close(fd);
}

/* One call of more than it transfers: the rest is not its business. */
#define HUGE 0x90000000u

static void huge_server(int lfd)
{
	int fd = answer_warm(lfd);
	size_t sum = 0;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		sum += (size_t)n;
	say("got %zu", sum);
	close(fd);
}

static void huge_client(void)
{
	char *much = mmap(NULL, HUGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			  -1, 0);
	int fd = dial();

	if (much == MAP_FAILED)
		die("mmap");
	warm_up(fd, true);
	say("wrote %zd", write(fd, much, HUGE));
	close(fd);
}

/* Small sends that must not block find room, whether or not a link is being made. */
static void crumbs_server(int lfd)
{
	for (int i = 0; i < 40; i++) {
		struct data d = DATA(0);
		int fd = answer(lfd);

		take_rest(fd, &d);
		say_data("got", &d);
		close(fd);
	}
}

static void crumbs_client(void)
{
	for (int i = 0; i < 40; i++) {
		struct data d = DATA(i);
		char piece[20];
		int fd = dial();

		for (int k = 0; k < 500; k++) {
			data_fill(&d, piece, sizeof(piece));
			if (send(fd, piece, sizeof(piece), MSG_DONTWAIT) != sizeof(piece))
				say_result("no room", -1);
		}
		say_data("sent", &d);
		close(fd);
	}
}

#define FILL_RING 65536		/* buffer.bats sets the ring's size */
#define FILL_LEAST 1024		/* a 64th, which is not worth a send (pure/credit.h) */
#define FILL_FIRST 12000

/* Sends that may not wait fill the buffer, before one of them gets EAGAIN. */
static void fill_server(int lfd)
{
	struct data d = DATA(0);
	int fd = answer_warm(lfd);

	take(fd, buf, FILL_FIRST);
	put(fd, buf, 1);
	await_post("full");
	take_rest(fd, &d);
	put(fd, &d.bytes, sizeof(d.bytes));
	close(fd);
}

static void fill_client(void)
{
	int fd = dial_warm();
	struct pollfd p = {fd, POLLOUT, 0};
	uint64_t sent = 0, got = 0;
	ssize_t n;

	/* So the end of a ring of FILL_RING bytes divides its room into two pieces, of
	 * which the second is less than a quarter. */
	put(fd, buf, FILL_FIRST);
	take(fd, buf, 1);
	while ((n = send(fd, buf, 1000, MSG_DONTWAIT)) > 0)
		sent += (uint64_t)n;
	say_result("full", n);
	say("poll %d", poll(&p, 1, 0));
	say("%s", sent >= FILL_RING - FILL_LEAST ? "all" : "LESS");
	post("full");
	shutdown(fd, SHUT_WR);
	take(fd, &got, sizeof(got));
	say("%s", sent == got ? "equal" : "DIFFERS");
	close(fd);
}

const struct tcp_case cases[] = {
	{"fill", fill_server, fill_client},
	{"huge", huge_server, huge_client},
	{"hurry", hurry_server, hurry_client},
	{"first", first_server, first_client},
	{"bounded", bounded_server, bounded_client},
	{"lowat", lowat_server, lowat_client},
	{"queues", queues_server, queues_client},
	{"crumbs", crumbs_server, crumbs_client},
	{0},
};
