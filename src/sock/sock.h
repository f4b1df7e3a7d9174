/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sock.h - the socket calls on a stream.  fd is always the descriptor that the
 * program's call names, and still open.  Functions return >= 0, or the -errno of
 * kernel TCP; they leave errno alone on success, and raise SIGPIPE themselves.
 * All are thread-safe.
 */
#ifndef SR_SOCK_SOCK_H
#define SR_SOCK_SOCK_H

#include "engine/stream.h"

/* Counts one more descriptor; returns a reference for the table. */
struct sr_stream *sr_stream_attach(struct sr_stream *st);

/* The caller is about to close or replace fd, and has removed it from the table of
 * descriptors; this drops the table's reference.  For the last descriptor of a
 * stream on a link, does what close(2) does: queued bytes still arrive, and with
 * SO_LINGER it may block, as in socket(7). */
void sr_stream_detach(struct sr_stream *st, int fd);

int sr_stream_connect(struct sr_stream *st, int fd,
		      const struct sockaddr *addr, socklen_t len);

int sr_stream_listen(struct sr_stream *st, int fd, int backlog);

int sr_stream_shutdown(struct sr_stream *st, int fd, int how);

int sr_stream_getsockopt(struct sr_stream *st, int fd, int level, int name,
			 void *val, socklen_t *len);

int sr_stream_setsockopt(struct sr_stream *st, int fd, int level, int name,
			 const void *val, socklen_t len);

/* Handles FIONREAD (= SIOCINQ) and SIOCOUTQ; other requests go to the kernel. */
int sr_stream_ioctl(struct sr_stream *st, int fd, unsigned long req, void *arg);

/* msg as for recvmsg(2) and sendmsg(2) on TCP, with control messages. */
ssize_t sr_stream_recv(struct sr_stream *st, int fd, struct msghdr *msg,
		       int flags);

ssize_t sr_stream_send(struct sr_stream *st, int fd, const struct msghdr *msg,
		       int flags);

/* Keeps the error r of a call that returned bytes, for the next call (SO_ERROR). */
void sr_stream_keep(struct sr_stream *st, ssize_t r);

/* sendfile(2); off may be NULL. */
ssize_t sr_stream_sendfile(struct sr_stream *st, int fd, int in_fd,
			   off_t *off, size_t count);

/* The process is about to exit: makes sure that sent bytes still arrive.  Takes a bounded
 * time. */
void sr_streams_exit(void);

#define SR_HOLD_NS 200000000ull	/* tcp(7), TCP_CORK */
/* A send has got EPIPE.  Does not return if the process's exit is the cause. */
void sr_exit_await(void);

/* ---- room.c ---- */
struct sr_sleep;
/* Waits for room.  Returns 0 if the caller should try again, or -EAGAIN if the call may
 * not wait, or not any longer.  switching: the direction is about to switch. */
ssize_t sr_room_await(struct sr_stream *st, struct sr_sleep *sleep, bool switching);

/* ---- deliver.c ---- */
/* At exit, as the last step: leaves a process behind for the streams whose bytes TCP has yet
 * to take. */
void sr_streams_deliver(void);

/* ---- ends.c: the ends of a stream's directions ---- */
/* Does the library have bytes that the program has not read?  (The kernel may have more.)
 * rx_lock held. */
bool sr_ends_unread(struct sr_stream *st);
/* Has the peer's end come, perhaps behind unread bytes?  rx_lock held. */
bool sr_ends_came(struct sr_stream *st);
/* Does the peer's host have all that we sent, and our end?  tx_lock held. */
bool sr_ends_arrived(struct sr_stream *st);
/* Did the last bytes go to a peer whose program takes none any more?  tx_lock held. */
bool sr_ends_took_none(struct sr_stream *st);
/* After that: the peer's reset will follow, and the stream takes it as come now.  No lock
 * held. */
void sr_ends_reset_early(struct sr_stream *st);
/* Are there unread bytes that make the last close a reset?  If both directions have
 * ended, TCP discards such bytes and does not reset.  Both locks held. */
bool sr_ends_leave_unread(struct sr_stream *st);
/* Ends our direction, on TCP or on the link.  Both locks held. */
void sr_ends_finish(struct sr_stream *st);
/* The descriptor's last close will be a reset. */
void sr_ends_reset_on_close(int fd);

/* ---- state.c: corrects what the kernel has answered about the anchor ---- */
/* SIOCINQ, SIOCOUTQ, SIOCOUTQNSD: *n is what the kernel said of the anchor's queue. */
int sr_state_queue(struct sr_stream *st, int fd, unsigned long req, int *n);
/* The number that TCP_INQ reports (tcp(7)): the unread bytes, and 1 more if the peer's end has
 * come after them, whether the program has read the end or not. */
int sr_state_inq(struct sr_stream *st);
/* val is struct tcp_info, or its first len bytes. */
void sr_state_info(struct sr_stream *st, void *val, size_t len);

/* ---- close.c ---- */
void sr_close_progress(struct sr_stream *st);	/* service thread */
void sr_close_at_exit(struct sr_stream *st);	/* any thread */
bool sr_close_leave(struct sr_stream *st);	/* the last step; any thread */

#endif
