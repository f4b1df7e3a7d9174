/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* member.h - what an entry has in the kernel's set. */
#ifndef SR_EPOLL_MEMBER_H
#define SR_EPOLL_MEMBER_H

#include "epoll/impl.h"

/* The kernel's epoll_ctl for the entry, as it is now.  sets.lock held, as for the next three. */
int sr_epoll_kernels(struct sr_epoll_entry *e, int op);
/* What its anchor is asked for at a switch. */
uint32_t sr_epoll_anchor_events(struct sr_epoll_entry *e);
/* Asks the kernel for at least those events of the anchor that the entry is to report (anchor: some
 * of them come from the kernel).  Asking for more does no harm, except in a nested set, which other
 * events would make readable.  There the kernel is asked only for those that it decides (asks). */
int sr_epoll_ask_anchor(struct sr_epoll_entry *e, bool anchor, short asks);
void sr_epoll_doors_drop(struct sr_epoll_entry *e);
/* A shared doorbell has rung, and the kernel's event has the entry's token: lists the entries that
 * it is for.  The entry is not DEAD; look_lock held, sets.lock not. */
void sr_epoll_answer_door(struct sr_epoll_entry *e);
/* The data of a plain one-shot entry. */
uint64_t sr_epoll_oneshot(unsigned state, const struct sr_epoll_entry *e);
/* Arms a linked entry on the links rx and tx of its stream (NULL: not on that one); for room only
 * if there is none (full).  Also asks for the anchor's events, as sr_epoll_ask_anchor() does.
 * Returns false if the entry is not linked any more. */
bool sr_epoll_arm(struct sr_epoll_entry *e, struct sr_link *rx,
		  struct sr_link *tx, bool full, bool anchor, short asks);
/* For an entry of a nested set that is to report nothing, because it is deleted or has fired
 * once.  Takes the entry's descriptors out of the kernel's set, so that they do not make it
 * readable. */
void sr_epoll_silence(struct sr_epoll_entry *e);

#endif
