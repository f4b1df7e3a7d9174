/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * engine.h - the functions of a stream and its two directions, for the rooms
 * above.  Each declaration says which lock its caller holds.
 */
#ifndef SR_ENGINE_ENGINE_H
#define SR_ENGINE_ENGINE_H

#include "engine/anchor.h"
#include "engine/impl.h"

/* ---- stream.c ---- */
/* The state of a direction, for callers that hold no lock. */
enum sr_tx_state sr_stream_tx(struct sr_stream *st);
enum sr_rx_state sr_stream_rx(struct sr_stream *st);
struct sr_stream *sr_stream_ref(struct sr_stream *st);
void sr_stream_over(struct sr_stream *st); /* closed, and nothing remains to be done */
/* Calls fn for every live stream but those inherited that the process has not looked
 * at yet; fn does not own the reference it gets. */
void sr_streams_walk(void (*fn)(struct sr_stream *st, void *arg), void *arg);
void sr_stream_bar(struct sr_stream *st, enum sr_reason reason);
/* From now on the rule for this address (settings.h) holds: the peer's address if the stream
 * connects, otherwise the stream's own. */
void sr_stream_policy(struct sr_stream *st, bool connects,
		      const struct sockaddr_storage *addr);
bool sr_stream_name(struct sr_stream *st);	/* fills local, peer, name; no lock held */
void sr_stream_reason(struct sr_stream *st, enum sr_reason reason);
/* Notes the error -r for the report, if it is one that ends a stream. */
void sr_stream_failed(struct sr_stream *st, ssize_t r);
/* Prepares the streams for a fork (owners.h).  Locks are stopped (lock.h). */
void sr_streams_before_fork(void (*rang)(void));
void sr_streams_forget(void);	/* in the child */
/* The process ends, or becomes another program: gives up its share of the inherited streams that
 * it has not looked up.  If an exec fails, these never get a link. */
void sr_streams_leave_heirs(bool ends);
const char *sr_stream_label(struct sr_stream *st, char buf[128]);

/* ---- totals.c ---- */
void sr_stream_totals(struct sr_stream *st, struct sr_report *r);
void sr_stream_end_report(struct sr_stream *st);
/* Notes for the report that a direction, whose lock is held, uses this link. */
void sr_stream_had(struct sr_stream *st, struct sr_link *link, char had[SR_REPORT_LINK]);
void sr_streams_report(void);	/* at exit, all not yet reported */
/* The program's bytes so far, in all processes that had the stream before this one,
 * too.  The direction's lock. */
uint64_t sr_stream_total_sent(struct sr_stream *st);
uint64_t sr_stream_total_received(struct sr_stream *st);
/* Bytes sent by each kind of link so far; way[SR_WAY_PLAIN] is 0.  tx_lock. */
void sr_stream_tx_ways(struct sr_stream *st, uint64_t way[SR_WAYS]);
enum sr_state sr_stream_tx_state(struct sr_stream *st);	/* tx_lock */
enum sr_state sr_stream_rx_state(struct sr_stream *st);	/* rx_lock */

/* ---- stat.c ---- */
void sr_stat_open(struct sr_stream *st);
void sr_stat_close(struct sr_stream *st);
void sr_stat_end(struct sr_stream *st, const struct sr_report *r); /* has a slot */
/* Write a direction to the stream's slot, which it must have.  The direction's lock. */
void sr_stat_tx(struct sr_stream *st);
void sr_stat_rx(struct sr_stream *st);
void sr_stat_note(struct sr_stream *st);	/* all else; any thread */
void sr_stat_inherit(struct sr_stream *st);	/* child of fork */
/* Since a fork there are streams without a slot.  Calls on a stream give slots to all of them,
 * not the fork, because many children execute a program and use no stream.  No lock held. */
extern bool sr_stat_orphans;
extern bool sr_stat_notes;	/* orphans, or a report: plain calls do more than count */
/* Counts a call in a child without a page, and makes the page (sr_stat_adopt()) once the calls
 * show that the child lives for a while. */
void sr_stat_adopt_later(void);
void sr_stat_adopt(void);

/* ---- gate.c ---- */
/* Shuts the gate, unless calls in flight or an epoll set prevent that.  Returns whether the gate
 * is shut now; sr_gate_shut() only asks.  rx_lock held */
bool sr_rx_gate_close(struct sr_stream *st);
void sr_rx_gate_open(struct sr_stream *st);	/* rx_lock held */
void sr_rx_gate_reopen(struct sr_stream *st);	/* rx_lock held */
bool sr_tx_gate_close(struct sr_stream *st);	/* tx_lock held */
void sr_tx_gate_open(struct sr_stream *st);	/* tx_lock held */
/* crowd: enter even if other calls are in flight. */
bool sr_rx_gate_enter(struct sr_stream *st, bool crowd);
/* False: the gate was shut meanwhile, and the call is still in flight. */
bool sr_rx_gate_leave(struct sr_stream *st);
void sr_rx_gate_leave_shut(struct sr_stream *st);
bool sr_tx_gate_enter(struct sr_stream *st);
void sr_tx_gate_leave(struct sr_stream *st);

/* ---- tx.c, rx.c: advance a direction; only sr_tx_decide() sleeps ---- */
void sr_tx_progress(struct sr_stream *st);	/* tx_lock held */
void sr_rx_progress(struct sr_stream *st);	/* rx_lock held */
void sr_stream_lock_and_progress(struct sr_stream *st); /* takes both locks */
/* The pid of the process in which exit() has begun, or 0.  (A child of fork has another pid.)
 * A peer that has seen this process leave a link goes on by TCP without a RESUME
 * (follow_ended_process()), so bytes without a record are no fault then.  Any thread. */
extern atomic_int sr_streams_ending;
/* TCP's end was read, behind all raw bytes, or is an error.  rx_lock held. */
void sr_rx_tcp_end(struct sr_stream *st, bool reset);
/* Our program takes no more bytes: the next ones draw a reset.  rx_lock held. */
void sr_rx_over(struct sr_stream *st);
/* TCP's end was read through the open gate: did it arrive before all bytes that
 * a RESUME had promised?  Then it is a reset.  No lock held. */
bool sr_rx_short(struct sr_stream *st);
void sr_tx_start(struct sr_stream *st);		/* tx_lock held; gate shut */
void sr_tx_flush(struct sr_stream *st);		/* tx_lock held */
#define SR_TX_MUCH 65536	/* bytes sent: their receiver may be behind */
/* Must our FIN wait for the peer's?  Both locks held, or in the loop. */
bool sr_tx_is_second(struct sr_stream *st);
/* True: WAIT has ended, try again.  Sleeps, bounded; no lock held. */
bool sr_tx_decide(struct sr_stream *st);
/* Handles the SWITCH that waits on the link: expect its mark, or refuse it.
 * False: the caller has to try again later. */
bool sr_rx_take_switch(struct sr_stream *st, struct sr_link *link,
		       bool proven);		/* rx_lock held */
/* The program sends: begins a switch that waited for this. */
void sr_tx_on_send(struct sr_stream *st);
/* Starts the switch to out.next, now or when the last call leaves. */
void sr_tx_try_start(struct sr_stream *st);	/* tx_lock held */
/* Removes the mark and records from bytes read into iov.  rx_lock held. */
size_t sr_rx_strip(struct sr_stream *st, struct sr_rx *rx,
		   const struct iovec *iov, size_t iovlen, size_t n);
void sr_stream_broke(struct sr_stream *st, int err);	/* rx_lock held */

/* ---- fast.c ---- */
/* Decides whether calls may take the fast path.  Called after each change that may matter, with
 * the direction's lock held. */
void sr_fast_update_tx(struct sr_stream *st);
void sr_fast_update_rx(struct sr_stream *st);

/* ---- history.c: what went over TCP before a link ---- */
void sr_stream_history_lock(struct sr_stream *st);
void sr_stream_history_unlock(struct sr_stream *st);
/* The first n bytes of msg are those of the direction from offset `at` on.  Ends the
 * history, by the flag `stopped`, if others came between. */
void sr_stream_history_keep(struct sr_stream *st, struct sr_history *h,
			    unsigned stopped, uint64_t at, const struct msghdr *msg, size_t n);
static inline void sr_stream_history_add(struct sr_stream *st, struct sr_history *h,
					 unsigned stopped, uint64_t at,
					 const struct msghdr *msg, size_t n)
{
	if (sr_st_flags(st) & stopped)
		return;
	if (at + n <= h->next && at == sr_history_seen(h))
		sr_publish(&h->n, at + n); /* pairs with sr_history_seen() */
	else
		sr_stream_history_keep(st, h, stopped, at, msg, n);
}
/* The same for n bytes that were sent of a file, whose offset now is *after or, if that
 * is NULL, the descriptor's. */
void sr_stream_history_file(struct sr_stream *st, uint64_t at, int fd, const off_t *after,
			    size_t n);

/* ---- waiters.c ---- */
void sr_stream_notify(struct sr_stream *st, unsigned what);

/* ---- kick.c ---- */
void sr_stream_kick(struct sr_stream *st);	/* any thread */
void sr_stream_on_link(struct sr_link *link, unsigned what); /* notify */
/* Adjusts the events that the loop watches on the anchor.  Loop only. */
void sr_stream_rewatch(struct sr_stream *st);
/* The loop stops watching the anchor.  The registration goes with the number,
 * so call this before giving the number back.  rx_lock and tx_lock held. */
void sr_stream_unwatch(struct sr_stream *st);

#endif
