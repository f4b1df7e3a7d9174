/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cancel_any.c - threads that may be cancelled at any instruction, and calls within which
 * nobody is cancelled. */
#include "case.h"

#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

extern char **environ;

static int fd, ep, file;

/* ------------------------------------------------- PTHREAD_CANCEL_ASYNCHRONOUS */

enum { ROUNDS = 300 };

static void be_asynchronous(void)
{
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
}

static void *receives(void *arg)
{
	char buf[500];

	(void)arg;
	be_asynchronous();
	for (;;)
		recv(fd, buf, sizeof(buf), 0);
	return NULL;
}

static void *sends(void *arg)
{
	char buf[500] = "w";

	(void)arg;
	be_asynchronous();
	for (;;)
		send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
	return NULL;
}

static void *sends_file(void *arg)
{
	(void)arg;
	be_asynchronous();
	for (;;)
		sendfile(fd, file, &(off_t){0}, 1 << 20);
	return NULL;
}

static void *polls(void *arg)
{
	struct pollfd p = {fd, POLLIN, 0};
	char buf[500];

	(void)arg;
	be_asynchronous();
	for (;;)
		if (poll(&p, 1, -1) == 1)
			recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	return NULL;
}

static void *waits(void *arg)
{
	struct epoll_event ev;
	char buf[500];

	(void)arg;
	be_asynchronous();
	for (;;)
		if (epoll_wait(ep, &ev, 1, -1) == 1)
			recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	return NULL;
}

static void async_server(int lfd)
{
	static void *(*const readers[])(void *) = {receives, polls, waits};
	struct epoll_event ev = {.events = EPOLLIN};
	int cancelled = 0;
	char buf[500] = "";
	void *how;

	fd = answer_warm(lfd);
	ep = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t t[] = {start(readers[i % COUNT(readers)], NULL), start(sends, NULL)};

		nanosleep(&(struct timespec){0, rand() % 3000000}, NULL);
		for (size_t k = 0; k < COUNT(t); k++)
			pthread_cancel(t[k]);
		for (size_t k = 0; k < COUNT(t); k++) {
			pthread_join(t[k], &how);
			cancelled += how == PTHREAD_CANCELED;
		}
	}
	say("%d cancelled", cancelled);
	say_result("epoll_wait", epoll_wait(ep, &ev, 1, 10000));
	say("recv: %d", recv(fd, buf, sizeof(buf), 0) > 0);
	say_result("send", send(fd, buf, sizeof(buf), MSG_NOSIGNAL));
	close(fd);
	say("closed");
}

/* Reads and writes as long as there is somebody. */
static void async_client(void)
{
	struct pollfd p = {dial_warm(), POLLIN | POLLOUT, 0};
	char buf[700] = "f";
	ssize_t n = 1;

	while (n > 0 || (n < 0 && errno == EAGAIN)) {
		poll(&p, 1, -1);
		n = recv(p.fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (p.revents & POLLOUT)
			send(p.fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	say("over");
}

/* Nobody reads until the thread has been cancelled. */
static void asleep_server(int lfd)
{
	pthread_t t;
	void *how;

	fd = answer_warm(lfd);
	file = memfd_create("file", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, 1 << 20) < 0)
		die("memfd_create");
	fill_up(fd);
	t = start_asleep(sends_file, NULL);
	pthread_cancel(t);
	pthread_join(t, &how);
	say("sendfile: %s", how == PTHREAD_CANCELED ? "cancelled" : "ended");
	post("over");
	close(fd);
}

static void asleep_client(void)
{
	char buf[5000];
	int s = dial_warm();

	await_post("over");
	while (recv(s, buf, sizeof(buf), 0) > 0)
		;
	say("over");
}

/* ------------------------------------------------- no cancellation points */

static int victim_fd;

static long duplicates(void)
{
	return dup2(victim_fd, STDIN_FILENO);
}

static long opens_file(void)
{
	return fdopen(victim_fd, "r") ? 0 : -1;
}

static long spawns(void)
{
	char *argv[] = {(char *)"true", NULL};
	pid_t pid;

	return posix_spawnp(&pid, "true", NULL, NULL, argv, environ);
}

static long opens_pipe(void)
{
	return popen("true", "r") ? 0 : -1;
}

static const struct {
	const char *name;
	long (*run)(void);
} no_points[] = {
	{"dup2", duplicates},
	{"fdopen", opens_file},
	{"posix_spawnp", spawns},
	{"popen", opens_pipe},
};

struct pending {
	long (*run)(void);
	_Atomic pid_t tid;
	atomic_bool cancelled, returned;
	long r;
};

/* The cancellation is pending when the call begins. */
static void *calls(void *arg)
{
	struct pending *p = arg;
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	atomic_store(&p->tid, gettid());
	while (!atomic_load(&p->cancelled))
		sched_yield();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	p->r = p->run();
	atomic_store(&p->returned, true);
	pthread_testcancel();
	return NULL;
}

/* Its peer is stopped until the call sleeps or has returned. */
static void cancel_pending(const char *name, long (*run)(void))
{
	struct pending p = {.run = run};
	pthread_t t = start(calls, &p);
	void *how;

	while (!atomic_load(&p.tid))
		nap(1);
	kill(peer_pid(), SIGSTOP);
	pthread_cancel(t);
	atomic_store(&p.cancelled, true);
	await_asleep(getpid(), p.tid);
	kill(peer_pid(), SIGCONT);
	pthread_join(t, &how);
	say("%s: %ld, %s, then %s", name, p.r,
	    atomic_load(&p.returned) ? "returned" : "did not return",
	    how == PTHREAD_CANCELED ? "cancelled" : "went on");
}

static int open_descriptors(void)
{
	int n = 0;

	for (int i = 0; i < 100; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

static void points_server(int lfd)
{
	fcntl(lfd, F_SETFD, FD_CLOEXEC); /* or what comes behind a program is plain */
	for (size_t i = 0; i < COUNT(no_points); i++) {
		post(no_points[i].name);
		victim_fd = answer_warm(lfd);
		cancel_pending(no_points[i].name, no_points[i].run);
		say("%d descriptors", open_descriptors());
	}
	post("done");
}

static void points_client(void)
{
	for (size_t i = 0; i < COUNT(no_points); i++) {
		await_post(no_points[i].name);
		dial_warm();
	}
	await_post("done");
}

/* A thread that is cancelled while its close() sleeps has closed. */
static void *closes(void *arg)
{
	atomic_store((_Atomic pid_t *)arg, gettid());
	close(victim_fd);
	pause();
	return NULL;
}

static void lingering_server(int lfd)
{
	struct linger l = {1, 20};
	_Atomic pid_t tid = 0;
	static char big[100000];
	int before;
	pthread_t t;
	void *how;

	victim_fd = answer_warm(lfd);
	before = open_descriptors();
	setsockopt(victim_fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	kill(peer_pid(), SIGSTOP);
	while (send(victim_fd, big, sizeof(big), MSG_DONTWAIT) > 0)
		;
	t = start(closes, &tid);
	while (!atomic_load(&tid))
		nap(1);
	await_asleep(getpid(), tid);
	pthread_cancel(t);
	kill(peer_pid(), SIGCONT);
	pthread_join(t, &how);
	say("close: %s, %d fewer", how == PTHREAD_CANCELED ? "cancelled" : "went on",
	    before - open_descriptors());
}

static void lingering_client(void)
{
	struct data rest = DATA(0);

	take_rest(dial_warm(), &rest);
	say("%d", rest.bytes > 0);
}

const struct tcp_case cases[] = {
	{"async", async_server, async_client},
	{"asleep", asleep_server, asleep_client},
	{"points", points_server, points_client},
	{"lingering", lingering_server, lingering_client},
	{0},
};
