/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sim_world.h - what switch_sim.c plays with: ends, directions, links and a
 * TCP that is a queue of bytes.
 */
#ifndef SR_SIM_WORLD_H
#define SR_SIM_WORLD_H

#include <stdbool.h>
#include <string.h>

#include "pure/switch_rx.h"
#include "pure/wire.h"
#include "check.h"

#define MAX_BYTES 120 /* a program's, each direction */
#define MAX_LINKS 5
#define TCP_BYTES 8192 /* raw, marks, records and resends of one case */
#define MAX_READ 256
#define QUEUE 256
#define MAX_STEPS 200000

enum message { SWITCH, DATA, END, ACKSW, ACK, ACKEND };

struct item {
	enum message kind;
	uint64_t n, len;
	struct sr_switch sw;
};

struct queue {
	unsigned head, tail;
	struct item item[QUEUE];
};

/* Arrays of two: by direction, or by end.  End 0 sends direction 0. */
struct link {
	bool dead;    /* what is sent now is lost */
	bool gone[2]; /* this end has nothing more to do with it */
	bool proven;
	struct queue fwd[2], bwd[2];
};

struct direction {
	unsigned id;
	/* sender */
	struct sr_tx tx;
	uint8_t data[MAX_BYTES];
	unsigned total;
	unsigned used;	      /* links up to here have been tried */
	unsigned record_left; /* of RESUME */
	/* TCP */
	uint8_t tcp[TCP_BYTES];
	size_t head, tail;
	bool fin, rst;
	/* receiver */
	struct sr_rx rx;
	uint64_t delivered, h, acked;
	bool stranger; /* the link expected is an impostor's */
	bool over_read;
	size_t asleep;	       /* length of the read that sleeps, or 0 */
	bool for_record;       /* it was asked for (the rest of) a record */
	uint8_t got[MAX_READ]; /* what it returned */
	size_t got_len;
	uint8_t ring[MAX_BYTES];
};

static struct {
	uint64_t random;
	unsigned directions, links, credit, room, piece, step;
	bool faults, back, kill, strangers, big_reads, slow_reads;
	bool open; /* programs do not end: no FIN helps */
	bool killed[2];
	bool raw_when_killed[2];
	struct link link[MAX_LINKS];
	struct direction d[2];
} sim;

/* How often the rare things happened: a simulation that never meets them
 * proves nothing. */
static struct {
	uint64_t links, resumes, duplicates, mismatches, later, mixed;
	uint64_t link_ends, resets, displaced;
} seen;

/* Choices that are made before chance makes any: those of tests/fuzz/sim.c. */
static struct {
	const uint8_t *at;
	size_t left;
} choices;

static unsigned below(unsigned n)
{
	if (!choices.left)
		return (unsigned)(check_random(&sim.random) % n);
	choices.left--;
	return (n > 256 ? *choices.at++ * 257u : *choices.at++) % n;
}

static bool one_in(unsigned n)
{
	return !below(n);
}

static unsigned sender(const struct direction *d)
{
	return d->id;
}

static unsigned receiver(const struct direction *d)
{
	return 1 - d->id;
}

static void token_of(uint8_t token[SR_TOKEN_LEN], unsigned link, unsigned id)
{
	memset(token, (int)(0x40 + 2 * link + id), SR_TOKEN_LEN);
}

static struct link *link_at(unsigned no)
{
	return &sim.link[no - 1];
}

static void push(struct link *link, struct queue *q, struct item item)
{
	if (link->dead)
		return;
	CHECK(q->tail - q->head < QUEUE);
	q->item[q->tail++ % QUEUE] = item;
}

static void drop(unsigned end, unsigned no)
{
	link_at(no)->gone[end] = true;
	link_at(no)->dead = true;
}

#endif
