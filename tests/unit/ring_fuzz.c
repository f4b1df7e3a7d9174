/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ring_fuzz.c - rings and credit (src/pure): a sender and a receiver that keep
 * the rules, in any order, with memory and news that come late; and a sender
 * that keeps none.
 *
 * Usage: ring_fuzz [SEED [ROUNDS]]
 */
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "pure/credit.h"
#include "pure/ring.h"

#define RINGS 4

static const size_t sizes[RINGS] = {16, 64, 256, 512};
static uint64_t state;

static uint64_t below(uint64_t n)
{
	return check_random(&state) % n;
}

/* ---- both keep the rules ---- */

static uint8_t memory[16 + 64 + 256 + 512];
static struct sr_ring rings[RINGS];

static struct {
	struct sr_gens gens;
	uint64_t w, acked;
	bool asleep;
} tx;

static struct {
	struct sr_gens gens;
	uint64_t come, taken;
	struct sr_credit_rx credit;
} rx;

/* What the other end sees by now. */
static struct {
	uint64_t w, returned;
	uint32_t gens;
} shown;

static uint8_t pattern(uint64_t k)
{
	return (uint8_t)(k * 167 >> 3);
}

static void begin(void)
{
	uint8_t *at = memory;

	for (unsigned i = 0; i < RINGS; at += sizes[i++])
		rings[i] = (struct sr_ring){at, sizes[i]};
	memset(&tx, 0, sizeof(tx));
	memset(&rx, 0, sizeof(rx));
	memset(&shown, 0, sizeof(shown));
	sr_gens_init(&tx.gens, rings);
	sr_gens_init(&rx.gens, rings);
	shown.gens = 1;
}

static size_t room_with(uint64_t acked)
{
	size_t size = sr_gens_ring(&tx.gens)->size;
	uint64_t used = sr_credit_used(tx.w, acked, sr_gens_last(&tx.gens)->start);

	return sr_credit_room(size, used, size / SR_CREDIT_ROOM);
}

static void look_at_credit(void)
{
	int news = sr_credit_said(tx.acked, tx.w, shown.returned);

	CHECK(news == (shown.returned > tx.acked));
	tx.acked = shown.returned;
	if (news)
		tx.asleep = false; /* whichever thread has looked */
}

/* Memory for a larger ring is refused now and then. */
static void grow(void)
{
	uint32_t ring = sr_gens_last(&tx.gens)->ring;

	if (ring + 1 == RINGS || below(2))
		return;
	CHECK_EQ(sr_ring_step(sizes[ring], sizes[RINGS - 1]), sizes[ring + 1]);
	sr_gens_add(&tx.gens, tx.w, ring + 1);
	CHECK_EQ(room_with(tx.acked), sizes[ring + 1]);
}

/* Of at most `room` bytes. */
static void fill(size_t room)
{
	struct iovec v[2];
	size_t n = 1 + below(room);

	CHECK_EQ(sr_ring_span(sr_gens_ring(&tx.gens), tx.w, n, v), n);
	for (int i = 0; i < 2; i++)
		for (size_t j = 0; j < v[i].iov_len; j++)
			((uint8_t *)v[i].iov_base)[j] = pattern(tx.w++);
}

static void send(void)
{
	size_t room;

	look_at_credit();
	room = room_with(tx.acked);
	if (!room)
		grow();
	room = room_with(tx.acked);
	tx.asleep = !room;
	if (room)
		fill(room);
}

/* Another thread, which may not wait, while one is asleep. */
static void send_rest(void)
{
	size_t size = sr_gens_ring(&tx.gens)->size;
	uint64_t used = sr_credit_used(tx.w, tx.acked, sr_gens_last(&tx.gens)->start);

	if (used < size)
		fill(size - used);
}

/* All is taken: back to the first ring. */
static void sweep(void)
{
	look_at_credit();
	if (tx.acked != tx.w)
		return;
	memset(memory, 0xee, sizeof(memory));
	if (sr_gens_last(&tx.gens)->ring)
		sr_gens_add(&tx.gens, tx.w, 0);
}

/* What a switch back would send again. */
static void retained(void)
{
	struct iovec v[2];
	uint64_t k = tx.acked;
	size_t n;

	while ((n = sr_gens_span(&tx.gens, k, tx.w, v)) != 0)
		for (int i = 0; i < 2; i++)
			for (size_t j = 0; j < v[i].iov_len; j++)
				CHECK(((uint8_t *)v[i].iov_base)[j] ==
				      pattern(k++));
	CHECK_EQ(k, tx.w);
}

/* A receiver that sees w sees the generations of the bytes below it. */
static void look(void)
{
	uint64_t w = shown.w;

	for (uint32_t n = rx.gens.n; n != shown.gens; n++) {
		struct sr_gen *g = &tx.gens.gen[n % SR_GENS];

		CHECK(sr_gens_may_add(&rx.gens, g->start, g->ring, rx.come,
				      rx.taken));
		sr_gens_add(&rx.gens, g->start, g->ring);
	}
	CHECK(sr_gens_fit(&rx.gens, rx.taken, w));
	rx.come = w;
}

static void publish(void)
{
	shown.w = tx.w;
	shown.gens = tx.gens.n;
}

static void wake(void)
{
	const struct sr_gen *g = sr_gens_last(&rx.gens);

	shown.returned = rx.credit.returned; /* the fence */
	if (rx.come <= rx.taken ||
	    !sr_ring_full(sizes[g->ring],
			  sr_credit_used(rx.come, rx.taken, g->start),
			  SR_CREDIT_ROOM))
		tx.asleep = false;
}

static void take(void)
{
	struct iovec v[2];
	size_t n = sr_gens_span(&rx.gens, rx.taken, rx.come, v);
	bool check = false, returned;

	CHECK((n != 0) == (rx.come != rx.taken));
	if (!n)
		return;
	if (below(2))
		n = 1 + below(n);
	for (size_t j = 0; j < n; j++, rx.taken++)
		CHECK((j < v[0].iov_len ? ((uint8_t *)v[0].iov_base)[j] :
					  ((uint8_t *)v[1].iov_base)
						  [j - v[0].iov_len]) ==
		      pattern(rx.taken));
	returned = sr_credit_take(&rx.credit, sr_gens_ring(&rx.gens)->size,
				  rx.taken, rx.come, &check);
	if (check)
		wake();
	/* No sleeper is overlooked, whatever part of this it has seen. */
	if (returned && tx.asleep && rx.come == tx.w)
		CHECK(rx.taken != rx.come && !room_with(rx.credit.returned));
}

static void honest(void)
{
	begin();
	for (unsigned i = 0; i < 200; i++) {
		switch (below(8)) {
		case 0:
			if (!below(4))
				sweep();
			break;
		case 1:
			shown.returned = rx.credit.returned;
			break;
		case 2:
			retained();
			break;
		case 3:
			publish();
			look();
			break;
		case 4:
		case 5:
			take();
			break;
		default:
			if (!tx.asleep)
				send();
			else if (!below(4))
				send_rest();
			if (below(4))
				publish();
		}
	}
	publish();
	look();
	while (rx.taken != rx.come)
		take();
	CHECK(!tx.asleep && rx.credit.returned == tx.w);
}

/* ---- a sender that lies ---- */

static uint64_t number(uint64_t near)
{
	switch (below(4)) {
	case 0:
		return near + below(700);
	case 1:
		return near - below(20);
	case 2:
		return near;
	default:
		return below(2) ? UINT64_MAX - below(9) : check_random(&state);
	}
}

static void lie(void)
{
	struct iovec v[2];
	size_t n;

	begin();
	rx.taken = rx.come = check_random(&state) >> (1 + below(63));
	for (unsigned i = 0; i < 60; i++) {
		uint64_t k = number(rx.come);

		if (below(2)) {
			uint32_t ring = (uint32_t)below(RINGS);

			if (sr_gens_may_add(&rx.gens, k, ring, rx.come, rx.taken))
				sr_gens_add(&rx.gens, k, ring);
		} else if (k >= rx.come && sr_gens_fit(&rx.gens, rx.taken, k)) {
			rx.come = k;
		}
		CHECK(rx.come - rx.taken <= sizeof(memory));
		k = number(rx.taken);
		n = sr_gens_span(&rx.gens, k, number(k), v);
		CHECK_EQ(n, v[0].iov_len + v[1].iov_len);
		for (int j = 0; j < 2; j++)
			if (v[j].iov_len)
				CHECK((uint8_t *)v[j].iov_base >= memory &&
				      (uint8_t *)v[j].iov_base + v[j].iov_len <=
					      memory + sizeof(memory));
		if (below(2))
			rx.taken += below(rx.come - rx.taken + 1);
	}
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : 20000;

	for (uint64_t i = 0; i < rounds; i++) {
		check_about("seed", seed + i);
		state = seed + i;
		honest();
		lie();
	}
	return 0;
}
