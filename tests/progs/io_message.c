/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* io_message.c - buffers and messages: many of them, none, fields, what is kept. */
#include "case.h"

static char buf[1 << 20];

/* ------------------------------------------------------- many buffers */

static void iov_server(int lfd)
{
	int fd = answer_warm(lfd);
	char a[3], b[7], c[100];
	struct iovec iov[4] = {{a, 3}, {NULL, 0}, {b, 7}, {c, 100}};
	struct sockaddr_storage from;
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = iov,
			   .msg_iovlen = 4,
			   .msg_flags = 0x7ff};
	char control[100];

	send_go(fd);
	await_readable(fd, 40);
	say_result("readv", readv(fd, iov, 3));
	say("\"%.3s\" \"%.7s\"", a, b);
	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	say_result("recvmsg", recvmsg(fd, &m, 0));
	say("\"%.3s\" \"%.7s\" \"%.20s\" name %u control %zu flags %x", a, b, c,
	    m.msg_namelen, m.msg_controllen, m.msg_flags);
	send_go(fd);
	for (int i = 0; i < 4; i++)
		iov[i] = (struct iovec){buf + i * 100000, 100000};
	m = (struct msghdr){.msg_iov = iov, .msg_iovlen = 4};
	say_result("recvmsg", recvmsg(fd, &m, MSG_WAITALL));
	{
		struct data d = DATA(0);

		data_sum(&d, buf, 400000);
		say_data("got", &d);
	}
	say_result("recvmsg end", recvmsg(fd, &m, 0));
	say_result("readv end", readv(fd, iov, 4));
	close(fd);
}

static void iov_client(void)
{
	int fd = dial_warm();
	struct iovec iov[5] = {{(char *)"abc", 3},
			       {NULL, 0},
			       {(char *)"defg", 4},
			       {(char *)"", 0},
			       {(char *)"0123456789012", 13}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 5};
	struct data d = DATA(23);
	volatile int less = -1; /* or the compiler warns */

	await_go(fd);
	say_result("writev", writev(fd, iov, 5));
	say_result("sendmsg", sendmsg(fd, &m, 0));
	await_go(fd);
	data_fill(&d, buf, 400000);
	/* Pieces that share nothing with the receiver's. */
	for (size_t at = 0; at < 400000;) {
		ssize_t n;

		for (int i = 0; i < 5; i++) {
			size_t from = at + (size_t)i * 3333;

			from = from < 400000 ? from : 400000;
			iov[i].iov_base = buf + from;
			iov[i].iov_len = 400000 - from < 3333 ? 400000 - from
							      : 3333;
		}
		n = writev(fd, iov, 5);
		if (n <= 0)
			die("writev");
		at += (size_t)n;
	}
	say_data("sent", &d);
	say_result("writev none", writev(fd, iov, 0));
	say_result("writev -1", writev(fd, iov, less));
	close(fd);
}

static void mmsg_server(int lfd)
{
	int fd = answer(lfd);
	struct iovec iov[4];
	struct mmsghdr m[4];
	int n;

	memset(m, 0, sizeof(m));
	for (int i = 0; i < 4; i++) {
		iov[i] = (struct iovec){buf + 100 * i, 10};
		m[i].msg_hdr.msg_iov = &iov[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	warm_up(fd, false);
	say_result("empty", recvmmsg(fd, m, 4, MSG_DONTWAIT, NULL));
	send_go(fd);
	await_readable(fd, 36);
	n = recvmmsg(fd, m, 4, MSG_WAITFORONE, NULL);
	say_result("recvmmsg", n);
	for (int i = 0; i < n; i++)
		say("%u \"%.*s\"", m[i].msg_len, (int)m[i].msg_len,
		    buf + 100 * i);
	await_end(fd);
}

static void mmsg_client(void)
{
	int fd = dial();
	struct iovec iov[3] = {{(char *)"first message", 13},
			       {(char *)"second", 6},
			       {(char *)"the third message", 17}};
	struct mmsghdr m[3];

	memset(m, 0, sizeof(m));
	for (int i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_iov = &iov[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	warm_up(fd, true);
	await_go(fd);
	say_result("sendmmsg", sendmmsg(fd, m, 3, 0));
	for (int i = 0; i < 3; i++)
		say("%u", m[i].msg_len);
	close(fd);
}

/* ---------------------------------- no buffer, and what lies behind one */

/* Room for no byte. */
static void none_server(int lfd)
{
	int fd = answer_warm(lfd), n = 0;
	struct msghdr msg = {0};

	say_result("at once", recv(fd, buf, 0, MSG_DONTWAIT));
	say_result("read", read(fd, buf, 0));
	send_go(fd);
	say_result("recv", recv(fd, buf, 0, 0));
	ioctl(fd, FIONREAD, &n);
	say("there are %d", n);
	say_result("at once", recv(fd, buf, 0, MSG_DONTWAIT));
	say_result("peek", recv(fd, buf, 0, MSG_PEEK));
	say_result("recvmsg", recvmsg(fd, &msg, 0));
	say("took %zu", take(fd, buf, 10));
	say_result("end", recv(fd, buf, 0, 0));
	close(fd);
}

static void none_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	await_peer_asleep();
	put(fd, "0123456789", 10);
	await_peer_asleep();
	close(fd);
}

/* ------------------------------------------------- fields of a message */

static void say_fields(const char *what, ssize_t n, const struct msghdr *m)
{
	say_result(what, n);
	say("name %u control %zu flags %x", m->msg_namelen, m->msg_controllen,
	    m->msg_flags);
}

/* Room for five bytes, for a name and for control messages. */
static struct msghdr all_fields(void)
{
	static char control[100], name[100];
	static struct iovec iov = {buf, 5};

	return (struct msghdr){.msg_name = name,
			       .msg_namelen = sizeof(name),
			       .msg_iov = &iov,
			       .msg_iovlen = 1,
			       .msg_control = control,
			       .msg_controllen = sizeof(control),
			       .msg_flags = 0x55};
}

/* A reset behind some bytes: they come first, and the error is for the next call. */
static void fields_reset_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_go(fd);
	/* No link serves this flag; the other end may have one again. */
	say_result("nothing", recv(fd, buf, 1, MSG_TRUNC | MSG_DONTWAIT));
	put(fd, buf, 30);
	await_go(fd);
	close_by_reset(fd);
}

static void fields_reset_client(void)
{
	int fd = dial_warm();
	struct msghdr m = all_fields();

	send_go(fd);
	await_readable(fd, 30);
	send_go(fd);
	say_result("all", recv(fd, buf, 100, MSG_WAITALL));
	say_fields("reset", recvmsg(fd, &m, 0), &m);
	say_result("end", recv(fd, buf, 100, 0));
	close(fd);
}

/* An error changes none of them. */
static void fields_server(int lfd)
{
	int fd = answer(lfd);
	const struct msghdr all = all_fields();
	struct msghdr m = all, bytes_only = all;

	bytes_only.msg_name = bytes_only.msg_control = NULL;
	warm_up(fd, false);
	say_fields("empty", recvmsg(fd, &m, MSG_DONTWAIT), &m);
	say_fields("empty", recvmsg(fd, &m, MSG_DONTWAIT | MSG_PEEK), &m);
	m = bytes_only;
	say_fields("empty", recvmsg(fd, &m, MSG_DONTWAIT), &m);
	send_go(fd);
	await_readable(fd, 30);
	say_fields("bytes_only", recvmsg(fd, &m, 0), &m);
	m = bytes_only;
	say_fields("bytes_only", recvmsg(fd, &m, MSG_CMSG_CLOEXEC), &m);
	m = all;
	say_fields("all", recvmsg(fd, &m, 0), &m);
	m = all;
	m.msg_name = NULL;
	say_fields("no name", recvmsg(fd, &m, MSG_CMSG_CLOEXEC), &m);
	m = all;
	m.msg_namelen = 0;
	say_fields("peek", recvmsg(fd, &m, MSG_PEEK), &m);
	m = bytes_only;
	say_fields("wait", recvmsg(fd, &m, MSG_WAITALL), &m);
	m = all;
	say_fields("trunc", recvmsg(fd, &m, MSG_TRUNC), &m);
	m = all;
	say_fields("recvfrom", recvfrom(fd, buf, 5, 0, m.msg_name,
					&m.msg_namelen), &m);
	send_go(fd);
	m = all;
	say_fields("end", recvmsg(fd, &m, 0), &m);
	close(fd);
}

static void fields_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, buf, 35);
	await_go(fd);
	close(fd);
}

/* More than the kernel takes, of which it looks at nothing else. */
static void beyond_server(int lfd)
{
	static struct iovec iov[1025];
	static struct sockaddr_storage addr[2];
	volatile size_t minus = (size_t)-1, many = COUNT(iov);
	volatile socklen_t below = (socklen_t)-5;
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = many};
	struct mmsghdr two[2] = {{.msg_hdr = m}, {.msg_hdr = m}};
	int fd = answer(lfd);

	for (size_t i = 0; i < COUNT(iov); i++)
		iov[i] = (struct iovec){buf + i, 1};
	two[0].msg_hdr.msg_iovlen = 3;
	warm_up(fd, false);
	say_result("sendmsg", sendmsg(fd, &m, 0));
	say_result("recvmsg", recvmsg(fd, &m, MSG_DONTWAIT));
	say_result("writev", writev(fd, iov, (int)many));
	say_result("readv", readv(fd, iov, (int)many));
	m.msg_iovlen = minus;
	say_result("sendmsg", sendmsg(fd, &m, 0));
	say_result("recvmsg", recvmsg(fd, &m, MSG_DONTWAIT));
	m.msg_iovlen = 1024;
	say_result("sendmsg", sendmsg(fd, &m, 0));
	m.msg_iovlen = 1;
	m.msg_name = addr;
	m.msg_namelen = below;
	say_result("sendmsg", sendmsg(fd, &m, 0));
	say_result("recvmsg", recvmsg(fd, &m, MSG_DONTWAIT));
	m.msg_namelen = sizeof(addr);
	say_result("sendmsg", sendmsg(fd, &m, 0));
	say_result("sendto", sendto(fd, buf, 2, 0, (void *)addr, sizeof(addr)));
	say_result("sendto", sendto(fd, buf, 2, 0, (void *)addr, below));
	say_result("sendto", sendto(fd, buf, 2, 0, NULL, below));
	say_result("sendto", sendto(fd, buf, 2, 0, (void *)addr, 16));
	say_result("sendmmsg", sendmmsg(fd, two, 2, 0));
	await_readable(fd, 5);
	m.msg_name = NULL;
	say_result("recvmsg", recvmsg(fd, &m, 0));
	say_result("end", (ssize_t)take(fd, buf, 100));
	close(fd);
}

static void beyond_client(void)
{
	int fd = dial_warm();

	put(fd, "12345", 5);
	shutdown(fd, SHUT_WR);
	say_result("all", (ssize_t)take(fd, buf, 10000));
	close(fd);
}

const struct tcp_case cases[] = {
	{"iov", iov_server, iov_client},
	{"mmsg", mmsg_server, mmsg_client},
	{"none", none_server, none_client},
	{"fields", fields_server, fields_client},
	{"fields-reset", fields_reset_server, fields_reset_client},
	{"beyond", beyond_server, beyond_client},
	{0},
};
