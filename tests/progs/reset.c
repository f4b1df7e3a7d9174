/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* reset.c - how streams end that nobody closed in order: resets, kills, SIGPIPE. */
#include "case.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include <pthread.h>

static char buf[1 << 17];

/* The reader of what a peer leaves behind. */
static void say_end(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};

	/* The kernel sets a reset's error a moment before the hang-up. */
	do {
		if (poll(&p, 1, 10000) != 1)
			die("poll");
	} while ((p.revents & POLLERR) && !(p.revents & POLLHUP));
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
	int fd = answer_warm(lfd);

	send_go(fd);
	await_readable(fd, 1000);
	say_result("recv", recv(fd, buf, 10, 0));
	say_result("close", close(fd));
}

static void unread_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, buf, 1000);
	say_end(fd);
}

/* The unread bytes came by TCP before there was a link. */
static void unread_before_server(int lfd)
{
	int fd = answer(lfd);

	put(fd, buf, 500);
	await_go(fd);
	say_end(fd);
}

static void unread_before_client(void)
{
	int fd = dial();

	await_readable(fd, 500);
	send_go(fd);
	say_result("close", close(fd));
}

/* SO_LINGER of no time while a tail is held back: nothing may send it any more. */
static void linger0_held_server(int lfd)
{
	struct linger l = {1, 0};
	int fd = answer_warm(lfd);

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	say_result("more", send(fd, "tail", 4, MSG_MORE));
	nap(195); /* TCP holds it for 200 ms */
	say_result("close", close(fd));
	nap(100);
}

static void linger0_held_client(void)
{
	int fd = dial_warm();

	nap(400);
	close(fd);
}

/* Writing to a peer that has gone: the first write is answered by a reset. */
static void gone_server(int lfd)
{
	int fd = answer_warm(lfd);

	close(fd);
	say("closed");
}

static void gone(int fd, int flags)
{
	uint64_t end = 0;

	warm_up(fd, true);
	say_result("end", recv(fd, buf, 100, 0));
	/* The first sends may be taken: nobody knows yet. */
	while (send(fd, buf, 100, flags) >= 0)
		if (!patient(&end))
			die("patience");
	say_result("send", -1);
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
	struct sigaction sa = {.sa_handler = count_pipe, .sa_flags = SA_RESTART};

	sigaction(SIGPIPE, &sa, NULL);
	gone(fd, 0);
	say("signals: %d", pipes);
	say_result("MSG_NOSIGNAL", send(fd, buf, 1, MSG_NOSIGNAL));
	say("signals: %d", pipes);
	signal(SIGPIPE, SIG_IGN);
	say_result("ignored", write(fd, buf, 1));
	signal(SIGPIPE, SIG_DFL);
	say_result("never seen", write(fd, buf, 1));
}

/* After its own end, where no peer needs to be asked. */
static void sigpipe_shut_client(void)
{
	struct sigaction sa = {.sa_handler = count_pipe, .sa_flags = SA_RESTART};
	int fd = dial();

	sigaction(SIGPIPE, &sa, NULL);
	warm_up(fd, true);
	shutdown(fd, SHUT_WR);
	say_result("send", send(fd, buf, 1, 0));
	say("signals: %d", pipes);
	close(fd);
}

/* Every call that sends, a little and much. */
static ssize_t send_by(int how, int fd, int file)
{
	static char big[1 << 20];
	struct iovec iov[2] = {{buf, 10}, {big, how % 2 ? sizeof(big) : 1}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	off_t at = 0;

	switch (how / 2) {
	case 0:
		return write(fd, iov[1].iov_base, iov[1].iov_len);
	case 1:
		return writev(fd, iov, 2);
	case 2:
		return sendto(fd, iov[1].iov_base, iov[1].iov_len, 0, NULL, 0);
	case 3:
		return sendmsg(fd, &m, 0);
	default:
		return sendfile(fd, file, &at, iov[1].iov_len);
	}
}

static void sigpipe_calls_client(void)
{
	struct sigaction sa = {.sa_handler = count_pipe, .sa_flags = SA_RESTART};
	int fd = dial(), file = memfd_create("zeros", MFD_CLOEXEC);
	sigset_t block, pending;

	if (ftruncate(file, 1 << 20))
		die("ftruncate");
	sigaction(SIGPIPE, &sa, NULL);
	sigemptyset(&block);
	sigaddset(&block, SIGPIPE);
	warm_up(fd, true);
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 10; i++) {
		say_result("send", send_by(i, fd, file));
		say("%d: signals %d", i, pipes);
	}
	for (int i = 0; i < 10; i++) {
		sigprocmask(SIG_BLOCK, &block, NULL);
		send_by(i, fd, file);
		say_result("blocked", send_by(i, fd, file));
		sigpending(&pending);
		say("%d: pending %d, signals %d", i,
		    sigismember(&pending, SIGPIPE), pipes);
		sigprocmask(SIG_UNBLOCK, &block, NULL);
		say("then %d", pipes);
	}
	close(file);
	close(fd);
}

/* Asleep in a long write when the peer goes: what was sent is the result, the next
 * call has the error, and only the one after that the signal. */
static void sigpipe_cut_client(void)
{
	struct sigaction sa = {.sa_handler = count_pipe, .sa_flags = SA_RESTART};
	size_t size = 64 << 20;
	char *much = calloc(1, size);
	struct iovec iov[2] = {{much, size / 2}, {much, size / 2}};
	int fd = dial();

	sigaction(SIGPIPE, &sa, NULL);
	warm_up(fd, true);
	say("sent %s", writev(fd, iov, 2) > 1000 ? "some" : "none");
	say("signals: %d", pipes);
	say_result("then", write(fd, buf, 1));
	say("signals: %d", pipes);
	say_result("at last", write(fd, buf, 1));
	say("signals: %d", pipes);
	close(fd);
	free(much);
}

static void sigpipe_cut_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_readable(fd, 1);
	await_peer_asleep();	/* all is full */
	close(fd);
}

/* Killed: no exit handler, no close. */
static void killed_reader_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct data d = DATA(0);

	take_data(fd, &d, 500000, 10000);
	kill(getpid(), SIGKILL);
}

static void killed_reader_client(void)
{
	int fd = dial_warm(), failed = 0;

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
	int fd = answer_warm(lfd);
	struct data d = DATA(52);

	put_data(fd, &d, 3000000, 10000);
	kill(getpid(), SIGKILL);
}

static void killed_writer_client(void)
{
	int fd = dial_warm();
	struct data want = DATA(52);
	size_t got = 0;
	bool same = true;
	ssize_t n;

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

/* Killed at any moment ($KILL_US after connecting, or by $KILL_BYTES sent), both directions
 * in use. */
static uint64_t kill_at = UINT64_MAX;

static void *write_on(void *arg)
{
	static char out[5000];
	struct data d = DATA(53);
	int fd = *(int *)arg;

	do {
		if (d.bytes >= kill_at)
			kill(getpid(), SIGKILL);
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
		n += strstr(line, "memfd:sockrail ") != NULL;
	if (f)
		fclose(f);
	return n;
}

static void killed_any_server(int lfd)
{
	uint64_t end = 0;
	int fd = answer(lfd);
	pthread_t t;

	if (pthread_create(&t, NULL, write_on, &fd))
		die("pthread_create");
	say("%s", read_on(fd) ? "a beginning, and its end" : "WRONG");
	pthread_join(t, NULL);
	close(fd);
	while (shared_lines() && patient(&end))
		;
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
	char *us = getenv("KILL_US"), *bytes = getenv("KILL_BYTES");
	int fd = dial();
	pthread_t t;

	if (bytes)
		kill_at = strtoull(bytes, NULL, 10);
	else if (!us)
		us = "10000";
	if ((us && pthread_create(&t, NULL, kill_soon, us)) ||
	    pthread_create(&t, NULL, write_on, &fd))
		die("pthread_create");
	read_on(fd);
	pause();
}

/* Killed while the peer waits for an answer. */
static void killed_idle_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_go(fd);
	await_peer_asleep();
	kill(getpid(), SIGKILL);
}

static void killed_idle_client(void)
{
	int fd = dial_warm();
	ssize_t n;

	send_go(fd);
	n = recv(fd, buf, 1, 0);
	say("%s", !n || (n < 0 && errno == ECONNRESET) ? "ended" : "NOT ENDED");
	close(fd);
}

/* Reset while the program sleeps in recv. */
static void reset_sleeper_client(void)
{
	int fd = dial_warm();

	send_go(fd);
	say_result("recv", recv(fd, buf, 1, 0));
	say_result("again", recv(fd, buf, 1, 0));
	close(fd);
}

static void reset_sleeper_server(int lfd)
{
	struct linger l = {1, 0};
	int fd = answer_warm(lfd);

	await_go(fd);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	await_peer_asleep();
	close(fd);
	say("closed");
}

/* Reset with bytes unread: it shows at once, the bytes can still be read. */
static void reset_unread_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_go(fd);
	put(fd, "unread", 6);
	nap(100);
	close_by_reset(fd);
}

static void reset_unread(bool ask)
{
	int fd = dial_warm(), ep = epoll_create1(0);
	struct epoll_event ev = {EPOLLRDHUP, {0}};
	struct pollfd p = {fd, POLLRDHUP, 0};

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

/*
 * The end by a reset, which has come: what each call says of it, in several orders.
 * An error is returned once, by whichever call comes first.
 */
static const char *const orders[] = {"prpspe", "psprpe", "peprps", "pkkre",
				     "pdedrs", "pwrwe",  "pvsre"};

static void say_in_order(int fd, const char *order)
{
	struct iovec two[2] = {{buf, 10}, {buf, 10}};
	struct pollfd p = {fd, 0, 0};

	say("order %s", order);
	for (; *order; order++)
		switch (*order) {
		case 'p':
			/*
			 * The first one waits for the reset.  For a moment the
			 * kernel shows the error and not yet the end.
			 */
			p.events = 0;
			do {
				if (poll(&p, 1, 10000) != 1)
					die("poll");
			} while (!(p.revents & POLLHUP));
			p.events = POLLIN | POLLOUT | POLLRDHUP;
			poll(&p, 1, 0);
			say("poll %x", (unsigned)p.revents);
			break;
		case 'e':
			say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
			break;
		case 'r':
			say_result("recv", recv(fd, buf, 100, 0));
			break;
		case 'k':
			say_result("peek", recv(fd, buf, 100, MSG_PEEK));
			break;
		case 'v':
			say_result("readv", readv(fd, two, 2));
			break;
		case 's':
			say_result("send", send(fd, buf, 100, MSG_NOSIGNAL));
			break;
		case 'w':
			say_result("send 0", send(fd, buf, 0, MSG_NOSIGNAL));
			break;
		case 'd':
			say_result("shutdown", shutdown(fd, SHUT_RDWR));
			break;
		}
}

enum { UNREAD, UNREAD_SHUT, BACK_ON_TCP, NOTHING, LEFT };

/* With bytes unread, these after shutdown(SHUT_RD), after a return to TCP, and with nothing. */
static void reset_order_server(int lfd)
{
	for (size_t i = 0; i < LEFT * COUNT(orders); i++) {
		int fd = answer_warm(lfd);

		if (i % LEFT == BACK_ON_TCP)	/* no link serves this flag */
			(void)!recv(fd, buf, 1, MSG_TRUNC | MSG_PEEK | MSG_DONTWAIT);
		else if (i % LEFT != NOTHING)
			put(fd, "unread", 6);
		await_go(fd);
		close_by_reset(fd);
	}
}

static void reset_order_client(void)
{
	for (size_t i = 0; i < LEFT * COUNT(orders); i++) {
		int fd = dial_warm();

		if (i % LEFT <= UNREAD_SHUT)
			await_readable(fd, 6);
		if (i % LEFT == UNREAD_SHUT)
			shutdown(fd, SHUT_RD);
		send_go(fd);
		say_in_order(fd, orders[i / LEFT]);
		close(fd);
	}
}

/* A reset behind the peer's end, and all of it unread. */
static void end_reset_server(int lfd)
{
	int fd = answer(lfd), ctl = answer(lfd);

	warm_up(fd, false);
	put(fd, buf, 1000);
	shutdown(fd, SHUT_WR);
	await_go(ctl);
	say_result("close", close_by_reset(fd));
	say_result("end", recv(ctl, buf, 1, 0));
	close(ctl);
}

static void end_reset_client(void)
{
	int fd = dial(), ctl = dial();
	struct pollfd p = {fd, POLLRDHUP, 0};

	warm_up(fd, true);
	await_readable(fd, 1000);
	poll(&p, 1, -1);
	say("poll %x", p.revents);
	send_go(ctl);
	p.events = 0;
	do /* (the kernel reports the error first) */
		poll(&p, 1, -1);
	while (!(p.revents & POLLHUP));
	say("poll %x", p.revents);
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	say_result("send", send(fd, buf, 1, MSG_NOSIGNAL));
	say("got %zu", take(fd, buf, sizeof(buf)));
	say_end(fd);
	close(ctl);
}

const struct tcp_case cases[] = {
	{"end-reset", end_reset_server, end_reset_client},
	{"unread", unread_server, unread_client},
	{"unread-before", unread_before_server, unread_before_client},
	{"linger0-held", linger0_held_server, linger0_held_client},
	{"gone", gone_server, gone_client},
	{"sigpipe", gone_server, sigpipe_client},
	{"sigpipe-shut", gone_server, sigpipe_shut_client},
	{"sigpipe-calls", gone_server, sigpipe_calls_client},
	{"sigpipe-cut", sigpipe_cut_server, sigpipe_cut_client},
	{"killed-reader", killed_reader_server, killed_reader_client},
	{"killed-writer", killed_writer_server, killed_writer_client},
	{"killed-any", killed_any_server, killed_any_client},
	{"killed-idle", killed_idle_server, killed_idle_client},
	{"reset-unread", reset_unread_server, reset_unread_client},
	{"reset-order", reset_order_server, reset_order_client},
	{"reset-asked", reset_unread_server, reset_asked_client},
	{"reset-sleeper", reset_sleeper_server, reset_sleeper_client},
	{0},
};
