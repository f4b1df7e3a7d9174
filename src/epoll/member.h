/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* member.h - what an entry has in the kernel's set. */
#ifndef SR_EPOLL_MEMBER_H
#define SR_EPOLL_MEMBER_H

#include "epoll/impl.h"

/* The kernel's epoll_ctl for the entry, as it is now.  sets.lock held, as for the next three. */
int sr_epoll_kernels(struct sr_epoll_entry *e, int op);
/* What its anchor is asked for at a switch. */
uint32_t sr_epoll_anchor_events(struct sr_epoll_entry *e);
/* Of the anchor, at least what the entry is to report.  More does no harm, but in a nested
 * set, which would be readable for it: there it is what the kernel has a say in (asks). */
int sr_epoll_ask_anchor(struct sr_epoll_entry *e, bool anchor, short asks);
void sr_epoll_doors_drop(struct sr_epoll_entry *e);
/* The data of a plain one-shot entry. */
uint64_t sr_epoll_oneshot(unsigned state, const struct sr_epoll_entry *e);
/* A linked entry is armed on the links of its stream (NULL: not on that one), for room
 * only if there is none (full), and on its anchor if the kernel has a say (anchor), for
 * these events (asks).  False: it is not linked any more. */
bool sr_epoll_arm(struct sr_epoll_entry *e, struct sr_link *rx,
		  struct sr_link *tx, bool full, bool anchor, short asks);
/* An entry of a nested set that is to report nothing, because it is deleted or has fired
 * once: nothing of it in the kernel's set makes that readable. */
void sr_epoll_silence(struct sr_epoll_entry *e);

#endif
