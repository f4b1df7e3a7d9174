/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sockets.h - the connections of a round, and the descriptors that are passed. */
#ifndef FAULTS_SOCKETS_H
#define FAULTS_SOCKETS_H

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "shared.h"

static inline const char *address(void)
{
	const char *a = getenv("FAULTS_ADDR");

	return a ? a : "127.0.0.1";
}

static inline struct sockaddr_in at(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	a.sin_addr.s_addr = inet_addr(address());
	return a;
}

static inline int port_of(int fd, int (*get)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	if (get(fd, (struct sockaddr *)&a, &len))
		die("address");
	return ntohs(a.sin_port);
}

static inline int get_name(int fd, struct sockaddr *a, socklen_t *len)
{
	return getsockname(fd, a, len);
}

static inline int get_peer(int fd, struct sockaddr *a, socklen_t *len)
{
	return getpeername(fd, a, len);
}

static inline int listen_any(atomic_int *port)
{
	struct sockaddr_in a = at(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, SOMAXCONN))
		die("listen");
	*port = port_of(fd, get_name);
	return fd;
}

static inline int dial(int port, struct stream *s)
{
	struct sockaddr_in a = at(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	s->port = port_of(fd, get_name);
	return fd;
}

/* Whose other end this is. */
static inline struct stream *match(int port, struct subject *first, int subjects, bool server)
{
	for (;; nap_us(200))
		for (int i = 0; i < subjects; i++)
			for (int j = 0; j < shared->streams; j++) {
				struct stream *s = &first[i].stream[j];

				if (s->port == port && s->server == server)
					return s;
			}
}

/* What the kernel has carried of the program's bytes in both directions. */
static inline uint64_t by_kernel(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return 0;
	return info.tcpi_bytes_sent + info.tcpi_bytes_received;
}

static inline void pass_fd(int to, int fd)
{
	char c = 'f', control[CMSG_SPACE(sizeof(fd))] = "";
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	if (sendmsg(to, &m, MSG_NOSIGNAL) != 1)
		die("SCM_RIGHTS");
}

static inline int take_fd(int from)
{
	char c, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(from, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
		_exit(0);	/* the parent has ended before */
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

#endif
