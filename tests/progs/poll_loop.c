/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * poll_loop.c - programs that loop around poll or select: non-blocking, both directions,
 * asleep when a message comes, many streams.
 */
#include "poll_one.h"

static char buf[1 << 17];

/* One loop moves both directions at once, without ever blocking. */
static void pump(int fd, size_t total, bool by_select)
{
	struct data out = DATA(31), in = DATA(0);
	static char obuf[40000], ibuf[50000];
	struct pieces p = {.left = total};
	bool ended = false;

	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	while (!ended || p.left || p.have) {
		short events = (short)((ended ? 0 : POLLIN) |
				       (p.left || p.have ? POLLOUT : 0));
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
			put_next(fd, &out, &p, obuf, sizeof(obuf));
			if (!p.left && !p.have)
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
	int fd = answer_warm(lfd), pipes[2];
	struct pollfd p[2] = {{fd, POLLIN, 0}, {0, POLLIN, 0}};
	unsigned calls, seen = 0;

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
	int fd = dial_warm();

	while (send(fd, buf, 32000, MSG_NOSIGNAL) > 0)
		;
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

const struct tcp_case cases[] = {
	{"nonblock", nonblock_server, nonblock_client},
	{"select-pump", select_pump_server, select_pump_client},
	{"room", room_server, room_client},
	{"busy", busy_server, busy_client},
	{"sleepers", sleeper_server, sleeper_client},
	{"many", many_server, many_client},
	{0},
};
