/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal_fork.c - a signal handler forks while its thread sleeps in a call on a stream.
 * The child returns into that call, or jumps out of it, and goes on with the stream.
 * Its parent stays in the handler until the child has ended, so that it is known who
 * reads what.
 */
#include "handler.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>

static char buf[65536];
static int fd, ctl, ep;

static enum does { RETURN, JUMP, EXIT, USE } child_does;
static sigjmp_buf out;
static atomic_int child;	/* 1: this process; else its number */
static atomic_bool over;	/* it has ended */
static atomic_int *left;	/* how many children have left the handler; shared */
static int status;
static char mine;		/* to be sent: the parent's p, or the child's c */

static void forks(int sig)
{
	int err = errno;
	pid_t pid = fork();

	(void)sig;
	if (pid < 0)
		die("fork");
	if (pid) {
		atomic_store(&child, pid);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		atomic_store(&over, true);
		errno = err;
		return;
	}
	atomic_store(&child, 1);
	mine = 'c';
	if (child_does == EXIT)
		_exit(4);
	if (child_does == JUMP) {
		atomic_fetch_add(left, 1);
		siglongjmp(out, 1);
	}
	if (child_does == USE)
		say_result("in the handler", recv(fd, buf, 1, MSG_DONTWAIT));
	atomic_fetch_add(left, 1);
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
	return send(fd, &mine, 1, 0);
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

/* Sends the signal, then has the peer send to the child, and then to the parent. */
static void *disturb_fork(void *arg)
{
	int before = atomic_load(left);
	pid_t pid;

	await_asleep(getpid(), getpid());
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	while (!(pid = atomic_load(&child)))
		nap(1);
	if (child_does != EXIT) {
		while (!atomic_load(&over) && atomic_load(left) == before)
			nap(1);
		await_asleep(pid, pid);
		send_go(ctl);
	}
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
		say("%s", atomic_load(&child) == 1 ? "child" : "parent");
		say_result("  returned", n);
	} while (n < 0 && errno == EINTR);
	if (c->sends)
		return;
	if (!c->reads)
		n = (ssize_t)take(fd, buf, 4);
	say_bytes("  got", n, buf);
	put(fd, "ok", 2);
}

static void one(int lfd, const struct call *c, int flags)
{
	struct epoll_event ev = {.events = EPOLLIN};
	pthread_t self = pthread_self(), t;
	pid_t parent = getpid();

	say("%s, %s", c->name, flags ? "SA_RESTART" : "no SA_RESTART");
	fd = answer(lfd);
	warm_up(fd, false);
	ep = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	handle(SIGUSR1, forks, flags);
	atomic_store(&child, 0);
	mine = 'p';
	atomic_store(&over, false);
	if (c->sends)
		fill_up(fd);
	t = start(disturb_fork, &self);
	sigsetjmp(out, 1);
	call_and_use(c);
	if (getpid() != parent) {
		if (close(fd) || close(ep))
			die("close");
		exit(3);
	}
	pthread_join(t, NULL);
	say("child: %s %d", WIFSIGNALED(status) ? "signal" : "exit",
	    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	close(ep);
	close(fd);
}

static void all(int lfd, enum does does, int restart)
{
	child_does = does;
	left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (left == MAP_FAILED)
		die("mmap");
	ctl = answer(lfd);
	warm_up(ctl, false);
	for (size_t i = 0; i < COUNT(calls); i++)
		one(lfd, &calls[i], restart);
	close(ctl);
}

static void return_server(int lfd)
{
	all(lfd, RETURN, 0);
}

static void restart_server(int lfd)
{
	all(lfd, RETURN, SA_RESTART);
}

static void jump_server(int lfd)
{
	all(lfd, JUMP, SA_RESTART);
}

static void exit_server(int lfd)
{
	all(lfd, EXIT, SA_RESTART);
}

static void use_server(int lfd)
{
	all(lfd, USE, SA_RESTART);
}

/* ------------------------------------------------- the peer */

static void give(int s, const char *four)
{
	char ok[2];

	await_go(ctl);
	put(s, four, 4);
	say("ok: %zu", take(s, ok, 2));
}

/* Zeros, and among them the child's byte and the parent's. */
static void show_rest(int s)
{
	ssize_t n;

	while ((n = recv(s, buf, sizeof(buf), 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			if (buf[i])
				say("%c", buf[i]);
	say_result("end", n);
}

static void peer(bool child_lives)
{
	int s;

	ctl = dial();
	warm_up(ctl, true);
	for (size_t i = 0; i < COUNT(calls); i++) {
		s = dial();
		warm_up(s, true);
		if (calls[i].sends)
			await_go(ctl);
		else if (child_lives)
			give(s, "abcd");
		if (!calls[i].sends)
			give(s, "efgh");
		show_rest(s);
		if (calls[i].sends && child_lives)
			await_go(ctl);
		close(s);
	}
	close(ctl);
}

static void lives_client(void)
{
	peer(true);
}

static void exit_client(void)
{
	peer(false);
}

static const struct tcp_case cases[] = {
	{"fork-return", return_server, lives_client},
	{"fork-restart", restart_server, lives_client},
	{"fork-jump", jump_server, lives_client},
	{"fork-use", use_server, lives_client},
	{"fork-exit", exit_server, exit_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
