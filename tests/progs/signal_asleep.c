/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signal_asleep.c - a handler that sleeps in a call, in a program that watches malloc(3). */
#include "case.h"

/* A handler sleeps in a call, as does the call that it interrupts.  It may have interrupted
 * malloc(3) as well, so nothing may be allocated in it. */
static volatile sig_atomic_t in_handler, allocated;
static int handler_fd;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);

void *malloc(size_t n)
{
	allocated |= in_handler;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	allocated |= in_handler;
	return __libc_calloc(n, size);
}

static void sleep_in_handler(int sig)
{
	ssize_t n;
	char c;

	(void)sig;
	post("handler");
	in_handler = 1;
	n = recv(handler_fd, &c, 1, 0);
	in_handler = 0;
	say_result("in handler", n);
}

static void asleep_server(int lfd)
{
	struct sigaction sa = {.sa_handler = sleep_in_handler, .sa_flags = SA_RESTART};
	int fd = handler_fd = answer(lfd), other = answer(lfd);
	char c;

	warm_up(fd, false);
	warm_up(other, false);
	sigaction(SIGUSR1, &sa, NULL);
	say_result("interrupted", recv(other, &c, 1, 0));
	say("allocated: %d", (int)allocated);
	close(other);
	close(fd);
}

static void asleep_client(void)
{
	int fd = dial(), other = dial();

	warm_up(fd, true);
	warm_up(other, true);
	await_peer_asleep();
	kill(peer_pid(), SIGUSR1);
	await_post("handler");
	await_peer_asleep();
	send_go(fd);
	send_go(other);
	await_end(other);
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"asleep", asleep_server, asleep_client},
	{0},
};
