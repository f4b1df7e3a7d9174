/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * nests.c - a round trip between two event loops that wait for an epoll set in another one,
 * as UCX does, and loops inside other loops.
 *
 *     nests serve                     prints its port, echoes one stream, and ends
 *     nests time PORT SIZE ROUNDS     a message of SIZE bytes and its echo: the median
 *
 * Both ends ask the inner set behind each return of the outer one, and then read until
 * there is no more.  As the first argument "plain": there is no outer set; "polled": the inner one
 * is waited for by poll(2).
 */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define WARM 500		/* rounds before the first that counts */

static struct sockaddr_in address = {.sin_family = AF_INET};
static char buf[1 << 16];
static bool plain, polled;

struct loop {
	int fd, inner, outer;	/* outer: -1, none */
};

static void watch(int set, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &e))
		die("epoll_ctl");
}

static struct loop loop_of(int fd)
{
	struct loop l = {fd, epoll_create1(0), plain || polled ? -1 : epoll_create1(0)};
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (l.outer >= 0)
		watch(l.outer, l.inner);
	watch(l.inner, fd);
	return l;
}

static int await_inner(const struct loop *l)
{
	struct pollfd p = {.fd = l->inner, .events = POLLIN};
	struct epoll_event e;

	return polled ? poll(&p, 1, -1) : epoll_wait(l->outer, &e, 1, -1);
}

/* Waits until something has come, and takes it; 0: the end. */
static size_t take_some(const struct loop *l)
{
	struct epoll_event e;
	ssize_t n = -1;

	while (n < 0) {
		if (!plain && await_inner(l) != 1)
			die("outer");
		if (epoll_wait(l->inner, &e, 1, plain ? -1 : 0) != 1)
			continue;
		n = recv(l->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			die("recv");
	}
	return (size_t)n;
}

static void put(const struct loop *l, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = send(l->fd, buf, n - done, MSG_NOSIGNAL);

		if (k < 0)
			die("send");
		done += (size_t)k;
	}
}

static void serve(void)
{
	int lfd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(address);
	struct loop l;
	size_t n;

	address.sin_port = 0;
	if (bind(lfd, (struct sockaddr *)&address, sizeof(address)) || listen(lfd, 1) ||
	    getsockname(lfd, (struct sockaddr *)&address, &len))
		die("listen");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	l = loop_of(accept(lfd, NULL, NULL));
	while ((n = take_some(&l)) > 0)
		put(&l, n);
}

static void time_rounds(size_t size, unsigned rounds)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t *ns = calloc(rounds, sizeof(*ns)), start;
	struct loop l;

	if (!ns || size > sizeof(buf) ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("connect");
	l = loop_of(fd);
	for (unsigned i = 0; i < rounds + WARM; i++) {
		start = now_ns();
		put(&l, size);
		for (size_t got = 0, n; got < size; got += n) {
			n = take_some(&l);
			if (!n)
				die("end");
		}
		if (i >= WARM)
			ns[i - WARM] = now_ns() - start;
	}
	print_times("round", ns, rounds);
}

int main(int argc, char **argv)
{
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	plain = argc > 1 && !strcmp(argv[1], "plain");
	polled = argc > 1 && !strcmp(argv[1], "polled");
	argc -= plain || polled;
	argv += plain || polled;
	if (argc == 2 && !strcmp(argv[1], "serve")) {
		serve();
	} else if (argc == 5 && !strcmp(argv[1], "time")) {
		address.sin_port = htons((uint16_t)atoi(argv[2]));
		time_rounds((size_t)atol(argv[3]), (unsigned)atoi(argv[4]));
	} else {
		fprintf(stderr, "usage: nests [plain | polled] serve | time PORT SIZE ROUNDS\n");
		return 2;
	}
	return 0;
}
