/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shim.h - what the adapters (io.c, conn.c, opt.c ...) share.  An adapter looks
 * the descriptor up.  If there is no stream, it makes the C library's call; if
 * there is one, it calls a function of sock/sock.h.
 *
 * A thread that is cancelled while it sleeps in a call on a stream gives the call's reference
 * back (windows, base/signal.h).  A thread that is cancelled asynchronously (base/cancel.c)
 * outside these sleeps may not: then the stream's memory is never used again.  Code that
 * changes the table, or must not be left half done, runs between sr_hold() and sr_release().
 */
#ifndef SR_SHIM_H
#define SR_SHIM_H

#include "base/sys.h"

#include <errno.h>
#include <stdbool.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/process.h"
#include "sockrail.h"
#include "engine/fast.h"
#include "engine/fdtab.h"
#include "engine/stream.h"
#include "sock/sock.h"
#include "upgrade/upgrade.h"
#include "wait/sleep.h"
#include "epoll/epoll.h"

/* The only place where a value or -errno becomes the result and errno that the
 * program gets.  saved: errno as the program left it. */
static inline ssize_t sr_outcome(int saved, ssize_t r)
{
	errno = r < 0 ? (int)-r : saved;
	return r < 0 ? -1 : r;
}

/* Ends a call on a stream: gives the reference back, too. */
static inline ssize_t sr_result(struct sr_stream *st, int saved, ssize_t r)
{
	sr_stream_put(st);
	return sr_outcome(saved, r);
}

/* ---- the library's descriptors, which the program is told are not open ---- */

static inline bool sr_shim_hides(int fd)
{
	return sr_fd_is_private(fd) && !sr_inside && sr_process_ours();
}

static inline int sr_shim_not_open(void)
{
	errno = EBADF;
	return -1;
}

/* ---- init.c ---- */

/* Starts the library, which reads the knobs, once.  True: there may be streams. */
bool sr_shim_ready(void);

/* Does the library take over handlers of this signal?  Does not start the library: a handler
 * that is installed before is taken over when the library starts. */
bool sr_shim_takes_handlers(int sig);

/* ---- sys.c ----
 *
 * A library that was preloaded behind us may implement a function by syscall(2), which we
 * intercept: then the descriptor has already been entered when that function returns.  So a
 * call that makes descriptors calls sr_shim_makes() before it calls the next function, and
 * asks sr_shim_has_made() after it. */
extern __thread volatile int sr_made __attribute__((tls_model("initial-exec")));

static inline void sr_shim_makes(void)
{
	sr_made = -1;
}

static inline bool sr_shim_has_made(int fd)
{
	return sr_made == fd && (sr_fdtab_has(fd) || sr_epoll_has(fd));
}

/* ---- entry.c ----
 *
 * The child of vfork() has descriptors of its own, but the table is its parent's
 * (sr_process_ours() is false).  So nothing is written there, and calls that close
 * or make descriptors go to the kernel alone. */

/* fd has just been made: enters st, and takes over the caller's reference; NULL: fd is
 * no stream.  A stream that is still entered there is stale, because its descriptor was
 * closed without our seeing it; it is detached with fd -1. */
void sr_shim_enter(int fd, struct sr_stream *st);

/* fd has just been made and is neither stream nor set. */
void sr_shim_forget(int fd);

/* fd is no descriptor of st any more, because the program closed it without our seeing
 * it.  Drops the caller's reference of st. */
void sr_shim_stale(int fd, struct sr_stream *st);

/* fd is about to be closed or replaced: takes its stream out of the table. */
void sr_shim_release(int fd);

/* got is a fresh duplicate of fd, or -1: enters it.  The caller has called sr_hold() before the
 * C library's call.  It calls sr_release() next, and returns sr_shim_settle(), which makes the
 * stream plain if a link cannot serve the duplicate, and so may sleep. */
void sr_shim_duplicated(int fd, int got);
int sr_shim_settle(int fd, int got);

/*
 * Makes the stream of fd, if there is one, plain, and waits until it is.  Otherwise
 * I/O that bypasses the library would read our records as data.
 */
void sr_shim_make_plain(int fd, enum sr_reason reason);
/* This thread may be about to become another user. */
void sr_shim_user(void);

/* A new descriptor that is no stream, or -1.  Returns it. */
static inline int sr_shim_fresh(int fd)
{
	if (__builtin_expect(fd >= 0 && (sr_fdtab_has(fd) || sr_epoll_has(fd)),
			     0))
		sr_shim_forget(fd);
	return fd;
}

/* ---- dl.c: preload/tail.c jumps to what they return ---- */

void *sr_before_dlopen(const char *file, int mode);
void *sr_before_dlmopen(Lmid_t ns);
void *sr_before_dlsym(void *handle, const char *name, const char *unused, const void *caller);
void *sr_before_dlvsym(void *handle, const char *name, const char *version,
		       const void *caller);

/* ---- poll.c ---- */

/* Is there a stream that may be on a link among these?  If not, calls
 * sr_shim_poll_sets(). */
bool sr_shim_polled(const struct pollfd *fds, nfds_t n);
/* Epoll sets among these are nested from now on (sr_epoll_nest()), because only the kernel will look
 * at the sets.  (Descriptors that the fast path answers are no sets.) */
void sr_shim_poll_sets(const struct pollfd *fds, nfds_t n);

/* Has there never been a stream?  For calls that walk over many descriptors. */
static inline bool sr_shim_unused(void)
{
	return sr_fdtab_max() < 0;
}

#endif
