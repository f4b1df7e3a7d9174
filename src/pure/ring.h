/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ring.h - where the bytes of a direction are while they are on a link.  Both kinds of
 * link use it; when a ring grows, how it gets its memory, and what the ends say to each
 * other about it, is the kind's.
 *
 * Byte k of a direction is at ring[k & (size - 1)].  A direction changes to
 * another ring at an offset: bytes from `start` on are in the new one, bytes
 * below stay where they are until they are taken.  That is a generation.  So
 * nobody has to wait for a ring to be empty before a larger one can be used.
 *
 * Two threads may use one struct sr_gens without a lock: one adds generations,
 * the other one looks up bytes that it knows of.  Those are in fewer than
 * SR_GENS generations, so none is overwritten that it needs.  If a peer lies
 * about that, the wrong bytes are found, but within the rings.
 *
 * Pure: no I/O, no locks, no globals.
 */
#ifndef SR_RING_H
#define SR_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/order.h"

struct sr_ring {
	uint8_t *mem;
	size_t size; /* bytes, a power of two */
};

/* Finds bytes [k, k + n), n <= size, and returns n. */
static inline size_t sr_ring_span(const struct sr_ring *ring, uint64_t k,
				  size_t n, struct iovec v[2])
{
	size_t at = k & (ring->size - 1);
	size_t first = n < ring->size - at ? n : ring->size - at;

	v[0] = (struct iovec){ring->mem + at, first};
	v[1] = (struct iovec){ring->mem, n - first};
	return n;
}

/* ---- generations ---- */

#define SR_GENS 16

struct sr_gen {
	_Atomic uint64_t start;
	_Atomic uint32_t ring; /* its number */
};

struct sr_gens {
	const struct sr_ring *rings; /* by number */
	_Atomic uint32_t n; /* generations so far; the last one is current */
	struct sr_gen gen[SR_GENS]; /* by number, modulo SR_GENS */
};

/* Generation 0: everything is in ring 0. */
void sr_gens_init(struct sr_gens *g, const struct sr_ring *rings);
void sr_gens_add(struct sr_gens *g, uint64_t start, uint32_t ring);

static inline const struct sr_gen *sr_gens_last(const struct sr_gens *g)
{
	uint32_t n = sr_observe(&g->n); /* pairs with sr_gens_add() */

	return &g->gen[(n - 1) % SR_GENS];
}

/* The ring that new bytes go to. */
static inline const struct sr_ring *sr_gens_ring(const struct sr_gens *g)
{
	return &g->rings[sr_load(&sr_gens_last(g)->ring)];
}

/* Finds bytes [from, to), in at most two pieces.  Returns their number, which
 * may be less than all: call again from there. */
size_t sr_gens_span(const struct sr_gens *g, uint64_t from, uint64_t to,
		    struct iovec v[2]);

/*
 * The sender says that bytes from `start` on are in ring number `ring`; the
 * receiver knows of bytes up to `come`, and its program has taken those below
 * `taken`.  Can that be true?  A ring that is not larger than the one before
 * may be chosen only when all bytes are taken: so all rings in use differ.
 */
bool sr_gens_may_add(const struct sr_gens *g, uint64_t start, uint32_t ring,
		     uint64_t come, uint64_t taken);

/* The sender says that there are bytes up to w.  Can there be so many, after
 * `taken`?  (A ring's worth at most in each generation.) */
bool sr_gens_fit(const struct sr_gens *g, uint64_t taken, uint64_t w);

/* ---- size ---- */

/* The next larger size after `size`. */
size_t sr_ring_step(size_t size, size_t max);

static inline bool sr_ring_full(size_t size, uint64_t used, unsigned part)
{
	return used > size - size / part;
}

#endif
