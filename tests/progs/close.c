/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* close.c - how streams end: in order, by reset, by a kill, at exit. */
#include "case.h"

#include <sys/epoll.h>

#include <pthread.h>

static char buf[1 << 17];

/* The reader of what a peer leaves behind. */
static void say_end(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};

	if (poll(&p, 1, 10000) != 1)
		die("poll");
	say("HUP %d ERR %d", !!(p.revents & POLLHUP), !!(p.revents & POLLERR));
	say_result("recv", recv(fd, buf, 100, 0));
	say_result("again", recv(fd, buf, 100, 0));
	say_result("send", send(fd, buf, 100, MSG_NOSIGNAL));
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	say_result("shutdown", shutdown(fd, SHUT_RDWR));
	say_result("close", close(fd));
}

/* Closed with unread bytes: a reset. */
static void unread_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	send_go(fd);
	await_readable(fd, 1000);
	say_result("recv", recv(fd, buf, 10, 0));
	say_result("close", close(fd));
}

static void unread_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	await_go(fd);
	put(fd, buf, 1000);
	say_end(fd);
}

/* SO_LINGER with no time: a reset, too. */
static void linger0_server(int lfd)
{
	struct linger l = {1, 0};
	int fd = answer(lfd);

	warm_up(fd, false);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	say_result("close", close(fd));
}

static void linger0_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	say_end(fd);
}

/* The same while a tail is held back: nobody may look after it any more. */
static void linger0_held_server(int lfd)
{
	struct linger l = {1, 0};
	int fd = answer(lfd);

	warm_up(fd, false);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	say_result("more", send(fd, "tail", 4, MSG_MORE));
	nap(195); /* TCP holds it for 200 ms */
	say_result("close", close(fd));
	nap(100);
}

static void linger0_held_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	nap(400);
	close(fd);
}

/* SO_LINGER with time: close waits for the peer, and all bytes arrive. */
static void linger_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	warm_up(fd, false);
	send_go(fd);
	nap(200);
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void linger_client(void)
{
	struct linger l = {1, 20};
	int fd = dial();
	struct data d = DATA(51);
	socklen_t len = sizeof(l);

	warm_up(fd, true);
	await_go(fd);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	l.l_onoff = l.l_linger = 9;
	getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len);
	say("linger %d %d", l.l_onoff, l.l_linger);
	put_data(fd, &d, 300000, sizeof(buf));
	say_result("close", close(fd));
	say_data("sent", &d);
}

/* Writing to a peer that has gone: the first write is answered by a reset. */
static void gone_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	close(fd);
	say("closed");
}

static void gone(int fd, int flags)
{
	warm_up(fd, true);
	say_result("end", recv(fd, buf, 100, 0));
	/* The first sends may be taken: nobody knows yet. */
	for (int i = 0; i < 200; i++) {
		if (send(fd, buf, 100, flags) < 0) {
			say_result("send", -1);
			break;
		}
		nap(10);
	}
	say_result("send", send(fd, buf, 100, flags));
	say_result("write more", send(fd, buf, sizeof(buf), flags));
	say_result("recv", recv(fd, buf, 100, 0));
}

static void gone_client(void)
{
	gone(dial(), MSG_NOSIGNAL);
}

static volatile sig_atomic_t pipes;

static void count_pipe(int sig)
{
	(void)sig;
	pipes++;
}

static void sigpipe_client(void)
{
	int fd = dial();

	signal(SIGPIPE, count_pipe);
	gone(fd, 0);
	say("signals: %d", pipes);
	say_result("MSG_NOSIGNAL", send(fd, buf, 1, MSG_NOSIGNAL));
	say("signals: %d", pipes);
	signal(SIGPIPE, SIG_IGN);
	say_result("ignored", write(fd, buf, 1));
	signal(SIGPIPE, SIG_DFL);
	say_result("never seen", write(fd, buf, 1));
}

/* Killed: no exit handler, no close. */
static void killed_reader_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	warm_up(fd, false);
	take_data(fd, &d, 500000, 10000);
	kill(getpid(), SIGKILL);
}

static void killed_reader_client(void)
{
	int fd = dial(), failed = 0;

	warm_up(fd, true);
	for (int i = 0; i < 1000 && !failed; i++)
		if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL) < 0)
			failed = errno;
	/* Which of them depends on what was under way. */
	say("%s", failed == ECONNRESET || failed == EPIPE ? "reset"
							  : "NOT RESET");
	close(fd);
}

/* What arrives is a beginning of what was sent, and only all of it may be
 * followed by an end of file. */
static void killed_writer_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(52);

	warm_up(fd, false);
	put_data(fd, &d, 3000000, 10000);
	kill(getpid(), SIGKILL);
}

static void killed_writer_client(void)
{
	int fd = dial();
	struct data want = DATA(52);
	size_t got = 0;
	bool same = true;
	ssize_t n;

	warm_up(fd, true);
	while ((n = recv(fd, buf, 1000, 0)) > 0) {
		char expect[1000];

		data_fill(&want, expect, (size_t)n);
		same = same && !memcmp(buf, expect, (size_t)n);
		got += (size_t)n;
	}
	say("%s", same && got <= 3000000 ? "a beginning" : "WRONG BYTES");
	say("%s", !n || errno == ECONNRESET ? "ended" : strerror(errno));
	if (!n && got < 3000000)
		say("%zu bytes and an end of file", got);
	close(fd);
}

/* Killed at any moment ($KILL_US after connecting), both directions in use. */
static void *write_on(void *arg)
{
	static char out[5000];
	struct data d = DATA(53);
	int fd = *(int *)arg;

	do {
		data_fill(&d, out, sizeof(out));
	} while (send(fd, out, sizeof(out), MSG_NOSIGNAL) > 0);
	return NULL;
}

static bool read_on(int fd)
{
	struct data want = DATA(53);
	bool same = true;
	ssize_t n;

	while ((n = recv(fd, buf, 3000, 0)) > 0) {
		char expect[3000];

		data_fill(&want, expect, (size_t)n);
		same = same && !memcmp(buf, expect, (size_t)n);
	}
	return same && (!n || errno == ECONNRESET);
}

/* Lines of a file of /proc/self that name what Sockrail shares. */
static int shared_lines(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[1000];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:sockrail") != NULL;
	if (f)
		fclose(f);
	return n;
}

static void killed_any_server(int lfd)
{
	int fd = answer(lfd);
	pthread_t t;

	if (pthread_create(&t, NULL, write_on, &fd))
		die("pthread_create");
	say("%s", read_on(fd) ? "a beginning, and its end" : "WRONG");
	pthread_join(t, NULL);
	close(fd);
	for (int i = 0; i < 500 && shared_lines(); i++)
		nap(10);
	say("mapped: %d", shared_lines());
}

static void *kill_soon(void *arg)
{
	usleep((useconds_t)atoi(arg));
	kill(getpid(), SIGKILL);
	return NULL;
}

static void killed_any_client(void)
{
	char *us = getenv("KILL_US");
	int fd = dial();
	pthread_t t;

	if (pthread_create(&t, NULL, kill_soon, us ? us : "10000") ||
	    pthread_create(&t, NULL, write_on, &fd))
		die("pthread_create");
	read_on(fd);
	pause();
}

/* Killed while the peer waits for an answer. */
static void killed_idle_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	await_go(fd);
	nap(30);
	kill(getpid(), SIGKILL);
}

static void killed_idle_client(void)
{
	int fd = dial();
	ssize_t n;

	warm_up(fd, true);
	send_go(fd);
	n = recv(fd, buf, 1, 0);
	say("%s", !n || (n < 0 && errno == ECONNRESET) ? "ended" : "NOT ENDED");
	close(fd);
}

/* shutdown(2) in its three ways */
static void shutdown_server(int lfd)
{
	int fd = answer(lfd);
	struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};

	warm_up(fd, false);
	say_result("rd", shutdown(fd, SHUT_RD));
	say_result("recv", recv(fd, buf, 10, 0));
	say_result("recv", recv(fd, buf, 10, MSG_DONTWAIT));
	poll(&p, 1, 0);
	say("poll %x", p.revents);
	put(fd, "still here", 10);
	say_result("wr", shutdown(fd, SHUT_WR));
	say_result("wr", shutdown(fd, SHUT_WR));
	say_result("send", send(fd, buf, 10, MSG_NOSIGNAL));
	say_result("send 0", send(fd, buf, 0, MSG_NOSIGNAL));
	say_result("bad", shutdown(fd, 77));
	poll(&p, 1, 0);
	say("poll %x", p.revents);
	close(fd);
}

static void shutdown_client(void)
{
	int fd = dial(), lone = new_socket(0);
	char c[20] = "";

	say_result("lone", shutdown(lone, SHUT_WR));
	warm_up(fd, true);
	say_bytes("got", (ssize_t)take(fd, c, sizeof(c)), c);
	nap(150); /* the server asks what it may still do */
	say_result("rdwr", shutdown(fd, SHUT_RDWR));
	say_result("recv", recv(fd, buf, 10, 0));
	say_result("send", send(fd, buf, 10, MSG_NOSIGNAL));
	close(fd);
	close(lone);
}

/* Nothing more to read, long before there is a link. */
static void deaf_server(int lfd)
{
	for (int k = 0; k < 5; k++) {
		int fd = answer(lfd);
		struct data d = DATA(9);

		say_result("rd", shutdown(fd, SHUT_RD));
		for (int i = 0; i < 10; i++) {
			put_data(fd, &d, 10000, 10000);
			nap(4);
		}
		say_data("sent", &d);
		say_result("recv", recv(fd, buf, 10, 0));
		say_result("rd", shutdown(fd, SHUT_RD));
		close(fd);
	}
}

static void deaf_client(void)
{
	for (int k = 0; k < 5; k++) {
		int fd = dial();
		struct data d = DATA(0);

		take_rest(fd, &d);
		say_data("got", &d);
		close(fd);
	}
}

/* The program ends with bytes under way. */
static void slow_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	await_go(fd);
	send_go(fd);
	nap(300);
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static int leave_bytes(void)
{
	int fd = dial(), size = 400000;
	struct data d = DATA(53);

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	send_go(fd);
	await_go(fd);
	put_data(fd, &d, 300000, 60000);
	say_data("sent", &d);
	return fd;
}

static void exit_client(void)
{
	leave_bytes();
	exit(7);
}

static void quick_exit_client(void)
{
	leave_bytes();
	_exit(8);
}

static void close_exit_client(void)
{
	close(leave_bytes());
	exit(9);
}

static void return_client(void)
{
	leave_bytes();
}

/* A descriptor that is closed, or shut down, under a sleeping reader. */
static void *sleeping_read(void *arg)
{
	int fd = *(int *)arg;
	char c = 0;
	ssize_t n = recv(fd, &c, 1, 0);

	return (void *)(intptr_t)(n < 0 ? -errno : n);
}

static void say_sleeper(pthread_t t)
{
	void *n;

	pthread_join(t, &n);
	errno = -(int)(intptr_t)n;
	say_result("sleeper", (intptr_t)n < 0 ? -1 : (intptr_t)n);
}

static void under_server(int lfd)
{
	int fd = answer(lfd), n;

	warm_up(fd, false);
	await_go(fd);
	nap(150);
	n = (int)send(fd, "x", 1, MSG_NOSIGNAL);
	say_result("send", n);
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

/* The kernel keeps the socket until the sleeper returns. */
static void close_under_client(void)
{
	int fd = dial();
	pthread_t t;

	warm_up(fd, true);
	send_go(fd);
	t = start(sleeping_read, &fd);
	nap(50);
	say_result("close", close(fd));
	say_sleeper(t);
}

static void shutdown_under_client(void)
{
	int fd = dial();
	pthread_t t;

	warm_up(fd, true);
	t = start(sleeping_read, &fd);
	nap(50);
	say_result("shutdown", shutdown(fd, SHUT_RD));
	say_sleeper(t);
	send_go(fd);
	shutdown(fd, SHUT_WR);
	nap(250);
	close(fd);
}

/* Reset while the program sleeps in recv. */
static void reset_sleeper_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	send_go(fd);
	say_result("recv", recv(fd, buf, 1, 0));
	say_result("again", recv(fd, buf, 1, 0));
	close(fd);
}

static void reset_sleeper_server(int lfd)
{
	struct linger l = {1, 0};
	int fd = answer(lfd);

	warm_up(fd, false);
	await_go(fd);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	nap(50);
	close(fd);
	say("closed");
}

/* Many streams that are opened and closed and carry nothing. */
static void empty_server(int lfd)
{
	int fd = -1;

	for (int i = 0; i < 20; i++) {
		fd = answer(lfd);
		say_result("recv", recv(fd, buf, 1, 0));
		close(fd);
	}
	fd = answer(lfd);
	await_go(fd);
	close(fd);
}

static void empty_client(void)
{
	int fd;

	for (int i = 0; i < 20; i++) {
		fd = dial();
		if (i & 1)
			shutdown(fd, SHUT_WR);
		close(fd);
	}
	fd = dial();
	send_go(fd);
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

/* Reset with bytes unread: it shows at once, the bytes can still be read. */
static void reset_unread_server(int lfd)
{
	struct linger l = {1, 0};
	int fd = answer(lfd);

	warm_up(fd, false);
	await_go(fd);
	put(fd, "unread", 6);
	nap(100);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(fd);
}

static void reset_unread(bool ask)
{
	int fd = dial(), ep = epoll_create1(0);
	struct epoll_event ev = {EPOLLRDHUP, {0}};
	struct pollfd p = {fd, POLLRDHUP, 0};

	warm_up(fd, true);
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		die("epoll_ctl");
	send_go(fd);
	say_result("epoll", epoll_wait(ep, &ev, 1, 5000));
	say("%x", ev.events);
	say_result("poll", poll(&p, 1, 5000));
	say("%x", (unsigned)p.revents);
	p.events = POLLIN | POLLOUT | POLLRDHUP;
	say_result("poll", poll(&p, 1, 0));
	say("%x", (unsigned)p.revents);
	if (ask)
		say("error %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	say_result("recv", recv(fd, buf, 100, 0));
	say_result("recv", recv(fd, buf, 100, 0));
	say_result("recv", recv(fd, buf, 100, 0));
	close(fd);
}

static void reset_unread_client(void) { reset_unread(false); }
static void reset_asked_client(void) { reset_unread(true); }

static const struct tcp_case cases[] = {
	{"unread", unread_server, unread_client},
	{"linger0", linger0_server, linger0_client},
	{"linger0-held", linger0_held_server, linger0_held_client},
	{"linger", linger_server, linger_client},
	{"gone", gone_server, gone_client},
	{"sigpipe", gone_server, sigpipe_client},
	{"killed-reader", killed_reader_server, killed_reader_client},
	{"killed-writer", killed_writer_server, killed_writer_client},
	{"killed-any", killed_any_server, killed_any_client},
	{"killed-idle", killed_idle_server, killed_idle_client},
	{"shutdown", shutdown_server, shutdown_client},
	{"deaf", deaf_server, deaf_client},
	{"exit", slow_server, exit_client},
	{"quick-exit", slow_server, quick_exit_client},
	{"close-exit", slow_server, close_exit_client},
	{"return", slow_server, return_client},
	{"close-under", under_server, close_under_client},
	{"shutdown-under", under_server, shutdown_under_client},
	{"reset-unread", reset_unread_server, reset_unread_client},
	{"reset-asked", reset_unread_server, reset_asked_client},
	{"reset-sleeper", reset_sleeper_server, reset_sleeper_client},
	{"empty", empty_server, empty_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
