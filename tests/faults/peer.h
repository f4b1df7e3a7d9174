/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* peer.h - the process at the other end of all streams. */
#ifndef FAULTS_PEER_H
#define FAULTS_PEER_H

#include <pthread.h>

#include "ends.h"
#include "sockets.h"

struct peer_end {
	struct subject *su;
	struct stream *s;
	int fd;
	pthread_t reader, writer;
};

static inline void *peer_reads(void *arg)
{
	struct peer_end *p = arg;
	struct mover m = mover(p->su, p->s, p->fd, PEER, UP);
	struct way *w = &p->s->way[UP];

	while (w->end == NO_END) {
		AWAIT(p->s, w->end != NO_END || may(&m));
		move(&m);
	}
	return NULL;
}

static inline void *peer_writes(void *arg)
{
	struct peer_end *p = arg;
	struct mover m = mover(p->su, p->s, p->fd, PEER, DOWN);
	struct way *w = &p->s->way[DOWN];

	do {
		AWAIT(p->s, w->stopped || may(&m) || p->s->fin ||
				    p->s->way[UP].end != NO_END);
		move(&m);
	} while (may(&m) || (!w->stopped && !p->s->fin && p->s->way[UP].end == NO_END));
	if (p->s->fin)
		shutdown(p->fd, SHUT_WR);
	return NULL;
}

static inline void *peer_closes(void *arg)
{
	struct peer_end *p = arg;

	pthread_create(&p->writer, NULL, peer_writes, p);
	peer_reads(p);
	pthread_join(p->writer, NULL);
	close(p->fd);
	p->s->over = true;
	bump(p->s);
	return NULL;
}

/* A child that has nothing to do with the streams. */
static inline void bystander(uint64_t *chance)
{
	unsigned us = (unsigned)draw(chance, 20000);
	int end = (int)draw(chance, ENDS);
	pid_t pid = fork();

	if (pid) {
		if (end == KILL)
			shared->uncounted = true;
		return;
	}
	nap_us(us);
	end_process(end, NULL, 0, chance);
}

static inline int peer(void)
{
	uint64_t chance = mix(shared->seed + 5);
	int lfd = listen_any(&shared->port), n = SUBJECTS * shared->streams, got = 0;
	struct peer_end *ends = calloc((size_t)n, sizeof(*ends));
	int status;
	pid_t pid;

	for (int i = 0; i < SUBJECTS; i++)
		for (int j = 0; j < shared->streams; j++) {
			struct subject *su = &shared->subject[i];
			struct stream *s = &su->stream[j];

			if (!s->server)
				continue;
			while (!su->port)
				nap_us(300);
			ends[got++] = (struct peer_end){.su = su, .s = s,
							.fd = dial(su->port, s)};
		}
	for (int i = 0; i < got; i++)
		pthread_create(&ends[i].reader, NULL, peer_closes, &ends[i]);
	for (; got < n; got++) {
		int fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
		struct stream *s = match(port_of(fd, get_peer), shared->subject, SUBJECTS, false);

		ends[got] = (struct peer_end){.s = s, .fd = fd};
		for (int i = 0; i < SUBJECTS; i++)
			if (s >= shared->subject[i].stream && s < shared->subject[i].stream + STREAMS)
				ends[got].su = &shared->subject[i];
		pthread_create(&ends[got].reader, NULL, peer_closes, &ends[got]);
	}
	for (uint64_t i = draw(&chance, 4); i > 0; i--) {
		nap_us((unsigned)draw(&chance, 30000));
		bystander(&chance);
	}
	for (int i = 0; i < n; i++)
		pthread_join(ends[i].reader, NULL);
	while ((pid = wait(&status)) > 0)
		note_status(pid, status);
	exit(0);
}

#endif
