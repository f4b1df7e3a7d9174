/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_loop.c - programs that loop around an epoll set: asleep when a message comes,
 * several threads, many streams.
 */
#include "epoll.h"

#include <sys/eventfd.h>

/* ---- asleep when it comes: also while the stream is upgraded ---- */

static void sleepers_server(int lfd)
{
	int ep = new_set(), fd = answer(lfd);
	struct epoll_event ev;
	struct data d = DATA(0);
	ssize_t n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	/* Blocking: a wake-up for nothing would hang here. */
	add(ep, fd, EPOLLIN, 5);
	for (;;) {
		if (epoll_wait(ep, &ev, 1, 10000) != 1 || ev.data.u64 != 5)
			die("epoll_wait");
		n = echo_some(fd, &d);
		if (n <= 0)
			break;
	}
	say_result("end", n);
	say_data("got", &d);
	close(fd);
}

/* The other end goes back to TCP in the midst: it forks. */
static void back_client(void)
{
	int fd = dial();
	struct data d = DATA(54), in = DATA(0);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (int i = 0; i < 60; i++) {
		data_fill(&d, buf, 300);
		put(fd, buf, 300);
		take_data(fd, &in, 300, 300);
		if (i == 30) {
			pid_t pid = fork();

			if (pid == 0)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
		if (i % 10 == 0)
			await_peer_asleep();
	}
	say_data("sent", &d);
	say_data("got", &in);
	close(fd);
}

/* ---- request and answer in turns, each end in a set, as redis and redis-benchmark do it:
 * thousands of sleeps, each of which one arrival has to end ---- */

#define TURNS 3000
#define REQUEST 36
#define ANSWER 5

static void await_event(int ep, uint32_t event)
{
	struct epoll_event ev;
	int n;

	do
		n = epoll_wait(ep, &ev, 1, 20000);
	while (n < 0 && errno == EINTR);
	if (n != 1 || !(ev.events & event))
		die("epoll_wait: no event");
}

/* The descriptor stays in the set. */
static void turns_server(int lfd)
{
	int fd = answer(lfd), ep = new_set(), turns = 0;
	struct data in = DATA(0);
	ssize_t n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	unblock(fd);
	add(ep, fd, EPOLLIN, 1);
	for (;;) {
		await_event(ep, EPOLLIN);
		n = recv(fd, buf, REQUEST, 0);
		if (n <= 0)
			break;
		data_sum(&in, buf, (size_t)n);
		if (in.bytes / REQUEST > (uint64_t)turns) {
			put(fd, "$-1\r\n", ANSWER);
			turns++;
		}
	}
	say("%d turns", turns);
	say_data("got", &in);
	close(fd);
}

/* The descriptor is in the set for what is waited for, and no longer. */
static void turns_client(void)
{
	int fd = dial(), ep = new_set();
	struct data out = DATA(7);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	unblock(fd);
	for (int i = 0; i < TURNS; i++) {
		add(ep, fd, EPOLLOUT, 2);
		await_event(ep, EPOLLOUT);
		data_fill(&out, buf, REQUEST);
		put(fd, buf, REQUEST);
		del(ep, fd);
		add(ep, fd, EPOLLIN, 3);
		for (size_t got = 0; got < ANSWER;) {
			await_event(ep, EPOLLIN);
			got += (size_t)recv(fd, buf, ANSWER - got, 0);
		}
		del(ep, fd);
	}
	say_data("sent", &out);
	close(fd);
}

/* ---- threads ---- */

#define WORKERS 4

static struct {
	int ep, fd;
	int wakes, bytes, stop;
	pthread_mutex_t lock;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Edge-triggered: one wake-up for each arrival, whoever gets it. */
static void *edge_worker(void *arg)
{
	char mine[1000];
	struct epoll_event ev;
	ssize_t n;

	for (;;) {
		if (epoll_wait(pool.ep, &ev, 1, -1) != 1)
			die("epoll_wait");
		if (ev.data.u64 == 99)
			return arg;
		pthread_mutex_lock(&pool.lock);
		pool.wakes++;
		while ((n = recv(pool.fd, mine, sizeof(mine), MSG_DONTWAIT)) > 0)
			pool.bytes += (int)n;
		pthread_mutex_unlock(&pool.lock);
	}
}

static int pool_bytes(void)
{
	int bytes;

	pthread_mutex_lock(&pool.lock);
	bytes = pool.bytes;
	pthread_mutex_unlock(&pool.lock);
	return bytes;
}

static void threads_server(int lfd)
{
	uint64_t end = 0;
	int stop = eventfd(0, 0);
	pthread_t t[WORKERS];

	pool.fd = begin(lfd);
	pool.ep = new_set();
	add(pool.ep, pool.fd, EPOLLIN | EPOLLET, 1);
	add(pool.ep, stop, EPOLLIN, 99);
	for (int i = 0; i < WORKERS; i++)
		t[i] = start(edge_worker, NULL);
	for (int i = 1; i <= 20; i++) {
		send_go(pool.fd);
		end = 0;
		while (pool_bytes() < i * MESSAGE && patient(&end))
			;
		nap(10); /* for a wake-up too many */
	}
	pthread_mutex_lock(&pool.lock);
	say("%d bytes in %d wakes", pool.bytes, pool.wakes);
	pthread_mutex_unlock(&pool.lock);
	if (write(stop, &(uint64_t){1}, 8) != 8)
		die("write");
	for (int i = 0; i < WORKERS; i++)
		pthread_join(t[i], NULL);
	close(pool.fd);
}

/* One-shot: a stream is one worker's until it says MOD. */
#define CROWD 16

static struct {
	int fd;
	int busy;
	struct data in;
	bool ended;
} crowd[CROWD];
static int clashes, ended;

static void *oneshot_worker(void *arg)
{
	char mine[3000];
	struct epoll_event ev;

	for (;;) {
		unsigned i;
		ssize_t n;

		if (epoll_wait(pool.ep, &ev, 1, -1) != 1)
			die("epoll_wait");
		if (ev.data.u64 == 99)
			return arg;
		i = (unsigned)ev.data.u64;
		if (__atomic_fetch_add(&crowd[i].busy, 1, __ATOMIC_SEQ_CST))
			__atomic_fetch_add(&clashes, 1, __ATOMIC_SEQ_CST);
		n = recv(crowd[i].fd, mine, sizeof(mine), MSG_DONTWAIT);
		if (n > 0) {
			data_sum(&crowd[i].in, mine, (size_t)n);
			put(crowd[i].fd, mine, (size_t)n);
		}
		if (n < 0 && errno != EAGAIN)
			die("recv");
		crowd[i].ended = n == 0;
		__atomic_fetch_sub(&crowd[i].busy, 1, __ATOMIC_SEQ_CST);
		if (n)
			mod(pool.ep, crowd[i].fd, EPOLLIN | EPOLLONESHOT, i);
		else
			shutdown(crowd[i].fd, SHUT_WR);
		if (!n)
			__atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
	}
}

static void crowd_server(int lfd)
{
	int stop = eventfd(0, 0);
	pthread_t t[WORKERS];

	pool.ep = new_set();
	add(pool.ep, stop, EPOLLIN, 99);
	for (int i = 0; i < WORKERS; i++)
		t[i] = start(oneshot_worker, NULL);
	for (unsigned i = 0; i < CROWD; i++) {
		crowd[i].fd = answer(lfd);
		crowd[i].in = (struct data)DATA(0);
		set_int(crowd[i].fd, IPPROTO_TCP, TCP_NODELAY, 1);
		add(pool.ep, crowd[i].fd, EPOLLIN | EPOLLONESHOT, i);
	}
	while (__atomic_load_n(&ended, __ATOMIC_SEQ_CST) < CROWD)
		nap(5);
	if (write(stop, &(uint64_t){1}, 8) != 8)
		die("write");
	for (int i = 0; i < WORKERS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < CROWD; i++) {
		say_data("stream", &crowd[i].in);
		close(crowd[i].fd);
	}
	say("%d clashes", clashes);
}

/* Many streams from one thread, answers checked. */
static void many_client(int streams, int rounds, size_t most)
{
	int *fd = calloc((size_t)streams, sizeof(*fd));
	struct data *out = calloc((size_t)streams, sizeof(*out));
	struct data *in = calloc((size_t)streams, sizeof(*in));
	struct data sizes = DATA(53);

	for (int i = 0; i < streams; i++) {
		fd[i] = dial();
		set_int(fd[i], IPPROTO_TCP, TCP_NODELAY, 1);
		out[i] = (struct data)DATA(100 + i);
		in[i] = (struct data)DATA(0);
	}
	for (int k = 0; k < rounds; k++) {
		for (int i = 0; i < streams; i++) {
			size_t n = data_size(&sizes, most);

			data_fill(&out[i], buf, n);
			put(fd[i], buf, n);
		}
		for (int i = 0; i < streams; i++)
			take_data(fd[i], &in[i], out[i].bytes - in[i].bytes,
				  most);
	}
	for (int i = 0; i < streams; i++) {
		shutdown(fd[i], SHUT_WR);
		take_rest(fd[i], &in[i]);
		if (in[i].crc != out[i].crc || in[i].bytes != out[i].bytes)
			say("stream %d DIFFERS", i);
		say_data("stream", &out[i]);
		close(fd[i]);
	}
	free(fd);
	free(out);
	free(in);
}

static void crowd_client(void)
{
	many_client(CROWD, 40, 3000);
}

/* ---- an echo server, edge-triggered, read until EAGAIN ---- */

#define STREAMS 64

struct echo {
	int fd;
	struct data in;
	char held[1 << 14];
	size_t at, have;
	bool ended;
};

/* False: it is over. */
static bool echo_step(struct echo *e)
{
	ssize_t n;

	for (;;) {
		while (e->have) {
			n = write(e->fd, e->held + e->at, e->have);
			if (n < 0 && errno == EAGAIN)
				return true;
			if (n < 0)
				die("write");
			e->at += (size_t)n;
			e->have -= (size_t)n;
		}
		if (e->ended)
			return false;
		n = read(e->fd, e->held, sizeof(e->held));
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0)
			die("read");
		e->ended = n == 0;
		e->at = 0;
		e->have = (size_t)n;
		data_sum(&e->in, e->held, (size_t)n);
	}
}

static void echo_server(int lfd, uint32_t events, int streams, int room)
{
	struct echo *e = calloc((size_t)streams, sizeof(*e));
	struct epoll_event *ev = calloc((size_t)room, sizeof(*ev));
	int ep = new_set(), open = 0, left = streams;

	unblock(lfd);
	add(ep, lfd, EPOLLIN, ~0ull);
	while (left) {
		int n = epoll_wait(ep, ev, room, 10000);

		if (n < 1)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			struct echo *one;

			if (ev[i].data.u64 == ~0ull) {
				if (open == streams)
					die("one too many");
				one = &e[open];
				one->fd = accept4(lfd, NULL, NULL,
						  SOCK_NONBLOCK);
				if (one->fd < 0 && errno == EAGAIN)
					continue;
				if (one->fd < 0)
					die("accept4");
				set_int(one->fd, IPPROTO_TCP, TCP_NODELAY, 1);
				one->in = (struct data)DATA(0);
				add(ep, one->fd, events, (uint64_t)open++);
				continue;
			}
			one = &e[ev[i].data.u64];
			if (!echo_step(one)) {
				close(one->fd);
				left--;
			} else if (!(events & EPOLLET)) {
				mod(ep, one->fd,
				    one->have ? EPOLLIN | EPOLLOUT : EPOLLIN,
				    ev[i].data.u64);
			}
		}
	}
	for (int i = 0; i < streams; i++)
		say_data("stream", &e[i].in);
	free(e);
	free(ev);
}

static void echo_et_server(int lfd)
{
	echo_server(lfd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, STREAMS, 64);
}

static void echo_lt_server(int lfd)
{
	echo_server(lfd, EPOLLIN, STREAMS, 3);
}

/* Small messages without pause: both ends are awake, or about to sleep. */
static void busy_server(int lfd)
{
	echo_server(lfd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 8, 64);
}

static void busy_client(void)
{
	many_client(8, 1500, 100);
}

static void echo_client(void)
{
	many_client(STREAMS, 12, 9000);
}

const struct tcp_case cases[] = {
	{"sleepers", sleepers_server, ping_client},
	{"turns", turns_server, turns_client},
	{"threads", threads_server, obey_client},
	{"crowd", crowd_server, crowd_client},
	{"echo-et", echo_et_server, echo_client},
	{"echo-lt", echo_lt_server, echo_client},
	{"busy", busy_server, busy_client},
	{"back", sleepers_server, back_client},
	{0},
};
