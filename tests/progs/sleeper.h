/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sleeper.h - every call that may sleep, how to see that it does, and a peer that is
 * asked to let it go on.  For one file of a program.
 */
#ifndef SLEEPER_H
#define SLEEPER_H

#include "case.h"

#include <linux/sockios.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>

#define BIG (64u << 20)	/* more than any buffers take */

static char big[BIG];
static int fd, ctl, ep, file, listener;
static uint64_t sent;	/* on fd, after warm_up() */

/* ------------------------------------------------- who sleeps */

struct watch {
	pthread_t thread;
	pid_t tid;
	atomic_bool returned;
};

/* In its call; not just for a moment, at a lock.  False: it has returned. */
static bool sleeps_on(struct watch *w)
{
	for (int looks = 0; looks < 5; looks++) {
		nap(6);
		if (atomic_load(&w->returned))
			return false;
		if (thread_state(getpid(), w->tid) != 'S')
			looks = -1;
	}
	return true;
}

/* ------------------------------------------------- the peer */

/* Reads fd until there is something on ctl. */
static uint64_t drain(void)
{
	uint64_t got = 0;
	ssize_t n;
	char c;

	for (;;) {
		n = recv(fd, big, 1 << 20, MSG_DONTWAIT);
		if (n > 0)
			got += (uint64_t)n;
		else if (recv(ctl, &c, 1, MSG_DONTWAIT) == 1)
			return got;
		else
			nap(1);
	}
}

/* Does what it is asked for on ctl. */
static void obey_client(void)
{
	uint64_t sum = 0, got = 0;
	struct data rest = DATA(0);
	int more[8], n = 0;
	char c;

	fd = dial();
	ctl = dial();
	set_int(ctl, IPPROTO_TCP, TCP_NODELAY, 1);
	warm_up(fd, true);
	warm_up(ctl, true);
	while (take(ctl, &c, 1) == 1) {
		switch (c) {
		case '1':
		case '3':
			put(fd, "xxx", (size_t)(c - '0'));
			break;
		case 'd':
			got += drain();
			send_go(ctl);
			break;
		case 'c':
			more[n] = dial();
			warm_up(more[n++], true);
			break;
		default:
			take(ctl, &sum, sizeof(sum));
		}
	}
	take_rest(fd, &rest);
	say("%s", got + rest.bytes == sum ? "equal" : "NOT EQUAL");
	while (n)
		close(more[--n]);
	close(fd);
	close(ctl);
}

static void order(char what)
{
	put(ctl, &what, 1);
}

static void begin(int lfd)
{
	listener = lfd;
	fd = answer(lfd);
	ctl = answer(lfd);
	set_int(ctl, IPPROTO_TCP, TCP_NODELAY, 1);
	warm_up(fd, false);
	warm_up(ctl, false);
	ep = epoll_create1(EPOLL_CLOEXEC);
	file = memfd_create("zeros", MFD_CLOEXEC);
	if (ftruncate(file, BIG))
		die("ftruncate");
}

static void finish(void)
{
	order('t');
	put(ctl, &sent, sizeof(sent));
	close(ep);
	close(file);
	close(ctl);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void fill(void)
{
	sent += fill_up(fd);
}

static void no_release(void)
{
}

static void one_byte(void)
{
	order('1');
}

static void start_drain(void)
{
	order('d');
}

static void end_drain(void)
{
	order('s');
	await_go(ctl);
}

/* ------------------------------------------------- the calls */

static struct iovec two[2] = {{big, 1}, {big + 1, 1}};

static struct msghdr message(struct iovec *iov, size_t n)
{
	return (struct msghdr){.msg_iov = iov, .msg_iovlen = n};
}

static ssize_t do_read(void)
{
	return read(fd, big, 10);
}

static ssize_t do_readv(void)
{
	return readv(fd, two, 2);
}

static ssize_t do_recv(void)
{
	return recv(fd, big, 10, 0);
}

static ssize_t do_recvfrom(void)
{
	return recvfrom(fd, big, 10, 0, NULL, NULL);
}

static ssize_t do_recvmsg(void)
{
	struct msghdr m = message(two, 2);

	return recvmsg(fd, &m, 0);
}

static ssize_t do_waitall(void)
{
	return recv(fd, big, 1, MSG_WAITALL);
}

static ssize_t do_peek(void)
{
	ssize_t n = recv(fd, big, 10, MSG_PEEK);

	if (n > 0)
		take(fd, big, 1);
	return n;
}

static ssize_t do_write(void)
{
	return write(fd, big, 1);
}

static ssize_t do_writev(void)
{
	return writev(fd, two, 2);
}

static ssize_t do_send(void)
{
	return send(fd, big, 1, 0);
}

static ssize_t do_sendto(void)
{
	return sendto(fd, big, 1, 0, NULL, 0);
}

static ssize_t do_sendmsg(void)
{
	struct msghdr m = message(two, 2);

	return sendmsg(fd, &m, 0);
}

static ssize_t do_sendfile(void)
{
	off_t at = 0;

	return sendfile(fd, file, &at, 1);
}

static const sigset_t *mask;	/* of those that take one */
static struct timespec *limit;

static int limit_ms(void)
{
	return limit ? (int)limit->tv_sec * 1000 : -1;
}

static ssize_t do_poll(void)
{
	return poll(&(struct pollfd){fd, POLLIN, 0}, 1, limit_ms());
}

static ssize_t do_ppoll(void)
{
	return ppoll(&(struct pollfd){fd, POLLIN, 0}, 1, limit, mask);
}

static ssize_t do_select(void)
{
	struct timeval tv = {limit ? limit->tv_sec : 0, 0};
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	return select(fd + 1, &r, NULL, NULL, limit ? &tv : NULL);
}

static ssize_t do_pselect(void)
{
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	return pselect(fd + 1, &r, NULL, NULL, limit, mask);
}

static ssize_t do_epoll_wait(void)
{
	struct epoll_event ev;

	return epoll_wait(ep, &ev, 1, limit_ms());
}

static ssize_t do_epoll_pwait(void)
{
	struct epoll_event ev;

	return epoll_pwait(ep, &ev, 1, limit_ms(), mask);
}

static ssize_t do_epoll_pwait2(void)
{
	struct epoll_event ev;

	return epoll_pwait2(ep, &ev, 1, limit, mask);
}

struct call {
	const char *name;
	ssize_t (*run)(void);
};

static const struct call receiving[] = {
	{"read", do_read},	   {"readv", do_readv},
	{"recv", do_recv},	   {"recvfrom", do_recvfrom},
	{"recvmsg", do_recvmsg},   {"waitall", do_waitall},
	{"peek", do_peek},
};

static const struct call sending[] = {
	{"write", do_write},	   {"writev", do_writev},
	{"send", do_send},	   {"sendto", do_sendto},
	{"sendmsg", do_sendmsg},   {"sendfile", do_sendfile},
};

static const struct call waiting[] = {
	{"poll", do_poll},		{"select", do_select},
	{"epoll_wait", do_epoll_wait},	{"ppoll", do_ppoll},
	{"pselect", do_pselect},	{"epoll_pwait", do_epoll_pwait},
	{"epoll_pwait2", do_epoll_pwait2},
};
#define WITH_MASK 3	/* from here on */

static int made[8], made_count;

static ssize_t do_accept(void)
{
	int s = accept(listener, NULL, NULL);

	if (s >= 0)
		made[made_count++] = s;
	return s < 0 ? -1 : 0;
}

static ssize_t do_accept4(void)
{
	int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (s >= 0)
		made[made_count++] = s;
	return s < 0 ? -1 : 0;
}

static const struct call accepting[] = {
	{"accept", do_accept},
	{"accept4", do_accept4},
};

static void dial_once(void)
{
	order('c');
}

/* The listener's queue is full: the handshake begins when there is room again. */
static int late;

static ssize_t do_connect(void)
{
	return connect(late, (struct sockaddr *)&peer_addr, peer_len);
}

static const struct call connecting = {"connect", do_connect};

static void *serve_one(void *arg)
{
	warm_up((int)(intptr_t)arg, false);
	close((int)(intptr_t)arg);
	return NULL;
}

static void connect_server(int lfd)
{
	pthread_t t[3];
	char c;

	ctl = answer(lfd);
	warm_up(ctl, false);
	if (listen(lfd, 0))
		die("listen");
	send_go(ctl);
	if (take(ctl, &c, 1) != 1)
		die("ctl");
	for (int i = 0; i < 3; i++)
		t[i] = start(serve_one, (void *)(intptr_t)answer(lfd));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	say_result("end", recv(ctl, big, 1, 0));
	close(ctl);
}

#endif
