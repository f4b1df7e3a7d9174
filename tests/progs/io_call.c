/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * io_call.c - system calls by number, and bytes that are moved by other calls than send
 * and recv: the fortified ones, those of files, sendfile and splice, aio(7).
 */
#include "case.h"

#include <aio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

static char buf[1 << 20];

/* ----------------------------------------------------------- syscall(2) */

/* Descriptors are made, copied and closed by number, and a set waits so. */
static void number_server(int lfd)
{
	int fd = (int)syscall(SYS_accept4, lfd, NULL, NULL, 0), dup;
	int set = (int)syscall(SYS_epoll_create1, 0);
	struct epoll_event ev = {.events = EPOLLIN};
	ssize_t n;

	warm_up(fd, false);
	dup = (int)syscall(SYS_dup, fd);
	syscall(SYS_close, fd);
	say_result("add", syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, dup, &ev));
	say_result("nothing", syscall(SYS_epoll_pwait, set, &ev, 1, 20, NULL, 8));
	send_go(dup);
	await_readable(dup, 3000);
	say_result("bytes", syscall(SYS_epoll_pwait, set, &ev, 1, 5000, NULL, 8));
	while ((n = recv(dup, buf, sizeof(buf), 0)) > 0)
		put(dup, buf, (size_t)n);
	say_result("end", n);
	say_result("close", syscall(SYS_close, dup));
	say_result("closed", read(dup, buf, 1));
	say_result("close", syscall(SYS_close, syscall(SYS_socket, AF_INET, SOCK_STREAM, 0)));
	close(set);
}

static void number_client(void)
{
	struct data sent = DATA(7), got = DATA(8);
	int fd = dial_warm();

	await_go(fd);
	for (int i = 0; i < 50; i++) {
		data_fill(&sent, buf, 3000);
		put(fd, buf, 3000);
		if (take(fd, buf, 3000) != 3000)
			die("read");
		data_sum(&got, buf, 3000);
	}
	say_data("sent", &sent);
	say_data("got", &got);
	say_result("shutdown", shutdown(fd, SHUT_WR));
	say_result("end", read(fd, buf, 1));
	say_result("close", syscall(SYS_close, fd));
}

/* --------------------------------------------- other names of the calls */

/* Calls that files share, and those that are only for files. */
static void file_calls_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct iovec iov = {buf, 4};

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
	int fd = dial_warm();
	struct iovec iov = {(char *)"abcd", 4};

	await_go(fd);
	say_result("pwritev2", pwritev2(fd, &iov, 1, -1, 0));
	say_result("write", write(fd, "efgh", 4));
	say_result("pwrite", pwrite(fd, "x", 1, 0));
	say_result("pwritev", pwritev(fd, &iov, 1, 0));
	await_end(fd);
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
	int fd = answer_warm(lfd);
	struct pollfd p = {fd, POLLIN, 0};
	struct timespec t = {5, 0};
	char small[8];

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
	int fd = dial_warm();

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
	say_result("behind the end", sendfile(fd, file, &at, 100));
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
	int fd = dial_warm(), p[2], file;
	off_t at = 0;
	char path[64];

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
	say_result("nothing", sendfile(fd, file, &at, 0));
	say("%d signals", (int)sigpipes);
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
	int fd = answer_warm(lfd);
	struct data d = DATA(0);

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
	send_go(fd);
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

	/* The peer has what it was sent before the stream is plain. */
	send_go(fd);
	await_go(fd);
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

/* --------------------------------------------------------------- aio(7) */

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
	int fd = answer_warm(lfd);
	char in[100] = "";

	say_result("write", by_aio(aio_write, fd, "aio writes", 10));
	say_bytes("read", by_aio(aio_read, fd, in, sizeof(in)), in);
	close(fd);
}

static void aio_client(void)
{
	int fd = dial_warm();
	char in[100] = "";

	say_bytes("got", (ssize_t)take(fd, in, 10), in);
	put(fd, "to be read", 10);
	say_result("end", recv(fd, in, 10, 0));
	close(fd);
}

const struct tcp_case cases[] = {
	{"number", number_server, number_client},
	{"file-calls", file_calls_server, file_calls_client},
	{"fortified", fortified_server, fortified_client},
	{"sendfile", sum_server, sendfile_client},
	{"sendfile-odd", warm_sum_server, sendfile_odd_client},
	{"sendfile-over", warm_sum_server, sendfile_over_client},
	{"splice", splice_server, splice_client},
	{"aio", aio_server, aio_client},
	{0},
};
