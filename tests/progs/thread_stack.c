/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * thread_stack.c - calls on streams in threads whose stack is as small as POSIX allows
 * (PTHREAD_STACK_MIN): how much of it is used is seen by what is left of the paint.  With
 * CASE_DEPTH each call says it.
 */
#include "case.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>

#define LEAST 16384		/* PTHREAD_STACK_MIN of x86-64 */
#define STACK (4 * LEAST)
#define PAINT 0x5a

static int fd, ep, file, listener;
static char data[1 << 20];

struct small {
	void (*run)(void);
	const char *name;
};

/* ------------------------------------------------- painted stacks */

static void *run_small(void *arg)
{
	((struct small *)arg)->run();
	return NULL;
}

/* The C library's part (thread-local data, its own frames) counts. */
static size_t depth_of(struct small *s)
{
	unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;
	size_t left = 0;

	memset(stack, PAINT, STACK);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, STACK);
	if (pthread_create(&t, &attr, run_small, s))
		die("pthread_create");
	pthread_join(t, NULL);
	while (left < STACK && stack[left] == PAINT)
		left++;
	munmap(stack, STACK);
	return STACK - left;
}

static size_t deepest;

static void measure(const char *name, void (*run)(void))
{
	struct small s = {run, name};
	size_t depth = depth_of(&s);

	if (getenv("CASE_DEPTH"))
		fprintf(stderr, "%s: %zu\n", name, depth);
	if (depth > LEAST)
		say("%s: needs a larger stack", name);
	if (depth > deepest)
		deepest = depth;
}

/* ------------------------------------------------- calls */

static void dials(void) { fd = dial(); }
static void accepts(void) { fd = answer(listener); }
static void warms(void) { warm_up(fd, true); }
static void warms_back(void) { warm_up(fd, false); }
static void one_out(void) { put(fd, data, 1); }

static void reads(void)
{
	struct iovec v[2] = {{data, 10}, {data + 10, 10}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};

	take(fd, data, 100);
	(void)!read(fd, data, 20);
	(void)!readv(fd, v, 2);
	(void)!recvmsg(fd, &m, MSG_PEEK);
	recvfrom(fd, data, 20, MSG_WAITALL, NULL, NULL);
}

static void writes(void)
{
	struct iovec v[2] = {{data, 50}, {data + 10, 50}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};

	(void)!write(fd, data, 100);
	(void)!writev(fd, v, 2);
	sendmsg(fd, &m, 0);
	sendto(fd, data, 100, MSG_MORE, NULL, 0);
	send(fd, data, 100, MSG_DONTWAIT);
}

static void polls(void)
{
	struct pollfd p[] = {{fd, POLLIN, 0}, {listener, POLLIN, 0}};

	poll(p, 2, 1);
	ppoll(p, 2, &(struct timespec){0, 1000000}, NULL);
}

static void selects(void)
{
	struct timeval t = {0, 1000};
	fd_set r, w;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(fd, &r);
	FD_SET(fd, &w);
	select(fd + 1, &r, &w, NULL, &t);
	FD_SET(fd, &r);
	pselect(FD_SETSIZE, &r, NULL, NULL, &(struct timespec){0, 1000000}, NULL);
}

static void waits(void)
{
	struct epoll_event ev = {.events = EPOLLIN};

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	epoll_wait(ep, &ev, 1, 1);
	epoll_ctl(ep, EPOLL_CTL_DEL, fd, &ev);
}

static void asks(void)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int n;

	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	ioctl(fd, FIONREAD, &n);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL));
	close(dup(fd));
}

static void sends_file(void)
{
	off_t at = 0;

	sendfile(fd, file, &at, 100000);
}

static void forks(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

/* Back to TCP. */
static void opens_file(void)
{
	FILE *f = fdopen(dup(fd), "r");

	if (f)
		fclose(f);
}

static void takes_rest(void)
{
	while (recv(fd, data, sizeof(data), 0) > 0)
		;
}

static void shuts(void) { shutdown(fd, SHUT_WR); }
static void closes(void) { close(fd); }

static void all(bool first)
{
	static const struct small calls[] = {
		{polls, "poll"}, {selects, "select"}, {waits, "epoll_wait"}, {asks, "getsockopt"},
		{writes, "write"}, {reads, "read"}, {sends_file, "sendfile"},
	};

	measure(first ? "connect" : "accept", first ? dials : accepts);
	for (int i = 0; i < 2; i++) {	/* plain in lazy, then on a link */
		measure("first calls", first ? warms : warms_back);
		for (size_t k = 0; k < COUNT(calls); k++)
			measure(calls[k].name, calls[k].run);
		measure("one byte", one_out);
	}
	measure("fork", forks);
	measure("fdopen", opens_file);
	measure("shutdown", shuts);
	measure("the rest", takes_rest);
	measure("close", closes);
	say("fits: %d", deepest <= LEAST);
}

static void prepare(void)
{
	ep = epoll_create1(EPOLL_CLOEXEC);
	file = memfd_create("zeros", MFD_CLOEXEC);
	if (ftruncate(file, 100000))
		die("ftruncate");
}

static void small_server(int lfd)
{
	listener = lfd;
	prepare();
	all(false);
}

static void small_client(void)
{
	listener = new_socket(0);
	prepare();
	all(true);
}

const struct tcp_case cases[] = {
	{"small", small_server, small_client},
	{0},
};
