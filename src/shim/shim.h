/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shim.h - what the adapters (io.c, conn.c, opt.c ...) share.  An adapter looks
 * the descriptor up; without a stream it is the C library's call, untouched;
 * with one it turns the call into one of sock/sock.h's.
 *
 * A thread that is cancelled while it sleeps in a stream's call gives the call's reference
 * back (base/signal.h, windows).  One that is cancelled asynchronously (base/cancel.c)
 * outside these sleeps may leave it behind: the stream's memory is then never used again.
 * What changes the table, or must not be left half done, is held (sr_hold()).
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

/* The one edge where a value or -errno becomes what the program gets.  saved:
 * errno as the program left it. */
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

/* ---- the library's descriptors, which are, to the program, not open ---- */

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

/* Reads the knobs, once; true: there may be streams. */
bool sr_shim_ready(void);

/* The same for a handler of this signal, but does not read them: if that has not been done
 * yet, the handler is taken over when it is. */
bool sr_shim_takes_handlers(int sig);

/* ---- sys.c ----
 *
 * A library that was preloaded behind us may make a function of syscall(2), which is ours:
 * then the descriptor has been entered when that function returns.  A call that makes one
 * says so before it calls the function, and asks behind it. */
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
 * In the child of vfork() the descriptors are its own and the table is its
 * parent's (sr_process_ours() is false): nothing is written, and what closes
 * or makes descriptors goes to the kernel alone. */

/* fd has just been made: enters st, whose reference moves; NULL: no stream.
 * Whatever was there is stale: its descriptor was closed behind our back, and
 * is -1 to sr_stream_detach(). */
void sr_shim_enter(int fd, struct sr_stream *st);

/* fd has just been made and is neither stream nor set. */
void sr_shim_forget(int fd);

/* fd is no descriptor of st any more, somebody closed it behind our back.
 * Puts the caller's reference of st. */
void sr_shim_stale(int fd, struct sr_stream *st);

/* fd is about to be closed or replaced: takes its stream out of the table. */
void sr_shim_release(int fd);

/* got is a fresh duplicate of fd, or -1: enters it.  The caller has held since before the
 * C library's call, lets go, and returns sr_shim_settle(), which may sleep: the stream is made
 * plain where a link cannot serve the duplicate. */
void sr_shim_duplicated(int fd, int got);
int sr_shim_settle(int fd, int got);

/*
 * Makes the stream of fd, if there is one, plain and waits until it is: I/O that
 * goes around the library would read our records as data.
 */
void sr_shim_make_plain(int fd, enum sr_reason reason);
/* This thread is about to become another user, perhaps. */
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

/* Is there a stream that may be on a link among these?  If not, sr_shim_poll_sets() has
 * been called. */
bool sr_shim_polled(const struct pollfd *fds, nfds_t n);
/* Epoll sets among these give their streams up.  (All that is on the fast path is no
 * set.) */
void sr_shim_poll_sets(const struct pollfd *fds, nfds_t n);

/* Has there never been a stream?  For calls that walk over many descriptors. */
static inline bool sr_shim_unused(void)
{
	return sr_fdtab_max() < 0;
}

#endif
