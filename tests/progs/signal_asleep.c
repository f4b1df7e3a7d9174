/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signal_asleep.c - handlers that make calls, in a program that watches malloc(3). */
#include "handler.h"

#include <sys/epoll.h>
#include <sys/time.h>

/* A handler may have interrupted malloc(3), so nothing may be allocated in it. */
static __thread volatile sig_atomic_t in_handler;
static volatile sig_atomic_t allocated, interrupts;
static int handler_fd;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);

void *malloc(size_t n)
{
	if (interrupts) {
		interrupts = 0;
		raise(SIGUSR1);
	}
	allocated |= in_handler;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	allocated |= in_handler;
	return __libc_calloc(n, size);
}

/* A handler sleeps in a call, as does the call that it interrupts. */
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

/* ---- a call of the program's waits for a peer that is stopped: the handler that a timer has
 * call lets the peer go on, and so the call must let the handler run ---- */

static volatile sig_atomic_t continued;
static pid_t halted;

static void let_go_on(int sig)
{
	(void)sig;
	kill(halted, SIGCONT);
	continued = 1;
}

static void halt_peer(void)
{
	halted = peer_pid();
	kill(halted, SIGSTOP);
	while (thread_state(halted, halted) != 'T')
		nap(1);
}

/* Runs the call with the timer set. */
static void beside_timer(const char *name, int (*call)(int fd), int fd)
{
	struct itimerval soon = {.it_value = {.tv_usec = 50000}};
	sigset_t none;

	continued = 0;
	halt_peer();
	setitimer(ITIMER_REAL, &soon, NULL);
	say_result(name, call(fd));
	sigemptyset(&none);
	while (!continued)
		sigsuspend(&none);
}

static int replaces(int fd) { return dup2(STDIN_FILENO, fd) - fd; }

static void stopped_server(int lfd)
{
	struct sigaction sa = {.sa_handler = let_go_on, .sa_flags = SA_RESTART};
	int (*const calls[])(int fd) = {close, replaces};
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = epoll_create1(0);

	sigaction(SIGALRM, &sa, NULL);
	for (size_t i = 0; i < COUNT(calls); i++) {
		int fd = answer_warm(lfd), copy = dup(fd);

		if (epoll_ctl(ep, EPOLL_CTL_ADD, copy, &ev))
			die("epoll_ctl");
		beside_timer(i ? "dup2" : "close", calls[i], copy);
		send_go(fd);
		await_end(fd);
		if (i)
			close(copy);
	}
}

static void stopped_client(void)
{
	for (int i = 0; i < 2; i++) {
		int fd = dial_warm();

		await_go(fd);
		close(fd);
	}
}

/* A handler interrupts malloc(3).  Its stream has moved as much when it returns as a stream
 * may ask for a link with. */
static bool first;
static int polled[2];
static void *volatile is_kept;

static int poll_many(short events)
{
	struct pollfd p[20];

	for (size_t i = 0; i < COUNT(p); i++)
		p[i] = (struct pollfd){.fd = handler_fd, .events = events};
	return poll(p, COUNT(p), 0);
}

static void use_in_handler(int sig)
{
	int err = errno;

	(void)sig;
	in_handler = 1;
	warm_up(handler_fd, first);
	polled[0] = poll_many(POLLPRI);
	polled[1] = poll_many(POLLOUT);
	in_handler = 0;
	errno = err;
}

static void interrupt_malloc(int fd, bool is_first)
{
	handler_fd = fd;
	first = is_first;
	handle(SIGUSR1, use_in_handler, SA_RESTART);
	interrupts = 1;
	is_kept = malloc(20); /* else the compiler would leave it out */
	free(is_kept);
	say("polled: %d and %d, allocated: %d", polled[0], polled[1], (int)allocated);
}

/* The link is asked for by the first call outside a handler. */
static void in_malloc_server(int lfd)
{
	int fd = answer(lfd);

	interrupt_malloc(fd, false);
	warm_up(fd, false);
	interrupt_malloc(fd, false);
	await_end(fd);
}

static void in_malloc_client(void)
{
	int fd = dial();

	interrupt_malloc(fd, true);
	warm_up(fd, true);
	interrupt_malloc(fd, true);
	close(fd);
}

const struct tcp_case cases[] = {
	{"asleep", asleep_server, asleep_client},
	{"stopped", stopped_server, stopped_client},
	{"in-malloc", in_malloc_server, in_malloc_client},
	{0},
};
