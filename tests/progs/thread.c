/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* thread.c - several threads on streams. */
#include "case.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/time.h>

static char few[8];

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
	say_result("end", recv(shared, few, 1, 0));
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
	int fd = answer(lfd);

	await_go(fd);	/* policy wait: the link comes first */
	crowd(fd);
}

static void crowd_client(void)
{
	int fd = dial();

	send_go(fd);
	crowd(fd);
}

/* Threads that are cancelled before they call: each call is a cancellation point,
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

static void ended_client(void)
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
	say_result("end", recv(l.fd, few, 1, 0));
	close(l.fd);
}

static void ended_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_go(fd);
	send_go(fd);
	say_bytes("last", recv(fd, few, 3, MSG_WAITALL), few);
	close(fd);
}

/* Threads that sleep, each on a stream of its own: an arrival wakes one.  (With CASE_WAKES it may
 * wake so many others in vain, some of which sleep once more because of a lock.) */
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
	const char *text = getenv("CASE_WAKES");
	long before = 0, vain = text ? strtol(text, NULL, 10) * ARRIVALS + ARRIVALS / 2 : 0;
	pthread_t t[SLEEPERS];

	for (int i = 0; i < SLEEPERS; i++) {
		sleepers[i].fd = answer(lfd);
		warm_up(sleepers[i].fd, false);
	}
	for (int how = 0; how < 3; how++) {
		for (int i = 0; i < SLEEPERS; i++) {
			sleepers[i].how = how;
			sleepers[i].got = 0;
			sleepers[i].tid = 0;
			t[i] = start_asleep(sleep_on, &sleepers[i]);
		}
		for (int i = 1; i < SLEEPERS; i++)
			before -= sleeps(&sleepers[i]);
		send_go(sleepers[0].fd);
		while (sleepers[0].got < ARRIVALS)
			nap(1);
		await_asleep(getpid(), sleepers[1].tid);
		for (int i = 1; i < SLEEPERS; i++)
			before += sleeps(&sleepers[i]);
		say("%d: others woke %ld times", how, before > vain ? before : 0);
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
		say_result("end", recv(fd[i], few, 1, 0));
		close(fd[i]);
	}
}

/* ---- a number that another thread closes and gets back, while a call sleeps ---- */

static char first[8];

static void *take_all(void *arg)
{
	int fd = (int)(intptr_t)arg;

	return (void *)(intptr_t)recv(fd, first, sizeof(first), MSG_WAITALL);
}

/* What comes on the new connection is for nobody who asked the old one. */
static void again_server(int lfd)
{
	int fd = answer(lfd), more;
	char buf[8];
	pthread_t t;

	await_go(fd);
	t = start_asleep(take_all, (void *)(intptr_t)fd);
	close(fd);
	more = answer(lfd);
	say("the same number: %d", more == fd);
	post("again");
	await_post("sent");
	pthread_join(t, NULL);
	say("bytes of the new connection: %d", memchr(first, 'n', sizeof(first)) != NULL);
	say_bytes("new", (ssize_t)take(more, buf, sizeof(buf)), buf);
	close(more);
}

static void again_client(void)
{
	int old = dial(), new;

	send_go(old);
	new = dial();
	await_post("again");
	put(new, "newbytes", 8);
	send(old, "oldbytes", 8, MSG_NOSIGNAL);	/* it may be gone */
	post("sent");
	await_end(new);
	close(old);
}

/* Closes fd, in which t sleeps, and accepts another connection, which has a link then.
 * Returns its number; got: the result of t. */
static int reuse_number(int lfd, int fd, pthread_t t, void **got)
{
	int more;

	close(fd);
	more = answer(lfd);
	say("the same number: %d", more == fd);
	warm_up(more, false);
	post("again");
	pthread_join(t, got);
	return more;
}

/* The new connection has a link when the bytes of the old one come, for which the call waits.
 * (Nothing has gone over the old one, so that is plain.) */
static void again_linked_server(int lfd)
{
	int fd = answer(lfd), more;
	pthread_t t = start_asleep(take_all, (void *)(intptr_t)fd);
	void *got;

	more = reuse_number(lfd, fd, t, &got);
	say_bytes("old", (intptr_t)got, first);
	warm_up(more, false);
	close(more);
}

static void again_linked_client(void)
{
	int old = dial(), new = dial();

	warm_up(new, true);
	await_post("again");
	put(old, "oldbytes", 8);
	warm_up(new, true);
	await_end(new);
	close(old);
}

/* A part of the bytes has come, and the call waits for the rest, when the number becomes
 * another connection's.  The call must end, with the rest or without. */
static void again_part_server(int lfd)
{
	int fd = answer(lfd), more;
	pthread_t t;
	void *got;

	await_readable(fd, 3);
	t = start_asleep(take_all, (void *)(intptr_t)fd);
	more = reuse_number(lfd, fd, t, &got);
	say("old: %d", (intptr_t)got >= 3 && !memcmp(first, "oldbytes", (size_t)(intptr_t)got));
	warm_up(more, false);
	close(more);
}

static void again_part_client(void)
{
	int old = dial(), new;

	put(old, "old", 3);
	new = dial();
	warm_up(new, true);
	await_post("again");
	send(old, "bytes", 5, MSG_NOSIGNAL); /* it may be gone */
	warm_up(new, true);
	await_end(new);
	close(old);
}

const struct tcp_case cases[] = {
	{"echo64", echo64_server, echo64_client},
	{"writers", writers_server, writers_client},
	{"readers", readers_server, readers_client},
	{"crowd", crowd_server, crowd_client},
	{"one-wakes", one_wakes_server, one_wakes_client},
	{"ended", ended_server, ended_client},
	{"again", again_server, again_client},
	{"again-linked", again_linked_server, again_linked_client},
	{"again-part", again_part_server, again_part_client},
	{0},
};
