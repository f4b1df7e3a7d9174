/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll.h - epoll(7) sets that may hold streams: what src/shim calls.  The
 * argument is in epoll_impl.h.
 *
 * A set is an open epoll instance; each descriptor of the program that refers
 * to it has an entry in the table.  A set that is not in it (received from
 * another process, inherited over exec) is foreign: streams in it are plain.
 */
#ifndef SR_EPOLL_H
#define SR_EPOLL_H

#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <time.h>

struct sr_epoll;
struct sr_stream;

/* ---- the table ---- */

/* fd has just been made by epoll_create(2). */
void sr_epoll_opened(int fd);
/* got is a fresh duplicate of fd. */
void sr_epoll_duplicated(int fd, int got);
/* fd is about to be closed or replaced. */
void sr_epoll_closing(int fd);
/* fd is found to be no set any more. */
void sr_epoll_gone(int fd);
/* Is there an entry?  A hint. */
bool sr_epoll_has(int fd);
int sr_epoll_max(void);		/* the greatest descriptor ever entered, or -1 */
/* Without a reference: it may be another set the next moment, but stays a set's
 * memory. */
struct sr_epoll *sr_epoll_peek(int fd);
/* With a reference for the caller, or NULL. */
struct sr_epoll *sr_epoll_get(int fd);
void sr_epoll_put(struct sr_epoll *set);

/* ---- calls ---- */

/* epoll_ctl(2) for the stream of fd.  0 or -errno.  set NULL: foreign. */
int sr_epoll_ctl_stream(struct sr_epoll *set, struct sr_stream *st, int epfd,
			int op, int fd, struct epoll_event *ev);

/* How long the program wants to wait, in the form of its call. */
struct sr_epoll_time {
	int ms;			/* -1: for ever; not used with ts */
	const struct timespec *ts;
	bool fine;		/* epoll_pwait2: ts, NULL for ever */
	const sigset_t *mask;
};

/* What epoll_wait(2) and its relatives return for a set of the table, or -errno. */
int sr_epoll_wait_for(int epfd, struct epoll_event *ev, int max,
		      const struct sr_epoll_time *t);

/* The program waits for the set itself, in poll(2) or in another set. */
void sr_epoll_watched(struct sr_epoll *set, bool nested);

/* ---- other processes ---- */

/* Another process uses it, and has us: its streams go back to TCP. */
void sr_epoll_share(struct sr_epoll *set);
/* It is about to be handed to anybody: its streams are plain, and nothing of ours is in
 * the kernel's set. */
void sr_epoll_pass(struct sr_epoll *set);

#endif
