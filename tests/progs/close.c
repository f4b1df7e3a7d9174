/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* close.c - how streams end: close and exit, also under a sleeper. */
#include "case.h"

#include <dirent.h>
#include <linux/sockios.h>
#include <sys/resource.h>

#include <pthread.h>
#include <sched.h>

static char buf[1 << 17];

/* SO_LINGER with time: close waits for the peer, and all bytes arrive. */
static void linger_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct data d = DATA(0);

	send_go(fd);
	await_peer_asleep();
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void linger_client(void)
{
	struct linger l = {1, 20};
	int fd = dial_warm();
	struct data d = DATA(51);
	socklen_t len = sizeof(l);

	await_go(fd);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	l.l_onoff = l.l_linger = 9;
	getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len);
	say("linger %d %d", l.l_onoff, l.l_linger);
	put_data(fd, &d, 300000, sizeof(buf));
	say_result("close", close(fd));
	say_data("sent", &d);
}

/* But only for its host, not for its program, which reads when it is told to. */
static void unread_server(int lfd)
{
	int fd = answer_warm(lfd), second;

	send_go(fd);
	second = answer(lfd);
	await_go(second);
	say("got %zu", take(fd, buf, sizeof(buf)));
	close(fd);
	close(second);
}

static void unread_client(void)
{
	struct linger l = {1, 3600};
	int fd = dial_warm(), n = 1, second;

	await_go(fd);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	put(fd, buf, 1000);
	while (n)
		if (ioctl(fd, SIOCOUTQ, &n))
			die("SIOCOUTQ");
	put(fd, buf, 1000);
	say_result("close", close(fd));
	second = dial();
	send_go(second);
	close(second);
}

/* The program ends with bytes under way. */
static void slow_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	await_go(fd);
	send_go(fd);
	await_peer_asleep();
	take_rest(fd, &d);
	say_data("got", &d);
	post("got");
	close(fd);
}

/* More than TCP takes at once, and less than a link over RDMA has room for (256 kB). */
static int leave_bytes(void)
{
	int fd = dial(), size = 400000;
	struct data d = DATA(53);

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	send_go(fd);
	await_go(fd);
	put_data(fd, &d, 250000, 60000);
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

/* No descriptor is left for whatever close may need, but those that are closed, and
 * they are used at once. */
enum { FDS = 100, FULL = 3 };

static void full_server(int lfd)
{
	int fd[FULL];

	for (int i = 0; i < FULL; i++) {
		fd[i] = answer(lfd);
		await_go(fd[i]);
		send_go(fd[i]);
	}
	await_peer_asleep();
	for (int i = 0; i < FULL; i++) {
		struct data d = DATA(0);

		take_rest(fd[i], &d);
		say_data("got", &d);
		close(fd[i]);
	}
	post("got");
}

static void fill_table(void)
{
	for (int i = 0; i < FDS; i++)
		while (fcntl(i, F_GETFD) < 0 && dup2(0, i) < 0)
			if (errno != EBUSY)	/* a thread of the library's opens it */
				die("dup2");
}

static void full_client(void)
{
	struct rlimit l = { FDS, FDS };
	int fd[FULL];

	if (setrlimit(RLIMIT_NOFILE, &l))
		die("setrlimit");
	for (int i = 0; i < FULL; i++)
		fd[i] = leave_bytes();
	nap(100);	/* what was only needed for the start is closed */
	for (int i = 0; i < FULL; i++) {
		fill_table();
		say_result("close", close(fd[i]));
	}
	await_post("got");
}

/* As programs do that lock themselves in: no descriptor is made any more. */
static void locked_client(void)
{
	struct rlimit l = { 0, 0 };
	int fd = leave_bytes();

	if (setrlimit(RLIMIT_NOFILE, &l))
		die("setrlimit");
	say_result("close", close(fd));
	say_result("close", close(fd));
	await_post("got");
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

/* A descriptor that is shut down under a sleeping reader. */
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
	int fd = answer_warm(lfd), n;

	await_go(fd);
	await_peer_asleep();
	n = (int)send(fd, "x", 1, MSG_NOSIGNAL);
	say_result("send", n);
	await_end(fd);
	post("over");
}

/*
 * Closed under a poll, which what comes then wakes.  The sleeper gets to run when all
 * is over: it has the lowest priority, and its processor is busy meanwhile.
 */
static int processor;

static void stay(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static void *sleeping_poll(void *arg)
{
	struct pollfd p = {*(int *)arg, POLLIN, 0};
	struct sched_param none = {0};
	int n;

	stay();
	pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
	n = poll(&p, 1, 10000);

	/* (On a link it is not POLLNVAL.) */
	return (void *)(intptr_t)(n < 0 ? -errno : n);
}

static void poll_under_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_post("closed");
	say_result("send", send(fd, "x", 1, MSG_NOSIGNAL));
	post("sent");
	await_post("awake");
	close(fd);
}

static void poll_under_client(void)
{
	int fd = dial_warm();
	pthread_t t;

	processor = sched_getcpu();
	t = start_asleep(sleeping_poll, &fd);
	say_result("close", close(fd));
	post("closed");
	stay();
	while (!is_posted("sent"))
		;
	say_sleeper(t);
	post("awake");
}

/* A handler closes what its thread sleeps on; the call, which restarts, finds nothing. */
static int to_close;

static void close_it(int sig)
{
	(void)sig;
	close(to_close);
}

static void close_in_handler_client(void)
{
	struct sigaction sa = {.sa_handler = close_it, .sa_flags = SA_RESTART};
	int fd = dial(), to;
	bool sends;

	for (int i = 0; i < 3; i++) {
		sends = i == 2;
		warm_up(fd, true);
		to = dup(fd);
		to_close = to;
		sigaction(SIGALRM, &sa, NULL);
		ualarm(100000, 0);
		if (sends)
			while (send(to, buf, sizeof(buf), 0) > 0)
				;
		say_result(sends ? "send" : "recv", sends ? -1 : recv(to, buf, 1, 0));
	}
	post("over");
	close(fd);
}

static void close_in_handler_server(int lfd)
{
	int fd = answer(lfd);

	for (int i = 0; i < 3; i++)
		warm_up(fd, false);
	await_post("over");
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
}

static void shutdown_under_client(void)
{
	int fd = dial_warm();
	pthread_t t;

	t = start_asleep(sleeping_read, &fd);
	say_result("shutdown", shutdown(fd, SHUT_RD));
	say_sleeper(t);
	send_go(fd);
	shutdown(fd, SHUT_WR);
	await_post("over");
	close(fd);
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
	await_end(fd);
}

/* Many streams, each upgraded: nothing of them stays.  What stays makes memory grow in each
 * round; where the machine is busy, closed streams are not done with for a moment, and the most
 * that there ever were at a time make it grow in some.  So the median round counts. */
enum { FIRST_STREAMS = 500, STREAMS = 500, ROUNDS = 10, FEW = 8, GROWTH_KB = 300 };

struct holding {
	long data_kb;
	int fds, threads;
};

static int entries(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	if (!d)
		die(dir);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct holding hold(void)
{
	struct holding h = {0, 0, 0};
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmData: %ld", &h.data_kb);
	if (f)
		fclose(f);
	h.fds = entries("/proc/self/fd");
	h.threads = entries("/proc/self/task");
	return h;
}

/* Closed streams may have an anchor for a moment yet, and a link may still be destroyed. */
static void compare_holding(struct holding was)
{
	struct holding is = hold();
	uint64_t end = 0;

	while ((is.fds > was.fds + FEW || is.threads > was.threads) && patient(&end))
		is = hold();
	say("descriptors: %s", is.fds <= was.fds + FEW ? "as before" : "MORE");
	say("threads: %s", is.threads <= was.threads ? "as before" : "MORE");
}

/* N streams, one after the other; of the client if there is no listener. */
static void stream_after_stream(int lfd, int n)
{
	while (n--) {
		int fd = lfd < 0 ? dial() : answer(lfd);

		warm_up(fd, lfd < 0);
		if (lfd < 0)
			shutdown(fd, SHUT_WR);
		if (take(fd, buf, 1))
			die("end");
		close(fd);
	}
}

static int longs_compare(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

static void steady(int lfd)
{
	struct holding was, is;
	long kb, growth[ROUNDS];

	stream_after_stream(lfd, FIRST_STREAMS);
	nap(300);
	was = is = hold();
	for (int i = 0; i < ROUNDS; i++) {
		kb = is.data_kb;
		stream_after_stream(lfd, STREAMS);
		is = hold();
		growth[i] = is.data_kb - kb;
	}
	compare_holding(was);
	qsort(growth, ROUNDS, sizeof(*growth), longs_compare);
	if (growth[ROUNDS / 2] > GROWTH_KB)
		say("memory: %ld kB MORE in a round", growth[ROUNDS / 2]);
}

static void steady_server(int lfd) { steady(lfd); }
static void steady_client(void) { steady(-1); }

const struct tcp_case cases[] = {
	{"steady", steady_server, steady_client},
	{"linger", linger_server, linger_client},
	{"unread", unread_server, unread_client},
	{"exit", slow_server, exit_client},
	{"quick-exit", slow_server, quick_exit_client},
	{"full", full_server, full_client},
	{"locked", slow_server, locked_client},
	{"close-exit", slow_server, close_exit_client},
	{"return", slow_server, return_client},
	{"poll-under", poll_under_server, poll_under_client},
	{"close-in-handler", close_in_handler_server, close_in_handler_client},
	{"shutdown-under", under_server, shutdown_under_client},
	{"empty", empty_server, empty_client},
	{0},
};
