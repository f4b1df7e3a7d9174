/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pool.h - the memory of the entries of epoll sets, and tokens, which are addresses in it. */
#ifndef SR_EPOLL_POOL_H
#define SR_EPOLL_POOL_H

#include "epoll/impl.h"

/* Tokens: an entry's address with one of these. */
enum {
	SR_EPOLL_ANCHOR = 0,
	SR_EPOLL_DOORBELL = 1,
	SR_EPOLL_ONESHOT = 2,	/* and the low bits of the count above it */
	SR_EPOLL_COMMON = 3,	/* a doorbell that other entries rely on, too */
	SR_EPOLL_KIND = 3,
};

#define SR_EPOLL_POOL (64u << 20)	/* bytes of address space */
/* Where the entries are; 0: there are none yet.  No entry is at the address itself, which is the
 * waker's token. */
extern _Atomic uintptr_t sr_epoll_pool;

static inline bool sr_epoll_is_token(uint64_t data)
{
	uint64_t pool = sr_load(&sr_epoll_pool);

	return data - pool < SR_EPOLL_POOL && pool;
}

/* Is the token that of an entry, this process's or inherited? */
bool sr_epoll_known(uint64_t token);

static inline struct sr_epoll_entry *sr_epoll_of_token(uint64_t data)
{
	return (struct sr_epoll_entry *)(uintptr_t)(data & ~(uint64_t)255);
}

/* In the list of the set, which is epfd's.  NULL: no memory, or no such set any more. */
struct sr_epoll_entry *sr_epoll_entry_new(struct sr_epoll *set, int epfd,
					  struct sr_stream *st);
/* DEAD, and on none of the set's lists; look_lock held. */
void sr_epoll_entry_free(struct sr_epoll_entry *e);
void sr_epoll_pool_before_fork(void);
void sr_epoll_pool_forget(void);	/* in the child: all are the parent's */

#endif
