/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll.h - what the programs with epoll sets share: calls that may not fail, a
 * client that obeys, a client that pings.
 */
#ifndef TEST_EPOLL_H
#define TEST_EPOLL_H

#include "case.h"

#include <sys/epoll.h>

#define MESSAGE 100
static char buf[1 << 16];

static inline int new_set(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0)
		die("epoll_create1");
	return ep;
}

static inline int control(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = {events, {.u64 = data}};

	return epoll_ctl(ep, op, fd, &ev);
}

static inline void add(int ep, int fd, uint32_t events, uint64_t data)
{
	if (control(ep, EPOLL_CTL_ADD, fd, events, data))
		die("EPOLL_CTL_ADD");
}

static inline void mod(int ep, int fd, uint32_t events, uint64_t data)
{
	if (control(ep, EPOLL_CTL_MOD, fd, events, data))
		die("EPOLL_CTL_MOD");
}

static inline void del(int ep, int fd)
{
	if (epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL))
		die("EPOLL_CTL_DEL");
}

static inline const char *names(uint32_t events)
{
	static __thread char text[64];

	snprintf(text, sizeof(text), "%s%s%s%s%s", events & EPOLLIN ? " in" : "",
		 events & EPOLLOUT ? " out" : "",
		 events & EPOLLRDHUP ? " rdhup" : "",
		 events & EPOLLHUP ? " hup" : "",
		 events & EPOLLERR ? " err" : "");
	return text;
}

/* What one wait says, in the order of the data. */
static inline int say_wait(const char *what, int ep, int ms)
{
	struct epoll_event ev[16], t;
	int n = epoll_wait(ep, ev, 16, ms);

	if (n < 0) {
		say_result(what, n);
		return n;
	}
	for (int i = 0; i < n; i++)
		for (int k = i + 1; k < n; k++)
			if (ev[k].data.u64 < ev[i].data.u64) {
				t = ev[i];
				ev[i] = ev[k];
				ev[k] = t;
			}
	say("%s: %d", what, n);
	for (int i = 0; i < n; i++)
		say("  %llx:%s", (unsigned long long)ev[i].data.u64,
		    names(ev[i].events));
	return n;
}

static inline void await_events(int fd, short events)
{
	struct pollfd p = {fd, events & ~POLLHUP, 0};
	uint64_t end = 0;

	do {
		if (poll(&p, 1, 0) < 0)
			die("poll");
		if (p.revents & events)
			return;
	} while (patient(&end));
	die("await_events");
}

static inline int poll_one(int fd, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};

	if (poll(&p, 1, ms) < 0)
		die("poll");
	return p.revents;
}

/*
 * What poll(2) says of a set, the inner one or one that has it, when there is nothing.  On a link
 * the sender wakes the set behind its bytes: if these have been taken already, the set is
 * ready for nothing until it is asked.  It happens rarely.
 */
static unsigned in_vain;

static inline int poll_idle(int inner, int set)
{
	struct epoll_event ev;
	int ready;

	while ((ready = poll_one(set, 0)) && in_vain < 3 && !epoll_wait(inner, &ev, 1, 0))
		in_vain++;
	return ready;
}

static inline void say_idle(const char *what, int inner, int set)
{
	poll_idle(inner, set);
	say_wait(what, set, 0);
}

/* The same of an edge-triggered set. */
static inline void say_no_edge(const char *what, int set)
{
	struct epoll_event ev;
	int n;

	while ((n = epoll_wait(set, &ev, 1, 0)) > 0 && in_vain < 3)
		in_vain++;
	say("%s: %d", what, n);
}

static inline void unblock(int fd)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		die("fcntl");
}

static inline void message(int fd)
{
	memset(buf, 'm', MESSAGE);
	put(fd, buf, MESSAGE);
}

/* The other half sends a message when it is told to, which is here then. */
static inline void order(int fd)
{
	int have;

	if (ioctl(fd, FIONREAD, &have))
		die("FIONREAD");
	send_go(fd);
	await_readable(fd, have + MESSAGE);
}

static inline void swallow(int fd)
{
	if (take(fd, buf, MESSAGE) != MESSAGE)
		die("take");
}

/* Serves orders until the end. */
static inline void obey(int fd)
{
	while (take(fd, buf, 1) == 1)
		message(fd);
}

/*
 * An upgrade, which may be an edge more, is over after this: it is made in the
 * background, and each direction then follows with its program's next send.
 */
static inline void settle(int fd, bool first)
{
	for (int i = 0; i < 30; i++) {
		if (first) {
			nap(5);
			send_go(fd);
		}
		await_go(fd);
		if (!first)
			send_go(fd);
	}
}

static inline int begin_on(int fd, bool client)
{
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	warm_up(fd, client);
	settle(fd, client);
	return fd;
}

static inline int begin(int lfd) { return begin_on(answer(lfd), false); }
static inline int begin_client(void) { return begin_on(dial(), true); }

static inline void obey_client(void)
{
	int fd = begin_client();

	obey(fd);
	close(fd);
}

static inline void two_clients(void)
{
	obey_client();
	obey_client();
}

/* Small messages, some after a pause, each echoed before the next. */
static inline void ping_client(void)
{
	int fd = dial(), ep = new_set();
	struct data d = DATA(52), in = DATA(0);
	struct epoll_event ev;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	add(ep, fd, EPOLLIN | EPOLLET, 6);
	for (int i = 0; i < 240; i++) {
		data_fill(&d, buf, 100);
		put(fd, buf, 100);
		for (size_t got = 0; got < 100;) {
			ssize_t n = recv(fd, buf + got, 100 - got,
					 MSG_DONTWAIT);

			if (n > 0) {
				data_sum(&in, buf + got, (size_t)n);
				got += (size_t)n;
			} else if (epoll_wait(ep, &ev, 1, 10000) != 1 ||
				   ev.data.u64 != 6) {
				die("epoll_wait");
			}
		}
		if (i % 3 == 0)
			nap(5);
	}
	say_data("sent", &d);
	say_data("got", &in);
	close(fd);
}

/* Reads once, and sends that back; what read(2) says. */
static inline ssize_t echo_some(int fd, struct data *d)
{
	ssize_t n = read(fd, buf, 500);

	if (n > 0) {
		data_sum(d, buf, (size_t)n);
		put(fd, buf, (size_t)n);
	}
	return n;
}

#endif
