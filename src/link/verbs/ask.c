/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ask.c - the asker's part of cm.c: its id resolves the address, then the route, and connects.
 *
 * With SOCKRAIL_CARRIERS an ask first looks for a carrier that leads to the same address, from the
 * same one, and opens a link on that (share.c).  If there is none yet, one ask goes to the
 * connection manager, and others to the same address wait for its outcome: WAIT_LOOKS at most.
 * If there is no carrier then, they go to the connection manager themselves.
 *
 * All in the loop.  Locks: the carrier's, for what is said of its numbers.
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
	WAIT_LOOKS = 8,		/* for another ask's outcome: 200 ms */
	NUMBER_LOOKS = 40,	/* for a number, while others are unproven: 1 s */
	RETRIED = 8,		/* asks that try again when a number is free */
};

struct ask {
	struct sr_vcm cm;
	struct sr_ask *ask;
	struct ask *next, **pprev;
	struct rdma_cm_id *id;		/* NULL: the next look asks again */
	struct sr_vdev *dev;
	struct sr_vlink *link;		/* once the route is resolved, or OPEN is due */
	bool opened;			/* the link is one more on a carrier that there was */
	bool waits;			/* for another ask, or for a number */
	unsigned waited;		/* looks */
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

/* The CM's, of the answerer. */
static uint16_t ask_port(struct ask *a)
{
	uint16_t port = sr_addr_port((struct sockaddr *)&a->ask->dst);

	if (a->there[a->iwarp])
		return a->there[a->iwarp];
	return a->iwarp || a->moved ? sr_vcm_iwarp_port(port) : port;
}

/* Do they ask the same place for streams between the same two addresses? */
static bool is_same_place(struct ask *a, struct ask *b)
{
	return ask_port(a) == ask_port(b) && a->ask->tclass == b->ask->tclass &&
	       sr_name_same_way(&a->ask->name, &b->ask->name);
}

/* That ask has brought no carrier.  Those that have waited for it go themselves. */
static void wake_waiting(struct ask *a)
{
	struct ask *b;

	for (b = asks; b; b = b->next)
		if (b->waits && is_same_place(a, b)) {
			b->waited = b->waited < WAIT_LOOKS ? WAIT_LOOKS : b->waited;
			sr_timer_set(&b->timer, 0);
		}
}

/* The link's last record goes, if it has a number. */
static void leave_open(struct ask *a)
{
	struct sr_vlink *l = a->link;

	a->link = NULL;
	a->opened = false;
	l->ask = NULL;
	l->link.ops->drop(&l->link, "short");
	sr_link_put(&l->link);
}

static void ask_release(struct ask *a)
{
	sr_timer_cancel(&a->timer);
	a->waits = false;
	if (a->opened) {
		leave_open(a);
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

static void free_ask(struct ask *a)
{
	const bool leads = a->id && sr_conf.carriers;	/* others may wait for it */

	ask_release(a);
	if (leads)
		wake_waiting(a);
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

/* ---- carriers that there are ---- */

/* Is another ask, to the same place, on its way to the connection manager? */
static bool is_led(struct ask *a)
{
	struct ask *b;

	for (b = asks; b; b = b->next)
		if (b != a && b->id && is_same_place(a, b))
			return true;
	return false;
}

static struct sr_vlink_for link_for(struct ask *a)
{
	return (struct sr_vlink_for){
		.policy = a->ask->policy,
		.role = SR_ROLE_ASKER,
		.link_no = a->ask->name.link_no,
		.owner = a->ask->owner,
		.notify = a->ask->notify,
	};
}

static struct sr_question question_of(struct ask *a)
{
	return (struct sr_question){.name = a->ask->name, .holds = a->holds,
				    .tclass = a->ask->tclass};
}

static bool open_on(struct ask *a, struct sr_vcarrier *c)
{
	const struct sr_question question = question_of(a);
	const struct sr_vlink_for f = link_for(a);

	a->link = sr_vshare_open(c, &f, &question);
	if (!a->link)
		return false;
	a->opened = true;
	a->link->ask = a;
	a->asked_at = a->looks;
	if (a->holds == SR_HOLDS_FIRST)
		a->ask->told(a->ask, SR_FIRST_SENT);
	return true;
}

enum carrier_state { NO_USE, OPENS, IS_FULL, IS_NEW, SHARES_NOT };

/* What the carrier is to the ask: of no use; one that may open a link; one that has no number for
 * it; one whose peer has sent nothing yet; or one that shows that the peer takes one link only. */
static enum carrier_state carrier_state(struct ask *a, struct sr_vcarrier *c)
{
	enum carrier_state state = IS_NEW;

	if (!c->share.numbers.asks || !c->id || c->cm_port != ask_port(a) ||
	    !sr_vshare_names(c, &a->ask->name, a->ask->tclass))
		return NO_USE;
	sr_lock(&c->lock);
	if (c->broken || (!c->qp && !c->make.busy))
		state = NO_USE;
	else if (c->in.greeted && !sr_load(&c->shared))
		state = SHARES_NOT;
	else if (c->in.greeted)
		state = c->share.numbers.used < c->share.numbers.size ? OPENS : IS_FULL;
	else
		c->share.wanted = true;
	sr_unlock(&c->lock);
	return state;
}

/* Opens a link on a carrier, or waits for one.  False: neither. */
static bool share_or_wait(struct ask *a)
{
	bool waits = false;
	struct sr_vcarrier *c;
	struct sr_vdev *dev;

	for (dev = sr_vdevs; dev; dev = dev->next)
		for (c = dev->gone ? NULL : dev->carriers; c; c = c->next)
			switch (carrier_state(a, c)) {
			case OPENS:
				if (open_on(a, c))
					return true;
				waits |= a->waited < NUMBER_LOOKS;
				break;
			case IS_NEW:
				waits |= a->waited < WAIT_LOOKS;
				break;
			case SHARES_NOT:
				return false;
			default:
				break;
			}
	a->waits = waits || (a->waited < WAIT_LOOKS && is_led(a));
	return a->waits;
}

/* A number is free, or the carrier has become ready. */
void sr_vask_retry(struct sr_vcarrier *c)
{
	unsigned n = 0;
	struct ask *a;

	sr_lock(&c->lock);
	c->share.wanted = false;
	sr_unlock(&c->lock);
	for (a = asks; a && n < RETRIED; a = a->next)
		if (a->waits && c->cm_port == ask_port(a) &&
		    sr_vshare_names(c, &a->ask->name, a->ask->tclass)) {
			sr_timer_set(&a->timer, 0);
			n++;
		}
}

/* ---- asking ---- */

static int ask_resolve(struct ask *a)
{
	struct sockaddr_storage from, to;
	uint16_t port = ask_port(a);

	if (sr_conf.carriers && share_or_wait(a))
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
	const struct sr_question question = question_of(a);
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
	const struct sr_question question = question_of(a);
	const struct sr_vlink_for f = link_for(a);

	a->link = sr_vlink_make(a->id, a->dev, &f, &question, ask_made, a);
	if (!a->link)
		return "memory";
	a->link->c->cm_port = ask_port(a);
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
		sr_vlook_start(l->c, SR_LOOK_SOON);	/* which left it to us, sr_vcarrier_end() */
	sr_vcarrier_lock(l->c);
	sr_vshare_established(l->c);
	sr_vcarrier_unlock(l->c);
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

static void first_came(struct ask *a, enum sr_first first)
{
	a->holds = sr_first_holds(first);
	a->ask->heard = true;
	a->ask->told(a->ask, first);
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
	first_came(a, first);
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
	return a->link && !a->opened && sr_link_events(&a->link->link) & SR_LINK_DEAD &&
	       ++a->flushed > FLUSHED_LOOKS;
}

static void ask_look(struct sr_timer *t)
{
	struct ask *a = SR_OF(struct ask, timer, t);
	const char *reason = NULL;

	sr_timer_set(t, LOOK_MS);
	a->waited += a->waits;
	if (++a->looks >= ASK_LOOKS)
		fail_ask(a, "timeout");
	else if (is_flushed(a))
		no_more(a, a->iwarp ? "no-listener" : "refused");
	else if (is_lost(a))
		reason = repeat(a);
	else if (!a->id && !a->opened)
		reason = go_on(a);
	if (reason)
		fail_ask(a, reason);
}

/* ---- the answer to OPEN ---- */

static void open_accepted(struct ask *a)
{
	struct sr_ask *ask = a->ask;
	struct sr_vlink *l = a->link;

	l->ask = NULL;
	a->link = NULL;
	a->opened = false;
	free_ask(a);
	ask->done(ask, &l->link, NULL);
}

/* The peer has refused the link; or the carrier has ended, or the peer has given the link up
 * without a word: then the connection manager asks. */
static void open_failed(struct ask *a, const struct sr_vanswer *answer)
{
	const char *reason = NULL;

	if (answer->type == SR_RECORD_THERE && answer->there[a->iwarp]) {
		sr_format(a->ask->there, sizeof(a->ask->there), SR_THERE " %u %u", answer->there[0],
			  answer->there[1]);
		reason = SR_THERE;
	} else if (answer->type == SR_RECORD_REFUSE || answer->type == SR_RECORD_THERE) {
		reason = answer->reason ? sr_reason_word(answer->reason) : "refused";
	}
	a->ask->heard |= answer->type != 0;
	if (!reason)
		reason = go_on(a);
	if (reason)
		fail_ask(a, reason);
}

void sr_vask_news(struct sr_task *t)
{
	struct sr_vlink *l = SR_OF(struct sr_vlink, news, t);
	unsigned have = sr_link_events(&l->link);
	struct sr_vanswer answer;
	struct ask *a = l->ask;

	sr_lock(&l->c->lock);
	answer = l->answer;
	l->answer.word = SR_FIRST_NONE;
	sr_unlock(&l->c->lock);
	if (a && sr_first_suits(answer.word, a->holds))
		first_came(a, answer.word);
	if (a && (have & SR_LINK_DEAD))
		open_failed(a, &answer);
	else if (a && (have & SR_LINK_UP))
		open_accepted(a);
	sr_link_put(&l->link);
}

/* ---- the connection manager's events ---- */

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
