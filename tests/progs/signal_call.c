/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signal_call.c - signals during calls, masks that are for a call alone, and a handler
 * that calls. */
#include "case.h"

#include <sys/time.h>

static char big[1 << 20];

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

static void eintr_server(int lfd)
{
	struct timeval tv = {5, 0}, none = {0, 0};
	struct data d = DATA(0);
	int fd = answer_warm(lfd), n;
	fd_set r;

	alarm_in(50, 0);
	say_result("recv", recv(fd, big, 10, 0));
	say("alarms %d", alarms);
	alarm_in(50, SA_RESTART);
	send_go(fd);
	say_bytes("restarted", recv(fd, big, 1, 0), big);
	say("alarms %d", alarms);
	/* With a timeout set nothing is restarted. */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	alarm_in(50, SA_RESTART);
	say_result("timed recv", recv(fd, big, 10, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	/* Waits never are. */
	alarm_in(50, SA_RESTART);
	say_result("poll", poll(&(struct pollfd){fd, POLLIN, 0}, 1, -1));
	alarm_in(50, SA_RESTART);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	say_result("select", select(fd + 1, &r, NULL, NULL, &tv));
	/* What came before the signal is a short read. */
	send_go(fd);
	await_readable(fd, 4);
	alarm_in(50, 0);
	say_result("waitall", recv(fd, big, 1000, MSG_WAITALL));
	/* Also where it would be restarted with nothing. */
	send_go(fd);
	await_readable(fd, 4);
	alarm_in(50, SA_RESTART);
	say_result("waitall", recv(fd, big, 1000, MSG_WAITALL));
	/* The peer fills up, is interrupted, and goes on. */
	send_go(fd);
	await_post("full");
	take_rest(fd, &d);
	put(fd, &d.bytes, sizeof(d.bytes));
	n = (int)recv(fd, big, 1, 0);
	say_result("end", n);
	close(fd);
}

static void eintr_client(void)
{
	int fd = dial_warm();
	struct itimerval every = {{0, 40000}, {0, 40000}};
	uint64_t total = 0, answer_bytes = 0;
	ssize_t n;

	await_go(fd);
	nap(150);
	put(fd, "r", 1);
	await_go(fd);
	for (int i = 0; i < 2; i++) {
		put(fd, "1234", 4);
		await_go(fd);
	}
	/* Cut short by a signal, in the end before it took anything. */
	alarm_in(40, 0);
	setitimer(ITIMER_REAL, &every, NULL);
	while ((n = send(fd, big, sizeof(big), 0)) > 0)
		total += (uint64_t)n;
	say_result("send", n);
	post("full");
	alarm_in(0, 0);
	shutdown(fd, SHUT_WR);
	take(fd, &answer_bytes, sizeof(answer_bytes));
	say("%s", answer_bytes == total ? "equal" : "DIFFERS");
	close(fd);
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

/* The stream is used in a handler, while the program sleeps in poll, in recv
 * and between calls. */
static int handler_fd;

static void echo_in_handler(int sig)
{
	char buf[64];
	int saved = errno;
	ssize_t n = recv(handler_fd, buf, sizeof(buf), MSG_DONTWAIT);

	(void)sig;
	if (n > 0)
		send(handler_fd, buf, (size_t)n, MSG_NOSIGNAL);
	errno = saved;
}

static void handler_server(int lfd)
{
	struct sigaction sa = {.sa_handler = echo_in_handler,
			       .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 3000}, {0, 3000}}, off;
	int fd = handler_fd = answer(lfd), other = answer(lfd);

	warm_up(fd, false);
	warm_up(other, false);
	memset(&off, 0, sizeof(off));
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	/* Busy with the other stream until it ends. */
	while (recv(other, big, 10, 0) > 0)
		;
	setitimer(ITIMER_REAL, &off, NULL);
	close(other);
	close(fd);
	say("done");
}

static void handler_client(void)
{
	int fd = dial(), other = dial();
	struct data out = DATA(83), in = DATA(0);

	warm_up(fd, true);
	warm_up(other, true);
	for (int i = 0; i < 60; i++) {
		data_fill(&out, big, 50);
		put(fd, big, 50);
		put(other, big, 30);
		take_data(fd, &in, 50, 50);
	}
	say_data("sent", &out);
	say_data("got", &in);
	close(other);
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"eintr", eintr_server, eintr_client},
	{"sigmask", sigmask_server, sigmask_client},
	{"sigmask-now", sigmask_now_server, sigmask_now_client},
	{"handler", handler_server, handler_client},
	{0},
};
