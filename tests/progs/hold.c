/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hold.c - programs that policy wait must not hold up, as their first send waits for nobody
 * over TCP: two that send to each other before they accept, one thread with both ends, a
 * listener that waits for the client's bytes, a stream that gets no link, one that another
 * process has taken.  And one whose server waits for the listener, which it does hold.
 */
#include "port.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#define ROUNDS 4000	/* so that there is a link before the end */

static void ask_rounds(int fd)
{
	char buf[100] = "ping";

	for (int i = 0; i < ROUNDS; i++) {
		put(fd, buf, sizeof(buf));
		if (take(fd, buf, sizeof(buf)) != sizeof(buf))
			die("ask_rounds");
	}
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* Returns how many bytes it has answered. */
static size_t answer_all(int fd)
{
	char buf[100];
	size_t n, sum = 0;

	while ((n = take(fd, buf, sizeof(buf)))) {
		put(fd, buf, n);
		sum += n;
	}
	close(fd);
	return sum;
}

static void answer_rounds(int fd)
{
	say("answered: %zu", answer_all(fd));
}

static void say_hello(int fd)
{
	put(fd, "hello", 5);
}

static void hear_hello(int fd)
{
	char buf[5];

	say_bytes("heard", (ssize_t)take(fd, buf, sizeof(buf)), buf);
}

static int listen_too(void)
{
	int fd = new_socket(0);
	struct sockaddr_storage at = peer_addr;

	((struct sockaddr_in *)&at)->sin_port = 0;
	if (bind(fd, (struct sockaddr *)&at, peer_len) || listen(fd, 5))
		die("listen_too");
	return fd;
}

/* Later connections go there. */
static void aim(int lfd)
{
	if (getsockname(lfd, (struct sockaddr *)&peer_addr, &peer_len))
		die("getsockname");
}

/* ---- two connect to each other ---- */

static void *answer_in_thread(void *fd)
{
	return (void *)answer_all(*(int *)fd);
}

/* Each sends first and accepts then; both streams go on at once. */
static void cross(int lfd)
{
	pthread_t other;
	void *answered;
	int fd = dial(), in;

	say_hello(fd);
	in = answer(lfd);
	hear_hello(in);
	other = start(answer_in_thread, &in);
	ask_rounds(fd);
	pthread_join(other, &answered);
	say("answered: %zu", (size_t)answered);
}

static void cross_server(int lfd)
{
	take_port();
	cross(lfd);
}

static void cross_client(void)
{
	int lfd = listen_too();

	post_port(lfd);
	cross(lfd);
}

/* ---- one thread has both ends ---- */

static void nothing_server(int lfd)
{
	close(lfd);
}

static void both_rounds(int a, int b)
{
	char buf[100] = "ping";

	for (int i = 0; i < ROUNDS; i++) {
		put(a, buf, sizeof(buf));
		take(b, buf, sizeof(buf));
		put(b, buf, sizeof(buf));
		take(a, buf, sizeof(buf));
	}
	say("rounds: %d", ROUNDS);
	close(a);
	close(b);
}

static void both_client(void)
{
	int lfd = listen_too(), a, b;

	aim(lfd);
	a = dial();
	say_hello(a);
	b = answer(lfd);
	hear_hello(b);
	both_rounds(a, b);
	a = dial();
	b = answer(lfd);
	say_hello(a);	/* it has accepted the other end, but cannot read it now */
	hear_hello(b);
	both_rounds(a, b);
}

/* ---- the kernel accepts when bytes have come ---- */

static void defer_server(int lfd)
{
	int fd;

	set_int(lfd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 50);
	post("defers");
	fd = answer(lfd);
	hear_hello(fd);
	answer_rounds(fd);
}

static void hello_client(void)
{
	int fd = dial();

	say_hello(fd);
	ask_rounds(fd);
}

static void defer_client(void)
{
	await_post("defers");
	hello_client();
}

/* ---- a stream that gets no link ---- */

#define MANY 20

static void late_server(int lfd)
{
	int fd;

	await_post("sent");
	for (int i = 0; i < MANY; i++) {
		fd = answer(lfd);
		hear_hello(fd);
		await_end(fd);
	}
}

/* It sends at once, while the service thread has yet to look at the stream. */
static void barred_client(void)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLEXCLUSIVE};
	int fd[MANY], ep = epoll_create1(0);

	for (int i = 0; i < MANY; i++) {
		fd[i] = dial();
		if (epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], &ev))
			die("epoll_ctl");
		say_hello(fd[i]);
	}
	post("sent");
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
}

/* ---- a thread waits for the listener ---- */

static bool has_file(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", getenv("HOLD"), name);
	return !access(path, F_OK);
}

static void await_file(void)
{
	uint64_t end = 0;

	while (!has_file("go"))
		if (!patient(&end))
			die("go");
}

static void *ring_when_told(void *efd)
{
	const uint64_t one = 1;

	await_file();
	if (write(*(int *)efd, &one, sizeof(one)) != sizeof(one))
		die("eventfd");
	return NULL;
}

/* It has heard of the connection, and waits on in the same set. */
static void edge_server(int lfd)
{
	struct epoll_event edge = {.events = EPOLLIN | EPOLLET, .data.fd = lfd}, ev;
	int ep = epoll_create1(0), efd = eventfd(0, 0), fd;

	if (epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &edge))
		die("epoll_ctl");
	say_result("listener", epoll_wait(ep, &ev, 1, -1));
	edge.data.fd = efd;
	if (epoll_ctl(ep, EPOLL_CTL_ADD, efd, &edge))
		die("epoll_ctl");
	start(ring_when_told, &efd);
	say_result("told", epoll_wait(ep, &ev, 1, -1));
	fd = answer(lfd);
	hear_hello(fd);
	answer_rounds(fd);
}

static void *in_accept(void *lfd)
{
	say_result("no connection", accept(*(int *)lfd, NULL, NULL));
	return NULL;
}

static void *in_poll(void *lfd)
{
	struct pollfd p = {.fd = *(int *)lfd, .events = POLLIN};

	say_result("no connection", poll(&p, 1, -1));
	return NULL;
}

static void *in_select(void *lfd)
{
	int fd = *(int *)lfd;
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	say_result("no connection", select(fd + 1, &set, NULL, NULL, NULL));
	return NULL;
}

/*
 * A call for the listener of a connection that is there does not wait.  So a thread waits, to
 * the end, for a listener at another address of the port, for which the same is answered.
 */
static void wait_beside(int lfd, void *(*call)(void *))
{
	static int other;
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t len = sizeof(at);

	other = new_socket(0);
	if (getsockname(lfd, (struct sockaddr *)&at, &len))
		die("getsockname");
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	if (bind(other, (struct sockaddr *)&at, sizeof(at)) || listen(other, 5))
		die("listen");
	start_asleep(call, &other);
	post("asleep");
}

static void asleep_server(int lfd, void *(*call)(void *))
{
	int fd;

	wait_beside(lfd, call);
	await_file();
	fd = answer(lfd);
	hear_hello(fd);
	answer_rounds(fd);
}

static void asleep_client(void)
{
	await_post("asleep");
	hello_client();
}

static void accept_server(int lfd)
{
	asleep_server(lfd, in_accept);
}

static void poll_server(int lfd)
{
	asleep_server(lfd, in_poll);
}

static void select_server(int lfd)
{
	asleep_server(lfd, in_select);
}

/* ---- a thread waits for the listener, and another process takes the stream ---- */

/* It makes no call on the stream before "go", and so does not tell the keeper of it. */
static void take_away(int lfd)
{
	int fd = answer(lfd);

	await_file();
	hear_hello(fd);
	answer_all(fd);
	exit(0);
}

static void taken_server(int lfd)
{
	pid_t pid = split();

	if (!pid)
		take_away(lfd);
	wait_beside(lfd, in_accept);
	reap(pid);
}

static void taken_client(void)
{
	char buf[100] = "ping";
	uint64_t end = 0;
	int fd;

	await_post("asleep");
	fd = dial();
	say_hello(fd);
	do {
		put(fd, buf, sizeof(buf));
		if (take(fd, buf, sizeof(buf)) != sizeof(buf))
			die("taken");
	} while (!has_file("linked") && patient(&end));
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* ---- a worker has accepted the stream, and its child takes it ---- */

/* The first stream makes it a worker, which tells its keeper of the second one. */
static void hand_on(int lfd)
{
	int fd = answer(lfd);
	pid_t pid;

	answer_all(fd);
	fd = answer(lfd);
	await_file();
	pid = split();
	if (!pid) {
		close(lfd);
		hear_hello(fd);
		answer_all(fd);
		exit(0);
	}
	close(fd);
	reap(pid);
	exit(0);
}

static void handed_on_server(int lfd)
{
	pid_t pid = split();

	if (!pid)
		hand_on(lfd);
	reap(pid);
}

static void handed_on_client(void)
{
	ask_rounds(dial());
	hello_client();
}

const struct tcp_case cases[] = {
	{"cross", cross_server, cross_client},
	{"both", nothing_server, both_client},
	{"defer", defer_server, defer_client},
	{"barred", late_server, barred_client},
	{"edge", edge_server, hello_client},
	{"accept", accept_server, asleep_client},
	{"poll", poll_server, asleep_client},
	{"select", select_server, asleep_client},
	{"taken", taken_server, taken_client},
	{"handed-on", handed_on_server, handed_on_client},
	{NULL, NULL, NULL},
};
