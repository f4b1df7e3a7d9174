/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * case.h - what the behaviour programs share.  They are ordinary TCP programs
 * and know nothing of Sockrail: each case has a server and a client half, run
 * as two processes
 *
 *     PROGRAM server CASE ADDRESS PORTFILE
 *     PROGRAM client CASE ADDRESS PORT
 *
 * and each half prints what it saw to stdout, the same on every run over kernel
 * TCP.  A failed helper says so on stderr and exits with 1.  With $CASE_UID it
 * becomes that user first.
 *
 * Where a half has to wait for the other one, it waits for a condition: for what
 * comes by the stream; for a note that the other half posts; or until the other
 * half, or a thread, is asleep in the kernel.  The notes are files in $CASE_DIR.
 */
#ifndef TEST_CASE_H
#define TEST_CASE_H

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct tcp_case {
	const char *name;
	void (*server)(int lfd);
	void (*client)(void);
};

static struct sockaddr_storage peer_addr; /* the client's: where to connect */
static socklen_t peer_len;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ------------------------------------------------------------ transcript */

static inline void say(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
static inline void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* One call's result: the number, or -1 and errno's name. */
static inline void say_result(const char *what, ssize_t n)
{
	if (n < 0)
		say("%s: -1 %s", what, strerrorname_np(errno));
	else
		say("%s: %zd", what, n);
}

static inline void say_bytes(const char *what, ssize_t n, const char *buf)
{
	if (n < 0)
		say_result(what, n);
	else
		say("%s: %zd \"%.*s\"", what, n, (int)n, buf);
}

/* -------------------------------------------------------------- time */

static inline void nap(unsigned ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static inline uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A step of a loop that waits for what must come: false when it has not for a minute, which
 * is long for a machine that is slow or stands still.  (*end is 0 at first.) */
static inline bool patient(uint64_t *end)
{
	uint64_t now = now_ms();

	if (!*end)
		*end = now + 60000;
	nap(now + 59000 < *end ? 1 : 5); /* what comes soon is seen soon */
	return now < *end;
}

/* ------------------------------------------------- what the others do */

static const char *peer_role; /* the other half's: "client" or "server" */

static inline void note_path(char path[4096], const char *name)
{
	const char *dir = getenv("CASE_DIR");

	if (!dir)
		die("CASE_DIR");
	snprintf(path, 4096, "%s/%s", dir, name);
}

/* Tells the other half, beside all streams. */
static inline void post(const char *name)
{
	char path[4096];
	int fd;

	note_path(path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		die(path);
	close(fd);
}

static inline bool is_posted(const char *name)
{
	char path[4096];

	note_path(path, name);
	return !access(path, F_OK);
}

static inline void await_post(const char *name)
{
	uint64_t end = 0;

	while (!is_posted(name))
		if (!patient(&end))
			die(name);
}

/* 'S' if the thread is asleep, 'R' if it runs or would like to, 0 if there is none */
static inline char thread_state(pid_t pid, pid_t tid)
{
	char path[64], line[512] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	(void)!fgets(line, sizeof(line), f);
	fclose(f);
	end = strrchr(line, ')');
	return end && end[1] ? end[2] : '\0';
}

/* Until it is asleep in a call, not just for a moment at a lock; or has ended. */
static inline void await_asleep(pid_t pid, pid_t tid)
{
	char state;

	for (int looks = 0; looks < 5; looks++) {
		nap(6);
		state = thread_state(pid, tid);
		if (!state || state == 'Z')
			return;
		if (state != 'S')
			looks = -1;
	}
}

static inline pid_t peer_pid(void)
{
	char path[4096], name[32];
	int pid = 0;
	FILE *f;

	snprintf(name, sizeof(name), "%s.pid", peer_role);
	await_post(name);
	note_path(path, name);
	while (pid <= 0) {
		f = fopen(path, "re");
		if (!f)
			die(path);
		if (fscanf(f, "%d", &pid) != 1)
			pid = 0;
		fclose(f);
	}
	return pid;
}

/* The same of the other half's first thread. */
static inline void await_peer_asleep(void)
{
	pid_t pid = peer_pid();

	await_asleep(pid, pid);
}

static inline void post_pid(const char *role)
{
	char path[4096], name[32];
	FILE *f;

	if (!getenv("CASE_DIR"))
		return;
	snprintf(name, sizeof(name), "%s.pid", role);
	note_path(path, name);
	f = fopen(path, "we");
	if (!f)
		die(path);
	fprintf(f, "%d\n", getpid());
	fclose(f);
}

/* -------------------------------------------------------------- sockets */

static inline int new_socket(int flags)
{
	int fd = socket(peer_addr.ss_family, SOCK_STREAM | flags, 0);

	if (fd < 0)
		die("socket");
	return fd;
}

static inline int dial(void)
{
	int fd = new_socket(0);

	if (connect(fd, (struct sockaddr *)&peer_addr, peer_len))
		die("connect");
	return fd;
}

static inline int answer(int lfd)
{
	int fd = accept(lfd, NULL, NULL);

	if (fd < 0)
		die("accept");
	return fd;
}

/* All of it, or dies. */
static inline void put(int fd, const void *buf, size_t n)
{
	const char *p = buf;

	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k < 0)
			die("send");
		p += k;
		n -= (size_t)k;
	}
}

/* n bytes, or fewer at the end of the stream; dies on errors. */
static inline size_t take(int fd, void *buf, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = recv(fd, (char *)buf + got, n - got, 0);

		if (k < 0)
			die("recv");
		if (!k)
			break;
		got += (size_t)k;
	}
	return got;
}

/* A one-byte signal from the other half. */
static inline void send_go(int fd)
{
	put(fd, "!", 1);
}

static inline void await_go(int fd)
{
	char c;

	if (take(fd, &c, 1) != 1 || c != '!') {
		fprintf(stderr, "no go\n");
		exit(1);
	}
}

/* Both ends have used the stream both ways, so it may be upgraded by now. */
static inline void warm_up(int fd, bool first)
{
	char buf[4096];

	memset(buf, 'w', sizeof(buf));
	for (int i = 0; i < 4; i++) {
		if (first)
			put(fd, buf, sizeof(buf));
		if (take(fd, buf, sizeof(buf)) != sizeof(buf))
			die("warm_up");
		if (!first)
			put(fd, buf, sizeof(buf));
	}
}

static inline int dial_warm(void)
{
	int fd = dial();

	warm_up(fd, true);
	return fd;
}

static inline int answer_warm(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	return fd;
}

/* The peer's end is the next that comes; closes. */
static inline void await_end(int fd)
{
	char c;

	say_result("end", recv(fd, &c, 1, 0));
	close(fd);
}

/* The peer gets ECONNRESET, and what it has not read is lost. */
static inline int close_by_reset(int fd)
{
	struct linger at_once = {1, 0};

	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)))
		die("SO_LINGER");
	return close(fd);
}

/* A client that answers one signal, and waits for the end. */
static inline void go_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	send_go(fd);
	await_end(fd);
}

/* Waits, bounded, until n bytes can be read. */
static inline void await_readable(int fd, int n)
{
	uint64_t end = 0;
	int have = -1;

	do {
		if (ioctl(fd, FIONREAD, &have))
			die("FIONREAD");
		if (have >= n)
			return;
	} while (patient(&end));
	fprintf(stderr, "FIONREAD: %d, not %d\n", have, n);
	exit(1);
}

/* Until nothing moves any more, not just until the first EAGAIN: TCP's window may open
 * once more by a probe, 0.2 s later.  How many bytes. */
static inline uint64_t fill_up(int fd)
{
	static const char zeros[65536];
	uint64_t sent = 0;
	ssize_t n;

	for (int full = 0; full < 12;) {
		n = send(fd, zeros, sizeof(zeros), MSG_DONTWAIT);
		if (n < 0)
			n = send(fd, zeros, 1, MSG_DONTWAIT);
		if (n > 0) {
			sent += (uint64_t)n;
			full = 0;
		} else {
			full++;
			nap(20);
		}
	}
	return sent;
}

static inline void set_int(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		die("setsockopt");
}

static inline int get_int(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	if (getsockopt(fd, level, name, &value, &len))
		die("getsockopt");
	return value;
}

#include "case_data.h"
#include "case_threads.h"

/* -------------------------------------------------------------- main */

static inline void set_addr(const char *text, int port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&peer_addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&peer_addr;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		peer_len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		peer_len = sizeof(*v6);
	} else {
		fprintf(stderr, "%s: no address\n", text);
		exit(2);
	}
}

/* Listens on a free port and writes its number to the file. */
static inline int listen_on(const char *portfile)
{
	int fd = new_socket(0);
	FILE *f;

	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (struct sockaddr *)&peer_addr, peer_len) ||
	    listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&peer_addr, &peer_len))
		die("listen");
	f = fopen(portfile, "w");
	if (!f)
		die(portfile);
	fprintf(f, "%d\n",
		ntohs(((struct sockaddr_in *)&peer_addr)->sin_port));
	fclose(f);
	return fd;
}

static inline void become(unsigned uid)
{
	if (setgid(uid) || setuid(uid))
		die("setuid");
}

/* The program's, behind which there is one without a name. */
extern const struct tcp_case cases[];

static inline int case_main(int argc, char **argv)
{
	const struct tcp_case *c;
	bool server = argc == 5 && !strcmp(argv[1], "server");

	if (getenv("CASE_UID"))
		become((unsigned)atoi(getenv("CASE_UID")));
	setvbuf(stdout, NULL, _IOLBF, 0);
	peer_role = server ? "client" : "server";
	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (c = cases; c->name; c++)
			puts(c->name);
		return 0;
	}
	if (!server && (argc != 5 || strcmp(argv[1], "client"))) {
		fprintf(stderr,
			"usage: %s server CASE ADDRESS PORTFILE\n"
			"       %s client CASE ADDRESS PORT\n"
			"       %s list\n",
			argv[0], argv[0], argv[0]);
		return 2;
	}
	for (c = cases; c->name && strcmp(c->name, argv[2]); c++)
		;
	if (!c->name) {
		fprintf(stderr, "%s: no such case\n", argv[2]);
		return 2;
	}
	post_pid(argv[1]);
	if (server) {
		set_addr(argv[3], 0);
		c->server(listen_on(argv[4]));
	} else {
		set_addr(argv[3], atoi(argv[4]));
		c->client();
	}
	return 0;
}

#ifndef OWN_MAIN
int main(int argc, char **argv)
{
	return case_main(argc, argv);
}
#endif

#endif
