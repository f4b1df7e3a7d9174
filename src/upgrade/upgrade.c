/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * upgrade.c - owns the connecting side: when to ask for a link, which peer,
 * which kind.  Must not know the handshake.  No locks: members are atomic, or
 * the service thread's.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/now.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"

/* The pause before a stream asks again if its peer had no listener (yet). */
#define AGAIN_NS 1000000000ull
/* The same in policy lazy: by then a peer has hardly just begun to listen, and a stream
 * that waits to ask costs more than a retired one.  In all policies it is
 * the first pause after "no-match", when no process of the peer had the stream yet. */
#define AGAIN_LAZY_NS 50000000ull
#define ASKS_MAX 8		/* times that the pause doubles */
#define BREAKS_MAX 5		/* the same after links that broke: again_ms to 32 times that */
#define SOON_MAX 4		/* pauses of AGAIN_LAZY_NS, doubled, after links never used */
#define LISTENER_ASKS 2		/* times to ask again if nobody listened */

/* ---- when to ask: any thread ---- */

bool sr_upgrade_connected(struct sr_stream *st)
{
	int err = errno;
	bool ok = true;

	if (sr_st_flags(st) & SR_ST_FRESH) {
		ok = sr_anchor_connected(st);
		if (ok)
			sr_st_clear(st, SR_ST_FRESH);
		if (ok && sr_conf.report[0])
			sr_stream_name(st);
		errno = err;
	}
	return ok;
}

static bool hopeless(struct sr_stream *st);
static void none_left(struct sr_stream *st);
static void first_reason(struct sr_stream *st, enum sr_reason reason);
static bool asks_once_more(struct sr_stream *st);

static void ask_now(struct sr_stream *st)
{
	int r;

	if (sr_is_shared(st)) {
		first_reason(st, SR_REASON_FORK);
		return;
	}
	if (!sr_loop_may_start() ||
	    (st->up.next_ask_ns && sr_now_ns() < st->up.next_ask_ns))
		return;
	if ((sr_st_flags(st) & (SR_ST_BARRED | SR_ST_HALF)) ||
	    !sr_upgrade_connected(st) || (sr_st_set(st, SR_ST_ASKED) & SR_ST_ASKED))
		return;
	if (!atomic_load(&st->up.asked_ns) && atomic_load(&st->reason) == SR_REASON_FORK)
		sr_stream_reason(st, SR_REASON_NONE);	/* that is over */
	if (sr_promise_bars(st)) {
		none_left(st);
		sr_stream_retire(st);
		return;
	}
	if (!sr_loop_runs() && hopeless(st)) {
		if (asks_once_more(st)) {
			sr_stream_notify(st, SR_NOTIFY_TX);
		} else {
			none_left(st);
			sr_stream_retire(st);
		}
		return;
	}
	atomic_store(&st->up.asked_ns, sr_now_ns());
	atomic_store(&st->up.verdict, VERDICT_PENDING);
	sr_stat_note(st);
	r = sr_loop_start();
	if (r < 0) {
		first_reason(st, sr_reason_of(r, SR_REASON_MEMORY));
		sr_upgrade_verdict(st, VERDICT_NO);
		return;
	}
	sr_stream_kick(st);
}

void sr_upgrade_used(struct sr_stream *st)
{
	unsigned f = sr_st_flags(st);

	sr_hold();
	if (sr_stat_orphans)
		sr_stat_adopt_later();
	if (!(f & SR_ST_USED)) {
		sr_st_set(st, SR_ST_USED);
		if (f & SR_ST_ACCEPT)
			sr_answer_look();
		if ((f & (SR_ST_ACCEPT | SR_ST_ANSWERED)) == SR_ST_ACCEPT &&
		    st->policy->upgrade != SR_LAZY)
			sr_listener_worth(st);
	}
	if (sr_conf.report[0])
		sr_upgrade_connected(st);
	if ((f & (SR_ST_CONNECT | SR_ST_ASKED)) == SR_ST_CONNECT &&
	    (st->policy->upgrade == SR_EAGER || st->policy->upgrade == SR_WAIT))
		ask_now(st);
	sr_release();
}

/* Returns the new value. */
static unsigned bump(atomic_uint *number)
{
	unsigned n = atomic_load_explicit(number, memory_order_relaxed) + 1;

	atomic_store_explicit(number, n, memory_order_relaxed);
	return n;
}

/* An accepting process that others would not find has to be ready a little before the
 * asker asks. */
void sr_upgrade_count(struct sr_stream *st)
{
	unsigned calls = bump(&st->out.calls), f = sr_st_flags(st);
	unsigned accepts = (f & (SR_ST_ACCEPT | SR_ST_ANSWERED | SR_ST_BARRED)) ==
			   SR_ST_ACCEPT;
	uint64_t bytes;

	if (!accepts && (f & (SR_ST_CONNECT | SR_ST_ASKED | SR_ST_BARRED)) !=
				SR_ST_CONNECT)
		return;
	bytes = atomic_load_explicit(&st->out.tcp, memory_order_relaxed) +
		atomic_load_explicit(&st->in.tcp, memory_order_relaxed);
	if (calls << accepts < SR_UPGRADE_MSGS &&
	    bytes << accepts < st->policy->upgrade_bytes)
		return;
	if (accepts)
		sr_listener_worth(st);
	else
		ask_now(st);
}

void sr_upgrade_verdict(struct sr_stream *st, int verdict)
{
	if (atomic_exchange(&st->up.verdict, verdict) != verdict)
		sr_stream_notify(st, SR_NOTIFY_CHANGE | SR_NOTIFY_VERDICT);
	sr_stat_note(st);
}

/* ---- which peer, which kind ---- */

/* The peer is on this host if its address is one of ours.  A connection to
 * oneself has the same address at both ends, but not always (127.0.0.1 to
 * 10.0.0.1).  (With ip_nonlocal_bind we may ask for a link of shared memory first,
 * in vain.) */
static bool on_this_host(const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer)
{
	struct sockaddr_storage plain;

	sr_addr_unmap(&plain, (const struct sockaddr *)peer);
	if (sr_addr_same_host(local, peer) ||
	    (plain.ss_family == AF_INET &&
	     (ntohl(((struct sockaddr_in *)&plain)->sin_addr.s_addr) >> 24) ==
		     127))
		return true;
	return sr_addr_is_local(&plain) != 0;
}

/* The k-th kind to try: shm only for this host, and there first.  NULL: there
 * is no such kind.  Any thread. */
static const struct sr_rendezvous *kind(struct sr_stream *st, unsigned k)
{
	const char *links = st->policy->links;
	bool here = strchr(links, 's') && on_this_host(&st->rare->local, &st->rare->peer);

	if (here && strcmp(links, "vs") == 0)
		links = "sv";
	for (; *links; links++) {
		if (*links == 's' && !here)
			continue;
		if (!k--)
			return *links == 's' ? &sr_rendezvous_shm : &sr_rendezvous_verbs;
	}
	return NULL;
}

static uint64_t again_ns(struct sr_stream *st)
{
	return st->policy->upgrade == SR_LAZY ? AGAIN_LAZY_NS : AGAIN_NS;
}

/* Why this kind will not do; NONE: it may. */
static enum sr_reason unlikely(struct sr_stream *st, const struct sr_rendezvous *ops,
			       const struct sockaddr_storage *peer)
{
	const char *why = ops->usable();

	/* In policy eager or wait a peer may be about to listen. */
	if (!why && st->policy->upgrade == SR_LAZY && ops->absent &&
	    ops->absent((const struct sockaddr *)peer))
		why = "no-listener";
	if (!why)
		return sr_peer_refuses(ops, peer);
	sr_peer_refused(peer, ops, sr_reason_find(why), again_ns(st));
	return sr_reason_find(why);
}

static void done(struct sr_ask *ask, struct sr_link *link, const char *reason);

/* If several kinds are impossible, the preferred kind's reason counts. */
static void first_reason(struct sr_stream *st, enum sr_reason reason)
{
	if (atomic_load(&st->reason) == SR_REASON_NONE)
		sr_stream_reason(st, reason);
}

/* Is no kind possible?  A process without a better stream never gets a service
 * thread: a second thread makes the program's system calls slower. */
static bool hopeless(struct sr_stream *st)
{
	const struct sr_rendezvous *ops;
	enum sr_reason why = SR_REASON_OFF;
	unsigned k = 0;

	if (!sr_stream_name(st))
		return false;
	sr_enter();
	while ((ops = kind(st, k++))) {
		why = unlikely(st, ops, &st->rare->peer);
		if (why == SR_REASON_NONE)
			break;
		first_reason(st, why);
	}
	sr_leave();
	if (why != SR_REASON_NONE)
		first_reason(st, why);
	return why != SR_REASON_NONE;
}

static void none_left(struct sr_stream *st)
{
	sr_inform("%s: plain: %s", sr_stream_label(st, (char[128]){ 0 }),
		sr_reason_word((enum sr_reason)atomic_load(&st->reason)) ?:
			"no kind of link");
	sr_upgrade_verdict(st, VERDICT_NO);
}

static void ask_next(struct sr_stream *st)
{
	struct sr_ask *ask = &st->rare->ask;
	const struct sr_rendezvous *ops;
	enum sr_reason why;
	int r;

	while ((ops = kind(st, st->up.kind)) != NULL) {
		st->up.kind++;
		why = unlikely(st, ops, &st->rare->peer);
		if (why == SR_REASON_NONE && !sr_prove_can(st, ops))
			why = SR_REASON_NO_LIBSODIUM;
		if (why != SR_REASON_NONE) {
			first_reason(st, why);
			continue;
		}
		*ask = (struct sr_ask){ .ops = ops, .name = st->rare->name,
					.policy = st->policy, .inode = sr_anchor_inode(st),
					.owner = st, .notify = sr_stream_on_link,
					.done = done, .told = sr_hold_told,
					.holds = sr_waits(st) };
		atomic_store(&st->hold.first, SR_FIRST_NONE);
		ask->name.link_no = st->link_no + 1;
		ask->tclass = ops == &sr_rendezvous_verbs ? sr_tclass_ask(st) : 0;
		/* The rendezvous uses the addresses on the wire. */
		sr_addr_unmap(&ask->src, (struct sockaddr *)&st->rare->local);
		sr_addr_unmap(&ask->dst, (struct sockaddr *)&st->rare->peer);
		st->up.asking = true;
		sr_stream_ref(st);
		sr_debug("%s: asks for a link: %s",
			 sr_stream_label(st, (char[128]){ 0 }), ops->name);
		r = ops->ask(ask);
		if (r == 0)
			return;
		st->up.asking = false;
		sr_stream_put(st);
		first_reason(st, sr_reason_of(r, SR_REASON_NO_DEVICE));
	}
	none_left(st);
}

/* The first reason counts, but a stream asks again for some of them, and then hears what it
 * is about, or that this has changed. */
static void note_answer(struct sr_stream *st, enum sr_reason reason)
{
	bool clear = reason == SR_REASON_FORK || reason == SR_REASON_USER ||
		     reason == SR_REASON_DEFERRED || reason == SR_REASON_OPTION;

	if (clear || atomic_load(&st->reason) == SR_REASON_DEFERRED)
		sr_stream_reason(st, reason);
	else
		first_reason(st, reason);
}

static void done(struct sr_ask *ask, struct sr_link *link, const char *reason)
{
	struct sr_stream *st = ask->owner;

	if (reason && sr_ask_again(ask, &reason))
		return;
	st->up.asking = false;
	st->up.heard |= ask->heard;
	if (link && (sr_st_flags(st) & (SR_ST_CLOSING | SR_ST_BARRED))) {
		link->ops->drop(link, "short");
		sr_link_put(link);
	} else if (link) {
		sr_peer_answered(&st->rare->peer, ask->ops);
		atomic_store(&st->hold.first, SR_FIRST_TAKEN);
		sr_prove_know(st);
		sr_attach_begin(st, link);
	} else {
		note_answer(st, sr_reason_find(reason ? reason : ""));
		if (reason && (!strcmp(reason, "no-listener") ||
			       (!strcmp(reason, "timeout") && !ask->heard) ||
			       !strcmp(reason, "no-device")))
			sr_peer_refused(&st->rare->peer, ask->ops, sr_reason_find(reason),
					again_ns(st));
		if (!(sr_st_flags(st) & SR_ST_CLOSING))
			ask_next(st);
		sr_stream_kick(st);
	}
	sr_stream_put(st);
}

/* Asks again at the next call after a pause, which doubles each time. */
static void ask_again(struct sr_stream *st, uint64_t pause_ns, unsigned *times, unsigned most)
{
	st->up.kind = 0;
	st->up.next_ask_ns = sr_now_ns() + (pause_ns << *times);
	if (*times < most)
		++*times;
	sr_st_clear(st, SR_ST_ASKED);
}

/* All that the link that broke has left behind is done.  (In EXPECT the receiver waits for
 * the peer's next byte, or for the next link.) */
static bool may_ask_again(struct sr_stream *st)
{
	return !sr_gate_shut(&st->out.gate) &&
	       (!sr_gate_shut(&st->in.gate) || sr_stream_rx(st) == SR_RX_EXPECT);
}

/* Soon after a link that was not in use yet, if the peer gave it up (it forked, say, and its
 * child goes on with the stream), or if its program was late to read what came before the
 * switch. */
static uint64_t break_ns(struct sr_stream *st)
{
	int why = atomic_load(&st->reason);
	bool soon = (why == SR_REASON_PEER_DROPPED || why == SR_REASON_TIMEOUT) &&
		    !st->out.had[0] && !st->in.had[0] && st->up.breaks < SOON_MAX;

	return soon ? AGAIN_LAZY_NS : sr_conf.again_ms * UINT64_C(1000000);
}

/* Some times more. */
static bool asks_the_silent(struct sr_stream *st)
{
	if (st->up.asks >= LISTENER_ASKS)
		return false;
	ask_again(st, again_ns(st), &st->up.asks, ASKS_MAX);
	return true;
}

/* RDMA's questions and answers may be lost. */
static bool was_by_datagrams(struct sr_stream *st)
{
	return st->rare->ask.ops == &sr_rendezvous_verbs;
}

/* False: never again.  That several processes hold the peer's end may be over at any
 * time.  The process that has it may not have joined the others yet: a forked child
 * on a busy machine, a worker that does something else first.  A peer without a listener may just have begun to listen, or its
 * keeper have ended, whom another follows.  The keeper says "user" if any worker lies to it,
 * and may hear of the right one later.  A peer whose process has answered, but not in
 * time, may have its program in another mood a moment later. */
static bool asks_once_more(struct sr_stream *st)
{
	switch (atomic_load(&st->reason)) {
	case SR_REASON_USER:
	case SR_REASON_TIMEOUT:
		if (!st->up.heard)
			return was_by_datagrams(st) && asks_the_silent(st);
		ask_again(st, AGAIN_LAZY_NS, &st->up.asks, ASKS_MAX);
		return true;
	case SR_REASON_NO_MATCH:
	case SR_REASON_DEFERRED:
	case SR_REASON_FORK:
		ask_again(st, AGAIN_LAZY_NS, &st->up.asks, ASKS_MAX);
		return true;
	case SR_REASON_NO_LISTENER:
		return asks_the_silent(st);
	}
	return false;
}

void sr_ask_progress(struct sr_stream *st)
{
	unsigned f = sr_st_flags(st);

	if (st->up.asking && (f & (SR_ST_CLOSING | SR_ST_BARRED))) {
		st->rare->ask.ops->cancel(&st->rare->ask);
		st->up.asking = false;
		sr_upgrade_verdict(st, VERDICT_NO);
		sr_stream_put(st);
		return;
	}
	if (sr_is_retired(st)) {	/* a call was about to ask */
		sr_upgrade_verdict(st, VERDICT_NO);
		return;
	}
	if ((f & SR_ST_CLOSING) || st->up.asking || st->up.att)
		return;
	if (f & SR_ST_BARRED) {
		if (atomic_load(&st->up.verdict) == VERDICT_PENDING)
			sr_upgrade_verdict(st, VERDICT_NO);
		sr_stream_retire(st);
		return;
	}
	if (!(f & SR_ST_ASKED))
		return;
	if (atomic_load(&st->up.verdict) == VERDICT_PENDING && !st->up.kind) {
		if (sr_stream_name(st))
			ask_next(st);
		else
			sr_upgrade_verdict(st, VERDICT_NO);
		if (st->up.asking)
			return;
	}
	if (st->link_no) {
		if (may_ask_again(st))
			ask_again(st, break_ns(st), &st->up.breaks, BREAKS_MAX);
	} else if (atomic_load(&st->up.verdict) != VERDICT_NO) {
		return;
	} else if (!asks_once_more(st)) {
		sr_stream_retire(st);
	}
}
