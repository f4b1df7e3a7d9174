/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* io.c - the calls that move bytes, their flags and their odd results. */
#include "case.h"

#include <aio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

static char buf[1 << 20];

/* ------------------------------------------------------------- flags */

static void peek_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	say_result("empty", recv(fd, buf, 5, MSG_PEEK | MSG_DONTWAIT));
	send_go(fd);
	await_readable(fd, 11);
	say_bytes("peek", recv(fd, buf, 5, MSG_PEEK), buf);
	say_bytes("peek", recv(fd, buf, 100, MSG_PEEK), buf);
	say_bytes("recv", recv(fd, buf, 6, 0), buf);
	say_bytes("peek", recv(fd, buf, 100, MSG_PEEK), buf);
	say_bytes("peek, trunc", recv(fd, buf, 2, MSG_PEEK | MSG_TRUNC), buf);
	say_bytes("recv", recv(fd, buf, 100, 0), buf);
	send_go(fd);
	/* Asleep in a peek when bytes come. */
	say_bytes("sleep", recv(fd, buf, 1, MSG_PEEK), buf);
	say_bytes("peek all", recv(fd, buf, 3, MSG_PEEK | MSG_WAITALL), buf);
	say_bytes("recv", (ssize_t)take(fd, buf, 3), buf);
	send_go(fd);
	say_result("end", recv(fd, buf, 5, MSG_PEEK));
	say_result("end", recv(fd, buf, 5, 0));
	close(fd);
}

static void peek_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	await_go(fd);
	put(fd, "hello world", 11);
	await_go(fd);
	nap(30);
	put(fd, "xyz", 3);
	await_go(fd);
	close(fd);
	say("done");
}

static void waitall_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);
	struct timeval t = {0, 200000};
	struct iovec iov[2] = {{buf, 300}, {buf + 300, 700}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

	say_result("recv", recv(fd, buf, 1000, MSG_WAITALL));
	data_sum(&d, buf, 1000);
	say_result("recvmsg", recvmsg(fd, &m, MSG_WAITALL));
	data_sum(&d, buf, 1000);
	say_result("large", recv(fd, buf, 900000, MSG_WAITALL));
	data_sum(&d, buf, 900000);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
		die("SO_RCVTIMEO");
	send_go(fd);
	say_result("timeout", recv(fd, buf, 1000, MSG_WAITALL));
	send_go(fd);
	t.tv_usec = 0;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
		die("SO_RCVTIMEO");
	say_result("short", recv(fd, buf, 1000, MSG_WAITALL));
	data_sum(&d, buf, 40);
	say_result("end", recv(fd, buf, 1000, MSG_WAITALL));
	say_data("got", &d);
	close(fd);
}

static void waitall_client(void)
{
	int fd = dial();
	struct data d = DATA(21);

	for (int i = 0; i < 20; i++) {
		data_fill(&d, buf, 100);
		put(fd, buf, 100);
		nap(5);
	}
	data_fill(&d, buf, 900000);
	put(fd, buf, 900000);
	await_go(fd);
	put(fd, "1234567", 7);
	await_go(fd);
	data_fill(&d, buf, 40);
	put(fd, buf, 40);
	close(fd);
	say_data("sent", &d);
}

/* A sender that never waits: EAGAIN when full, and all it was told arrives. */
static void dontwait_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	warm_up(fd, false);
	say_result("empty", recv(fd, buf, 10, MSG_DONTWAIT));
	say_result("empty", read(fd, buf, 0));
	send_go(fd);
	nap(300); /* the client fills up */
	take_rest(fd, &d);
	put(fd, &d.bytes, sizeof(d.bytes));
	put(fd, &d.crc, sizeof(d.crc));
	close(fd);
}

static void dontwait_client(void)
{
	int fd = dial(), full = 0;
	struct data d = DATA(22), sent = DATA(0);
	uint64_t bytes;
	uint32_t crc;
	ssize_t n;

	warm_up(fd, true);
	data_fill(&d, buf, sizeof(buf));
	await_go(fd);
	while (full < 3) {
		n = send(fd, buf, 300000, MSG_DONTWAIT);
		if (n > 0) {
			data_sum(&sent, buf, (size_t)n);
			continue;
		}
		if (!full)
			say_result("full", n);
		full++;
		nap(30);
	}
	shutdown(fd, SHUT_WR);
	take(fd, &bytes, sizeof(bytes));
	take(fd, &crc, sizeof(crc));
	say("%s", bytes == sent.bytes && crc == sent.crc ? "equal" : "DIFFERS");
	close(fd);
}

/* On TCP MSG_TRUNC discards what it would have copied. */
static void trunc_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	send_go(fd);
	await_readable(fd, 26);
	memset(buf, '-', 10);
	say_bytes("trunc", recv(fd, buf, 5, MSG_TRUNC), buf);
	say_bytes("recv", recv(fd, buf, 5, 0), buf);
	say_result("trunc null", recv(fd, NULL, 6, MSG_TRUNC));
	say_bytes("recv", recv(fd, buf, 100, 0), buf);
	close(fd);
}

static void trunc_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	await_go(fd);
	put(fd, "abcdefghijklmnopqrstuvwxyz", 26);
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

/* Held back while more is announced, but not for ever. */
static void more_server(int lfd)
{
	int fd = answer(lfd);
	struct pollfd p = {fd, POLLIN, 0};

	warm_up(fd, false);
	for (int i = 0; i < 2; i++) {
		await_go(fd);
		say("held: %d", poll(&p, 1, 40));
		send_go(fd);
		say_bytes("all", (ssize_t)take(fd, buf, 6), buf);
		send_go(fd);
	}
	say("late: %d", poll(&p, 1, 5000));
	say_bytes("late", (ssize_t)take(fd, buf, 4), buf);
	send_go(fd);
	say_bytes("big", (ssize_t)take(fd, buf, 0), buf);
	say_result("big", (ssize_t)take(fd, buf, 500000));
	close(fd);
}

static void more_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	send_go(fd);
	say_result("more", send(fd, "ab", 2, MSG_MORE));
	say_result("more", send(fd, "cd", 2, MSG_MORE));
	await_go(fd);
	say_result("last", send(fd, "ef", 2, 0));
	await_go(fd);

	send_go(fd);
	set_int(fd, IPPROTO_TCP, TCP_CORK, 1);
	say_result("cork", send(fd, "uvw", 3, 0));
	say_result("cork", write(fd, "xyz", 3));
	await_go(fd);
	set_int(fd, IPPROTO_TCP, TCP_CORK, 0);
	await_go(fd);

	say_result("more", send(fd, "tail", 4, MSG_MORE));
	await_go(fd);
	for (int i = 0; i < 5; i++)
		say_result("big", send(fd, buf, 100000, MSG_MORE));
	shutdown(fd, SHUT_WR);
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

/* Megabytes in pieces of odd sizes, each with a tail that is held back: rings
 * grow meanwhile. */
static void more_bulk_server(int lfd)
{
	struct data d = DATA(5);
	int fd = answer(lfd);

	warm_up(fd, false);
	take_rest(fd, &d);
	say_data("got", &d);
	close(fd);
}

static void more_bulk_client(void)
{
	struct data d = DATA(5), sizes = DATA(6);
	int fd = dial();

	warm_up(fd, true);
	for (int i = 0; d.bytes < 20 << 20; i++) {
		size_t n = data_size(&sizes, i % 8 ? 3000 : 300000);

		if (i % 500 == 0)
			set_int(fd, IPPROTO_TCP, TCP_CORK, i % 1000 == 0);
		data_fill(&d, buf, n);
		for (size_t done = 0; done < n;) {
			ssize_t k = send(fd, buf + done, n - done,
					 i % 3 ? MSG_MORE : 0);

			if (k < 0)
				die("send");
			done += (size_t)k;
		}
	}
	shutdown(fd, SHUT_WR);
	say_data("sent", &d);
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

/* A message in two pieces, with a pause for a switch between them. */
static void peek_across_server(int lfd)
{
	int fd = answer(lfd);
	struct pollfd p = {fd, POLLIN, 0};

	poll(&p, 1, 5000);
	await_readable(fd, 16);
	say_bytes("peek", recv(fd, buf, 16, MSG_PEEK), buf);
	say_bytes("peek", recv(fd, buf, 100, MSG_PEEK), buf);
	say_bytes("peek", recv(fd, buf, 10, MSG_PEEK), buf);
	say_bytes("recv", recv(fd, buf, 16, MSG_WAITALL), buf);
	close(fd);
}

static void peek_across_client(void)
{
	int fd = dial();

	put(fd, "12345678", 8);
	nap(300);
	put(fd, "abcdefgh", 8);
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

/* ----------------------------------------------------------- syscall(2) */

/* The same by number, and the descriptor is closed so, as libuv does it. */
static void number_server(int lfd)
{
	int fd = (int)syscall(SYS_accept4, lfd, NULL, NULL, 0), dup;
	struct pollfd p;
	long n;

	warm_up(fd, false);
	dup = (int)syscall(SYS_dup, fd);
	syscall(SYS_close, fd);
	p = (struct pollfd){dup, POLLIN, 0};
	say_result("poll", syscall(SYS_ppoll, &p, 1, NULL, NULL, 8));
	while ((n = syscall(SYS_recvfrom, dup, buf, sizeof(buf), 0, NULL,
			    NULL)) > 0)
		for (long done = 0; done < n;)
			done += syscall(SYS_write, dup, buf + done, n - done);
	say_result("end", n);
	say_result("close", syscall(SYS_close, dup));
	say_result("closed", syscall(SYS_read, dup, buf, 1));
}

static void number_client(void)
{
	struct data sent = DATA(7), got = DATA(8);
	int fd = dial();

	warm_up(fd, true);
	for (int i = 0; i < 50; i++) {
		data_fill(&sent, buf, 3000);
		if (syscall(SYS_sendto, fd, buf, 3000, 0, NULL, 0) != 3000)
			die("sendto");
		if (take(fd, buf, 3000) != 3000)
			die("read");
		data_sum(&got, buf, 3000);
	}
	say_data("sent", &sent);
	say_data("got", &got);
	say_result("shutdown", syscall(SYS_shutdown, fd, SHUT_WR));
	say_result("end", syscall(SYS_read, fd, buf, 1));
	say_result("close", syscall(SYS_close, fd));
}

/* ------------------------------------------------------- many buffers */

static void iov_server(int lfd)
{
	int fd = answer(lfd);
	char a[3], b[7], c[100];
	struct iovec iov[4] = {{a, 3}, {NULL, 0}, {b, 7}, {c, 100}};
	struct sockaddr_storage from;
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = iov,
			   .msg_iovlen = 4,
			   .msg_flags = 0x7ff};
	char control[100];

	warm_up(fd, false);
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
	int fd = dial();
	struct iovec iov[5] = {{(char *)"abc", 3},
			       {NULL, 0},
			       {(char *)"defg", 4},
			       {(char *)"", 0},
			       {(char *)"0123456789012", 13}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 5};
	struct data d = DATA(23);
	volatile int less = -1; /* or the compiler warns */

	warm_up(fd, true);
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
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
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

/* Calls that files share, and those that are only for files. */
static void file_calls_server(int lfd)
{
	int fd = answer(lfd);
	struct iovec iov = {buf, 4};

	warm_up(fd, false);
	say_result("preadv2 nowait", preadv2(fd, &iov, 1, -1, RWF_NOWAIT));
	send_go(fd);
	say_bytes("preadv2", preadv2(fd, &iov, 1, -1, 0), buf);
	say_bytes("read", read(fd, buf, 4), buf);
	say_result("pread", pread(fd, buf, 4, 0));
	say_result("preadv", preadv(fd, &iov, 1, 0));
	say_result("lseek", lseek(fd, 0, SEEK_CUR));
	say_result("ftruncate", ftruncate(fd, 0));
	say_result("fsync", fsync(fd));
	say_result("read 0", read(fd, buf, 0));
	say_result("send 0", send(fd, buf, 0, 0));
	say_result("write 0", write(fd, buf, 0));
	close(fd);
}

static void file_calls_client(void)
{
	int fd = dial();
	struct iovec iov = {(char *)"abcd", 4};

	warm_up(fd, true);
	await_go(fd);
	say_result("pwritev2", pwritev2(fd, &iov, 1, -1, 0));
	say_result("write", write(fd, "efgh", 4));
	say_result("pwrite", pwrite(fd, "x", 1, 0));
	say_result("pwritev", pwritev(fd, &iov, 1, 0));
	say_result("end", recv(fd, buf, 1, 0));
	close(fd);
}

/* What -D_FORTIFY_SOURCE makes of the calls. */
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *,
		       socklen_t *);
ssize_t __read_chk(int, void *, size_t, size_t);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *,
		const sigset_t *, size_t);

static void fortified_server(int lfd)
{
	int fd = answer(lfd);
	struct pollfd p = {fd, POLLIN, 0};
	struct timespec t = {5, 0};
	char small[8];

	warm_up(fd, false);
	send_go(fd);
	say("poll: %d", __poll_chk(&p, 1, 5000, sizeof(p)));
	say("ppoll: %d", __ppoll_chk(&p, 1, &t, NULL, sizeof(p)));
	await_readable(fd, 20);
	say_bytes("recv", __recv_chk(fd, small, 8, sizeof(small), 0), small);
	say_bytes("recvfrom",
		  __recvfrom_chk(fd, small, 8, sizeof(small), 0, NULL, NULL),
		  small);
	say_bytes("read", __read_chk(fd, small, 8, sizeof(small)), small);
	say_result("read", __read_chk(fd, small, 8, sizeof(small)));
	close(fd);
}

static void fortified_client(void)
{
	int fd = dial();

	warm_up(fd, true);
	await_go(fd);
	put(fd, "abcdefghijklmnopqrst", 20);
	close(fd);
	say("done");
}

/* -------------------------------------------------- files and pipes */

static int data_file(struct data *d, size_t size)
{
	int fd = memfd_create("data", 0);

	while (size) {
		size_t n = size < sizeof(buf) ? size : sizeof(buf);

		data_fill(d, buf, n);
		if (write(fd, buf, n) != (ssize_t)n)
			die("write");
		size -= n;
	}
	return fd;
}

static void sendfile_client(void)
{
	int fd = dial(), file, n = 0;
	struct data d = DATA(24), in = DATA(0);
	const size_t size = 5000000;
	off_t at = 0;

	file = data_file(&d, size);
	put(fd, "head", 4);
	while (at < (off_t)size && n >= 0)
		n = (int)sendfile(fd, file, &at, size);
	say("offset %lld", (long long)at);
	say_result("past the end", sendfile(fd, file, &at, 100));
	say("position %lld", (long long)lseek(file, 0, SEEK_CUR));
	lseek(file, (off_t)size - 1000, SEEK_SET);
	say_result("no offset", sendfile(fd, file, NULL, 5000));
	say("position %lld", (long long)lseek(file, 0, SEEK_CUR));
	say_result("bad file", sendfile(fd, -1, NULL, 5000));
	put(fd, "tail", 4);
	shutdown(fd, SHUT_WR);
	take_rest(fd, &in);
	say_data("answer", &in);
	close(fd);
}

static void say_sendfile(int fd, const char *path, int mode, bool offset)
{
	int file = open(path, mode);
	off_t at = 0;

	say("%s%s", path, offset ? ", offset" : "");
	say_result("sendfile", sendfile(fd, file, offset ? &at : NULL, 1000));
	say("offset %lld, position %lld", (long long)at,
	    (long long)lseek(file, 0, SEEK_CUR));
	close(file);
}

static void sendfile_odd_client(void)
{
	struct data in = DATA(0), d = DATA(51);
	int fd = dial(), p[2], file;
	off_t at = 0;
	char path[64];

	warm_up(fd, true);
	for (int offset = 0; offset < 2; offset++) {
		say_sendfile(fd, "/dev/zero", O_RDONLY, offset);
		say_sendfile(fd, "/dev/null", O_RDONLY, offset);
		say_sendfile(fd, "/proc/self/environ", O_RDONLY, offset);
		say_sendfile(fd, "/proc/version", O_RDONLY, offset);
		say_sendfile(fd, "/dev", O_RDONLY | O_DIRECTORY, offset);
		say_sendfile(fd, "/dev/null", O_WRONLY, offset);
	}
	if (pipe(p) || write(p[1], "abc", 3) != 3)
		die("pipe");
	say_result("pipe", sendfile(fd, p[0], NULL, 3));
	say_result("pipe, offset", sendfile(fd, p[0], &at, 3));
	say_result("pipe, wrong end", sendfile(fd, p[1], NULL, 3));
	say_result("wrong end, offset", sendfile(fd, p[1], &at, 3));
	say_bytes("left", read(p[0], buf, 10), buf);
	file = data_file(&d, 1000);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	say_result("only written", sendfile(fd, open(path, O_WRONLY), &at, 9));
	at = -1;
	say_result("before it", sendfile(fd, file, &at, 9));
	say_result("socket", sendfile(fd, fd, NULL, 9));
	say_result("socket, offset", sendfile(fd, new_socket(0), &at, 9));
	put(fd, "tail", 4);
	shutdown(fd, SHUT_WR);
	take_rest(fd, &in);
	say_data("answer", &in);
	close(fd);
}

static volatile sig_atomic_t sigpipes;

static void on_sigpipe(int sig)
{
	(void)sig;
	sigpipes++;
}

/* After the end of its own direction, at once and when that has arrived; then the
 * peer has gone. */
static void sendfile_over_client(void)
{
	struct data d = DATA(52), in = DATA(0);
	int fd = dial(), file = data_file(&d, 1000);
	off_t at = 0;

	signal(SIGPIPE, on_sigpipe);
	warm_up(fd, true);
	shutdown(fd, SHUT_WR);
	say_result("at once", sendfile(fd, file, &at, 1000));
	say("%d signals", (int)sigpipes);
	take_rest(fd, &in);
	say_result("ended", sendfile(fd, file, &at, 1000));
	say("%d signals", (int)sigpipes);
	nap(50);
	say_result("later", sendfile(fd, file, &at, 1000));
	say("%d signals, offset %lld", (int)sigpipes, (long long)at);
	close(fd);
}

static void warm_sum_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	warm_up(fd, false);
	take_rest(fd, &d);
	say_data("got", &d);
	put(fd, "thanks", 6);
	close(fd);
}

static void sum_server(int lfd)
{
	int fd = answer(lfd);
	struct data d = DATA(0);

	take_rest(fd, &d);
	say_data("got", &d);
	put(fd, "thanks", 6);
	close(fd);
}

/* From a pipe into the stream at one end, from the stream into a pipe at the
 * other. */
static void splice_server(int lfd)
{
	int fd = answer(lfd), p[2];
	struct data d = DATA(0);
	ssize_t n;

	await_go(fd);
	if (pipe(p))
		die("pipe");
	while ((n = splice(fd, NULL, p[1], NULL, 50000, SPLICE_F_MOVE)) > 0)
		for (ssize_t left = n; left;) {
			ssize_t k = read(p[0], buf, (size_t)left);

			if (k <= 0)
				die("read");
			data_sum(&d, buf, (size_t)k);
			left -= k;
		}
	say_result("end", n);
	say_data("got", &d);
	put(fd, &d.crc, 4);
	close(fd);
}

static void splice_client(void)
{
	int fd = dial(), p[2];
	struct data d = DATA(25);
	uint32_t crc = 0;

	send_go(fd);
	if (pipe(p))
		die("pipe");
	for (int i = 0; i < 100; i++) {
		data_fill(&d, buf, 30000);
		if (write(p[1], buf, 30000) != 30000)
			die("write");
		for (ssize_t left = 30000; left;) {
			ssize_t n = splice(p[0], NULL, fd, NULL, (size_t)left,
					   i & 1 ? SPLICE_F_MORE : 0);

			if (n <= 0)
				die("splice");
			left -= n;
		}
	}
	say_data("sent", &d);
	say_result("nonblock",
		   splice(p[0], NULL, fd, NULL, 100, SPLICE_F_NONBLOCK));
	shutdown(fd, SHUT_WR);
	take(fd, &crc, 4);
	say("%s", crc == d.crc ? "equal" : "DIFFERS");
	close(fd);
}

/* What lies behind the bytes that came stays as it was, whatever came along. */
static void behind_server(int lfd)
{
	for (int i = 0; i < 60; i++) {
		int fd = answer(lfd);
		char in[300];
		ssize_t n;

		memset(in, 'z', sizeof(in));
		n = recv(fd, in, sizeof(in), 0);
		for (size_t k = n > 0 ? (size_t)n : 0; k < sizeof(in); k++)
			if (in[k] != 'z')
				n = -2;
		if (n != 3)
			say("%d: %zd", i, n);
		send_go(fd);
		close(fd);
	}
	say("done");
}

static void behind_client(void)
{
	char out[3] = "";

	for (int i = 0; i < 60; i++) {
		int fd = dial();

		put(fd, out, sizeof(out));
		await_go(fd);
		close(fd);
	}
	say("done");
}

/* aio(7): threads of the C library's own. */
static ssize_t by_aio(int (*call)(struct aiocb *), int fd, char *p, size_t n)
{
	struct aiocb cb = {.aio_fildes = fd, .aio_buf = p, .aio_nbytes = n};
	const struct aiocb *list[1] = {&cb};

	if (call(&cb))
		die("aio");
	while (aio_error(&cb) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	return aio_return(&cb);
}

static void aio_server(int lfd)
{
	int fd = answer(lfd);
	char in[100] = "";

	warm_up(fd, false);
	say_result("write", by_aio(aio_write, fd, "aio writes", 10));
	say_bytes("read", by_aio(aio_read, fd, in, sizeof(in)), in);
	close(fd);
}

static void aio_client(void)
{
	int fd = dial();
	char in[100] = "";

	warm_up(fd, true);
	say_bytes("got", (ssize_t)take(fd, in, 10), in);
	put(fd, "to be read", 10);
	say_result("end", recv(fd, in, 10, 0));
	close(fd);
}

static const struct tcp_case cases[] = {
	{"aio", aio_server, aio_client},
	{"behind", behind_server, behind_client},
	{"peek", peek_server, peek_client},
	{"waitall", waitall_server, waitall_client},
	{"dontwait", dontwait_server, dontwait_client},
	{"trunc", trunc_server, trunc_client},
	{"more", more_server, more_client},
	{"peek-across", peek_across_server, peek_across_client},
	{"number", number_server, number_client},
	{"more-bulk", more_bulk_server, more_bulk_client},
	{"iov", iov_server, iov_client},
	{"mmsg", mmsg_server, mmsg_client},
	{"file-calls", file_calls_server, file_calls_client},
	{"fortified", fortified_server, fortified_client},
	{"sendfile", sum_server, sendfile_client},
	{"sendfile-odd", warm_sum_server, sendfile_odd_client},
	{"sendfile-over", warm_sum_server, sendfile_over_client},
	{"splice", splice_server, splice_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
