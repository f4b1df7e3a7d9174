/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_nest.c - epoll sets that are themselves waited for: whether the kernel says of them
 * what they have to report, as soon as that changes.
 */
#include "epoll.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/select.h>

#define ROUNDS 300

/* ---- exchanges ---- */

static int outer_set(int inner, uint32_t events)
{
	int outer = new_set();

	add(outer, inner, events, 7);
	return outer;
}

/* Echoes n bytes; each wait on the outer set finds the inner one ready, and that has
 * the stream. */
static void echo_nested(int fd, int inner, int outer, size_t n)
{
	struct epoll_event ev;

	for (size_t got = 0; got < n;) {
		ssize_t r;

		if (epoll_wait(outer, &ev, 1, 20000) != 1 || ev.data.u64 != 7)
			die("outer");
		r = epoll_wait(inner, &ev, 1, 0);
		if (r == 0 && in_vain++ < ROUNDS / 4)
			continue;
		if (r != 1 || ev.data.u64 != 1)
			die("inner");
		r = read(fd, buf, sizeof(buf));
		if (r <= 0)
			die("read");
		put(fd, buf, (size_t)r);
		got += (size_t)r;
	}
}

static void exchange_server(int lfd)
{
	int inner = new_set(), outer = outer_set(inner, EPOLLIN), fd = answer(lfd);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	add(inner, fd, EPOLLIN, 1);
	for (int i = 0; i < ROUNDS; i++)
		echo_nested(fd, inner, outer, 64);
	for (int i = 0; i < ROUNDS; i++)
		echo_nested(fd, inner, outer, sizeof(buf));
	say("ready: %x, %x", poll_idle(inner, inner), poll_idle(inner, outer));
	close(fd);
}

static void exchange(int fd, struct data *out, struct data *in, size_t n)
{
	static char back[sizeof(buf)];

	for (int i = 0; i < ROUNDS; i++) {
		data_fill(out, buf, n);
		put(fd, buf, n);
		if (take(fd, back, n) != n)
			die("take");
		data_sum(in, back, n);
	}
}

static void exchange_client(void)
{
	struct data out = DATA(3), in = DATA(3);
	int fd = dial();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	exchange(fd, &out, &in, 64);
	exchange(fd, &out, &in, sizeof(buf));
	say_data("sent", &out);
	say_data("got", &in);
	await_end(fd);	/* our end would be something to read, too */
	close(fd);
}

/* ---- what makes a set ready, and not ready ---- */

/* Bytes are taken without a wait on the set. */
static void taken_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer = outer_set(inner, EPOLLIN);

	unblock(fd);
	for (int edge = 0; edge < 2; edge++) {
		add(inner, fd, EPOLLIN | (edge ? EPOLLET : 0), 1);
		for (int i = 0; i < 20; i++) {
			order(fd);
			say("there: %x %x", poll_one(inner, 5000), poll_one(outer, 5000));
			if (i % 2)
				say_wait("inner", inner, 0);
			if (take(fd, buf, MESSAGE / 2) != MESSAGE / 2)
				die("take");
			if (!edge || i % 2 == 0)
				say("half: %x", poll_one(inner, 0));
			if (take(fd, buf, MESSAGE / 2) != MESSAGE / 2)
				die("take");
			say("taken: %x %x", poll_idle(inner, inner), poll_idle(inner, outer));
			say_wait("inner", inner, 0);
		}
		del(inner, fd);
	}
	close(fd);
}

/* Entries that are deleted, changed, or have fired once. */
static void entry_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), third = new_set();
	int outer = outer_set(inner, EPOLLIN);

	add(third, outer, EPOLLIN, 3);
	add(inner, fd, EPOLLIN | EPOLLONESHOT, 1);
	for (int i = 0; i < 5; i++) {
		order(fd);
		say_wait("third", third, 5000);
		say_wait("once", inner, 5000);
		say("fired: %x %x", poll_idle(inner, inner), poll_idle(inner, third));
		order(fd);
		say("more: %x", poll_idle(inner, inner));
		mod(inner, fd, EPOLLIN | EPOLLONESHOT, 2);
		say("armed: %x", poll_one(outer, 0));
		del(inner, fd);
		say("deleted: %x", poll_idle(inner, inner));
		order(fd);
		say("more: %x", poll_idle(inner, inner));
		add(inner, fd, EPOLLOUT, 4);
		say("room: %x", poll_one(inner, 0));
		say_wait("room", inner, 0);
		mod(inner, fd, EPOLLIN | EPOLLONESHOT, 5);
		say("added: %x", poll_one(outer, 0));
		for (int k = 0; k < 3; k++)
			swallow(fd);
		say("taken: %x", poll_idle(inner, outer));
	}
	close(inner);
	say("closed: %x", poll_one(outer, 0));
	close(fd);
}

/* The outer set is edge-triggered: each message is an edge, whether the last one was taken
 * or not. */
static void edge_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer;

	add(inner, fd, EPOLLIN, 1);
	outer = outer_set(inner, EPOLLIN | EPOLLET);
	for (int i = 0; i < 10; i++) {
		order(fd);
		say_wait("edge", outer, 5000);
		say_no_edge("no edge", outer);
		say_wait("inner", inner, 0);
		say_no_edge("no edge", outer);
		order(fd);
		say_wait("edge", outer, 5000);
		say_wait("inner", inner, 0);
		swallow(fd);
		order(fd);
		say_wait("edge", outer, 5000);
		swallow(fd);
		swallow(fd);
		say_no_edge("none", outer);
	}
	close(fd);
}

/* ---- a set becomes nested ---- */

static void *wait_in(void *ep)
{
	struct epoll_event ev;

	say("asleep: %d", epoll_wait(*(int *)ep, &ev, 1, 20000));
	return NULL;
}

/* While a thread sleeps in it; and behind a wait that has found its stream ready, or not. */
static void late_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer, other = new_set();
	pthread_t t;

	add(inner, fd, EPOLLIN, 1);
	t = start_asleep(wait_in, &inner);
	outer = outer_set(inner, EPOLLIN);
	order(fd);
	pthread_join(t, NULL);
	say_wait("outer", outer, 5000);
	say_wait("inner", inner, 0);
	swallow(fd);
	say_idle("outer", inner, outer);
	del(inner, fd);
	for (int i = 0; i < 2; i++) {
		other = new_set();
		add(other, fd, EPOLLIN, 1);
		if (i)
			order(fd);
		say_wait("ordinary", other, 0);
		outer = outer_set(other, EPOLLIN);
		say("nested: %x", i ? poll_one(other, 0) : poll_idle(other, other));
		if (!i)
			order(fd);
		say_wait("outer", outer, 5000);
		swallow(fd);
		say_idle("outer", other, outer);
		close(other);
		close(outer);
	}
	close(fd);
}

/* ---- who waits ---- */

/* What the kernel refuses, and what is as before then. */
static void refused_server(int lfd)
{
	int fd = begin(lfd), a = new_set(), b = new_set(), chain[7];

	add(a, fd, EPOLLIN, 1);
	say_result("itself", control(a, EPOLL_CTL_ADD, a, EPOLLIN, 2));
	add(b, a, EPOLLIN, 3);
	say_result("circle", control(a, EPOLL_CTL_ADD, b, EPOLLIN, 4));
	say_result("twice", control(b, EPOLL_CTL_ADD, a, EPOLLIN, 5));
	say_result("exclusive", control(new_set(), EPOLL_CTL_ADD, a, EPOLLIN | EPOLLEXCLUSIVE, 6));
	say_result("closed", control(-1, EPOLL_CTL_ADD, a, EPOLLIN, 7));
	for (size_t i = 0; i < COUNT(chain); i++) {
		chain[i] = new_set();
		say_result("chain", control(chain[i], EPOLL_CTL_ADD, i ? chain[i - 1] : a,
					    EPOLLIN, 8 + i));
	}
	for (int i = 0; i < 5; i++) {
		order(fd);
		say("inner %x, outer %x", poll_one(a, 5000), poll_one(b, 5000));
		for (size_t k = 0; k < COUNT(chain); k++)
			say("chain %x", poll_one(chain[k], 0));
		swallow(fd);
		say("inner %x, outer %x, chain %x", poll_idle(a, a), poll_idle(a, b),
		    poll_idle(a, chain[2]));
	}
	close(fd);
}

struct waiter {
	int fd, how;
};

/* 1, if it was woken because the set is ready. */
static void *wait_for(void *arg)
{
	const struct waiter *w = arg;
	const struct timespec ts = {20, 0};
	struct pollfd p = {w->fd, POLLIN, 0};
	struct timeval tv = {20, 0};
	struct epoll_event ev;
	sigset_t none;
	fd_set set;

	sigemptyset(&none);
	FD_ZERO(&set);
	FD_SET(w->fd, &set);
	switch (w->how) {
	case 0: say_result("poll", poll(&p, 1, 20000)); break;
	case 1: say_result("ppoll", ppoll(&p, 1, &ts, &none)); break;
	case 2: say_result("select", select(w->fd + 1, &set, NULL, NULL, &tv)); break;
	case 3: say_result("pselect", pselect(w->fd + 1, &set, NULL, NULL, &ts, &none)); break;
	case 4: say_result("epoll_wait", epoll_wait(w->fd, &ev, 1, 20000)); break;
	default: say_result("epoll_pwait2", epoll_pwait2(w->fd, &ev, 1, &ts, &none)); break;
	}
	return NULL;
}

/* A thread is asleep, by each call, on a set and on one that has it; a message comes, and the
 * end.  Of the outer sets one fires once. */
static void asleep_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer = new_set(), once = new_set(), have;
	struct waiter w;
	pthread_t t;

	add(inner, fd, EPOLLIN, 1);
	add(outer, inner, EPOLLIN, 2);
	add(once, inner, EPOLLIN | EPOLLONESHOT, 3);
	for (int i = 0; i < 18; i++) {
		w = (struct waiter){i % 3 == 0 ? inner : i % 3 == 1 ? outer : once, i / 3};
		t = start_asleep(wait_for, &w);
		send_go(fd);
		pthread_join(t, NULL);
		say_wait("once", once, 0);
		swallow(fd);
		say("taken: %x %x %x", poll_idle(inner, inner), poll_idle(inner, outer),
		    poll_idle(inner, once));
		mod(once, inner, EPOLLIN | EPOLLONESHOT, 3);
	}
	if (ioctl(fd, FIONREAD, &have))
		die("FIONREAD");
	w = (struct waiter){outer, 4};
	t = start_asleep(wait_for, &w);
	post("end");
	pthread_join(t, NULL);
	say("unread: %d, end: %x", have, poll_one(outer, 0));
	say_wait("inner", inner, 0);
	say("read: %zu", take(fd, buf, 1));
	say_wait("outer", outer, 0);
	close(fd);
	say("closed: %x", poll_one(outer, 0));
}

static void asleep_client(void)
{
	int fd = begin_client();

	for (int i = 0; i < 18; i++) {
		await_go(fd);
		message(fd);
	}
	await_post("end");
	await_peer_asleep();
	close(fd);
}

/* The set has two numbers, and the one by which it is in the outer set is closed. */
static void numbers_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer = outer_set(inner, EPOLLIN), copy = dup(inner);

	add(copy, fd, EPOLLIN, 1);
	order(fd);
	say_wait("outer", outer, 5000);
	swallow(fd);
	close(inner);
	say_idle("outer", copy, outer);
	for (int i = 0; i < 3; i++) {
		order(fd);
		say_wait("outer", outer, 5000);
		say_wait("copy", copy, 0);
		say("copy: %x", poll_one(copy, 0));
		swallow(fd);
		say_idle("outer", copy, outer);
	}
	order(fd);
	close(copy);
	say_wait("outer", outer, 0);
	copy = new_set();
	add(copy, fd, EPOLLIN, 4);
	say("copy: %x", poll_one(copy, 0));
	swallow(fd);
	say("copy: %x", poll_idle(copy, copy));
	close(fd);
}

/* ---- told, and not taken ---- */

enum { SAME, THREAD, INNER_THREAD, HALF, COPY, THIRD, BESIDE, CHILD, OTHERS };

static void wait_in_child(int set)
{
	pid_t pid = split();

	if (pid == 0) {
		say_wait("child", set, 5000);
		fflush(stdout);
		_exit(0);
	}
	reap(pid);
}

/* One wait has told of a message that nobody takes: who waits next is told, too. */
static void tell_other(int who, int fd, int inner, int outer, int other)
{
	struct waiter w = {who == INNER_THREAD ? inner : outer, 4};
	pthread_t t;

	if (who == THREAD || who == INNER_THREAD) {
		if (pthread_create(&t, NULL, wait_for, &w))
			die("pthread_create");
		pthread_join(t, NULL);
	} else if (who == CHILD) {
		wait_in_child(outer);
	} else {
		if (who == HALF)
			take(fd, buf, MESSAGE / 2);
		say_wait("again", who == COPY || who == THIRD ? other : outer, 5000);
	}
}

/* (poll() is a waiter whom nobody knows, so it is not called.) */
static void say_taken(int inner, int outer)
{
	struct epoll_event ev;

	while (epoll_wait(outer, &ev, 1, 0) && in_vain < 10 && !epoll_wait(inner, &ev, 1, 0))
		in_vain++;
	say_wait("taken", outer, 0);
}

/* A thread sleeps in the outer set when the message comes, so that the message rings. */
static void untaken(int who, int fd)
{
	int inner = new_set(), outer = outer_set(inner, EPOLLIN), other = -1;
	struct waiter asleep = {outer, 4};
	pthread_t t;

	if (who == COPY)
		other = dup(outer);
	if (who == THIRD || who == BESIDE)
		other = outer_set(who == THIRD ? outer : inner, EPOLLIN);
	add(inner, fd, EPOLLIN, 1);
	for (int i = 0; i < 3; i++) {
		t = start_asleep(wait_for, &asleep);
		send_go(fd);
		pthread_join(t, NULL);
		say_wait("inner", inner, 5000);
		tell_other(who, fd, inner, outer, other);
		take(fd, buf, who == HALF ? MESSAGE / 2 : MESSAGE);
		say_taken(inner, outer);
	}
	close(inner);
	close(outer);
	if (other >= 0)
		close(other);
}

static void untaken_server(int lfd)
{
	int fd = begin(lfd);

	for (int who = 0; who < OTHERS; who++)
		untaken(who, fd);
	close(fd);
}

/* Room, and no room. */
static const char *const full[] = { "full0", "full1", "full2" };
static const char *const taken[] = { "taken0", "taken1", "taken2" };

static void room_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer = outer_set(inner, EPOLLIN);

	unblock(fd);
	add(inner, fd, EPOLLOUT, 1);
	for (int i = 0; i < 3; i++) {
		say("room: %x %x", poll_one(inner, 0), poll_one(outer, 0));
		while (send(fd, buf, sizeof(buf), 0) > 0 || poll_one(fd, 0) & POLLOUT)
			;
		say("none: %x %x", poll_idle(inner, inner), poll_idle(inner, outer));
		post(full[i]);
		say_wait("outer", outer, 20000);
		say_wait("inner", inner, 0);
		await_post(taken[i]);	/* or what comes next would be taken at once, too */
	}
	close(fd);
}

static void room_client(void)
{
	static char sink[1 << 16];
	int fd = begin_client();
	ssize_t n;

	for (int i = 0; i < 3; i++) {
		await_post(full[i]);
		await_peer_asleep();
		while ((n = recv(fd, sink, sizeof(sink), MSG_DONTWAIT)) > 0)
			;
		post(taken[i]);
	}
	while ((n = recv(fd, sink, sizeof(sink), 0)) > 0)
		;
	close(fd);
}

/* ---- other processes ---- */

/* The set that is waited for is another process's to wait for, too: it has the outer one from
 * its parent, or in a message; the parent reads. */
static void shared_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer = outer_set(inner, EPOLLIN), s[2], ep;
	pid_t pid;
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		die("socketpair");
	add(inner, fd, EPOLLIN, 1);
	order(fd);
	swallow(fd);
	pid = split();
	if (pid == 0) {
		ep = outer;
		for (int i = 0; i < 4; i++) {
			if (i == 2)
				ep = receive_fd(s[1]);
			say_wait("child", ep, 20000);
			put(s[1], "x", 1);
			take(s[1], &c, 1);
			say_idle("child: read", inner, ep);
			put(s[1], "x", 1);
		}
		fflush(stdout);
		_exit(0);
	}
	for (int i = 0; i < 4; i++) {
		if (i == 2)
			send_fd(s[0], outer);
		order(fd);
		take(s[0], &c, 1);
		say_wait("inner", inner, 0);
		swallow(fd);
		put(s[0], "x", 1);
		take(s[0], &c, 1);
	}
	reap(pid);
	close(fd);
}

/* How many writes this process has made; 0 where the kernel does not count them. */
static unsigned long writes(void)
{
	unsigned long n = 0;
	FILE *f = fopen("/proc/self/io", "re");
	char line[64];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "syscw: %lu", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

static void stop_peer(pid_t pid)
{
	uint64_t end = 0;

	kill(pid, SIGSTOP);
	while (thread_state(pid, pid) != 'T')
		if (!patient(&end))
			die("stop_peer");
}

/* The set has a message, and so has its child, which waits until the peer goes on: that must
 * answer before the stream is the child's, too.  Each look of the child at what is its parent's
 * makes a write. */
static void stopped_server(int lfd)
{
	int fd = begin(lfd), inner = new_set();
	pid_t peer = peer_pid(), pid;
	unsigned long before;

	outer_set(inner, EPOLLIN);
	add(inner, fd, EPOLLIN, 1);
	order(fd);
	say_wait("parent", inner, 20000);
	stop_peer(peer);
	pid = split();
	if (pid == 0) {
		before = writes();
		say_wait("child", inner, 20000);
		before = writes() - before;
		say("looks: %lu", before < 3000 ? 0 : before);
		fflush(stdout);
		_exit(0);
	}
	nap(500);
	kill(peer, SIGCONT);
	reap(pid);
	say_wait("parent", inner, 20000);
	swallow(fd);
	close(fd);
}

/* ---- changes ---- */

/* Each round of a loop changes an entry, as libevent's does; that changes nothing of what the set
 * has, and nobody else need hear of it. */
static void changed_server(int lfd)
{
	int fd = begin(lfd), inner = new_set(), outer = outer_set(inner, EPOLLIN);
	unsigned long n;

	add(inner, fd, EPOLLIN, 1);
	order(fd);
	say_wait("outer", outer, 5000);
	swallow(fd);
	n = writes();
	for (uint64_t i = 0; i < ROUNDS; i++) {
		mod(inner, fd, EPOLLIN, i);
		nap(1);
	}
	n = writes() - n;
	say("writes: %lu", n < ROUNDS / 10 ? 0 : n);
	order(fd);
	say_wait("outer", outer, 5000);
	say_wait("inner", inner, 0);
	swallow(fd);
	close(fd);
}

/* ---- threads ---- */

enum { STREAMS = 3, THREADS = 3, TURNS = 400 };

static struct crowd {
	int inner, outer, stop, fd[STREAMS];
	atomic_int left;	/* bytes of the last turn */
} crowd;

static void echo_crowd(int fd)
{
	char b[64];
	ssize_t n;
	int last;

	while ((n = recv(fd, b, sizeof(b), MSG_DONTWAIT)) > 0) {
		put(fd, b, (size_t)n);
		last = 0;
		for (ssize_t i = 0; i < n; i++)
			last += b[i] == 'z';
		if (last && atomic_fetch_sub(&crowd.left, last) == last)
			add(crowd.inner, crowd.stop, EPOLLIN, (uint64_t)crowd.stop);
	}
	mod(crowd.inner, fd, EPOLLIN | EPOLLONESHOT, (uint64_t)fd);
}

/* Some threads wait for the outer set, others for the inner one; what each finds there
 * first is its own until it has answered. */
static void *serve(void *arg)
{
	bool outside = arg;
	struct epoll_event ev = {0}, out;

	while (ev.data.fd != crowd.stop) {
		if (outside && epoll_wait(crowd.outer, &out, 1, -1) < 1)
			die("outer");
		if (epoll_wait(crowd.inner, &ev, 1, outside ? 0 : -1) == 1 &&
		    ev.data.fd != crowd.stop)
			echo_crowd(ev.data.fd);
	}
	return NULL;
}

static void crowd_server(int lfd)
{
	pthread_t t[THREADS];

	crowd.inner = new_set();
	crowd.outer = outer_set(crowd.inner, EPOLLIN);
	crowd.stop = eventfd(1, 0);
	crowd.left = 16 * STREAMS;
	for (int i = 0; i < STREAMS; i++) {
		crowd.fd[i] = begin(lfd);
		add(crowd.inner, crowd.fd[i], EPOLLIN | EPOLLONESHOT, (uint64_t)crowd.fd[i]);
	}
	for (int i = 0; i < THREADS; i++)
		t[i] = start(serve, i % 3 != 2 ? &crowd : NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < STREAMS; i++)
		close(crowd.fd[i]);
}

/* Sends to some streams, and waits for all answers. */
static void crowd_client(void)
{
	struct data d = DATA(5);
	int fd[STREAMS];
	unsigned some;
	char b[16];

	for (int i = 0; i < STREAMS; i++)
		fd[i] = begin_client();
	for (int k = 1; k <= TURNS; k++) {
		some = k < TURNS ? 1 + (unsigned)(data_next(&d) % ((1 << STREAMS) - 1)) :
				   (1 << STREAMS) - 1;
		memset(b, k < TURNS ? 'a' : 'z', sizeof(b));
		for (int i = 0; i < STREAMS; i++)
			if (some & 1u << i)
				put(fd[i], b, sizeof(b));
		for (int i = 0; i < STREAMS; i++)
			if ((some & 1u << i) && take(fd[i], b, sizeof(b)) != sizeof(b))
				die("take");
	}
	for (int i = 0; i < STREAMS; i++)
		close(fd[i]);
}

/* ---- edges ---- */

/* A loop that has each stream in its set for bytes and room, as libev's and UCX's have, and
 * answers.  There is room all the time, of which nobody need hear: neither a thread asleep in
 * the outer set, nor the kernel, of which each change of the set is a write.  (With CASE_POSTS
 * each answer may be so many writes, too: a soft device's driver posts by one.) */
static void edges_server(int lfd)
{
	const char *text = getenv("CASE_POSTS");
	unsigned long posts = text ? strtoul(text, NULL, 10) * ROUNDS : 0;
	int inner = new_set(), outer = outer_set(inner, EPOLLIN), fd = answer(lfd);
	struct epoll_event ev;
	unsigned long n = 0;
	int rounds = 0, vain = 0, r;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	unblock(fd);
	add(inner, fd, EPOLLIN | EPOLLOUT | EPOLLET, 1);
	for (int i = 0; i < 2 * ROUNDS; rounds++) {
		if (rounds == ROUNDS)
			n = writes();
		if (epoll_wait(outer, &ev, 1, 20000) != 1)
			die("outer");
		vain += epoll_wait(inner, &ev, 1, 0) != 1 && rounds >= ROUNDS;
		for (r = 0; recv(fd, buf, 64, 0) > 0;)
			r++;
		for (; r; r--, i++)
			put(fd, buf, 64);
	}
	n = writes() - n;
	say("writes: %lu, in vain: %d", n < posts + ROUNDS / 4 ? 0 : n, vain < ROUNDS / 4 ? 0 : vain);
	close(fd);
}

static void edges_client(void)
{
	int fd = dial();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (int i = 0; i < 2 * ROUNDS; i++) {
		put(fd, buf, 64);
		if (take(fd, buf, 64) != 64)
			die("take");
	}
	close(fd);
}

const struct tcp_case cases[] = {
	{"exchange", exchange_server, exchange_client},
	{"taken", taken_server, obey_client},
	{"entry", entry_server, obey_client},
	{"edge", edge_server, obey_client},
	{"late", late_server, obey_client},
	{"refused", refused_server, obey_client},
	{"asleep", asleep_server, asleep_client},
	{"numbers", numbers_server, obey_client},
	{"untaken", untaken_server, obey_client},
	{"room", room_server, room_client},
	{"shared", shared_server, obey_client},
	{"stopped", stopped_server, obey_client},
	{"changed", changed_server, obey_client},
	{"crowd", crowd_server, crowd_client},
	{"edges", edges_server, edges_client},
	{0},
};
