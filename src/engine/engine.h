/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * engine.h - the functions of a stream and its two directions, for the rooms above.
 * Each says which lock its caller holds.
 */
#ifndef SR_ENGINE_ENGINE_H
#define SR_ENGINE_ENGINE_H

#include "engine/impl.h"

/* ---- stream.c ---- */
/* For those who hold no lock. */
enum sr_tx_state sr_stream_tx(struct sr_stream *st);
enum sr_rx_state sr_stream_rx(struct sr_stream *st);
struct sr_stream *sr_stream_ref(struct sr_stream *st);
/* Walks all live streams; fn gets a reference that it does not own. */
void sr_streams_walk(void (*fn)(struct sr_stream *st, void *arg), void *arg);
void sr_stream_bar(struct sr_stream *st, enum sr_reason reason);
bool sr_stream_name(struct sr_stream *st);	/* fills local, peer, name */
void sr_stream_end_report(struct sr_stream *st);
void sr_stream_reason(struct sr_stream *st, enum sr_reason reason);
void sr_stream_totals(struct sr_stream *st, struct sr_report *r);
/* r is a call's result: was it the stream's end?  Then it is reported. */
void sr_stream_failed(struct sr_stream *st, ssize_t r);
/* For the report: a direction is on this link now, tx_had or rx_had; its lock is held. */
void sr_stream_had(struct sr_stream *st, struct sr_link *link, char had[SR_REPORT_LINK]);
void sr_streams_report(void);	/* all that have not been, at exit */
void sr_streams_forget(void);	/* child of fork */
const char *sr_stream_label(struct sr_stream *st, char buf[128]);

/* ---- gate.c ---- */
bool sr_rx_gate_shut(struct sr_stream *st);	/* rx_lock held */
void sr_rx_gate_open(struct sr_stream *st);	/* rx_lock held */
/* For a moment only, until reopened: the stream's epoll sets do not learn of it. */
bool sr_rx_gate_hold(struct sr_stream *st);	/* rx_lock held */
void sr_rx_gate_reopen(struct sr_stream *st);	/* rx_lock held */
bool sr_tx_gate_shut(struct sr_stream *st);	/* tx_lock held */
void sr_tx_gate_open(struct sr_stream *st);	/* tx_lock held */
/* crowd: also if others are in flight. */
bool sr_rx_gate_enter(struct sr_stream *st, unsigned weight, bool crowd);
/* False: the gate was shut meanwhile, and the call is still in flight. */
bool sr_rx_gate_leave(struct sr_stream *st, unsigned weight);
void sr_rx_gate_leave_shut(struct sr_stream *st, unsigned weight);
bool sr_tx_gate_enter(struct sr_stream *st);
void sr_tx_gate_leave(struct sr_stream *st);

/* ---- anchor.c ---- */
/* Do the kernel's byte counters agree with ours?  Promise 6. */
bool sr_anchor_tx_agrees(struct sr_stream *st);	/* tx_lock, gate shut */
bool sr_anchor_rx_agrees(struct sr_stream *st);	/* rx_lock, gate shut */
/* Bytes of TCP's stream that the kernel has received, whoever has read them, with 1 for
 * a FIN; and that its peer has acknowledged.  0: not known.  The direction's lock. */
uint64_t sr_anchor_received(struct sr_stream *st);
uint64_t sr_anchor_acked(struct sr_stream *st);
/* All has been read and TCP is over: was it by a FIN?  (A RST reads like one after
 * somebody else has had its error.)  rx_lock. */
bool sr_anchor_fin(struct sr_stream *st);
/* They do not: the stream gets no link, as its I/O went around us, or it was just
 * closed.  rx_lock or tx_lock held. */
void sr_anchor_disagrees(struct sr_stream *st, struct sr_link *link);
ssize_t sr_anchor_write(struct sr_stream *st, const void *buf, size_t len);
ssize_t sr_anchor_read(struct sr_stream *st, void *buf, size_t len, int flags);
bool sr_anchor_writable(struct sr_stream *st);
/* The peer's FIN or RST has come, perhaps behind bytes that are unread. */
bool sr_anchor_ended(struct sr_stream *st);
/* What a reset that comes now is called: ECONNRESET, behind the peer's end EPIPE
 * (tcp_reset() in Linux).  A link has that end before TCP. */
int sr_reset_error(struct sr_stream *st);
/* The socket is dead for the program: an error that we took from it, or 0. */
int sr_anchor_kept(struct sr_stream *st);	/* no lock held */
void sr_anchor_keepalive(struct sr_stream *st);

/* ---- tx.c, rx.c: what moves a direction on; nothing here sleeps ---- */
void sr_tx_progress(struct sr_stream *st);	/* tx_lock held */
void sr_rx_progress(struct sr_stream *st);	/* rx_lock held */
/* TCP's end has been read, behind all raw bytes, or is an error.  rx_lock held. */
void sr_rx_tcp_end(struct sr_stream *st, bool reset);
/* TCP's end was read through the open gate: did it come before all that a RESUME had
 * promised?  Then it is a reset.  No lock held. */
bool sr_rx_short(struct sr_stream *st);
void sr_stream_discard(struct sr_stream *st);	/* rx_lock held */
void sr_tx_start(struct sr_stream *st);		/* tx_lock held; gate shut */
void sr_tx_flush(struct sr_stream *st);		/* tx_lock held */
/* Has our FIN to wait for the peer's?  Both locks held, or in the loop. */
bool sr_tx_is_second(struct sr_stream *st);
/* It was in WAIT and is no more: try again. */
bool sr_tx_decide(struct sr_stream *st);
/* The SWITCH that waits on the link: EXPECT it, or not.  True: it is dealt
 * with, false: look again later. */
bool sr_rx_take_switch(struct sr_stream *st, struct sr_link *link,
		       bool proven);		/* rx_lock held */
/* The program sends: a switch that waited for that begins. */
void sr_tx_on_send(struct sr_stream *st);
/* tx_next is set: shut the gate and start, now or when the last call leaves. */
void sr_tx_try_start(struct sr_stream *st);	/* tx_lock held */
/* Bytes off the anchor, into iov, as the gate's state asks. rx_lock held. */
size_t sr_rx_strip(struct sr_stream *st, struct sr_rx *rx,
		   const struct iovec *iov, size_t iovlen, size_t n);
void sr_stream_broke(struct sr_stream *st, int err);	/* rx_lock held */

/* ---- what a stream tells the epoll sets that it is in; the epoll room has it ---- */
struct sr_sets_ops {
	/* A gate has been shut, under the direction's lock: the sets know before
	 * anybody else.  False: they cannot, it must be opened again. */
	bool (*gate_shut)(struct sr_stream *st);
	void (*gate_opened)(struct sr_stream *st);
	/* notify() for an entry; news: what of it is an edge.  wait_lock held. */
	void (*event)(struct sr_epoll_entry *e, unsigned what, unsigned news);
	/* The stream is TCP's for good: the sets forget it.  False: one of them cannot.
	 * epoll_lock held, gates open. */
	bool (*forget)(struct sr_stream *st);
};
extern const struct sr_sets_ops sr_sets_ops;

/* ---- fast.c ---- */
/* May calls take the fast path from now on?  At the end of whatever may have changed
 * that.  The direction's lock held. */
void sr_fast_update_tx(struct sr_stream *st);
void sr_fast_update_rx(struct sr_stream *st);

/* ---- past.c: what went over TCP at the beginning ---- */
void sr_stream_history_lock(struct sr_stream *st);
void sr_stream_history_unlock(struct sr_stream *st);
/* Bytes of msg, the first n, unless the flag `stopped` is set. */
void sr_stream_history_add(struct sr_stream *st, struct sr_history *h,
			   unsigned stopped, const struct msghdr *msg, size_t n);
struct sr_history sr_stream_history_copy(struct sr_stream *st,
					 const struct sr_history *h);

/* ---- wait.c ---- */
void sr_stream_notify(struct sr_stream *st, unsigned what);

/* ---- kick.c: the loop's side ---- */
/* What a kick does, in the loop; the service room has it. */
struct sr_service_ops {
	void (*work)(struct sr_task *task);
};
extern const struct sr_service_ops sr_service_ops;
void sr_stream_kick(struct sr_stream *st);	/* any thread */
void sr_stream_on_link(struct sr_link *link, unsigned what); /* notify */
void sr_stream_task(struct sr_stream *st);	/* readies st->loop.task */
/* What the anchor is to be watched for may have changed.  loop. */
void sr_stream_rewatch(struct sr_stream *st);
/* The loop looks at the anchor no more.  Its registration goes with the number, so
 * this comes before a number is given back.  rx_lock and tx_lock held. */
void sr_stream_unwatch(struct sr_stream *st);

#endif
