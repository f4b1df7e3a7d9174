/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* promise.c - options that promise something about what goes over the wire. */
#include "port.h"

#include <linux/filter.h>

#ifndef TCP_TX_DELAY
#define TCP_TX_DELAY 37
#endif

static const struct sock_filter all_pass = {BPF_RET | BPF_K, 0, 0, 0xffffffff};

static void set(int fd, int level, int name, const void *val, socklen_t len)
{
	if (setsockopt(fd, level, name, val, len))
		die("setsockopt");
}

/* ---------------------------------------------------- each by itself */

enum { EACH = 9 };

static void promise(int fd, int which)
{
	const struct sock_fprog program = {1, (struct sock_filter *)&all_pass};

	switch (which) {
	case 0:
		set_int(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 1 << 30);
		break;
	case 1:
		set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384);
		break;
	case 2:
		set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, 65536);
		break;
	case 3:
		set_int(fd, IPPROTO_IP, IP_MINTTL, 1);
		break;
	case 4:
		set(fd, IPPROTO_IP, IP_OPTIONS, "\1\1\1", 4);
		break;
	case 5:
		set(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
		break;
	case 6:
		set_int(fd, SOL_SOCKET, SO_RCVBUF, 4000);
		break;
	case 7:
		set(fd, IPPROTO_IP, IP_MINTTL, "\1", 1);
		break;
	default:
		set_int(fd, IPPROTO_TCP, TCP_TX_DELAY, 100);
	}
}

static void each_server(int lfd)
{
	for (int i = 0; i < 2 * EACH; i++) {
		int fd = answer(lfd);

		if (i >= EACH)
			promise(fd, i - EACH);
		warm_up(fd, false);
		warm_up(fd, false);
		await_end(fd);
	}
}

static void each_client(void)
{
	for (int i = 0; i < 2 * EACH; i++) {
		int fd = new_socket(0);

		if (i < EACH)
			promise(fd, i);
		if (connect(fd, (struct sockaddr *)&peer_addr, peer_len))
			die("connect");
		warm_up(fd, true);
		warm_up(fd, true);
		say("%d", i);
		close(fd);
	}
}

/* ------------------------------------------------------------ neutral */

/* Values that promise nothing, and promises that were taken back in time. */
static void neutral(int fd)
{
	set_int(fd, SOL_SOCKET, SO_MAX_PACING_RATE, 1 << 30);
	set_int(fd, SOL_SOCKET, SO_MAX_PACING_RATE, -1);
	set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384);
	set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, -1);
	set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0);
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 8);
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
	set_int(fd, SOL_SOCKET, SO_SNDBUF, 4000);
	set_int(fd, SOL_SOCKET, SO_SNDBUF, 100000);
	if (!setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &(int){0}, sizeof(int))) /* Linux 6.9 */
		set_int(fd, SOL_SOCKET, SO_PEEK_OFF, -1);
	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1); /* what counts is MSG_ZEROCOPY */
	set_int(fd, IPPROTO_IP, IP_MINTTL, 3);
	set_int(fd, IPPROTO_IP, IP_MINTTL, 0);
	set(fd, IPPROTO_IP, IP_OPTIONS, "\1\1\1", 4);
	set(fd, IPPROTO_IP, IP_OPTIONS, NULL, 0);
	set_int(fd, IPPROTO_IP, IP_TOS, 0x10);
	set_int(fd, IPPROTO_IP, IP_TTL, 60);
	set_int(fd, SOL_SOCKET, SO_PRIORITY, 3);
	say_result("not a length", setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, "\1", 1));
	say_result("not a pointer",
		   setsockopt(fd, SOL_SOCKET, SO_MARK, (void *)8, sizeof(int)));
}

static void neutral_server(int lfd)
{
	int fd;

	neutral(lfd);
	fd = answer(lfd);
	neutral(fd);
	warm_up(fd, false);
	await_end(fd);
}

static void neutral_client(void)
{
	int fd = new_socket(0);

	neutral(fd);
	if (connect(fd, (struct sockaddr *)&peer_addr, peer_len))
		die("connect");
	warm_up(fd, true);
	close(fd);
}

/* -------------------------------------------------------------- later */

static void later_server(int lfd)
{
	int fd = answer_warm(lfd);

	say_result("pace", setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE,
				      &(int){1 << 30}, sizeof(int)));
	send_go(fd);
	await_go(fd);
	warm_up(fd, false);
	await_end(fd);
}

static void later_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	send_go(fd);
	warm_up(fd, true);
	close(fd);
}

/* ------------------------------------------------------------ refused */

/* What the kernel refuses promises nothing. */
static void refused_server(int lfd)
{
	const struct sock_fprog none = {0};
	int fd = answer_warm(lfd);

	say_result("clock", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &(int){0}, sizeof(int)));
	say_result("filter",
		   setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &none, sizeof(none)));
	say_result("device",
		   setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "no-such-device", 15));
	say_result("options", setsockopt(fd, IPPROTO_IP, IP_OPTIONS, "\7\1", 4));
	say_result("pointer",
		   setsockopt(fd, SOL_SOCKET, SO_MARK, (void *)8, sizeof(int)));
	warm_up(fd, false);
	await_end(fd);
}

static void refused_client(void)
{
	int fd = dial_warm();

	warm_up(fd, true);
	close(fd);
}

/* ------------------------------------------------------------- signed */

static void sign(int fd)
{
	struct tcp_md5sig key = {.tcpm_keylen = 3};

	memcpy(&key.tcpm_addr, &peer_addr, sizeof(key.tcpm_addr));
	((struct sockaddr_in *)&key.tcpm_addr)->sin_port = 0;
	memcpy(key.tcpm_key, "abc", 3);
	set(fd, IPPROTO_TCP, TCP_MD5SIG, &key, sizeof(key));
}

static void signed_server(int lfd)
{
	int fd;

	sign(lfd);
	post("signs");
	fd = answer_warm(lfd);
	warm_up(fd, false);
	await_end(fd);
}

static void signed_client(void)
{
	int fd = new_socket(0);

	sign(fd);
	await_post("signs");
	if (connect(fd, (struct sockaddr *)&peer_addr, peer_len))
		die("connect");
	warm_up(fd, true);
	warm_up(fd, true);
	close(fd);
}

/* ------------------------------------- by who has made the listener */

enum { OTHERS = 3 };

/* In another process: a listener that paces, and goes to the parent. */
static void make_listener(int s)
{
	struct sockaddr_storage a = peer_addr;
	int lfd = new_socket(0);

	((struct sockaddr_in *)&a)->sin_port = 0;
	set_int(lfd, SOL_SOCKET, SO_MAX_PACING_RATE, 1 << 30);
	if (bind(lfd, (struct sockaddr *)&a, peer_len) || listen(lfd, 5))
		die("listen");
	send_fd(s, lfd);
	_exit(0);
}

static void other_server(int lfd)
{
	int s[2], fd;
	pid_t pid;

	close(lfd);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		die("socketpair");
	pid = split();
	if (!pid)
		make_listener(s[1]);
	lfd = receive_fd(s[0]);
	reap(pid);
	post_port(lfd);
	for (int i = 0; i < OTHERS; i++) {
		fd = answer_warm(lfd);
		await_end(fd);
	}
}

/* The first one shows that the listener is to be looked after, in the background; the
 * others ask again after a second. */
static void other_client(void)
{
	take_port();
	for (int i = 0; i < OTHERS; i++) {
		close(dial_warm());
		nap(i ? 0 : 1200);
	}
}

const struct tcp_case cases[] = {
	{"each", each_server, each_client},
	{"neutral", neutral_server, neutral_client},
	{"later", later_server, later_client},
	{"refused", refused_server, refused_client},
	{"signed", signed_server, signed_client},
	{"other", other_server, other_client},
	{0},
};
