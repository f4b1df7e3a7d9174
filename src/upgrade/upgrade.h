/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * upgrade.h - how a stream gets a link and goes back to TCP: asking, answering, the
 * handshake, the memory of peers, streams that are TCP's for good.
 */
#ifndef SR_UPGRADE_UPGRADE_H
#define SR_UPGRADE_UPGRADE_H

#include "engine/stream.h"
#include "link/link.h"

/* The stream of fd with a reference, unless it is TCP's for good. */
struct sr_stream *sr_stream_live(int fd);

/* The result of a call of the C library that has moved bytes on a stream that is TCP's
 * for good, for the report.  errno as the call left it, and is kept. */
void sr_plain_received(struct sr_stream *st, ssize_t r);

void sr_plain_sent(struct sr_stream *st, ssize_t r);

/*
 * The program (or another) is about to use the descriptor in a way a link
 * cannot serve (epoll_ctl, fdopen, handing it on): both directions go back to
 * TCP and stay there.  Waits, bounded, until they have.  0, or -ETIMEDOUT:
 * it will happen later, and what is in flight is not lost, but the descriptor
 * cannot be used around the library yet.
 */
int sr_stream_plain(struct sr_stream *st, int fd, enum sr_reason reason);

/* Every stream goes plain.  Bounded. */
void sr_streams_plain(void);

/* Another program is about to have the descriptors that are not close-on-exec: those
 * streams go plain, and stay so.  Bounded. */
void sr_streams_hand_over(void);

/* The same, and this process becomes that program: of all other streams what was sent
 * will arrive.  Bounded: a minute where the peer does not read. */
void sr_streams_before_exec(void);

/* ---- plain.c ---- */
/* Nobody will ask for a link, or be asked, any more.  Nothing happens if the stream
 * cannot be left to the kernel yet.  No lock held.  In the loop, or by who alone could
 * have asked. */
void sr_plain_for_good(struct sr_stream *st);

/* ---- back.c ---- */
#define SR_ORPHAN_NS 60000000000ull /* for TCP to take what a process leaves behind */
/* Is it on a link, or may be, or on its way? */
bool sr_back_concerns(struct sr_stream *st);
bool sr_back_is_plain(struct sr_stream *st);
/* It is on a link that outlives the process; live: and that the peer has not given up. */
bool sr_back_outlives(struct sr_stream *st, bool live);
/* Begins the way back to TCP. */
void sr_back_begin(struct sr_stream *st);
/* Waits until done(st) or nothing more can come of it, but not longer after `since` than
 * a bound, which is resend_ns where TCP has yet to take what was sent.  False: it is not
 * done. */
bool sr_back_wait(struct sr_stream *st, bool (*done)(struct sr_stream *st),
		  uint64_t since, uint64_t resend_ns);

/* ---- attach.c: the handshake on a new link, loop only ---- */
void sr_attach_begin(struct sr_stream *st, struct sr_link *link);
void sr_attach_progress(struct sr_stream *st);
bool sr_attach_busy(struct sr_stream *st);

/* ---- upgrade.c ---- */
/* A call has begun or ended: is it time to ask?  Any thread. */
void sr_upgrade_used(struct sr_stream *st);
/* Is connect(2) through?  If so it is known from now on, and for the report who is
 * connected, which it may not be at its end any more.  Any thread. */
bool sr_upgrade_connected(struct sr_stream *st);
void sr_upgrade_count(struct sr_stream *st);
void sr_upgrade_hold(struct sr_stream *st);	/* policy wait */
void sr_ask_progress(struct sr_stream *st);	/* loop */
void sr_upgrade_verdict(struct sr_stream *st, int verdict);

/* About to be connected, or just so: if no kind of link can be had to this peer now, it
 * is plain for good.  By the thread that connects it, before anybody may have asked. */
void sr_upgrade_connects(struct sr_stream *st, const struct sockaddr *addr,
			 socklen_t len);

/* ---- peers.c: what is known of peers; any thread ---- */
/* Nobody answered: it is left alone for first_ns, and for longer each time. */
void sr_peer_refused(const struct sockaddr_storage *addr,
		     const struct sr_link_ops *ops, enum sr_reason why,
		     uint64_t first_ns);
void sr_peer_answered(const struct sockaddr_storage *addr,
		      const struct sr_link_ops *ops);
/* Is it left alone now, and why?  NONE: no. */
enum sr_reason sr_peer_refuses(const struct sr_link_ops *ops,
			       const struct sockaddr_storage *addr);

/* ---- answer.c ---- */
void sr_answer_init(void);
void sr_answer_forget(void);			/* child of fork */
void sr_answer_look(void);	/* pending requests may match now; any thread */
/* Why no kind of link can be had, NONE if one can; any thread. */
enum sr_reason sr_answer_never(void);
/* LISTEN; any thread */
void sr_answer_unavailable(struct sr_stream *st, enum sr_reason why);
void sr_answer_listen(struct sr_stream *st, int fd, bool wait);
void sr_answer_open(struct sr_stream *st);	/* loop */
void sr_answer_unlisten(struct sr_stream *st);	/* loop */
void sr_answer_stop(struct sr_stream *st);	/* listen(2) failed */

#endif
