/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pointer.c - addresses that are no memory of the program's: EFAULT. */
#include "case.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>

#define SENT 100		/* bytes that each end finds to be received */
#define AT_ONCE (MSG_DONTWAIT | MSG_NOSIGNAL)

static char good[4096];

/* What is wrong with one: volatile, or the compiler warns of some. */
static void *volatile bad;

static void pages(void *out[3])
{
	long size = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, (size_t)size * 3, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p, (size_t)size, PROT_NONE) ||
	    munmap(p + 2 * size, (size_t)size))
		die("mmap");
	out[0] = (void *)8;
	out[1] = p;
	out[2] = p + 2 * size - 4;	/* its first bytes are memory */
}

static void options(int fd)
{
	static const int names[][2] = {
		{SOL_SOCKET, SO_RCVBUF}, {SOL_SOCKET, SO_SNDBUF},
		{SOL_SOCKET, SO_ERROR}, {SOL_SOCKET, SO_RCVLOWAT},
		{SOL_SOCKET, SO_KEEPALIVE}, {SOL_SOCKET, SO_LINGER},
		{SOL_SOCKET, SO_RCVTIMEO}, {SOL_SOCKET, SO_SNDTIMEO},
		{SOL_SOCKET, SO_TIMESTAMP}, {IPPROTO_TCP, TCP_NODELAY},
		{IPPROTO_TCP, TCP_CORK}, {IPPROTO_TCP, TCP_ULP},
	};

	for (size_t i = 0; i < COUNT(names); i++) {
		int level = names[i][0], name = names[i][1];
		socklen_t len = 16;

		say_result("getsockopt value",
			   getsockopt(fd, level, name, (char *)bad + 8 * (name == SO_ERROR), &len));
		say_result("getsockopt length",
			   getsockopt(fd, level, name, good, bad == (void *)8 ? bad : (char *)bad + 4));
		say_result("setsockopt", setsockopt(fd, level, name, (char *)bad + 4, 16));
	}
	say_result("TCP_ULP of 3", setsockopt(fd, IPPROTO_TCP, TCP_ULP, (char *)bad + 4, 3));
	say_result("SO_RCVLOWAT of 0", setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, bad, 0));
	say_result("FIONREAD", ioctl(fd, FIONREAD, (char *)bad + 4));
	say_result("SIOCOUTQ", ioctl(fd, TIOCOUTQ, (char *)bad + 4));
}

static void names(int fd)
{
	socklen_t len = sizeof(struct sockaddr_storage);

	say_result("connect", connect(fd, bad, peer_len));
	say_result("connect, 2 bytes", connect(fd, (struct sockaddr *)((char *)bad + 4), 2));
	say_result("bind", bind(fd, bad, peer_len));
	say_result("getsockname", getsockname(fd, bad, &len));
}

static void vectors(int fd)
{
	struct iovec v = {(char *)bad + 4, 16};

	say_result("readv", readv(fd, bad, 1));
	say_result("readv of many", readv(fd, bad, 1000));
	say_result("readv of bad", readv(fd, &v, 1));
	say_result("writev", writev(fd, bad, 1));
	say_result("writev of many", writev(fd, bad, 1000));
	say_result("writev of bad", writev(fd, &v, 1));
	say_result("preadv2", preadv2(fd, bad, 1, -1, 0));
	say_result("pwritev2", pwritev2(fd, bad, 1, -1, 0));
	say_result("read", read(fd, v.iov_base, 16));
	say_result("write", write(fd, v.iov_base, 16));
	say_result("recv", recv(fd, v.iov_base, 16, AT_ONCE));
	say_result("send", send(fd, v.iov_base, 16, AT_ONCE));
	say_result("sendto", sendto(fd, good, 1, AT_ONCE, bad, 16));
}

static void messages(int fd)
{
	struct iovec one = {good, 1}, v = {(char *)bad + 4, 16};
	struct msghdr m[] = {
		{.msg_iov = bad, .msg_iovlen = 1},
		{.msg_iov = bad, .msg_iovlen = 1000},
		{.msg_iov = bad, .msg_iovlen = 2000},
		{.msg_iov = &v, .msg_iovlen = 1},
		{.msg_iov = &one, .msg_iovlen = 1, .msg_name = bad, .msg_namelen = 16},
		{.msg_iov = &one, .msg_iovlen = 1, .msg_control = bad, .msg_controllen = 64},
	};
	struct mmsghdr two[2] = {{.msg_hdr = m[3]}, {.msg_hdr = m[3]}};

	say_result("recvmsg", recvmsg(fd, bad, AT_ONCE));
	say_result("sendmsg", sendmsg(fd, bad, AT_ONCE));
	for (size_t i = 0; i < COUNT(m); i++) {
		say("message %zu", i);
		if (i < 4)	/* more is looked at when the bytes are taken */
			say_result("recvmsg", recvmsg(fd, &m[i], AT_ONCE));
		say_result("sendmsg", sendmsg(fd, &m[i], AT_ONCE));
	}
	say_result("recvmmsg", recvmmsg(fd, bad, 2, AT_ONCE, NULL));
	say_result("recvmmsg of bad", recvmmsg(fd, two, 2, AT_ONCE, NULL));
	say_result("recvmmsg, time", recvmmsg(fd, two, 2, AT_ONCE, bad));
	say_result("sendmmsg", sendmmsg(fd, bad, 2, AT_ONCE));
	say_result("sendmmsg of bad", sendmmsg(fd, two, 2, AT_ONCE));
	two[0].msg_hdr.msg_iov = bad;
	say_result("sendmmsg of none", sendmmsg(fd, two, 2, AT_ONCE));
}

/* No times: the C library itself looks at them. */
static void waits(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};
	struct timespec none = {0, 0};
	struct timeval no = {0, 0};
	const void *mask = (char *)bad + 4;

	say_result("poll", poll(bad, 1, 0));
	say_result("poll of some", poll(bad, 20, 0));
	say_result("ppoll", ppoll(bad, 1, &none, NULL));
	say_result("ppoll, mask", ppoll(&p, 1, &none, mask));
	for (int i = 0; i < 4; i++) {
		fd_set set, *sets[3] = {&set};

		FD_ZERO(&set);
		if (fd >= 0)
			FD_SET(fd, &set);
		if (i < 3)
			sets[i] = bad;
		say_result("select", select(fd + 1, sets[0], sets[1], sets[2], &no));
		say_result("pselect", pselect(fd + 1, sets[0], sets[1], sets[2], &none,
					      i == 3 ? mask : NULL));
	}
}

static void sets(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT};
	struct timespec none = {0, 0};
	int epfd = epoll_create1(0);

	say_result("add", epoll_ctl(epfd, EPOLL_CTL_ADD, fd, bad));
	say_result("modify what is not", epoll_ctl(epfd, EPOLL_CTL_MOD, fd, bad));
	say_result("delete what is not", epoll_ctl(epfd, EPOLL_CTL_DEL, fd, bad));
	say_result("add", epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev));
	say_result("modify", epoll_ctl(epfd, EPOLL_CTL_MOD, fd, bad));
	say_result("wait, time", epoll_pwait2(epfd, &ev, 1, bad, NULL));
	say_result("wait", epoll_wait(epfd, bad, 1, 0));
	say_result("wait2", epoll_pwait2(epfd, bad, 1, &none, NULL));
	say_result("delete", epoll_ctl(epfd, EPOLL_CTL_DEL, fd, bad));
	close(epfd);
}

/* A descriptor from which nothing sleeps. */
static void every_call(const char *what, int fd)
{
	void *wrong[3];

	signal(SIGPIPE, SIG_IGN);
	pages(wrong);
	for (int i = 0; i < 3; i++) {
		say("%s, address %d", what, i);
		bad = wrong[i];
		options(fd);
		names(fd);
		vectors(fd);
		messages(fd);
		waits(fd);
		sets(fd);
	}
}

/* The kernel looks at the length when it has taken the bytes. */
static void begin(int fd)
{
	struct sockaddr_storage from;
	struct sockaddr *name = (struct sockaddr *)&from;
	socklen_t len = (socklen_t)-1;

	put(fd, good, SENT);
	await_readable(fd, SENT);
	say_result("length below 0", recvfrom(fd, good, 1, 0, name, &len));
	say_result("no length", recvfrom(fd, good, 1, 0, name, NULL));
	bad = (void *)8;
	say_result("bad length", recvfrom(fd, good, 1, 0, name, bad));
	len = 1000;
	say_result("length", recvfrom(fd, good, 1, 0, name, &len));
	say("%u", len);
}

static void end(int fd)
{
	say_result("rest", (ssize_t)take(fd, good, SENT - 4));
	send_go(fd);
	await_go(fd);
	close(fd);
}

/* ---- streams that stay plain ---- */

static void plain(int fd)
{
	begin(fd);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	every_call("stream", fd);
	fcntl(fd, F_SETFL, 0);
	end(fd);
}

static void plain_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	plain(fd);
}

static void plain_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	plain(fd);
}

/* ---- sockets of other kinds, beside a stream that may be on a link ---- */

static void other_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	begin(fd);
	every_call("listener", lfd);
	end(fd);
}

static void other_client(void)
{
	int fd = dial(), udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), s[2];

	warm_up(fd, true);
	begin(fd);
	every_call("new socket", new_socket(SOCK_NONBLOCK));
	every_call("datagrams", udp);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s))
		die("socketpair");
	every_call("pair", s[0]);
	every_call("no descriptor", -1);
	end(fd);
}

static const struct tcp_case cases[] = {
	{"plain", plain_server, plain_client},
	{"never", plain_server, plain_client},
	{"other", other_server, other_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
