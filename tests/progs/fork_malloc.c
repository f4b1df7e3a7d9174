/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fork_malloc.c - a program of one thread whose malloc() has a lock, and does nothing about
 * fork.  No thread of the program holds the lock when it forks.
 */
#include "case.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static atomic_int holder; /* thread id; 0: free */
static atomic_bool watched;

static void take_malloc(void)
{
	pid_t tid = gettid();

	for (int none = 0; !atomic_compare_exchange_weak(&holder, &none, tid); none = 0)
		sched_yield();
	if (watched && tid != getpid())
		nap(10); /* a thread that is not the program's */
}

static void give_malloc(void)
{
	atomic_store(&holder, 0);
}

void *malloc(size_t n)
{
	void *p;

	take_malloc();
	p = __libc_malloc(n);
	give_malloc();
	return p;
}

void *calloc(size_t n, size_t size)
{
	void *p;

	take_malloc();
	p = __libc_calloc(n, size);
	give_malloc();
	return p;
}

void *realloc(void *old, size_t n)
{
	void *p;

	take_malloc();
	p = __libc_realloc(old, n);
	give_malloc();
	return p;
}

void free(void *p)
{
	take_malloc();
	__libc_free(p);
	give_malloc();
}

static void echo_server(int lfd)
{
	char buf[4096];
	size_t n;

	for (int i = 0; i < 2; i++) {
		int fd = answer(lfd);

		while ((n = take(fd, buf, sizeof(buf))))
			put(fd, buf, n);
		close(fd);
	}
}

/* Forks while another thread is in malloc(), if there is one: policy wait asks for a link
 * when the program polls. */
static void locked_client(void)
{
	struct pollfd p = {.events = POLLIN};
	pid_t pid;

	watched = true;
	p.fd = dial();
	poll(&p, 1, 0);
	for (int i = 0; i < 200 && !holder; i++)
		nap(1);
	pid = split();
	if (pid == 0) {
		alarm(20);
		say("child: %s", malloc(100) ? "memory" : "none");
		_exit(0);
	}
	watched = false;
	reap(pid);
	close(p.fd);
	p.fd = dial();
	warm_up(p.fd, true);
	close(p.fd);
}

const struct tcp_case cases[] = {
	{"locked", echo_server, locked_client},
	{0},
};
