/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ask.c - the asker's part of cm.c: its id resolves the address, then the route, and connects.
 * All in the loop, no locks.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

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

struct ask {
	struct sr_vcm cm;
	struct sr_ask *ask;
	struct ask *next, **pprev;
	struct rdma_cm_id *id;		/* NULL: the next look asks again */
	struct sr_vdev *dev;
	struct sr_vlink *link;		/* once the route is resolved */
	bool connecting;		/* the request is sent */
	struct sr_timer timer;
	unsigned looks, asked_at;	/* the look of the last request */
	unsigned flushed;		/* looks that found the link dead */
	bool repeated;			/* a request that seemed to be lost */
	enum sr_holds holds;
	bool iwarp;			/* the port is for iWARP; first a guess */
	bool moved;			/* it asks at a low port's other place */
	unsigned retries;
	uint16_t there[2];		/* InfiniBand, iWARP; 0: by the address */
};

static struct ask *asks;

static void ask_release(struct ask *a)
{
	sr_timer_cancel(&a->timer);
	if (a->link) {
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

static void free_ask(struct ask *a)
{
	ask_release(a);
	a->ask->kind = NULL;
	SR_LIST_DROP(a);
	free(a);
}

static void fail_ask(struct ask *a, const char *reason)
{
	struct sr_ask *ask = a->ask;

	sr_debug("verbs: asking failed: %s", reason);
	free_ask(a);
	ask->done(ask, NULL, reason);
}

static int ask_resolve(struct ask *a)
{
	const struct sockaddr *dst = (struct sockaddr *)&a->ask->dst;
	struct sockaddr_storage from, to;
	uint16_t port = sr_addr_port(dst);

	if (a->there[a->iwarp])
		port = a->there[a->iwarp];
	else if (a->iwarp || a->moved)
		port = sr_vcm_iwarp_port(port);

	sr_vcm_addr(&from, (struct sockaddr *)&a->ask->src, 0);
	sr_vcm_addr(&to, dst, port);
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
	struct ask *a;

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
	SR_LIST_ADD(asks, a);
	err = ask_resolve(a);
	if (err)
		free_ask(a);
	else
		sr_timer_set(&a->timer, LOOK_MS);
	return err;
}

void sr_verbs_cancel(struct sr_ask *ask)
{
	if (ask->kind)
		free_ask(ask->kind);
}

/* Asks again at once. */
static const char *go_on(struct ask *a)
{
	int err;

	ask_release(a);
	sr_timer_set(&a->timer, LOOK_MS);
	err = ask_resolve(a);
	return err ? "no-device" : NULL;
}

static const char *addr_resolved(struct ask *a)
{
	const char *reason;

	a->dev = sr_vdev_get(a->id, &reason);
	if (!a->dev)
		return reason;
	if (a->dev->iwarp != a->iwarp) {
		a->iwarp = a->dev->iwarp;
		return go_on(a);
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

static const char *send_request(struct ask *a)
{
	const struct sr_question question = {.name = a->ask->name, .holds = a->holds,
					     .tclass = a->ask->tclass};
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

static void no_more(struct ask *a, const char *reason);

static void ask_made(struct sr_vcarrier *c, const char *reason)
{
	struct ask *a = c->make.maker;

	if (!reason)
		reason = send_request(a);
	if (reason)
		no_more(a, reason);
}

static const char *route_resolved(struct ask *a)
{
	const struct sr_vlink_for f = {
		.policy = a->ask->policy,
		.role = SR_ROLE_ASKER,
		.link_no = a->ask->name.link_no,
		.owner = a->ask->owner,
		.notify = a->ask->notify,
	};

	a->link = sr_vlink_make(a->id, a->dev, &f, ask_made, a);
	if (!a->link)
		return "memory";
	/* The id is the link's now; its events come to us still. */
	a->id->context = &a->cm;
	return NULL;
}

static void established(struct ask *a)
{
	struct sr_ask *ask = a->ask;
	struct sr_vlink *l = a->link;

	l->c->id->context = &l->c->cm;
	a->link = NULL;
	a->id = NULL;
	free_ask(a);
	if (sr_link_events(&l->link) & SR_LINK_DEAD)
		sr_vlook_start(l->c, SR_LOOK_SOON);	/* which left it to us, sr_vlink_end() */
	sr_link_raise(&l->link, SR_LINK_UP);
	ask->done(ask, &l->link, NULL);
}

/* The kernel has rejected it, and not for good: no resources, say, or a queue pair's number
 * that it has seen lately (stale connection).  No process has. */
static bool is_passing(struct ask *a, const struct sr_vcm_event *e)
{
	return e->type == RDMA_CM_EVENT_REJECTED && !a->iwarp && !e->data[0] &&
	       e->status != REJ_NO_SERVICE && e->status != REJ_CONSUMER;
}

/* The reason word in a refusal must be one of ours.  Without a word the process that listened
 * has ended, or its kernel has rejected us again and again. */
static const char *refusal(struct ask *a, const struct sr_vcm_event *e)
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

/* A first answer, which is the word of a rejection: the real one needs another request.
 * False: it is none. */
static bool is_first(struct ask *a, const struct sr_vcm_event *e)
{
	enum sr_first first = SR_FIRST_NONE;

	if (e->type == RDMA_CM_EVENT_REJECTED && e->status != REJ_NO_SERVICE)
		first = sr_first_find((const char *)e->data, a->holds);
	if (first == SR_FIRST_NONE)
		return false;
	a->holds = sr_first_holds(first);
	a->ask->heard = true;
	a->ask->told(a->ask, first);
	return true;
}

static const char *ask_failure(struct ask *a, const struct sr_vcm_event *e)
{
	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return e->status == -ETIMEDOUT ? "timeout" : "no-device";
	case RDMA_CM_EVENT_REJECTED:
		return refusal(a, e);
	case RDMA_CM_EVENT_UNREACHABLE:
		return e->status == -ETIMEDOUT ? "timeout" : "no-listener";
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return "no-listener";
	default:
		return "device-failed";
	}
}

/* A server that may not bind the CM's low port listens at the other place. */
static bool may_move(struct ask *a)
{
	return !a->iwarp && !a->moved && !a->there[0] &&
	       sr_addr_port((struct sockaddr *)&a->ask->dst) < PRIVILEGED;
}

/* Asks again at the next look. */
static void ask_later(struct ask *a)
{
	ask_release(a);
	a->retries++;
	sr_timer_set(&a->timer, LOOK_MS);
}

/*
 * siw now and then refuses one of many connections, in one way or another (seen:
 * 2 of 64 at once, 1 of 300 in a row): such an asker asks again at its next looks.
 */
static void no_more(struct ask *a, const char *reason)
{
	if (!strcmp(reason, "no-listener") && a->iwarp && a->retries < RETRIES) {
		ask_later(a);
	} else if (!strcmp(reason, "no-listener") && may_move(a)) {
		ask_release(a);
		a->moved = true;
		sr_timer_set(&a->timer, 0);
	} else {
		fail_ask(a, reason);
	}
}

/* A request is a datagram, and so is its answer.  The kernel sends it again after 4.3 s
 * (CMA_CM_RESPONSE_TIMEOUT), which is too late for most.  Once only: an answerer that has too
 * much to do must not get more of it. */
static bool is_lost(const struct ask *a)
{
	return a->connecting && !a->iwarp && !a->repeated && a->looks - a->asked_at >= SILENT_LOOKS;
}

static const char *repeat(struct ask *a)
{
	a->repeated = true;
	return go_on(a);
}

/* siw flushes the queue pair of a refused request while the refusal is still on its way through
 * the kernel's CM (5 of 100 looks fell in between): its word is awaited for some looks. */
static bool is_flushed(struct ask *a)
{
	return a->link && sr_link_events(&a->link->link) & SR_LINK_DEAD &&
	       ++a->flushed > FLUSHED_LOOKS;
}

static void ask_look(struct sr_timer *t)
{
	struct ask *a = SR_OF(struct ask, timer, t);
	const char *reason = NULL;

	sr_timer_set(t, LOOK_MS);
	if (++a->looks >= ASK_LOOKS)
		fail_ask(a, "timeout");
	else if (is_flushed(a))
		no_more(a, a->iwarp ? "no-listener" : "refused");
	else if (is_lost(a))
		reason = repeat(a);
	else if (!a->id)
		reason = go_on(a);
	if (reason)
		fail_ask(a, reason);
}

static void ask_event(struct sr_vcm *cm, const struct sr_vcm_event *e)
{
	struct ask *a = (struct ask *)cm;
	const char *reason = NULL;

	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		reason = addr_resolved(a);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		reason = route_resolved(a);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		established(a);
		return;
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return;
	default:
		if (is_passing(a, e) && a->retries < RETRIES)
			ask_later(a);
		else
			reason = is_first(a, e) ? go_on(a) : ask_failure(a, e);
		break;
	}
	if (reason)
		no_more(a, reason);
}

/* Its device is gone.  (The id may be, too: its link was closed.) */
void sr_vask_removed(struct ibv_context *ctx)
{
	struct ask *a, *next;

	for (a = asks; a; a = next) {
		next = a->next;
		if (a->dev && a->dev->ctx == ctx)
			fail_ask(a, "device-failed");
	}
}

/* In the child of fork. */
void sr_vask_forget(void)
{
	asks = NULL;
}
