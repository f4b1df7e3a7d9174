/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* parent.h - a subject: a process whose streams are handed to children. */
#ifndef FAULTS_PARENT_H
#define FAULTS_PARENT_H

#include <pthread.h>

#include "child.h"
#include "plan.h"

static inline void reap(struct subject *su)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		note_status(pid, status);
		for (int i = 0; i < shared->streams; i++)
			if (su->stream[i].child == pid) {
				su->stream[i].child_gone = true;
				bump(&su->stream[i]);
			}
	}
}

static inline void *parent_moves(void *arg)
{
	struct mover *m = arg;

	while (!m->s->parent_done) {
		AWAIT(m->s, m->s->parent_done || may(m));
		move(m);
	}
	return NULL;
}

struct own {
	struct subject *su;
	struct stream *s;
	int fd;
	uint64_t kernels;		/* by_kernel() before the fork */
	struct mover m[2];
	pthread_t thread[2];
};

/* The parent moves n bytes more each way. */
static inline void extend(struct stream *s, uint64_t up, uint64_t down)
{
	s->way[UP].limit += up;
	s->way[UP].may_get = NEVER;
	s->way[DOWN].limit += down;
	s->way[DOWN].may_get = s->way[DOWN].limit;
	bump(s);
}

static inline bool all_done(struct stream *s)
{
	struct way *up = &s->way[UP], *down = &s->way[DOWN];

	return (up->stopped || up->end != NO_END || up->got >= up->limit) &&
	       (down->end != NO_END || down->got >= down->limit);
}

static inline bool settles(struct stream *s)
{
	return s->when == AFTER || s->when == UNREAD || s->when == ASLEEP;
}

/* Moves some bytes on each stream that is to have a link.  False: one has none yet. */
static inline bool settle_once(struct own *own, int n)
{
	uint64_t before[STREAMS];
	bool all = true;

	for (int i = 0; i < n; i++) {
		before[i] = by_kernel(own[i].fd);
		if (settles(own[i].s) && own[i].s->linked != 1)
			extend(own[i].s, 3000, 3000);
	}
	for (int i = 0; i < n; i++) {
		if (!settles(own[i].s) || own[i].s->linked == 1)
			continue;
		AWAIT(own[i].s, all_done(own[i].s));
		own[i].s->linked = by_kernel(own[i].fd) == before[i];
		all &= own[i].s->linked;
	}
	return all;
}

/* Until they have links, or that takes too long: who has met another process's fork
 * asks again after a second or two. */
static inline void settle(struct own *own, int n)
{
	uint64_t since = now_ns();
	bool all = false;

	for (int i = 0; i < 3 || (shared->rail && !all && !shared->uncounted); i++) {
		all = settle_once(own, n);
		if (now_ns() - since > 6000000000ull)
			break;
		nap_us(all ? 0 : 1000);
	}
	for (int i = 0; i < n; i++)
		if (!own[i].s->linked && shared->uncounted)
			own[i].s->linked = -1;
}

static inline void begin_stream(struct own *o)
{
	for (int way = UP; way <= DOWN; way++) {
		set_turn(&o->s->way[way], 0, NEVER, PARENT);
		o->m[way] = mover(o->su, o->s, o->fd, PARENT, way);
		pthread_create(&o->thread[way], NULL, parent_moves, &o->m[way]);
	}
	/* In policy wait who asks in vain, because the other end makes no call, asks no
	 * other stream of that end for long. */
	if (settles(o->s))
		o->s->way[UP].may_get = NEVER;
}

/* To the moment at which the child is made. */
static inline void prepare(struct own *o)
{
	struct stream *s = o->s;

	if (s->when == UNREAD) {
		s->way[UP].may_get = s->way[UP].limit;
		s->way[UP].limit += s->unread[UP];
		s->way[DOWN].limit += s->unread[DOWN];
		bump(s);
	}
	if (s->when == ASLEEP) {
		s->way[DOWN].may_get += 1000;
		bump(s);
	}
}

static inline void moment(struct own *o, uint64_t *chance)
{
	struct stream *s = o->s;

	if (s->when == DURING)
		extend(s, 3000 + draw(chance, 20000), 3000 + draw(chance, 20000));
	if (s->when == SWITCH)
		extend(s, 300000, 300000);
	if (s->when != BEFORE)
		nap_us((unsigned)draw(chance, 4000));
	o->kernels = by_kernel(o->fd);
}

/* Now the bytes belong to those who have the stream. */
static inline void begin_use(struct stream *s)
{
	uint64_t asleep = s->when == ASLEEP ? 1000 : 0;

	s->way[UP].may_get = NEVER;
	share_out(s, UP, s->way[UP].limit, s->use[UP]);
	if (s->when == UNREAD && s->who != NEITHER)
		share_out(s, DOWN, s->way[DOWN].may_get, s->unread[DOWN] + s->use[DOWN]);
	else
		share_out(s, DOWN, s->way[DOWN].limit + asleep, s->use[DOWN]);
	s->way[UP].limit += s->use[UP];
	s->way[DOWN].limit += s->use[DOWN] + asleep;
	if (s->who != NEITHER)
		s->way[DOWN].may_get = s->way[DOWN].limit;
	s->forked = true;
	bump(s);
}

static inline bool used(struct stream *s)
{
	return s->child_gone || (moved(s, UP, s->way[UP].use_end) &&
				 ((s->who == NEITHER && s->when == UNREAD) ||
				  moved(s, DOWN, s->way[DOWN].limit)));
}

static inline void end_threads(struct own *o)
{
	o->s->parent_done = true;
	bump(o->s);
	pthread_join(o->thread[0], NULL);
	pthread_join(o->thread[1], NULL);
}

static inline void *early_end(void *arg)
{
	struct subject *su = arg;

	(void)su;
	kill_in(su->early_ms);
	return NULL;
}

/* A stream that the parent alone has from now on. */
static inline void survive(struct own *o)
{
	struct stream *s = o->s;

	s->child_go = true;
	bump(s);
	AWAIT(s, (reap(o->su), s->child_closed || s->child_gone));
	if (!moved(s, UP, s->way[UP].use_end) || !moved(s, DOWN, s->way[DOWN].use_end))
		return;
	go_on(s);
	AWAIT(s, moved(s, UP, s->way[UP].limit) && moved(s, DOWN, s->way[DOWN].limit));
	end_threads(o);
	say_end(o->su, s, o->fd, PARENT);
}

/* The first of the two ends, and what the other one does then. */
static inline void part(struct own *o, int *fds)
{
	struct stream *s = o->s;
	bool close_it = o->su->parent_end == CLOSE;

	AWAIT(s, (reap(o->su), used(s)));
	if (s->stayed < 0 && s->linked == 1 && s->who == PARENT &&
	    (s->how == FORK || s->how == DOUBLE) && s->early_ms < 0)
		s->stayed = s->handed ? -1 : by_kernel(o->fd) == o->kernels;
	if (!s->parent_first)
		survive(o);
	if (!s->parent_first || !close_it) {
		if (!close_it)
			return;
	}
	if (!s->parent_done)
		end_threads(o);
	close(o->fd);
	fds[s - o->su->stream] = -1;
	s->parent_closed = true;
	bump(s);
}

static inline void check_left(struct subject *su, int before)
{
	int n = 0, maps = 1;

	for (int i = 0; i < shared->streams; i++)
		AWAIT(&su->stream[i], (reap(su), su->stream[i].over));
	for (int i = 0; i < 300 && (n > before + 5 || maps); i++, nap_us(10000)) {
		n = count_sockets();
		maps = count_maps();
	}
	su->leaked = n - before;
	su->leaked_maps = maps;
}

static inline int open_stream(struct subject *su, int lfd, int *fds)
{
	for (int i = 0; i < shared->streams; i++) {
		struct stream *s = &su->stream[i];

		if (!s->server) {
			while (!shared->port)
				nap_us(300);
			fds[i] = dial(shared->port, s);
			continue;
		}
	}
	for (int i = 0; i < shared->streams; i++) {
		struct stream *s;
		int fd;

		if (!su->stream[i].server)
			continue;
		fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
		s = match(port_of(fd, get_peer), su, 1, true);
		fds[s - su->stream] = fd;
	}
	return 0;
}

static inline int subject(struct subject *su)
{
	static struct own own[STREAMS];
	int fds[STREAMS], receiver[STREAMS], lfd, before, n = shared->streams;
	uint64_t chance = mix(shared->seed + 100 + (uint64_t)(su - shared->subject));

	su->pid = getpid();
	for (int i = 0; i < n; i++)
		receiver[i] = su->stream[i].how == PASS ?
				      start_receiver(su, &su->stream[i]) : -1;
	memset(fds, -1, sizeof(fds));
	lfd = listen_any(&su->port);
	before = count_sockets();
	open_stream(su, lfd, fds);
	for (int i = 0; i < n; i++) {
		own[i] = (struct own){.su = su, .s = &su->stream[i], .fd = fds[i]};
		begin_stream(&own[i]);
	}
	settle(own, n);
	for (int i = 0; i < n; i++)
		prepare(&own[i]);
	early_end(su);
	for (int i = 0; i < n; i++) {
		moment(&own[i], &chance);
		make_child(su, own[i].s, fds, receiver[i], &chance);
		begin_use(own[i].s);
	}
	for (int i = 0; i < n; i++)
		part(&own[i], fds);
	if (su->parent_end == CLOSE) {
		check_left(su, before);
		exit(0);
	}
	end_process(su->parent_end, fds, n, &chance);
	return 0;
}

#endif
