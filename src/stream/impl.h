/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * impl.h - the inside of a stream, for src/stream only.
 *
 * Who may touch what
 *
 *   plain calls   take no lock: they pass a gate (below) and go to the kernel.
 *   rx_lock       rx, spill, rx_link, rx_delta, what is read from the anchor
 *                 while the rx gate is shut
 *   tx_lock       tx, tx_link, tx_delta, what is written to the anchor while
 *                 the tx gate is shut
 *   both locks    anchor (the descriptor number), to change it
 *   loop          att_*, ask, closing's progress: the service thread only
 *
 * Lock order: rx_lock, tx_lock, those of epoll_impl.h, then the link kind's own,
 * then wait_lock.
 * Nothing sleeps with a lock held, except on the kernel's socket lock in
 * non-blocking calls on the anchor.
 *
 * The gates.  A direction is plain as long as its gate is open: a call adds
 * itself to the count of calls in flight, goes to the kernel, books what went
 * through in tx_tcp or rx_tcp, and subtracts itself.  A shut gate sends calls
 * the slow way, under the lock.  Shutting:
 *   tx: only with no call in flight (the switch waits for a send asleep in the
 *       kernel, nobody waits for the switch).  SR_GATE_WANT asks the last call
 *       in flight to do it when it leaves, else a busy sender would never
 *       switch.
 *   rx: with at most one in flight, counting recv() and poll() sleepers (a call
 *       whose result could not be stripped counts as two).  A second sleeper
 *       does not enter; it hangs up a node (wait.h) and is called.  That one will get
 *       the mark, and sees on leaving that the gate was shut meanwhile; nobody
 *       else reads the anchor before it has left.  This is the one-sleeper rule
 *       of sockrail-protocol(7).
 */
#ifndef SR_STREAM_IMPL_H
#define SR_STREAM_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/conf.h"
#include "base/lock.h"
#include "base/loop.h"
#include "base/report.h"
#include "link/link.h"
#include "pure/history.h"
#include "pure/switch.h"
#include "stream/fast.h"
#include "stream/spin.h"
#include "stream/stream.h"

#define SR_GATE_SHUT (1u << 31)
#define SR_GATE_WANT (1u << 30)
#define SR_GATE_COUNT (SR_GATE_WANT - 1)
#define SR_GATE_BLIND 2		/* a read that cannot be stripped */

enum {				/* sr_stream.flags */
	SR_ST_CONNECT = 1 << 0,	/* we connected: we ask */
	SR_ST_ACCEPT = 1 << 1,	/* accepted: we answer */
	SR_ST_LISTEN = 1 << 2,
	SR_ST_USED = 1 << 3,	/* sent, received or waited through us */
	SR_ST_BARRED = 1 << 4,	/* no link any more */
	SR_ST_NAMED = 1 << 5,	/* local, peer are known */
	SR_ST_ASKED = 1 << 6,	/* an ask is under way, or not to be repeated */
	SR_ST_CLOSING = 1 << 7,	/* the program has closed it */
	SR_ST_RDSHUT = 1 << 8,	/* the program said shutdown(SHUT_RD) */
	SR_ST_TX_HISTORY = 1 << 9, /* tx_history has stopped */
	SR_ST_RX_HISTORY = 1 << 16, /* rx_history has stopped */
	SR_ST_WAITED = 1 << 10,	/* policy wait: has waited */
	SR_ST_ENDED = 1 << 11,	/* reported */
	SR_ST_CORK = 1 << 12,	/* TCP_CORK is set */
	SR_ST_FRESH = 1 << 13,	/* connect() not yet known to be through */
	SR_ST_REPORTED = 1 << 17, /* ... and the line is written */
	SR_ST_STAMPS = 1 << 18,	/* SO_TIMESTAMP or the like was set */
	SR_ST_AGAIN = 1 << 19, /* has asked a peer without listener twice */
	SR_ST_SHARED = 1 << 20, /* another process may hold its descriptor, too */
	SR_ST_DEAF = 1 << 22,	/* LISTEN: without a rendezvous of any kind */
	SR_ST_OPENED = 1 << 23,	/* LISTEN: its rendezvous is open, or cannot be */
	SR_ST_HALF = 1 << 15,	/* the program has ended its direction */
	SR_ST_PEER_END = 1 << 24, /* the peer's end has come by a link */
	SR_ST_OVER = 1 << 25,	/* both ends have come: TCP's state CLOSE, for good */
	SR_ST_SECOND = 1 << 26,	/* CLOSING, begun behind the peer's end by a link */
};

enum { VERDICT_NONE, VERDICT_PENDING, VERDICT_YES, VERDICT_NO };

#define SR_ANSWERED UINT64_MAX

struct sr_wait_node;
struct sr_epoll_entry;

struct sr_stream {
	/* What stays when the stream becomes another one: a thread may still look at
	 * head, and lock (fast.c). */
	struct sr_stream_head head;
	atomic_int refs;		/* 0: free */
	_Alignas(64) pthread_mutex_t rx_lock;
	_Alignas(64) pthread_mutex_t tx_lock;

	_Alignas(64) atomic_uint flags;	/* the first word that is cleared */
	atomic_int fds;			/* entries in the table */
	atomic_int reason;		/* enum sr_reason: why it is plain */

	_Alignas(64) atomic_uint tx_gate;
	atomic_uint tx_calls;
	_Atomic uint64_t tx_tcp;	/* bytes written to the anchor */
	_Alignas(64) atomic_uint rx_gate;
	atomic_uint rx_calls;
	_Atomic uint64_t rx_tcp;	/* bytes read from the anchor */
	_Atomic uint64_t tx_plain, rx_plain; /* program bytes, once TCP's for good */
	_Atomic uint64_t rx_due;	/* a SWITCH waits for rx_tcp to be this; or 0 */
	uint64_t rx_short;	/* bytes it waited for when last looked at */

	_Alignas(64) struct sr_rx rx;
	struct sr_link *rx_link;
	int64_t rx_delta;	/* gate open: rx.rx = rx_tcp + rx_delta */
	uint8_t spill[2 * SR_RECORD_LEN]; /* the program's, already off TCP */
	unsigned spill_at, spill_len;
	uint64_t rx_way[SR_WAYS];
	unsigned rx_switches;
	atomic_int so_error;	/* to be reported once, as SO_ERROR does */
	atomic_bool error_told;	/* so_error was set for it, or SO_ERROR has said it */
	atomic_int error;	/* errno that ended it, for the report */
	bool rx_fin_seen;	/* TCP's FIN or RST has been read */
	bool rx_cut;		/* the anchor is disconnected: back.c */
	bool rx_rst_seen;	/* the latter, with bytes on the link before it */

	struct sr_tx tx;
	struct sr_link *tx_link;
	int64_t tx_delta;	/* gate open: tx.w = tx_tcp + tx_delta */
	uint64_t tx_n;		/* N of the switch in use */
	uint64_t tx_way[SR_WAYS];
	_Atomic size_t tx_held;	/* bytes the link was asked to hold back */
	uint64_t tx_held_ns;	/* since when */
	uint64_t tx_widen_by;	/* ns: so long sends that must not block wait for room */
	_Atomic uint64_t tx_lost_ns;	/* since when the peer seems killed, but not by TCP */
	unsigned record_at;	/* bytes of tx.record already in TCP */
	_Atomic(struct sr_link *) tx_next; /* a proven link to switch to (SR_GATE_WANT) */
	uint8_t tx_next_token[SR_TOKEN_LEN];
	atomic_bool tx_on_send;	/* tx_next waits for the program's next send */
	atomic_bool broken;	/* reset: every send is EPIPE */

	atomic_int anchor;	/* descriptor number, -1 when gone */
	atomic_bool anchor_private;
	int family;
	unsigned switches;	/* of tx; tx_lock */
	uint32_t link_no;	/* the last link's number */
	struct sockaddr_storage local, peer;
	struct sr_name name;
	_Atomic uint64_t mode, mode_changes; /* sleep.c */
	char tx_had[SR_REPORT_LINK], rx_had[SR_REPORT_LINK]; /* the last link of each */

	atomic_flag history_busy;
	struct sr_history tx_history, rx_history;
	struct sr_history rx_shown;	/* rx_history and what lies unread */

	pthread_mutex_t epoll_lock;	/* epoll_impl.h */
	_Atomic(struct sr_epoll_entry *) epoll; /* the sets that it is in */
	atomic_bool tx_full;	/* a sender, or who asked, found no room */
	atomic_bool tx_held_off;	/* who asked was told so in mid-switch */

	pthread_mutex_t wait_lock;
	_Atomic(struct sr_wait_node *) waiters;
	struct sr_spin spin;

	/* loop only */
	struct sr_task task;
	atomic_bool kicked;
	struct sr_watch watch;
	atomic_int watched_fd;	/* -1: not watched */
	atomic_uint watched;	/* events armed */
	struct sr_timer timer;
	struct sr_ask ask;
	bool asking;
	bool timed;
	_Atomic(struct sr_link *) att;	/* being attached, or in use */
	uint8_t token[SR_TOKEN_LEN];	/* ours, on att or the link in use */
	bool att_hello, att_showed, att_checked, att_proven;
	uint64_t hello_tx, hello_rx;	/* what our hello said we have */
	uint64_t known_tx, known_rx;	/* what the peer must have */
	int proofs_failed;
	uint64_t att_since;	/* ns */
	uint64_t due_since, due_seen, due_seen_ns; /* its SWITCH waits */
	bool due_said;		/* DRAIN */
	_Atomic uint64_t next_ask_ns;
	_Atomic uint64_t asked_ns; /* a link was asked for; SR_ANSWERED: and made */
	unsigned asks;		/* since it last had a link */
	uint64_t tx_wait_since;	/* ns; also read under tx_lock */
	uint64_t close_since;
	atomic_bool want_back;	/* plain(), fork, exec */
	bool left;		/* at exit: nothing more is to be done */
	bool fork_held;		/* fork.c: from before a fork until after it */
	atomic_int verdict;	/* of the attempt under way: VERDICT_ */
	unsigned kind;		/* place in the order of kinds being asked */
	bool att_started;	/* our direction's switch was begun on att */
	bool att_took;		/* its SWITCH is dealt with */
	uint64_t tx_started;	/* ns */
	void *listener[2];	/* rendezvous, by kind */
	atomic_int children;	/* LISTEN: accepted and not yet gone */
	struct sr_stream *parent; /* ACCEPT: the listener */
};

/* For the report: by which kind of link. */
static inline enum sr_way sr_way_of(const struct sr_link *link)
{
	return link->ops == &sr_link_shm ? SR_WAY_SHM : SR_WAY_VERBS;
}

/* ---- flags ---- */

static inline unsigned sr_st_flags(struct sr_stream *st)
{
	return atomic_load_explicit(&st->flags, memory_order_relaxed);
}

static inline unsigned sr_st_set(struct sr_stream *st, unsigned bits)
{
	return atomic_fetch_or(&st->flags, bits);
}

static inline void sr_st_clear(struct sr_stream *st, unsigned bits)
{
	atomic_fetch_and(&st->flags, ~bits);
}

static inline bool sr_gate_shut(atomic_uint *gate)
{
	return atomic_load(gate) & SR_GATE_SHUT;
}

static inline bool sr_any_gate_shut(struct sr_stream *st)
{
	return sr_gate_shut(&st->rx_gate) || sr_gate_shut(&st->tx_gate);
}

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

/* ---- fast.c ---- */
/* May calls take the fast path from now on?  At the end of whatever may have changed
 * that.  The direction's lock held. */
void sr_fast_update_tx(struct sr_stream *st);
void sr_fast_update_rx(struct sr_stream *st);

/* ---- plain.c ---- */
/* Nobody will ask for a link, or be asked, any more.  Nothing happens if the stream
 * cannot be left to the kernel yet.  No lock held.  In the loop, or by who alone could
 * have asked. */
void sr_plain_for_good(struct sr_stream *st);

/* ---- past.c: what went over TCP at the beginning ---- */
void sr_past_lock(struct sr_stream *st);
void sr_past_unlock(struct sr_stream *st);
/* Bytes of msg, the first n, unless the flag `stopped` is set. */
void sr_past_add(struct sr_stream *st, struct sr_history *h, unsigned stopped,
		 const struct msghdr *msg, size_t n);
struct sr_history sr_past_copy(struct sr_stream *st,
			       const struct sr_history *h);

/* ---- sleep.c ---- */
/* A call that may have to sleep, begun as { .fd, .flags, .option }. */
struct sr_sleep {
	int fd;
	int flags;		/* the call's */
	int option;		/* SO_RCVTIMEO, SO_SNDTIMEO */
	bool asked, blocks;
	bool partial;		/* something has been transferred: a signal ends it */
	bool timed;
	struct sr_handled since; /* what has run later interrupts it */
	uint64_t deadline;	/* ns; 0: none */
};
/* The beginning of a call.  Handlers that run from now on interrupt its sleeps, as to
 * the kernel a signal does that comes anywhere in a call. */
struct sr_sleep sr_sleep_begin(int fd, int flags, int option);
bool sr_sleep_allowed(struct sr_stream *st, struct sr_sleep *s);
/* Until the stream may have what is in events (POLLIN, POLLOUT).  0; -EAGAIN if
 * the call does not block or its time is over; -EINTR. */
int sr_sleep(struct sr_stream *st, struct sr_sleep *s, short events);
/* The same, for a call which does not block: at most ns, whatever its own limits. */
int sr_sleep_anyhow(struct sr_stream *st, int fd, short events, uint64_t ns);

/* ---- send.c ---- */
#define SR_HOLD_NS 200000000ull	/* tcp(7), TCP_CORK */
/* The process ends: what other threads send from now on goes nowhere.  Any thread. */
void sr_send_last(void);

/* ---- wait.c ---- */
void sr_stream_notify(struct sr_stream *st, unsigned what);

/* ---- epoll_set.c, epoll_entry.c, epoll_ready.c, epoll_wait.c ---- */
/* A gate has been shut, under the direction's lock: its sets know before anybody
 * else.  False: they cannot, it must be opened again. */
bool sr_epoll_gate_shut(struct sr_stream *st);
void sr_epoll_gate_opened(struct sr_stream *st);
/* A descriptor of the stream, or its last one, is about to be closed. */
void sr_epoll_number_gone(struct sr_stream *st, int fd);
void sr_epoll_stream_gone(struct sr_stream *st);
/* The stream is TCP's for good: its sets forget it.  False: one of them cannot.
 * epoll_lock held, gates open. */
bool sr_epoll_let_go(struct sr_stream *st);
/* news: what of it is an edge. */
void sr_epoll_told(struct sr_epoll_entry *e, unsigned what, unsigned news);
void sr_epolls_fork_begins(void);	/* no lock held */
void sr_epolls_before_fork(void);	/* all streams' locks held */
void sr_epolls_in_parent(void);
void sr_epolls_forget(void);		/* child of fork */
void sr_epolls_inherit(void);		/* ... without private descriptors */

/* ---- kick.c: the loop's side ---- */
/* What a kick does, in the loop: set once by the service room. */
extern void (*sr_stream_work)(struct sr_task *task);
void sr_stream_kick(struct sr_stream *st);	/* any thread */
void sr_stream_on_link(struct sr_link *link, unsigned what); /* notify */
void sr_stream_task(struct sr_stream *st);	/* readies st->task */
/* What the anchor is to be watched for may have changed.  loop. */
void sr_stream_rewatch(struct sr_stream *st);
/* The loop looks at the anchor no more.  Its registration goes with the number, so
 * this comes before a number is given back.  rx_lock and tx_lock held. */
void sr_stream_unwatch(struct sr_stream *st);

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

/* ---- close.c ---- */
void sr_close_progress(struct sr_stream *st);	/* loop */
void sr_close_at_exit(struct sr_stream *st);	/* any thread */
bool sr_close_leave(struct sr_stream *st);	/* ... and then; any thread */

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
void sr_answer_deaf(struct sr_stream *st, enum sr_reason why);	/* LISTEN; any thread */
void sr_answer_listen(struct sr_stream *st, int fd, bool wait);
void sr_answer_open(struct sr_stream *st);	/* loop */
void sr_answer_unlisten(struct sr_stream *st);	/* loop */
void sr_answer_stop(struct sr_stream *st);	/* listen(2) failed */

#endif
