/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * asker.c - the states of a stream on its way to a link: which may follow which, and that one
 * thread at a time claims a stream.
 */
#include "base/real.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/conf.h"
#include "check.h"
#include "engine/asker.h"
#include "engine/engine.h"

#define STATES (SR_ASK_OVER + 1)
#define THREADS 4

static struct sr_stream *st;
static unsigned reached;

static bool moves(int from, int to)
{
	st->up.state = from;
	return sr_ask_move(st, (enum sr_ask_state)to);
}

static void visit_from(int state)
{
	if (reached & 1u << state)
		return;
	reached |= 1u << state;
	for (int to = 0; to < STATES; to++)
		if (moves(state, to))
			visit_from(to);
}

/* A move that is refused changes nothing, and none leads to where the stream is. */
static void keeps_to_the_table(void)
{
	for (int from = 0; from < STATES; from++) {
		for (int to = 0; to < STATES; to++) {
			bool moved = moves(from, to);

			CHECK_EQ(st->up.state, moved ? to : from);
		}
		CHECK(!moves(from, from) && !moves(SR_ASK_OVER, from));
	}
}

/* All states can be reached, and the important ones in one way only. */
static void has_its_order(void)
{
	visit_from(SR_ASK_IDLE);
	CHECK_EQ(reached, (1u << STATES) - 1);
	for (int from = 0; from < STATES; from++) {
		CHECK_EQ(moves(from, SR_ASK_CLAIMED),
			 from == SR_ASK_IDLE || from == SR_ASK_PAUSED);
		st->up.state = from;
		CHECK_EQ(sr_ask_is_due(st), from == SR_ASK_IDLE || from == SR_ASK_PAUSED);
		CHECK(from == SR_ASK_CLAIMED || !moves(from, SR_ASK_IDLE));
		CHECK_EQ(moves(from, SR_ASK_WANTED), from == SR_ASK_CLAIMED);
		CHECK_EQ(moves(from, SR_ASK_LINKED), from == SR_ASK_SHAKING);
	}
}

static void *claim(void *arg)
{
	(void)arg;
	return sr_ask_move(st, SR_ASK_CLAIMED) ? st : NULL;
}

static void is_claimed_once(void)
{
	pthread_t t[THREADS];
	unsigned claims = 0;
	void *got;

	st->up.state = SR_ASK_IDLE;
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, claim, NULL));
	for (int i = 0; i < THREADS; i++) {
		CHECK(!pthread_join(t[i], &got));
		claims += got == st;
	}
	CHECK_EQ(claims, 1);
	CHECK_EQ(st->up.state, SR_ASK_CLAIMED);
}

int main(void)
{
	int fd;

	sr_conf_load();
	fd = socket(AF_INET, SOCK_STREAM, 0);
	st = sr_stream_open(fd);
	CHECK(st);
	keeps_to_the_table();
	has_its_order();
	is_claimed_once();
	return 0;
}
