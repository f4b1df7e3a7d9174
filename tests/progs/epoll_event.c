/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A stream in an epoll set: every kind of triggering and of wait, ends, upgrades
 * while asleep, several threads, many streams.
 */
#include "epoll.h"

#include <sys/eventfd.h>

/* ---- level-triggered ---- */

static void level_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();
	int n;

	add(ep, fd, EPOLLIN | EPOLLRDHUP, 1);
	say_wait("idle", ep, 0);
	order(fd);
	say_wait("message", ep, -1);
	say_wait("again", ep, -1);
	if (take(fd, buf, 40) != 40)
		die("take");
	say_wait("partly read", ep, 100);
	if (take(fd, buf, 60) != 60)
		die("take");
	say_wait("read", ep, 30);
	mod(ep, fd, EPOLLIN | EPOLLOUT, 2);
	say_wait("out", ep, -1);
	order(fd);
	say_wait("both", ep, -1);
	swallow(fd);
	mod(ep, fd, 0, 3);
	send_go(fd);
	say_wait("nothing asked", ep, 50);
	mod(ep, fd, EPOLLIN, 4);
	say_wait("modified", ep, 1000);
	swallow(fd);
	unblock(fd);
	mod(ep, fd, EPOLLOUT, 5);
	memset(buf, 'f', sizeof(buf));
	while ((n = (int)send(fd, buf, sizeof(buf), 0)) > 0)
		;
	say_result("full", n);
	/* The client reads nothing yet. */
	while (epoll_wait(ep, &(struct epoll_event){0}, 1, 20) == 1)
		send(fd, buf, sizeof(buf), 0);
	say_wait("full", ep, 0);
	shutdown(fd, SHUT_RD);
	mod(ep, fd, EPOLLRDHUP, 6);
	say_wait("shut", ep, -1);
	close(fd);
}

static void level_client(void)
{
	int fd = begin_client();
	struct data d = DATA(0);

	for (int i = 0; i < 3; i++) {
		await_go(fd);
		message(fd);
	}
	nap(300);
	take_rest(fd, &d);
	say("%s", d.bytes > 100000 ? "much" : "little");
	close(fd);
}

/* ---- the end ---- */

static void end_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();

	add(ep, fd, EPOLLIN | EPOLLRDHUP | EPOLLOUT, 1);
	send_go(fd);
	if (take(fd, buf, 1) != 1)
		die("take");
	nap(100);		/* the end is here */
	say_wait("half closed", ep, -1);
	say_result("end", read(fd, buf, 1));
	say_wait("still", ep, -1);
	mod(ep, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, 2);
	say_wait("edge", ep, -1);
	say_wait("no edge", ep, 20);
	shutdown(fd, SHUT_WR);
	nap(100);
	say_wait("both ends", ep, 1000);
	mod(ep, fd, 0, 3);
	say_wait("nothing asked", ep, -1);
	close(fd);
	say_wait("closed", ep, 20);
}

static void end_client(void)
{
	int fd = begin_client();

	await_go(fd);
	send_go(fd);
	shutdown(fd, SHUT_WR);
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

static void reset_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();

	add(ep, fd, EPOLLIN | EPOLLET, 1);
	send_go(fd);
	say_wait("reset", ep, 5000);
	say_result("read", read(fd, buf, 1));
	close(fd);
}

static void reset_client(void)
{
	int fd = begin_client();
	struct linger now = {1, 0};

	await_go(fd);
	nap(100);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

/* Behind the peer's end: who writes learns of the reset, edge-triggered, too. */
static void gone_server(int lfd)
{
	int fd = begin(lfd), go = answer(lfd);

	close(fd);
	send_go(go);
	await_go(go);
	close(go);
}

static void gone_client(void)
{
	int fd = begin_client(), go = dial(), ep[2] = {new_set(), new_set()};
	struct epoll_event ev = {0};

	await_go(go);
	add(ep[0], fd, EPOLLIN, 1);
	add(ep[1], fd, EPOLLRDHUP | EPOLLET, 2);
	say_wait("end", ep[0], 5000);
	say_wait("end", ep[1], 5000);
	say_result("read", read(fd, buf, 1));
	say_result("send", send(fd, buf, 100, MSG_NOSIGNAL));
	/* Edges that tell no more than before may come first. */
	while (!(ev.events & EPOLLERR) && epoll_wait(ep[1], &ev, 1, 5000) == 1)
		;
	say("reset:%s", names(ev.events));
	say_wait("reset", ep[0], 5000);
	send_go(go);
	close(fd);
	close(go);
}

/* ---- edge-triggered ---- */

/* A switch is no edge: what has been reported is not reported again. */
static void no_edge_server(int lfd)
{
	int fd = answer(lfd), ep = new_set();

	unblock(fd);
	add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 1);
	say_wait("added", ep, -1);
	say_wait("no edge", ep, 400);
	put(fd, "g", 1);
	say_wait("message", ep, -1);
	swallow(fd);
	say_wait("no edge", ep, 400);
	put(fd, "g", 1);
	say_wait("message", ep, -1);
	swallow(fd);
	close(fd);
}

static void no_edge_client(void)
{
	int fd = dial(), ep = new_set();

	unblock(fd);
	add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 1);
	say_wait("added", ep, -1);
	say_wait("no edge", ep, 200);
	for (int i = 0; i < 2; i++) {
		say_wait("go", ep, -1);
		if (take(fd, buf, 1) != 1)
			die("take");
		message(fd);
		if (i == 0)
			say_wait("no edge", ep, 200);
	}
	say_wait("end", ep, -1);
	close(fd);
}

/* A read of less than was asked for has drained the stream: epoll(7), question 9.
 * While nobody reads, a ring grows. */
static void short_server(int lfd)
{
	int fd = answer(lfd), ep = new_set();
	struct epoll_event ev;
	struct data d = DATA(0);
	ssize_t n;

	unblock(fd);
	add(ep, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
	do {
		if (epoll_wait(ep, &ev, 1, 5000) != 1)
			die("epoll_wait");
		if (d.bytes < 4000000)
			nap(50);
		do {
			n = recv(fd, buf, sizeof(buf), 0);
			if (n > 0)
				data_sum(&d, buf, (size_t)n);
		} while (n == sizeof(buf));
		if (n < 0 && errno != EAGAIN)
			die("recv");
	} while (n && !(ev.events & EPOLLRDHUP));
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		data_sum(&d, buf, (size_t)n);
	say_data("got", &d);
	close(fd);
}

static void short_client(void)
{
	struct data d = DATA(83);
	int fd = dial();
	size_t left = 6000000;

	while (left) {
		size_t n = left < 30000 ? left : 30000;

		data_fill(&d, buf, n);
		put(fd, buf, n);
		left -= n;
	}
	say_data("sent", &d);
	close(fd);
}

static void edge_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();

	add(ep, fd, EPOLLIN | EPOLLET, 0x77);
	say_wait("idle", ep, 20);
	order(fd);
	say_wait("message", ep, -1);
	say_wait("no edge", ep, 30);
	if (take(fd, buf, 10) != 10)
		die("take");
	say_wait("partly read", ep, 30);
	order(fd);
	say_wait("second", ep, -1);
	say_wait("no edge", ep, 30);
	if (take(fd, buf, 190) != 190)
		die("take");
	say_result("empty", recv(fd, buf, 1, MSG_DONTWAIT));
	say_wait("read", ep, 30);
	order(fd);
	swallow(fd);
	say_wait("read before", ep, 30);
	order(fd);
	say_wait("third", ep, -1);
	mod(ep, fd, EPOLLIN | EPOLLET, 0x78);
	say_wait("modified", ep, -1);
	say_wait("no edge", ep, 30);
	swallow(fd);
	close(fd);
}

/* Room comes back: one edge for it. */
static void edge_out_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();
	struct data d = DATA(51);
	struct epoll_event ev;
	int waits = 0;
	size_t left = 8000000, have = 0, at = 0;

	unblock(fd);
	set_int(fd, SOL_SOCKET, SO_SNDBUF, 200000);
	add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 9);
	say_wait("first", ep, -1);
	say_wait("no edge", ep, 30);
	while (left || have) {
		ssize_t n;

		if (!have) {
			have = left < sizeof(buf) ? left : sizeof(buf);
			data_fill(&d, buf, have);
			left -= have;
			at = 0;
		}
		n = write(fd, buf + at, have);
		if (n < 0 && errno != EAGAIN)
			die("write");
		if (n > 0) {
			at += (size_t)n;
			have -= (size_t)n;
			continue;
		}
		if (epoll_wait(ep, &ev, 1, 10000) != 1 ||
		    !(ev.events & EPOLLOUT))
			die("epoll_wait");
		waits++;
	}
	say_data("sent", &d);
	say("%s", waits ? "waited" : "never waited");
	shutdown(fd, SHUT_WR);
	while (read(fd, buf, sizeof(buf)) != 0)
		epoll_wait(ep, &ev, 1, 10000);
	close(fd);
}

static void sink_client(void)
{
	int fd = begin_client();
	struct data d = DATA(0);

	nap(300);
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

/* ---- one-shot ---- */

static void oneshot_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();

	add(ep, fd, EPOLLIN | EPOLLONESHOT, 1);
	order(fd);
	say_wait("first", ep, -1);
	say_wait("fired", ep, 30);
	swallow(fd);
	order(fd);
	say_wait("still", ep, 30);
	mod(ep, fd, EPOLLIN | EPOLLONESHOT, 2);
	say_wait("second", ep, -1);
	say_wait("fired", ep, 30);
	mod(ep, fd, EPOLLIN | EPOLLONESHOT | EPOLLET, 3);
	say_wait("third", ep, -1);
	mod(ep, fd, EPOLLIN, 4);
	say_wait("not one-shot", ep, -1);
	say_wait("not one-shot", ep, -1);
	mod(ep, fd, EPOLLOUT | EPOLLONESHOT, 5);
	say_wait("out", ep, -1);
	say_wait("fired", ep, 30);
	swallow(fd);
	del(ep, fd);
	add(ep, fd, EPOLLIN | EPOLLONESHOT, 6);
	say_wait("nothing", ep, 30);
	order(fd);
	say_wait("last", ep, -1);
	swallow(fd);
	close(fd);
}

/* ---- data of any value ---- */

static void data_server(int lfd)
{
	static const uint64_t value[] = {0, ~0ull, 1, 0x123456789abcdef0ull,
					 1ull << 63, 0xdeadbeef};
	int fd = begin(lfd), ep = new_set();

	for (size_t i = 0; i < COUNT(value); i++) {
		add(ep, fd, EPOLLIN | EPOLLOUT, value[i]);
		say_wait("out", ep, -1);
		order(fd);
		say_wait("both", ep, -1);
		mod(ep, fd, EPOLLIN | EPOLLONESHOT, ~value[i]);
		say_wait("in", ep, -1);
		swallow(fd);
		del(ep, fd);
		say_wait("none", ep, 0);
	}
	add(ep, fd, EPOLLOUT, (uint64_t)(uintptr_t)buf);
	if (epoll_wait(ep, &(struct epoll_event){0}, 1, -1) != 1)
		die("epoll_wait");
	close(fd);
}

/* ---- kinds of waits, times, signals ---- */

static volatile sig_atomic_t signalled;

static void on_signal(int sig)
{
	signalled = sig;
}

static void *interrupt(void *arg)
{
	nap(150);
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

static void waits_server(int lfd)
{
	int fd = begin(lfd), ep = new_set();
	struct timespec t = {0, 30500000}, none = {0, 0}, bad = {0, -1};
	struct epoll_event ev;
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t me = pthread_self(), other;
	sigset_t block, open;
	uint64_t begun;

	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&open);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	add(ep, fd, EPOLLIN, 1);
	begun = now_ms();
	say_result("wait", epoll_wait(ep, &ev, 1, 30));
	say_result("pwait", epoll_pwait(ep, &ev, 1, 30, NULL));
	say_result("pwait2", epoll_pwait2(ep, &ev, 1, &t, &open));
	say("waited %d", now_ms() - begun >= 90 && now_ms() - begun < 1000);
	say_result("pwait2", epoll_pwait2(ep, &ev, 1, &none, NULL));
	say_result("pwait2", epoll_pwait2(ep, &ev, 1, &bad, NULL));
	other = start(interrupt, &me);
	say_result("signal", epoll_wait(ep, &ev, 1, -1));
	pthread_join(other, NULL);
	say("signal %d", signalled == SIGUSR1);
	signalled = 0;
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	pthread_kill(me, SIGUSR1);
	say_result("masked", epoll_wait(ep, &ev, 1, 30));
	say("signal %d", signalled);
	say_result("unmasked", epoll_pwait(ep, &ev, 1, -1, &open));
	say("signal %d", signalled == SIGUSR1);
	signalled = 0;
	pthread_kill(me, SIGUSR1);
	say_result("unmasked", epoll_pwait2(ep, &ev, 1, NULL, &open));
	say("signal %d", signalled == SIGUSR1);
	order(fd);
	say_result("pwait", epoll_pwait(ep, &ev, 1, -1, &block));
	say_result("pwait2", epoll_pwait2(ep, &ev, 1, NULL, NULL));
	swallow(fd);
	close(fd);
}

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
		n = read(fd, buf, 500);
		if (n <= 0)
			break;
		data_sum(&d, buf, (size_t)n);
		put(fd, buf, (size_t)n);
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
			nap(5);
	}
	say_data("sent", &d);
	say_data("got", &in);
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
		for (int k = 0; k < 1000 && pool_bytes() < i * MESSAGE; k++)
			nap(5);
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

static const struct tcp_case cases[] = {
	{"level", level_server, level_client},
	{"end", end_server, end_client},
	{"reset", reset_server, reset_client},
	{"gone", gone_server, gone_client},
	{"no-edge", no_edge_server, no_edge_client},
	{"short", short_server, short_client},
	{"edge", edge_server, obey_client},
	{"edge-out", edge_out_server, sink_client},
	{"oneshot", oneshot_server, obey_client},
	{"data", data_server, obey_client},
	{"waits", waits_server, obey_client},
	{"sleepers", sleepers_server, ping_client},
	{"threads", threads_server, obey_client},
	{"crowd", crowd_server, crowd_client},
	{"echo-et", echo_et_server, echo_client},
	{"echo-lt", echo_lt_server, echo_client},
	{"busy", busy_server, busy_client},
	{"back", sleepers_server, back_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
