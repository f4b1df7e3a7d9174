/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * space.c - owns the memory of polls that ask for more than a few descriptors.  The memory
 * does not come from malloc(3), because poll(2) is async-signal-safe, and a handler that calls
 * it may have interrupted malloc().  Pieces of PIECE bytes are kept for the next poll.  Lock: a
 * leaf.
 */
#include "base/real.h"

#include <string.h>

#include "base/pages.h"
#include "base/pool.h"
#include "wait/waitset.h"

#define PIECE 16384	/* enough for some hundred descriptors */

struct piece {
	struct sr_pooled pooled;	/* first */
	size_t size;
};

static struct sr_pool pool = SR_POOL;

void *sr_waitset_space_get(size_t size)
{
	struct piece *p;

	size += sizeof(*p);
	p = size <= PIECE ? (struct piece *)sr_pool_take(&pool) : NULL;
	if (p)
		return memset(p + 1, 0, size - sizeof(*p));
	size = size < PIECE ? PIECE : size;
	p = sr_pages_get(size);
	if (!p)
		return NULL;
	p->size = size;
	return p + 1;
}

void sr_waitset_space_put(void *memory)
{
	struct piece *p = (struct piece *)memory - 1;

	if (p->size > PIECE) {
		sr_pages_put(p, p->size);
		return;
	}
	sr_pool_keep(&pool, &p->pooled);
}

void sr_waitset_space_forget(void)
{
	sr_pool_forget(&pool);
}
