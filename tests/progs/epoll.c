/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Epoll sets with TCP streams in them: every kind of triggering, several
 * threads, several sets, sets in sets, errors, closing, fork.
 */
#include "case.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>

#define MESSAGE 100
static char buf[1 << 16];

static int new_set(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (ep < 0)
		die("epoll_create1");
	return ep;
}

static int control(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = {events, {.u64 = data}};

	return epoll_ctl(ep, op, fd, &ev);
}

static void add(int ep, int fd, uint32_t events, uint64_t data)
{
	if (control(ep, EPOLL_CTL_ADD, fd, events, data))
		die("EPOLL_CTL_ADD");
}

static void mod(int ep, int fd, uint32_t events, uint64_t data)
{
	if (control(ep, EPOLL_CTL_MOD, fd, events, data))
		die("EPOLL_CTL_MOD");
}

static void del(int ep, int fd)
{
	if (epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL))
		die("EPOLL_CTL_DEL");
}

static const char *names(uint32_t events)
{
	static __thread char text[64];

	snprintf(text, sizeof(text), "%s%s%s%s%s", events & EPOLLIN ? " in" : "",
		 events & EPOLLOUT ? " out" : "",
		 events & EPOLLRDHUP ? " rdhup" : "",
		 events & EPOLLHUP ? " hup" : "",
		 events & EPOLLERR ? " err" : "");
	return text;
}

/* What one wait says, in the order of the data. */
static int say_wait(const char *what, int ep, int ms)
{
	struct epoll_event ev[16], t;
	int n = epoll_wait(ep, ev, 16, ms);

	if (n < 0) {
		say_result(what, n);
		return n;
	}
	for (int i = 0; i < n; i++)
		for (int k = i + 1; k < n; k++)
			if (ev[k].data.u64 < ev[i].data.u64) {
				t = ev[i];
				ev[i] = ev[k];
				ev[k] = t;
			}
	say("%s: %d", what, n);
	for (int i = 0; i < n; i++)
		say("  %llx:%s", (unsigned long long)ev[i].data.u64,
		    names(ev[i].events));
	return n;
}

static void unblock(int fd)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		die("fcntl");
}

static void message(int fd)
{
	memset(buf, 'm', MESSAGE);
	put(fd, buf, MESSAGE);
}

/* The other half sends a message when it is told to, which is here then. */
static void order(int fd)
{
	int have;

	if (ioctl(fd, FIONREAD, &have))
		die("FIONREAD");
	send_go(fd);
	await_readable(fd, have + MESSAGE);
}

static void swallow(int fd)
{
	if (take(fd, buf, MESSAGE) != MESSAGE)
		die("take");
}

/* Serves orders until the end. */
static void obey(int fd)
{
	while (take(fd, buf, 1) == 1)
		message(fd);
}

static void obey_client(void)
{
	int fd = dial();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	warm_up(fd, true);
	obey(fd);
	close(fd);
}

static int begin(int lfd)
{
	int fd = answer(lfd);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	warm_up(fd, false);
	nap(200);	/* an upgrade, which may be an edge more, is over */
	return fd;
}

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
	int fd = dial();
	struct data d = DATA(0);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	warm_up(fd, true);
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
	int fd = dial();

	warm_up(fd, true);
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
	int fd = dial();
	struct linger now = {1, 0};

	warm_up(fd, true);
	await_go(fd);
	nap(100);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
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
	int fd = dial();
	struct data d = DATA(0);

	warm_up(fd, true);
	nap(600);
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

/* ---- errors ---- */

static void errors_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), sets[8];
	struct epoll_event ev = {EPOLLIN, {.u64 = 1}};
	int file = open("/proc/self/exe", O_RDONLY);
	volatile int minus = -1;

	add(ep, fd, EPOLLIN, 1);
	say_result("twice", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	del(ep, fd);
	say_result("delete", epoll_ctl(ep, EPOLL_CTL_DEL, fd, &ev));
	say_result("modify", epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	say_result("file", epoll_ctl(ep, EPOLL_CTL_ADD, file, &ev));
	say_result("closed", epoll_ctl(ep, EPOLL_CTL_ADD, 900, &ev));
	say_result("closed set", epoll_ctl(901, EPOLL_CTL_ADD, fd, &ev));
	say_result("no set", epoll_ctl(fd, EPOLL_CTL_ADD, lfd, &ev));
	say_result("no set", epoll_ctl(file, EPOLL_CTL_ADD, fd, &ev));
	say_result("itself", epoll_ctl(ep, EPOLL_CTL_ADD, ep, &ev));
	say_result("operation", epoll_ctl(ep, 77, fd, &ev));
	say_result("no event", epoll_ctl(ep, EPOLL_CTL_ADD, fd, NULL));
	add(ep, fd, EPOLLIN, 1);
	say_result("no event", epoll_ctl(ep, EPOLL_CTL_MOD, fd, NULL));
	say_result("exclusive", control(ep, EPOLL_CTL_MOD, fd,
					EPOLLIN | EPOLLEXCLUSIVE, 1));
	del(ep, fd);
	say_result("exclusive",
		   control(ep, EPOLL_CTL_ADD, fd,
			   EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1));
	add(ep, fd, EPOLLIN | EPOLLEXCLUSIVE, 1);
	say_result("exclusive", control(ep, EPOLL_CTL_MOD, fd, EPOLLIN, 1));
	say_result("wait: room", epoll_wait(ep, &ev, 0, 0));
	say_result("wait: room", epoll_wait(ep, &ev, minus, 0));
	say_result("wait: closed", epoll_wait(901, &ev, 1, 0));
	say_result("wait: no set", epoll_wait(fd, &ev, 1, 0));
	say_result("create", epoll_create(0));
	say_result("create1", epoll_create1(1));
	/* A nest, and a loop. */
	sets[0] = ep;
	for (size_t i = 1; i < COUNT(sets); i++) {
		sets[i] = new_set();
		say_result("nest", epoll_ctl(sets[i], EPOLL_CTL_ADD,
					     sets[i - 1], &ev));
	}
	say_result("loop", epoll_ctl(sets[0], EPOLL_CTL_ADD, sets[1], &ev));
	order(fd);
	say_wait("inmost", ep, -1);
	say_wait("nest", sets[2], -1);
	swallow(fd);
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

static void ping_client(void)
{
	int fd = dial(), ep = new_set();
	struct data d = DATA(52), in = DATA(0);
	struct epoll_event ev;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	add(ep, fd, EPOLLIN | EPOLLET, 6);
	for (int i = 0; i < 240; i++) {
		data_fill(&d, buf, 100);
		put(fd, buf, 100);
		for (size_t got = 0; got < 100;) {
			ssize_t n = recv(fd, buf + got, 100 - got,
					 MSG_DONTWAIT);

			if (n > 0) {
				data_sum(&in, buf + got, (size_t)n);
				got += (size_t)n;
			} else if (epoll_wait(ep, &ev, 1, 10000) != 1 ||
				   ev.data.u64 != 6) {
				die("epoll_wait");
			}
		}
		if (i % 3 == 0)
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
	for (int i = 0; i < 20; i++) {
		nap(20);
		send_go(pool.fd);
	}
	for (int i = 0; i < 500 && pool.bytes < 20 * MESSAGE; i++)
		nap(5);
	nap(20);
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

/* ---- several sets ---- */

static void sets_server(int lfd)
{
	int fd = begin(lfd), a = new_set(), b = new_set(), c = dup(a);

	add(a, fd, EPOLLIN, 1);
	add(b, fd, EPOLLIN | EPOLLET, 2);
	order(fd);
	say_wait("a", a, -1);
	say_wait("b", b, -1);
	say_wait("a", a, -1);
	say_wait("b", b, 20);
	say_wait("duplicate of a", c, -1);
	swallow(fd);
	say_wait("a", a, 20);
	close(a);
	order(fd);
	say_wait("duplicate of a", c, -1);
	say_wait("b", b, -1);
	close(b);
	swallow(fd);
	order(fd);
	say_wait("duplicate of a", c, -1);
	swallow(fd);
	close(c);
	a = new_set();
	add(a, fd, EPOLLIN | EPOLLOUT, 3);
	say_wait("new", a, -1);
	close(fd);
	say_wait("closed", a, 20);
}

static void *exclusive_waiter(void *arg)
{
	struct epoll_event ev;
	int *ep = arg;

	*ep = epoll_wait(*ep, &ev, 1, 1500) == 1 && ev.data.u64 == 8;
	return NULL;
}

static void exclusive_server(int lfd)
{
	int fd = begin(lfd), ep[2] = {new_set(), new_set()};
	pthread_t t[2];

	for (int i = 0; i < 2; i++) {
		add(ep[i], fd, EPOLLIN | EPOLLEXCLUSIVE, 8);
		t[i] = start(exclusive_waiter, &ep[i]);
	}
	nap(100);
	send_go(fd);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	say("%s", ep[0] + ep[1] >= 1 ? "woken" : "NOBODY");
	swallow(fd);
	close(fd);
}

/* ---- sets in sets ---- */

static int poll_one(int fd, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};

	if (poll(&p, 1, ms) < 0)
		die("poll");
	return p.revents;
}

static int select_one(int fd, int ms)
{
	struct timeval t = {0, ms * 1000};
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	return select(fd + 1, &r, NULL, NULL, &t);
}

static void nested_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer = new_set();
	int third = new_set();

	add(inner, fd, EPOLLIN, 1);
	add(outer, inner, EPOLLIN, 2);
	add(third, outer, EPOLLIN | EPOLLET, 3);
	say("poll %x", poll_one(inner, 0));
	say_wait("outer", outer, 0);
	for (int i = 0; i < 3; i++) {
		send_go(fd);
		say_wait("third", third, 5000);
		say_wait("outer", outer, 5000);
		say("poll %x", poll_one(inner, 5000));
		say("select %d", select_one(inner, 500));
		say_wait("inner", inner, 5000);
		say("poll %x", poll_one(outer, 0));
		swallow(fd);
		say("poll %x", poll_one(inner, 20));
		say("select %d", select_one(outer, 20));
		say_wait("outer", outer, 20);
		say_wait("inner", inner, 0);
	}
	mod(inner, fd, EPOLLIN | EPOLLET, 4);
	send_go(fd);
	say("poll %x", poll_one(inner, 5000));
	say("poll %x", poll_one(outer, 5000));
	say_wait("inner", inner, 5000);
	say("poll %x", poll_one(inner, 20));
	say_wait("outer", outer, 20);
	swallow(fd);
	close(fd);
}

/* The stream is upgraded while the program is asleep in poll on the set. */
static void polled_server(int lfd)
{
	int ep = new_set(), fd = answer(lfd);
	struct data d = DATA(0);
	ssize_t n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	add(ep, fd, EPOLLIN, 5);
	for (;;) {
		struct epoll_event ev;

		if (poll_one(ep, 10000) != POLLIN)
			die("poll");
		if (epoll_wait(ep, &ev, 1, 0) != 1)
			die("epoll_wait");
		n = read(fd, buf, 500);
		if (n <= 0)
			break;
		data_sum(&d, buf, (size_t)n);
		put(fd, buf, (size_t)n);
	}
	say_data("got", &d);
	close(fd);
}

/* ---- closing ---- */

static void closing_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), copy, other;

	copy = dup(fd);
	add(ep, fd, EPOLLIN, 1);
	add(ep, copy, EPOLLIN, 2);
	order(fd);
	say_wait("both", ep, -1);
	swallow(fd);
	say_wait("read", ep, 20);
	del(ep, copy);
	close(fd);		/* stays in the set: the copy is open */
	order(copy);
	say_wait("by the closed one", ep, -1);
	say_result("unknown", control(ep, EPOLL_CTL_DEL, fd, 0, 0));
	say_result("unknown", control(ep, EPOLL_CTL_MOD, copy, EPOLLIN, 0));
	other = open("/dev/null", O_RDONLY);
	say("number %d", other == fd);
	swallow(copy);
	say_wait("read", ep, 20);
	add(ep, copy, EPOLLIN | EPOLLET, 3);
	order(copy);
	say_wait("again both", ep, -1);
	say_wait("level", ep, -1);
	swallow(copy);
	close(copy);
	say_wait("closed", ep, 20);
	close(other);
	fd = begin(lfd);
	say_result("gone", control(ep, EPOLL_CTL_DEL, fd, 0, 0));
	add(ep, fd, EPOLLIN, 4);
	order(fd);
	say_wait("second", ep, -1);
	swallow(fd);
	copy = dup2(lfd, fd);	/* closes it */
	say("number %d", copy == fd);
	say_wait("replaced", ep, 20);
}

static void closing_client(void)
{
	obey_client();
	obey_client();
}

/* ---- fork ---- */

static void fork_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), status;
	int up[2], down[2];
	pid_t pid;
	char c;

	add(ep, fd, EPOLLIN, 1);
	order(fd);
	say_wait("before", ep, -1);
	swallow(fd);
	fflush(stdout);
	if (pipe(up) || pipe(down))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		say_wait("child: idle", ep, 20);
		if (read(down[0], &c, 1) != 1)
			die("read");
		say_wait("child", ep, 5000);
		swallow(fd);
		say_wait("child: read", ep, 20);
		if (write(up[1], "x", 1) != 1)
			die("write");
		_exit(0);
	}
	nap(100);
	order(fd);
	say_wait("parent", ep, -1);
	if (write(down[1], "x", 1) != 1 || read(up[0], &c, 1) != 1)
		die("pipe");
	say_wait("parent: read", ep, 20);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	say("status %d", status);
	order(fd);
	say_wait("after", ep, -1);
	swallow(fd);
	/* A stream that comes after the fork is the set's as ever. */
	close(fd);
	fd = begin(lfd);
	add(ep, fd, EPOLLIN | EPOLLONESHOT, 2);
	order(fd);
	say_wait("second", ep, -1);
	say_wait("fired", ep, 20);
	swallow(fd);
	mod(ep, fd, EPOLLIN, 3);
	send_go(fd);
	say_wait("asleep", ep, 5000);
	swallow(fd);
	close(fd);
}

static void fork_client(void)
{
	obey_client();
	obey_client();
}

/* The child of a fork waits in the set that its parent made. */
static void heir_server(int lfd)
{
	int ep = new_set(), status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		int fd = answer(lfd);

		add(ep, fd, EPOLLIN, 1);
		warm_up(fd, false);
		send_go(fd);
		say_wait("child", ep, 5000);
		swallow(fd);
		close(fd);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	say("status %d", status);
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

/* ---- with others in the set ---- */

/* Room for one: nobody starves. */
static void fair_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), p[2], seen[3] = {0};
	struct epoll_event ev;

	if (pipe(p) || write(p[1], "x", 1) != 1)
		die("pipe");
	add(ep, p[0], EPOLLIN, 0);
	add(ep, fd, EPOLLIN, 1);
	add(ep, p[1], EPOLLOUT, 2);
	order(fd);
	for (int i = 0; i < 60; i++) {
		if (epoll_wait(ep, &ev, 1, -1) != 1)
			die("epoll_wait");
		seen[ev.data.u64]++;
	}
	say("%d %d %d", seen[0] >= 5, seen[1] >= 5, seen[2] >= 5);
	say_wait("all", ep, -1);
	swallow(fd);
	say_wait("others", ep, -1);
	if (read(p[0], buf, 1) != 1)
		die("read");
	say_wait("one", ep, -1);
	close(fd);
}

static void *writer(void *arg)
{
	nap(50);
	if (write(*(int *)arg, "x", 1) != 1)
		die("write");
	return NULL;
}

/* Asleep with a stream and a pipe, the pipe wakes; and a set that is changed
 * while a thread sleeps in it. */
static void changed_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), p[2];
	pthread_t t;

	if (pipe(p))
		die("pipe");
	add(ep, p[0], EPOLLIN, 7);
	add(ep, fd, EPOLLIN, 1);
	t = start(writer, &p[1]);
	say_wait("pipe", ep, 5000);
	pthread_join(t, NULL);
	if (read(p[0], buf, 1) != 1)
		die("read");
	del(ep, fd);
	order(fd);
	say_wait("not in it", ep, 20);
	add(ep, fd, EPOLLIN, 2);
	say_wait("in it", ep, 5000);
	swallow(fd);
	close(fd);
}

/* Deleted and added again, as some programs do for every message. */
static void again_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), copy;
	struct epoll_event ev;

	add(ep, fd, EPOLLIN, 1);
	order(fd);
	say_wait("message", ep, -1);
	del(ep, fd);
	say_wait("deleted", ep, 0);
	say_result("delete", control(ep, EPOLL_CTL_DEL, fd, 0, 0));
	say_result("modify", control(ep, EPOLL_CTL_MOD, fd, EPOLLIN, 0));
	add(ep, fd, EPOLLOUT | EPOLLET, 2);
	say_result("add", control(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 0));
	say_wait("out", ep, -1);
	say_wait("no edge", ep, 20);
	del(ep, fd);
	add(ep, fd, EPOLLIN | EPOLLET, 3);
	say_wait("in", ep, -1);
	say_wait("no edge", ep, 20);
	swallow(fd);
	del(ep, fd);
	order(fd);
	say_wait("not in it", ep, 20);
	add(ep, fd, EPOLLIN | EPOLLONESHOT, 4);
	say_wait("once", ep, -1);
	say_wait("not twice", ep, 20);
	del(ep, fd);
	add(ep, fd, EPOLLIN | EPOLLEXCLUSIVE, 5);
	say_wait("exclusive", ep, -1);
	swallow(fd);
	del(ep, fd);
	for (int i = 0; i < 3000; i++) {
		add(ep, fd, EPOLLIN, (unsigned)i);
		send_go(fd);
		if (epoll_wait(ep, &ev, 1, -1) != 1 ||
		    ev.data.u64 != (unsigned)i)
			die("epoll_wait");
		swallow(fd);
		del(ep, fd);
	}
	/* The number is closed, the file is not; the number comes back. */
	copy = dup(fd);
	add(ep, copy, EPOLLIN, 6);
	close(fd);
	say("number %d", dup(copy) == fd);
	say_result("modify", control(ep, EPOLL_CTL_MOD, fd, EPOLLIN, 0));
	add(ep, fd, EPOLLIN, 7);
	order(fd);
	say_wait("both", ep, -1);
	swallow(fd);
	del(ep, copy);
	close(copy);
	order(fd);
	say_wait("one", ep, -1);
	swallow(fd);
	del(ep, fd);
	close(fd);
	say_wait("closed", ep, 20);
	close(ep);
}

static atomic_int rounds_done;

static void *toggler(void *arg)
{
	int *fds = arg, seen = -1;

	while (rounds_done < 1000) {
		if (rounds_done == seen)
			continue;
		seen = rounds_done;
		for (int i = 0; i < 5; i++) {
			del(fds[0], fds[1]);
			add(fds[0], fds[1], EPOLLIN | (i & 1 ? EPOLLET : 0), 1);
		}
	}
	return NULL;
}

/* Two threads: one waits, the other deletes and adds under it. */
static void toggled_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), fds[2] = {ep, fd};
	struct epoll_event ev;
	pthread_t t;

	unblock(fd);
	add(ep, fd, EPOLLIN, 1);
	t = start(toggler, fds);
	while (rounds_done < 1000) {
		size_t got = 0;

		send_go(fd);
		while (got < MESSAGE) {
			ssize_t n = read(fd, buf, MESSAGE - got);

			if (n > 0)
				got += (size_t)n;
			else if (n == 0 || errno != EAGAIN)
				die("read");
			else if (epoll_wait(ep, &ev, 1, 10000) != 1)
				die("epoll_wait");
		}
		rounds_done++;
	}
	pthread_join(t, NULL);
	close(fd);
}

static const struct tcp_case cases[] = {
	{"level", level_server, level_client},
	{"end", end_server, end_client},
	{"reset", reset_server, reset_client},
	{"no-edge", no_edge_server, no_edge_client},
	{"edge", edge_server, obey_client},
	{"edge-out", edge_out_server, sink_client},
	{"oneshot", oneshot_server, obey_client},
	{"data", data_server, obey_client},
	{"errors", errors_server, obey_client},
	{"waits", waits_server, obey_client},
	{"sleepers", sleepers_server, ping_client},
	{"threads", threads_server, obey_client},
	{"crowd", crowd_server, crowd_client},
	{"echo-et", echo_et_server, echo_client},
	{"echo-lt", echo_lt_server, echo_client},
	{"busy", busy_server, busy_client},
	{"sets", sets_server, obey_client},
	{"exclusive", exclusive_server, obey_client},
	{"nested", nested_server, obey_client},
	{"polled", polled_server, ping_client},
	{"closing", closing_server, closing_client},
	{"fork", fork_server, fork_client},
	{"heir", heir_server, obey_client},
	{"back", sleepers_server, back_client},
	{"fair", fair_server, obey_client},
	{"again", again_server, obey_client},
	{"toggled", toggled_server, obey_client},
	{"changed", changed_server, obey_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
