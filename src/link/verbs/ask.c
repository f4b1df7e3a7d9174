/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ask.c - the asker's part of cm.c: its id resolves the address, then the route, and connects.
 * Unless SOCKRAIL_CARRIERS is 0, an ask first tries to do without a connection of its own (reuse.c).
 *
 * All in the loop.  No locks but the carrier's, when the connection is established.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/report.h"

enum {
	RESOLVE_MS = 2000,
	ASK_LOOKS = 200,	/* 5 s all in all */
	LOOK_MS = 25,
	FLUSHED_LOOKS = 8,	/* 200 ms: siw's kernel needs some */
	SILENT_LOOKS = 60,	/* 1.5 s: an answerer needs 1 s at most (ACCEPT_NS) */
	RETRIES = 3,
	REJ_NO_SERVICE = 8,	/* IB CM: invalid service ID */
	REJ_CONSUMER = 28,	/* a process says no, or has ended */
	PRIVILEGED = 1024,	/* PROT_SOCK of the kernel */
};

struct sr_vask *sr_vasks;

/* The CM's, of the answerer. */
uint16_t sr_vask_port(struct sr_vask *a)
{
	uint16_t port = sr_addr_port((struct sockaddr *)&a->ask->dst);

	if (a->there[a->iwarp])
		return a->there[a->iwarp];
	return a->iwarp || a->moved ? sr_vcm_iwarp_port(port) : port;
}

static void ask_release(struct sr_vask *a)
{
	sr_timer_cancel(&a->timer);
	a->waits = false;
	if (a->opened) {
		sr_vreuse_leave(a);
	} else if (a->link) {
		struct sr_vlink *l = a->link;

		a->link = NULL;
		l->c->make.made = NULL;
		sr_vcarrier_close(l->c, false);
		sr_link_put(&l->link);
	} else if (a->id) {
		sr_vlib.cm_destroy_id(a->id);
	}
	a->id = NULL;
	a->dev = NULL;
	a->connecting = false;
	a->flushed = 0;
}

void sr_vask_free(struct sr_vask *a)
{
	const bool leads = a->id && sr_vask_shares(a);	/* others may wait for it */

	ask_release(a);
	if (leads)
		sr_vreuse_wake(a);
	a->ask->kind = NULL;
	SR_LIST_DROP(a);
	free(a);
}

void sr_vask_fail(struct sr_vask *a, const char *reason)
{
	struct sr_ask *ask = a->ask;

	sr_debug("verbs: asking failed: %s", reason);
	sr_vask_free(a);
	ask->done(ask, NULL, reason);
}

struct sr_vlink_for sr_vask_link_for(struct sr_vask *a)
{
	return (struct sr_vlink_for){
		.policy = a->ask->policy,
		.shares = sr_vask_shares(a),
		.role = SR_ROLE_ASKER,
		.link_no = a->ask->name.link_no,
		.owner = a->ask->owner,
		.notify = a->ask->notify,
	};
}

struct sr_question sr_vask_question(struct sr_vask *a)
{
	return (struct sr_question){.name = a->ask->name, .holds = a->holds,
				    .tclass = a->ask->tclass};
}

/* ---- asking ---- */

static int ask_resolve(struct sr_vask *a)
{
	struct sockaddr_storage from, to;
	uint16_t port = sr_vask_port(a);

	if (sr_vask_shares(a) && sr_vreuse_or_wait(a))
		return 0;
	a->waits = false;
	sr_vcm_addr(&from, (struct sockaddr *)&a->ask->src, 0);
	sr_vcm_addr(&to, (struct sockaddr *)&a->ask->dst, port);
	a->id = sr_vcm_id(&a->cm);
	if (!a->id ||
	    sr_vlib.cm_resolve_addr(a->id, (struct sockaddr *)&from,
				    (struct sockaddr *)&to, RESOLVE_MS))
		return -errno;
	return 0;
}

static void ask_look(struct sr_timer *t);
static void ask_event(struct sr_vcm *cm, const struct sr_vcm_event *e);

int sr_verbs_ask(struct sr_ask *ask)
{
	unsigned kinds = sr_verbs_devices();
	int err = sr_vcm_open();
	struct sr_vask *a;

	if (err || !kinds)
		return err ? err : -ENODEV;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->cm.event = ask_event;
	a->ask = ask;
	a->holds = ask->holds ? SR_HOLDS_FIRST : SR_HOLDS_NOT;
	a->timer.fn = ask_look;
	a->iwarp = kinds == SR_VDEV_IWARP;
	sr_there_verbs(a->there, ask->there);
	ask->kind = a;
	SR_LIST_ADD(sr_vasks, a);
	err = ask_resolve(a);
	if (err)
		sr_vask_free(a);
	else
		sr_timer_set(&a->timer, LOOK_MS);
	return err;
}

void sr_verbs_cancel(struct sr_ask *ask)
{
	if (ask->kind)
		sr_vask_free(ask->kind);
}

/* Asks again at once. */
const char *sr_vask_at_once(struct sr_vask *a)
{
	int err;

	ask_release(a);
	sr_timer_set(&a->timer, LOOK_MS);
	err = ask_resolve(a);
	return err ? "no-device" : NULL;
}

static const char *addr_resolved(struct sr_vask *a)
{
	const char *reason;

	a->dev = sr_vdev_get(a->id, &reason);
	if (!a->dev)
		return reason;
	if (a->dev->iwarp != a->iwarp) {
		a->iwarp = a->dev->iwarp;
		return sr_vask_at_once(a);
	}
	sr_vcm_ack_timeout(a->id);
	/* The route has it: the priority, and what the peer's device sends by. */
	if (a->ask->tclass)
		sr_vlib.cm_set_option(a->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
				      &a->ask->tclass, sizeof(a->ask->tclass));
	if (sr_vlib.cm_resolve_route(a->id, RESOLVE_MS))
		return "no-device";
	return NULL;
}

static const char *send_request(struct sr_vask *a)
{
	const struct sr_question question = sr_vask_question(a);
	struct rdma_conn_param p;
	uint8_t data[SR_QUESTION_LEN];

	sr_vcm_param(&p);
	sr_question_encode(&question, data);
	p.private_data = data;
	p.private_data_len = sizeof(data);
	if (sr_vlib.cm_connect(a->id, &p))
		return "no-listener";
	a->asked_at = a->looks;
	a->connecting = true;
	if (a->holds == SR_HOLDS_FIRST)
		a->ask->told(a->ask, SR_FIRST_SENT);
	return NULL;
}

static void no_more(struct sr_vask *a, const char *reason);

/* Asks again at the next look. */
static void ask_later(struct sr_vask *a)
{
	ask_release(a);
	sr_timer_set(&a->timer, LOOK_MS);
}

/* The same, if it has not done so too often.  False: it has. */
static bool ask_retry(struct sr_vask *a)
{
	if (a->retries >= RETRIES)
		return false;
	a->retries++;
	ask_later(a);
	return true;
}

/* If there is too little for one more carrier, takes one that there is, at once.  Returns whether
 * there is any. */
static bool share_instead(struct sr_vask *a, const char *reason)
{
	if (a->lacks || !sr_vask_shares(a) || !sr_vcarriers_lack(reason) || !sr_vreuse_lacks(a))
		return false;
	a->lacks = true;
	a->waited = 0;
	ask_release(a);
	sr_timer_set(&a->timer, 0);
	return true;
}

static void ask_made(struct sr_vcarrier *c, const char *reason)
{
	struct sr_vask *a = c->make.maker;

	if (!reason)
		reason = send_request(a);
	if (!reason || share_instead(a, reason))
		return;
	if (sr_vcarriers_spare(reason))
		ask_later(a);
	else
		no_more(a, reason);
}

static const char *route_resolved(struct sr_vask *a)
{
	const struct sr_question question = sr_vask_question(a);
	const struct sr_vlink_for f = sr_vask_link_for(a);

	a->link = sr_vlink_make(a->id, a->dev, &f, &question, ask_made, a);
	if (!a->link)
		return "memory";
	a->link->c->cm_port = sr_vask_port(a);
	a->link->c->domain = a->ask->domain;
	/* The id is the link's now; its events come to us still. */
	a->id->context = &a->cm;
	return NULL;
}

static void vask_established(struct sr_vask *a)
{
	struct sr_ask *ask = a->ask;
	struct sr_vlink *l = a->link;

	l->c->id->context = &l->c->cm;
	a->link = NULL;
	a->id = NULL;
	sr_vask_free(a);
	if (sr_link_events(&l->link) & SR_LINK_DEAD)
		/* tick.c does not close a carrier as long as an ask has its id. */
		sr_vlook_start(l->c, SR_LOOK_SOON);
	sr_vcarrier_lock(l->c);
	sr_vshare_established(l->c);
	sr_vcarrier_unlock(l->c);
	ask->done(ask, &l->link, NULL);
}

/* The kernel has rejected it, and not for good: no resources, say, or a queue pair's number
 * that it has seen lately (stale connection).  No process has. */
static bool is_passing(struct sr_vask *a, const struct sr_vcm_event *e)
{
	return e->type == RDMA_CM_EVENT_REJECTED && !a->iwarp && !e->data[0] &&
	       e->status != REJ_NO_SERVICE && e->status != REJ_CONSUMER;
}

/* The reason word in a refusal must be one of ours.  Without a word the process that listened
 * has ended, or its kernel has rejected us again and again. */
static const char *vask_refusal(struct sr_vask *a, const struct sr_vcm_event *e)
{
	const char *word = (const char *)e->data;
	enum sr_reason r = sr_reason_find(word);
	uint16_t port[2];

	a->ask->heard |= e->status != REJ_NO_SERVICE && word[0];
	if (sr_there_verbs(port, word) && port[a->iwarp]) {
		strcpy(a->ask->there, word);
		return SR_THERE;
	}
	if (r != SR_REASON_NONE && e->status != REJ_NO_SERVICE)
		return sr_reason_word(r);
	if (is_passing(a, e))
		return "refused";
	return a->iwarp || !word[0] || e->status == REJ_NO_SERVICE ? "no-listener" : "refused";
}

void sr_vask_first(struct sr_vask *a, enum sr_first first)
{
	a->holds = sr_first_holds(first);
	a->ask->heard = true;
	a->ask->told(a->ask, first);
}

/* A first answer, which is the word of a rejection: the real one needs another request.
 * False: it is none. */
static bool is_first(struct sr_vask *a, const struct sr_vcm_event *e)
{
	enum sr_first first = SR_FIRST_NONE;

	if (e->type == RDMA_CM_EVENT_REJECTED && e->status != REJ_NO_SERVICE)
		first = sr_first_find((const char *)e->data, a->holds);
	if (first == SR_FIRST_NONE)
		return false;
	sr_vask_first(a, first);
	return true;
}

static const char *ask_failure(struct sr_vask *a, const struct sr_vcm_event *e)
{
	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return e->status == -ETIMEDOUT ? "timeout" : "no-device";
	case RDMA_CM_EVENT_REJECTED:
		return vask_refusal(a, e);
	case RDMA_CM_EVENT_UNREACHABLE:
		return e->status == -ETIMEDOUT ? "timeout" : "no-listener";
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return "no-listener";
	default:
		return "device-failed";
	}
}

/* A server that may not bind the CM's low port listens at the other place. */
static bool may_move(struct sr_vask *a)
{
	return !a->iwarp && !a->moved && !a->there[0] &&
	       sr_addr_port((struct sockaddr *)&a->ask->dst) < PRIVILEGED;
}

/*
 * siw now and then refuses one of many connections, in one way or another (seen:
 * 2 of 64 at once, 1 of 300 in a row): such an asker asks again at its next looks.
 */
static void no_more(struct sr_vask *a, const char *reason)
{
	bool silent = sr_reason_find(reason) == SR_REASON_NO_LISTENER;

	if (silent && a->iwarp && ask_retry(a))
		return;
	if (share_instead(a, reason))
		return;
	if (silent && may_move(a)) {
		ask_release(a);
		a->moved = true;
		sr_timer_set(&a->timer, 0);
	} else {
		sr_vask_fail(a, reason);
	}
}

/* A request is a datagram, and so is its answer.  The kernel sends it again after 4.3 s
 * (CMA_CM_RESPONSE_TIMEOUT), which is too late for most.  Once only: an answerer that has too
 * much to do must not get more of it. */
static bool is_lost(const struct sr_vask *a)
{
	return a->connecting && !a->iwarp && !a->repeated && a->looks - a->asked_at >= SILENT_LOOKS;
}

static const char *vask_repeat(struct sr_vask *a)
{
	a->repeated = true;
	return sr_vask_at_once(a);
}

/* siw flushes the queue pair of a refused request while the refusal is still on its way through
 * the kernel's CM (5 of 100 looks fell in between): its word is awaited for some looks. */
static bool is_flushed(struct sr_vask *a)
{
	return a->link && !a->opened && sr_link_events(&a->link->link) & SR_LINK_DEAD &&
	       ++a->flushed > FLUSHED_LOOKS;
}

static void ask_look(struct sr_timer *t)
{
	struct sr_vask *a = SR_OF(struct sr_vask, timer, t);
	const char *reason = NULL;

	sr_timer_set(t, LOOK_MS);
	a->waited += a->waits;
	if (++a->looks >= ASK_LOOKS)
		sr_vask_fail(a, "timeout");
	else if (is_flushed(a))
		no_more(a, a->iwarp ? "no-listener" : "refused");
	else if (is_lost(a))
		reason = vask_repeat(a);
	else if (!a->id && !a->opened)
		reason = sr_vask_at_once(a);
	if (reason)
		sr_vask_fail(a, reason);
}

/* ---- the connection manager's events ---- */

static void ask_event(struct sr_vcm *cm, const struct sr_vcm_event *e)
{
	struct sr_vask *a = (struct sr_vask *)cm;
	const char *reason = NULL;

	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		reason = addr_resolved(a);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		reason = route_resolved(a);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		vask_established(a);
		return;
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return;
	default:
		if (!is_passing(a, e) || !ask_retry(a))
			reason = is_first(a, e) ? sr_vask_at_once(a) : ask_failure(a, e);
		break;
	}
	if (reason)
		no_more(a, reason);
}

/* Its device is gone.  (The id may be, too: its link was closed.) */
void sr_vask_removed(struct ibv_context *ctx)
{
	struct sr_vask *a, *next;

	for (a = sr_vasks; a; a = next) {
		next = a->next;
		if (a->dev && a->dev->ctx == ctx)
			sr_vask_fail(a, "device-failed");
	}
}

/* In the child of fork. */
void sr_vask_forget(void)
{
	sr_vasks = NULL;
}
