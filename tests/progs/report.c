/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * report.c - many short streams, one after the other, in a process that then ends in one of
 * the ways that there are, or goes on.
 */
#include "case.h"

#include <sys/time.h>

enum { STREAMS = 100, AT_ONCE = 10, MANY = 200, CHILDREN = 20, THREADS = 4 };

static int open_fds[MANY];
static volatile sig_atomic_t open_count;

/* A byte each way, and the end. */
static void serve(int fd)
{
	char c;

	if (take(fd, &c, 1) != 1)
		die("take");
	put(fd, &c, 1);
	await_end(fd);
	close(fd);
}

static void serve_some(int lfd, int n)
{
	while (n--)
		serve(answer(lfd));
}

static void ask(int fd)
{
	char c = 'a';

	put(fd, &c, 1);
	if (take(fd, &c, 1) != 1)
		die("take");
}

static void ask_some(int n)
{
	while (n--) {
		int fd = dial();

		ask(fd);
		close(fd);
	}
}

static void some_server(int lfd)
{
	serve_some(lfd, STREAMS);
	say("all served");
}

static void say_done(void)
{
	say("all asked");
}

/* ---- one way to end each, of both halves ---- */

static void exit_server(int lfd)
{
	some_server(lfd);
	exit(0);
}

static void exit_client(void)
{
	ask_some(STREAMS);
	say_done();
	exit(0);
}

static void end_server(int lfd)
{
	some_server(lfd);
	_exit(0);
}

static void end_client(void)
{
	ask_some(STREAMS);
	say_done();
	_exit(0);
}

static void quick_server(int lfd)
{
	some_server(lfd);
	quick_exit(0);
}

static void quick_client(void)
{
	ask_some(STREAMS);
	say_done();
	quick_exit(0);
}

/* (The first one fails.) */
static void become_true(void)
{
	char *none[] = {NULL};

	execv("/nonexistent", none);
	if (errno != ENOENT)
		die("execv");
}

static void exec_server(int lfd)
{
	serve_some(lfd, STREAMS / 2);
	become_true();
	serve_some(lfd, STREAMS / 2);
	say("all served");
	execl("/bin/true", "true", NULL);
	die("execl");
}

static void exec_client(void)
{
	ask_some(STREAMS / 2);
	become_true();
	ask_some(STREAMS / 2);
	say_done();
	execl("/bin/true", "true", NULL);
	die("execl");
}

static void killed_server(int lfd)
{
	some_server(lfd);
	raise(SIGKILL);
}

static void killed_client(void)
{
	ask_some(STREAMS);
	say_done();
	raise(SIGKILL);
}

/* ---- a handler ends the process while it ends its streams ---- */

static void on_time(int sig)
{
	(void)sig;
	if (open_count > 0)
		close(open_fds[--open_count]);
	_exit(0);
}

/* At some moment within the loop, or behind it. */
static void close_until(void)
{
	const struct itimerval soon = {.it_value = {0, 300}};

	signal(SIGALRM, on_time);
	setitimer(ITIMER_REAL, &soon, NULL);
	while (open_count > 0)
		close(open_fds[--open_count]); /* (the handler closes another one) */
	for (;;)
		pause();
}

static void handler_server(int lfd)
{
	for (int i = 0; i < MANY; i++) {
		char c;

		open_fds[i] = answer(lfd);
		if (take(open_fds[i], &c, 1) != 1)
			die("take");
		put(open_fds[i], &c, 1);
	}
	say("all served");
	open_count = MANY;
	close_until();
}

static void handler_client(void)
{
	for (int i = 0; i < MANY; i++) {
		open_fds[i] = dial();
		ask(open_fds[i]);
	}
	say("all asked");
	open_count = MANY;
	close_until();
}

/* ---- children, which have streams of their own ---- */

static void child_client(int i)
{
	ask_some(1);
	if (i % 2)
		_exit(0);
	exit(0);
}

static void fork_server(int lfd)
{
	serve_some(lfd, CHILDREN * (AT_ONCE + 1));
	say("all served");
}

static void fork_client(void)
{
	pid_t pid;

	for (int i = 0; i < CHILDREN; i++) {
		ask_some(AT_ONCE);
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid)
			child_client(i);
	}
	while (wait(NULL) > 0)
		;
	say_done();
}

/* ---- threads ---- */

static void *ask_in_thread(void *unused)
{
	(void)unused;
	ask_some(STREAMS / THREADS);
	return NULL;
}

static void thread_client(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, ask_in_thread, NULL))
			die("pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	say_done();
}

/* ---- it goes on ---- */

static void on_server(int lfd)
{
	some_server(lfd);
	await_post("enough");
}

static void on_client(void)
{
	ask_some(STREAMS);
	say_done();
	await_post("enough");
}

/* ---- the server's child becomes another user, as smbd's does ---- */

static void user_server(int lfd)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		become(65534);
		serve_some(lfd, 2);
		_exit(0);
	}
	if (waitpid(pid, NULL, 0) != pid)
		die("waitpid");
	say("served");
}

static void user_client(void)
{
	ask_some(2);
	say_done();
}

const struct tcp_case cases[] = {
	{"exit", exit_server, exit_client},
	{"_exit", end_server, end_client},
	{"quick_exit", quick_server, quick_client},
	{"exec", exec_server, exec_client},
	{"killed", killed_server, killed_client},
	{"handler", handler_server, handler_client},
	{"fork", fork_server, fork_client},
	{"thread", exit_server, thread_client},
	{"on", on_server, on_client},
	{"user", user_server, user_client},
	{0},
};
