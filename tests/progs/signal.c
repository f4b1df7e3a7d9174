/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signal.c - signal handlers: what they interrupt, what they do on streams. */
#include "handler.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

static char big[65536];

/* ---------------------------------------------- EINTR and SA_RESTART */

static void restart_server(int lfd)
{
	struct timeval tv = {5, 0}, none = {0, 0};
	struct epoll_event ev = {.events = EPOLLIN};
	struct timespec t = {5, 0};
	int fd = answer(lfd), ctl = answer(lfd), ep = epoll_create1(0);
	struct pollfd p = {fd, POLLIN, 0};
	fd_set r;

	warm_up(fd, false);
	warm_up(ctl, false);
	handle(SIGUSR1, count, SA_RESTART);
	handle(SIGUSR2, count, 0);
	expect(SIGUSR1, 0, ctl);
	came("restarted", recv(fd, big, 10, 0));
	expect(SIGUSR2, 0, -1);
	came("interrupted", recv(fd, big, 10, 0));
	expect(SIGUSR1, SIGUSR2, -1);
	came("both", recv(fd, big, 10, 0));
	expect(SIGUSR1, 0, ctl);
	came("read", read(fd, big, 10));
	expect(SIGUSR1, SIGUSR1, ctl);
	came("waitall", recv(fd, big, 1, MSG_WAITALL));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	expect(SIGUSR1, 0, -1);
	came("timed", recv(fd, big, 10, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	expect(SIGUSR1, 0, -1);
	came("poll", poll(&p, 1, -1));
	expect(SIGUSR1, 0, -1);
	came("timed poll", poll(&p, 1, 5000));
	expect(SIGUSR1, 0, -1);
	came("ppoll", ppoll(&p, 1, &t, NULL));
	FD_ZERO(&r);
	FD_SET(fd, &r);
	expect(SIGUSR1, 0, -1);
	came("select", select(fd + 1, &r, NULL, NULL, &tv));
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	expect(SIGUSR1, 0, -1);
	came("epoll_wait", epoll_wait(ep, &ev, 1, -1));
	expect(SIGUSR1, 0, -1);
	came("timed epoll_wait", epoll_wait(ep, &ev, 1, 5000));
	expect(SIGUSR2, 0, -1);
	came("epoll_pwait", epoll_pwait(ep, &ev, 1, 5000, NULL));
	close(ep);
	fill_up(fd);
	expect(SIGUSR2, 0, -1);
	came("send", send(fd, big, 1, 0));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	fill_up(fd);
	expect(SIGUSR1, 0, -1);
	came("timed send", send(fd, big, 1, 0));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	fill_up(fd);
	expect(SIGUSR1, 0, ctl);
	came("send", send(fd, big, 1, 0));
	close(fd);
	close(ctl);
}

static void restart_client(void)
{
	int fd = dial(), ctl = dial();
	struct data d = DATA(0);

	warm_up(fd, true);
	warm_up(ctl, true);
	for (int i = 0; i < 3; i++) {
		await_go(ctl);
		put(fd, "x", 1);
	}
	await_go(ctl);
	take_rest(fd, &d);
	close(fd);
	close(ctl);
}

/* A recv of no byte sleeps once, and has done so whatever ends it. */
static void restart_none_server(int lfd)
{
	struct timeval tv = {5, 0}, soon = {0, 50000}, less = {-1, 0}, none = {0, 0};
	int fd = answer(lfd), ctl = answer(lfd);

	warm_up(fd, false);
	warm_up(ctl, false);
	handle(SIGUSR1, count, SA_RESTART);
	handle(SIGUSR2, count, 0);
	expect(SIGUSR2, 0, -1);
	came("interrupted", recv(fd, big, 0, 0));
	expect(SIGUSR1, SIGUSR2, -1);
	came("both", read(fd, big, 0) ? -1 : recv(fd, big, 0, 0));
	expect(SIGUSR1, 0, ctl);
	came("restarted", recv(fd, big, 0, 0));
	await_go(fd);
	expect(SIGUSR1, SIGUSR1, ctl);
	came("waitall", recv(fd, big, 0, MSG_WAITALL));
	await_go(fd);
	expect(SIGUSR2, 0, -1);
	came("peek", recv(fd, big, 0, MSG_PEEK));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	expect(SIGUSR1, 0, -1);
	came("timed", recv(fd, big, 0, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	say_result("too long", recv(fd, big, 0, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &less, sizeof(less));
	say_result("no time", recv(fd, big, 0, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	expect(0, 0, ctl);
	came("reset", recv(fd, big, 0, 0));
	say_result("again", recv(fd, big, 0, 0));
	close(fd);
	close(ctl);
}

static void restart_none_client(void)
{
	int fd = dial(), ctl = dial();

	warm_up(fd, true);
	warm_up(ctl, true);
	for (int i = 0; i < 2; i++) {
		await_go(ctl);
		send_go(fd);
	}
	await_go(ctl);
	close_by_reset(fd);
	close(ctl);
}

/* ----------------------------------------- streams in handlers */

/*
 * Main and handler send on one stream, each bytes of its own kind, so that the
 * peer can tell whether either's came in order; both receive what the peer sends,
 * and the sums must be right.
 */
#define MAIN_BYTES 1500000
#define HANDLER_BYTES 20000
#define PEER_BYTES 1500000

static int storm_fd, other_fd;
static volatile size_t handler_sent, handler_got, handler_sum, handler_runs;

static void every_us(int us)
{
	struct itimerval t = {{0, us}, {0, us}};

	setitimer(ITIMER_REAL, &t, NULL);
}

static size_t sum_of(const unsigned char *buf, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += buf[i];
	return sum;
}

static void storm_handler(int sig)
{
	unsigned char buf[32];
	struct pollfd p = {storm_fd, POLLIN | POLLOUT, 0};
	size_t n = HANDLER_BYTES - handler_sent;
	int err = errno;
	ssize_t k;

	(void)sig;
	handler_runs++;
	n = n < 7 ? n : 7;
	number(buf, handler_sent, n, true);
	k = send(storm_fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (k > 0)
		handler_sent += (size_t)k;
	k = recv(storm_fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (k > 0) {
		handler_got += (size_t)k;
		handler_sum += sum_of(buf, (size_t)k);
	}
	if (poll(&p, 1, 0) < 0 && errno != EINTR)
		handler_runs = 0;
	if (other_fd >= 0) {
		k = recv(other_fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (k > 0 && send(other_fd, buf, (size_t)k, MSG_NOSIGNAL) != k)
			handler_runs = 0;
	}
	errno = err;
}

static bool again(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* A little in, a little out. */
static void storm_loop(int fd, bool blocking)
{
	unsigned char buf[100];
	size_t sent = 0, got = 0, sum = 0, n;
	struct pollfd p = {fd, POLLIN | POLLOUT, 0};
	ssize_t k;

	while (sent < MAIN_BYTES || got + handler_got < PEER_BYTES) {
		n = MAIN_BYTES - sent;
		n = n < sizeof(buf) ? n : sizeof(buf);
		number(buf, sent, n, false);
		k = n ? send(fd, buf, n, 0) : 0;
		if (k < 0 && !again(k))
			die("send");
		sent += k > 0 ? (size_t)k : 0;
		/* The handler may take the last of it: it comes again. */
		k = got + handler_got < PEER_BYTES ?
			    recv(fd, buf, sizeof(buf) - 3, 0) : 0;
		if (k < 0 && !again(k))
			die("recv");
		sum += k > 0 ? sum_of(buf, (size_t)k) : 0;
		got += k > 0 ? (size_t)k : 0;
		p.events = (short)((sent < MAIN_BYTES ? POLLOUT : 0) | POLLIN);
		if (!blocking && poll(&p, 1, 100) < 0 && errno != EINTR)
			die("poll");
	}
	every_us(0);
	while (handler_sent < HANDLER_BYTES)
		storm_handler(0);
	say("got %zu bytes, sum %zu", got + handler_got, sum + handler_sum);
	say("the handler ran %s", handler_runs > 100 ? "often" : "seldom");
}

static void storm(int lfd, bool blocking, bool other)
{
	int fd = storm_fd = answer(lfd);

	if (!blocking)	/* the others' way may change under the handler */
		warm_up(fd, false);
	else		/* policy wait: the link comes first */
		await_go(fd);
	other_fd = other ? answer(lfd) : -1;
	if (other)
		warm_up(other_fd, false);
	handle(SIGALRM, storm_handler, 0);
	if (!blocking)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	every_us(200);
	storm_loop(fd, blocking);
	close(fd);
	if (other)
		close(other_fd);
}

static void storm_server(int lfd)
{
	storm(lfd, true, false);
}

static void storm_nonblock_server(int lfd)
{
	storm(lfd, false, false);
}

static void storm_other_server(int lfd)
{
	storm(lfd, true, true);
}

static void *feed(void *arg)
{
	unsigned char buf[120];
	size_t sent = 0, n;

	while (sent < PEER_BYTES) {
		n = PEER_BYTES - sent;
		n = n < sizeof(buf) ? n : sizeof(buf);
		number(buf, sent, n, false);
		put(*(int *)arg, buf, n);
		sent += n;
	}
	return NULL;
}

static volatile bool over;

static void *ping(void *arg)
{
	int fd = *(int *)arg, n = 0;
	char out[20], in[20];

	for (; !over; n++) {
		memset(out, 'a' + n % 26, sizeof(out));
		/* Closed, or reset, as the last one was under way. */
		if (send(fd, out, sizeof(out), MSG_NOSIGNAL) <= 0 ||
		    recv(fd, in, sizeof(in), MSG_WAITALL) < (ssize_t)sizeof(in))
			break;
		if (memcmp(in, out, sizeof(in)))
			say("the handler's answer is another");
	}
	return NULL;
}

static void storm_client_with(bool blocking, bool other)
{
	int fd = dial(), second = other ? dial() : -1;
	unsigned char buf[4096];
	size_t got[2] = {0, 0};
	pthread_t t, u = 0;
	ssize_t n;

	if (!blocking)
		warm_up(fd, true);
	else
		send_go(fd);
	if (other)
		warm_up(second, true);
	t = start(feed, &fd);
	if (other)
		u = start(ping, &second);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			bool handler = buf[i] >= 128;

			if ((buf[i] & 127) != got[handler]++ % 127) {
				say("byte %zd is out of order", i);
				exit(1);
			}
		}
	}
	say_result("end", n);
	say("main's %zu, handler's %zu", got[0], got[1]);
	pthread_join(t, NULL);
	over = true;
	if (other) {
		shutdown(second, SHUT_RDWR);
		pthread_join(u, NULL);
		close(second);
	}
	close(fd);
}

static void storm_client(void)
{
	storm_client_with(true, false);
}

static void storm_nonblock_client(void)
{
	storm_client_with(false, false);
}

static void storm_other_client(void)
{
	storm_client_with(true, true);
}

/* ------------------------------------------------- SIGCHLD under load */

/* What a server does with them: a byte into a pipe, and SA_RESTART. */
#define ECHO_BYTES (16u << 20)
#define ECHO_PIECE 32768u

static int self_pipe[2];
static volatile sig_atomic_t children;

static void on_child(int sig)
{
	int err = errno;

	(void)sig;
	children++;
	(void)!write(self_pipe[1], "c", 1);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = err;
}

static void *children_end(void *arg)
{
	sigset_t block;

	(void)arg;
	sigemptyset(&block);
	sigaddset(&block, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	while (!over) {
		kill(getpid(), SIGCHLD);
		usleep(30);
	}
	return NULL;
}

static void sigchld_server(int lfd)
{
	int fd = answer(lfd);
	size_t n, at;
	ssize_t k;
	pthread_t t;
	char c[64];

	if (pipe2(self_pipe, O_NONBLOCK))
		die("pipe2");
	handle(SIGCHLD, on_child, SA_RESTART | SA_NOCLDSTOP);
	t = start(children_end, NULL);
	for (size_t done = 0; done < ECHO_BYTES; done += ECHO_PIECE) {
		for (at = 0; at < ECHO_PIECE; at += (size_t)k) {
			n = 1 + (done + at) % 5000;
			n = n < ECHO_PIECE - at ? n : ECHO_PIECE - at;
			k = recv(fd, big + at, n, MSG_WAITALL);
			if (k <= 0)
				die("recv");
		}
		put(fd, big, ECHO_PIECE);
		while (read(self_pipe[0], c, sizeof(c)) > 0)
			;
	}
	over = true;
	pthread_join(t, NULL);
	say("SIGCHLD %s", children > 100 ? "often" : "seldom");
	close(fd);
}

static void sigchld_client(void)
{
	struct data out = DATA(11), in = DATA(0);
	int fd = dial();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	while (out.bytes < ECHO_BYTES) {
		put_data(fd, &out, ECHO_PIECE, ECHO_PIECE);
		take_data(fd, &in, ECHO_PIECE, ECHO_PIECE);
	}
	say_data("sent", &out);
	say_data("got", &in);
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"restart", restart_server, restart_client},
	{"restart-none", restart_none_server, restart_none_client},
	{"storm", storm_server, storm_client},
	{"storm-nonblock", storm_nonblock_server, storm_nonblock_client},
	{"storm-other", storm_other_server, storm_other_client},
	{"sigchld", sigchld_server, sigchld_client},
	{0},
};
