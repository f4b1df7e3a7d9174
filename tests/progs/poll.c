/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* poll.c - what poll, select and their twins say of a stream, how long they wait, and with
 * which signals blocked. */
#include "poll_one.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/time.h>

static char buf[1 << 17];

/* ------------------------------------------------- at every stage */

#define ALL (POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM)

static void poll_server(int lfd)
{
	int fd;
	uint64_t t;
	struct data d = DATA(0);

	say_poll("listening", wait_for(lfd, ALL, 10000));
	fd = answer(lfd);
	say_poll("no more", wait_for(lfd, ALL, 0));
	warm_up(fd, false);
	say_poll("idle", wait_for(fd, ALL, 0));
	say_poll("idle, in", wait_for(fd, POLLIN, 0));
	t = now_ms();
	say_poll("idle, 60 ms", wait_for(fd, POLLIN, 60));
	say("waited: %d", now_ms() - t >= 59);
	send_go(fd);
	say_poll("sleep", wait_for(fd, POLLIN, 10000));
	wait_for(fd, POLLOUT, 10000); /* a direction that switches takes nothing */
	say_poll("data", wait_for(fd, ALL, 0));
	say_poll("again", wait_for(fd, POLLIN, 0));
	await_go(fd);
	say_poll("taken", wait_for(fd, POLLIN, 0));
	fill_up(fd);
	say_poll("full", wait_for(fd, ALL, 0));
	post("full");
	say_poll("room", wait_for(fd, POLLOUT, 10000) & POLLOUT);
	shutdown(fd, SHUT_WR);
	say_poll("peer's end", wait_for(fd, POLLRDHUP, 10000));
	say_poll("both ended", wait_for(fd, ALL, 0));
	take_rest(fd, &d);
	say_data("rest", &d);
	say_poll("both ended", wait_for(fd, 0, 0));
	close(fd);
	say_poll("closed", wait_for(fd, ALL, 0));
}

static int empty_when_full(void)
{
	int fd = dial_warm();
	struct data d = DATA(0);

	await_go(fd);
	await_peer_asleep();
	send_go(fd);
	await_post("full");
	take_rest(fd, &d);
	say("%s", d.bytes > 100000 ? "much" : "little");
	return fd;
}

static void poll_client(void)
{
	int fd = empty_when_full();

	say_poll("end", wait_for(fd, ALL, 0));
	put(fd, "last", 4);
	shutdown(fd, SHUT_WR);
	close(fd);
}

static void select_server(int lfd)
{
	int fd = answer(lfd), p[2];
	sigset_t none;
	uint64_t t;

	sigemptyset(&none);
	if (pipe(p))
		die("pipe");
	warm_up(fd, false);
	say("idle %x", do_select(fd, p[0], 0, 0, NULL));
	t = now_ms();
	say("timeout %x", do_select(fd, p[0], 0, 60000, NULL));
	say("ptimeout %x", do_select(fd, p[0], 0, 60000, &none));
	say("waited %d", now_ms() - t >= 119);
	say("out %x", do_select(fd, p[0], 1, -1, NULL));
	send_go(fd);
	say("sleep %x", do_select(fd, p[0], 0, -1, NULL));
	if (write(p[1], "x", 1) != 1)
		die("write");
	say("both %x", do_select(fd, p[0], 1, -1, NULL));
	await_go(fd);
	say("pipe %x", do_select(fd, p[0], 1, -1, &none));
	if (read(p[0], buf, 1) != 1)
		die("read");
	fill_up(fd);
	post("full");
	say("full %x", do_select(fd, p[0], 1, -1, NULL));
	shutdown(fd, SHUT_WR);
	say("end %x", do_select(fd, p[0], 0, -1, NULL));
	await_end(fd);
	say("closed %d", do_select(fd, p[0], 0, 0, NULL));
}

static void select_client(void)
{
	close(empty_when_full());
}

/* Connected once is connected: a switch does not take the room back. */
static void connected_server(int lfd)
{
	int fd = answer(lfd);

	say_bytes("got", recv(fd, buf, 1, 0), buf);
	close(fd);
}

static void connected_client(void)
{
	int fd = new_socket(SOCK_NONBLOCK), none = 0;
	struct pollfd p = {fd, POLLOUT, 0};

	if (connect(fd, (struct sockaddr *)&peer_addr, peer_len) &&
	    errno != EINPROGRESS)
		die("connect");
	say("connected %d", poll(&p, 1, 5000));
	for (int i = 0; i < 3000; i++) {
		none += poll(&p, 1, 0) != 1;
		usleep(100);
	}
	say("no room %d times", none);
	put(fd, "x", 1);
	close(fd);
}

/* One direction alone has been used, and one end shuts both. */
static void shut_both(int fd)
{
	await_peer_asleep();
	shutdown(fd, SHUT_RDWR);
	say_poll("nothing asked for", wait_for(fd, 0, 10000));
	say_poll("both", wait_for(fd, POLLIN | POLLRDHUP, 10000));
}

static void send_both_client(void)
{
	int fd = dial();

	put(fd, buf, 20000);
	shut_both(fd);
	close(fd);
}

static void take_all_server(int lfd)
{
	int fd = answer(lfd);

	say("got %zd", take(fd, buf, 20000));
	say("end %zd", take(fd, buf, 1));
	close(fd);
}

static void take_both_server(int lfd)
{
	int fd = answer(lfd);

	say("got %zd", take(fd, buf, 20000));
	shut_both(fd);
	close(fd);
}

static void send_all_client(void)
{
	int fd = dial();

	put(fd, buf, 20000);
	say("end %zd", take(fd, buf, 1));
	close(fd);
}

/* ------------------------------------------------- odd sets */

static void odd_sets_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct pollfd p[5] = {{fd, POLLIN, 0},
			      {-1, POLLIN, 9},
			      {fd, POLLOUT, 0},
			      {900, POLLIN, 0},
			      {fd, 0, 0}};

	send_go(fd);
	await_readable(fd, 1);
	say("poll: %d", poll(p, 5, 1000));
	for (int i = 0; i < 5; i++)
		say_poll("entry", p[i].revents);
	say_result("none", poll(NULL, 0, 10));
	await_go(fd);
	close(fd);
}

/* Sets of as many as there may be open, and of more. */
enum { MOST = 100 };

static void many_entries_server(int lfd)
{
	struct rlimit l = {MOST, MOST};
	struct timespec t = {10, 0};
	struct pollfd p[MOST + 1];
	int fd = answer_warm(lfd);

	for (int i = 0; i <= MOST; i++)
		p[i] = (struct pollfd){i ? -1 : fd, POLLIN, 0};
	if (setrlimit(RLIMIT_NOFILE, &l))
		die("setrlimit");
	say_result("more", poll(p, MOST + 1, 0));
	say_result("more", ppoll(p, MOST + 1, &t, NULL));
	p[0].events = POLLIN | POLLOUT;
	say_result("more", poll(p, MOST + 1, 0));
	say_result("ready", poll(p, MOST, 0));
	p[0].events = POLLIN;
	say_result("none", poll(p, MOST, 0));
	for (int i = 0; i < 3; i++) {
		send_go(fd);
		say_result("most", poll(p, MOST, 10000));
		say_poll("entry", p[0].revents);
		await_go(fd);
	}
	say_result("time", ppoll(p, MOST, &(struct timespec){0, 30000000}, NULL));
	send_go(fd);
	await_go(fd);
	close(fd);
}

static void many_entries_client(void)
{
	int fd = dial_warm();

	for (int i = 0; i < 4; i++) {
		await_go(fd);
		if (i)
			await_peer_asleep();
		send_go(fd);
	}
	await_end(fd);
}

/* A number that is none. */
static void no_number_server(int lfd)
{
	volatile nfds_t all = (nfds_t)-1; /* not the compiler's to judge */
	int fd = answer_warm(lfd);
	struct pollfd p = {-1, POLLIN, 0};

	say_result("poll", poll(&p, all, 0));
	say_result("ppoll", ppoll(&p, all, NULL, NULL));
	send_go(fd);
	await_go(fd);
	close(fd);
}

/* ------------------------------------------------- below a millisecond */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

enum { SELECT, PSELECT, POLL, PPOLL, EPOLL_WAIT, EPOLL_PWAIT2, WAITS };

/* Microseconds that nothing comes in. */
static int wait_us(int how, int fd, int ep, int us)
{
	struct timeval tv = {0, us};
	struct timespec t = {0, us * 1000L};
	struct pollfd p = {fd, POLLIN, 0};
	struct epoll_event ev;
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	switch (how) {
	case SELECT:
		return select(fd + 1, &r, NULL, NULL, &tv);
	case PSELECT:
		return pselect(fd + 1, &r, NULL, NULL, &t, NULL);
	case POLL:
		return poll(&p, 1, us / 1000);
	case PPOLL:
		return ppoll(&p, 1, &t, NULL);
	case EPOLL_WAIT:
		return epoll_wait(ep, &ev, 1, us / 1000);
	default:
		return epoll_pwait2(ep, &ev, 1, &t, NULL);
	}
}

/* However short, never shorter than asked. */
static void brief_server(int lfd)
{
	static const struct {
		const char *name;
		int us;
	} waits[WAITS] = {
		[SELECT] = {"select", 500},	    [PSELECT] = {"pselect", 300},
		[POLL] = {"poll", 1000},	    [PPOLL] = {"ppoll", 900},
		[EPOLL_WAIT] = {"epoll_wait", 1000},
		[EPOLL_PWAIT2] = {"epoll_pwait2", 500},
	};
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = answer_warm(lfd), ep = epoll_create1(0);
	uint64_t began_at;

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	for (int how = 0; how < WAITS; how++) {
		int early = 0, others = 0;

		for (int i = 0; i < 200; i++) {
			began_at = now_ns();
			others += wait_us(how, fd, ep, waits[how].us) != 0;
			early += now_ns() - began_at <
				 (uint64_t)waits[how].us * 1000;
		}
		say("%s, %d us: %d early, %d no timeouts", waits[how].name,
		    waits[how].us, early, others);
	}
	close(ep);
	send_go(fd);
	await_go(fd);
	close(fd);
}

/* ------------------------------------------------- signal masks for a call alone */

static volatile sig_atomic_t alarms;

static void count_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void alarm_in(int ms, int flags)
{
	struct sigaction sa = {.sa_handler = count_alarm, .sa_flags = flags};
	struct itimerval t = {{0, 0}, {ms / 1000, ms % 1000 * 1000}};

	sigaction(SIGALRM, &sa, NULL);
	alarms = 0;
	setitimer(ITIMER_REAL, &t, NULL);
}

/* Until a blocked SIGALRM has come. */
static void await_pending(void)
{
	sigset_t now;

	do {
		nap(1);
		sigpending(&now);
	} while (!sigismember(&now, SIGALRM));
}

/* ppoll and pselect let the signal in only while they wait. */
static void sigmask_server(int lfd)
{
	int fd = answer_warm(lfd);
	struct timespec t = {5, 0};
	sigset_t block, open;
	fd_set r;

	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &block, &open);
	sigdelset(&open, SIGALRM);
	alarm_in(20, 0);
	await_pending();
	say("blocked: %d", alarms);
	say_result("ppoll", ppoll(&(struct pollfd){fd, POLLIN, 0}, 1, &t, &open));
	say("alarms %d", alarms);
	alarm_in(50, 0);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	say_result("pselect", pselect(fd + 1, &r, NULL, NULL, &t, &open));
	say("alarms %d", alarms);
	alarm_in(20, 0);
	await_pending();
	say_result("poll", poll(&(struct pollfd){fd, POLLIN, 0}, 1, 20));
	say("blocked: %d", alarms);
	send_go(fd);
	close(fd);
}

/* The same without waiting: what is ready comes first, and then the signal stays. */
static void sigmask_now_server(int lfd)
{
	int fd = answer(lfd);
	const struct timespec now = {0, 0}, soon = {5, 0};
	struct pollfd p[2] = {{fd, POLLIN, 0}, {-1, POLLIN, 0}};
	sigset_t block, open;
	fd_set r;
	int pipe_fd[2];

	if (pipe(pipe_fd))
		die("pipe");
	p[1].fd = pipe_fd[0];
	warm_up(fd, false);
	alarm_in(0, 0);
	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &block, &open);
	sigdelset(&open, SIGALRM);
	for (int k = 1; k <= 2; k++) {
		raise(SIGALRM);
		say_result("ppoll", ppoll(p, (nfds_t)k, &now, &open));
		say("alarms %d", alarms);
		say_result("ppoll", ppoll(p, (nfds_t)k, &now, &open));
		raise(SIGALRM);
		FD_ZERO(&r);
		FD_SET(fd, &r);
		say_result("pselect", pselect(fd + 1, &r, NULL, NULL, &now, &open));
		say("alarms %d", alarms);
	}
	raise(SIGALRM);
	p[0].events = POLLIN | POLLOUT;
	for (int k = 1; k <= 2; k++) {
		say_result("ready", ppoll(p, (nfds_t)k, &now, &open));
		say_result("ready", ppoll(p, (nfds_t)k, &soon, &open));
		FD_ZERO(&r);
		FD_SET(fd, &r);
		say_result("ready", pselect(fd + 1, NULL, &r, NULL, &soon, &open));
		say("alarms %d", alarms);
	}
	send_go(fd);
	await_readable(fd, 1);
	p[0].events = POLLIN;
	say_result("bytes", ppoll(p, 2, &soon, &open));
	say("alarms %d", alarms);
	await_go(fd);
	say_result("none", ppoll(p, 2, &soon, &open));
	say("alarms %d", alarms);
	close(fd);
}

static void sigmask_now_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	send_go(fd);
	await_end(fd);
}

static void sigmask_client(void)
{
	int fd = dial_warm();

	await_go(fd);
	await_end(fd);
}

const struct tcp_case cases[] = {
	{"sender-shuts", take_all_server, send_both_client},
	{"receiver-shuts", take_both_server, send_all_client},
	{"connected", connected_server, connected_client},
	{"poll", poll_server, poll_client},
	{"select", select_server, select_client},
	{"odd-sets", odd_sets_server, go_client},
	{"many-entries", many_entries_server, many_entries_client},
	{"no-number", no_number_server, go_client},
	{"brief", brief_server, go_client},
	{"sigmask", sigmask_server, sigmask_client},
	{"sigmask-now", sigmask_now_server, sigmask_now_client},
	{0},
};
