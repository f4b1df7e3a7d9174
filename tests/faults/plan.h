/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* plan.h - what is to happen in a round: a function of its seed. */
#ifndef FAULTS_PLAN_H
#define FAULTS_PLAN_H

#include "shared.h"

/* Mostly little, sometimes more than the buffers hold. */
static inline uint64_t amount(uint64_t *chance)
{
	return 1 + draw(chance, draw(chance, 8) ? 40000 : 1500000);
}

static inline void plan_stream(struct stream *s, uint64_t *c)
{
	s->how = (int)draw(c, HOWS);
	s->when = (int)draw(c, WHENS);
	s->who = (int)draw(c, WHOS);
	s->child_end = (int)draw(c, ENDS);
	s->parent_first = draw(c, 2);
	s->server = draw(c, 2);
	s->early_ms = draw(c, 12) ? -1 : (int)draw(c, 12);
	if (getenv("FAULTS_PLAN")) {
		int v[6];

		if (sscanf(getenv("FAULTS_PLAN"), "%d %d %d %d %d %d", v, v + 1, v + 2, v + 3,
			   v + 4, v + 5) == 6) {
			s->how = v[0] < 0 ? s->how : v[0];
			s->when = v[1] < 0 ? s->when : v[1];
			s->who = v[2] < 0 ? s->who : v[2];
			s->child_end = v[3] < 0 ? s->child_end : v[3];
			s->parent_first = v[4] < 0 ? s->parent_first : v[4];
			s->early_ms = v[5] < 0 ? s->early_ms : -1;
		}
	}
	for (int way = UP; way <= DOWN; way++) {
		s->use[way] = amount(c);
		s->tail[way] = amount(c);
		s->unread[way] = amount(c);
		if (s->who == NEITHER)
			s->use[way] = s->tail[way] = 0;
		if (s->when != UNREAD)
			s->unread[way] = 0;
	}
	s->half = s->who == NEITHER ? 0 : (int)draw(c, 3);
	s->linked = s->stayed = s->again = -1;
}

static inline void plan(uint64_t seed)
{
	uint64_t c = mix(seed);

	shared->seed = seed;
	shared->streams = 1 + (int)draw(&c, STREAMS);
	for (int i = 0; i < SUBJECTS; i++) {
		struct subject *su = &shared->subject[i];

		su->parent_end = (int)draw(&c, ENDS);
		su->early_ms = draw(&c, 12) ? -1 : (int)draw(&c, 60);
		for (int j = 0; j < STREAMS; j++)
			plan_stream(&su->stream[j], &c);
	}
}

/* Sets turn n, and all behind it alike. */
static inline void set_turn(struct way *w, int n, uint64_t upto, int side)
{
	w->turn[n].side = side;
	w->turn[n].upto = upto;
	for (n++; n < TURNS; n++) {
		w->turn[n].side = side;
		w->turn[n].upto = NEVER;
	}
}

/* Who moves what from `from` on: so far it was the parent. */
static inline void share_out(struct stream *s, int way, uint64_t from, uint64_t use)
{
	struct way *w = &s->way[way];
	int last = s->parent_first ? CHILD : PARENT, n = 1;

	for (int i = TURNS - 1; i > 0; i--) {	/* from behind: they are in use */
		w->turn[i].upto = NEVER;
		w->turn[i].side = last;
	}
	if (s->who == BOTH)
		for (uint64_t part = use / 4; n < 4; n++) {
			w->turn[n].side = (n + way) % 2 ? PARENT : CHILD;
			w->turn[n].upto = from + part * (uint64_t)n;
		}
	w->turn[n].side = s->who == BOTH ? (way ? PARENT : CHILD) :
			  s->who == CHILD ? CHILD : PARENT;
	w->turn[n].upto = from + use;
	w->use_end = from + use;
	w->turn[0].upto = from;
}

#endif
