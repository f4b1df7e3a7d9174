/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sock.h - the calls on a stream.  fd is always the program's descriptor of the call,
 * still open.  Results: >= 0, or -errno as kernel TCP would have given; errno itself is
 * not touched on success.  SIGPIPE is raised here.  All calls are thread-safe.
 */
#ifndef SR_SOCK_SOCK_H
#define SR_SOCK_SOCK_H

#include "engine/stream.h"

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

/* The process is about to end: what was sent still arrives.  Bounded. */
void sr_streams_exit(void);

/* ---- send.c ---- */
#define SR_HOLD_NS 200000000ull	/* tcp(7), TCP_CORK */
/* The process ends: what other threads send from now on goes nowhere.  Any thread. */
void sr_send_last(void);

/* ---- close.c ---- */
void sr_close_progress(struct sr_stream *st);	/* loop */
void sr_close_at_exit(struct sr_stream *st);	/* any thread */
bool sr_close_leave(struct sr_stream *st);	/* ... and then; any thread */

#endif
