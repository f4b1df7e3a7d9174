/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* child.h - a child to which a stream is handed: its making, and what it does. */
#ifndef FAULTS_CHILD_H
#define FAULTS_CHILD_H

#include <spawn.h>

#include "ends.h"
#include "sockets.h"

extern char **environ;

static inline bool parent_is_gone(struct subject *su, struct stream *s)
{
	return su->gone || s->over;
}

static inline void child_moves(struct subject *su, struct stream *s, int fd, uint64_t *chance,
			bool tail)
{
	struct mover m[2] = {mover(su, s, fd, CHILD, UP), mover(su, s, fd, CHILD, DOWN)};
	uint64_t upto[2];

	for (int way = UP; way <= DOWN; way++)
		upto[way] = tail ? s->way[way].limit : s->way[way].use_end;
	for (;;) {
		int first = (int)draw(chance, 2);

		if (moved(s, UP, upto[UP]) && moved(s, DOWN, upto[DOWN]))
			return;
		if (move(&m[first]) || move(&m[!first]))
			continue;
		if (parent_is_gone(su, s))
			return;
		AWAIT(s, may(&m[0]) || may(&m[1]) || parent_is_gone(su, s) ||
				 (moved(s, UP, upto[UP]) && moved(s, DOWN, upto[DOWN])));
	}
}

/* fds: of all the subject's streams that it has, -1 for the others */
static inline void child(struct subject *su, struct stream *s, int *fds)
{
	uint64_t chance = mix(shared->seed + 1000 + number(su, s));
	int mine = (int)(s - su->stream), fd = fds[mine];

	s->child = getpid();
	s->maps = count_maps();
	kill_in(s->early_ms);
	for (int i = 0; i < shared->streams; i++)
		if (i != mine && fds[i] >= 0 && draw(&chance, 2)) {
			close(fds[i]);
			fds[i] = -1;
		} else if (i != mine && fds[i] >= 0 && s->child_end == EXEC) {
			su->stream[i].handed = true;
		}
	s->ready = true;
	bump(s);
	AWAIT(s, s->forked || parent_is_gone(su, s));
	if (s->who != NEITHER)
		child_moves(su, s, fd, &chance, false);
	bump(s);
	AWAIT(s, parent_is_gone(su, s) || (s->parent_first ? s->parent_closed : s->child_go));
	if (s->forked && s->parent_first && s->who != NEITHER && moved(s, UP, s->way[UP].use_end) &&
	    moved(s, DOWN, s->way[DOWN].use_end)) {
		go_on(s);
		child_moves(su, s, fd, &chance, true);
		say_end(su, s, fd, CHILD);
	}
	if (s->child_end == EXEC && (su->parent_end == KILL || su->early_ms >= 0))
		for (int i = 0; i < shared->streams; i++)
			fds[i] = i == mine ? fd : -1;
	if (s->child_end != CLOSE)
		end_process(s->child_end, fds, shared->streams, &chance);
	for (int i = 0; i < shared->streams; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	s->child_closed = true;
	bump(s);
	AWAIT(s, s->over || su->gone);
	_exit(0);
}

/* The arguments of a program that becomes the child. */
static inline char **child_args(struct subject *su, struct stream *s, int fd)
{
	static char text[3][16], words[2][8] = {"process", "child"};
	static char *args[7] = {words[0], words[1]};

	snprintf(text[0], 16, "%d", (int)(su - shared->subject));
	snprintf(text[1], 16, "%d", (int)(s - su->stream));
	snprintf(text[2], 16, "%d", fd);
	args[2] = (char *)file;
	for (int i = 0; i < 3; i++)
		args[3 + i] = text[i];
	return args;
}

static inline void run_spawn(struct subject *su, struct stream *s, int fd, bool dup)
{
	posix_spawn_file_actions_t actions;
	int to = dup ? 300 : fd;
	char **args = child_args(su, s, to);
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	if (dup)
		posix_spawn_file_actions_adddup2(&actions, fd, to);
	else
		fcntl(fd, F_SETFD, 0);
	errno = posix_spawn(&pid, self, &actions, NULL, args, environ);
	if (errno)
		die("posix_spawn");
	posix_spawn_file_actions_destroy(&actions);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void __attribute__((noinline)) run_vfork(struct subject *su, struct stream *s, int fd)
{
	char **args = child_args(su, s, fd);
	pid_t pid;

	fcntl(fd, F_SETFD, 0);
	pid = vfork();
	if (!pid) {
		execv(self, args);
		_exit(9);
	}
	if (pid < 0)
		die("vfork");
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* A process that is there before the streams are.  Returns the socket to it. */
static inline int start_receiver(struct subject *su, struct stream *s)
{
	int pair[2], fds[STREAMS];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		die("socketpair");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid) {
		close(pair[1]);
		return pair[0];
	}
	close(pair[0]);
	memset(fds, -1, sizeof(fds));
	fds[s - su->stream] = take_fd(pair[1]);
	child(su, s, fds);
	_exit(0);
}

static inline void run_fork(struct subject *su, struct stream *s, int *fds)
{
	int mine = (int)(s - su->stream);
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid)
		return;
	if (s->how == DOUBLE && fork())
		_exit(0);
	if (s->how != FORK_EXEC)
		child(su, s, fds);
	fcntl(fds[mine], F_SETFD, 0);
	execv(self, child_args(su, s, fds[mine]));
	_exit(9);
}

static inline void make_child(struct subject *su, struct stream *s, int *fds, int receiver,
		       uint64_t *chance)
{
	int fd = fds[s - su->stream];

	switch (s->how) {
	case VFORK:
		run_vfork(su, s, fd);
		break;
	case SPAWN:
		run_spawn(su, s, fd, draw(chance, 2));
		break;
	case PASS:
		pass_fd(receiver, fd);
		break;
	default:
		run_fork(su, s, fds);
	}
}

#endif
