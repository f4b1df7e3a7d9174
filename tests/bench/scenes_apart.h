/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * scenes_apart.h - for scenes.c: what is measured in time, with the server in a process of
 * its own.
 */
#ifndef SCENES_APART_H
#define SCENES_APART_H

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "scenes_ends.h"

enum { PACE_US = 3000, BULK = 64 << 10, OPENED = 30 };

static _Noreturn void serve(void)
{
	start_server();
	for (;;)
		pause();
}

static void sleep_for(double seconds)
{
	const struct timespec t = {(time_t)seconds,
				   (long)((seconds - (double)(time_t)seconds) * 1e9)};

	nanosleep(&t, NULL);
}

static int rate(double seconds)
{
	uint64_t from, n, ns, tcp;

	start_clients();
	let_clients_go();
	sleep_for(0.1);
	tcp = bytes_by_tcp();
	n = atomic_load(&answers);
	from = now_ns();
	sleep_for(seconds);
	n = atomic_load(&answers) - n;
	ns = now_ns() - from;
	tcp = bytes_by_tcp() - tcp;
	printf("messages_per_s %.0f\n", 2 * (double)n * 1e9 / (double)ns);
	printf("by_tcp %.3f\n", (double)tcp / MESSAGE / (double)n);
	end_clients();
	return 0;
}

/* ---- round trips ---- */

static int paced(double seconds)
{
	fds[0] = open_stream();
	printf("round_trip_us %.1f\n", round_trips(fds[0], seconds, PACE_US));
	CALL(close)(fds[0]);
	return 0;
}

static atomic_ulong bulk_bytes;

/* Its first byte tells the server to read on and answer nothing. */
static void *send_bulk(void *arg)
{
	static char buf[BULK] = {SINK};
	ssize_t n;

	while ((n = CALL(send)((int)(uintptr_t)arg, buf, sizeof(buf), MSG_NOSIGNAL)) > 0)
		atomic_fetch_add_explicit(&bulk_bytes, (uint64_t)n, memory_order_relaxed);
	return NULL;
}

/* A round trip alone, and beside bulk on another stream of this process. */
static int beside(double seconds)
{
	uint64_t from, bytes;

	fds[0] = open_stream();
	fds[1] = open_stream();
	printf("alone_us %.1f\n", round_trips(fds[0], seconds, 0));
	start_thread("bulk", send_bulk, (uintptr_t)fds[1]);
	sleep_for(0.3);
	from = now_ns();
	bytes = atomic_load(&bulk_bytes);
	printf("beside_us %.1f\n", round_trips(fds[0], seconds, 0));
	bytes = atomic_load(&bulk_bytes) - bytes;
	printf("mb_per_s %.1f\n", (double)bytes * 1e3 / (double)(now_ns() - from));
	fflush(stdout);
	_exit(0);
}

/* ---- opening ---- */

/* Streams one after the other, each until its first answer. */
static int opening(void)
{
	uint64_t ns[OPENED], all = now_ns(), from;

	for (unsigned i = 0; i < OPENED; i++) {
		from = now_ns();
		fds[i] = dial();
		ask(fds[i]);
		take_answer(fds[i]);
		ns[i] = now_ns() - from;
	}
	all = now_ns() - all;
	printf("opened_per_s %.1f\n", OPENED * 1e9 / (double)all);
	print_times("first_answer", ns, OPENED);
	for (unsigned i = 0; i < OPENED; i++)
		CALL(close)(fds[i]);
	return 0;
}

/* ---- a server that stands still ---- */

/* Until each stream has had an answer after now. */
static double all_answered_ms(void)
{
	uint64_t from = now_ns(), before = atomic_load(&answers);

	while (atomic_load(&answers) < before + 2 * scene->streams)
		usleep(200);
	return (double)(now_ns() - from) / 1e6;
}

static int stopped(pid_t server)
{
	uint64_t tcp, n;

	start_clients();
	let_clients_go();
	sleep_for(0.2);
	printf("before_ms %.2f\n", all_answered_ms());
	if (kill(server, SIGSTOP))
		die("the server's process");
	sleep_for(scene->ms / 1e3);
	kill(server, SIGCONT);
	printf("after_ms %.2f\n", all_answered_ms());
	tcp = bytes_by_tcp();
	n = atomic_load(&answers);
	sleep_for(0.2);
	tcp = bytes_by_tcp() - tcp;
	n = atomic_load(&answers) - n;
	printf("by_tcp %.3f\n", (double)tcp / MESSAGE / (double)n);
	end_clients();
	return 0;
}

/* ---- many processes ---- */

struct shared {
	atomic_ulong answers;
	atomic_uint open;
	atomic_bool go, stop;
};

static _Noreturn void be_client(struct shared *s)
{
	int fd = open_stream();

	atomic_fetch_add(&s->open, 1);
	while (!atomic_load(&s->go))
		usleep(1000);
	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		ask(fd);
		take_answer(fd);
		atomic_fetch_add_explicit(&s->answers, 1, memory_order_relaxed);
	}
	CALL(close)(fd);
	exit(0);
}

static int processes(double seconds)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t from = now_ns(), n;

	if (s == MAP_FAILED)
		die("mmap");
	for (unsigned i = 0; i < scene->streams; i++)
		if (!fork())
			be_client(s);
	while (atomic_load(&s->open) < scene->streams) {
		usleep(1000);
		if (waitpid(-1, NULL, WNOHANG) > 0)
			die("a client has ended");
	}
	printf("opened_per_s %.1f\n", scene->streams * 1e9 / (double)(now_ns() - from));
	atomic_store(&s->go, true);
	sleep_for(0.1);
	from = now_ns();
	n = atomic_load(&s->answers);
	sleep_for(seconds);
	n = atomic_load(&s->answers) - n;
	printf("messages_per_s %.0f\n", 2 * (double)n * 1e9 / (double)(now_ns() - from));
	atomic_store(&s->stop, true);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return 0;
}

static int timed(double seconds, pid_t server)
{
	switch (scene->timed) {
	case PACED:
		return paced(seconds);
	case BESIDE:
		return beside(seconds);
	case OPENING:
		return opening();
	case STOPPED:
		return stopped(server);
	case PROCESSES:
		return processes(seconds);
	default:
		return rate(seconds);
	}
}

#endif
