/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * upgrade.h - how a stream gets a link and returns to TCP: asking, answering,
 * the handshake, the memory of peers, retired streams.
 */
#ifndef SR_UPGRADE_UPGRADE_H
#define SR_UPGRADE_UPGRADE_H

#include "engine/stream.h"
#include "link/link.h"
#include "link/rendezvous.h"

struct sr_listener;

/* The stream of fd with a reference, unless it is retired. */
struct sr_stream *sr_active_stream_get(int fd);

/* Takes the result of a C library call on a retired stream for the
 * report.  errno is the call's, and is kept. */
void sr_retired_received(struct sr_stream *st, ssize_t r);

void sr_retired_sent(struct sr_stream *st, ssize_t r);

/*
 * The program (or another one) is about to use the descriptor in a way that a
 * link cannot serve (epoll_ctl, fdopen, passing it on): both directions return
 * to TCP and stay there.  Waits until they have: 3 seconds, or, if bytes must not move
 * before, for as long as that takes.
 */
void sr_stream_make_plain(struct sr_stream *st, enum sr_reason reason, bool must);

/* Makes every stream plain.  Waits for a bounded time, as do the next two. */
void sr_streams_make_all_plain(void);

/* Another program is about to inherit the descriptors that are not
 * close-on-exec: makes those streams plain, and bars them. */
void sr_streams_hand_over(void);

/* The same before this process becomes that program.  Also waits until what was sent on all
 * other streams is sure to arrive: a minute at most if the peer does not read. */
void sr_streams_before_exec(void);
void sr_streams_after_exec(void);	/* the exec has failed */

/* ---- retire.c ---- */
/* Retires the stream (retire.c), unless something still needs the library.
 * No lock held.  Called in the loop, or by the only thread that could have
 * asked for a link. */
void sr_stream_retire(struct sr_stream *st);

/* ---- back.c ---- */
#define SR_ORPHAN_NS 60000000000ull /* what remains to be delivered: tcp_fin_timeout */
/* Is the stream on a link of this process, may it be, or has it asked for one? */
bool sr_back_concerns(struct sr_stream *st);
bool sr_back_is_plain(struct sr_stream *st);
/* Are there bytes in the link's ring, or will there be, that nobody can send by TCP,
 * because their sender has ended? */
bool sr_back_is_orphaned(struct sr_stream *st);
/* Does its link outlive the process?  live: only if the peer still has it. */
bool sr_back_outlives(struct sr_stream *st, bool live);
/* Disconnects the anchor, so that TCP's end does not look like the stream's to a process
 * that cannot have what is on the link.  rx_lock held. */
void sr_back_disconnect(struct sr_stream *st);
/* Begins the return to TCP. */
void sr_back_begin(struct sr_stream *st);
/* Waits until done(st), or until the stream has ended and cannot return.  The
 * limit counts from `since`; it is resend_ns while TCP has yet to take what was
 * sent.  False: the limit is over. */
bool sr_back_wait(struct sr_stream *st, bool (*done)(struct sr_stream *st),
		  uint64_t since, uint64_t resend_ns);

/* ---- guest.c ---- */
/* The program is about to use these directions (SR_NOTIFY_) in the child of a fork:
 * waits until the process that has them on a link has returned them to TCP.  No lock
 * held.  The stream is reset if that cannot be.  True: it may have slept. */
bool sr_guest_use(struct sr_stream *st, unsigned dirs);
/* Does what guests ask for.  Loop. */
void sr_guest_progress(struct sr_stream *st);
void sr_guest_rang(void);

/* ---- attach.c: the handshake on a new link, loop only ---- */
void sr_attach_begin(struct sr_stream *st, struct sr_link *link);
void sr_attach_progress(struct sr_stream *st);
bool sr_attach_busy(struct sr_stream *st);
/* Drops the link, for a reason that the stream notes. */
void sr_attach_give_up(struct sr_stream *st, enum sr_reason reason);

/* ---- prove.c: the proof of a peer that the kernel does not vouch for, loop only ---- */
/* Can there be a link with this proof, or is libsodium needed, and missing? */
bool sr_prove_can(struct sr_stream *st, enum sr_proof proof);
/* Has the stream carried enough for the proof that the link needs?  A link that is made
 * before that would be given up. */
bool sr_prove_may(struct sr_stream *st, enum sr_proof proof);
/* Notes how much of the stream the peer must be able to show: what both ends have by now.
 * Called before the peer can say hello. */
void sr_prove_know(struct sr_stream *st);
void sr_prove_begin(struct sr_stream *st);
/* Counts the history that our hello offers to show.  False: it still lacks bytes that
 * TCP has carried; they are unread, or a call of the program is in flight and about to
 * add them. */
bool sr_prove_stock(struct sr_stream *st);
/* Both hellos were sent.  True: the peer has proven all that the policy asks for, and
 * st->up.proven says whether that is something.  False: not yet, or the link was given
 * up. */
bool sr_prove_progress(struct sr_stream *st, unsigned ev);
void sr_prove_ended(struct sr_stream *st);	/* the link has ended */

/* ---- upgrade.c ---- */
/* A call has begun or ended: checks whether it is time to ask.  Any thread. */
void sr_upgrade_used(struct sr_stream *st);
/* The same, and the call sends so many bytes; 0: it receives. */
void sr_upgrade_moves(struct sr_stream *st, size_t sent);
/* Has connect(2) finished?  Once it has, the stream remembers that, and for the
 * report both addresses, which may be unknown at its end.  Any thread. */
bool sr_upgrade_connected(struct sr_stream *st);
void sr_upgrade_count(struct sr_stream *st);
void sr_ask_progress(struct sr_stream *st);	/* loop */

/* ---- hold.c ---- */
/* Policy wait: the first call that sends waits for the link, as long as the peer's process
 * has the stream or is about to take it.  True: it may have slept. */
bool sr_upgrade_hold(struct sr_stream *st);
void sr_hold_told(struct sr_ask *ask, enum sr_first first);	/* loop */

/* ---- promise.c: options that a link cannot carry; any thread ---- */
/* The number of the option, or -1 if it is none of these. */
int sr_promise_find(int level, int name);
bool sr_promise_limits_time(int i);	/* SO_RCVTIMEO and the like */
/* Is the value, which getsockopt(2) or setsockopt(2) has taken, not neutral? */
bool sr_promise_made(int i, const void *val, socklen_t len);
void sr_promise_note(struct sr_stream *st, int i, bool made);
/* Logs which option keeps the stream on TCP. */
void sr_promise_say(struct sr_stream *st, int i);
/* Another program has set the listener up. */
void sr_promise_foreign(struct sr_stream *st);
/* Called when a link is asked for, or made.  If the socket has such an option, bars the stream
 * and returns true. */
bool sr_promise_bars(struct sr_stream *st);
/* For a link over RDMA: may the kernel send the stream by another device than that of its
 * address?  (A VRF, or a BPF program of the cgroup, can cause that without the program.) */
bool sr_promise_leads_away(struct sr_stream *st);

/* ---- tclass.c: the traffic class of links over RDMA ---- */
/* Does the option say something of the class?  Any thread. */
bool sr_tclass_is(int level, int name);
void sr_tclass_set(struct sr_stream *st);	/* the program has set such an option; any thread */
/* The class to be asked for.  loop */
uint8_t sr_tclass_ask(struct sr_stream *st);
/* Does the answerer's end take the class that is asked for?  Yes, unless its program has set
 * another one.  loop */
bool sr_tclass_takes(struct sr_stream *st, uint8_t asked);
/* Has the program set a class since which is not that of the link `att'?  loop */
bool sr_tclass_changed(struct sr_stream *st);

/* ---- peers.c: the memory of peers; any thread ---- */
/* The peer has refused, or not answered: it is not asked for first_ns, and for longer each
 * further time. */
void sr_peer_refused(const struct sockaddr_storage *addr,
		     const struct sr_rendezvous *ops, enum sr_reason why,
		     uint64_t first_ns);
void sr_peer_answered(const struct sockaddr_storage *addr,
		      const struct sr_rendezvous *ops);
/* Why the peer must not be asked now; NONE: it may be asked. */
enum sr_reason sr_peer_pause_reason(const struct sr_rendezvous *ops,
			       const struct sockaddr_storage *addr);

/* ---- paths.c: the memory of paths that links do not work over; any thread ---- */
#define SR_PATH_REST_NS UINT64_C(60000000000)
/* A link to the peer's host, begun at since_ns, has died of the path.  Returns for how long the
 * host is left alone from now on; 0: it is not, or that has begun before. */
uint64_t sr_path_died(const struct sockaddr_storage *peer, uint64_t since_ns, uint64_t now_ns);
void sr_path_works(const struct sockaddr_storage *peer);	/* a link is in use */
bool sr_path_rests(const struct sockaddr_storage *peer, uint64_t now_ns);

/* ---- answer.c ---- */
void sr_answer_init(void);
void sr_answer_forget(void);			/* child of fork */
void sr_answer_look(void);	/* checks pending requests again; any thread */
/* The keeper has found the worker that has the stream.  loop. */
struct sr_there;
void sr_answer_found(const struct sr_name *name, const struct sr_there *there);
/* A worker says that it has the stream, and is not believed.  loop. */
void sr_answer_foreign(const struct sr_name *name);
/* Calls fn for the name of each stream that is asked for and not found yet.  loop. */
void sr_answer_pending(void (*fn)(const struct sr_name *name, void *arg), void *arg);
/* The keeper asks whether this process has the stream: tells it when it has.  loop. */
void sr_answer_asked(const struct sr_name *name);

/* ---- claim.c ---- */
/* This thread is about to become another user, perhaps.  Any thread. */
void sr_claims_make(void);

/* ---- listener.c ---- */
/* The calling thread waits for the listener's next connection, and does no more. */
void sr_listener_enter(struct sr_stream *socket);
void sr_listener_leave(struct sr_stream *socket);
/* The process is about to accept, or to wait for a connection.  Any thread. */
void sr_listener_awaited(struct sr_stream *socket);
/* Why no kind of link is possible; NONE: one is.  Any thread. */
enum sr_reason sr_listener_never(struct sr_listener *l);
/* No rendezvous could be opened.  Any thread. */
void sr_listener_unavailable(struct sr_listener *l, enum sr_reason why);
void sr_listener_open(struct sr_listener *l, int fd, bool wait);
/* A listener's socket was kicked: opens or closes its rendezvous.  Returns after how many ms it
 * is to be called again; 0: when the socket is kicked.  loop. */
unsigned sr_listener_progress(struct sr_listener *l);
void sr_listener_stop(struct sr_listener *l);	/* listen(2) failed */
/* fd is a TCP socket that listens, and was made or bound before us: enters it as a
 * stream.  NULL: it is none, or cannot be.  Any thread. */
struct sr_stream *sr_listener_adopt(int fd);
/* An accepted stream will probably be worth a link soon: this process has to be
 * found.  Any thread. */
void sr_listener_worth(struct sr_stream *st);

#endif
