/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cases that run with another preloaded library beside ours. */
#include "case.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>

/* By the system call: the other library may fake the time. */
static uint64_t real_ms(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

#define LIMIT_MS 200
#define LATE_MS 5000

static void say_time(const char *what, int r, uint64_t began)
{
	uint64_t took = real_ms() - began;

	say_result(what, r);
	if (took < LIMIT_MS - 10 || took >= LATE_MS)
		say("%s: %llu ms", what, (unsigned long long)took);
}

static void limits_client(void)
{
	struct timeval limit = { 0, LIMIT_MS * 1000 }, none = { 0, 0 }, left = limit;
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = dial_warm(), ep = epoll_create1(0);
	struct pollfd p = { fd, POLLIN, 0 };
	uint64_t began;
	fd_set set;
	char c;

	alarm(25);
	began = real_ms();
	say_time("poll", poll(&p, 1, LIMIT_MS), began);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	began = real_ms();
	say_time("epoll_wait", epoll_wait(ep, &ev, 1, LIMIT_MS), began);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	began = real_ms();
	say_time("select", select(fd + 1, &set, NULL, NULL, &left), began);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	began = real_ms();
	say_time("recv", (int)recv(fd, &c, 1, 0), began);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	send_go(fd);
	began = real_ms();
	say_time("recv of what comes later", (int)recv(fd, &c, 1, 0), began);
	close(fd);
}

static void limits_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct timespec t = { 0, LIMIT_MS * 1000000 };

	await_go(fd);
	await_peer_asleep();
	syscall(SYS_nanosleep, &t, NULL);
	send_go(fd);
	await_end(fd);
}

/* Descriptors that are made, duplicated and replaced while a stream is used. */
static void descriptors_client(void)
{
	int fd = dial_warm(), spare = socket(AF_INET, SOCK_STREAM, 0), copy, third;
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	send_go(fd);
	say_result("epoll_wait", epoll_wait(ep, &ev, 1, 20000));
	await_go(fd);
	epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL);
	copy = dup(fd);
	close(fd);
	third = dup2(copy, spare);
	say_result("the same number", third == spare ? 0 : -1);
	close(copy);
	send_go(third);
	await_go(third);
	close(third);
	close(ep);
}

static void descriptors_server(int lfd)
{
	int fd = answer_warm(lfd);

	for (int i = 0; i < 2; i++) {
		await_go(fd);
		send_go(fd);
	}
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"limits", limits_server, limits_client},
	{"descriptors", descriptors_server, descriptors_client},
	{0},
};
