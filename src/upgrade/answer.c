/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * answer.c - owns the accepting side: requests for links, and which stream each
 * one means.  Must not know the handshake.
 *
 * A request may arrive before accept(2), or before the program's first call on
 * the descriptor (which shows that its I/O passes us); then it waits a while.
 * No locks: only the service thread runs this, except sr_answer_look() and what
 * listen(2) calls: sr_answer_never(), _listen() and _stop().
 */
#include "base/real.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"

#define ACCEPT_NS 1000000000ull	/* time for accept(2) and the first call */
#define FIND_NS 100000000ull	/* if no stream waits to be accepted */
#define PENDING_MAX 1024
#define SWEEP_MS 20

struct pending {
	struct pending *next;
	struct sr_request *req;
	uint64_t since;
};

static struct pending *pending;
static atomic_uint pending_count;
static struct sr_timer sweep_timer;
static struct sr_task look_task;

struct search {
	const struct sr_name *name;
	struct sr_stream *found;
	bool waiting;		/* a listener has streams to be accepted */
	bool forked;		/* another process may hold a listener */
};

/* The number of streams that wait to be accepted; 1 if it is not known.  (For a
 * listener tcp_get_info() of Linux puts it into tcpi_unacked.) */
static unsigned waiting(struct sr_stream *listener)
{
	struct tcp_info info = { .tcpi_unacked = 1 };
	socklen_t len = sizeof(info);

	if (sr_st_flags(listener) & SR_ST_CLOSING)
		return 0;
	sr_real.getsockopt(listener->anchor, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info.tcpi_unacked;
}

static void look_at_listener(struct sr_stream *st, struct search *s)
{
	if (sr_addr_port((struct sockaddr *)&st->local) != s->name->dport)
		return;
	s->waiting |= waiting(st) > 0;
	s->forked |= (sr_st_flags(st) & SR_ST_SHARED) != 0;
}

static void match(struct sr_stream *st, void *arg)
{
	struct search *s = arg;

	if (sr_st_flags(st) & SR_ST_OPENED)
		look_at_listener(st, s);
	if (s->found || !(sr_st_flags(st) & SR_ST_ACCEPT) ||
	    (sr_st_flags(st) & SR_ST_CLOSING) || !sr_stream_name(st) ||
	    !sr_name_equal(&st->name, s->name))
		return;
	s->found = sr_stream_ref(st);
}

static bool plain_enough(struct sr_stream *st)
{
	bool rx_ok, tx_ok;

	sr_lock(&st->rx_lock);
	sr_rx_progress(st);
	rx_ok = !sr_gate_shut(&st->in.gate) || st->rx.state == SR_RX_EXPECT;
	sr_lock(&st->tx_lock);
	sr_tx_progress(st);
	tx_ok = !sr_gate_shut(&st->out.gate);
	sr_unlock(&st->tx_lock);
	sr_unlock(&st->rx_lock);
	return rx_ok && tx_ok;
}

/* Not accepted yet, or by another process.  True: the request is finished. */
static bool not_found(struct sr_request *req, const struct search *s, uint64_t age)
{
	if (age <= (s->waiting ? ACCEPT_NS : FIND_NS))
		return false;
	req->ops->refuse(req, s->forked && !s->waiting ? "fork" : "no-match");
	return true;
}

/* age: ns since the request arrived.  True: the request is finished. */
static bool deal(struct sr_request *req, uint64_t age)
{
	struct search s = { .name = &req->name };
	bool last = age > ACCEPT_NS;
	const char *reason;
	struct sr_link *link;
	unsigned f;

	sr_streams_walk(match, &s);
	if (!s.found)
		return not_found(req, &s, age);
	if (!atomic_load(&s.found->up.asked_ns))
		atomic_store(&s.found->up.asked_ns, sr_now_ns());
	f = sr_st_flags(s.found);
	if ((f & SR_ST_BARRED) || sr_is_plain(s.found)) {
		req->ops->refuse(req, sr_reason_word((enum sr_reason)
				 atomic_load(&s.found->reason)) ?: "refused");
		goto dealt;
	}
	if (!(f & SR_ST_USED) || s.found->up.att || !plain_enough(s.found)) {
		if (last)
			req->ops->refuse(req, "timeout");
		sr_stream_put(s.found);
		return last;
	}
	link = req->ops->accept(req, s.found, sr_stream_on_link, &reason);
	if (link) {
		sr_tell("%s: link %s%s%s accepted",
			sr_stream_label(s.found, (char[128]){ 0 }),
			link->ops->name,
			link->device && *link->device ? ":" : "",
			link->device ? link->device : "");
		sr_attach_begin(s.found, link);
	} else {
		sr_stream_reason(s.found, sr_reason_find(reason));
	}
dealt:
	sr_stream_put(s.found);
	return true;
}

static void look(void)
{
	struct pending **p = &pending, *gone;
	uint64_t now = sr_now_ns();

	while (*p) {
		if (!deal((*p)->req, now - (*p)->since)) {
			p = &(*p)->next;
			continue;
		}
		gone = *p;
		*p = gone->next;
		free(gone);
		atomic_fetch_sub(&pending_count, 1);
	}
	if (pending)
		sr_timer_set(&sweep_timer, SWEEP_MS);
}

static void on_timer(struct sr_timer *t)
{
	(void)t;
	look();
}

static void on_task(struct sr_task *t)
{
	(void)t;
	look();
}

void sr_answer_look(void)
{
	if (atomic_load(&pending_count))
		sr_loop_post(&look_task);
}

static void on_request(struct sr_request *req)
{
	struct pending *p;

	if (deal(req, 0))
		return;
	p = atomic_load(&pending_count) < PENDING_MAX ? malloc(sizeof(*p)) :
							NULL;
	if (!p) {
		req->ops->refuse(req, "timeout");
		return;
	}
	*p = (struct pending){ pending, req, sr_now_ns() };
	pending = p;
	atomic_fetch_add(&pending_count, 1);
	sr_timer_set(&sweep_timer, SWEEP_MS);
}

static void on_gone(struct sr_request *req)
{
	struct pending **p = &pending, *gone;

	while (*p && (*p)->req != req)
		p = &(*p)->next;
	if (!*p)
		return;
	gone = *p;
	*p = gone->next;
	free(gone);
	atomic_fetch_sub(&pending_count, 1);
}

/* For the report, if no other attempt has a reason. */
static void on_refused(const struct sr_name *name, const char *reason)
{
	struct search s = { .name = name };

	sr_streams_walk(match, &s);
	if (!s.found)
		return;
	if (!s.found->up.att && atomic_load(&s.found->reason) == SR_REASON_NONE)
		sr_stream_reason(s.found, sr_reason_find(reason));
	sr_stream_put(s.found);
}

void sr_answer_init(void)
{
	sr_link_request = on_request;
	sr_link_gone = on_gone;
	sr_link_refused = on_refused;
	look_task.fn = on_task;
	sweep_timer.fn = on_timer;
}

/* ---- listening ---- */

/* The reason why links of this kind (0: shm, 1: verbs) are impossible, or NONE.
 * For verbs this looks for devices. */
static enum sr_reason impossible(int i, const struct sr_link_ops *ops)
{
	return strchr(sr_conf.links, i ? 'v' : 's') ?
		       sr_reason_find(ops->usable()) : SR_REASON_OFF;
}

/* NONE: the rendezvous is open. */
static enum sr_reason listen_on(struct sr_stream *st, int i,
				const struct sr_link_ops *ops)
{
	enum sr_reason why;
	int r;

	if (st->up.listener[i])
		return SR_REASON_NONE;
	why = impossible(i, ops);
	if (why != SR_REASON_NONE)
		return why;
	r = ops->listen((struct sockaddr *)&st->local, &st->up.listener[i]);
	if (r < 0) {
		st->up.listener[i] = NULL;
		sr_tell("no rendezvous for %s links: %s", ops->name, sr_errno_name(-r));
		why = sr_reason_of(r, SR_REASON_NO_LISTENER);
	}
	return why;
}

/* Of both kinds together.  A kind that is off counts only if both are. */
static enum sr_reason both(enum sr_reason shm, enum sr_reason verbs)
{
	if (shm == SR_REASON_NONE || verbs == SR_REASON_NONE)
		return SR_REASON_NONE;
	return verbs != SR_REASON_OFF ? verbs : shm;
}

void sr_answer_unavailable(struct sr_stream *st, enum sr_reason why)
{
	sr_stream_reason(st, why);
	sr_st_set(st, SR_ST_NO_RENDEZVOUS);
}

/* After fork a listener's rendezvous belongs to the parent. */
static void forget_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	if (sr_st_flags(st) & SR_ST_LISTEN)
		sr_answer_unavailable(st, SR_REASON_FORK);
}

void sr_answer_forget(void)
{
	pending = NULL;
	atomic_store(&pending_count, 0);
	memset(&sweep_timer, 0, sizeof(sweep_timer));
	memset(&look_task, 0, sizeof(look_task));
	sr_streams_walk(forget_one, NULL);
	sr_answer_init();
}

void sr_answer_open(struct sr_stream *st)
{
	enum sr_reason shm = listen_on(st, 0, &sr_link_shm);
	enum sr_reason verbs = listen_on(st, 1, &sr_link_verbs);
	enum sr_reason why = both(shm, verbs);

	if (why != SR_REASON_NONE)
		sr_answer_unavailable(st, why);
	if (!(sr_st_set(st, SR_ST_OPENED) & SR_ST_OPENED))
		sr_stream_notify(st, SR_NOTIFY_RX);
}

enum sr_reason sr_answer_never(void)
{
	enum sr_reason why;

	sr_enter();
	why = both(impossible(0, &sr_link_shm), impossible(1, &sr_link_verbs));
	sr_leave();
	return why;
}

static bool opened(struct sr_stream *st)
{
	return sr_st_flags(st) & SR_ST_OPENED;
}

/* wait: return only when the rendezvous is open.  The limit is that of policy
 * wait: opening an RDMA device takes some milliseconds, once in a process, but
 * its driver may hang. */
void sr_answer_listen(struct sr_stream *st, int fd, bool wait)
{
	socklen_t len = sizeof(st->local);

	if (getsockname(fd, (struct sockaddr *)&st->local, &len) < 0)
		return;
	sr_st_set(st, SR_ST_LISTEN);
	sr_stream_kick(st);
	if (wait)
		sr_stream_await(st, SR_NOTIFY_RX, opened,
				sr_now_ns() +
					sr_conf.upgrade_wait_ms * 1000000ull);
}

void sr_answer_unlisten(struct sr_stream *st)
{
	if (st->up.listener[0])
		sr_link_shm.unlisten(st->up.listener[0]);
	if (st->up.listener[1])
		sr_link_verbs.unlisten(st->up.listener[1]);
	st->up.listener[0] = st->up.listener[1] = NULL;
}

void sr_answer_stop(struct sr_stream *st)
{
	sr_st_clear(st, SR_ST_LISTEN | SR_ST_OPENED);
	sr_stream_kick(st);
}
