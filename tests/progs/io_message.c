/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* io_message.c - buffers and messages: many of them, none, fields, what is kept. */
#include "case.h"

#include <sys/epoll.h>

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

/* ------------------------------------------------------------ TCP_INQ */

/* recvmsg(2) of n bytes with room for so much control. */
static ssize_t receive_inq(int fd, size_t n, size_t room, int flags, struct msghdr *m, int *inq)
{
	static char control[100];
	struct iovec iov = {buf, n};
	struct cmsghdr *c;
	ssize_t r;

	memset(control, 1, sizeof(control));
	*m = (struct msghdr){.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room ? control : NULL,
			     .msg_controllen = room};
	r = recvmsg(fd, m, flags);
	c = r < 0 ? NULL : CMSG_FIRSTHDR(m);
	*inq = -1;
	if (c && c->cmsg_level == IPPROTO_TCP && c->cmsg_type == TCP_CM_INQ)
		memcpy(inq, CMSG_DATA(c), sizeof(*inq));
	return r;
}

static void say_inq(int fd, size_t n, size_t room, int flags)
{
	struct msghdr m;
	int inq, err;
	ssize_t r = receive_inq(fd, n, room, flags, &m, &inq);

	err = errno;
	say("inq %d control %zu length %zu flags %x", inq, m.msg_controllen,
	    m.msg_controllen >= sizeof(struct cmsghdr) ?
		    ((struct cmsghdr *)m.msg_control)->cmsg_len : 0,
	    m.msg_flags);
	errno = err;
	say_result("recvmsg", r);
}

static void await_hangup(int fd)
{
	struct pollfd p = {fd, POLLRDHUP, 0};

	say_result("poll", poll(&p, 1, -1));
}

static void set_inq(int fd, int v)
{
	say_result("set", setsockopt(fd, IPPROTO_TCP, TCP_INQ, &v, sizeof(v)));
	socklen_t len = sizeof(v);
	say_result("get", getsockopt(fd, IPPROTO_TCP, TCP_INQ, &v, &len));
	say("%d", v);
}

static void inq_server(int lfd)
{
	int fd;

	set_inq(lfd, 1);
	fd = answer_warm(lfd);
	set_inq(fd, 2);
	send_go(fd);
	await_readable(fd, 100);
	say_inq(fd, 10, 100, 0);
	say_inq(fd, 10, 0, 0);
	say_inq(fd, 10, 15, 0);
	say_inq(fd, 10, 16, 0);
	say_inq(fd, 10, 18, 0);
	say_inq(fd, 10, 20, MSG_CMSG_CLOEXEC);
	say_inq(fd, 10, 24, MSG_PEEK);
	say_inq(fd, 5, 24, MSG_WAITALL);
	set_inq(fd, 0);
	say_inq(fd, 5, 24, 0);
	say_inq(fd, 5, 0, 0);
	set_inq(fd, 1);
	say_inq(fd, 25, 100, 0);
	say_inq(fd, 10, 100, MSG_DONTWAIT);
	send_go(fd);
	await_hangup(fd);
	say_inq(fd, 10, 100, 0);
	say_inq(fd, 10, 100, MSG_PEEK);
	say_inq(fd, 20, 100, 0);
	say_inq(fd, 10, 100, 0);
	say_inq(fd, 10, 0, 0);
	say_inq(fd, 10, 100, MSG_PEEK);
	close(fd);
}

static void inq_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	put(fd, buf, 100);
	await_go(fd);
	put(fd, buf, 30);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* Reads on as long as the kernel says that there is more, and otherwise waits for the next
 * edge, as gRPC does. */
static void inq_edge_server(int lfd)
{
	int fd = answer(lfd), ep = epoll_create1(0), on = 1, inq;
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	struct data d = DATA(0);
	struct msghdr m;
	uint32_t left = 0;
	ssize_t r = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)) ||
	    fcntl(fd, F_SETFL, O_NONBLOCK) || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		die("set up");
	while (r) {
		if (epoll_wait(ep, &ev, 1, 60000) != 1)
			die("no edge");
		do {
			r = receive_inq(fd, left ? left : 4, 100, 0, &m, &inq);
			if (r < 0 && errno == EAGAIN)
				break; /* a spurious one */
			if (r < 0 || inq < 0)
				die("recvmsg");
			if (!left && r == 4)
				memcpy(&left, buf, 4);
			else
				data_sum(&d, buf, (size_t)r), left -= (uint32_t)r;
			if (!left && r)
				send_go(fd);
		} while (inq && r);
	}
	say_data("got", &d);
	close(fd);
}

static void inq_edge_client(void)
{
	struct data d = DATA(7), sizes = DATA(8);
	int fd = dial(), on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die("setsockopt");
	for (int i = 0; i < 1000; i++) {
		uint32_t n = (uint32_t)data_size(&sizes, i % 10 ? 3000 : 200000);

		data_fill(&d, buf, n);
		put(fd, &n, 4);
		put(fd, buf, n / 2);
		put(fd, buf + n / 2, n - n / 2);
		await_go(fd);
	}
	say_data("sent", &d);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"iov", iov_server, iov_client},
	{"mmsg", mmsg_server, mmsg_client},
	{"none", none_server, none_client},
	{"fields", fields_server, fields_client},
	{"fields-reset", fields_reset_server, fields_reset_client},
	{"beyond", beyond_server, beyond_client},
	{"inq", inq_server, inq_client},
	{"inq-edge", inq_edge_server, inq_edge_client},
	{0},
};
