/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owner.c - streams that several processes hold, and processes that end: whose
 * bytes are they, and who still gets them?  The client half forks the process
 * under test, so that the end of that one is not the end of the client.
 */
#include "case.h"

#include <stdatomic.h>

enum { MANY = 60000 };

static char buf[1 << 17];

/* A pipe that shows its end when the last process that holds it has ended. */
struct watch {
	int fd[2];
};

static struct watch watch_open(void)
{
	struct watch w;

	if (pipe(w.fd))
		die("pipe");
	return w;
}

static void watch_wait(struct watch *w)
{
	char c;

	close(w->fd[1]);
	if (read(w->fd[0], &c, 1) != 0)
		die("watch");
	close(w->fd[0]);
}

/* ------------------------------------------- both directions have ended */

static void ended_server(int lfd)
{
	struct data d = DATA(81);
	int fd = answer_warm(lfd);

	put_data(fd, &d, MANY, 5000);
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

/* 1,000 bytes are read, the rest lies there with the end behind it. */
static int ended_dial(struct data *d)
{
	int fd = dial_warm(), have = 0;

	take_data(fd, d, 1000, 1000);
	while (have < MANY - 1000) {
		if (ioctl(fd, FIONREAD, &have))
			die("FIONREAD");
		nap(5);
	}
	shutdown(fd, SHUT_WR);
	nap(50);
	return fd;
}

/* The child only exits. */
static void ended_child_client(void)
{
	struct data d = DATA(0);
	int fd = ended_dial(&d);
	pid_t pid = split();

	if (!pid)
		exit(3);
	reap(pid);
	take_rest(fd, &d);
	say_data("parent", &d);
	close(fd);
}

/* The parent exits, and the child reads on. */
static void ended_parent_client(void)
{
	struct watch w = watch_open();
	pid_t pid = split();

	if (!pid) {
		struct data d = DATA(0);
		int fd = ended_dial(&d);

		pid = getpid();
		if (split())
			exit(4);
		while (getppid() == pid)
			nap(5);
		take_rest(fd, &d);
		say_data("child", &d);
		fflush(NULL);
		exit(0);
	}
	watch_wait(&w);
	reap(pid);
}

/* ------------------ what is unread when a program is executed, and at the end */

static void left_server(int lfd)
{
	for (int i = 0; i < 8; i++) {
		int fd = answer_warm(lfd);

		put(fd, buf, 8000);
		say_result("end", recv(fd, buf, 1, 0));
		close(fd);
	}
}

/* The other program has the stream, too, and does not read it either. */
static void left_child(void)
{
	int fd = dial_warm();

	await_readable(fd, 8000);
	if (system("exec true"))
		die("system");
	_exit(0);
}

static void left_client(void)
{
	for (int i = 0; i < 8; i++) {
		pid_t pid = split();

		if (!pid)
			left_child();
		reap(pid);
	}
}

/* -------------------------------------------- much lies unread at a fork */

static size_t unread_sizes[] = {400000, 1000000, 5000000};

/* Sends as long as there is room, and then what is left as it is read. */
static void unread_server(int lfd)
{
	for (unsigned i = 0; i < 2 * COUNT(unread_sizes); i++) {
		struct data d = DATA(82 + i);
		int fd = answer_warm(lfd);
		ssize_t n;

		put_data(fd, &d, unread_sizes[i / 2], 9000);
		shutdown(fd, SHUT_WR);
		n = (ssize_t)take(fd, buf, 10);
		say_bytes("last", n, buf);
		say_result("end", recv(fd, buf, 1, 0));
		close(fd);
	}
}

/* Until it grows no more. */
static void await_full(int fd)
{
	int have = 0, before = -1;

	while (have != before || !have) {
		before = have;
		nap(60);
		if (ioctl(fd, FIONREAD, &have))
			die("FIONREAD");
	}
}

/* One process closes, the other one reads on and has the last word. */
static void unread_client(void)
{
	struct data d;
	pid_t pid;
	int fd;

	for (unsigned i = 0; i < 2 * COUNT(unread_sizes); i++) {
		bool child_closes = i % 2;

		fd = dial_warm();
		await_full(fd);
		pid = split();
		if ((pid == 0) == child_closes) {
			close(fd);
		} else {
			memset(&d, 0, sizeof(d));
			nap(100);
			take_rest(fd, &d);
			say_data(child_closes ? "parent" : "child", &d);
			put(fd, "the end\n", 8);
			shutdown(fd, SHUT_WR);
			close(fd);
		}
		if (!pid)
			exit(5);
		reap(pid);
	}
}

/* Programs that are started meanwhile, and forks: many, to show what each costs. */
static void unread_system_client(void)
{
	struct data d;
	int fd;

	for (unsigned i = 0; i < 2 * COUNT(unread_sizes); i++) {
		fd = dial_warm();
		await_full(fd);
		for (int k = 0; k < 2; k++)
			if (system("exit 0"))
				die("system");
		memset(&d, 0, sizeof(d));
		take_rest(fd, &d);
		say_data("got", &d);
		put(fd, "the end\n", 8);
		close(fd);
	}
}

/* ---------------------------------------------- the sender's end, unread */

enum ending {
	BY_EXIT, BY__EXIT, BY_CLOSE, BY_EXEC, BY_EXEC_KEPT, BY_KILL, BY_TERM,
	BY_KILL_UNREAD, BY_LINGER
};
static const char *const ending_names[] = {
	"exit", "_exit", "close and exit", "exec", "exec, descriptor kept",
	"SIGKILL", "SIGTERM", "SIGKILL with bytes unread", "exit, SO_LINGER of no time",
};

/* A second connection says how much the first has carried. */
static void pause_server(int lfd, enum ending first, enum ending last)
{
	for (enum ending i = first; i <= last; i++) {
		uint64_t sent = 0;
		struct data d = DATA(0);
		int fd, told;

		fd = answer_warm(lfd);
		told = answer(lfd);
		if (take(told, &sent, sizeof(sent)) != sizeof(sent))
			die("sent");
		/* Until the sender has ended: its copy of this one goes, too.  But exec
		 * may wait until TCP has all, which holds less. */
		if (i != BY_EXEC_KEPT && i != BY_EXEC)
			say_result("gone", (ssize_t)take(told, buf, 1));
		/* Longer than the way back to TCP may take, 3 s (BACK_NS) */
		nap(i == BY_EXIT || i == BY_EXEC_KEPT ? 3500 : 300);
		for (;;) {
			ssize_t n = recv(fd, buf, sizeof(buf), 0);

			if (n <= 0) {
				say_result(ending_names[i], n);
				break;
			}
			data_sum(&d, buf, (size_t)n);
		}
		say("%s: %s", ending_names[i], d.bytes == sent ? "all" : "NOT ALL");
		if (d.bytes != sent)
			say("%llu of %llu", (unsigned long long)d.bytes,
			    (unsigned long long)sent);
		close(told);
		close(fd);
	}
}

static void end_by(enum ending how, int fd)
{
	struct linger now = {1, 0};

	switch (how) {
	case BY__EXIT:
		_exit(0);
	case BY_CLOSE:
		close(fd);
		exit(0);
	case BY_EXEC:
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		execlp("true", "true", (char *)NULL);
		die("exec");
		break;
	case BY_EXEC_KEPT:
		execlp("true", "true", (char *)NULL);
		die("exec");
		break;
	case BY_LINGER:
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		exit(0);
	case BY_KILL:
	case BY_KILL_UNREAD:
		raise(SIGKILL);
		break;
	case BY_TERM:
		raise(SIGTERM);
		break;
	default:
		exit(0);
	}
}

/* As much as can be sent without blocking.  The buffers are small where the
 * system lets them be: what a link holds is more than TCP could take back. */
static void paused_sender(enum ending how)
{
	int fd = new_socket(0), told;
	uint64_t sent;

	set_int(fd, SOL_SOCKET, SO_SNDBUF, 65536);
	if (connect(fd, (struct sockaddr *)&peer_addr, peer_len))
		die("connect");
	warm_up(fd, true);
	told = dial();
	set_int(told, IPPROTO_TCP, TCP_NODELAY, 1);
	fcntl(told, F_SETFD, FD_CLOEXEC);
	sent = fill_up(fd);
	put(told, &sent, sizeof(sent));
	if (how != BY_EXIT)
		nap(50);
	end_by(how, fd);
}

static void pause_client(enum ending first, enum ending last)
{
	for (enum ending i = first; i <= last; i++) {
		pid_t pid = split();

		if (!pid) {
			paused_sender(i);
			exit(9);
		}
		reap(pid);
	}
}

static void paused_server(int lfd)
{
	pause_server(lfd, BY_EXIT, BY_EXEC_KEPT);
}

static void paused_client(void)
{
	pause_client(BY_EXIT, BY_EXEC_KEPT);
}

/* A reset at the sender's end: what is behind it is not an end of file. */
static void reset_server(int lfd)
{
	for (int i = BY_KILL_UNREAD; i <= BY_LINGER; i++) {
		struct data d = DATA(0);
		int fd = answer_warm(lfd);
		ssize_t n;

		if (i == BY_KILL_UNREAD)
			put(fd, buf, 5000);
		else
			send_go(fd);
		while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
			data_sum(&d, buf, (size_t)n);
		say_result(ending_names[i], n);
		close(fd);
	}
}

static void reset_client(void)
{
	for (int i = BY_KILL_UNREAD; i <= BY_LINGER; i++) {
		pid_t pid = split();

		if (!pid) {
			int fd = dial_warm();

			if (i == BY_KILL_UNREAD)
				await_readable(fd, 5000);
			else
				await_go(fd);
			await_peer_asleep();
			end_by((enum ending)i, fd);
		}
		reap(pid);
	}
}

/* Threads that send are none the wiser when the process exits. */
static void *send_on(void *arg)
{
	int fd = *(int *)arg;

	while (write(fd, buf, sizeof(buf)) > 0)
		;
	return NULL;
}

static void thread_client(void)
{
	for (int i = 0; i < 5; i++) {
		pid_t pid = split();

		if (!pid) {
			int fd = dial_warm();

			start(send_on, &fd);
			nap(30);
			exit(3);
		}
		reap(pid);
	}
}

static void thread_server(int lfd)
{
	for (int i = 0; i < 5; i++) {
		struct data d = DATA(0);
		int fd = answer_warm(lfd);

		while (recv(fd, buf, 1000, 0) > 0)
			;
		data_sum(&d, buf, 1);
		close(fd);
	}
	say("done");
}

/* The reader forks in the moment in which the sender exits. */
static void moment_server(int lfd)
{
	for (int i = 0; i < 12; i++) {
		struct data d = DATA(0);
		uint64_t sent = 0;
		int fd = answer_warm(lfd), told, status;
		pid_t pid;

		told = answer(lfd);
		if (take(told, &sent, sizeof(sent)) != sizeof(sent))
			die("sent");
		nap((unsigned)(i % 4) * 4);
		pid = split();
		if (!pid)
			_exit(0);
		if (waitpid(pid, &status, 0) != pid)
			die("waitpid");
		nap(30);
		take_rest(fd, &d);
		say("%s", d.bytes == sent ? "all" : "NOT ALL");
		close(told);
		close(fd);
	}
}

static void moment_client(void)
{
	for (int i = 0; i < 12; i++) {
		pid_t pid = split();

		if (!pid)
			paused_sender(BY_EXIT);
		reap(pid);
	}
}

static void killed_server(int lfd)
{
	pause_server(lfd, BY_KILL, BY_TERM);
}

static void killed_client(void)
{
	pause_client(BY_KILL, BY_TERM);
}

/* ------------------------------------------------- forks beside streams */

enum { FORKS = 2000, LATE = 150 };

static void *churn(void *arg)
{
	const atomic_bool *stop = arg;

	while (!*stop) {
		int fd = dial_warm();

		close(fd);
	}
	return NULL;
}

/* Streams come and go in two threads while a third one forks. */
static void forks_client(void)
{
	atomic_bool stop = false;
	pthread_t t[2];
	int failed = 0, status;

	for (int i = 0; i < 2; i++)
		t[i] = start(churn, &stop);
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (waitpid(pid, &status, 0) != pid || status)
			failed++;
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	say("%d forks, %d failed", FORKS, failed);
	close(dial());	/* carries nothing: the server ends */
}

static void forks_server(int lfd)
{
	for (;;) {
		int fd = answer(lfd);
		char c;

		if (recv(fd, &c, 1, MSG_PEEK) == 0)
			break;
		warm_up(fd, false);
		if (recv(fd, &c, 1, 0) != 0)
			die("end");
		close(fd);
	}
	say("done");
}

/* One thread: listen, connect, accept, close all, fork. */
static void lone_client(void)
{
	int fd = dial(), failed = 0, status;

	for (int i = 0; i < 300; i++) {
		struct sockaddr_storage sa = peer_addr;
		socklen_t len = sizeof(sa);
		int lfd = new_socket(0), a, b;
		pid_t pid;

		((struct sockaddr_in *)&sa)->sin_port = 0;
		if (bind(lfd, (struct sockaddr *)&sa, peer_len) || listen(lfd, 5) ||
		    getsockname(lfd, (struct sockaddr *)&sa, &len))
			die("listen");
		a = new_socket(0);
		if (connect(a, (struct sockaddr *)&sa, len))
			die("connect");
		b = answer(lfd);
		close(a);
		close(b);
		close(lfd);
		pid = fork();
		if (!pid)
			_exit(0);
		if (waitpid(pid, &status, 0) != pid || status)
			failed++;
	}
	say("%d failed", failed);
	send_go(fd);
	close(fd);
}

static void lone_server(int lfd)
{
	int fd = answer(lfd);

	await_go(fd);
	say("done");
	close(fd);
}

/* Children that inherit a stream and a listener, and exit at once. */
static void late_client(void)
{
	int fd = dial(), lfd = new_socket(0), status, failed = 0;

	if (listen(lfd, 5))
		die("listen");
	warm_up(fd, true);
	for (int i = 0; i < LATE; i++) {
		pid_t pid = fork();

		if (!pid)
			exit(0);
		if (waitpid(pid, &status, 0) != pid || status)
			failed++;
	}
	say("%d failed", failed);
	send_go(fd);
	close(fd);
}

static void late_server(int lfd)
{
	int fd = answer_warm(lfd);

	await_go(fd);
	say("done");
	close(fd);
}

/* -------------------------------- a child that does not use the stream */

enum { ROUNDS = 20, ROUND = 5000 };

static void stays_server(int lfd)
{
	int fd = answer_warm(lfd);

	for (int i = 0; i < 3 * ROUNDS; i++) {
		take(fd, buf, ROUND);
		put(fd, buf, ROUND);
	}
	await_end(fd);
}

/* It closes its copy, ends at once, or lives on for a while. */
static void stays_client(void)
{
	int fd = dial_warm(), s[2];
	char c;

	for (int way = 0; way < 3; way++) {
		pid_t pid;

		if (pipe(s))
			die("pipe");
		pid = split();
		if (!pid) {
			close(s[1]);
			if (way == 0)
				close(fd);
			if (way != 1 && read(s[0], &c, 1) != 0)
				die("pipe");
			_exit(way);
		}
		close(s[0]);
		for (int i = 0; i < ROUNDS; i++) {
			memset(buf, way * ROUNDS + i, ROUND);
			put(fd, buf, ROUND);
			memset(buf, 0, ROUND);
			take(fd, buf, ROUND);
			if (buf[0] != way * ROUNDS + i || buf[ROUND - 1] != buf[0])
				die("other bytes");
		}
		close(s[1]);
		reap(pid);
	}
	close(fd);
}

const struct tcp_case cases[] = {
	{"ended-child", ended_server, ended_child_client},
	{"ended-parent", ended_server, ended_parent_client},
	{"unread", unread_server, unread_client},
	{"left", left_server, left_client},
	{"unread-system", unread_server, unread_system_client},
	{"paused", paused_server, paused_client},
	{"killed", killed_server, killed_client},
	{"reset", reset_server, reset_client},
	{"thread", thread_server, thread_client},
	{"moment", moment_server, moment_client},
	{"forks", forks_server, forks_client},
	{"lone", lone_server, lone_client},
	{"late", late_server, late_client},
	{"stays", stays_server, stays_client},
	{0},
};
