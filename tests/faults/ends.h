/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ends.h - how a process of a round ends, what it leaves, and who moves what then. */
#ifndef FAULTS_ENDS_H
#define FAULTS_ENDS_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "moves.h"

static char self[4096];		/* the path of this program */
static const char *file;	/* what all have mapped (shared.h) */

static inline uint64_t number(struct subject *su, struct stream *s)
{
	return (uint64_t)(su - shared->subject) * STREAMS + (uint64_t)(s - su->stream);
}

static inline struct mover mover(struct subject *su, struct stream *s, int fd, int side, int way)
{
	return (struct mover){.of = su, .s = s, .fd = fd, .side = side, .way = way,
			      .chance = mix(shared->seed * 1000 + number(su, s) * 8 +
					    (uint64_t)side * 2 + (uint64_t)way)};
}

/* In ms ms, unless it has ended. */
static inline void kill_in(int ms)
{
	struct killing *k;

	if (ms < 0)
		return;
	k = &shared->kill[atomic_fetch_add(&shared->kills, 1)];
	k->at = now_ns() + (uint64_t)ms * 1000000;
	k->pid = getpid();
}

static inline int count_maps(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "/memfd:sockrail ") != NULL;
	if (f)
		fclose(f);
	return n;
}

/* The library keeps a few for itself, and events for the threads that sleep. */
static inline int count_sockets(void)
{
	char path[300], to[64];
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n += readlink(path, to, sizeof(to)) > 6 && !memcmp(to, "socket", 6);
	}
	if (d)
		closedir(d);
	return n;
}

/* A process that crashed has no place in the plan. */
static inline void note_status(pid_t pid, int status)
{
	if (!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL)
		return;
	shared->crashes++;
	fprintf(stderr, "faults: process %d: signal %d\n", pid, WTERMSIG(status));
}

/* fds: the streams' that are open; some are left to the next program. */
static inline void end_process(int end, const int *fds, int n, uint64_t *chance)
{
	for (int i = 0; end == EXEC && i < n; i++)
		if (fds[i] >= 0 && draw(chance, 2))
			fcntl(fds[i], F_SETFD, 0);
	if (end == KILL)
		kill(getpid(), SIGKILL);
	if (end == EXEC)
		execl(self, "process", "rest", NULL);
	if (end == EXIT)
		exit(0);
	_exit(0);
}

/* The survivor's: everything has been said; the two ends say so, or not. */
static inline void say_end(struct subject *su, struct stream *s, int fd, int side)
{
	struct mover m = mover(su, s, fd, side, DOWN);

	if (!s->half || s->way[DOWN].stopped)
		return;
	if (s->half == 1)
		s->fin = true;
	else
		shutdown(fd, SHUT_WR);
	bump(s);
	s->way[DOWN].may_get = s->way[DOWN].limit + 1;
	while (s->way[DOWN].end == NO_END)
		move(&m);
}

static inline bool moved(struct stream *s, int way, uint64_t upto)
{
	struct way *w = &s->way[way];
	bool over = way == UP ? w->stopped : w->end != NO_END;

	return over || (way == UP ? w->sent : w->got) >= upto;
}

/* The survivor's bytes. */
static inline void go_on(struct stream *s)
{
	for (int way = UP; way <= DOWN; way++) {
		s->way[way].limit += s->tail[way];
		if (way == DOWN)
			s->way[way].may_get = s->way[way].limit;
	}
	bump(s);
}

#endif
