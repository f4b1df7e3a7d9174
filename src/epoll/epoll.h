/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll.h - epoll(7) sets that may hold streams: what src/shim calls.  The
 * argument is in impl.h.
 *
 * A set is an open epoll instance; each descriptor of the program that refers
 * to it has an entry in the table.  Streams in a foreign set are plain.  A set is
 * foreign if it is not in the table (it was received from another process, or
 * inherited over exec), was inherited over fork while others have it, or is handed to another
 * process.  A set that is polled, or put into another set, is nested (nest.c).
 */
#ifndef SR_EPOLL_H
#define SR_EPOLL_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "base/fdmap.h"
#include "base/order.h"

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
/* Sets have no reference count: the next moment the memory may be that of another set, but never
 * anything else than a set's. */
static inline struct sr_epoll *sr_epoll_peek(int fd)
{
	sr_fdmap_entry *e = sr_fdmap_find(&sr_epoll_map, fd);

	return e ? sr_observe(e) : NULL; /* pairs with sr_fdmap_set() */
}

/* Is there an entry?  A hint. */
static inline bool sr_epoll_has(int fd)
{
	return sr_epoll_peek(fd);
}

/* The greatest descriptor ever entered, or -1. */
static inline int sr_epoll_max(void)
{
	return sr_load(&sr_epoll_map.top) - 1;
}

/* ---- calls ---- */

/* epoll_ctl(2) for the stream of fd.  0 or -errno. */
int sr_epoll_ctl_stream(struct sr_stream *st, int epfd, int op, int fd,
			struct epoll_event *ev);
/* A descriptor that is no stream is added to the set. */
void sr_epoll_other(int epfd);

/* epoll_pwait(2) for a set of the table. */
int sr_epoll_wait_ms(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     int ms, const sigset_t *mask);

/* If epfd is a set it is nested from now on: readable for the kernel as long as it has
 * something to report.  (If that cannot be, it is foreign.)  outer: the set into which it comes,
 * or -1: it is polled. */
void sr_epoll_nest(int epfd, int outer);
/* Has any set of the process ever been nested?  (A thread that sees it late does not spin.) */
extern atomic_bool sr_epolls_nested;
static inline bool sr_epoll_any_nested(void)
{
	return __builtin_expect(sr_load(&sr_epolls_nested), 0);
}

/* The first of these descriptors that is a nested set with links, or has such sets in it; NULL:
 * none. */
struct sr_epoll *sr_epoll_find_linked(const struct pollfd *fds, nfds_t n);
/* ppoll(2) without a mask, on that set and other descriptors, none of them a stream of ours.  A
 * cancellation point. */
int sr_epoll_poll(struct sr_epoll *set, struct pollfd *fds, nfds_t n,
		  const struct timespec *timeout);
/* Called after a call has taken bytes from the stream, or room, without locks.  Afterwards a
 * nested set is readable for the stream only if the stream is still ready. */
void sr_epoll_settle(struct sr_stream *st);
/* The same for all entries that were listed, no lock held.  Costs a load if there are none. */
void sr_epolls_tidy_all(void);
extern atomic_bool sr_epolls_untidy;
static inline void sr_epolls_tidy(void)
{
	if (__builtin_expect(sr_load(&sr_epolls_untidy), 0))
		sr_epolls_tidy_all();
}

/* If epfd is a set it is foreign from now on.  A stream whose peer does not answer in time
 * becomes plain later.  must: the set is about to be handed to another process, so this waits
 * until all its streams are plain, and leaves no token in the kernel's set. */
void sr_epoll_give_up(int epfd, bool must);

/* The engine tells the sets of their streams from now on (engine/observers.h). */
void sr_epolls_observe(void);

/* ---- fork, and the end of a descriptor ---- */

/* A descriptor of the stream, or its last one, is about to be closed. */
void sr_epoll_number_gone(struct sr_stream *st, int fd);
void sr_epoll_stream_gone(struct sr_stream *st);
void sr_epolls_await_locks(void);	/* the locks of the first rank (lock.h) */
void sr_epolls_before_fork(void);	/* streams' locks are free */
void sr_epolls_forget(void);		/* child of fork */
/* leave: counts this process out of its sets, because it ends (ends), or because it is about to
 * execute another program.  In the second case sets with entries stay counted, and those that stay
 * open in the new program.  return: the exec has failed, so the process is counted again. */
void sr_epolls_leave(bool ends);
void sr_epolls_return(void);
bool sr_epolls_keep(int fd);		/* does the child of a fork go on using this descriptor? */

#endif
