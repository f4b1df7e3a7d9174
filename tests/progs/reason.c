/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * reason.c - what makes a stream plain, or keeps it so, one thing at a time; and
 * moments that are hard to meet, held open until the test lets go.
 */
#include "reason.h"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

/* ------------------------------------ done to a stream that is in use */

static void to_stdio(int fd)
{
	say_result("dup2", dup2(fd, 0));
}

static void to_fork(int fd)
{
	pid_t pid = fork();
	char c;

	if (!pid) {
		recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
		_exit(0);
	}
	say("forked: %d", waitpid(pid, NULL, 0) == pid);
}

static void to_exec(int fd)
{
	(void)fd;
	say("system: %d", system("exit 3") >> 8);
}

static void to_other(int fd)
{
	char c = 'f', control[CMSG_SPACE(sizeof(fd))] = {0};
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		die("socketpair");
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	say_result("sendmsg", sendmsg(s[0], &m, 0));
	close(s[0]);
	close(s[1]);
}

/* There is no memory at 1: no ring comes of it, wherever there are any. */
static void to_io_uring(int fd)
{
	(void)fd;
	say_result("io_uring_setup", syscall(SYS_io_uring_setup, 1L, 1L));
}

/* The library's calls would find the C library's functions first. */
static void to_foreign(int fd)
{
	(void)fd;
	say("loaded: %d", dlopen(LIBM_SO, RTLD_NOW | RTLD_DEEPBIND) != NULL);
}

static void to_option(int fd)
{
	say_result("errors", recv(fd, buf, 1, MSG_ERRQUEUE | MSG_DONTWAIT));
}

static void done_to(int fd, bool first, void (*act)(int fd))
{
	rounds(fd, first);
	if (act)
		act(fd);
	rounds(fd, first);
	end(fd);
}

#define ACT(name)                                                             \
	static void name##_server(int lfd)                                    \
	{                                                                     \
		done_to(answer(lfd), false, to_##name);                       \
	}                                                                     \
	static void name##_client(void)                                       \
	{                                                                     \
		done_to(dial(), true, to_##name);                             \
	}

ACT(stdio)
ACT(fork)
ACT(exec)
ACT(other)
ACT(io_uring)
ACT(foreign)
ACT(option)

static void any_server(int lfd)
{
	done_to(answer(lfd), false, NULL);
}

static void any_client(void)
{
	done_to(dial(), true, NULL);
}

/* -------------------------------------------- around the library */

/* Past the C library's functions. */
static ssize_t raw_write(int fd, const void *from, size_t n)
{
	return syscall(SYS_write, fd, from, n);
}

static ssize_t raw_read(int fd, void *to, size_t n)
{
	return syscall(SYS_read, fd, to, n);
}

#define SLIP 100

static void slip_out(int fd, bool around)
{
	say_result("slip out", around ? raw_write(fd, buf, SLIP) : write(fd, buf, SLIP));
}

static void slip_in(int fd, bool around)
{
	await_readable(fd, SLIP);
	say_result("slip in", around ? raw_read(fd, buf, SLIP) : read(fd, buf, SLIP));
}

/* Meanwhile a link was wanted; by "go" it is known what came of it. */
static void slip(int fd, bool client, bool sends, bool around)
{
	exchange(fd, client, false);
	if (sends)
		slip_out(fd, around);
	else
		slip_in(fd, around);
	exchange(fd, client, false);
	hold("go");
	exchange(fd, client, false);
	end(fd);
}

#define COUNTERS(name, from_client, at_client)                                \
	static void name##_server(int lfd)                                    \
	{                                                                     \
		slip(answer(lfd), false, !(from_client), !(at_client));       \
	}                                                                     \
	static void name##_client(void)                                       \
	{                                                                     \
		slip(dial(), true, from_client, at_client);                   \
	}

COUNTERS(tx_at_server, false, false)
COUNTERS(rx_at_server, true, false)
COUNTERS(tx_at_client, true, true)
COUNTERS(rx_at_client, false, true)

/* Two pieces of one read into one place: afterwards nobody can say what came
 * first. */
static void history_server(int lfd)
{
	int fd = answer(lfd);
	struct iovec iov[2] = {{buf, SLIP}, {buf, SLIP}};
	struct data d = DATA(0);

	await_readable(fd, 2 * SLIP);
	say_result("readv", readv(fd, iov, 2));
	data_sum(&d, buf, SLIP);
	say_data("second", &d);
	send_go(fd); /* before a link is asked for */
	rounds(fd, false);
	hold("go");
	rounds(fd, false);
	end(fd);
}

static void history_client(void)
{
	struct data d = DATA(81);
	int fd = dial();

	put_data(fd, &d, 2 * SLIP, 2 * SLIP);
	await_go(fd);
	rounds(fd, true);
	hold("go");
	rounds(fd, true);
	end(fd);
}

/* ------------------------ streams that end about when their link is made */

enum { BRIEF = 200 };

static void brief_server(int lfd)
{
	for (int i = 0; i < BRIEF; i++) {
		int fd = answer(lfd);

		for (int k = 0; k < 3; k++) {
			take_whole(fd, 1);
			put(fd, buf, 1);
		}
		close(fd);
	}
}

static void brief_client(void)
{
	for (int i = 0; i < BRIEF; i++) {
		int fd = dial();

		for (int k = 0; k < 3; k++) {
			put(fd, buf, 1);
			take_whole(fd, 1);
		}
		close(fd);
	}
	say("%d", BRIEF);
}

/* All of it, so that the stream is never used through the library. */
static void unseen_server(int lfd)
{
	int fd = answer(lfd);
	ssize_t n;

	while ((n = raw_read(fd, buf, sizeof(buf))) > 0)
		if (raw_write(fd, buf, (size_t)n) != n)
			die("write");
	close(fd);
	nap(300); /* the end of the process would be an answer */
}

static void unseen_client(void)
{
	int fd = dial();

	rounds(fd, true);
	nap(300);
	close(fd);
}

/* --------------------------------------------- a server that is late */

static void late_accept_server(int lfd)
{
	hold("go");
	any_server(lfd);
}

static void late_use_server(int lfd)
{
	int fd = answer(lfd);

	hold("go");
	done_to(fd, false, NULL);
}

/* ------------------------------------------------- another user */

/* As daemons do it, once they listen. */
static void demoted_server(int lfd)
{
	become(65533);
	any_server(lfd);
}

/* The kernel lets accept(2) have the stream when the client sends, which it does late. */
static void deferred_server(int lfd)
{
	set_int(lfd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 60);
	post("defers");
	any_server(lfd);
}

static void deferred_client(void)
{
	struct pollfd p = {.events = POLLIN};
	int fd;

	await_post("defers");
	fd = dial();
	p.fd = fd;
	say_result("nothing to read", poll(&p, 1, 0));
	hold("go");
	done_to(fd, true, NULL);
}

/* Client and its child hold the stream, and much passes. */
static void held_by_two_client(void)
{
	int fd = dial(), go[2];
	pid_t pid;
	char c;

	if (pipe(go))
		die("pipe");
	pid = fork();
	if (!pid) {
		close(go[1]);
		_exit(read(go[0], &c, 1) != 0);
	}
	close(go[0]);
	rounds(fd, true);
	rounds(fd, true);
	close(fd);
	close(go[1]);
	say("%d", waitpid(pid, NULL, 0) == pid);
}

static void held_by_two_server(int lfd)
{
	int fd = answer(lfd);

	rounds(fd, false);
	rounds(fd, false);
	await_end(fd);
}

/* A set that only one waiter of many hears of the stream by. */
static void epoll_server(int lfd)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLEXCLUSIVE};
	int set = epoll_create1(0), fd = answer(lfd);

	say_result("add", epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	done_to(fd, false, NULL);
}

/* --------------------------------- between the handshake and the switch */

/*
 * The client's direction cannot leave TCP while a send of it is asleep in the
 * kernel, and the server does not read.  What the server sends makes the client
 * ask for a link, so that one is made and stays unused.  "interrupt" ends that
 * call with bytes unsent: the direction begins to switch, but there is no room
 * for its mark.  Until "go", when the server reads.
 */
#define MUCH ((size_t)1 << 20)
#define WORTH 600000 /* more than the buffers of the other direction hold */

struct much {
	int fd;
	char *bytes;
	struct data data;
};

static void nothing(int signal)
{
	(void)signal;
}

static void *send_much(void *arg)
{
	struct much *m = arg;
	ssize_t n = send(m->fd, m->bytes, MUCH, MSG_NOSIGNAL);

	if (n < 0)
		die("send");
	say("in one call: %s", n == (ssize_t)MUCH ? "all" : "some");
	put(m->fd, m->bytes + n, MUCH - (size_t)n);
	return NULL;
}

/* The buffers are full, and stay so. */
static void await_full(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	for (int i = 0; i < 20; i++) {
		if (poll(&p, 1, 0))
			i = 0;
		nap(5);
	}
}

static void between(bool interrupt, void (*act)(int fd))
{
	struct sigaction sa = {.sa_handler = nothing};
	struct much m = {dial(), malloc(MUCH), DATA(82)};
	struct data d = DATA(0);
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	set_int(m.fd, SOL_SOCKET, SO_SNDBUF, 16384);
	data_fill(&m.data, m.bytes, MUCH);
	say_data("sent", &m.data);
	t = start(send_much, &m);
	await_full(m.fd);
	take_data(m.fd, &d, WORTH, WORTH);
	say_data("got", &d);
	if (interrupt) {
		hold("interrupt");
		pthread_kill(t, SIGUSR1);
	}
	if (act) {
		hold("act");
		act(m.fd);
	}
	pthread_join(t, NULL);
	end(m.fd);
	free(m.bytes);
}

static void asleep_client(void)
{
	between(false, NULL);
}

static void interrupted_stdio_client(void)
{
	between(true, to_stdio);
}

static void read_late(int lfd, void (*act)(int fd))
{
	struct data in = DATA(0), out = DATA(83);
	int fd = answer(lfd);

	await_readable(fd, 20000);
	put_data(fd, &out, WORTH, WORTH);
	hold("go");
	if (act)
		act(fd);
	take_rest(fd, &in);
	say_data("got", &in);
	close(fd);
}

static void read_late_server(int lfd)
{
	read_late(lfd, NULL);
}

static void read_late_stdio_server(int lfd)
{
	read_late(lfd, to_stdio);
}

/* -------------------- handed over with plain bytes unread, and behind them */

static void to_cksum(int fd)
{
	char command[50];

	snprintf(command, sizeof(command), "cksum <&%d", fd);
	fflush(stdout);
	say("system: %d", system(command));
}

/* Reads a little, as for a request's first line; then the client's direction
 * leaves TCP, with bytes unread before the mark. */
static void unread(int lfd, void (*act)(int fd))
{
	struct data d = DATA(0);
	int fd = answer(lfd);

	take_data(fd, &d, 100, 100);
	hold("go");
	if (act)
		act(fd);
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void unread_exec_server(int lfd)
{
	unread(lfd, to_cksum);
}

static void unread_stdio_server(int lfd)
{
	unread(lfd, to_stdio);
}

static void unread_passed_server(int lfd)
{
	unread(lfd, to_other);
}

static void unread_server(int lfd)
{
	unread(lfd, NULL);
}

static void send_unread(size_t behind)
{
	struct data d = DATA(84);
	int fd = dial();

	put_data(fd, &d, 40000, 40000);
	hold("go");
	put_data(fd, &d, behind, 10000);
	say_data("sent", &d);
	end(fd);
}

static void unread_client(void)
{
	send_unread(100000);
}

/* It does not send again, and so does not ask again. */
static void unread_once_client(void)
{
	send_unread(0);
}

const struct tcp_case cases[] = {
	{"stdio-server", stdio_server, any_client},
	{"stdio-client", any_server, stdio_client},
	{"fork-server", fork_server, any_client},
	{"fork-client", any_server, fork_client},
	{"exec-server", exec_server, any_client},
	{"exec-client", any_server, exec_client},
	{"passed-server", other_server, any_client},
	{"passed-client", any_server, other_client},
	{"io_uring-server", io_uring_server, any_client},
	{"io_uring-client", any_server, io_uring_client},
	{"foreign-library-server", foreign_server, any_client},
	{"foreign-library-client", any_server, foreign_client},
	{"option-server", option_server, any_client},
	{"option-client", any_server, option_client},
	{"tx-at-server", tx_at_server_server, tx_at_server_client},
	{"rx-at-server", rx_at_server_server, rx_at_server_client},
	{"tx-at-client", tx_at_client_server, tx_at_client_client},
	{"rx-at-client", rx_at_client_server, rx_at_client_client},
	{"history", history_server, history_client},
	{"brief", brief_server, brief_client},
	{"unseen", unseen_server, unseen_client},
	{"any", any_server, any_client},
	{"late-accept", late_accept_server, any_client},
	{"late-use", late_use_server, any_client},
	{"demoted", demoted_server, any_client},
	{"deferred", deferred_server, deferred_client},
	{"held-by-two", held_by_two_server, held_by_two_client},
	{"epoll", epoll_server, any_client},
	{"asleep", read_late_server, asleep_client},
	{"asleep-stdio", read_late_stdio_server, asleep_client},
	{"interrupted-stdio", read_late_server, interrupted_stdio_client},
	{"unread-exec", unread_exec_server, unread_client},
	{"unread-stdio", unread_stdio_server, unread_client},
	{"unread", unread_server, unread_once_client},
	{"unread-passed", unread_passed_server, unread_client},
	{0},
};
