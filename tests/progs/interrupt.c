/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* interrupt.c - signals in calls that sleep: EINTR and SA_RESTART. */
#include "sleeper.h"

#include <sys/time.h>

static struct iovec four[4] = {{big, BIG / 4}, {big, BIG / 4}, {big, BIG / 4},
			       {big, BIG / 4}};

static void empty(void)
{
	int n = 1;

	order('d');
	while (n) {
		nap(2);
		if (ioctl(fd, SIOCOUTQ, &n))
			die("SIOCOUTQ");
	}
	order('s');
	await_go(ctl);
}

/* Three bytes are there. */
static ssize_t do_waitall_more(void)
{
	return recv(fd, big, 10, MSG_WAITALL);
}

static ssize_t do_write_big(void)
{
	return write(fd, big, BIG);
}

static ssize_t do_writev_big(void)
{
	return writev(fd, four, 4);
}

static ssize_t do_send_big(void)
{
	return send(fd, big, BIG, 0);
}

static ssize_t do_sendmsg_big(void)
{
	struct msghdr m = message(four, 4);

	return sendmsg(fd, &m, 0);
}

static ssize_t do_sendfile_big(void)
{
	off_t at = 0;
	ssize_t n = sendfile(fd, file, &at, BIG);

	if (n > 0 && n != at)
		say("the offset is another");
	return n;
}

static const struct call receiving_more[] = {
	{"waitall, 3 of 10", do_waitall_more},
};

static const struct call sending_much[] = {
	{"much write", do_write_big},	  {"much writev", do_writev_big},
	{"much send", do_send_big},	  {"much sendmsg", do_sendmsg_big},
	{"much sendfile", do_sendfile_big},
};

/* ---------------------------------------------- EINTR and SA_RESTART */

static volatile sig_atomic_t runs;

static void count(int sig)
{
	(void)sig;
	runs++;
}

static void handle(int sig, int flags)
{
	struct sigaction sa = {.sa_handler = count, .sa_flags = flags};

	if (sigaction(sig, &sa, NULL))
		die("sigaction");
}

struct disturbance {
	struct watch w;
	int sig;
	void (*release)(void);
	bool restarted;
};

static void *disturb(void *arg)
{
	struct disturbance *d = arg;

	if (!sleeps_on(&d->w))
		return NULL;
	pthread_kill(d->w.thread, d->sig);
	while (!runs && !atomic_load(&d->w.returned))
		nap(1);
	d->restarted = sleeps_on(&d->w);
	if (d->restarted)
		d->release();
	return NULL;
}

static ssize_t call(const struct call *c, struct disturbance *d)
{
	pthread_t t;
	ssize_t n;
	int err;

	atomic_store(&d->w.returned, false);
	runs = 0;
	t = start(disturb, d);
	n = c->run();
	err = errno;
	atomic_store(&d->w.returned, true);
	pthread_join(t, NULL);
	errno = err;
	if (d->release == start_drain && n > 0)
		sent += (uint64_t)n;
	return n;
}

static void (*prepare)(void) = fill;

/* SIGUSR1 restarts, SIGUSR2 does not. */
static void interrupt(const struct call *c, int sig, const char *with,
		      void (*release)(void))
{
	struct disturbance d = {
		.w = {.thread = pthread_self(), .tid = gettid()},
		.sig = sig,
		.release = release,
	};
	char what[100];
	ssize_t n = call(c, &d);
	int err;

	/* There was room, or is now: TCP's window opened late, or the way switched. */
	while (release == start_drain &&
	       (!runs || (n > 0 && n < 1000 && !d.restarted))) {
		prepare();
		n = call(c, &d);
	}
	err = errno;
	snprintf(what, sizeof(what), "%s, %s%s, %d signal%s", c->name,
		 sig == SIGUSR1 ? "SA_RESTART" : "none", with, (int)runs,
		 d.restarted ? ", restarted" : "");
	errno = err;
	if (n > 1000)
		say("%s: %s", what, n > BIG ? "all" : "some");
	else
		say_result(what, n);
	if (release == start_drain && d.restarted)
		end_drain();
}

static void time_limit(int s, int option, long sec)
{
	struct timeval tv = {sec, 0};

	if (setsockopt(s, SOL_SOCKET, option, &tv, sizeof(tv)))
		die("setsockopt");
}

static void install(void)
{
	handle(SIGUSR1, SA_RESTART);
	handle(SIGUSR2, 0);
}

static void receive_server(int lfd)
{
	begin(lfd);
	install();
	for (size_t i = 0; i < COUNT(receiving); i++) {
		interrupt(&receiving[i], SIGUSR1, "", one_byte);
		interrupt(&receiving[i], SIGUSR2, "", one_byte);
	}
	time_limit(fd, SO_RCVTIMEO, 60);
	for (size_t i = 0; i < COUNT(receiving); i++)
		interrupt(&receiving[i], SIGUSR1, ", SO_RCVTIMEO", one_byte);
	finish();
}

/* What there was already is the result, whoever restarts. */
static void receive_more_server(int lfd)
{
	begin(lfd);
	install();
	for (size_t i = 0; i < 2 * COUNT(receiving_more); i++) {
		order('3');
		await_readable(fd, 3);
		interrupt(&receiving_more[i / 2], i % 2 ? SIGUSR2 : SIGUSR1, "",
			  no_release);
	}
	finish();
}

static void send_server(int lfd)
{
	begin(lfd);
	install();
	for (size_t i = 0; i < COUNT(sending); i++) {
		interrupt(&sending[i], SIGUSR2, "", start_drain);
		interrupt(&sending[i], SIGUSR1, "", start_drain);
	}
	time_limit(fd, SO_SNDTIMEO, 60);
	for (size_t i = 0; i < COUNT(sending); i++)
		interrupt(&sending[i], SIGUSR1, ", SO_SNDTIMEO", start_drain);
	start_drain();
	end_drain();
	finish();
}

/* Some of it was sent. */
static void send_much_server(int lfd)
{
	begin(lfd);
	install();
	prepare = empty;
	for (size_t i = 0; i < 2 * COUNT(sending_much); i++) {
		interrupt(&sending_much[i / 2], i % 2 ? SIGUSR2 : SIGUSR1, "",
			  start_drain);
		empty();
	}
	finish();
}

/* Wherever in a long call the signal comes, it ends it; it need not come again. */
static void send_through_server(int lfd)
{
	static const struct call calls[] = {{"send", do_send_big},
					    {"sendfile", do_sendfile_big}};
	struct itimerval in = {{2, 0}, {0, 0}}, off = {{0, 0}, {0, 0}};
	ssize_t n;
	int once, tries, again;

	begin(lfd);
	for (size_t i = 0; i < 2 * COUNT(calls); i++) {
		handle(SIGALRM, i % 2 ? SA_RESTART : 0);
		once = tries = again = 0;
		for (int k = 0; k < 20;) {
			in.it_value.tv_usec = 100 + k * 111 + tries * 5000;
			runs = 0;
			setitimer(ITIMER_REAL, &in, NULL);
			if (!runs) {	/* else it came too early */
				n = calls[i / 2].run();
				sent += n > 0 ? (uint64_t)n : 0;
				/* It may have come before the call on a busy machine,
				 * and before any byte was sent, which restarts the call
				 * if it may be: later, then. */
				if (runs == 1 || ++tries == 3) {
					once += runs == 1;
					again += tries > 0;
					tries = 0;
					k++;
				}
			}
			setitimer(ITIMER_REAL, &off, NULL);
			empty();
		}
		/* Over TCP 5 were restarted on a slow machine. */
		say("%s: %d of 20", calls[i / 2].name,
		    again > (i % 2 ? 6 : 2) ? 20 - again : once);
	}
	finish();
}

/* Nothing that waits is ever restarted. */
static void wait_server(int lfd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct timespec minute = {60, 0};
	sigset_t block, open;

	begin(lfd);
	install();
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	for (size_t i = 0; i < COUNT(waiting); i++) {
		limit = NULL;
		interrupt(&waiting[i], SIGUSR1, "", one_byte);
		limit = &minute;
		interrupt(&waiting[i], SIGUSR1, ", a limit", one_byte);
		interrupt(&waiting[i], SIGUSR2, ", a limit", one_byte);
	}
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &block, &open);
	mask = &open;
	for (size_t i = WITH_MASK; i < COUNT(waiting); i++)
		interrupt(&waiting[i], SIGUSR1, ", let in", one_byte);
	finish();
}

/* ---------------------------------------------- accept and connect */

static void use_made(void)
{
	while (made_count) {
		warm_up(made[--made_count], false);
		close(made[made_count]);
	}
}

static void accept_server(int lfd)
{
	begin(lfd);
	install();
	for (size_t i = 0; i < COUNT(accepting); i++) {
		interrupt(&accepting[i], SIGUSR1, "", dial_once);
		interrupt(&accepting[i], SIGUSR2, "", dial_once);
		use_made();
	}
	time_limit(listener, SO_RCVTIMEO, 60);
	for (size_t i = 0; i < COUNT(accepting); i++)
		interrupt(&accepting[i], SIGUSR1, ", SO_RCVTIMEO", dial_once);
	finish();
}

static void answer_all(void)
{
	order('a');
}

static void connect_client(void)
{
	int queued, interrupted;

	fd = queued = -1;
	ctl = dial();
	warm_up(ctl, true);
	await_go(ctl);
	install();
	queued = dial();
	interrupted = late = new_socket(0);
	interrupt(&connecting, SIGUSR2, "", answer_all);
	late = new_socket(0);
	time_limit(late, SO_SNDTIMEO, 60);
	interrupt(&connecting, SIGUSR1, ", SO_SNDTIMEO", answer_all);
	close(late);
	late = new_socket(0);
	interrupt(&connecting, SIGUSR1, "", answer_all);
	say_result("later", poll(&(struct pollfd){interrupted, POLLOUT, 0}, 1, -1));
	say("SO_ERROR %d", get_int(interrupted, SOL_SOCKET, SO_ERROR));
	warm_up(queued, true);
	warm_up(late, true);
	warm_up(interrupted, true);
	close(queued);
	close(late);
	close(interrupted);
	close(ctl);
}

const struct tcp_case cases[] = {
	{"receive", receive_server, obey_client},
	{"receive-more", receive_more_server, obey_client},
	{"send", send_server, obey_client},
	{"send-much", send_much_server, obey_client},
	{"send-through", send_through_server, obey_client},
	{"wait", wait_server, obey_client},
	{"accept", accept_server, obey_client},
	{"connect", connect_server, connect_client},
	{0},
};
