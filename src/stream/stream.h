/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream.h - TCP streams as the program sees them: what src/shim calls.
 *
 * A stream belongs to one open file description, its anchor; each descriptor of
 * the program that refers to it holds one reference in the table (fdtab.h).
 * fd is always the program's descriptor of the call, still open.
 *
 * Results: >= 0, or -errno as kernel TCP would have given; errno itself is not
 * touched on success.  SIGPIPE is raised here.  All calls are thread-safe.
 */
#ifndef SR_STREAM_H
#define SR_STREAM_H

#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#include "base/report.h"

struct sr_stream;
struct sr_info;		/* sockrail.h */

/* References.  Memory of streams is type-stable: tryget on a stale pointer is
 * safe and fails or yields another stream (the table looks again). */
bool sr_stream_tryget(struct sr_stream *st);
void sr_stream_put(struct sr_stream *st);

/* The stream of fd with a reference, unless it is TCP's for good. */
struct sr_stream *sr_stream_live(int fd);
/* The result of a call of the C library that has moved bytes on a stream that is TCP's
 * for good, for the report.  errno as the call left it, and is kept. */
void sr_plain_received(struct sr_stream *st, ssize_t r);
void sr_plain_sent(struct sr_stream *st, ssize_t r);

/* A new TCP socket (SOCK_STREAM, IPPROTO_TCP, AF_INET or AF_INET6), with one
 * descriptor fd; the reference returned is the table's.  NULL: no memory, or
 * inert; the socket then is simply not ours. */
struct sr_stream *sr_stream_open(int fd, int family);
/* fd came from accept on this listening stream.  NULL as above. */
struct sr_stream *sr_stream_accepted(struct sr_stream *listener, int fd);

/* Another descriptor refers to it: takes a reference for the table. */
struct sr_stream *sr_stream_attach(struct sr_stream *st, int fd);
/*
 * Descriptor fd is about to be closed or replaced by the caller, who has taken
 * it from the table; the table's reference is dropped.  For the last one does
 * what close(2) does on a link: queued bytes still arrive (SO_LINGER as in
 * socket(7): may block).  0 or -errno, to be reported by close(); the
 * descriptor must be closed in any case.
 */
int sr_stream_detach(struct sr_stream *st, int fd);
int sr_stream_connect(struct sr_stream *st, int fd,
		      const struct sockaddr *addr, socklen_t len);
int sr_stream_listen(struct sr_stream *st, int fd, int backlog);
int sr_stream_shutdown(struct sr_stream *st, int fd, int how);
int sr_stream_getsockopt(struct sr_stream *st, int fd, int level, int name,
			 void *val, socklen_t *len);
int sr_stream_setsockopt(struct sr_stream *st, int fd, int level, int name,
			 const void *val, socklen_t len);
/* FIONREAD (= SIOCINQ), SIOCOUTQ, SIOCATMARK ...; others go to the kernel. */
int sr_stream_ioctl(struct sr_stream *st, int fd, unsigned long req, void *arg);
/* O_NONBLOCK may have been set or cleared.  Any thread. */
void sr_stream_mode_changed(struct sr_stream *st);

/* msg as for recvmsg(2)/sendmsg(2) on TCP; control messages are handled. */
ssize_t sr_stream_recv(struct sr_stream *st, int fd, struct msghdr *msg,
		       int flags);
ssize_t sr_stream_send(struct sr_stream *st, int fd, const struct msghdr *msg,
		       int flags);
/* r, an error behind what has been received, is for the next call, as SO_ERROR. */
void sr_stream_keep(struct sr_stream *st, ssize_t r);
/* sendfile(2) semantics; off may be NULL.  more: MSG_MORE-like hint. */
ssize_t sr_stream_sendfile(struct sr_stream *st, int fd, int in_fd,
			   off_t *off, size_t count, bool more);

/*
 * The program (or another) is about to use the descriptor in a way a link
 * cannot serve (epoll_ctl, fdopen, handing it on): both directions go back to
 * TCP and stay there.  Waits, bounded, until they have.  0, or -ETIMEDOUT:
 * it will happen later, and what is in flight is not lost, but the descriptor
 * cannot be used around the library yet.
 */
int sr_stream_plain(struct sr_stream *st, int fd, enum sr_reason reason);

/* No stream of the process gets a link any more; those that have one keep it. */
void sr_streams_bar(enum sr_reason reason);

/* Every stream goes plain.  Bounded. */
void sr_streams_plain(void);
/* Another program is about to have the descriptors that are not close-on-exec: those
 * streams go plain, and stay so.  Bounded. */
void sr_streams_hand_over(void);
/* The same, and this process becomes that program: of all other streams what was sent
 * will arrive.  Bounded: a minute where the peer does not read. */
void sr_streams_before_exec(void);

/* The process is about to end: what was sent still arrives.  Bounded. */
void sr_streams_exit(void);

/*
 * poll(2) for sets that hold streams.  May be called with any set; without a
 * stream in it that is (or may get) on a link it is the kernel's ppoll.
 * timeout NULL: none.  sigmask as ppoll.  revents as the kernel gives them.
 * end (may be NULL) becomes the time at which the timeout is over (sr_now_ns),
 * UINT64_MAX without one, or 0 if it did not have to wait.
 */
int sr_streams_poll(struct pollfd *fds, nfds_t n,
		    const struct timespec *timeout, const sigset_t *sigmask,
		    uint64_t *end);

void sr_stream_info(struct sr_stream *st, struct sr_info *info);

#endif
