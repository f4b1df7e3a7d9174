/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ring.h - where the bytes of a direction are while they are on a link.  Both kinds of
 * link use it.  Each kind decides when a ring grows, how the ring gets its memory, and what
 * the ends say to each other about that.
 *
 * Byte k of a direction is at ring[k & (size - 1)].  A direction changes to
 * another ring at an offset, `start`: bytes from `start` on are in the new ring,
 * bytes below it stay in the old one until they are taken.  The bytes from one
 * such offset to the next are a generation.  So a larger ring can be used before
 * the smaller one is empty.
 *
 * Two threads may use one struct sr_gens without a lock: one adds generations,
 * the other looks up bytes that it knows of.  These bytes are in fewer than
 * SR_GENS generations, so no entry that the second thread needs is overwritten.
 * If the peer lies about its generations, the second thread finds wrong bytes,
 * but never outside the rings.
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

/* Finds bytes [from, to), in at most two pieces.  Returns how many bytes the
 * pieces have; if these are not all, call again for the rest. */
size_t sr_gens_span(const struct sr_gens *g, uint64_t from, uint64_t to,
		    struct iovec v[2]);

/*
 * The sender says that bytes from `start` on are in ring number `ring`; the
 * receiver knows of bytes up to `come`, and its program has taken those below
 * `taken`.  Can that be true?  A ring that is not larger than the one before
 * may be chosen only when all bytes are taken.  So no two generations with
 * unread bytes have the same ring.
 */
bool sr_gens_may_add(const struct sr_gens *g, uint64_t start, uint32_t ring,
		     uint64_t come, uint64_t taken);

/* The sender says that there are bytes up to w.  Can that be true, if those below `taken`
 * are taken?  (No generation has more bytes than its ring.) */
bool sr_gens_fit(const struct sr_gens *g, uint64_t taken, uint64_t w);

/* ---- size ---- */

/* The next larger size after `size`. */
size_t sr_ring_step(size_t size, size_t max);

static inline bool sr_ring_full(size_t size, uint64_t used, unsigned part)
{
	return used > size - size / part;
}

#endif
