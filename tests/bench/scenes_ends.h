/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * scenes_ends.h - the two ends of the scenes of scenes.c: event loops and blocking
 * threads.  CALL(send) is the program's own call of that name; scenes_fake.h and
 * scenes_kernel.h say what it is.
 *
 * A request is MESSAGE bytes, and so is its answer.  Each stream has one request under way.
 */
#ifndef SCENES_ENDS_H
#define SCENES_ENDS_H

#include <netinet/in.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { MESSAGE = 64, EVENTS = 256, WARM = 8, MOST_LOOPS = 16, MOST_STREAMS = 20000,
       READ = 1 << 20 };

/* The first byte of a message that is bulk and not answered. */
#define SINK 'b'

/* What is measured in time: messages, or something else. */
enum timed { MESSAGES, PACED, BESIDE, OPENING, STOPPED, PROCESSES };

struct scene {
	const char *name;
	unsigned loops;	     /* event loops at each end; 0: a thread for each stream */
	unsigned streams;
	bool main_opens;     /* the main thread opens the streams, other threads use them */
	enum timed timed;
	unsigned ms;	     /* for which the server computes after each look, or is stopped */
};

static const struct scene *scene;
static struct sockaddr_in address;

/* ---- the server's end ---- */

static int listener;
static int server_sets[MOST_LOOPS];

static void no_delay(int fd)
{
	int on = 1;

	CALL(setsockopt)(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void watch(int set, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	if (CALL(epoll_ctl)(set, EPOLL_CTL_ADD, fd, &e))
		die("epoll_ctl");
}

static void start_thread(const char *name, void *(*fn)(void *), uintptr_t arg)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 << 10);
	if (pthread_create(&t, &attr, fn, (void *)arg))
		die("pthread_create");
	pthread_setname_np(t, name);
	pthread_attr_destroy(&attr);
}

static int take_stream(void)
{
	int fd = CALL(accept)(listener, NULL, NULL);

	if (fd < 0)
		die("accept");
	no_delay(fd);
	return fd;
}

static void sink(int fd)
{
	char *buf = malloc(READ);

	while (CALL(recv)(fd, buf, READ, 0) > 0)
		;
	free(buf);
}

/* False: the client has closed the stream. */
static bool answer_one(int fd)
{
	char buf[MESSAGE];
	ssize_t n = CALL(recv)(fd, buf, sizeof(buf), 0);

	if (n > 0 && buf[0] == SINK)
		sink(fd);
	else if (n > 0 && CALL(send)(fd, buf, (size_t)n, MSG_NOSIGNAL) == n)
		return true;
	CALL(close)(fd);
	return false;
}

static int wait_events(int set, struct epoll_event e[EVENTS])
{
	int n = CALL(epoll_wait)(set, e, EVENTS, -1);

	/* A tracer that attaches interrupts it. */
	if (n < 0 && errno != EINTR)
		die("epoll_wait");
	return n;
}

/* One turn of a loop or a thread; false: it was the last. */
typedef bool turn_fn(uintptr_t what);

/* While instructions are counted, by a tool that knows functions by their names, turns
 * are in measured_turn(). */
static atomic_bool measuring;

static __attribute__((noinline)) bool measured_turn(turn_fn *turn, uintptr_t what)
{
	bool more = turn(what);

	__asm__ volatile("" ::: "memory"); /* no tail call */
	return more;
}

static void take_turns(turn_fn *turn, uintptr_t what)
{
	bool more;

	do
		more = atomic_load_explicit(&measuring, memory_order_relaxed) ?
			       measured_turn(turn, what) : turn(what);
	while (more);
}

static void compute(unsigned ms)
{
	uint64_t until = now_ns() + ms * UINT64_C(1000000);

	while (now_ns() < until)
		;
}

/* The first loop accepts, and hands the streams out to all loops in turn. */
static bool server_turn(uintptr_t loop)
{
	static unsigned accepted;
	struct epoll_event e[EVENTS];
	int n = wait_events(server_sets[loop], e);

	for (int i = 0; i < n; i++) {
		if (e[i].data.fd == listener)
			watch(server_sets[accepted++ % scene->loops], take_stream());
		else
			answer_one(e[i].data.fd);
	}
	if (scene->timed == OPENING)
		compute(scene->ms);
	return true;
}

static void *server_loop(void *arg)
{
	take_turns(server_turn, (uintptr_t)arg);
	return NULL;
}

static bool server_thread_turn(uintptr_t fd)
{
	return answer_one((int)fd);
}

static void *server_thread(void *arg)
{
	take_turns(server_thread_turn, (uintptr_t)arg);
	return NULL;
}

static void *accepting_thread(void *arg)
{
	for (;;)
		start_thread("server", server_thread, (uintptr_t)take_stream());
	return arg;
}

static void start_listening(void)
{
	socklen_t len = sizeof(address);
	int on = 1;

	listener = CALL(socket)(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&address, len) ||
	    CALL(listen)(listener, 4096) ||
	    getsockname(listener, (struct sockaddr *)&address, &len))
		die("listen");
}

static void start_server(void)
{
	start_listening();
	for (unsigned i = 0; i < scene->loops; i++)
		server_sets[i] = CALL(epoll_create1)(0);
	if (scene->loops)
		watch(server_sets[0], listener);
	for (unsigned i = 0; i < scene->loops; i++)
		start_thread("server", server_loop, i);
	if (!scene->loops)
		start_thread("accepts", accepting_thread, 0);
}

/* ---- the client's end ---- */

static int fds[MOST_STREAMS];
static atomic_ulong answers; /* since the clients began */
static atomic_bool stopping;
static sem_t ready, go, done;

static void ask(int fd)
{
	static const char buf[MESSAGE];

	if (CALL(send)(fd, buf, MESSAGE, 0) != MESSAGE)
		die("send");
}

static void take_answer(int fd)
{
	char buf[MESSAGE];

	/* A part of an answer would be taken for a whole one. */
	if (CALL(recv)(fd, buf, MESSAGE, 0) != MESSAGE)
		die("recv");
}

static int dial(void)
{
	int fd = CALL(socket)(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || CALL(connect)(fd, (struct sockaddr *)&address, sizeof(address)))
		die("connect");
	no_delay(fd);
	return fd;
}

/* The first messages make the stream's link. */
static int open_stream(void)
{
	int fd = dial();

	for (int i = 0; i < WARM; i++) {
		ask(fd);
		take_answer(fd);
	}
	return fd;
}

/* Round trips for so long, so far apart: their median in us. */
static double round_trips(int fd, double seconds, unsigned pause_us)
{
	uint64_t until = now_ns() + (uint64_t)(seconds * 1e9), from;
	uint64_t *ns = NULL;
	unsigned n = 0;
	double us;

	do {
		if (pause_us)
			usleep(pause_us);
		if (!(n & (n - 1)))
			ns = realloc(ns, 2 * (n + 1) * sizeof(*ns));
		from = now_ns();
		ask(fd);
		take_answer(fd);
		ns[n++] = now_ns() - from;
	} while (now_ns() < until);
	us = percentile_us(ns, n, 50);
	free(ns);
	return us;
}

static void await_go(void)
{
	sem_post(&ready);
	while (sem_wait(&go))
		; /* EINTR */
}

static void take_answer_in(int fd)
{
	take_answer(fd);
	atomic_fetch_add_explicit(&answers, 1, memory_order_relaxed);
}

static bool is_stopping(void)
{
	return atomic_load_explicit(&stopping, memory_order_relaxed);
}

static struct client {
	int set;
	unsigned under_way;
} client_loops[MOST_LOOPS];

static bool client_turn(uintptr_t loop)
{
	struct client *c = &client_loops[loop];
	struct epoll_event e[EVENTS];
	int n = wait_events(c->set, e);

	for (int i = 0; i < n; i++) {
		take_answer_in(e[i].data.fd);
		if (is_stopping())
			c->under_way--;
		else
			ask(e[i].data.fd);
	}
	return c->under_way;
}

/* Loop i has the streams i, i + loops, i + 2 * loops... */
static void *client_loop(void *arg)
{
	struct client *c = &client_loops[(uintptr_t)arg];
	unsigned first = (unsigned)(uintptr_t)arg;

	c->set = CALL(epoll_create1)(0);
	for (unsigned i = first; i < scene->streams; i += scene->loops) {
		if (!scene->main_opens)
			fds[i] = open_stream();
		watch(c->set, fds[i]);
	}
	await_go();
	for (unsigned i = first; i < scene->streams; i += scene->loops, c->under_way++)
		ask(fds[i]);
	take_turns(client_turn, first);
	sem_post(&done);
	return NULL;
}

static bool client_thread_turn(uintptr_t i)
{
	ask(fds[i]);
	take_answer_in(fds[i]);
	return !is_stopping();
}

static void *client_thread(void *arg)
{
	if (!scene->main_opens)
		fds[(uintptr_t)arg] = open_stream();
	await_go();
	take_turns(client_thread_turn, (uintptr_t)arg);
	sem_post(&done);
	return NULL;
}

static unsigned clients(void)
{
	return scene->loops ? scene->loops : scene->streams;
}

/* Returns when every stream is open and warm. */
static void start_clients(void)
{
	sem_init(&ready, 0, 0);
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	for (unsigned i = 0; scene->main_opens && i < scene->streams; i++)
		fds[i] = open_stream();
	for (unsigned i = 0; i < clients(); i++)
		start_thread("client", scene->loops ? client_loop : client_thread, i);
	for (unsigned i = 0; i < clients(); i++)
		sem_wait(&ready);
}

static void let_clients_go(void)
{
	for (unsigned i = 0; i < clients(); i++)
		sem_post(&go);
}

static void end_clients(void)
{
	atomic_store(&stopping, true);
	for (unsigned i = 0; i < clients(); i++)
		sem_wait(&done);
	for (unsigned i = 0; i < scene->streams; i++)
		CALL(close)(fds[i]);
}

/* What TCP itself has brought to the clients; nothing if they have no sockets of it. */
static uint64_t bytes_by_tcp(void)
{
	socklen_t len = sizeof(struct tcp_info);
	struct tcp_info info;
	uint64_t sum = 0;

	for (unsigned i = 0; i < scene->streams; i++) {
		if (getsockopt(fds[i], IPPROTO_TCP, TCP_INFO, &info, &len))
			return 0;
		sum += info.tcpi_bytes_received;
	}
	return sum;
}

#endif
