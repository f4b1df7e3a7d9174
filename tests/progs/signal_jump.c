/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signal_jump.c - signal handlers that do not return: siglongjmp, exit. */
#include "handler.h"

#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

static char big[65536];

/* ------------------------------------------- out of a handler */

static sigjmp_buf out;
static volatile sig_atomic_t may_jump, jumps;

static void jump(int sig)
{
	if (!may_jump)
		return;
	may_jump = 0;
	jumps++;
	siglongjmp(out, sig);
}

static void once_us(int us)
{
	struct itimerval t = {{0, 0}, {0, us}};

	setitimer(ITIMER_REAL, &t, NULL);
}

/* Out of all kinds of sleep; nothing is on its way here meanwhile. */
static void jump_out(int fd, int ep, int kind, int us)
{
	struct pollfd p = {fd, POLLIN, 0};
	struct epoll_event ev;
	fd_set r;
	char c;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	if (sigsetjmp(out, 1))
		return;
	may_jump = 1;
	once_us(us);
	for (;;) {
		switch (kind % 5) {
		case 0:
			recv(fd, &c, 1, 0);
			break;
		case 1:
			poll(&p, 1, -1);
			break;
		case 2:
			epoll_wait(ep, &ev, 1, -1);
			break;
		case 3:
			select(fd + 1, &r, NULL, NULL, NULL);
			break;
		default:	/* anywhere */
			recv(fd, &c, 1, MSG_DONTWAIT);
			poll(&p, 1, 0);
		}
	}
}

#define ROUNDS 30

static void jump_server(int lfd)
{
	int fd = answer(lfd), ep = epoll_create1(0);
	struct epoll_event ev = {.events = EPOLLIN};
	struct data sizes = DATA(3), in = DATA(0);
	uint64_t began_at;

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	handle(SIGALRM, jump, SA_RESTART);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 10; i++)
			jump_out(fd, ep, i, (int)data_size(&sizes, 600));
		began_at = now_ms();
		send_go(fd);
		take_data(fd, &in, 4000, 1000);
		if (now_ms() - began_at > 4000)
			say("round %d was slow", round);
	}
	say("jumps %d", jumps);
	say_data("got", &in);
	close(ep);
	close(fd);
}

static void jump_client(void)
{
	struct data d = DATA(5);
	int fd = dial();

	for (int round = 0; round < ROUNDS; round++) {
		await_go(fd);
		put_data(fd, &d, 4000, 700);
	}
	say_data("sent", &d);
	await_end(fd);
}

/* Out of a sender that found no room; what it had sent is not known then. */
static void jump_send_server(int lfd)
{
	struct data sizes = DATA(4);
	int fd = answer(lfd), ctl = answer(lfd);

	warm_up(fd, false);
	handle(SIGALRM, jump, SA_RESTART);
	fill_up(fd);
	for (int i = 0; i < 100; i++) {
		if (sigsetjmp(out, 1))
			continue;
		may_jump = 1;
		once_us((int)data_size(&sizes, 500));
		for (;;)
			send(fd, big, sizeof(big), 0);
	}
	say("jumps %d", jumps);
	send_go(ctl);	/* read now */
	nap(300);
	memset(big, 'e', sizeof(big));
	put(fd, big, sizeof(big));
	close(fd);
	close(ctl);
}

static void jump_send_client(void)
{
	int fd = dial(), ctl = dial();
	size_t zeros = 0, es = 0;
	ssize_t n;

	warm_up(fd, true);
	await_go(ctl);
	while ((n = recv(fd, big, sizeof(big), 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			*(big[i] ? &es : &zeros) += 1;
	say_result("end", n);
	say("%s, then %zu", zeros ? "some" : "none", es);
	close(fd);
	close(ctl);
}

/* ------------------------------------------------- exit in a handler */

static int exit_fd, exit_ctl;
static volatile uint64_t exit_sent;

static void exits(int sig)
{
	uint64_t sent = exit_sent;

	(void)sig;
	put(exit_ctl, &sent, sizeof(sent));
	exit(7);
}

#define PIECE 3000

static void exit_client(void)
{
	unsigned char buf[PIECE];

	exit_fd = dial();
	exit_ctl = dial();
	warm_up(exit_fd, true);
	warm_up(exit_ctl, true);
	handle(SIGALRM, exits, SA_RESTART);
	once_us((int)(1000 + now_ms() % 7 * 300));
	for (;;) {
		number(buf, exit_sent, sizeof(buf), false);
		put(exit_fd, buf, sizeof(buf));
		exit_sent += sizeof(buf);
	}
}

static void exit_server(int lfd)
{
	int fd = answer(lfd), ctl = answer(lfd);
	uint64_t sent = 0, got = 0, wrong = 0;
	ssize_t n;

	warm_up(fd, false);
	warm_up(ctl, false);
	while ((n = recv(fd, big, sizeof(big), 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			wrong += (unsigned char)big[i] != got++ % 127;
	say_result("end", n);
	say_result("ctl", (ssize_t)take(ctl, &sent, sizeof(sent)));
	say("%s, %s", wrong ? "WRONG" : "right",
	    got >= sent && got <= sent + PIECE ? "all" : "NOT ALL");
	close(fd);
	close(ctl);
}

const struct tcp_case cases[] = {
	{"jump", jump_server, jump_client},
	{"jump-send", jump_send_server, jump_send_client},
	{"exit", exit_server, exit_client},
	{0},
};
