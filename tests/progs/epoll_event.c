/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_event.c - what an epoll set says of a stream: every kind of triggering and of
 * wait, ends, room.
 */
#include "epoll.h"

/* ---- level-triggered ---- */

static void level_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();
	int n;

	add(ep, fd, EPOLLIN | EPOLLRDHUP, 1);
	say_wait("idle", ep, 0);
	order(fd);
	say_wait("message", ep, -1);
	say_wait("again", ep, -1);
	if (take(fd, buf, 40) != 40)
		die("take");
	say_wait("partly read", ep, 100);
	if (take(fd, buf, 60) != 60)
		die("take");
	say_wait("read", ep, 30);
	mod(ep, fd, EPOLLIN | EPOLLOUT, 2);
	say_wait("out", ep, -1);
	order(fd);
	say_wait("both", ep, -1);
	swallow(fd);
	mod(ep, fd, 0, 3);
	send_go(fd);
	say_wait("nothing asked", ep, 50);
	mod(ep, fd, EPOLLIN, 4);
	say_wait("modified", ep, 1000);
	swallow(fd);
	unblock(fd);
	mod(ep, fd, EPOLLOUT, 5);
	memset(buf, 'f', sizeof(buf));
	while ((n = (int)send(fd, buf, sizeof(buf), 0)) > 0)
		;
	say_result("full", n);
	/* The client reads nothing yet. */
	while (epoll_wait(ep, &(struct epoll_event){0}, 1, 20) == 1)
		send(fd, buf, sizeof(buf), 0);
	say_wait("full", ep, 0);
	post("full");
	shutdown(fd, SHUT_RD);
	mod(ep, fd, EPOLLRDHUP, 6);
	say_wait("shut", ep, -1);
	close(fd);
}

static void level_client(void)
{
	int fd = begin_client();
	struct data d = DATA(0);

	for (int i = 0; i < 3; i++) {
		await_go(fd);
		message(fd);
	}
	await_post("full");
	take_rest(fd, &d);
	say("%s", d.bytes > 100000 ? "much" : "little");
	close(fd);
}

/* ---- the end ---- */

static void end_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();

	add(ep, fd, EPOLLIN | EPOLLRDHUP | EPOLLOUT, 1);
	send_go(fd);
	if (take(fd, buf, 1) != 1)
		die("take");
	await_events(fd, POLLRDHUP);
	say_wait("half closed", ep, -1);
	say_result("end", read(fd, buf, 1));
	say_wait("still", ep, -1);
	mod(ep, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, 2);
	say_wait("edge", ep, -1);
	say_wait("no edge", ep, 20);
	shutdown(fd, SHUT_WR);
	await_events(fd, POLLHUP);
	say_wait("both ends", ep, 1000);
	mod(ep, fd, 0, 3);
	say_wait("nothing asked", ep, -1);
	close(fd);
	say_wait("closed", ep, 20);
}

static void end_client(void)
{
	int fd = begin_client();

	await_go(fd);
	send_go(fd);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void reset_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();

	add(ep, fd, EPOLLIN | EPOLLET, 1);
	send_go(fd);
	say_wait("reset", ep, 5000);
	say_result("read", read(fd, buf, 1));
	close(fd);
}

static void reset_client(void)
{
	int fd = begin_client();

	await_go(fd);
	await_peer_asleep();
	close_by_reset(fd);
}

/* Behind the peer's end: who writes learns of the reset, edge-triggered, too. */
static void gone_server(int lfd)
{
	int fd = begin(lfd), go = answer(lfd);

	close(fd);
	send_go(go);
	await_go(go);
	close(go);
}

static void gone_client(void)
{
	int fd = begin_client(), go = dial(), ep[2] = {new_set(), new_set()};
	const uint32_t reset = EPOLLERR | EPOLLHUP;
	struct epoll_event ev = {0};

	await_go(go);
	add(ep[0], fd, EPOLLIN, 1);
	add(ep[1], fd, EPOLLRDHUP | EPOLLET, 2);
	say_wait("end", ep[0], 5000);
	say_wait("end", ep[1], 5000);
	say_result("read", read(fd, buf, 1));
	say_result("send", send(fd, buf, 100, MSG_NOSIGNAL));
	/* Edges that report no more than before may come first.  The kernel sets
	 * the error a moment before the hang-up: a poll between sees one only. */
	while ((ev.events & reset) != reset &&
	       epoll_wait(ep[1], &ev, 1, 5000) == 1)
		;
	say("reset:%s", names(ev.events));
	say_wait("reset", ep[0], 5000);
	send_go(go);
	close(fd);
	close(go);
}

/* ---- edge-triggered ---- */

/* A read of less than was asked for has drained the stream: epoll(7), question 9.
 * While nobody reads, a ring grows. */
static void short_server(int lfd)
{
	int fd = answer(lfd), ep = new_set();
	struct epoll_event ev;
	struct data d = DATA(0);
	ssize_t n;

	unblock(fd);
	add(ep, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
	do {
		if (epoll_wait(ep, &ev, 1, 5000) != 1)
			die("epoll_wait");
		if (d.bytes < 4000000)
			await_peer_asleep();
		do {
			n = recv(fd, buf, sizeof(buf), 0);
			if (n > 0)
				data_sum(&d, buf, (size_t)n);
		} while (n == sizeof(buf));
		if (n < 0 && errno != EAGAIN)
			die("recv");
	} while (n && !(ev.events & EPOLLRDHUP));
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		data_sum(&d, buf, (size_t)n);
	say_data("got", &d);
	close(fd);
}

static void short_client(void)
{
	struct data d = DATA(83);
	int fd = dial();
	size_t left = 6000000;

	while (left) {
		size_t n = left < 30000 ? left : 30000;

		data_fill(&d, buf, n);
		put(fd, buf, n);
		left -= n;
	}
	say_data("sent", &d);
	close(fd);
}

static void edge_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();

	add(ep, fd, EPOLLIN | EPOLLET, 0x77);
	say_wait("idle", ep, 20);
	order(fd);
	say_wait("message", ep, -1);
	say_wait("no edge", ep, 30);
	if (take(fd, buf, 10) != 10)
		die("take");
	say_wait("partly read", ep, 30);
	order(fd);
	say_wait("second", ep, -1);
	say_wait("no edge", ep, 30);
	if (take(fd, buf, 190) != 190)
		die("take");
	say_result("empty", recv(fd, buf, 1, MSG_DONTWAIT));
	say_wait("read", ep, 30);
	order(fd);
	swallow(fd);
	say_wait("read before", ep, 30);
	order(fd);
	say_wait("third", ep, -1);
	mod(ep, fd, EPOLLIN | EPOLLET, 0x78);
	say_wait("modified", ep, -1);
	say_wait("no edge", ep, 30);
	swallow(fd);
	close(fd);
}

/* Room comes back: one edge for it. */
static void edge_out_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();
	struct data d = DATA(51);
	struct epoll_event ev;
	int waits = 0;
	struct pieces p = {.left = 8000000};

	unblock(fd);
	set_int(fd, SOL_SOCKET, SO_SNDBUF, 200000);
	add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 9);
	say_wait("first", ep, -1);
	say_wait("no edge", ep, 30);
	while (p.left || p.have) {
		if (put_next(fd, &d, &p, buf, sizeof(buf)))
			continue;
		if (!waits++)
			post("full");
		if (epoll_wait(ep, &ev, 1, 10000) != 1 ||
		    !(ev.events & EPOLLOUT))
			die("epoll_wait");
	}
	say_data("sent", &d);
	say("%s", waits ? "waited" : "never waited");
	shutdown(fd, SHUT_WR);
	while (read(fd, buf, sizeof(buf)) != 0)
		epoll_wait(ep, &ev, 1, 10000);
	close(fd);
}

static void sink_client(void)
{
	int fd = begin_client();
	struct data d = DATA(0);

	await_post("full");
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

/* ---- one-shot ---- */

static void oneshot_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();

	add(ep, fd, EPOLLIN | EPOLLONESHOT, 1);
	order(fd);
	say_wait("first", ep, -1);
	say_wait("fired", ep, 30);
	swallow(fd);
	order(fd);
	say_wait("still", ep, 30);
	mod(ep, fd, EPOLLIN | EPOLLONESHOT, 2);
	say_wait("second", ep, -1);
	say_wait("fired", ep, 30);
	mod(ep, fd, EPOLLIN | EPOLLONESHOT | EPOLLET, 3);
	say_wait("third", ep, -1);
	mod(ep, fd, EPOLLIN, 4);
	say_wait("not one-shot", ep, -1);
	say_wait("not one-shot", ep, -1);
	mod(ep, fd, EPOLLOUT | EPOLLONESHOT, 5);
	say_wait("out", ep, -1);
	say_wait("fired", ep, 30);
	swallow(fd);
	del(ep, fd);
	add(ep, fd, EPOLLIN | EPOLLONESHOT, 6);
	say_wait("nothing", ep, 30);
	order(fd);
	say_wait("last", ep, -1);
	swallow(fd);
	close(fd);
}

/* ---- kinds of waits, times, signals ---- */

static volatile sig_atomic_t signalled;

static void on_signal(int sig)
{
	signalled = sig;
}

static void *interrupt(void *arg)
{
	await_asleep(getpid(), getpid());
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

static void waits_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();
	struct timespec t = {0, 30500000}, none = {0, 0}, bad = {0, -1};
	struct epoll_event ev;
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t me = pthread_self(), other;
	sigset_t block, open;
	uint64_t begun;

	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&open);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	add(ep, fd, EPOLLIN, 1);
	begun = now_ms();
	say_result("wait", epoll_wait(ep, &ev, 1, 30));
	say_result("pwait", epoll_pwait(ep, &ev, 1, 30, NULL));
	say_result("pwait2", epoll_pwait2(ep, &ev, 1, &t, &open));
	say("waited %d", now_ms() - begun >= 90 && now_ms() - begun < 10000);
	say_result("pwait2", epoll_pwait2(ep, &ev, 1, &none, NULL));
	say_result("pwait2", epoll_pwait2(ep, &ev, 1, &bad, NULL));
	other = start(interrupt, &me);
	say_result("signal", epoll_wait(ep, &ev, 1, -1));
	pthread_join(other, NULL);
	say("signal %d", signalled == SIGUSR1);
	signalled = 0;
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	pthread_kill(me, SIGUSR1);
	say_result("masked", epoll_wait(ep, &ev, 1, 30));
	say("signal %d", signalled);
	say_result("unmasked", epoll_pwait(ep, &ev, 1, -1, &open));
	say("signal %d", signalled == SIGUSR1);
	signalled = 0;
	pthread_kill(me, SIGUSR1);
	say_result("unmasked", epoll_pwait2(ep, &ev, 1, NULL, &open));
	say("signal %d", signalled == SIGUSR1);
	order(fd);
	say_result("pwait", epoll_pwait(ep, &ev, 1, -1, &block));
	say_result("pwait2", epoll_pwait2(ep, &ev, 1, NULL, NULL));
	swallow(fd);
	close(fd);
}

const struct tcp_case cases[] = {
	{"level", level_server, level_client},
	{"end", end_server, end_client},
	{"reset", reset_server, reset_client},
	{"gone", gone_server, gone_client},
	{"short", short_server, short_client},
	{"edge", edge_server, obey_client},
	{"edge-out", edge_out_server, sink_client},
	{"oneshot", oneshot_server, obey_client},
	{"waits", waits_server, obey_client},
	{0},
};
