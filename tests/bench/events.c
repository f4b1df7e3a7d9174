/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * events.c - how many messages a second two event loops, as servers are, exchange by
 * some streams at a time.
 *
 *     events server ADDRESS PORT              echoes, until it is killed
 *     events rate ADDRESS PORT STREAMS SECONDS
 *
 * Each stream has one message of 64 bytes under way; "messages_per_s" counts those of
 * both ends.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE 64

static struct sockaddr_in address;

static void watch(int set, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &e))
		die("epoll_ctl");
}

static void server(void)
{
	int lfd = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0), on = 1;
	struct epoll_event e[64];
	char buf[SIZE];

	setsockopt(lfd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(lfd, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(lfd, 4096))
		die("listen");
	watch(set, lfd);
	for (;;) {
		int n = epoll_wait(set, e, 64, -1);

		if (n < 0)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd;
			ssize_t k;

			if (fd == lfd) {
				fd = accept(lfd, NULL, NULL);
				if (fd < 0)
					die("accept");
				watch(set, fd);
				continue;
			}
			k = recv(fd, buf, sizeof(buf), 0);
			if (k <= 0)
				close(fd);
			else if (send(fd, buf, (size_t)k, MSG_NOSIGNAL) != k)
				die("send");
		}
	}
}

static int dial(int set)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("connect");
	watch(set, fd);
	return fd;
}

static void rate(unsigned streams, double seconds)
{
	int set = epoll_create1(0);
	int *fds = calloc(streams, sizeof(*fds));
	struct epoll_event e[64];
	char buf[SIZE] = "";
	uint64_t start, now, messages = 0;

	for (unsigned i = 0; i < streams; i++)
		fds[i] = dial(set);
	start = now_ns();
	for (unsigned i = 0; i < streams; i++)
		if (send(fds[i], buf, SIZE, 0) != SIZE)
			die("send");
	do {
		int n = epoll_wait(set, e, 64, 10000);

		if (n <= 0)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			ssize_t k = recv(e[i].data.fd, buf, SIZE, 0);

			/* A part of a message would be sent on as one. */
			if (k != SIZE || send(e[i].data.fd, buf, SIZE, 0) != SIZE)
				die("recv");
			messages += 2;
		}
		now = now_ns();
	} while ((double)(now - start) < seconds * 1e9);
	printf("messages_per_s %.0f\n", (double)messages * 1e9 / (double)(now - start));
}

int main(int argc, char **argv)
{
	struct rlimit l = {100000, 100000};

	if (setrlimit(RLIMIT_NOFILE, &l) && !getrlimit(RLIMIT_NOFILE, &l)) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	if (argc < 4) {
		fprintf(stderr, "usage: events server|rate ADDRESS PORT ...\n");
		return 2;
	}
	address = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(argv[3])),
		.sin_addr.s_addr = inet_addr(argv[2]),
	};
	if (!strcmp(argv[1], "server"))
		server();
	rate(argc > 4 ? (unsigned)atoi(argv[4]) : 1, argc > 5 ? atof(argv[5]) : 1);
	return 0;
}
