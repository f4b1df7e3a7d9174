/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * answer.c - owns the accepting side: requests for links, and which stream each
 * one means.  Must not know the handshake.
 *
 * A request may arrive before accept(2), or before the program's first call on the descriptor,
 * which shows that the program's I/O goes through the library; then the request waits a while.
 * Meanwhile the keeper asks the workers (keeper.h), and sends the asker to the worker that has
 * the stream.
 *
 * An asker whose program waits (hold.c) gets a first answer as soon as this process knows
 * whether waiting is worth while: "taken", the program has the stream; "coming", a thread waits
 * for the listener; "bytes", the kernel or our own policy waits for the client's bytes; "later",
 * the thread that would accept is itself held by policy wait, or none of these has become true
 * in a third of SOCKRAIL_ANSWER_MS.  "later" also follows "taken" or "coming" if policy wait
 * comes to hold that thread.
 *
 * No locks: only the service thread runs this, except sr_answer_look().
 */
#include "base/sys.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/owner.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/index.h"
#include "engine/observers.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/keeper.h"
#include "upgrade/upgrade.h"

#define ACCEPT_NS 1000000000ull	/* time for accept(2) and the first call */
#define FIND_NS 100000000ull	/* the same if there is no sign that a process will accept it */
#define TELL_NS 200000000ull	/* the same in a worker, which is asked about each stream */
#define PENDING_MAX 1024
#define SWEEP_MS 20
#define FIRST_MS 3		/* the same while an asker waits for a first answer */

struct pending {
	struct pending *next;
	struct sr_request *req;	/* NULL: the keeper asks, and this is a worker */
	struct sr_name name;
	uint64_t since;
	bool shared;		/* workers have been asked */
	bool foreign;		/* a worker that is not believed says that it has the stream */
};

static struct pending *pending;
static atomic_uint pending_count;
static struct sr_timer sweep_timer;
static struct sr_task look_task;

struct search {
	const struct sr_name *name;
	struct sr_stream *found;
	bool shared;		/* other processes hold the stream, too */
	bool waiting;		/* a listener has streams to be accepted */
	bool forked;		/* another process may hold a listener */
	bool foreign;		/* as in struct pending */
	/* For a first answer: */
	enum sr_holds holds;
	enum sr_proof proof;	/* of the link, if there is one */
	bool unproven;		/* the policy is lazy, and there is too little history for that */
	bool defers;		/* a listener waits for the client's bytes */
	bool awaited;		/* a thread waits for a listener */
	uintptr_t acceptor;	/* the thread that uses the listeners, 0: several */
	unsigned listeners;
};

static bool serves_port(struct sr_listener *l, unsigned port)
{
	return sr_listener_has(l, SR_LISTENER_OPENED) &&
	       sr_addr_port(sr_listener_addr(l)) == port;
}

static void look_at_listener(struct sr_listener *l, void *arg)
{
	uintptr_t acceptor = sr_load(&l->acceptor);
	struct sr_stream *st = l->socket;
	struct search *s = arg;

	if (!serves_port(l, s->name->dport))
		return;
	s->waiting |= sr_anchor_backlog(st) > 0;
	s->forked |= sr_is_shared(st);
	if (!s->holds)
		return;
	s->defers |= sr_anchor_defers(st);
	s->unproven |= s->proof == SR_PROOF_POLICY && st->policy->upgrade == SR_LAZY;
	s->awaited |= sr_load(&l->awaiting) > 0 || sr_sets.awaits(st);
	s->acceptor = s->listeners++ && s->acceptor != acceptor ? 0 : acceptor;
}

/* A stream that several processes hold is not found, as any of them may be the last. */
static void search_stream(struct search *s)
{
	s->found = sr_index_find(s->name);
	if (!s->found)
		return;
	s->shared = sr_is_shared(s->found) && !sr_is_retired(s->found) &&
		    !(sr_st_flags(s->found) & SR_ST_BARRED);
	if (!s->shared && sr_anchor_connected(s->found))
		return;
	sr_stream_put(s->found);
	s->found = NULL;
}

/* Finds the stream, and what the listeners of its port know. */
static void search_run(struct search *s)
{
	search_stream(s);
	sr_index_each_listener(look_at_listener, s);
}

static bool finish_earlier_links(struct sr_stream *st)
{
	bool yes;

	sr_stream_lock_and_progress(st);
	yes = sr_is_done_with_links(st);
	sr_stream_unlock(st);
	return yes;
}

static void look_for_defer(struct sr_listener *l, void *arg)
{
	struct search *s = arg;

	if (serves_port(l, s->name->dport))
		s->defers |= sr_anchor_defers(l->socket);
}

/* Does the kernel keep the connection from the program until its client has sent? */
static bool is_deferred(struct search *s)
{
	struct sockaddr_storage client, server;
	uint32_t uid;

	if (s->waiting)
		return false;
	sr_index_each_listener(look_for_defer, s);
	sr_name_addresses(s->name, &client, &server);
	return s->defers && sr_owner_of_peer(&client, &server, &uid) == 1;
}

static enum sr_reason missing_reason(struct search *s)
{
	return s->shared ? SR_REASON_FORK : s->foreign ? SR_REASON_USER :
	       is_deferred(s) ? SR_REASON_DEFERRED : SR_REASON_NO_MATCH;
}

/* Was the asker sent here because this worker had the stream, which is another process's by now?
 * (A server that forks for each stream accepts it, and closes it when its child has it.)  Such an
 * asker asks the keeper again, as if this process had ended. */
static bool has_left(struct search *s)
{
	return !s->shared && sr_keeper_is_elsewhere(s->name->dport);
}

/* The program has not accepted the stream yet, or another process has.  That process may have been
 * started for the stream a moment ago, and opens its device before it joins the keeper.  So the
 * request waits for a while, and longer if there is a sign that a process will accept it, and then
 * is refused.  Returns true if it has been refused. */
static bool refuse_late(struct sr_request *req, struct search *s, uint64_t age, bool shared)
{
	bool comes = !s->shared && (s->waiting || shared || s->forked);

	if (has_left(s)) {
		req->ops->refuse(req, sr_reason_word(SR_REASON_NO_LISTENER));
		return true;
	}
	if (age <= (comes ? ACCEPT_NS : FIND_NS))
		return false;
	req->ops->refuse(req, sr_reason_word(missing_reason(s)));
	return true;
}

/* ---- the first answer ---- */

/* Does policy wait hold the thread that would accept, or use, the stream? */
static bool is_held(const struct search *s)
{
	uintptr_t thread = s->found ? sr_load(&s->found->up.listener->acceptor) : s->acceptor;

	return thread && sr_index_is_held(thread);
}

/* The asker has been told "taken" or "coming", and holds its sender.  If a thread here was to
 * accept the stream and another process has taken it, the asker is let go. */
static enum sr_first next_answer(bool others, bool held, uint64_t age)
{
	bool taken_away = others && age > sr_conf.answer_ms * UINT64_C(1000000);

	return held || taken_away ? SR_FIRST_LATER : SR_FIRST_NONE;
}

/* Does the client have to send before there can be a link? */
static bool wants_bytes(struct search *s)
{
	return s->unproven || (s->defers && !s->found && !s->shared);
}

/* If other processes may have the stream, this one says nothing for them: the one that has it says
 * so when the asker has been sent there, which takes milliseconds. */
static enum sr_first first_answer(struct search *s, uint64_t age, bool shared)
{
	bool others = !s->found && (shared || s->forked || s->shared);
	bool held = !others && is_held(s);

	if (s->holds == SR_HOLDS_ON)
		return next_answer(others, held || s->unproven, age);
	if (wants_bytes(s))
		return SR_FIRST_BYTES;
	if (s->found || s->shared)
		return held ? SR_FIRST_LATER : SR_FIRST_TAKEN;
	if (s->awaited)
		return SR_FIRST_COMING;
	if (others)
		return SR_FIRST_NONE;
	return held || age > sr_conf.answer_ms * UINT64_C(1000000) / 3 ?
		       SR_FIRST_LATER : SR_FIRST_NONE;
}

/* True: the request is finished. */
static bool tell_asker_first(struct sr_request *req, struct search *s, uint64_t age,
			     bool shared)
{
	enum sr_first first = req->holds ? first_answer(s, age, shared) : SR_FIRST_NONE;

	return first != SR_FIRST_NONE && req->ops->tell(req, first);
}

/* Why the stream, however ready it is, gets no link; NULL: it may. */
static const char *refusal_of(struct sr_stream *st, struct sr_request *req)
{
	if (sr_sets.lent(st)) {
		sr_stream_reason(st, SR_REASON_EPOLL);
		return sr_reason_word(SR_REASON_EPOLL);
	}
	if ((sr_st_flags(st) & SR_ST_BARRED) || sr_is_retired(st))
		return sr_reason_word((enum sr_reason)sr_load(&st->reason)) ?: "refused";
	if (req->ops == &sr_rendezvous_verbs && sr_stream_name(st) &&
	    sr_path_rests(&st->rare->peer, sr_now_ns())) {
		sr_stream_reason(st, SR_REASON_PATH);
		return sr_reason_word(SR_REASON_PATH);
	}
	if (sr_prove_can(st, req->proof))
		return NULL;
	sr_stream_reason(st, SR_REASON_NO_LIBSODIUM);
	return sr_reason_word(SR_REASON_NO_LIBSODIUM);
}

static bool is_ready(struct sr_stream *st)
{
	return (sr_st_flags(st) & SR_ST_USED) && !sr_stream_att(st) && finish_earlier_links(st);
}

static void answer_accept(struct sr_request *req, struct sr_stream *st)
{
	const char *reason;
	struct sr_link *link;

	if (req->ops == &sr_rendezvous_verbs &&
	    (!sr_tclass_takes(st, req->tclass) || sr_promise_leads_away(st))) {
		sr_stream_reason(st, SR_REASON_OPTION);
		req->ops->refuse(req, sr_reason_word(SR_REASON_OPTION));
		return;
	}
	req->inode = sr_anchor_inode(st);
	req->policy = st->policy;
	sr_prove_know(st);
	link = req->ops->accept(req, st, sr_stream_on_link, &reason);
	if (link) {
		sr_attach_begin(st, link);
		return;
	}
	sr_stream_reason(st, sr_reason_find(reason));
	req->ops->refuse(req, reason);
}

/* age: ns since the request arrived.  shared, foreign: as in struct pending.  True: the
 * request is finished. */
static bool request_deal(struct sr_request *req, uint64_t age, bool shared, bool foreign)
{
	struct search s = { .name = &req->name, .holds = req->holds, .foreign = foreign,
			    .proof = req->proof };
	bool finished = true;
	const char *refusal;

	search_run(&s);
	if (!s.found)
		return refuse_late(req, &s, age, shared) ||
		       tell_asker_first(req, &s, age, shared);
	if (!sr_load(&s.found->up.asked_ns))
		sr_store(&s.found->up.asked_ns, sr_now_ns());
	sr_promise_bars(s.found);
	s.unproven = !sr_prove_may(s.found, req->proof);
	refusal = refusal_of(s.found, req);
	if (!refusal && (s.unproven || !is_ready(s.found))) {
		if (age > ACCEPT_NS)
			refusal = "timeout";
		else
			finished = tell_asker_first(req, &s, age, shared);
	} else if (!refusal) {
		answer_accept(req, s.found);
	}
	if (refusal)
		req->ops->refuse(req, refusal);
	sr_stream_put(s.found);
	return finished;
}

static void forget_pending(struct pending **p)
{
	struct pending *gone = *p;

	*p = gone->next;
	free(gone);
	atomic_fetch_sub_explicit(&pending_count, 1, memory_order_relaxed);
}

/* Answers the keeper's question about the stream of that name.  True: the question is settled;
 * false: ask again later. */
static bool answer_keeper(const struct sr_name *name, uint64_t age)
{
	struct search s = { .name = name };

	search_stream(&s);
	if (!s.found)
		return age > TELL_NS;
	if (!(sr_st_flags(s.found) & SR_ST_BARRED) && !sr_is_retired(s.found))
		sr_keeper_tell(name);
	sr_stream_put(s.found);
	return true;
}

static bool is_finished(const struct pending *p, uint64_t now)
{
	uint64_t age = now - p->since;

	return p->req ? request_deal(p->req, age, p->shared, p->foreign) :
			answer_keeper(&p->name, age);
}

/* Looks again soon, and sooner if an asker waits for a first answer. */
static void set_sweep(void)
{
	unsigned ms = SWEEP_MS;

	for (struct pending *p = pending; p; p = p->next)
		if (p->req && p->req->holds == SR_HOLDS_FIRST)
			ms = FIRST_MS;
	if (pending)
		sr_timer_set(&sweep_timer, ms);
}

static void look_at_pending(void)
{
	struct pending **p = &pending;
	uint64_t now = sr_now_ns();

	while (*p) {
		if (!is_finished(*p, now)) {
			p = &(*p)->next;
			continue;
		}
		forget_pending(p);
	}
	set_sweep();
}

static void on_timer(struct sr_timer *t)
{
	(void)t;
	look_at_pending();
}

static void on_task(struct sr_task *t)
{
	(void)t;
	look_at_pending();
}

void sr_answer_look(void)
{
	if (sr_load(&pending_count))
		sr_loop_post(&look_task);
}

static bool add_pending(struct sr_request *req, const struct sr_name *name, bool shared)
{
	struct pending *p;

	if (sr_load(&pending_count) >= PENDING_MAX)
		return false;
	p = malloc(sizeof(*p));
	if (!p)
		return false;
	*p = (struct pending){ pending, req, *name, sr_now_ns(), shared, false };
	pending = p;
	sr_count(&pending_count, 1);
	set_sweep();
	return true;
}

static void on_request(struct sr_request *req)
{
	if (!request_deal(req, 0, false, false) &&
	    !add_pending(req, &req->name, sr_keeper_ask(&req->name)))
		req->ops->refuse(req, "timeout");
}

void sr_answer_asked(const struct sr_name *name)
{
	if (!answer_keeper(name, 0))
		(void)add_pending(NULL, name, false);
}

static void on_gone(struct sr_request *req)
{
	struct pending **p = &pending;

	while (*p && (*p)->req != req)
		p = &(*p)->next;
	if (*p)
		forget_pending(p);
}

/* ---- several processes accept at one address ---- */

void sr_answer_found(const struct sr_name *name, const struct sr_there *there)
{
	char word[sizeof(SR_THERE) + SR_THERE_LEN];
	struct pending **p = &pending;
	struct sr_request *req;

	while (*p) {
		req = (*p)->req;
		if (!req || !sr_name_equal(&req->name, name) ||
		    !there->kind[req->ops->kind][0]) {
			p = &(*p)->next;
			continue;
		}
		forget_pending(p);
		sr_format(word, sizeof(word), SR_THERE " %s",
			  there->kind[req->ops->kind]);
		req->ops->refuse(req, word);
	}
}

void sr_answer_foreign(const struct sr_name *name)
{
	for (struct pending *p = pending; p; p = p->next)
		p->foreign |= p->req && sr_name_equal(&p->req->name, name);
}

void sr_answer_pending(void (*fn)(const struct sr_name *name, void *arg), void *arg)
{
	struct pending *p;

	for (p = pending; p; p = p->next) {
		if (!p->req)
			continue;
		p->shared = true;
		fn(&p->name, arg);
	}
}

void sr_answer_init(void)
{
	sr_link_request = on_request;
	sr_link_gone = on_gone;
	look_task.fn = on_task;
	sweep_timer.fn = on_timer;
}

void sr_answer_forget(void)
{
	pending = NULL;
	sr_store(&pending_count, 0);
	memset(&sweep_timer, 0, sizeof(sweep_timer));
	memset(&look_task, 0, sizeof(look_task));
	sr_keeper_forget();
	sr_answer_init();
}
