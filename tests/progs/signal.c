/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* signal.c - signal handlers: what they interrupt, what they do, who installs them. */
#include "case.h"

#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>

static char big[65536];

static void every_us(int us)
{
	struct itimerval t = {{0, us}, {0, us}};

	setitimer(ITIMER_REAL, &t, NULL);
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};

	if (sigaction(sig, &sa, NULL))
		die("sigaction");
}

/* ---------------------------------------------- EINTR and SA_RESTART */

/* SIGUSR1 restarts, SIGUSR2 does not. */
static volatile sig_atomic_t usr1, usr2;

static void count(int sig)
{
	if (sig == SIGUSR1)
		usr1++;
	else
		usr2++;
}

struct plan {
	pthread_t target;
	int sig[2]; /* after 60 ms, after 120 ms; 0: none */
	int go;	    /* ... and a go on this after 180 ms, if not -1 */
};

static void *disturb(void *arg)
{
	struct plan *p = arg;

	for (int i = 0; i < 2; i++) {
		nap(60);
		/* One that is pending swallows its like. */
		for (int ms = 0; i && p->sig[1] == SIGUSR1 && !usr1 && ms < 2000; ms++)
			nap(1);
		if (p->sig[i])
			pthread_kill(p->target, p->sig[i]);
	}
	nap(60);
	if (p->go >= 0)
		send_go(p->go);
	return NULL;
}

static struct plan plan;
static pthread_t disturber;

static void expect(int first, int second, int go)
{
	plan = (struct plan){pthread_self(), {first, second}, go};
	usr1 = usr2 = 0;
	disturber = start(disturb, &plan);
}

/* Which handlers had run when it came back, and no sooner. */
static void came(const char *what, ssize_t n)
{
	int err = errno, ran1 = usr1, ran2 = usr2;

	errno = err;
	say_result(what, n);
	pthread_join(disturber, NULL);
	say("  after SIGUSR1 %d, SIGUSR2 %d", ran1, ran2);
}

static void restart_server(int lfd)
{
	struct timeval tv = {5, 0}, none = {0, 0};
	struct epoll_event ev = {.events = EPOLLIN};
	struct timespec t = {5, 0};
	int fd = answer(lfd), ctl = answer(lfd), ep = epoll_create1(0);
	struct pollfd p = {fd, POLLIN, 0};
	fd_set r;

	warm_up(fd, false);
	warm_up(ctl, false);
	handle(SIGUSR1, count, SA_RESTART);
	handle(SIGUSR2, count, 0);
	expect(SIGUSR1, 0, ctl);
	came("restarted", recv(fd, big, 10, 0));
	expect(SIGUSR2, 0, -1);
	came("interrupted", recv(fd, big, 10, 0));
	expect(SIGUSR1, SIGUSR2, -1);
	came("both", recv(fd, big, 10, 0));
	expect(SIGUSR1, 0, ctl);
	came("read", read(fd, big, 10));
	expect(SIGUSR1, SIGUSR1, ctl);
	came("waitall", recv(fd, big, 1, MSG_WAITALL));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	expect(SIGUSR1, 0, -1);
	came("timed", recv(fd, big, 10, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	expect(SIGUSR1, 0, -1);
	came("poll", poll(&p, 1, -1));
	expect(SIGUSR1, 0, -1);
	came("timed poll", poll(&p, 1, 5000));
	expect(SIGUSR1, 0, -1);
	came("ppoll", ppoll(&p, 1, &t, NULL));
	FD_ZERO(&r);
	FD_SET(fd, &r);
	expect(SIGUSR1, 0, -1);
	came("select", select(fd + 1, &r, NULL, NULL, &tv));
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	expect(SIGUSR1, 0, -1);
	came("epoll_wait", epoll_wait(ep, &ev, 1, -1));
	expect(SIGUSR1, 0, -1);
	came("timed epoll_wait", epoll_wait(ep, &ev, 1, 5000));
	expect(SIGUSR2, 0, -1);
	came("epoll_pwait", epoll_pwait(ep, &ev, 1, 5000, NULL));
	close(ep);
	fill_up(fd);
	expect(SIGUSR2, 0, -1);
	came("send", send(fd, big, 1, 0));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	fill_up(fd);
	expect(SIGUSR1, 0, -1);
	came("timed send", send(fd, big, 1, 0));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	fill_up(fd);
	expect(SIGUSR1, 0, ctl);
	came("send", send(fd, big, 1, 0));
	close(fd);
	close(ctl);
}

static void restart_client(void)
{
	int fd = dial(), ctl = dial();
	struct data d = DATA(0);

	warm_up(fd, true);
	warm_up(ctl, true);
	for (int i = 0; i < 3; i++) {
		await_go(ctl);
		put(fd, "x", 1);
	}
	await_go(ctl);
	take_rest(fd, &d);
	close(fd);
	close(ctl);
}

/* A recv of no byte sleeps once, and has done so whatever ends it. */
static void restart_none_server(int lfd)
{
	struct timeval tv = {5, 0}, soon = {0, 50000}, less = {-1, 0}, none = {0, 0};
	int fd = answer(lfd), ctl = answer(lfd);

	warm_up(fd, false);
	warm_up(ctl, false);
	handle(SIGUSR1, count, SA_RESTART);
	handle(SIGUSR2, count, 0);
	expect(SIGUSR2, 0, -1);
	came("interrupted", recv(fd, big, 0, 0));
	expect(SIGUSR1, SIGUSR2, -1);
	came("both", read(fd, big, 0) ? -1 : recv(fd, big, 0, 0));
	expect(SIGUSR1, 0, ctl);
	came("restarted", recv(fd, big, 0, 0));
	await_go(fd);
	expect(SIGUSR1, SIGUSR1, ctl);
	came("waitall", recv(fd, big, 0, MSG_WAITALL));
	await_go(fd);
	expect(SIGUSR2, 0, -1);
	came("peek", recv(fd, big, 0, MSG_PEEK));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	expect(SIGUSR1, 0, -1);
	came("timed", recv(fd, big, 0, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	say_result("too long", recv(fd, big, 0, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &less, sizeof(less));
	say_result("no time", recv(fd, big, 0, 0));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	expect(0, 0, ctl);
	came("reset", recv(fd, big, 0, 0));
	say_result("again", recv(fd, big, 0, 0));
	close(fd);
	close(ctl);
}

static void restart_none_client(void)
{
	struct linger l = {1, 0};
	int fd = dial(), ctl = dial();

	warm_up(fd, true);
	warm_up(ctl, true);
	for (int i = 0; i < 2; i++) {
		await_go(ctl);
		send_go(fd);
	}
	await_go(ctl);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(fd);
	close(ctl);
}

/* ----------------------------------------- streams in handlers */

/*
 * Main and handler send on one stream, each bytes of its own kind, so that the
 * peer can tell whether either's came in order; both receive what the peer sends,
 * and the sums must be right.
 */
#define MAIN_BYTES 1500000
#define HANDLER_BYTES 20000
#define PEER_BYTES 1500000

static int storm_fd, other_fd;
static volatile size_t handler_sent, handler_got, handler_sum, handler_runs;

static void number(unsigned char *buf, size_t from, size_t n, bool handler)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (unsigned char)((from + i) % 127 + (handler ? 128 : 0));
}

static size_t sum_of(const unsigned char *buf, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += buf[i];
	return sum;
}

static void storm_handler(int sig)
{
	unsigned char buf[32];
	struct pollfd p = {storm_fd, POLLIN | POLLOUT, 0};
	size_t n = HANDLER_BYTES - handler_sent;
	int err = errno;
	ssize_t k;

	(void)sig;
	handler_runs++;
	n = n < 7 ? n : 7;
	number(buf, handler_sent, n, true);
	k = send(storm_fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (k > 0)
		handler_sent += (size_t)k;
	k = recv(storm_fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (k > 0) {
		handler_got += (size_t)k;
		handler_sum += sum_of(buf, (size_t)k);
	}
	if (poll(&p, 1, 0) < 0 && errno != EINTR)
		handler_runs = 0;
	if (other_fd >= 0) {
		k = recv(other_fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (k > 0 && send(other_fd, buf, (size_t)k, MSG_NOSIGNAL) != k)
			handler_runs = 0;
	}
	errno = err;
}

static bool again(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* A little in, a little out. */
static void storm_loop(int fd, bool blocking)
{
	unsigned char buf[100];
	size_t sent = 0, got = 0, sum = 0, n;
	struct pollfd p = {fd, POLLIN | POLLOUT, 0};
	ssize_t k;

	while (sent < MAIN_BYTES || got + handler_got < PEER_BYTES) {
		n = MAIN_BYTES - sent;
		n = n < sizeof(buf) ? n : sizeof(buf);
		number(buf, sent, n, false);
		k = n ? send(fd, buf, n, 0) : 0;
		if (k < 0 && !again(k))
			die("send");
		sent += k > 0 ? (size_t)k : 0;
		/* The handler may take the last of it: it comes again. */
		k = got + handler_got < PEER_BYTES ?
			    recv(fd, buf, sizeof(buf) - 3, 0) : 0;
		if (k < 0 && !again(k))
			die("recv");
		sum += k > 0 ? sum_of(buf, (size_t)k) : 0;
		got += k > 0 ? (size_t)k : 0;
		p.events = (short)((sent < MAIN_BYTES ? POLLOUT : 0) | POLLIN);
		if (!blocking && poll(&p, 1, 100) < 0 && errno != EINTR)
			die("poll");
	}
	every_us(0);
	while (handler_sent < HANDLER_BYTES)
		storm_handler(0);
	say("got %zu bytes, sum %zu", got + handler_got, sum + handler_sum);
	say("the handler ran %s", handler_runs > 100 ? "often" : "seldom");
}

static void storm(int lfd, bool blocking, bool other)
{
	int fd = storm_fd = answer(lfd);

	other_fd = other ? answer(lfd) : -1;
	if (other)	/* the first one's way changes under the handler */
		warm_up(other_fd, false);
	handle(SIGALRM, storm_handler, 0);
	if (!blocking)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	every_us(200);
	storm_loop(fd, blocking);
	close(fd);
	if (other)
		close(other_fd);
}

static void storm_server(int lfd)
{
	storm(lfd, true, false);
}

static void storm_nonblock_server(int lfd)
{
	storm(lfd, false, false);
}

static void storm_other_server(int lfd)
{
	storm(lfd, true, true);
}

static void *feed(void *arg)
{
	unsigned char buf[120];
	size_t sent = 0, n;

	while (sent < PEER_BYTES) {
		n = PEER_BYTES - sent;
		n = n < sizeof(buf) ? n : sizeof(buf);
		number(buf, sent, n, false);
		put(*(int *)arg, buf, n);
		sent += n;
	}
	return NULL;
}

static volatile bool over;

static void *ping(void *arg)
{
	int fd = *(int *)arg, n = 0;
	char out[20], in[20];

	for (; !over; n++) {
		memset(out, 'a' + n % 26, sizeof(out));
		/* Closed, or reset, as the last one was under way. */
		if (send(fd, out, sizeof(out), MSG_NOSIGNAL) <= 0 ||
		    recv(fd, in, sizeof(in), MSG_WAITALL) < (ssize_t)sizeof(in))
			break;
		if (memcmp(in, out, sizeof(in)))
			say("the handler's answer is another");
	}
	return NULL;
}

static void storm_client_with(bool other)
{
	int fd = dial(), second = other ? dial() : -1;
	unsigned char buf[4096];
	size_t got[2] = {0, 0};
	pthread_t t, u = 0;
	ssize_t n;

	if (other)
		warm_up(second, true);
	t = start(feed, &fd);
	if (other)
		u = start(ping, &second);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			bool handler = buf[i] >= 128;

			if ((buf[i] & 127) != got[handler]++ % 127) {
				say("byte %zd is out of order", i);
				exit(1);
			}
		}
	}
	say_result("end", n);
	say("main's %zu, handler's %zu", got[0], got[1]);
	pthread_join(t, NULL);
	over = true;
	if (other) {
		shutdown(second, SHUT_RDWR);
		pthread_join(u, NULL);
		close(second);
	}
	close(fd);
}

static void storm_client(void)
{
	storm_client_with(false);
}

static void storm_other_client(void)
{
	storm_client_with(true);
}

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
		if (now_ms() - began_at > 1500)
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
	char c;

	for (int round = 0; round < ROUNDS; round++) {
		await_go(fd);
		put_data(fd, &d, 4000, 700);
	}
	say_data("sent", &d);
	say_result("end", recv(fd, &c, 1, 0));
	close(fd);
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

/* ------------------------------------------------- who installs them */

static volatile sig_atomic_t plain_runs, info_runs;
static volatile int info_value;
static volatile bool usr2_blocked, self_blocked;

static bool is_blocked(int sig)
{
	sigset_t now;

	sigprocmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, sig);
}

static void plain_handler(int sig)
{
	plain_runs++;
	self_blocked = is_blocked(sig);
}

static void info_handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	(void)sig;
	info_runs++;
	info_value = info->si_value.sival_int;
	usr2_blocked = is_blocked(SIGUSR2);
}

static const char *name_of(void (*handler)(int))
{
	return handler == SIG_DFL ? "default" : handler == SIG_IGN ? "ignored" :
	       handler == SIG_ERR ? "error" : handler == SIG_HOLD ? "held" :
	       handler == plain_handler ? "plain_handler" :
	       (void *)handler == (void *)info_handler ? "info_handler" : "ANOTHER";
}

static void say_action(const char *what, int sig)
{
	struct sigaction sa;
	int n = 0;

	if (sigaction(sig, NULL, &sa)) {
		say_result(what, -1);
		return;
	}
	for (int i = 1; i < 65; i++)
		n += sigismember(&sa.sa_mask, i) == 1;
	say("%s: %s%s, flags %x, %d masked", what, name_of(sa.sa_handler),
	    sa.sa_flags & SA_SIGINFO ? " with info" : "",
	    (unsigned)sa.sa_flags & ~0x4000000u, n);
}

static void actions(void)
{
	struct sigaction sa = {.sa_sigaction = info_handler,
			       .sa_flags = SA_SIGINFO | SA_NOCLDSTOP}, old;
	struct sigaction bad = {.sa_handler = plain_handler};

	say_action("fresh", SIGUSR1);
	sigaddset(&sa.sa_mask, SIGUSR2);
	say_result("sigaction", sigaction(SIGUSR1, &sa, &old));
	say("old: %s", name_of(old.sa_handler));
	say_action("set", SIGUSR1);
	sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 77});
	say("ran %d, value %d, SIGUSR2 blocked %d", info_runs, info_value,
	    usr2_blocked);
	say("signal: %s", name_of(signal(SIGUSR1, plain_handler)));
	say_action("signal", SIGUSR1);
	raise(SIGUSR1);
	say("ran %d, blocked %d", plain_runs, self_blocked);
	say("signal: %s", name_of(signal(SIGUSR1, SIG_IGN)));
	say("signal: %s", name_of(signal(SIGUSR1, SIG_DFL)));
	say_result("restore", sigaction(SIGUSR1, &sa, &old));
	say_result("restore", sigaction(SIGUSR1, &old, &sa));
	say("old: %s", name_of(sa.sa_handler));
	say_result("SIGKILL", sigaction(SIGKILL, &bad, NULL));
	say_result("0", sigaction(0, &bad, NULL));
	say_result("65", sigaction(65, &bad, NULL));
	say_result("32", sigaction(32, &bad, NULL));
	say("SIG_ERR: %s", name_of(signal(SIGUSR1, SIG_ERR)));
	say("1000: %s", name_of(signal(1000, plain_handler)));
}

static void once_only(void)
{
	plain_runs = 0;
	handle(SIGUSR1, plain_handler, (int)SA_RESETHAND | SA_NODEFER);
	say_action("once", SIGUSR1);
	raise(SIGUSR1);
	say("ran %d, blocked %d", plain_runs, self_blocked);
	say_action("after", SIGUSR1);
	say("sysv: %s", name_of(sysv_signal(SIGUSR1, plain_handler)));
	say_action("sysv", SIGUSR1);
	raise(SIGUSR1);
	say("ran %d", plain_runs);
	say_action("after", SIGUSR1);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void old_fashioned(void)
{
	signal(SIGUSR1, plain_handler);
	say_result("siginterrupt", siginterrupt(SIGUSR1, 1));
	say_action("interrupts", SIGUSR1);
	say("signal: %s", name_of(signal(SIGUSR1, plain_handler)));
	say_action("still", SIGUSR1);
	say_result("siginterrupt", siginterrupt(SIGUSR1, 0));
	say_action("restarts", SIGUSR1);
	say_result("siginterrupt", siginterrupt(100, 0));
	say("sigset: %s", name_of(sigset(SIGUSR1, SIG_HOLD)));
	say("blocked %d", is_blocked(SIGUSR1));
	say("sigset: %s", name_of(sigset(SIGUSR1, plain_handler)));
	say("blocked %d", is_blocked(SIGUSR1));
	say_action("sigset", SIGUSR1);
	say("sigset: %s", name_of(sigset(SIGUSR1, SIG_IGN)));
	say("sigset: %s", name_of(sigset(100, plain_handler)));
	signal(SIGUSR1, plain_handler);
	say_result("sigignore", sigignore(SIGUSR1));
	say("ssignal: %s", name_of(ssignal(SIGUSR1, plain_handler)));
}

/* libc saves what there is, and puts it back. */
static void by_libc(void)
{
	plain_runs = 0;
	signal(SIGINT, plain_handler);
	signal(SIGQUIT, plain_handler);
	say("system: %d", system("kill -INT $PPID; exit 3") >> 8);
	say("ran %d", plain_runs);
	say_action("after", SIGINT);
	raise(SIGINT);
	say("ran %d", plain_runs);
}

static void report_child(const char *what, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		;
	say("%s: %s %d", what, WIFSIGNALED(status) ? "signal" : "status",
	    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void children(void)
{
	pid_t pid;

	plain_runs = 0;
	handle(SIGUSR1, plain_handler, 0);
	handle(SIGUSR2, plain_handler, SA_RESTART);
	pid = fork();
	if (!pid) {
		struct sigaction sa;

		raise(SIGUSR1);
		sigaction(SIGUSR2, NULL, &sa);
		signal(SIGUSR2, SIG_DFL);
		_exit(plain_runs * 10 + (sa.sa_handler == plain_handler));
	}
	report_child("fork", pid);
	pid = vfork();
	if (!pid) {
		signal(SIGUSR1, SIG_DFL);
		signal(SIGUSR2, SIG_IGN);
		execl("/bin/sh", "sh", "-c", "kill -USR2 $$; kill -USR1 $$", NULL);
		_exit(127);
	}
	report_child("vfork", pid);
	raise(SIGUSR1);
	say("ran %d", plain_runs);
	say_action("after", SIGUSR1);
	say_action("after", SIGUSR2);
}

static void actions_server(int lfd)
{
	int fd = answer(lfd);

	warm_up(fd, false);
	actions();
	once_only();
	old_fashioned();
	send_go(fd);
	await_go(fd);
	close(fd);
	by_libc();
	children();
}

/* The kernel's own call, which nobody sees: a handler without SA_RESTART. */
static volatile sig_atomic_t raw_runs;

static void raw_handler(int sig)
{
	(void)sig;
	raw_runs++;
}

/* As the kernel has it; the handler's return is libc's, which every one has. */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

static void raw_install(int sig, unsigned long flags)
{
	struct kernel_action a;

	handle(sig, raw_handler, 0);
	if (syscall(SYS_rt_sigaction, sig, NULL, &a, 8))
		die("rt_sigaction");
	a.handler = raw_handler;
	a.flags &= ~(unsigned long)(SA_SIGINFO | SA_RESTART);
	a.flags |= flags;
	if (syscall(SYS_rt_sigaction, sig, &a, NULL, 8))
		die("rt_sigaction");
}

static void raw_server(int lfd)
{
	int fd = answer(lfd), ctl = answer(lfd);

	warm_up(fd, false);
	warm_up(ctl, false);
	raw_install(SIGUSR1, SA_RESTART);
	expect(SIGUSR1, 0, ctl);
	came("restarted", recv(fd, big, 10, 0));
	say("ran %d", raw_runs);
	raw_install(SIGUSR1, 0);
	expect(SIGUSR1, 0, -1);
	came("interrupted", recv(fd, big, 10, 0));
	say("ran %d", raw_runs);
	close(fd);
	close(ctl);
}

static void raw_client(void)
{
	int fd = dial(), ctl = dial();

	warm_up(fd, true);
	warm_up(ctl, true);
	await_go(ctl);
	put(fd, "x", 1);
	say_result("end", recv(fd, big, 1, 0));
	close(fd);
	close(ctl);
}

static const struct tcp_case cases[] = {
	{"restart", restart_server, restart_client},
	{"restart-none", restart_none_server, restart_none_client},
	{"storm", storm_server, storm_client},
	{"storm-nonblock", storm_nonblock_server, storm_client},
	{"storm-other", storm_other_server, storm_other_client},
	{"jump", jump_server, jump_client},
	{"jump-send", jump_send_server, jump_send_client},
	{"exit", exit_server, exit_client},
	{"actions", actions_server, go_client},
	{"raw", raw_server, raw_client},
};

int main(int argc, char **argv)
{
	return case_main(argc, argv, cases, COUNT(cases));
}
