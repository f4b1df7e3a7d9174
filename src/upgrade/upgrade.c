/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * upgrade.c - owns the connecting side: when to ask for a link, which peer, and for which kind.
 * Must not know the handshake.  No locks: the members are atomic, or only the service thread
 * uses them.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/now.h"
#include "engine/asker.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/observers.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"

/* The pause before a stream asks again if its peer had no listener, or no process of the peer
 * had the stream yet: a process that accepts opens its rendezvous with its first stream. */
#define AGAIN_SOON_NS 50000000ull
/* The second pause without a listener, of which the third one is twice as long: a peer may just
 * have begun to listen.  Also how long a peer that does not answer at all is left alone.  Not in
 * policy lazy, where a peer has hardly just begun to listen, and a stream that waits to ask
 * costs more than a retired one. */
#define AGAIN_LATE_NS 1000000000ull
#define ASKS_MAX 8		/* times that the pause doubles */
#define BREAKS_MAX 5		/* the same after links that broke: again_ms to 32 times that */
#define SOON_MAX 4		/* pauses of AGAIN_SOON_NS, doubled, after links never used */
#define LENT_ASKS 6		/* times to ask again if others, too, have the peer's epoll set */
#define LISTENER_ASKS 3		/* times to ask again if nobody listened */
#define LISTENER_ASKS_LAZY 2	/* in policy lazy */
/* A child's stream may be over after so many calls, and an answer of so many bytes.  (A second
 * request shows that it is not.  An asker that got no answer until then asks again after
 * AGAIN_SOON_NS.) */
#define BRIEF_CALLS 2
#define BRIEF_BYTES 16384

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

static bool rule_out_kinds(struct sr_stream *st);
static void say_plain(struct sr_stream *st);
static void first_reason(struct sr_stream *st, enum sr_reason reason);
static bool pause_if_worth(struct sr_stream *st, enum sr_ask_state until_due);

/* The stream, which is CLAIMED, stays plain. */
static void end_asking(struct sr_stream *st)
{
	say_plain(st);
	sr_ask_move(st, SR_ASK_OVER);
	sr_stream_retire(st);
}

/* If another process has the stream, too, or an epoll set that it is in, notes that as the reason
 * why the stream does not ask now, and returns true.  (That process may end.) */
static bool defer_to_others(struct sr_stream *st)
{
	if (sr_is_shared(st)) {
		first_reason(st, SR_REASON_FORK);
		return true;
	}
	if (!sr_sets.lent(st))
		return false;
	first_reason(st, SR_REASON_EPOLL);
	sr_store(&st->up.next_ask_ns, sr_now_ns() + AGAIN_SOON_NS);	/* to look costs a lock */
	return true;
}

/* True: the stream is CLAIMED. */
static bool claim_ask(struct sr_stream *st)
{
	uint64_t next_ns = sr_load(&st->up.next_ask_ns);
	int why = sr_load(&st->reason);

	if ((next_ns && sr_now_coarse_ns() < next_ns) || defer_to_others(st) ||
	    !sr_loop_may_start() || (sr_st_flags(st) & (SR_ST_BARRED | SR_ST_HALF)) ||
	    !sr_upgrade_connected(st) || !sr_ask_move(st, SR_ASK_CLAIMED))
		return false;
	if (!sr_load(&st->up.asked_ns) && (why == SR_REASON_FORK || why == SR_REASON_EPOLL))
		sr_stream_reason(st, SR_REASON_NONE);	/* the cause has gone */
	return true;
}

/* Which epoll set will wait for the stream, as far as is known now: the one that it is in, or that
 * the calling thread uses, or has made.  A wrong guess costs a wake-up.
 * If none is known, any thread may come to read the stream.  To share a carrier would then wake
 * threads that wait for other streams, and save no packets, because a thread that waits for one
 * stream has one message at a time to send.
 * In a nested set an arrival on a shared carrier would cost a wake-up and a write each time
 * (verbs/cq.c). */
static void note_domain(struct sr_stream *st)
{
	bool nested;
	const struct sr_epoll *set = sr_sets.domain(st, &nested);

	sr_store(&st->up.domain, (const void *)set);
	sr_store(&st->up.alone, nested);
}

static void ask_now(struct sr_stream *st)
{
	int r;

	if (!claim_ask(st))
		return;
	if (sr_promise_bars(st)) {
		end_asking(st);
		return;
	}
	if (!sr_loop_runs() && rule_out_kinds(st)) {
		if (pause_if_worth(st, SR_ASK_IDLE))
			sr_stream_notify(st, SR_NOTIFY_TX | SR_NOTIFY_VERDICT);
		else
			end_asking(st);
		return;
	}
	sr_store(&st->up.asked_ns, sr_now_ns());
	note_domain(st);
	r = sr_loop_start();
	if (r < 0) {
		first_reason(st, sr_reason_of(r, SR_REASON_MEMORY));
		sr_ask_move(st, SR_ASK_OVER);
		return;
	}
	sr_ask_move(st, SR_ASK_WANTED);
	sr_stream_kick(st);
}

/* Policy eager in the child of a fork: may this call be the receive or the answer of its only
 * request?  Then the child would end before a service thread has begun.  sent: bytes; 0: the call
 * receives. */
static bool is_brief(struct sr_stream *st, size_t sent)
{
	unsigned calls = sr_load(&st->out.calls);
	int unread = 0;

	if (!(sr_st_flags(st) & SR_ST_HEIR) || st->policy->upgrade != SR_EAGER)
		return false;
	if (sent)
		return calls < BRIEF_CALLS && sent <= BRIEF_BYTES;
	return !calls && sr_sys_ioctl(sr_load(&st->anchor), SIOCINQ, &unread) == 0 && unread > 0;
}

static void note_use(struct sr_stream *st, bool moves, size_t sent)
{
	unsigned f = sr_st_flags(st);

	sr_hold();
	if (sr_stat_orphans)
		sr_stat_adopt_later();
	if (!(f & SR_ST_USED)) {
		sr_st_set(st, SR_ST_USED);
		if (f & SR_ST_ACCEPT)
			sr_answer_look();
	}
	if ((f & (SR_ST_ACCEPT | SR_ST_ANSWERED)) == SR_ST_ACCEPT &&
	    st->policy->upgrade != SR_LAZY && !(moves && is_brief(st, sent)))
		sr_listener_worth(st);
	if (sr_conf.report[0])
		sr_upgrade_connected(st);
	if ((f & SR_ST_CONNECT) && sr_ask_is_due(st) &&
	    (st->policy->upgrade == SR_EAGER || st->policy->upgrade == SR_WAIT))
		ask_now(st);
	sr_release();
}

void sr_upgrade_used(struct sr_stream *st)
{
	note_use(st, false, 0);
}

void sr_upgrade_moves(struct sr_stream *st, size_t sent)
{
	note_use(st, true, sent);
}

/* Returns the new value. */
static unsigned bump_count(atomic_uint *number)
{
	unsigned n = sr_load(number) + 1;

	sr_store(number, n);
	return n;
}

/* The answerer needs its rendezvous a little before the asker asks, so it begins at half the
 * limits. */
void sr_upgrade_count(struct sr_stream *st)
{
	unsigned calls = bump_count(&st->out.calls), f = sr_st_flags(st);
	unsigned accepts = (f & (SR_ST_ACCEPT | SR_ST_ANSWERED | SR_ST_BARRED)) ==
			   SR_ST_ACCEPT;
	uint64_t bytes;

	if (!accepts && (f & (SR_ST_CONNECT | SR_ST_BARRED)) != SR_ST_CONNECT)
		return;
	bytes = sr_load(&st->out.tcp) +
		sr_load(&st->in.tcp);
	if (calls << accepts < SR_UPGRADE_MSGS &&
	    bytes << accepts < st->policy->upgrade_bytes)
		return;
	if (accepts)
		sr_listener_worth(st);
	else if (sr_ask_is_due(st))
		ask_now(st);
}

/* ---- which peer, which kind ---- */

/* The peer is on this host if its address is one of ours.  A connection within the host often
 * has one address at both ends, but not always (127.0.0.1 to 10.0.0.1).  (With ip_nonlocal_bind
 * the answer may be wrong: then the stream asks for shared memory first, and gets none.) */
static bool is_on_this_host(const struct sockaddr_storage *local,
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

/* May the peer be in another network namespace of this host?  It has to prove itself by the
 * history, which only policy lazy waits for. */
static bool may_be_next_door(struct sr_stream *st)
{
	return sr_conf.dir[0] && st->policy->upgrade == SR_LAZY;
}

/* The k-th kind to try: shm only for this host, and there first.  NULL: there
 * is no such kind.  Any thread. */
static const struct sr_rendezvous *kind_to_try(struct sr_stream *st, unsigned k)
{
	const char *links = st->policy->links;
	bool here = strchr(links, 's') && (may_be_next_door(st) ||
					   is_on_this_host(&st->rare->local, &st->rare->peer));

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

/* How long this process does not ask the peer, the first time.  Asking a peer without a listener
 * costs little, because the refusal comes at once. */
static uint64_t left_alone_ns(struct sr_stream *st, enum sr_reason why)
{
	return st->policy->upgrade == SR_LAZY || why == SR_REASON_NO_LISTENER ? AGAIN_SOON_NS :
										AGAIN_LATE_NS;
}

/* Why this kind will not do; NONE: it may. */
static enum sr_reason refusal_of_kind(struct sr_stream *st, const struct sr_rendezvous *ops,
			       const struct sockaddr_storage *peer)
{
	enum sr_reason why = sr_reason_find(ops->usable());

	/* In policy eager or wait a peer may be about to listen. */
	if (why == SR_REASON_NONE && st->policy->upgrade == SR_LAZY && ops->absent &&
	    ops->absent((const struct sockaddr *)peer))
		why = SR_REASON_NO_LISTENER;
	if (why == SR_REASON_NONE && ops == &sr_rendezvous_verbs &&
	    sr_path_rests(peer, sr_now_ns()))
		return SR_REASON_PATH;
	if (why == SR_REASON_NONE)
		return sr_peer_pause_reason(ops, peer);
	sr_peer_refused(peer, ops, why, left_alone_ns(st, why));
	return why;
}

static enum sr_proof proof_of(struct sr_stream *st, const struct sr_rendezvous *ops)
{
	if (ops != &sr_rendezvous_shm)
		return SR_PROOF_POLICY;
	return !sr_conf.dir[0] || is_on_this_host(&st->rare->local, &st->rare->peer) ?
		       SR_PROOF_NONE : SR_PROOF_ALWAYS;
}

static void ask_done(struct sr_ask *ask, struct sr_link *link, const char *reason);

static void first_reason(struct sr_stream *st, enum sr_reason reason)
{
	if (sr_load(&st->reason) == SR_REASON_NONE)
		sr_stream_reason(st, reason);
}

/* If several kinds are impossible, the preferred kind's outcome counts, and its reason. */
static void first_outcome(struct sr_stream *st, enum sr_reason why)
{
	if (sr_load(&st->up.outcome) == SR_REASON_NONE)
		sr_store(&st->up.outcome, (int)why);
	first_reason(st, why);
}

/* Is no kind possible?  A process without a better stream never gets a service
 * thread: a second thread makes the program's system calls slower. */
static bool rule_out_kinds(struct sr_stream *st)
{
	const struct sr_rendezvous *ops;
	enum sr_reason why = SR_REASON_OFF;
	unsigned k = 0;

	if (!sr_stream_name(st))
		return false;
	sr_enter();
	while ((ops = kind_to_try(st, k++))) {
		why = refusal_of_kind(st, ops, &st->rare->peer);
		if (why == SR_REASON_NONE)
			break;
		first_outcome(st, why);
	}
	sr_leave();
	if (why != SR_REASON_NONE)
		first_outcome(st, why);
	return why != SR_REASON_NONE;
}

static void say_plain(struct sr_stream *st)
{
	sr_inform("%s: plain: %s", sr_stream_label(st, (char[128]){ 0 }),
		sr_reason_word((enum sr_reason)sr_load(&st->reason)) ?:
			"no kind of link");
}

/* Fills in what the stream asks of that kind of link, but for the addresses. */
static void ask_fill(struct sr_stream *st, struct sr_ask *ask, const struct sr_rendezvous *ops)
{
	*ask = (struct sr_ask){
		.ops = ops, .name = st->rare->name, .proof = proof_of(st, ops),
		.policy = st->policy, .inode = sr_anchor_inode(st),
		.owner = st, .notify = sr_stream_on_link, .done = ask_done, .told = sr_hold_told,
		.holds = sr_waits(st), .domain = sr_load(&st->up.domain),
		.alone = sr_load(&st->up.alone),
		.tclass = ops == &sr_rendezvous_verbs ? sr_tclass_ask(st) : 0,
	};

	ask->name.link_no = st->link_no + 1;
}

/* Asks for the next kind of link that may do.  False: there is none. */
static bool ask_next(struct sr_stream *st)
{
	struct sr_ask *ask = &st->rare->ask;
	const struct sr_rendezvous *ops;
	enum sr_reason why;
	int r;

	while ((ops = kind_to_try(st, st->up.kind)) != NULL) {
		st->up.kind++;
		why = refusal_of_kind(st, ops, &st->rare->peer);
		if (why == SR_REASON_NONE && !sr_prove_can(st, proof_of(st, ops)))
			why = SR_REASON_NO_LIBSODIUM;
		if (why == SR_REASON_NONE && ops == &sr_rendezvous_verbs &&
		    sr_promise_leads_away(st))
			why = SR_REASON_OPTION;
		if (why != SR_REASON_NONE) {
			first_outcome(st, why);
			continue;
		}
		ask_fill(st, ask, ops);
		sr_prove_know(st);
		sr_publish(&st->hold.first, SR_FIRST_NONE); /* pairs as hold.h says */
		/* The rendezvous uses the addresses on the wire. */
		sr_addr_unmap(&ask->src, (struct sockaddr *)&st->rare->local);
		sr_addr_unmap(&ask->dst, (struct sockaddr *)&st->rare->peer);
		sr_stream_ref(st);
		sr_debug("%s: asks for a link: %s",
			 sr_stream_label(st, (char[128]){ 0 }), ops->name);
		r = ops->ask(ask);
		if (r == 0)
			return true;
		sr_stream_put(st);
		first_outcome(st, sr_reason_of(r, SR_REASON_NO_DEVICE));
	}
	say_plain(st);
	return false;
}

/* The outcome of the first kind of link counts.  But for some reasons a stream asks again, and then
 * the last answer counts: it says what the peer waits for now, or that it waits no more. */
static void note_answer(struct sr_stream *st, enum sr_reason why)
{
	bool clear = why == SR_REASON_FORK || why == SR_REASON_USER ||
		     why == SR_REASON_DEFERRED || why == SR_REASON_OPTION;

	if (clear || sr_load(&st->up.outcome) == SR_REASON_DEFERRED)
		sr_ask_ended(st, why);
	else
		first_outcome(st, why);
}

/* No kind is left to be asked for. */
static void ask_failed(struct sr_stream *st)
{
	if (st->link_no)
		sr_ask_move(st, SR_ASK_BROKEN);
	else if (!pause_if_worth(st, SR_ASK_PAUSED))
		sr_ask_move(st, SR_ASK_OVER);
}

static void ask_done(struct sr_ask *ask, struct sr_link *link, const char *reason)
{
	struct sr_stream *st = ask->owner;
	enum sr_reason why;

	if (reason && sr_ask_again(ask, &reason))
		return;
	why = sr_reason_find(reason);
	st->up.heard |= ask->heard;
	if (link && (sr_st_flags(st) & (SR_ST_CLOSING | SR_ST_BARRED))) {
		link->ops->drop(link, "short");
		sr_link_put(link);
		sr_ask_move(st, SR_ASK_OVER);
	} else if (link) {
		sr_peer_answered(&st->rare->peer, ask->ops);
		sr_publish(&st->hold.first, SR_FIRST_TAKEN); /* pairs as hold.h says */
		sr_attach_begin(st, link);
	} else {
		note_answer(st, why);
		if (why == SR_REASON_NO_LISTENER || why == SR_REASON_NO_DEVICE ||
		    (why == SR_REASON_TIMEOUT && !ask->heard))
			sr_peer_refused(&st->rare->peer, ask->ops, why, left_alone_ns(st, why));
		if (sr_st_flags(st) & SR_ST_CLOSING)
			sr_ask_move(st, SR_ASK_OVER);
		else if (!ask_next(st))
			ask_failed(st);
		sr_stream_kick(st);
	}
	sr_stream_put(st);
}

/* The next call after the pause asks.  The pause doubles each time. */
static void pause_asks(struct sr_stream *st, uint64_t pause_ns, unsigned *times, unsigned most)
{
	sr_store(&st->up.next_ask_ns, sr_now_ns() + (pause_ns << *times));
	if (*times < most)
		++*times;
}

static bool may_ask_again(struct sr_stream *st)
{
	bool yes;

	sr_stream_lock(st);
	yes = sr_is_done_with_links(st);
	sr_stream_unlock(st);
	return yes;
}

/* The pause after a link that broke.  It is short if the link was not in use yet, and the peer
 * gave it up (it forked, say, and its child goes on with the stream) or its program was late to
 * read what came before the switch. */
static uint64_t break_ns(struct sr_stream *st)
{
	int why = sr_load(&st->up.outcome);
	bool soon = (why == SR_REASON_PEER_DROPPED || why == SR_REASON_TIMEOUT) &&
		    !st->out.had[0] && !st->in.had[0] && st->up.breaks < SOON_MAX;

	return soon ? AGAIN_SOON_NS : sr_conf.again_ms * UINT64_C(1000000);
}

/* The pause after the answer "no-listener", or after no answer.  0: the stream asks no more.
 * (pause_asks() doubles the pause each time.) */
static uint64_t silent_ns(struct sr_stream *st)
{
	bool lazy = st->policy->upgrade == SR_LAZY;

	if (st->up.asks >= (lazy ? LISTENER_ASKS_LAZY : LISTENER_ASKS))
		return 0;
	return lazy || !st->up.asks ? AGAIN_SOON_NS : AGAIN_LATE_NS / 2;
}

/* Was the last request made over RDMA, where requests and answers may be lost? */
static bool was_by_datagrams(struct sr_stream *st)
{
	return st->rare->ask.ops == &sr_rendezvous_verbs;
}

/*
 * The pause after which the peer is asked again; 0: never.  By what the last answer was:
 *   fork         several processes hold the peer's end; all but one may close it at any time
 *   no-match     the process that has the stream may not have joined its keeper yet: a forked
 *                child on a busy machine, a worker that does something else first
 *   no-listener  the peer may just have begun to listen; or its keeper has ended, and another
 *                process is about to take its place
 *   user         the keeper says so if any worker lies to it; the right one may come later
 *   timeout      the peer's process has answered, but its program did not use the stream in time
 *   epoll        another process has the peer's epoll set, too: for ever, or until a daemon's
 *                first process has ended
 */
static uint64_t pause_after(struct sr_stream *st)
{
	switch (sr_load(&st->up.outcome)) {
	case SR_REASON_USER:
	case SR_REASON_TIMEOUT:
		return st->up.heard ? AGAIN_SOON_NS : was_by_datagrams(st) ? silent_ns(st) : 0;
	case SR_REASON_NO_MATCH:
	case SR_REASON_DEFERRED:
	case SR_REASON_FORK:
		return AGAIN_SOON_NS;
	case SR_REASON_EPOLL:
		return st->up.asks < LENT_ASKS ? AGAIN_SOON_NS : 0;
	case SR_REASON_NO_LISTENER:
		return silent_ns(st);
	case SR_REASON_PATH:
		return SR_PATH_REST_NS;
	}
	return 0;
}

/* False: the stream keeps its state, because asking again would be no use. */
static bool pause_if_worth(struct sr_stream *st, enum sr_ask_state until_due)
{
	uint64_t ns = pause_after(st);

	if (!ns)
		return false;
	sr_debug("%s: asks again in %llu ms", sr_stream_label(st, (char[128]){ 0 }),
		 (unsigned long long)((ns << st->up.asks) / 1000000));
	pause_asks(st, ns, &st->up.asks, ASKS_MAX);
	sr_ask_move(st, until_due);
	return true;
}

static void ask_withdraw(struct sr_stream *st)
{
	st->rare->ask.ops->cancel(&st->rare->ask);
	sr_ask_move(st, SR_ASK_OVER);
	sr_stream_put(st);
}

static void begin_to_ask(struct sr_stream *st)
{
	sr_ask_move(st, SR_ASK_ASKING);
	st->up.kind = 0;
	if (!sr_stream_name(st) || !ask_next(st))
		ask_failed(st);
}

static void ask_on(struct sr_stream *st)
{
	if (sr_load(&st->up.state) == SR_ASK_WANTED)
		begin_to_ask(st);
	if (sr_load(&st->up.state) == SR_ASK_BROKEN && may_ask_again(st)) {
		pause_asks(st, break_ns(st), &st->up.breaks, BREAKS_MAX);
		sr_ask_move(st, SR_ASK_PAUSED);
	}
	if (sr_load(&st->up.state) == SR_ASK_OVER)
		sr_stream_retire(st);
}

void sr_ask_progress(struct sr_stream *st)
{
	/* pair barred: sr_stream_make_plain(); the state was changed before */
	unsigned ends = sr_look(&st->flags) & (SR_ST_CLOSING | SR_ST_BARRED);
	int state = sr_load(&st->up.state);

	if (state == SR_ASK_ASKING && ends) {
		ask_withdraw(st);
		return;
	}
	if (state == SR_ASK_ASKING || sr_stream_att(st) || (ends & SR_ST_CLOSING))
		return;
	if (!ends && !sr_is_retired(st)) {
		ask_on(st);
		return;
	}
	if (sr_load(&st->up.state) == SR_ASK_WANTED)	/* a call was about to ask */
		sr_ask_move(st, SR_ASK_OVER);
	sr_stream_retire(st);
}
