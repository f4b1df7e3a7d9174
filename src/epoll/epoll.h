/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll.h - epoll(7) sets that may hold streams: what src/shim calls.  The
 * argument is in epoll_impl.h.
 *
 * A set is an open epoll instance; each descriptor of the program that refers
 * to it has an entry in the table.  In a foreign set streams are plain: one that is
 * not in the table (received from another process, inherited over exec), that was
 * inherited over fork, handed to another process, polled, or put into another set.
 */
#ifndef SR_EPOLL_H
#define SR_EPOLL_H

#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/fdmap.h"

struct sr_epoll;
struct sr_stream;

/* ---- the table ---- */

/* fd has just been made by epoll_create(2). */
void sr_epoll_opened(int fd);
/* got is a fresh duplicate of fd. */
void sr_epoll_duplicated(int fd, int got);
/* fd is about to be closed or replaced, or is found to be no set any more. */
void sr_epoll_gone(int fd);
extern struct sr_fdmap sr_epoll_map;
/* Without a reference: it may be another set the next moment, but stays a set's
 * memory. */
static inline struct sr_epoll *sr_epoll_peek(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_epoll_map, fd);

	return e ? atomic_load_explicit(e, memory_order_acquire) : NULL;
}

/* Is there an entry?  A hint. */
static inline bool sr_epoll_has(int fd)
{
	return sr_epoll_peek(fd);
}

/* The greatest descriptor ever entered, or -1. */
static inline int sr_epoll_max(void)
{
	return atomic_load_explicit(&sr_epoll_map.top, memory_order_relaxed) - 1;
}

/* With a reference for the caller, or NULL. */
struct sr_epoll *sr_epoll_get(int fd);
void sr_epoll_put(struct sr_epoll *set);

/* ---- calls ---- */

/* epoll_ctl(2) for the stream of fd.  0 or -errno.  set NULL: not in the table. */
int sr_epoll_ctl_stream(struct sr_epoll *set, struct sr_stream *st, int epfd,
			int op, int fd, struct epoll_event *ev);
/* A descriptor that is no stream is added to the set. */
void sr_epoll_other(int epfd);

/* epoll_pwait(2) and epoll_pwait2(2) for a set of the table, without a reference. */
int sr_epoll_wait_ms(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     int ms, const sigset_t *mask);
int sr_epoll_wait_ts(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     const struct timespec *ts, const sigset_t *mask);

/* The set is foreign from now on, and its streams plain.  must: all of them when it
 * returns; else one whose peer does not answer in time may be so later. */
void sr_epoll_give_up(struct sr_epoll *set, bool must);
/* The same, for a set that is about to be handed on: nothing of ours is left in the
 * kernel's. */
void sr_epoll_pass(struct sr_epoll *set);

#endif
