/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cost_calls - the calls that tests/bench/cost counts the instructions of.  Both ends of a
 * TCP connection over loopback are in this process and in one thread.  Each case is a
 * function of its own, case_NAME, that makes its calls ROUNDS times and nothing else.
 *
 * Usage: cost_calls link|plain     link: returns only when both directions have left TCP
 */
#include <netinet/in.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS 1000
#define BYTES 64
#define ATTEMPTS 5000		/* to see both directions on a link, 2 ms apart */
#define OTHERS 9
#define EACH __attribute__((noinline))

static int out, in, set;	/* out sends, in receives */
static int others[2 * OTHERS];	/* of streams on which nothing happens */
static char buf[BYTES];

static void need(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

static int listener;
static struct sockaddr_in address = { .sin_family = AF_INET };

static void start_listening(void)
{
	socklen_t len = sizeof(address);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	need(!bind(listener, (void *)&address, len) && !listen(listener, 1) &&
	     !getsockname(listener, (void *)&address, &len), "listen");
}

static void connect_pair(int *from, int *to)
{
	*from = socket(AF_INET, SOCK_STREAM, 0);
	need(!connect(*from, (void *)&address, sizeof(address)), "connect");
	*to = accept(listener, NULL, NULL);
	need(*to >= 0, "accept");
}

static void pass(int from, int to)
{
	need(send(from, buf, BYTES, 0) == BYTES, "send");
	need(recv(to, buf, BYTES, MSG_WAITALL) == BYTES, "recv");
}

/* TCP's own count of what it has carried. */
static uint64_t by_tcp(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	need(!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), "TCP_INFO");
	return info.tcpi_bytes_received;
}

/* Moves bytes both ways until TCP carries none of them. */
static void await_link(int a, int b)
{
	uint64_t before;
	int i, n;

	for (i = 0; i < ATTEMPTS; i++) {
		before = by_tcp(a) + by_tcp(b);
		for (n = 0; n < 10; n++) {
			pass(a, b);
			pass(b, a);
		}
		if (by_tcp(a) + by_tcp(b) == before)
			return;
		usleep(2000);
	}
	fprintf(stderr, "cost_calls: the stream stays on TCP\n");
	exit(1);
}

EACH static void case_send_recv(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		send(out, buf, BYTES, 0);
		recv(in, buf, BYTES, 0);
	}
}

/* The reader asks for more than there is, as most do. */
static char large[4096];

EACH static void case_write_read(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		(void)!write(out, buf, BYTES);
		(void)!read(in, large, sizeof(large));
	}
}

EACH static void case_writev_readv(void)
{
	struct iovec v[2] = { { buf, BYTES / 2 }, { buf, BYTES / 2 } };

	for (int i = 0; i < ROUNDS; i++) {
		(void)!writev(out, v, 2);
		(void)!readv(in, v, 2);
	}
}

EACH static void case_sendmsg_recvmsg(void)
{
	struct iovec v[2] = { { buf, BYTES / 2 }, { buf, BYTES / 2 } };
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 2 };

	for (int i = 0; i < ROUNDS; i++) {
		sendmsg(out, &msg, 0);
		recvmsg(in, &msg, 0);
	}
}

EACH static void case_send_epoll_recv(void)
{
	struct epoll_event ev;

	for (int i = 0; i < ROUNDS; i++) {
		send(out, buf, BYTES, 0);
		epoll_wait(set, &ev, 1, -1);
		recv(in, buf, BYTES, 0);
	}
}

EACH static void case_send_poll_recv(void)
{
	struct pollfd p = { .fd = in, .events = POLLIN };

	for (int i = 0; i < ROUNDS; i++) {
		send(out, buf, BYTES, 0);
		poll(&p, 1, -1);
		recv(in, buf, BYTES, 0);
	}
}

EACH static void case_send_select_recv(void)
{
	fd_set r;

	FD_ZERO(&r);
	for (int i = 0; i < ROUNDS; i++) {
		send(out, buf, BYTES, 0);
		FD_SET(in, &r);
		select(in + 1, &r, NULL, NULL, NULL);
		recv(in, buf, BYTES, 0);
	}
}

/* Ten streams, of which one has something. */
EACH static void case_send_poll10_recv(void)
{
	struct pollfd p[OTHERS + 1] = { { in, POLLIN, 0 } };

	for (int i = 0; i < OTHERS; i++)
		p[i + 1] = (struct pollfd){ others[2 * i + 1], POLLIN, 0 };
	for (int i = 0; i < ROUNDS; i++) {
		send(out, buf, BYTES, 0);
		poll(p, OTHERS + 1, -1);
		recv(in, buf, BYTES, 0);
	}
}

/* The set has a pipe, too. */
EACH static void case_send_mixed_recv(void)
{
	struct epoll_event ev[2];

	for (int i = 0; i < ROUNDS; i++) {
		send(out, buf, BYTES, 0);
		epoll_wait(set, ev, 2, -1);
		recv(in, buf, BYTES, 0);
	}
}

EACH static void case_epoll_idle(void)
{
	struct epoll_event ev;

	for (int i = 0; i < ROUNDS; i++)
		epoll_wait(set, &ev, 1, 0);
}

EACH static void case_poll_idle(void)
{
	struct pollfd p = { .fd = in, .events = POLLIN };

	for (int i = 0; i < ROUNDS; i++)
		poll(&p, 1, 0);
}

/* A pair of descriptors, and links if they are wanted. */
static void make_pair(int *from, int *to, bool link)
{
	connect_pair(from, to);
	pass(*from, *to);
	pass(*to, *from);
	if (link)
		await_link(*from, *to);
}

int main(int argc, char **argv)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ends[2];
	bool link;

	need(argc == 2, "link or plain?");
	link = !strcmp(argv[1], "link");
	start_listening();
	make_pair(&out, &in, link);
	case_send_recv();
	case_write_read();
	case_writev_readv();
	case_send_poll_recv();
	case_poll_idle();
	set = epoll_create1(0);
	need(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, in, &ev), "epoll_ctl");
	case_send_epoll_recv();
	case_epoll_idle();
	need(!pipe(ends) && !epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &ev), "pipe");
	case_send_mixed_recv();
	close(set);
	case_sendmsg_recvmsg();
	case_send_select_recv();
	for (int i = 0; i < OTHERS; i++)
		make_pair(&others[2 * i], &others[2 * i + 1], link);
	case_send_poll10_recv();
	return 0;
}
