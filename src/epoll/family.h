/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* family.h - sets that a process has inherited, or has left to its children. */
#ifndef SR_EPOLL_FAMILY_H
#define SR_EPOLL_FAMILY_H

#include "epoll/impl.h"

enum sr_epoll_inherited {
	SR_EPOLL_MADE,		/* this process has made the set */
	/* The parent process has made the set, and only this process still has it.  For a moment
	 * the kernel's set may still have tokens of the parent's. */
	SR_EPOLL_LEFT,
	/* The parent process has made the set, and other processes may have it.  Then `foreign' is
	 * set, and `linked' is one more than there are linked entries, so that waits take the slow
	 * path. */
	SR_EPOLL_SHARED,
};

static inline bool sr_epoll_is_shared(struct sr_epoll *set)
{
	return sr_load(&set->inherited) == SR_EPOLL_SHARED;
}

/* ---- set.c ---- */
/* All sets there are, by next_set. */
struct sr_epoll *sr_epoll_first(void);
/* The set is no longer ours alone: it is foreign, and its streams go back to TCP.  must: at
 * once, and also if it is foreign already. */
void sr_epoll_lose(struct sr_epoll *set, bool must);

/* ---- family.c ---- */
/* use: called before each use of an inherited set, which becomes this process's own if no other
 * has it.  return: a wait in such a set has received a token, which was perhaps for another
 * process. */
void sr_epoll_use_inherited(struct sr_epoll *set);
void sr_epoll_return_wakeup(void);

/* Do other processes have the set, and does it become this one's own when they have gone?  Takes
 * set->lock. */
bool sr_epoll_is_lent(struct sr_epoll *set);
/* Makes a set that others had this process's own; set->lock held. */
void sr_epoll_make_own(struct sr_epoll *set);
/* This process is about to count itself out.  If another one goes on with the set, the entries of
 * plain streams are released: the kernel's set holds for them what the program has put there. */
void sr_epoll_hand_down(struct sr_epoll *set);
/* make: makes the eventfd of the family, once.  watch: also lets this process's service thread
 * watch it.  False: impossible. */
bool sr_epoll_family_make(void);
bool sr_epoll_family_watch(void);
void sr_epoll_family_forget(void);	/* in the child of fork */

#endif
