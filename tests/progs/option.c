/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* option.c - options, ioctls, names, and calls that must fail. */
#include "case.h"

#include <limits.h>

#include <linux/sockios.h>
#include <sys/un.h>

static char buf[1 << 17];

static void set_time(int fd, int name, long ms)
{
	struct timeval t = {ms / 1000, (ms % 1000) * 1000};

	if (setsockopt(fd, SOL_SOCKET, name, &t, sizeof(t)))
		die("setsockopt");
}

/* ---------------------------------------------------------- timeouts */

static void timeo_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct data d = DATA(0);
	struct timeval t;
	socklen_t len = sizeof(t);
	uint64_t from;

	set_time(fd, SO_RCVTIMEO, 150);
	getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, &len);
	say("%ld.%06ld", (long)t.tv_sec, (long)t.tv_usec);
	from = now_ms();
	say_result("recv", recv(fd, buf, 10, 0));
	say("waited: %d", now_ms() - from >= 145);
	from = now_ms();
	say_result("read", read(fd, buf, 10));
	say("waited: %d", now_ms() - from >= 145);
	say_result("dontwait", recv(fd, buf, 10, MSG_DONTWAIT));
	set_time(fd, SO_RCVTIMEO, 0);
	send_go(fd);
	await_post("full");
	take_rest(fd, &d);
	put(fd, &d.bytes, sizeof(d.bytes));
	close(fd);
}

static void timeo_client(void)
{
	int fd = dial_warm();
	struct timeval no_time = {-1, -1};
	uint64_t from, sent = 0, got = 0;
	ssize_t n;

	/* Refused, so it changes nothing: iperf 2 -n does this. */
	say_result("no time", setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &no_time, sizeof(no_time)));
	await_go(fd);
	set_time(fd, SO_SNDTIMEO, 150);
	do {
		from = now_ms();
		n = send(fd, buf, sizeof(buf), 0);
		if (n > 0)
			sent += (uint64_t)n;
	} while (n > 0);
	say_result("full", n);
	say("waited: %d", now_ms() - from >= 145);
	post("full");
	shutdown(fd, SHUT_WR);
	take(fd, &got, sizeof(got));
	say("%s", sent == got ? "equal" : "DIFFERS");
	close(fd);
}

/* What a listener has, what it accepts has, too. */
static void inherit_server(int lfd)
{
	const struct timeval below = {-1, 0};
	int first = answer(lfd), fd, n = 0;
	struct pollfd p;
	ssize_t r;

	warm_up(first, false);
	set_int(lfd, SOL_SOCKET, SO_RCVLOWAT, 8);
	send_go(first);
	fd = answer(lfd);
	set_int(lfd, SOL_SOCKET, SO_RCVLOWAT, 1);
	warm_up(fd, false);
	say("lowat %d", get_int(fd, SOL_SOCKET, SO_RCVLOWAT));
	send_go(fd);
	await_readable(fd, 4);
	p = (struct pollfd){fd, POLLIN, 0};
	say("4 of 8: %d", poll(&p, 1, 50));
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
	say("4 of 1: %d", poll(&p, 1, 5000));
	say_result("recv", recv(fd, buf, 20, 0));
	close(fd);

	if (setsockopt(lfd, SOL_SOCKET, SO_RCVTIMEO, &below, sizeof(below)) ||
	    setsockopt(lfd, SOL_SOCKET, SO_SNDTIMEO, &below, sizeof(below)))
		die("SO_RCVTIMEO");
	send_go(first);
	p = (struct pollfd){lfd, POLLIN, 0};
	poll(&p, 1, 5000);
	fd = answer(lfd);
	set_time(lfd, SO_RCVTIMEO, 0);
	set_time(lfd, SO_SNDTIMEO, 0);
	p = (struct pollfd){fd, POLLIN, 0};
	for (int i = 0; i < 5; i++) { /* to begin with; it must not sleep */
		poll(&p, 1, 5000);
		await_go(fd);
		send_go(fd);
	}
	say_result("recv", recv(fd, buf, 1, 0));
	set_time(fd, SO_RCVTIMEO, 0);
	send_go(fd);
	await_go(fd);
	do
		r = send(fd, buf, sizeof(buf), 0);
	while (r > 0 && ++n < 1000);
	say_result("full", r);
	send_go(first);
	close(fd);
	close(first);
}

static void inherit_client(void)
{
	int first = dial(), fd;
	struct data d = DATA(0);

	warm_up(first, true);
	await_go(first);
	fd = dial_warm();
	await_go(fd);
	put(fd, "1234", 4);
	await_end(fd);

	await_go(first);
	fd = dial();
	for (int i = 0; i < 5; i++) {
		send_go(fd);
		await_go(fd);
	}
	await_go(fd);
	nap(20);
	send_go(fd);
	await_go(first);
	take_rest(fd, &d);
	close(fd);
	close(first);
}

/* A stamp for each message, of what a listener has accepted. */
static void stamps_server(int lfd)
{
	int first = answer(lfd), fd;
	char control[100];
	struct iovec iov = {buf, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control};

	warm_up(first, false);
	set_int(lfd, SOL_SOCKET, SO_TIMESTAMP, 1);
	send_go(first);
	fd = answer_warm(lfd);
	for (int i = 0; i < 2; i++) {
		send_go(fd);
		m.msg_controllen = sizeof(control);
		say_result("recvmsg", recvmsg(fd, &m, 0));
		say("stamp: %d", m.msg_controllen > 0);
	}
	close(fd);
	close(first);
}

static void stamps_client(void)
{
	int first = dial(), fd;

	warm_up(first, true);
	await_go(first);
	fd = dial_warm();
	for (int i = 0; i < 2; i++) {
		await_go(fd);
		put(fd, "x", 1);
	}
	await_end(fd);
	close(first);
}

/* ----------------------------------------------------------- options */

static void say_options(int fd)
{
	static const struct {
		const char *name;
		int level, option;
	} list[] = {
		{"SO_TYPE", SOL_SOCKET, SO_TYPE},
		{"SO_PROTOCOL", SOL_SOCKET, SO_PROTOCOL},
		{"SO_ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN},
		{"SO_ERROR", SOL_SOCKET, SO_ERROR},
		{"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT},
		{"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE},
		{"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE},
		{"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY},
		{"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY},
		{"TCP_CORK", IPPROTO_TCP, TCP_CORK},
		{"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE},
		{"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL},
		{"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT},
		{"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT},
		{"TCP_LINGER2", IPPROTO_TCP, TCP_LINGER2},
	};

	for (size_t i = 0; i < COUNT(list); i++)
		say("%s %d", list[i].name,
		    get_int(fd, list[i].level, list[i].option));
}

/* What the program chose is what it is shown, on a link as before. */
static void options_server(int lfd)
{
	int fd = answer(lfd), value = 0;
	volatile socklen_t below = (socklen_t)-1;
	socklen_t len = sizeof(value);
	struct tcp_info info;

	say("listening: %d", get_int(lfd, SOL_SOCKET, SO_ACCEPTCONN));
	warm_up(fd, false);
	say_options(fd);
	len = sizeof(info);
	say_result("TCP_INFO", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	say("state %d", info.tcpi_state);
	say_result("bad option", getsockopt(fd, IPPROTO_TCP, 9999, &value, &len));
	len = 2;
	value = 0x55555555;
	say_result("short", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len));
	say("length %u", len);
	for (len = 0; len < 4; len += 2) {
		socklen_t k = len;

		value = 0x55555555;
		say_result("short", getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &k));
		say("length %u value %x", k, value);
	}
	len = below;
	say_result("below", getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len));
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 17);
	set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 12345);
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	value = 100;	/* bytes, for which no link is, but it is refused */
	say_result("short", setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, 1));
	set_int(fd, SOL_SOCKET, SO_SNDBUF, 30000);
	set_int(fd, SOL_SOCKET, SO_RCVBUF, 40000);
	say("buffers %d %d", get_int(fd, SOL_SOCKET, SO_SNDBUF),
	    get_int(fd, SOL_SOCKET, SO_RCVBUF));
	say_options(fd);
	warm_up(fd, false);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
	say_options(fd);
	close(fd);
}

static void options_client(void)
{
	int fd = new_socket(0);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, 9);
	say_options(fd);
	if (connect(fd, (struct sockaddr *)&peer_addr, peer_len))
		die("connect");
	warm_up(fd, true);
	say_options(fd);
	warm_up(fd, true);
	say_result("end", recv(fd, buf, 1, 0));
	say_options(fd);
	close(fd);
}

/* O_NONBLOCK, in all the ways to set and clear it, on a stream in use. */
static void modes_server(int lfd)
{
	int fd = answer(lfd), on = 1, off = 0, twin = dup(fd);

	warm_up(fd, false);
	say("%x", fcntl(fd, F_GETFL));
	say_result("FIONBIO", ioctl(fd, FIONBIO, &on));
	say("%x", fcntl(fd, F_GETFL));
	say_result("read", read(fd, buf, 1));
	say_result("FIONBIO", ioctl(fd, FIONBIO, &off));
	say("%x", fcntl(fd, F_GETFL));
	say_result("F_SETFL", fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK));
	say_result("readv", readv(fd, &(struct iovec){buf, 9}, 1));
	say_result("F_SETFL", fcntl(fd, F_SETFL, O_RDWR));
	/* By another descriptor of the same socket. */
	say_result("twin", fcntl(twin, F_SETFL, O_RDWR | O_NONBLOCK));
	say_result("recv", recv(fd, buf, 1, 0));
	say_result("twin", ioctl(twin, FIONBIO, &off));
	say_result("F_SETFL", fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK));
	say_result("twin", recv(twin, buf, 1, 0));
	say_result("twin", fcntl(twin, F_SETFL, O_RDWR));
	close(twin);
	say_result("FD_CLOEXEC", fcntl(fd, F_SETFD, FD_CLOEXEC));
	say("%x", fcntl(fd, F_GETFD));
	send_go(fd);
	say_bytes("sleeps", read(fd, buf, 1), buf);
	close(fd);
}

static void modes_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	await_peer_asleep();
	put(fd, "z", 1);
	await_end(fd);
}

/* Each end's own name is the other's peer. */
static void names_server(int lfd)
{
	struct sockaddr_storage a, b = {0};
	socklen_t alen = sizeof(a), blen = sizeof(b);
	int fd = accept(lfd, (struct sockaddr *)&a, &alen);

	say("accept %u family %d", alen, a.ss_family == peer_addr.ss_family);
	warm_up(fd, false);
	say_result("getpeername", getpeername(fd, (struct sockaddr *)&b, &blen));
	say("%s", alen == blen && !memcmp(&a, &b, alen) ? "equal" : "DIFFERS");
	put(fd, &b, sizeof(b));
	blen = sizeof(b);
	say_result("getsockname", getsockname(fd, (struct sockaddr *)&b, &blen));
	put(fd, &b, sizeof(b));
	blen = 4;
	say_result("short", getsockname(fd, (struct sockaddr *)&b, &blen));
	say("length %u", blen);
	close(fd);
}

static void names_client(void)
{
	struct sockaddr_storage a, b;
	socklen_t len;
	int fd = dial_warm();

	memset(&b, 0, sizeof(b));
	take(fd, &a, sizeof(a));
	len = sizeof(b);
	getsockname(fd, (struct sockaddr *)&b, &len);
	say("%s", memcmp(&a, &b, len) ? "DIFFERS" : "equal");
	take(fd, &a, sizeof(a));
	len = sizeof(b);
	getpeername(fd, (struct sockaddr *)&b, &len);
	say("%s", memcmp(&a, &b, len) ? "DIFFERS" : "equal");
	close(fd);
}

/* ------------------------------------------------- out-of-band data */

static void oob_server(int lfd)
{
	int fd = answer_warm(lfd), mark = -1;
	struct pollfd p = {fd, POLLPRI, 0};

	send_go(fd);
	say("poll %d", poll(&p, 1, 10000));
	say("revents %x", p.revents);
	say_bytes("oob", recv(fd, buf, 1, MSG_OOB), buf);
	say_result("oob", recv(fd, buf, 1, MSG_OOB));
	await_readable(fd, 3); /* it stops at the mark */
	say_bytes("before", recv(fd, buf, 100, 0), buf);
	ioctl(fd, SIOCATMARK, &mark);
	say("mark %d", mark);
	say_bytes("after", (ssize_t)take(fd, buf, 3), buf);
	warm_up(fd, false);
	await_end(fd);
}

static void oob_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, "ab", 2);
	say_result("oob", send(fd, "c!", 2, MSG_OOB));
	put(fd, "def", 3);
	warm_up(fd, true);
	say_result("none", recv(fd, buf, 1, MSG_OOB));
	close(fd);
}

/* --------------------------------------------------- no memory of ours */

static void fault_server(int lfd)
{
	int fd = answer_warm(lfd);

	say_result("connect", connect(fd, (void *)8, peer_len));
	say_result("family", connect(fd, (void *)8, sizeof(sa_family_t)));
	say_result("bind", bind(fd, (void *)8, peer_len));
	say_result("keepalive",
		   setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, (void *)8, sizeof(int)));
	say_result("error", getsockopt(fd, SOL_SOCKET, SO_ERROR, (void *)8,
				       &(socklen_t){sizeof(int)}));
	say_result("info", getsockopt(fd, IPPROTO_TCP, TCP_INFO, buf, (void *)8));
	say_result("queue", ioctl(fd, SIOCINQ, (void *)8));
	say_result("peer", getpeername(fd, (void *)8, &(socklen_t){sizeof(peer_addr)}));
	warm_up(fd, false);
	await_end(fd);
}

static void fault_client(void)
{
	int fd = dial_warm();

	warm_up(fd, true);
	close(fd);
}

/* ------------------------------------------------------- wrong calls */

static void errors_server(int lfd)
{
	int fd = answer_warm(lfd);

	say_result("listener", recv(lfd, buf, 1, 0));
	say_result("listener", send(lfd, buf, 1, MSG_NOSIGNAL));
	say_result("accept", accept(fd, NULL, NULL));
	say_result("connect", connect(fd, (struct sockaddr *)&peer_addr, peer_len));
	say_result("bind", bind(fd, (struct sockaddr *)&peer_addr, peer_len));
	say_result("listen", listen(fd, 5));
	say_result("flags", recv(fd, buf, 1, MSG_ERRQUEUE));
	close(fd);
	/* A descriptor of Sockrail's is at the lowest number for an instant. */
	nap(50);
	say_result("closed", recv(fd, buf, 1, 0));
	say_result("closed", send(fd, buf, 1, 0));
	say_result("closed", close(fd));
	say_result("closed", shutdown(fd, SHUT_WR));
	say_result("closed", getsockopt(fd, SOL_SOCKET, SO_ERROR, buf,
					&(socklen_t){4}));
}

static void errors_client(void)
{
	struct sockaddr_storage nobody = peer_addr;
	socklen_t len = peer_len;
	int fd = new_socket(0), taken, p[2];
	struct pollfd pf;

	/* Sockets that are not connected. */
	say_result("recv", recv(fd, buf, 1, 0));
	say_result("send", send(fd, buf, 1, MSG_NOSIGNAL));
	say_result("getpeername", getpeername(fd, (struct sockaddr *)&nobody, &len));
	pf = (struct pollfd){fd, POLLIN | POLLOUT, 0};
	poll(&pf, 1, 0);
	say("poll %x", pf.revents);
	/* A port that is bound, but nobody listens. */
	taken = new_socket(0);
	nobody = peer_addr;
	((struct sockaddr_in *)&nobody)->sin_port = 0;
	len = peer_len;
	bind(taken, (struct sockaddr *)&nobody, peer_len);
	getsockname(taken, (struct sockaddr *)&nobody, &len);
	say_result("refused", connect(fd, (struct sockaddr *)&nobody, len));
	say_result("then recv", recv(fd, buf, 1, 0));
	close(fd);
	fd = new_socket(SOCK_NONBLOCK);
	connect(fd, (struct sockaddr *)&nobody, len);
	pf = (struct pollfd){fd, POLLOUT, 0};
	say("poll %d", poll(&pf, 1, 10000));
	say("revents %x", pf.revents);
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	close(fd);
	/* No sockets at all. */
	if (pipe(p))
		die("pipe");
	say_result("pipe", recv(p[0], buf, 1, 0));
	say_result("pipe", send(p[1], buf, 1, 0));
	say_result("none", send(-1, buf, 1, 0));
	say_result("none", recv(999, buf, 1, 0));
	say_result("none", shutdown(999999, SHUT_WR));
	/* The same descriptor, refused before, then connected. */
	fd = new_socket(0);
	if (connect(fd, (struct sockaddr *)&nobody, len) != -1)
		die("not refused");
	say_result("second", connect(fd, (struct sockaddr *)&peer_addr, peer_len));
	say_result("third", connect(fd, (struct sockaddr *)&peer_addr, peer_len));
	warm_up(fd, true);
	await_end(fd);
}

/* Sockets of other kinds are nobody's business. */
static void others_server(int lfd)
{
	int fd = answer_warm(lfd);

	close(fd);
	say("done");
}

static void others_client(void)
{
	struct sockaddr_storage a = peer_addr;
	socklen_t len = peer_len;
	int udp[2], sv[2], fd = dial();

	warm_up(fd, true);
	for (int i = 0; i < 2; i++) {
		udp[i] = socket(peer_addr.ss_family, SOCK_DGRAM, 0);
		a = peer_addr;
		((struct sockaddr_in *)&a)->sin_port = 0;
		bind(udp[i], (struct sockaddr *)&a, peer_len);
	}
	getsockname(udp[1], (struct sockaddr *)&a, &len);
	say_result("sendto", sendto(udp[0], "hello", 5, 0,
				    (struct sockaddr *)&a, len));
	say_bytes("recv", recv(udp[1], buf, 3, MSG_TRUNC), "hel");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv))
		die("socketpair");
	say_result("send", send(sv[0], "packet", 6, 0));
	say_bytes("recv", recv(sv[1], buf, 100, 0), buf);
	close(sv[0]);
	say_result("recv", recv(sv[1], buf, 100, 0));
	await_end(fd);
}

/* A time below 0 is none, and the stream plain. */
static void timeo_below_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct timeval tv = {-1, 0};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	say_result("recv", recv(fd, buf, 1, 0));
	tv.tv_sec = 0;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	send_go(fd);
	say_result("recv", recv(fd, buf, 1, 0));
	close(fd);
}

/* Dissolved, and connected anew by the same descriptor. */
static void dissolve_server(int lfd)
{
	int fd = answer_warm(lfd), second;

	send_go(fd);
	second = answer(lfd);
	say("%d bytes", (int)take(second, buf, 8));
	put(second, buf, 8);
	say_result("end", recv(second, buf, 1, 0));
	close(second);
	close(fd);
}

static void dissolve_client(void)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = dial_warm();

	await_go(fd);
	say_result("dissolve", connect(fd, &none, sizeof(none)));
	say_result("send", send(fd, buf, 1, MSG_NOSIGNAL));
	say_result("connect", connect(fd, (struct sockaddr *)&peer_addr, peer_len));
	put(fd, "12345678", 8);
	say("%d bytes", (int)take(fd, buf, 8));
	close(fd);
}

/* What lengths there are. */
static void lengths_server(int lfd)
{
	int fd = answer_warm(lfd);
	volatile size_t most = (size_t)-1; /* (the compiler knows better) */
	struct iovec big = {buf, most}, two[] = {{buf, 10}, {buf, SSIZE_MAX}};

	send_go(fd);
	await_readable(fd, 10);
	say_result("readv", readv(fd, &big, 1));
	say_result("readv", readv(fd, two, 2));
	say_result("writev", writev(fd, &big, 1));
	say_result("read", read(fd, buf, most));
	say_result("write", write(fd, buf, most));
	say_result("rest", (ssize_t)take(fd, buf, 10));
	close(fd);
}

static void lengths_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, buf, 10);
	await_end(fd);
}

static volatile sig_atomic_t ios;

static void on_io(int sig)
{
	(void)sig;
	ios++;
}

/* SIGIO is the kernel's to send. */
static void async_by(int lfd, bool by_ioctl)
{
	int fd = answer_warm(lfd), on = 1;
	char c;

	signal(SIGIO, on_io);
	say_result("owner", fcntl(fd, F_SETOWN, getpid()));
	if (by_ioctl) {
		say_result("FIONBIO", ioctl(fd, FIONBIO, &on));
		say_result("FIOASYNC", ioctl(fd, FIOASYNC, &on));
		say("flags %x", fcntl(fd, F_GETFL) & (O_ASYNC | O_NONBLOCK));
	} else {
		say_result("O_ASYNC", fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK));
	}
	for (int i = 1; i <= 5; i++) {
		put(fd, "!", 1);
		uint64_t end = 0;

		while ((recv(fd, &c, 1, MSG_PEEK) < 1 || ios < i) && patient(&end))
			;
		say("%s", ios >= i ? "signalled" : "NOT SIGNALLED");
		say_result("recv", recv(fd, &c, 1, 0));
	}
	close(fd);
}

static void async_server(int lfd)
{
	async_by(lfd, false);
}

static void fioasync_server(int lfd)
{
	async_by(lfd, true);
}

static void async_client(void)
{
	int fd = dial_warm();

	for (int i = 0; i < 5; i++) {
		await_go(fd);
		nap(20);
		put(fd, "x", 1);
	}
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"inherit", inherit_server, inherit_client},
	{"stamps", stamps_server, stamps_client},
	{"timeouts", timeo_server, timeo_client},
	{"timeo-below", timeo_below_server, go_client},
	{"dissolve", dissolve_server, dissolve_client},
	{"lengths", lengths_server, lengths_client},
	{"options", options_server, options_client},
	{"modes", modes_server, modes_client},
	{"names", names_server, names_client},
	{"oob", oob_server, oob_client},
	{"fault", fault_server, fault_client},
	{"errors", errors_server, errors_client},
	{"others", others_server, others_client},
	{"async", async_server, async_client},
	{"fioasync", fioasync_server, async_client},
	{0},
};
