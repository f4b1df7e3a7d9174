/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_order.c - in which order a set tells of what came on several streams, and that it
 * tells of it once.
 */
#include "epoll.h"

#define STREAMS 3
#define ROUNDS 20

static unsigned seed = 1;

/* ---- the server sleeps, and bytes come on one stream after the other ---- */

static void asleep_server(int lfd)
{
	int fd[STREAMS], ep = new_set(), n;
	struct epoll_event ev[STREAMS];
	char order[STREAMS * ROUNDS + 1] = "", c;
	size_t seen = 0;

	for (int i = 0; i < STREAMS; i++) {
		fd[i] = begin(lfd);
		add(ep, fd[i], EPOLLIN | (i == 1 ? EPOLLET : 0), (uint64_t)i);
	}
	while (seen < STREAMS * ROUNDS) {
		n = epoll_wait(ep, ev, STREAMS, 20000);
		if (n <= 0)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			if (take(fd[ev[i].data.u64], &c, 1) != 1)
				die("take");
			order[seen++] = c;
		}
		if (seen % STREAMS == 0)
			send_go(fd[0]);
	}
	say("%s", order);
}

static void asleep_client(void)
{
	int fd[STREAMS];

	for (int i = 0; i < STREAMS; i++)
		fd[i] = begin_client();
	for (int round = 0; round < ROUNDS; round++) {
		int first = rand_r(&seed) % STREAMS;

		await_peer_asleep();
		for (int i = 0; i < STREAMS; i++) {
			int k = (first + i) % STREAMS;

			put(fd[k], &(char){ (char)('a' + k) }, 1);
		}
		await_go(fd[0]);
	}
}

/* ---- the server looks every 20 ms, and never sleeps in the set ---- */

/* '1' comes on one stream, and 5 ms later '2' on another one.  How often is '2' told first? */
static void seldom_server(int lfd)
{
	int ep = new_set(), open = 0, ones = 0, twos = 0, wrong = 0, n;
	struct epoll_event ev[STREAMS];
	char c;

	add(ep, lfd, EPOLLIN, (uint64_t)lfd);
	do {
		n = epoll_wait(ep, ev, STREAMS, 0);
		if (n == 0)
			nap(20);
		for (int i = 0; i < n; i++) {
			int fd = (int)ev[i].data.u64;

			if (fd == lfd) {
				fd = answer(lfd);
				add(ep, fd, EPOLLIN, (uint64_t)fd);
				open++;
			} else if (take(fd, &c, 1) == 1) {
				ones += c == '1';
				twos += c == '2';
				wrong += c == '2' && twos > ones;
				put(fd, &c, 1);
			} else {
				close(fd);
				open--;
			}
		}
	} while (open || !twos);
	say("rounds: %d, wrong: %d", twos, wrong);
}

static void ping(int fd)
{
	char c;

	put(fd, "p", 1);
	if (take(fd, &c, 1) != 1)
		die("take");
}

/* fresh: '1' comes on a new stream each time, which has no link. */
static void seldom_from(bool fresh)
{
	int a = dial(), b = dial();
	char c;

	for (int i = 0; i < 80; i++) {
		ping(a);
		if (!fresh)
			ping(b);
	}
	for (int i = 0; i < ROUNDS; i++) {
		if (fresh) {
			close(b);
			b = dial();
			ping(b);
		}
		ping(a);
		await_peer_asleep();	/* it has found nothing since */
		put(b, "1", 1);
		nap(5);
		put(a, "2", 1);
		if (take(a, &c, 1) != 1 || take(b, &c, 1) != 1)
			die("take");
	}
	close(b);
	close(a);
}

static void seldom_client(void) { seldom_from(false); }
static void fresh_client(void) { seldom_from(true); }

/* ---- edges ---- */

/* Both halves have come so far. */
static void meet(bool first)
{
	static int times;
	char mine[32], other[32];

	times++;
	snprintf(mine, sizeof(mine), "meet-%d-%d", times, first);
	snprintf(other, sizeof(other), "meet-%d-%d", times, !first);
	post(mine);
	await_post(other);
}

/* How many events come in the time, one at a time? */
static int count_more(int ep, int ms)
{
	struct epoll_event ev;
	int n = 0;

	for (int i = 0; i < ms / 10; i++)
		n += epoll_wait(ep, &ev, 1, 10);
	return n;
}

/* Room has been told, and is no news when the stream gets its link.  `one` has room for no
 * more events than it has to tell. */
static void once(int fd, bool first)
{
	const uint32_t events = EPOLLIN | EPOLLOUT | EPOLLET;
	int ep = new_set(), one = new_set();
	struct epoll_event ev;

	add(ep, fd, events, 1);
	add(one, fd, events, 2);
	say_wait("added", ep, 5000);
	say("one: %d", epoll_wait(one, &ev, 1, 5000));
	say("more: %d", count_more(ep, 400));
	say("one: %d", count_more(one, 10));
	for (int turn = 0; turn < 2; turn++) {
		meet(first);
		if (first == !turn) {
			message(fd);
		} else {
			say_wait("message", ep, 5000);
			swallow(fd);
		}
		meet(first);
		say_wait("after", ep, 20);
	}
	meet(first);
	close(fd);
}

static void once_server(int lfd) { once(answer(lfd), false); }
static void once_client(void) { once(dial(), true); }

/* A stream in an edge-triggered set, which gets its link then. */
static int begin_edges(int fd, bool first, int ep)
{
	unblock(fd);
	add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 1);
	say_wait("added", ep, 5000);
	meet(first);
	if (first)
		message(fd);
	else
		say_wait("message", ep, 5000);
	meet(first);
	if (!first)
		swallow(fd);
	say("more: %d", count_more(ep, 400));
	meet(first);
	return fd;
}

/* The peer's end is told once, and then that both directions have ended; and that bytes and
 * the end behind them have come is one event. */
static void ended_server(int lfd)
{
	for (int bytes = 0; bytes < 2; bytes++) {
		int ep = new_set(), fd = begin_edges(answer(lfd), false, ep);

		meet(false);
		if (bytes)
			await_events(fd, POLLRDHUP);
		say_wait("end", ep, 5000);
		say("more: %d", count_more(ep, 100));
		if (bytes)
			swallow(fd);
		say_result("end", read(fd, buf, 1));
		say("more: %d", count_more(ep, 200));
		meet(false);
		close(fd);
		close(ep);
	}
}

static void ended_client(void)
{
	for (int bytes = 0; bytes < 2; bytes++) {
		int ep = new_set(), fd = begin_edges(dial(), true, ep);

		if (bytes)
			message(fd);
		meet(true);
		shutdown(fd, SHUT_WR);
		count_more(ep, 100);	/* TCP tells of our own end, once or twice */
		meet(true);
		say_wait("closed", ep, 5000);
		say_result("end", read(fd, buf, 1));
		say("more: %d", count_more(ep, 200));
		close(fd);
		close(ep);
	}
}

const struct tcp_case cases[] = {
	{"asleep", asleep_server, asleep_client},
	{"seldom", seldom_server, seldom_client},
	{"fresh", seldom_server, fresh_client},
	{"once", once_server, once_client},
	{"ended", ended_server, ended_client},
	{0},
};
