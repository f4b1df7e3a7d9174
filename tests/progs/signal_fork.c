/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal_fork.c - a signal handler forks while its thread sleeps in a call on a stream.
 * The child ends in the handler, and the parent stays there until then.
 */
#include "handler.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>

static char buf[65536];
static int fd, ctl, ep;

static bool child_uses;		/* the stream, before it ends */
static atomic_bool over;	/* it has ended */
static int status;

static void forks(int sig)
{
	int err = errno;
	pid_t pid = fork();

	(void)sig;
	if (pid < 0)
		die("fork");
	if (!pid) {
		if (child_uses)
			say_result("child", recv(fd, buf, 1, MSG_DONTWAIT));
		_exit(4);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	atomic_store(&over, true);
	errno = err;
}

/* ------------------------------------------------- the calls */

static ssize_t do_recv(void)
{
	return recv(fd, buf, 4, 0);
}

static ssize_t do_waitall(void)
{
	return recv(fd, buf, 4, MSG_WAITALL);
}

static ssize_t do_poll(void)
{
	return poll(&(struct pollfd){fd, POLLIN, 0}, 1, -1);
}

/* More than the library keeps room for, and another stream on a link. */
static ssize_t do_poll_many(void)
{
	struct pollfd p[20];

	for (int i = 0; i < 20; i++)
		p[i] = (struct pollfd){i ? ctl : fd, i ? 0 : POLLIN, 0};
	return poll(p, 20, -1);
}

static ssize_t do_ppoll(void)
{
	sigset_t none;

	sigemptyset(&none);
	return ppoll(&(struct pollfd){fd, POLLIN, 0}, 1, NULL, &none);
}

static ssize_t do_select(void)
{
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	return select(fd + 1, &r, NULL, NULL, NULL);
}

static ssize_t do_epoll_wait(void)
{
	struct epoll_event ev;

	return epoll_wait(ep, &ev, 1, -1);
}

static ssize_t do_send(void)
{
	return send(fd, "p", 1, 0);
}

static const struct call {
	const char *name;
	ssize_t (*run)(void);
	bool reads, sends;
} calls[] = {
	{"recv", do_recv, true, false},
	{"waitall", do_waitall, true, false},
	{"poll", do_poll, false, false},
	{"poll many", do_poll_many, false, false},
	{"ppoll", do_ppoll, false, false},
	{"select", do_select, false, false},
	{"epoll_wait", do_epoll_wait, false, false},
	{"send", do_send, false, true},
};

/* ------------------------------------------------- one of them */

/* Sends the signal, and then has the peer send or receive. */
static void *disturb_fork(void *arg)
{
	await_asleep(getpid(), getpid());
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	while (!atomic_load(&over))
		nap(1);
	send_go(ctl);
	return NULL;
}

/* Until it is not interrupted. */
static void call_and_use(const struct call *c)
{
	ssize_t n;

	do {
		n = c->run();
		say_result("returned", n);
	} while (n < 0 && errno == EINTR);
	if (c->sends)
		return;
	if (!c->reads)
		n = (ssize_t)take(fd, buf, 4);
	say_bytes("  got", n, buf);
	put(fd, "ok", 2);
}

static void one(int lfd, const struct call *c)
{
	struct epoll_event ev = {.events = EPOLLIN};
	pthread_t self = pthread_self(), t;

	say("%s", c->name);
	fd = answer_warm(lfd);
	ep = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	handle(SIGUSR1, forks, SA_RESTART);
	atomic_store(&over, false);
	if (c->sends)
		fill_up(fd);
	t = start(disturb_fork, &self);
	call_and_use(c);
	pthread_join(t, NULL);
	say("child: %s %d", WIFSIGNALED(status) ? "signal" : "exit",
	    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	close(ep);
	close(fd);
}

static void exit_server(int lfd)
{
	ctl = answer(lfd);
	warm_up(ctl, false);
	for (size_t i = 0; i < COUNT(calls); i++)
		one(lfd, &calls[i]);
	close(ctl);
}

static void use_server(int lfd)
{
	child_uses = true;
	exit_server(lfd);
}

/* ------------------------------------------------- the peer */

/* Zeros, and among them the parent's byte. */
static void show_rest(int s)
{
	ssize_t n;

	while ((n = recv(s, buf, sizeof(buf), 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			if (buf[i])
				say("%c", buf[i]);
	say_result("end", n);
}

static void client(void)
{
	int s;

	ctl = dial();
	warm_up(ctl, true);
	for (size_t i = 0; i < COUNT(calls); i++) {
		s = dial();
		warm_up(s, true);
		await_go(ctl);
		if (!calls[i].sends) {
			put(s, "efgh", 4);
			say("ok: %zu", take(s, buf, 2));
		}
		show_rest(s);
		close(s);
	}
	close(ctl);
}

const struct tcp_case cases[] = {
	{"fork-exit", exit_server, client},
	{"fork-use", use_server, client},
	{0},
};
