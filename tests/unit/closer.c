/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * closer.c - a close(2) that sleeps holds nobody up; there are only so many at a time, and
 * a place is free again when it is over, or in the child of fork.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/loop.h"
#include "base/process.h"
#include "check.h"

#define THREADS 8 /* closer.c */
#define EXTRA 3
#define LINGER_S 2

/* Its last close takes LINGER_S. */
static int lingering(void)
{
	struct linger l = {1, LINGER_S};
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int server = socket(AF_INET, SOCK_STREAM, 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	static const char zeros[65536];
	socklen_t len = sizeof(in);
	int small = 4096;	/* the rest waits here */

	CHECK(!setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)));
	CHECK(!bind(server, (struct sockaddr *)&in, len) && !listen(server, 1));
	CHECK(!getsockname(server, (struct sockaddr *)&in, &len));
	CHECK(!connect(fd, (struct sockaddr *)&in, len));
	while (send(fd, zeros, sizeof(zeros), MSG_DONTWAIT) > 0)
		;
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	return fd;
}

static void await_place(unsigned seconds)
{
	uint64_t end = sr_now_ns() + seconds * UINT64_C(1000000000);

	while (!sr_closer_free() && sr_now_ns() < end)
		usleep(1000);
	CHECK(sr_closer_free());
}

/* A socket on which such a descriptor lies, and nobody else has it. */
static int brought(void)
{
	int pair[2], fd = lingering();
	struct iovec v = {"", 1};
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	*c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	CHECK_EQ(sendmsg(pair[1], &msg, 0), 1);
	close(fd);
	close(pair[1]);
	fd = sr_fd_own(pair[0]);
	sr_fd_slow(fd);
	return fd;
}

/* The parent forks before it closes it, and does that before the child comes to it. */
static void forked(void)
{
	int fd = brought(), go[2], status;
	uint64_t start;
	pid_t pid;
	char c;

	CHECK(!pipe(go));
	pid = fork();
	if (!pid) {
		close(go[1]);
		CHECK(!read(go[0], &c, 1));
		start = sr_now_ns();
		sr_closer_forget();
		sr_fd_forget_all(sr_fd_is_slow);
		sr_closer_inherit();
		_exit(sr_now_ns() - start > LINGER_S * UINT64_C(500000000));
	}
	sr_fd_close(fd);
	close(go[1]);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	close(go[0]);
}

static int fd[THREADS + EXTRA];

/* How many have not been closed, or are not being closed? */
static int open_ones(void)
{
	int n = 0;

	for (int i = 0; i < THREADS + EXTRA; i++)
		n += fcntl(fd[i], F_GETFD) >= 0;
	return n;
}

int main(void)
{
	int status, i;
	uint64_t start;
	pid_t pid;

	if (check_in_valgrind())	/* a close() that sleeps holds all threads */
		return 77;
	sr_conf_load();
	sr_process_begin();
	forked();
	for (i = 0; i < THREADS + EXTRA; i++)
		fd[i] = lingering();
	start = sr_now_ns();
	for (i = 0; i < THREADS + EXTRA; i++) {
		CHECK(sr_closer_free() == (i < THREADS)); /* the rest was accepted before */
		sr_closer_close(fd[i]);
	}
	CHECK(sr_now_ns() - start < LINGER_S * UINT64_C(1000000000));

	/* A copy of the child's would make it not the last close. */
	while (open_ones() > EXTRA)
		usleep(1000);
	usleep(100000);
	CHECK_EQ(open_ones(), EXTRA);	/* they wait for a place */
	pid = fork();
	if (!pid) {
		sr_closer_forget();
		_exit(!sr_closer_free());
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);

	await_place(5 * LINGER_S);
	CHECK(sr_now_ns() - start > LINGER_S * UINT64_C(900000000));
	/* A thread may have taken one, and be about to close it: then its number is gone
	 * long before that close ends. */
	start = sr_now_ns();
	while (open_ones() && sr_now_ns() - start < LINGER_S * UINT64_C(500000000))
		usleep(1000);
	CHECK_EQ(open_ones(), 0);
	return 0;
}
