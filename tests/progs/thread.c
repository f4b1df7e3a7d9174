/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* thread.c - several threads on streams, and signals during calls. */
#include "case.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/time.h>

static char big[1 << 20];

/* ----------------------------------------------------------- threads */

enum { STREAMS = 64 };

static void *echo_thread(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[8192];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		put(fd, buf, (size_t)n);
	close(fd);
	return (void *)(intptr_t)n;
}

static void echo64_server(int lfd)
{
	pthread_t t[STREAMS];
	int good = 0;

	for (int i = 0; i < STREAMS; i++)
		t[i] = start(echo_thread, (void *)(intptr_t)answer(lfd));
	for (int i = 0; i < STREAMS; i++) {
		void *n;

		pthread_join(t[i], &n);
		good += !n;
	}
	say("%d ended well", good);
}

static void *talk_thread(void *arg)
{
	int fd = dial();
	struct data out = DATA(80 + *(int *)arg), in = DATA(0);
	char buf[6000];

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (int i = 0; i < 20; i++) {
		size_t n = data_size(&out, sizeof(buf));

		data_fill(&out, buf, n);
		put(fd, buf, n);
		take_data(fd, &in, n, 5000);
	}
	shutdown(fd, SHUT_WR);
	take_rest(fd, &in);
	close(fd);
	return (void *)(intptr_t)(in.crc == out.crc && in.bytes == out.bytes);
}

static void echo64_client(void)
{
	pthread_t t[STREAMS];
	int id[STREAMS], good = 0;

	for (int i = 0; i < STREAMS; i++) {
		id[i] = i;
		t[i] = start(talk_thread, &id[i]);
	}
	for (int i = 0; i < STREAMS; i++) {
		void *equal;

		pthread_join(t[i], &equal);
		good += !!equal;
	}
	say("%d equal", good);
}

/* Two readers of one stream, and two writers: every byte once, and records of
 * a small write stay together. */
struct record {
	uint32_t from, number;
	char fill[56];
};

static int shared;

static void *record_thread(void *arg)
{
	struct record r = {.from = (uint32_t)(intptr_t)arg};

	memset(r.fill, 'a' + (int)r.from, sizeof(r.fill));
	for (r.number = 0; r.number < 3000; r.number++)
		if (send(shared, &r, sizeof(r), 0) != sizeof(r))
			die("send");
	return NULL;
}

static void writers_client(void)
{
	pthread_t t[2];

	shared = dial();
	for (int i = 0; i < 2; i++)
		t[i] = start(record_thread, (void *)(intptr_t)i);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	shutdown(shared, SHUT_WR);
	say_result("end", recv(shared, big, 1, 0));
	close(shared);
}

static void writers_server(int lfd)
{
	uint32_t next[2] = {0, 0};
	struct record r;
	int fd = answer(lfd);
	bool good = true;

	while (take(fd, &r, sizeof(r)) == sizeof(r)) {
		good = good && r.from < 2 && r.number == next[r.from]++ &&
		       r.fill[0] == 'a' + (int)r.from &&
		       r.fill[55] == 'a' + (int)r.from;
		if (!good)
			break;
	}
	say("%s %u %u", good ? "in order" : "BROKEN", next[0], next[1]);
	close(fd);
}

static void *count_thread(void *arg)
{
	uint64_t *sums = arg;
	unsigned char buf[3000];
	ssize_t n;

	while ((n = recv(shared, buf, sizeof(buf), 0)) > 0) {
		sums[0] += (uint64_t)n;
		for (ssize_t i = 0; i < n; i++)
			sums[1] += buf[i];
	}
	if (n < 0)
		die("recv");
	return NULL;
}

/* The order between the readers is theirs; number and sum are not. */
static void readers_server(int lfd)
{
	uint64_t sums[2][2] = {{0, 0}, {0, 0}};
	pthread_t t[2];

	shared = answer(lfd);
	for (int i = 0; i < 2; i++)
		t[i] = start(count_thread, sums[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	say("%llu bytes, sum %llu",
	    (unsigned long long)(sums[0][0] + sums[1][0]),
	    (unsigned long long)(sums[0][1] + sums[1][1]));
	close(shared);
}

static void readers_client(void)
{
	int fd = dial();
	struct data d = DATA(81);

	put_data(fd, &d, 2000000, 10000);
	say_data("sent", &d);
	close(fd);
}

/* One thread reads, another writes, a third one polls and asks. */
static volatile bool quit;

static void *asking_thread(void *arg)
{
	int fd = *(int *)arg, n;

	while (!quit) {
		struct pollfd p = {fd, POLLIN | POLLOUT, 0};

		if (poll(&p, 1, 1) < 0 || ioctl(fd, FIONREAD, &n))
			die("poll");
		get_int(fd, SOL_SOCKET, SO_ERROR);
	}
	return NULL;
}

static void *writing_thread(void *arg)
{
	struct data d = DATA(82);

	put_data(*(int *)arg, &d, 3000000, 20000);
	shutdown(*(int *)arg, SHUT_WR);
	return NULL;
}

static void crowd(int fd)
{
	pthread_t w = start(writing_thread, &fd);
	pthread_t a = start(asking_thread, &fd);
	struct data d = DATA(0);

	take_rest(fd, &d);
	pthread_join(w, NULL);
	quit = true;
	pthread_join(a, NULL);
	say_data("got", &d);
	close(fd);
}

static void crowd_server(int lfd)
{
	crowd(answer(lfd));
}

static void crowd_client(void)
{
	crowd(dial());
}

/* A reader that is cancelled in its sleep; another one reads on. */
static void *cancelled_read(void *arg)
{
	char c;

	recv(*(int *)arg, &c, 1, 0);
	return NULL;
}

static void cancel_client(void)
{
	int fd = dial();
	pthread_t t;
	void *how;

	warm_up(fd, true);
	for (int i = 0; i < 2; i++) {
		t = start(cancelled_read, &fd);
		nap(50);
		pthread_cancel(t);
		pthread_join(t, &how);
		say("%s", how == PTHREAD_CANCELED ? "cancelled" : "returned");
		warm_up(fd, true);
	}
	close(fd);
}

static void cancel_server(int lfd)
{
	int fd = answer(lfd);

	for (int i = 0; i < 3; i++)
		warm_up(fd, false);
	say_result("end", recv(fd, big, 1, 0));
	close(fd);
}

/* Threads that are told to end before they call: each call is a cancellation point,
 * also if it would not have to wait, and what it was about to do is not done. */
struct last_call {
	int fd, ep, what;
};

static void *told_to_end(void *arg)
{
	const struct last_call *l = arg;
	struct pollfd p = {l->fd, POLLIN | POLLOUT, 0};
	struct epoll_event ev;
	char c = 'x';

	pthread_cancel(pthread_self());
	switch (l->what) {
	case 0:
		send(l->fd, &c, 1, 0);
		break;
	case 1:
		recv(l->fd, &c, 1, 0);
		break;
	case 2:
		recv(l->fd, &c, 1, MSG_DONTWAIT);
		break;
	case 3:
		poll(&p, 1, -1);
		break;
	case 4:
		epoll_wait(l->ep, &ev, 1, 0);
		break;
	case 5:
		epoll_pwait(l->ep, &ev, 1, -1, NULL);
		break;
	case 6:
		epoll_pwait2(l->ep, &ev, 1, NULL, NULL);
		break;
	default:
		close(l->fd);
	}
	return NULL;
}

static void told_client(void)
{
	struct last_call l = {.fd = dial(), .ep = epoll_create1(EPOLL_CLOEXEC)};
	struct epoll_event ev = {.events = EPOLLOUT};
	void *how;

	warm_up(l.fd, true);
	if (epoll_ctl(l.ep, EPOLL_CTL_ADD, l.fd, &ev))
		die("EPOLL_CTL_ADD");
	for (int i = 0; i < 64; i++) {
		l.what = i % 8;
		if (i == 32)
			await_readable(l.fd, 1); /* from now on there is a byte */
		pthread_join(start(told_to_end, &l), &how);
		if (how != PTHREAD_CANCELED)
			say("%d returned", i);
		if (i == 31)
			send_go(l.fd);
	}
	await_go(l.fd);
	put(l.fd, "end", 3);
	say_result("end", recv(l.fd, big, 1, 0));
	close(l.fd);
}

static void told_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	await_go(fd);
	send_go(fd);
	say_bytes("last", recv(fd, big, 3, MSG_WAITALL), (char *)big);
	close(fd);
}

/* Threads that sleep, each on a stream of its own: an arrival wakes one. */
enum { SLEEPERS = 6, ARRIVALS = 30 };

static struct sleeper {
	int fd, how;
	_Atomic pid_t tid;
	atomic_int got;
} sleepers[SLEEPERS];

static void *sleep_on(void *arg)
{
	struct sleeper *s = arg;
	struct epoll_event e = {.events = EPOLLIN};
	struct pollfd p = {s->fd, POLLIN, 0};
	int set = epoll_create1(0);
	char c;

	epoll_ctl(set, EPOLL_CTL_ADD, s->fd, &e);
	s->tid = gettid();
	do {
		if (s->how == 1)
			poll(&p, 1, -1);
		if (s->how == 2)
			epoll_wait(set, &e, 1, -1);
	} while (recv(s->fd, &c, 1, 0) == 1 && ++s->got);
	close(set);
	return NULL;
}

/* How often it went to sleep. */
static long sleeps(const struct sleeper *s)
{
	char path[64], line[128];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)s->tid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "voluntary_ctxt_switches: %ld", &n);
	if (f)
		fclose(f);
	return n;
}

static void one_wakes_server(int lfd)
{
	pthread_t t[SLEEPERS];
	long before = 0;

	for (int i = 0; i < SLEEPERS; i++) {
		sleepers[i].fd = answer(lfd);
		warm_up(sleepers[i].fd, false);
	}
	for (int how = 0; how < 3; how++) {
		for (int i = 0; i < SLEEPERS; i++) {
			sleepers[i].how = how;
			sleepers[i].got = 0;
			sleepers[i].tid = 0;
			t[i] = start(sleep_on, &sleepers[i]);
		}
		nap(300);
		for (int i = 1; i < SLEEPERS; i++)
			before -= sleeps(&sleepers[i]);
		send_go(sleepers[0].fd);
		while (sleepers[0].got < ARRIVALS)
			nap(1);
		nap(50);
		for (int i = 1; i < SLEEPERS; i++)
			before += sleeps(&sleepers[i]);
		say("%d: others woke %ld times", how, before);
		before = 0;
		for (int i = 0; i < SLEEPERS; i++) {
			pthread_cancel(t[i]);
			pthread_join(t[i], NULL);
		}
	}
	for (int i = 0; i < SLEEPERS; i++)
		close(sleepers[i].fd);
}

static void one_wakes_client(void)
{
	int fd[SLEEPERS];

	for (int i = 0; i < SLEEPERS; i++) {
		fd[i] = dial();
		set_int(fd[i], IPPROTO_TCP, TCP_NODELAY, 1);
		warm_up(fd[i], true);
	}
	for (int how = 0; how < 3; how++) {
		await_go(fd[0]);
		for (int i = 0; i < ARRIVALS; i++) {
			put(fd[0], "x", 1);
			nap(3);
		}
	}
	for (int i = 0; i < SLEEPERS; i++) {
		say_result("end", recv(fd[i], big, 1, 0));
		close(fd[i]);
	}
}

/* ----------------------------------------------------------- signals */

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
	int fd = answer(lfd), n;
	fd_set r;

	warm_up(fd, false);
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
	nap(800);
	take_rest(fd, &d);
	put(fd, &d.bytes, sizeof(d.bytes));
	n = (int)recv(fd, big, 1, 0);
	say_result("end", n);
	close(fd);
}

static void eintr_client(void)
{
	int fd = dial();
	struct itimerval every = {{0, 40000}, {0, 40000}};
	uint64_t total = 0, answer_bytes = 0;
	ssize_t n;

	warm_up(fd, true);
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
	alarm_in(0, 0);
	shutdown(fd, SHUT_WR);
	take(fd, &answer_bytes, sizeof(answer_bytes));
	say("%s", answer_bytes == total ? "equal" : "DIFFERS");
	close(fd);
}

/* ppoll and pselect let the signal in only while they wait. */
static void sigmask_server(int lfd)
{
	int fd = answer(lfd);
	struct timespec t = {5, 0};
	sigset_t block, open;
	fd_set r;

	warm_up(fd, false);
	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &block, &open);
	sigdelset(&open, SIGALRM);
	alarm_in(20, 0);
	nap(60);
	say("blocked: %d", alarms);
	say_result("ppoll", ppoll(&(struct pollfd){fd, POLLIN, 0}, 1, &t, &open));
	say("alarms %d", alarms);
	alarm_in(50, 0);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	say_result("pselect", pselect(fd + 1, &r, NULL, NULL, &t, &open));
	say("alarms %d", alarms);
	alarm_in(20, 0);
	nap(60);
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
	int fd = dial();

	warm_up(fd, true);
	await_go(fd);
	send_go(fd);
	say_result("end", recv(fd, big, 1, 0));
	close(fd);
}

static void sigmask_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	await_go(fd);
	say_result("end", recv(fd, big, 1, 0));
	close(fd);
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
	say_result("end", recv(fd, big, 1, 0));
	close(fd);
}

static const struct tcp_case cases[] = {
	{"echo64", echo64_server, echo64_client},
	{"writers", writers_server, writers_client},
	{"readers", readers_server, readers_client},
	{"crowd", crowd_server, crowd_client},
	{"cancel", cancel_server, cancel_client},
	{"one-wakes", one_wakes_server, one_wakes_client},
	{"told", told_server, told_client},
	{"eintr", eintr_server, eintr_client},
	{"sigmask", sigmask_server, sigmask_client},
	{"sigmask-now", sigmask_now_server, sigmask_now_client},
	{"handler", handler_server, handler_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
