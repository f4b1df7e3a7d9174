/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_set.c - epoll sets themselves: what they refuse, several of them, sets in sets,
 * others in them, changes, also under a thread that waits.
 */
#include "epoll.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/select.h>

/* ---- errors ---- */

static void errors_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), sets[8];
	struct epoll_event ev = {EPOLLIN, {.u64 = 1}};
	int file = open("/proc/self/exe", O_RDONLY);
	volatile int minus = -1, many = INT_MAX / sizeof(ev) + 1;

	add(ep, fd, EPOLLIN, 1);
	say_result("twice", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	del(ep, fd);
	say_result("delete", epoll_ctl(ep, EPOLL_CTL_DEL, fd, &ev));
	say_result("modify", epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	say_result("exclusive", control(ep, EPOLL_CTL_MOD, fd, EPOLLEXCLUSIVE, 1));
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
	say_result("wait: room", epoll_wait(ep, &ev, many, 0));
	say_result("wait: room", epoll_pwait(ep, &ev, many, 0, NULL));
	say_wait("nest", sets[2], -1);
	swallow(fd);
	close(fd);
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

static atomic_int exclusive_wakes;

static void *exclusive_waiter(void *ep)
{
	struct epoll_event ev;

	if (epoll_wait(*(int *)ep, &ev, 1, -1) == 1 && ev.data.u64 == 8)
		exclusive_wakes++;
	return NULL;
}

/* One of them is woken, or both; then "stop" wakes who is left. */
static void exclusive_server(int lfd)
{
	uint64_t end = 0;
	int fd = begin(lfd), ep[2] = {new_set(), new_set()}, stop = eventfd(0, 0);
	pthread_t t[2];

	for (int i = 0; i < 2; i++) {
		add(ep[i], fd, EPOLLIN | EPOLLEXCLUSIVE, 8);
		add(ep[i], stop, EPOLLIN, 99);
		t[i] = start_asleep(exclusive_waiter, &ep[i]);
	}
	send_go(fd);
	while (!exclusive_wakes && patient(&end))
		;
	say("%s", exclusive_wakes ? "woken" : "NOBODY");
	swallow(fd);
	if (write(stop, &(uint64_t){1}, 8) != 8)
		die("write");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	close(fd);
}

/* ---- sets in sets ---- */

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
	say("poll %x", poll_idle(inner, inner));
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
		nap(20);
		say("poll %x", poll_idle(inner, inner));
		say("select %d", select_one(outer, 0));
		say_wait("outer", outer, 0);
		say_wait("inner", inner, 0);
	}
	mod(inner, fd, EPOLLIN | EPOLLET, 4);
	send_go(fd);
	say("poll %x", poll_one(inner, 5000));
	say("poll %x", poll_one(outer, 5000));
	say_wait("inner", inner, 5000);
	nap(20);
	say("poll %x", poll_idle(inner, inner));
	say_wait("outer", outer, 0);
	swallow(fd);
	close(fd);
}

/* ---- with others in the set ---- */

/* Room for one: nobody starves, though what is not on a link may have to wait for 16
 * calls. */
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
	for (int i = 0; i < 400; i++) {
		if (epoll_wait(ep, &ev, 1, -1) != 1)
			die("epoll_wait");
		seen[ev.data.u64]++;
	}
	say("%d %d %d", seen[0] >= 5, seen[1] >= 5, seen[2] >= 5);
	swallow(fd);
	say_wait("others", ep, -1);
	if (read(p[0], buf, 1) != 1)
		die("read");
	say_wait("one", ep, -1);
	close(fd);
}

static void *writer(void *arg)
{
	await_asleep(getpid(), getpid());
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

/* ---- deleted and added ---- */

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

/* ---- sets that are polled, and members of which half is on a link ---- */

static void polled_server(int lfd)
{
	int ep = new_set(), fd = answer(lfd);
	struct data d = DATA(0);
	int r;
	ssize_t n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	add(ep, fd, EPOLLIN, 5);
	for (;;) {
		struct epoll_event ev;

		if (poll_one(ep, 10000) != POLLIN)
			die("poll");
		r = epoll_wait(ep, &ev, 1, 0);
		/* The peer may ring the doorbell when its bytes have been taken already. */
		if (r == 0 && in_vain++ < 60)
			continue;
		if (r != 1)
			die("epoll_wait");
		n = echo_some(fd, &d);
		if (n <= 0)
			break;
	}
	say_data("got", &d);
	close(fd);
}

/* A stream is reset, and only then its set is polled, or a number of it closed. */
static void broken_server(int lfd)
{
	int fd = begin(lfd), copy = dup(fd), ep = new_set(), other = new_set(),
	    late = new_set(), last = new_set();
	struct epoll_event ev = {0};

	add(ep, fd, EPOLLIN, 1);
	add(other, copy, EPOLLIN, 2);
	send_go(fd);
	while (!(ev.events & EPOLLHUP) && epoll_wait(ep, &ev, 1, 5000) == 1)
		;
	add(last, fd, EPOLLIN | EPOLLEXCLUSIVE, 4);
	say_result("twice", control(last, EPOLL_CTL_ADD, fd, EPOLLIN, 5));
	add(late, fd, EPOLLIN, 1);
	say("poll: %d", poll_one(late, 5000));
	say("poll: %d", poll_one(ep, 5000));
	say_result("twice", control(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 3));
	say("wait: %d", epoll_wait(ep, &ev, 1, 0));
	say("data: %d", ev.data.u32);
	close(copy);
	say("closed: %d", epoll_wait(other, &ev, 1, 5000));
	say("data: %d", ev.data.u32);
	close(fd);
}

static void broken_client(void)
{
	int fd = begin_client();

	await_go(fd);
	close_by_reset(fd);
}

/* Both directions have ended, and only then a number is closed. */
static void hung_server(int lfd)
{
	int fd = begin(lfd), copy = dup(fd), ep = new_set();
	struct epoll_event ev = {0};

	add(ep, fd, EPOLLIN | EPOLLRDHUP, 1);
	shutdown(fd, SHUT_WR);
	while (!(ev.events & EPOLLHUP) && epoll_wait(ep, &ev, 1, 5000) == 1)
		;
	say_wait("hung up", ep, 5000);
	close(fd);
	say_wait("closed", ep, 5000);
	close(copy);
	say_wait("no number left", ep, 0);
}

static void hung_client(void)
{
	int fd = begin_client();

	say("end: %zu", take(fd, buf, 1));
	close(fd);
}

static void *modified_waiter(void *arg)
{
	struct epoll_event ev;

	say("woken: %d", epoll_wait(*(int *)arg, &ev, 1, 5000));
	return NULL;
}

/* A set is not ready because a thread was woken in the one before.  Ten times, more often than
 * poll_idle() bears what the peer may do. */
static void idle_server(int lfd)
{
	int fd = begin(lfd), ep;
	pthread_t t;

	for (int i = 0; i < 10; i++) {
		ep = new_set();
		add(ep, fd, EPOLLIN, 1);
		t = start_asleep(modified_waiter, &ep);
		mod(ep, fd, EPOLLOUT, 2);
		pthread_join(t, NULL);
		close(ep);
		ep = new_set();
		add(ep, fd, EPOLLIN, 3);
		say("poll: %d", poll_idle(ep, ep));
		close(ep);
	}
	send_go(fd);
	close(fd);
}

static void idle_client(void)
{
	int fd = begin_client();

	await_go(fd);
	close(fd);
}

/* The peer returns to TCP, while our direction has ended on the link; what it sends then is
 * an edge, although bytes from before lie there and another member is always ready. */
static void half_server(int lfd)
{
	int fd = begin(lfd), ep = new_set(), found = 0;
	struct epoll_event ev[4];

	add(ep, eventfd(1, 0), EPOLLIN, 9);
	add(ep, fd, EPOLLIN | EPOLLET, 1);
	shutdown(fd, SHUT_WR);
	await_post("plain");
	for (int i = 0; i < 20; i++) {
		epoll_wait(ep, ev, 4, 0);
		nap(2);
	}
	post("waited");
	await_readable(fd, 2 * MESSAGE);
	for (int i = 0; i < 100 && !found; i++)
		for (int n = epoll_wait(ep, ev, 4, 0); n > 0; n--)
			found |= ev[n - 1].data.u64 == 1;
	say("edge: %d", found);
	post("seen");
	close(fd);
}

static void half_client(void)
{
	int fd = begin_client(), ep = new_set();

	say("end: %zu", take(fd, buf, 1));
	message(fd);
	add(ep, fd, EPOLLIN, 1);
	say("poll: %d", poll_one(ep, 5000));
	post("plain");
	await_post("waited");
	message(fd);
	await_post("seen");
	close(fd);
}

const struct tcp_case cases[] = {
	{"errors", errors_server, obey_client},
	{"sets", sets_server, obey_client},
	{"exclusive", exclusive_server, obey_client},
	{"nested", nested_server, obey_client},
	{"fair", fair_server, obey_client},
	{"again", again_server, obey_client},
	{"toggled", toggled_server, obey_client},
	{"changed", changed_server, obey_client},
	{"polled", polled_server, ping_client},
	{"broken", broken_server, broken_client},
	{"hung", hung_server, hung_client},
	{"idle", idle_server, idle_client},
	{"half", half_server, half_client},
	{0},
};
