/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pool.h - free lists: pieces of memory that are kept for the next use.  Each piece begins
 * with a struct sr_pooled while it is in the pool.  Lock: a leaf.
 */
#ifndef SR_POOL_H
#define SR_POOL_H

#include <stddef.h>

#include "base/lock.h"

struct sr_pooled {
	struct sr_pooled *next;
};

struct sr_pool {
	struct sr_mutex lock;
	struct sr_pooled *first;
};
#define SR_POOL { SR_MUTEX(SR_RANK_LEAF), NULL }

/* NULL: none is left. */
static inline struct sr_pooled *sr_pool_take(struct sr_pool *pool)
{
	struct sr_pooled *p;

	sr_lock(&pool->lock);
	p = pool->first;
	if (p)
		pool->first = p->next;
	sr_unlock(&pool->lock);
	return p;
}

static inline void sr_pool_keep(struct sr_pool *pool, struct sr_pooled *p)
{
	sr_lock(&pool->lock);
	p->next = pool->first;
	pool->first = p;
	sr_unlock(&pool->lock);
}

/* In the child of fork: the pieces are abandoned, because to use one would write a page, which
 * would have to be copied first. */
static inline void sr_pool_forget(struct sr_pool *pool)
{
	sr_mutex_init(&pool->lock, SR_RANK_LEAF);
	pool->first = NULL;
}

#endif
