/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ring.c - generations of rings.  Pure; see ring.h.
 */
#include "pure/ring.h"

#define STEP 2 /* log2 of the factor between two sizes */

/* ---- generations ---- */

static uint64_t start_of(const struct sr_gen *gen)
{
	return sr_load(&gen->start);
}

static uint32_t ring_of(const struct sr_gen *gen)
{
	return sr_load(&gen->ring);
}

void sr_gens_init(struct sr_gens *g, const struct sr_ring *rings)
{
	g->rings = rings;
	sr_store(&g->n, 0);
	sr_gens_add(g, 0, 0);
}

void sr_gens_add(struct sr_gens *g, uint64_t start, uint32_t ring)
{
	uint32_t n = sr_load(&g->n);
	struct sr_gen *gen = &g->gen[n % SR_GENS];

	sr_store(&gen->start, start);
	sr_store(&gen->ring, ring);
	sr_publish(&g->n, n + 1); /* pairs with gen_at() and sr_gens_last() */
}

/* The generation of byte k; *end: where it ends, if that is below. */
static const struct sr_gen *gen_at(const struct sr_gens *g, uint64_t k,
				   uint64_t *end)
{
	uint32_t n = sr_observe(&g->n), i; /* pairs with sr_gens_add() */
	const struct sr_gen *gen = NULL;

	for (i = 1; i <= SR_GENS && i <= n; i++) {
		gen = &g->gen[(n - i) % SR_GENS];
		if (start_of(gen) <= k)
			break;
		if (start_of(gen) < *end)
			*end = start_of(gen);
	}
	return gen;
}

size_t sr_gens_span(const struct sr_gens *g, uint64_t from, uint64_t to,
		    struct iovec v[2])
{
	const struct sr_gen *gen;
	const struct sr_ring *ring;

	v[0] = v[1] = (struct iovec){0};
	if (from >= to)
		return 0;
	gen = gen_at(g, from, &to);
	ring = &g->rings[ring_of(gen)];
	if (to - from > ring->size) /* from a peer that lies */
		to = from + ring->size;
	return sr_ring_span(ring, from, to - from, v);
}

static bool gen_fits(const struct sr_gens *g, const struct sr_gen *gen,
		     uint64_t taken, uint64_t end)
{
	uint64_t low = taken > start_of(gen) ? taken : start_of(gen);

	return end <= low || end - low <= g->rings[ring_of(gen)].size;
}

bool sr_gens_may_add(const struct sr_gens *g, uint64_t start, uint32_t ring,
		     uint64_t come, uint64_t taken)
{
	const struct sr_gen *last = sr_gens_last(g);

	if (start < come || start < start_of(last) || start > INT64_MAX)
		return false;
	if (g->rings[ring].size <= g->rings[ring_of(last)].size &&
	    start != taken)
		return false;
	return gen_fits(g, last, taken, start);
}

bool sr_gens_fit(const struct sr_gens *g, uint64_t taken, uint64_t w)
{
	uint64_t end = UINT64_MAX;

	return w <= INT64_MAX && (!w || gen_fits(g, gen_at(g, w - 1, &end), taken, w));
}

/* ---- size ---- */

size_t sr_ring_step(size_t size, size_t max)
{
	return size >= max >> STEP ? max : size << STEP;
}
