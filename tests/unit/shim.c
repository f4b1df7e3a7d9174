/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls by descriptor, on plain streams.  The kernel is the oracle where
 * there is one: the same call through sr_real.
 */
#include "base/real.h"
#include "base/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "check.h"
#include "loop_call.h"
#include "sockrail.h"
#include "engine/fdtab.h"

/* A success must leave errno as it was. */
#define OK(call) \
	do { \
		errno = 12345; \
		CHECK((call) >= 0); \
		CHECK_EQ(errno, 12345); \
	} while (0)
#define FAILS(call, err) \
	do { \
		errno = 0; \
		CHECK_EQ((call), -1); \
		CHECK_EQ(errno, err); \
	} while (0)

/* A connection by our calls: pair[0] accepted, pair[1] connected. */
static void nothing(void *arg)
{
	(void)arg;
}

/* What the service thread opens has the lowest free number for a moment: waits until
 * it has done what it was asked for. */
static void settle(void)
{
	for (int i = 0; i < 3 && sr_loop_runs(); i++)
		CHECK_EQ(loop_call(nothing, NULL), 0);
}

static void connect_pair(int pair[2])
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(a);
	int l;

	settle();
	OK(l = sr_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	CHECK_EQ(bind(l, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(getsockname(l, (struct sockaddr *)&a, &len), 0);
	OK(sr_listen(l, 1));
	settle();
	OK(pair[1] = sr_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP));
	OK(sr_connect(pair[1], (struct sockaddr *)&a, sizeof(a)));
	OK(pair[0] = sr_accept4(l, NULL, NULL, SOCK_CLOEXEC));
	CHECK(sr_fdtab_has(l) && sr_fdtab_has(pair[0]));
	OK(sr_close(l));
	CHECK(!sr_fdtab_has(l) && sr_fdtab_has(pair[1]));
	settle();
}

static void close_pair(const int pair[2])
{
	OK(sr_close(pair[0]));
	OK(sr_close(pair[1]));
}

static void test_socket(void)
{
	static const struct {
		int domain, type, protocol;
		bool ours;
	} cases[] = {
		{AF_INET, SOCK_STREAM, 0, true},
		{AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP, true},
		{AF_INET, SOCK_DGRAM, 0, false},
		{AF_UNIX, SOCK_STREAM, 0, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd;

		OK(fd = sr_socket(cases[i].domain, cases[i].type,
				  cases[i].protocol));
		CHECK_EQ(sr_fdtab_has(fd), cases[i].ours);
		OK(sr_close(fd));
		CHECK(!sr_fdtab_has(fd));
	}
	sr_enter();
	int fd = sr_socket(AF_INET, SOCK_STREAM, 0);
	sr_leave();
	CHECK(fd >= 0 && !sr_fdtab_has(fd));
	OK(sr_close(fd));
	FAILS(sr_close(fd), EBADF);
	FAILS(sr_socket(-1, SOCK_STREAM, 0), EAFNOSUPPORT);
}

static void test_bytes(void)
{
	struct iovec iov[2] = {{(char *)"abc", 3}, {(char *)"de", 2}};
	struct iovec none[2] = {{NULL, 0}, {NULL, 0}};
	char a[4], b[4];
	struct iovec in[2] = {{a, 3}, {b, 4}};
	int p[2];

	connect_pair(p);
	OK(sr_writev(p[0], iov, 2));
	errno = 1;
	CHECK_EQ(sr_readv(p[1], in, 2), 5);
	CHECK(!memcmp(a, "abc", 3) && !memcmp(b, "de", 2));
	CHECK_EQ(errno, 1);

	/* Nothing is read without waiting; recv() of nothing would wait. */
	CHECK_EQ(sr_read(p[1], a, 0), 0);
	CHECK_EQ(sr_readv(p[1], none, 2), 0);
	CHECK_EQ(sr_writev(p[1], none, 2), 0);
	FAILS(sr_readv(p[1], in, -1), EINVAL);
	FAILS(sr_writev(p[1], in, IOV_MAX + 1), EINVAL);

	FAILS(sr_preadv2(p[1], in, 2, 0, 0), ESPIPE);
	FAILS(sr_pwritev2(p[1], iov, 2, 7, 0), ESPIPE);
	FAILS(sr_preadv2(p[1], in, 2, -1, RWF_NOWAIT), EAGAIN);
	FAILS(sr_preadv2(p[1], in, 2, -1, 1 << 30), EOPNOTSUPP);
	OK(sr_pwritev2(p[0], iov, 1, -1, 0));
	CHECK_EQ(sr_preadv2(p[1], in, 2, -1, RWF_NOWAIT), 3);

	FAILS(sr_recv(p[1], a, 1, MSG_DONTWAIT), EAGAIN);
	OK(sr_send(p[0], "xy", 2, 0));
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	CHECK_EQ(sr_recvfrom(p[1], a, 4, 0, (void *)&from, &len), 2);
	CHECK_EQ(len, 0);
	OK(sr_shutdown(p[0], SHUT_WR));
	CHECK_EQ(sr_read(p[1], a, 4), 0);
	close_pair(p);
}

static void test_many(void)
{
	char buf[3][4];
	struct iovec out[3] = {{(char *)"1", 1}, {(char *)"22", 2},
			       {(char *)"333", 3}};
	struct iovec in[3];
	struct mmsghdr vec[3];
	struct timespec t = {.tv_nsec = 1000000000};
	int p[2];

	connect_pair(p);
	memset(vec, 0, sizeof(vec));
	for (int i = 0; i < 3; i++) {
		vec[i].msg_hdr.msg_iov = &out[i];
		vec[i].msg_hdr.msg_iovlen = 1;
	}
	errno = 1;
	CHECK_EQ(sr_sendmmsg(p[0], vec, 3, 0), 3);
	CHECK_EQ(vec[2].msg_len, 3);
	CHECK_EQ(errno, 1);

	memset(vec, 0, sizeof(vec));
	for (int i = 0; i < 3; i++) {
		in[i] = (struct iovec){buf[i], 4};
		vec[i].msg_hdr.msg_iov = &in[i];
		vec[i].msg_hdr.msg_iovlen = 1;
	}
	errno = 1;
	CHECK_EQ(sr_recvmmsg(p[1], vec, 3, MSG_WAITFORONE, NULL), 2);
	CHECK_EQ(errno, 1);
	CHECK_EQ(vec[0].msg_len, 4);
	CHECK(!memcmp(buf[0], "1223", 4) && !memcmp(buf[1], "33", 2));
	FAILS(sr_recvmmsg(p[1], vec, 3, 0, &t), EINVAL);
	FAILS(sr_recvmmsg(p[1], vec, 3, MSG_DONTWAIT, NULL), EAGAIN);
	close_pair(p);
}

static void test_duplicates(void)
{
	int p[2], d, e, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	connect_pair(p);
	OK(d = sr_dup(p[0]));
	CHECK(sr_fdtab_has(d));
	OK(e = sr_fcntl(p[0], F_DUPFD_CLOEXEC, 100));
	CHECK(e >= 100 && sr_fdtab_has(e));

	/* Onto itself, from what is not open, onto what cannot be. */
	CHECK_EQ(sr_dup2(d, d), d);
	FAILS(sr_dup3(d, d, 0), EINVAL);
	FAILS(sr_dup2(99, d), EBADF);
	FAILS(sr_dup3(null, d, 0x4000000), EINVAL);
	FAILS(sr_dup2(d, -1), EBADF);
	CHECK(sr_fdtab_has(d));

	/* A file takes a stream's number, a stream a file's. */
	OK(sr_dup2(null, d));
	CHECK(!sr_fdtab_has(d) && sr_fdtab_has(p[0]));
	OK(sr_dup3(p[1], null, O_CLOEXEC));
	CHECK(sr_fdtab_has(null));
	CHECK_EQ(sr_fcntl(null, F_GETFD), FD_CLOEXEC);
	OK(sr_close(p[1]));
	OK(sr_write(null, "x", 1));
	char c;
	CHECK_EQ(sr_read(e, &c, 1), 1);
	OK(sr_close(null));
	CHECK_EQ(sr_read(e, &c, 1), 0);
	OK(sr_close(e));
	OK(sr_close(d));
	OK(sr_close(p[0]));
}

static bool is_open(int fd)
{
	return sr_real.fcntl(fd, F_GETFD) >= 0;
}

static void test_hidden(void)
{
	int mine = sr_fd_own(open("/dev/null", O_RDONLY)), p[2];

	CHECK(sr_fd_is_private(mine));
	FAILS(sr_close(mine), EBADF);
	FAILS(sr_dup2(0, mine), EBADF);
	connect_pair(p);
	OK(sr_close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC));
	CHECK(sr_fdtab_has(p[0]) && is_open(p[0]));
	FAILS(sr_close_range(5, 4, 0), EINVAL);
	FAILS(sr_close_range(3, UINT_MAX, 1 << 20), EINVAL);
	CHECK(sr_fdtab_has(p[0]));
	OK(sr_close_range((unsigned)p[1], UINT_MAX, 0));
	CHECK(!sr_fdtab_has(p[1]) && !is_open(p[1]));
	CHECK(is_open(mine));
	connect_pair(p);
	errno = 7;
	sr_closefrom(3);
	CHECK_EQ(errno, 7);
	CHECK(!sr_fdtab_has(p[0]) && !is_open(p[0]) && !is_open(p[1]));
	CHECK(is_open(mine));
	sr_inside = 1;		/* a library that has opened it closes it by itself */
	OK(sr_close(mine));
	sr_inside = 0;
	CHECK(!sr_fd_is_private(mine) && !is_open(mine));
}

/* What the child of vfork() does to its descriptors is not done to ours. */
static void test_vfork(void)
{
	int p[2], null = open("/dev/null", O_RDWR), status;
	volatile pid_t pid;

	connect_pair(p);
	pid = vfork();
	if (pid == 0) {
		/* ThreadSanitizer makes it a fork(). */
		bool ok = sr_process_ours() ||
			  (sr_dup2(p[0], null) == null &&
			   !sr_fdtab_has(null) && sr_close(p[0]) == 0 &&
			   open("/dev/null", O_RDWR) >= 0 &&
			   sr_close_range(3, UINT_MAX, 0) == 0 &&
			   sr_socket(AF_INET, SOCK_STREAM, 0) == 3 &&
			   sr_execv("/nowhere", (char *[]){"nowhere", NULL}) == -1);

		sr__exit(ok ? 0 : 1);
	}
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK(sr_fdtab_has(p[0]) && sr_fdtab_has(p[1]));
	CHECK(!sr_fdtab_has(null));
	OK(sr_write(p[0], "x", 1));
	close_pair(p);
	OK(sr_close(null));
}

/* Closed without our knowledge: whoever gets the number is not the stream. */
static void test_stale(void)
{
	char buf[4];
	int p[2], fd, low;

	connect_pair(p);
	OK(low = open("/dev/null", O_RDONLY));
	CHECK(low < p[0] && low < p[1]);
	syscall(SYS_close, p[0]);
	CHECK_EQ(sr_dup(low), p[0]);
	CHECK(!sr_fdtab_has(p[0]));
	CHECK_EQ(sr_read(p[1], buf, 1), 0);

	/* A file: the first call says that it is no socket. */
	settle();
	syscall(SYS_close, p[1]);
	OK(fd = open("/dev/zero", O_RDWR));
	CHECK(fd == p[1] && sr_fdtab_has(fd));
	errno = 1;
	CHECK_EQ(sr_read(fd, buf, sizeof(buf)), sizeof(buf));
	CHECK_EQ(errno, 1);
	CHECK(!sr_fdtab_has(fd));
	close_pair(p);
	OK(sr_close(low));
}

static void test_stdio(void)
{
	char buf[8];
	FILE *f;
	int p[2];

	connect_pair(p);
	f = sr_fdopen(p[0], "w");
	CHECK(f != NULL);
	fputs("hello", f);
	OK(sr_fclose(f));
	CHECK(!sr_fdtab_has(p[0]) && !is_open(p[0]));
	CHECK_EQ(sr_read(p[1], buf, sizeof(buf)), 5);
	CHECK_EQ(sr_read(p[1], buf, sizeof(buf)), 0);
	OK(sr_close(p[1]));
}

/* A descriptor that goes through a message, and comes back. */
static void test_passed(void)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = {.h = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	char byte = 'x';
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1,
			     .msg_control = &c,
			     .msg_controllen = sizeof(c.room)};
	int p[2], u[2], fd;
	struct sr_info info;

	connect_pair(p);
	OK(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
	memcpy(CMSG_DATA(&c.h), &p[0], sizeof(int));
	OK(sr_sendmsg(u[0], &msg, 0));
	OK(sr_info(p[0], &info, sizeof(info)));
	CHECK(info.reason && !strcmp(info.reason, "passed"));
	OK(sr_recvmsg(u[1], &msg, 0));
	memcpy(&fd, CMSG_DATA(&c.h), sizeof(int));
	CHECK(is_open(fd) && !sr_fdtab_has(fd));
	OK(sr_close(fd));
	close_pair(u);
	close_pair(p);
}

static void test_info(void)
{
	struct {
		struct sr_info info;
		char beyond[16];
	} i;
	int p[2];

	connect_pair(p);
	OK(sr_write(p[0], "abc", 3));
	memset(&i, 0x55, sizeof(i));
	OK(sr_info(p[0], &i.info, sizeof(i)));
	CHECK_EQ(i.beyond[0], 0);
	CHECK_EQ(i.info.tx.plain, 3);
	CHECK_EQ(i.info.tx_state, SR_STATE_PLAIN);
	memset(&i, 0x55, sizeof(i));
	OK(sr_info(p[0], &i.info, offsetof(struct sr_info, tx)));
	CHECK_EQ(*(char *)&i.info.tx, 0x55);
	FAILS(sr_info(p[0], &i.info, 0), EINVAL);
	close_pair(p);
	FAILS(sr_info(p[0], &i.info, sizeof(i.info)), EBADF);
	FAILS(sr_info(STDIN_FILENO, &i.info, sizeof(i.info)), ENOTSOCK);
}

static void test_options(void)
{
	int p[2], n = -1, size = 0;
	socklen_t len = sizeof(size);

	connect_pair(p);
	OK(sr_write(p[0], "abcd", 4));
	struct pollfd pfd = {.fd = p[1], .events = POLLIN};
	CHECK_EQ(sr_poll(&pfd, 1, 5000), 1);
	OK(sr_ioctl(p[1], FIONREAD, &n));
	CHECK_EQ(n, 4);
	CHECK_EQ(sr_sockatmark(p[1]), 0);
	OK(sr_getsockopt(p[1], SOL_SOCKET, SO_TYPE, &size, &len));
	CHECK_EQ(size, SOCK_STREAM);
	FAILS(sr_setsockopt(p[1], SOL_SOCKET, 9999, &size, len), ENOPROTOOPT);
	OK(sr_fcntl(p[1], F_SETFL, O_NONBLOCK));
	CHECK_EQ(sr_fcntl(p[1], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	close_pair(p);
}

int main(void)
{
	test_socket();
	test_bytes();
	test_many();
	test_duplicates();
	test_hidden();
	test_vfork();
	test_stale();
	test_stdio();
	test_passed();
	test_info();
	test_options();
	return 0;
}
