/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* poll.c - waiting: poll, select and their twins, epoll, non-blocking I/O. */
#include "case.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>

static char buf[1 << 17];

static int wait_for(int fd, short events, int ms)
{
	struct pollfd p = {fd, events, 0x5555};
	int n = poll(&p, 1, ms);

	return n < 0 ? -1 : n ? p.revents : 0;
}

static void say_poll(const char *what, int revents)
{
	static const struct {
		int bit;
		const char *name;
	} bits[] = {{POLLIN, "IN"},	{POLLPRI, "PRI"},
		    {POLLOUT, "OUT"},	{POLLRDHUP, "RDHUP"},
		    {POLLERR, "ERR"},	{POLLHUP, "HUP"},
		    {POLLNVAL, "NVAL"}, {POLLRDNORM, "RDNORM"},
		    {POLLWRNORM, "WRNORM"}};
	char line[100] = "";

	for (size_t i = 0; i < COUNT(bits); i++)
		if (revents & bits[i].bit) {
			strcat(line, " ");
			strcat(line, bits[i].name);
		}
	say("%s:%s", what, revents < 0 ? " -1" : line);
}

#define ALL (POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM)

/* The other end of fill_up(): until nothing has come for a while. */
static void await_full(int fd)
{
	int before, n = 0;

	do {
		nap(800);
		before = n;
		if (ioctl(fd, FIONREAD, &n))
			die("FIONREAD");
	} while (!n || n != before);
}

static void poll_server(int lfd)
{
	int fd;
	uint64_t t;
	struct data d = DATA(0);

	say_poll("listening", wait_for(lfd, ALL, 10000));
	fd = answer(lfd);
	say_poll("no more", wait_for(lfd, ALL, 0));
	warm_up(fd, false);
	say_poll("idle", wait_for(fd, ALL, 0));
	say_poll("idle, in", wait_for(fd, POLLIN, 0));
	t = now_ms();
	say_poll("idle, 60 ms", wait_for(fd, POLLIN, 60));
	say("waited: %d", now_ms() - t >= 59);
	send_go(fd);
	say_poll("sleep", wait_for(fd, POLLIN, 10000));
	wait_for(fd, POLLOUT, 10000); /* a direction that switches takes nothing */
	say_poll("data", wait_for(fd, ALL, 0));
	say_poll("again", wait_for(fd, POLLIN, 0));
	await_go(fd);
	say_poll("taken", wait_for(fd, POLLIN, 0));
	fill_up(fd);
	say_poll("full", wait_for(fd, ALL, 0));
	say_poll("room", wait_for(fd, POLLOUT, 10000) & POLLOUT);
	shutdown(fd, SHUT_WR);
	say_poll("peer's end", wait_for(fd, POLLRDHUP, 10000));
	say_poll("both ended", wait_for(fd, ALL, 0));
	take_rest(fd, &d);
	say_data("rest", &d);
	say_poll("both ended", wait_for(fd, 0, 0));
	close(fd);
	say_poll("closed", wait_for(fd, ALL, 0));
}

static void poll_client(void)
{
	int fd = dial();
	struct data d = DATA(0);

	warm_up(fd, true);
	await_go(fd);
	nap(50);
	send_go(fd);
	await_full(fd);
	take_rest(fd, &d);
	say("%s", d.bytes > 100000 ? "much" : "little");
	say_poll("end", wait_for(fd, ALL, 0));
	put(fd, "last", 4);
	shutdown(fd, SHUT_WR);
	close(fd);
}

/* Everything select does, with a pipe in the set too. */
static int do_select(int fd, int other, int which, long usec, sigset_t *mask)
{
	struct timespec ts = {0, usec * 1000};
	struct timeval tv = {0, usec};
	fd_set r, w, e;
	int max = (fd > other ? fd : other) + 1, n;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(fd, &r);
	FD_SET(other, &r);
	FD_SET(fd, &e);
	if (which)
		FD_SET(fd, &w);
	n = mask ? pselect(max, &r, &w, &e, usec < 0 ? NULL : &ts, mask)
		 : select(max, &r, &w, &e, usec < 0 ? NULL : &tv);
	if (n < 0)
		return -errno;
	return n | FD_ISSET(fd, &r) << 8 | FD_ISSET(other, &r) << 9 |
	       FD_ISSET(fd, &w) << 10 | FD_ISSET(fd, &e) << 11;
}

static void select_server(int lfd)
{
	int fd = answer(lfd), p[2];
	sigset_t none;
	uint64_t t;

	sigemptyset(&none);
	if (pipe(p))
		die("pipe");
	warm_up(fd, false);
	say("idle %x", do_select(fd, p[0], 0, 0, NULL));
	t = now_ms();
	say("timeout %x", do_select(fd, p[0], 0, 60000, NULL));
	say("ptimeout %x", do_select(fd, p[0], 0, 60000, &none));
	say("waited %d", now_ms() - t >= 119);
	say("out %x", do_select(fd, p[0], 1, -1, NULL));
	send_go(fd);
	say("sleep %x", do_select(fd, p[0], 0, -1, NULL));
	if (write(p[1], "x", 1) != 1)
		die("write");
	say("both %x", do_select(fd, p[0], 1, -1, NULL));
	await_go(fd);
	say("pipe %x", do_select(fd, p[0], 1, -1, &none));
	if (read(p[0], buf, 1) != 1)
		die("read");
	fill_up(fd);
	say("full %x", do_select(fd, p[0], 1, 20000, NULL));
	shutdown(fd, SHUT_WR);
	say("end %x", do_select(fd, p[0], 0, -1, NULL));
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
	say("closed %d", do_select(fd, p[0], 0, 0, NULL));
}

static void select_client(void)
{
	int fd = dial();
	struct data d = DATA(0);

	warm_up(fd, true);
	await_go(fd);
	nap(50);
	send_go(fd);
	await_full(fd);
	take_rest(fd, &d);
	say("%s", d.bytes > 100000 ? "much" : "little");
	close(fd);
}

/* One loop moves both directions at once, without ever blocking. */
static void pump(int fd, size_t total, bool by_select)
{
	struct data out = DATA(31), in = DATA(0);
	static char obuf[40000], ibuf[50000];
	size_t left = total, have = 0, at = 0;
	bool ended = false;

	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	while (!ended || left || have) {
		short events = (short)((ended ? 0 : POLLIN) |
				       (left || have ? POLLOUT : 0));
		int got;

		if (by_select) {
			fd_set r, w;

			FD_ZERO(&r);
			FD_ZERO(&w);
			if (events & POLLIN)
				FD_SET(fd, &r);
			if (events & POLLOUT)
				FD_SET(fd, &w);
			if (select(fd + 1, &r, &w, NULL, NULL) < 1)
				die("select");
			got = (FD_ISSET(fd, &r) ? POLLIN : 0) |
			      (FD_ISSET(fd, &w) ? POLLOUT : 0);
		} else {
			got = wait_for(fd, events, -1);
		}
		if (got & (POLLIN | POLLHUP | POLLERR) && !ended) {
			ssize_t n = read(fd, ibuf, sizeof(ibuf));

			if (n < 0 && errno != EAGAIN)
				die("read");
			ended = n == 0;
			if (n > 0)
				data_sum(&in, ibuf, (size_t)n);
		}
		if (got & POLLOUT) {
			ssize_t n;

			if (!have) {
				have = left < sizeof(obuf) ? left : sizeof(obuf);
				data_fill(&out, obuf, have);
				left -= have;
				at = 0;
			}
			n = write(fd, obuf + at, have);
			if (n < 0 && errno != EAGAIN)
				die("write");
			if (n > 0) {
				at += (size_t)n;
				have -= (size_t)n;
			}
			if (!left && !have)
				shutdown(fd, SHUT_WR);
		}
	}
	say_data("sent", &out);
	say_data("got", &in);
	close(fd);
}

static void nonblock_server(int lfd)
{
	int fd;

	fcntl(lfd, F_SETFL, O_NONBLOCK);
	say_poll("listening", wait_for(lfd, POLLIN, 10000));
	fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	say("nonblock %d cloexec %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK),
	    fcntl(fd, F_GETFD));
	say_result("accept", accept(lfd, NULL, NULL));
	pump(fd, 6000000, false);
}

static void nonblock_client(void)
{
	int fd = new_socket(SOCK_NONBLOCK);
	int n = connect(fd, (struct sockaddr *)&peer_addr, peer_len);

	if (n < 0 && errno != EINPROGRESS)
		die("connect");
	say_poll("connected", wait_for(fd, POLLOUT, 10000));
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	say_result("again", connect(fd, (struct sockaddr *)&peer_addr, peer_len));
	say_result("again", connect(fd, (struct sockaddr *)&peer_addr, peer_len));
	pump(fd, 6000000, false);
}

static void select_pump_server(int lfd)
{
	pump(answer(lfd), 4000000, true);
}

static void select_pump_client(void)
{
	pump(dial(), 4000000, true);
}

/* Small messages at intervals: each finds the other end asleep in a wait that
 * began before it was sent. */
static void sleeper_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);
	int how = 0;
	ssize_t n;

	do {
		sigset_t none;
		struct timespec t = {10, 0};
		struct pollfd p = {fd, POLLIN, 0};

		sigemptyset(&none);
		switch (how++ % 4) {
		case 0:
			if (wait_for(fd, POLLIN, -1) < 1)
				die("poll");
			break;
		case 1:
			if (do_select(fd, 0, 0, -1, NULL) < 0)
				die("select");
			break;
		case 2:
			if (ppoll(&p, 1, &t, &none) < 1)
				die("ppoll");
			break;
		default:
			break;
		}
		n = recv(fd, buf, 500, 0);
		if (n < 0)
			die("recv");
		data_sum(&d, buf, (size_t)n);
		put(fd, buf, (size_t)n);
	} while (n);
	say_data("got", &d);
	close(fd);
}

/* Who sends little and never blocks finds room, also while a link is made. */
static void room_server(int lfd)
{
	unsigned full = 0;

	for (int k = 0; k < 5; k++) {
		int fd = answer(lfd);

		take(fd, buf, 3000);
		fcntl(fd, F_SETFL, O_NONBLOCK);
		for (int i = 0; i < 300; i++) {
			struct timespec t = {0, 50000};

			full += write(fd, "answer", 6) != 6;
			nanosleep(&t, NULL);
		}
		close(fd);
	}
	say("full %u times", full);
}

static void room_client(void)
{
	for (int k = 0; k < 5; k++) {
		int fd = dial();
		struct data d = DATA(0);

		put(fd, buf, 3000);
		take_rest(fd, &d);
		say_data("got", &d);
		close(fd);
	}
}

/* A stream that is always ready does not hide the others in its set. */
static void busy_server(int lfd)
{
	int fd = answer(lfd), pipes[2];
	struct pollfd p[2] = {{fd, POLLIN, 0}, {0, POLLIN, 0}};
	unsigned calls, seen = 0;

	warm_up(fd, false);
	if (pipe(pipes))
		die("pipe");
	p[1].fd = pipes[0];
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 200; i++)
			if (poll(p, 2, -1) < 1 || recv(fd, buf, 32, 0) < 1)
				die("busy");
		if (write(pipes[1], "x", 1) != 1)
			die("write");
		for (calls = 0; calls < 200; calls++) {
			if (poll(p, 2, -1) < 1 || recv(fd, buf, 32, 0) < 1)
				die("busy");
			if (p[1].revents)
				break;
		}
		seen += calls < 200;
		if (read(pipes[0], buf, 1) != 1)
			die("read");
	}
	say("seen %u times", seen);
	close(fd);
}

static void busy_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	while (send(fd, buf, 32000, MSG_NOSIGNAL) > 0)
		;
	close(fd);
}

static void sleeper_client(void)
{
	int fd = dial();
	struct data d = DATA(32), in = DATA(0);

	for (int i = 0; i < 120; i++) {
		data_fill(&d, buf, 100);
		put(fd, buf, 100);
		take_data(fd, &in, 100, 100);
		if (i % 3 == 0)
			nap(2);
	}
	say_data("sent", &d);
	say_data("got", &in);
	close(fd);
}

/* Sixteen streams in one set. */
static void many_server(int lfd)
{
	struct pollfd p[17] = {{lfd, POLLIN, 0}};
	struct data d[17];
	int n = 1, done = 0;

	while (done < 16) {
		if (poll(p, (nfds_t)n, 10000) < 1)
			die("poll");
		for (int i = n - 1; i > 0; i--) {
			ssize_t k;

			if (!p[i].revents)
				continue;
			k = recv(p[i].fd, buf, sizeof(buf), MSG_DONTWAIT);
			if (k < 0 && errno != EAGAIN)
				die("recv");
			if (k > 0) {
				data_sum(&d[i], buf, (size_t)k);
				put(p[i].fd, buf, (size_t)k);
			} else if (k == 0) {
				close(p[i].fd);
				p[i].fd = -1; /* ignored from now on */
				p[i].revents = 0;
				done++;
			}
		}
		if (p[0].revents && n < 17) {
			p[n] = (struct pollfd){answer(lfd), POLLIN, 0};
			d[n++] = (struct data)DATA(0);
		}
	}
	for (int i = 1; i < 17; i++)
		say_data("stream", &d[i]);
}

static void many_client(void)
{
	int fd[16];
	struct data out[16], in[16];

	for (int i = 0; i < 16; i++) {
		fd[i] = dial();
		out[i] = (struct data)DATA(40 + i);
		in[i] = (struct data)DATA(0);
		data_fill(&out[i], buf, 50);
		put(fd[i], buf, 50);
		take_data(fd[i], &in[i], 50, 50);
	}
	for (int k = 0; k < 20; k++)
		for (int i = 15; i >= 0; i--) {
			size_t n = (size_t)(i + 1) * 100;

			data_fill(&out[i], buf, n);
			put(fd[i], buf, n);
			if (k & 1)
				take_data(fd[i], &in[i], 2 * n, 999);
		}
	for (int i = 0; i < 16; i++) {
		say("%s", in[i].crc == out[i].crc ? "equal" : "DIFFERS");
		close(fd[i]);
	}
}

static void odd_sets_server(int lfd)
{
	int fd = answer(lfd);
	struct pollfd p[5] = {{fd, POLLIN, 0},
			      {-1, POLLIN, 9},
			      {fd, POLLOUT, 0},
			      {900, POLLIN, 0},
			      {fd, 0, 0}};

	warm_up(fd, false);
	send_go(fd);
	await_readable(fd, 1);
	say("poll: %d", poll(p, 5, 1000));
	for (int i = 0; i < 5; i++)
		say_poll("entry", p[i].revents);
	say_result("none", poll(NULL, 0, 10));
	await_go(fd);
	close(fd);
}

/* Sets of as many as there may be open, and of more. */
enum { MOST = 100 };

static void many_entries_server(int lfd)
{
	struct rlimit l = {MOST, MOST};
	struct timespec t = {10, 0};
	struct pollfd p[MOST + 1];
	int fd = answer(lfd);

	warm_up(fd, false);
	for (int i = 0; i <= MOST; i++)
		p[i] = (struct pollfd){i ? -1 : fd, POLLIN, 0};
	if (setrlimit(RLIMIT_NOFILE, &l))
		die("setrlimit");
	say_result("more", poll(p, MOST + 1, 0));
	say_result("more", ppoll(p, MOST + 1, &t, NULL));
	p[0].events = POLLIN | POLLOUT;
	say_result("more", poll(p, MOST + 1, 0));
	say_result("ready", poll(p, MOST, 0));
	p[0].events = POLLIN;
	say_result("none", poll(p, MOST, 0));
	for (int i = 0; i < 3; i++) {
		send_go(fd);
		say_result("most", poll(p, MOST, 10000));
		say_poll("entry", p[0].revents);
		await_go(fd);
	}
	say_result("time", ppoll(p, MOST, &(struct timespec){0, 30000000}, NULL));
	send_go(fd);
	await_go(fd);
	close(fd);
}

/* A number that is none. */
static void no_number_server(int lfd)
{
	volatile nfds_t all = (nfds_t)-1; /* not the compiler's to judge */
	int fd = answer(lfd);
	struct pollfd p = {-1, POLLIN, 0};

	warm_up(fd, false);
	say_result("poll", poll(&p, all, 0));
	say_result("ppoll", ppoll(&p, all, NULL, NULL));
	send_go(fd);
	await_go(fd);
	close(fd);
}

static void many_entries_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	for (int i = 0; i < 4; i++) {
		await_go(fd);
		nap(i * 30);
		send_go(fd);
	}
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

/* Level- and edge-triggered, one-shot, as a server would use it. */
static void epoll_server(int lfd)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), fd = -1, rounds = 0;
	struct epoll_event ev = {EPOLLIN, {.fd = lfd}};
	struct data d = DATA(0);
	bool end = false;

	epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &ev);
	while (!end) {
		ssize_t n;

		if (epoll_wait(ep, &ev, 1, 10000) != 1)
			die("epoll_wait");
		if (ev.data.fd == lfd) {
			fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK);
			set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
			ev = (struct epoll_event){EPOLLIN | EPOLLET |
							  EPOLLRDHUP,
						  {.fd = fd}};
			epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
			continue;
		}
		while ((n = read(fd, buf, 3000)) > 0) {
			data_sum(&d, buf, (size_t)n);
			for (ssize_t at = 0; at < n;) {
				ssize_t k = write(fd, buf + at,
						  (size_t)(n - at));

				if (k > 0)
					at += k;
				else
					wait_for(fd, POLLOUT, 1000);
			}
		}
		end = n == 0;
		if (n < 0 && errno != EAGAIN)
			die("read");
		if (++rounds == 5) {
			ev = (struct epoll_event){EPOLLIN, {.fd = fd}};
			epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev);
		}
	}
	say_data("got", &d);
	close(fd);
	say_result("closed", epoll_wait(ep, &ev, 1, 0));
}

static void echo_client(void)
{
	int fd = dial();
	struct data out = DATA(33), in = DATA(0);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (int i = 0; i < 60; i++) {
		size_t n = (size_t)i * 300 + 1;

		data_fill(&out, buf, n);
		put(fd, buf, n);
		take_data(fd, &in, n, n);
	}
	shutdown(fd, SHUT_WR);
	take_rest(fd, &in);
	say_data("sent", &out);
	say_data("got", &in);
	close(fd);
}

/* The set is made after the stream has long been in use. */
static void late_epoll_server(int lfd)
{
	int fd = answer(lfd), ep = epoll_create(1);
	struct epoll_event ev = {EPOLLIN | EPOLLONESHOT, {.u64 = 77}};
	struct data d = DATA(0);
	ssize_t n = 1;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (int i = 0; i < 20; i++) {
		size_t k = (size_t)i * 300 + 1;

		if (take(fd, buf, k) != k)
			die("take");
		data_sum(&d, buf, k);
		put(fd, buf, k);
	}
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	while (n) {
		if (epoll_wait(ep, &ev, 1, 10000) != 1 || ev.data.u64 != 77)
			die("epoll_wait");
		n = recv(fd, buf, 1000, MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			die("recv");
		if (n > 0) {
			data_sum(&d, buf, (size_t)n);
			put(fd, buf, (size_t)n);
		}
		ev = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u64 = 77}};
		epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev);
	}
	say_data("got", &d);
	close(fd);
}

/* Connected once is connected: a switch does not take the room back. */
static void connected_server(int lfd)
{
	int fd = answer(lfd);

	say_bytes("got", recv(fd, buf, 1, 0), buf);
	close(fd);
}

static void connected_client(void)
{
	int fd = new_socket(SOCK_NONBLOCK), none = 0;
	struct pollfd p = {fd, POLLOUT, 0};

	if (connect(fd, (struct sockaddr *)&peer_addr, peer_len) &&
	    errno != EINPROGRESS)
		die("connect");
	say("connected %d", poll(&p, 1, 5000));
	for (int i = 0; i < 3000; i++) {
		none += poll(&p, 1, 0) != 1;
		usleep(100);
	}
	say("no room %d times", none);
	put(fd, "x", 1);
	close(fd);
}

/* ------------------------------------------------- below a millisecond */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

enum { SELECT, PSELECT, POLL, PPOLL, EPOLL_WAIT, EPOLL_PWAIT2, WAITS };

/* Microseconds that nothing comes in. */
static int wait_us(int how, int fd, int ep, int us)
{
	struct timeval tv = {0, us};
	struct timespec t = {0, us * 1000L};
	struct pollfd p = {fd, POLLIN, 0};
	struct epoll_event ev;
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	switch (how) {
	case SELECT:
		return select(fd + 1, &r, NULL, NULL, &tv);
	case PSELECT:
		return pselect(fd + 1, &r, NULL, NULL, &t, NULL);
	case POLL:
		return poll(&p, 1, us / 1000);
	case PPOLL:
		return ppoll(&p, 1, &t, NULL);
	case EPOLL_WAIT:
		return epoll_wait(ep, &ev, 1, us / 1000);
	default:
		return epoll_pwait2(ep, &ev, 1, &t, NULL);
	}
}

/* However short, never shorter than asked. */
static void brief_server(int lfd)
{
	static const struct {
		const char *name;
		int us;
	} waits[WAITS] = {
		[SELECT] = {"select", 500},	    [PSELECT] = {"pselect", 300},
		[POLL] = {"poll", 1000},	    [PPOLL] = {"ppoll", 900},
		[EPOLL_WAIT] = {"epoll_wait", 1000},
		[EPOLL_PWAIT2] = {"epoll_pwait2", 500},
	};
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = answer(lfd), ep = epoll_create1(0);
	uint64_t began_at;

	warm_up(fd, false);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	for (int how = 0; how < WAITS; how++) {
		int early = 0, others = 0;

		for (int i = 0; i < 200; i++) {
			began_at = now_ns();
			others += wait_us(how, fd, ep, waits[how].us) != 0;
			early += now_ns() - began_at <
				 (uint64_t)waits[how].us * 1000;
		}
		say("%s, %d us: %d early, %d no timeouts", waits[how].name,
		    waits[how].us, early, others);
	}
	close(ep);
	send_go(fd);
	await_go(fd);
	close(fd);
}

/* One direction alone has been used, and one end shuts both. */
static void shut_both(int fd)
{
	nap(100);
	shutdown(fd, SHUT_RDWR);
	say_poll("nothing asked for", wait_for(fd, 0, 10000));
	say_poll("both", wait_for(fd, POLLIN | POLLRDHUP, 10000));
}

static void send_both_client(void)
{
	int fd = dial();

	put(fd, buf, 20000);
	shut_both(fd);
	close(fd);
}

static void take_all_server(int lfd)
{
	int fd = answer(lfd);

	say("got %zd", take(fd, buf, 20000));
	say("end %zd", take(fd, buf, 1));
	close(fd);
}

static void take_both_server(int lfd)
{
	int fd = answer(lfd);

	say("got %zd", take(fd, buf, 20000));
	shut_both(fd);
	close(fd);
}

static void send_all_client(void)
{
	int fd = dial();

	put(fd, buf, 20000);
	say("end %zd", take(fd, buf, 1));
	close(fd);
}

static const struct tcp_case cases[] = {
	{"sender-shuts", take_all_server, send_both_client},
	{"receiver-shuts", take_both_server, send_all_client},
	{"connected", connected_server, connected_client},
	{"poll", poll_server, poll_client},
	{"select", select_server, select_client},
	{"nonblock", nonblock_server, nonblock_client},
	{"select-pump", select_pump_server, select_pump_client},
	{"room", room_server, room_client},
	{"busy", busy_server, busy_client},
	{"sleepers", sleeper_server, sleeper_client},
	{"many", many_server, many_client},
	{"odd-sets", odd_sets_server, go_client},
	{"many-entries", many_entries_server, many_entries_client},
	{"no-number", no_number_server, go_client},
	{"epoll", epoll_server, echo_client},
	{"epoll-late", late_epoll_server, echo_client},
	{"brief", brief_server, go_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
