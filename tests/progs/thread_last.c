/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* thread_last.c - the process ends with its last thread, which is not the first one. */
#include "case.h"

static int fd;

/* ------------------------------------------------- the server */

static void *echo(void *arg)
{
	int s = (int)(intptr_t)arg;
	char buf[4096];
	ssize_t n;

	while ((n = recv(s, buf, sizeof(buf), 0)) > 0)
		put(s, buf, (size_t)n);
	close(s);
	return NULL;
}

/* Of one stream, whose end it says. */
static void echo_server(int lfd)
{
	pthread_join(start(echo, (void *)(intptr_t)answer(lfd)), NULL);
	say("ended");
}

/* ------------------------------------------------- clients */

static void ask(const char *who)
{
	char buf[3000];
	size_t n;

	put(fd, buf, sizeof(buf));
	n = take(fd, buf, sizeof(buf));
	say("%s: echo of %zu", who, n);
}

/* A handler of exit(3) that needs its stream, signals, and more stack than the library's
 * own threads have. */
static void at_exit(void)
{
	volatile char stack[2 << 20];
	sigset_t now;

	for (size_t i = 0; i < sizeof(stack); i += 4096)
		stack[i] = 1;
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	say("at exit: SIGUSR1 %s, SIGUSR2 %s", sigismember(&now, SIGUSR1) ? "blocked" : "open",
	    sigismember(&now, SIGUSR2) ? "blocked" : "open");
	ask("at exit");
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

static void prepare(void)
{
	sigset_t usr2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &usr2, NULL);
	atexit(at_exit);
}

static void await_first_gone(void)
{
	while (thread_state(getpid(), getpid()) != 'Z')
		nap(1);
}

static void *outlives(void *arg)
{
	(void)arg;
	await_first_gone();
	ask("last thread");
	return NULL;
}

static void exits_client(void)
{
	prepare();
	fd = dial();
	warm_up(fd, true);
	start(outlives, NULL);
	pthread_exit(NULL);
}

/* The stream, and the library's thread, begin when the first thread has gone. */
static void *begins(void *arg)
{
	(void)arg;
	await_first_gone();
	fd = dial();
	warm_up(fd, true);
	ask("last thread");
	return NULL;
}

static void begins_client(void)
{
	prepare();
	start(begins, NULL);
	pthread_exit(NULL);
}

static void *cancels(void *first)
{
	pthread_cancel(*(pthread_t *)first);
	return outlives(NULL);
}

static void cancelled_client(void)
{
	static pthread_t self;

	prepare();
	fd = dial();
	warm_up(fd, true);
	self = pthread_self();
	start(cancels, &self);
	for (;;)
		pause();
}

/* The first thread of a child of fork is the one that forked; its function returns. */
static void *forks(void *arg)
{
	pid_t child = fork();
	int status;

	(void)arg;
	if (!child) {
		fd = dial();
		warm_up(fd, true);
		ask("child");
		return NULL;
	}
	waitpid(child, &status, 0);
	say("its status: %d", status);
	return NULL;
}

static void forked_client(void)
{
	prepare();
	pthread_join(start(forks, NULL), NULL);
	fflush(stdout);
	_exit(0);
}

/* A signal that ends the process does so at any time. */
static void *killed(void *arg)
{
	(void)arg;
	await_first_gone();
	ask("last thread");
	kill(getpid(), SIGTERM);
	for (;;)
		pause();
	return NULL;
}

static void killed_client(void)
{
	prepare();
	fd = dial();
	warm_up(fd, true);
	start(killed, NULL);
	pthread_exit(NULL);
}

const struct tcp_case cases[] = {
	{"exits", echo_server, exits_client},
	{"begins", echo_server, begins_client},
	{"cancelled", echo_server, cancelled_client},
	{"forked", echo_server, forked_client},
	{"killed", echo_server, killed_client},
	{0},
};
