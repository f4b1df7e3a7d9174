/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* walk_actor.h - what an actor of process_walk.c does: it obeys orders, and answers. */
#ifndef WALK_ACTOR_H
#define WALK_ACTOR_H

#include "case.h"

#include <sys/epoll.h>

enum { ACTORS = 8, STREAMS = 3, SIDES = 2, STEPS = 160, UNREAD_MAX = 12000 };
enum { FIRST = 100, PASS = 140 };	/* numbers of sockets */
enum op { SEND, READ, CLOSE, SHUT, COPY, FORK, TWICE, EXEC, GIVE, TAKE, CLEAN, QUIT };

static const char *const op_names[] = {"send", "read", "close", "shut", "dup", "fork",
				       "fork twice", "exec", "give", "take", "clean", "exit"};

struct order {
	enum op op;
	int stream, how, actor;
	size_t n;
	uint64_t at;	/* offset of the first byte */
};

struct answer {
	ssize_t n;	/* or -errno */
	bool wrong;
	pid_t pid;
};

static char buf[1 << 16];

static int director_end(int actor) { return FIRST + 2 * actor; }
static int actor_end(int actor) { return FIRST + 2 * actor + 1; }

/* ---- an actor ---- */

static int fds[STREAMS];	/* -1: none */

static char byte_at(uint64_t at) { return (char)(at * 31 + (at >> 8) * 7); }

static ssize_t send_bytes(const struct order *o)
{
	for (size_t i = 0; i < o->n; i++)
		buf[i] = byte_at(o->at + i);
	for (size_t done = 0; done < o->n;) {
		ssize_t k = send(fds[o->stream], buf + done, o->n - done, MSG_NOSIGNAL);

		if (k < 0)
			return -errno;
		done += (size_t)k;
	}
	return (ssize_t)o->n;
}

static void wait_somehow(int fd, int how)
{
	struct pollfd p = {fd, POLLIN, 0};
	struct epoll_event ev = {EPOLLIN | EPOLLET, {.u64 = 1}};
	fd_set set;
	int ep;

	switch (how) {
	case 1:
		poll(&p, 1, 10000);
		break;
	case 2:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		select(fd + 1, &set, NULL, NULL, &(struct timeval){10, 0});
		break;
	case 3:
		ep = epoll_create1(EPOLL_CLOEXEC);
		epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
		epoll_wait(ep, &ev, 1, 10000);
		close(ep);
	}
}

/* n bytes, or up to the end. */
static ssize_t read_bytes(const struct order *o, bool *wrong)
{
	size_t got = 0;

	do {
		ssize_t k;

		wait_somehow(fds[o->stream], o->how);
		k = read(fds[o->stream], buf, o->n ? o->n - got : 1);
		if (k < 0)
			return -errno;
		if (!k)
			break;
		for (ssize_t i = 0; i < k; i++)
			*wrong |= buf[i] != byte_at(o->at + got + (size_t)i);
		got += (size_t)k;
	} while (got < o->n);
	return (ssize_t)got;
}

static void reply(int me, ssize_t n, bool wrong)
{
	struct answer a = {n, wrong, getpid()};

	if (write(actor_end(me), &a, sizeof(a)) != sizeof(a))
		_exit(9);
}

static void run_again(int me)
{
	char actor[16], streams[64];

	snprintf(actor, sizeof(actor), "%d", me);
	snprintf(streams, sizeof(streams), "%d %d %d", fds[0], fds[1], fds[2]);
	execl("/proc/self/exe", "process_walk", "actor", actor, streams, NULL);
	reply(me, -errno, false);
}

/* As daemons do. */
static void close_all(int how)
{
	if (how)
		close_range(3, FIRST - 1, 0);
	else
		for (int fd = 3; fd < FIRST; fd++)
			close(fd);
	for (int i = 0; i < STREAMS; i++)
		fds[i] = -1;
}

static ssize_t make_child(int *me, const struct order *o)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid && o->op == TWICE && fork())
		_exit(0);
	if (!pid)
		*me = o->actor;		/* the answer is the child's */
	return pid;
}

static ssize_t obey(int *me, const struct order *o, bool *wrong)
{
	int *fd = &fds[o->stream], old = *fd;

	switch (o->op) {
	case SEND:
		return send_bytes(o);
	case READ:
		return read_bytes(o, wrong);
	case SHUT:
		return shutdown(*fd, SHUT_WR) ? -errno : 0;
	case CLOSE:
		*fd = -1;
		return close(old) ? -errno : 0;
	case COPY:
		*fd = dup(old);
		return close(old) ? -errno : 0;
	case GIVE:
		send_fd(PASS, old);
		return 0;
	case TAKE:
		*fd = receive_fd(PASS + 1);
		return *fd < 0 ? -errno : 0;
	case CLEAN:
		close_all(o->how);
		return 0;
	default:
		return make_child(me, o);
	}
}

static _Noreturn void act(int me)
{
	struct order o;

	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		bool wrong = false;
		ssize_t n = 0;

		if (read(actor_end(me), &o, sizeof(o)) != sizeof(o))
			_exit(8);
		if (o.op == EXEC)
			run_again(me);
		else if (o.op != QUIT)
			n = obey(&me, &o, &wrong);
		if ((o.op == FORK || o.op == TWICE) && n > 0)
			continue;
		reply(me, n, wrong);
		if (o.op == QUIT && o.how)
			_exit(0);
		if (o.op == QUIT)
			exit(0);
	}
}

#endif
