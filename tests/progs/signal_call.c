/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signal_call.c - signal masks that are for a call alone. */
#include "case.h"

#include <sys/time.h>

static volatile sig_atomic_t alarms;

static void count_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void alarm_in(int ms, int flags)
{
	struct sigaction sa = {.sa_handler = count_alarm, .sa_flags = flags};
	struct itimerval t = {{0, 0}, {ms / 1000, ms % 1000 * 1000}};

	sigaction(SIGALRM, &sa, NULL);
	alarms = 0;
	setitimer(ITIMER_REAL, &t, NULL);
}

/* Until a blocked SIGALRM has come. */
static void await_pending(void)
{
	sigset_t now;

	do {
		nap(1);
		sigpending(&now);
	} while (!sigismember(&now, SIGALRM));
}

/* ppoll and pselect let the signal in only while they wait. */
static void sigmask_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct timespec t = {5, 0};
	sigset_t block, open;
	fd_set r;

	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &block, &open);
	sigdelset(&open, SIGALRM);
	alarm_in(20, 0);
	await_pending();
	say("blocked: %d", alarms);
	say_result("ppoll", ppoll(&(struct pollfd){fd, POLLIN, 0}, 1, &t, &open));
	say("alarms %d", alarms);
	alarm_in(50, 0);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	say_result("pselect", pselect(fd + 1, &r, NULL, NULL, &t, &open));
	say("alarms %d", alarms);
	alarm_in(20, 0);
	await_pending();
	say_result("poll", poll(&(struct pollfd){fd, POLLIN, 0}, 1, 20));
	say("blocked: %d", alarms);
	send_go(fd);
	close(fd);
}

/* The same without waiting: what is ready comes first, and then the signal stays. */
static void sigmask_now_server(int lfd)
{
	int fd = answer(lfd);
	const struct timespec now = {0, 0}, soon = {5, 0};
	struct pollfd p[2] = {{fd, POLLIN, 0}, {-1, POLLIN, 0}};
	sigset_t block, open;
	fd_set r;
	int pipe_fd[2];

	if (pipe(pipe_fd))
		die("pipe");
	p[1].fd = pipe_fd[0];
	warm_up(fd, false);
	alarm_in(0, 0);
	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &block, &open);
	sigdelset(&open, SIGALRM);
	for (int k = 1; k <= 2; k++) {
		raise(SIGALRM);
		say_result("ppoll", ppoll(p, (nfds_t)k, &now, &open));
		say("alarms %d", alarms);
		say_result("ppoll", ppoll(p, (nfds_t)k, &now, &open));
		raise(SIGALRM);
		FD_ZERO(&r);
		FD_SET(fd, &r);
		say_result("pselect", pselect(fd + 1, &r, NULL, NULL, &now, &open));
		say("alarms %d", alarms);
	}
	raise(SIGALRM);
	p[0].events = POLLIN | POLLOUT;
	for (int k = 1; k <= 2; k++) {
		say_result("ready", ppoll(p, (nfds_t)k, &now, &open));
		say_result("ready", ppoll(p, (nfds_t)k, &soon, &open));
		FD_ZERO(&r);
		FD_SET(fd, &r);
		say_result("ready", pselect(fd + 1, NULL, &r, NULL, &soon, &open));
		say("alarms %d", alarms);
	}
	send_go(fd);
	await_readable(fd, 1);
	p[0].events = POLLIN;
	say_result("bytes", ppoll(p, 2, &soon, &open));
	say("alarms %d", alarms);
	await_go(fd);
	say_result("none", ppoll(p, 2, &soon, &open));
	say("alarms %d", alarms);
	close(fd);
}

static void sigmask_now_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	send_go(fd);
	await_end(fd);
}

static void sigmask_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"sigmask", sigmask_server, sigmask_client},
	{"sigmask-now", sigmask_now_server, sigmask_now_client},
	{0},
};
