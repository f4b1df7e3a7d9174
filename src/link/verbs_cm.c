/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_cm.c - how two ends find each other: one event channel of librdmacm,
 * read by the service loop, whose thread all of this runs in.  An asker's id
 * goes resolve address, resolve route, connect; an answerer's is born by a
 * request.  The number asked for is the TCP port; on iWARP, where those are
 * the kernel's, the port plus an offset.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/log.h"
#include "base/report.h"

enum {
	RESOLVE_MS = 2000,
	ASK_MS = 5000,		/* all in all */
	LOOK_MS = 100,		/* whether the queue pair still lives */
	RETRY_MS = 1000,	/* a listener whose device went */
	HICCUPS = 3,
	BACKLOG = 1024, /* siw has so many work items, some per connection */
	ACK_TIMEOUT = 17,	/* 4.096 us * 2^17 = 0.54 s, so that ... */
	RETRIES = 7,		/* ... a dead port shows in some seconds */
	RNR_FOREVER = 7,
	REASON_LEN = 32,
	REJ_NO_SERVICE = 8,	/* IB CM: invalid service ID */
};

struct ask {
	struct sr_vcm cm;
	struct sr_ask *ask;		/* NULL: cancelled */
	struct ask *next, **pprev;
	struct rdma_cm_id *id;
	struct sr_vdev *dev;
	struct sr_vlink *link;		/* once connecting */
	struct sr_timer timer;
	uint64_t deadline_ns;
	bool iwarp;			/* the port is for iWARP */
	bool again;			/* it was tried for the other */
	unsigned hiccups;		/* refused without a word so often */
};

struct request {
	struct sr_request req;
	struct sr_vcm cm;
	struct request *next, **pprev;
	struct rdma_cm_id *id;
};

struct listener {
	struct sr_vcm cm;
	struct listener *next, **pprev;
	struct sockaddr_storage addr;
	struct rdma_cm_id *id[2];	/* InfiniBand, iWARP */
	struct sr_timer retry;
};

static struct rdma_event_channel *channel;
static struct sr_watch channel_watch;
static struct ask *asks;
static struct request *requests;
static struct listener *listeners;
static bool iwarp_seen;		/* the last device was one */

#define LINK_IN(head, x)                                                       \
	do {                                                                   \
		(x)->next = (head);                                            \
		(x)->pprev = &(head);                                          \
		if ((x)->next)                                                 \
			(x)->next->pprev = &(x)->next;                         \
		(head) = (x);                                                  \
	} while (0)
#define LINK_OUT(x)                                                            \
	do {                                                                   \
		*(x)->pprev = (x)->next;                                       \
		if ((x)->next)                                                 \
			(x)->next->pprev = (x)->pprev;                         \
	} while (0)

/* ---- addresses ---- */

static void copy_addr(struct sockaddr_storage *to, const struct sockaddr *from,
		      uint16_t port)
{
	sr_addr_plain(to, from);
	sr_addr_set_port(to, port);
}

/* iWARP: stays within 1024 .. 65535. */
static uint16_t iwarp_port(uint16_t port)
{
	const unsigned least = 1024, span = 65536 - 1024;

	return least + ((unsigned)port + sr_conf.cm_port_offset + span - least) %
			       span;
}

static bool same_host(const struct sockaddr *a, const struct sr_name *name)
{
	struct sockaddr_storage s;
	const void *bytes;
	size_t len;

	sr_addr_plain(&s, a);
	bytes = sr_addr_bytes(&s, &len);
	return s.ss_family == name->family && !memcmp(bytes, name->saddr, len);
}

/* ---- the channel ---- */

static void on_channel(struct sr_watch *w, uint32_t events);

static const char *open_channel(void)
{
	const char *reason = sr_verbs_load();
	int fd;

	if (reason || channel)
		return reason;
	sr_enter();
	sr_fd_making();
	channel = sr_vlib.cm_create_event_channel();
	fd = sr_fd_made(channel ? channel->fd : -1);
	sr_leave();
	if (!channel)
		return "no-device";
	channel->fd = fd;
	sr_real.fcntl(channel->fd, F_SETFL,
		      sr_real.fcntl(channel->fd, F_GETFL, 0) | O_NONBLOCK);
	channel_watch.fd = channel->fd;
	channel_watch.fn = on_channel;
	sr_loop_watch(&channel_watch, EPOLLIN);
	sr_vcq_lead_start();
	return NULL;
}

static struct rdma_cm_id *make_id(struct sr_vcm *cm)
{
	struct rdma_cm_id *id;

	return sr_vlib.cm_create_id(channel, &id, cm, RDMA_PS_TCP) ? NULL : id;
}

static void conn_param(struct rdma_conn_param *p)
{
	memset(p, 0, sizeof(*p));
	p->responder_resources = 1;
	p->initiator_depth = 1;
	p->retry_count = RETRIES;
	p->rnr_retry_count = RNR_FOREVER;
}

static void set_ack_timeout(struct rdma_cm_id *id)
{
	uint8_t t = ACK_TIMEOUT;

	sr_vlib.cm_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
			      &t, sizeof(t));
}

/* An id that does nothing but stay with the device of another one: without any
 * id there we would not be told of its removal. */
struct rdma_cm_id *sr_vcm_sentinel(struct rdma_cm_id *like)
{
	static struct sr_vcm cm = { .what = SR_CM_SENTINEL };
	struct sockaddr_storage addr;
	struct rdma_cm_id *id;

	copy_addr(&addr, &like->route.addr.src_addr, 0);
	id = make_id(&cm);
	if (id && sr_vlib.cm_bind_addr(id, (struct sockaddr *)&addr)) {
		sr_vlib.cm_destroy_id(id);
		id = NULL;
	}
	return id;
}

/* ---- asking ---- */

static void release(struct ask *a)
{
	sr_timer_cancel(&a->timer);
	if (a->link) {
		struct sr_vlink *l = a->link;

		a->link = NULL;
		sr_vlink_close(l);
		sr_link_put(&l->link);
	} else if (a->id) {
		sr_enter();
		sr_vlib.cm_destroy_id(a->id);
		sr_leave();
	}
	a->id = NULL;
	a->dev = NULL;
}

static void fail_ask(struct ask *a, const char *reason)
{
	struct sr_ask *ask = a->ask;

	sr_debug("verbs: asking failed: %s", reason);
	release(a);
	LINK_OUT(a);
	ask->kind = NULL;
	free(a);
	ask->done(ask, NULL, reason);
}

static void ask_look(struct sr_timer *t);

/* To look after it from time to time, ASK_MS from now at most. */
static void watch_over(struct ask *a)
{
	a->deadline_ns = sr_now_ns() + ASK_MS * UINT64_C(1000000);
	a->timer.fn = ask_look;
	sr_timer_set(&a->timer, LOOK_MS);
}

static int resolve(struct ask *a)
{
	const struct sockaddr *dst = (struct sockaddr *)&a->ask->dst;
	struct sockaddr_storage from, to;
	uint16_t port = sr_addr_port(dst);
	int err = 0;

	copy_addr(&from, (struct sockaddr *)&a->ask->src, 0);
	copy_addr(&to, dst, a->iwarp ? iwarp_port(port) : port);
	a->id = make_id(&a->cm);
	if (!a->id)
		return -errno;
	if (sr_vlib.cm_resolve_addr(a->id, (struct sockaddr *)&from,
				    (struct sockaddr *)&to, RESOLVE_MS))
		err = -errno;
	return err;
}

int sr_verbs_ask(struct sr_ask *ask)
{
	const char *reason = open_channel();
	unsigned kinds = sr_verbs_devices();
	struct ask *a;
	int err;

	if (reason || !kinds)
		return reason && !strcmp(reason, "no-library") ? -ELIBACC :
								 -ENODEV;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->cm.what = SR_CM_ASK;
	a->ask = ask;
	a->iwarp = kinds == SR_VDEV_IWARP || (kinds & SR_VDEV_IWARP && iwarp_seen);
	LINK_IN(asks, a);
	sr_enter();
	err = resolve(a);
	sr_leave();
	if (err) {
		release(a);
		LINK_OUT(a);
		free(a);
		return err;
	}
	ask->kind = a;
	watch_over(a);
	return 0;
}

void sr_verbs_cancel(struct sr_ask *ask)
{
	struct ask *a = ask->kind;

	if (!a)
		return;
	ask->kind = NULL;
	release(a);
	LINK_OUT(a);
	free(a);
}

static const char *resolve_again(struct ask *a)
{
	sr_vlib.cm_destroy_id(a->id);
	a->dev = NULL;
	a->id = NULL;
	a->iwarp = !a->iwarp;
	a->again = true;
	return resolve(a) ? "no-device" : NULL;
}

static const char *addr_resolved(struct ask *a)
{
	const char *reason;

	a->dev = sr_vdev_get(a->id, &reason);
	if (!a->dev)
		return reason;
	iwarp_seen = a->dev->iwarp;
	if (a->dev->iwarp != a->iwarp)
		return a->again ? "no-device" : resolve_again(a);
	set_ack_timeout(a->id);
	if (sr_vlib.cm_resolve_route(a->id, RESOLVE_MS))
		return "no-device";
	return NULL;
}

/* Before done() the asker does not know the link. */
static void not_yet(struct sr_link *link, unsigned what)
{
	(void)link;
	(void)what;
}

static const char *route_resolved(struct ask *a)
{
	struct rdma_conn_param p;
	uint8_t name[SR_NAME_LEN];
	struct rdma_cm_id *id = a->id;
	struct sr_vdev *dev = a->dev;
	const char *reason;

	a->link = sr_vlink_make(id, dev, SR_ROLE_ASKER, a->ask->name.link_no,
				a->ask->owner, not_yet, &reason);
	if (!a->link)
		return reason;
	/* The id is the link's now; its events come to us still. */
	id->context = &a->cm;
	conn_param(&p);
	sr_name_encode(&a->ask->name, name);
	p.private_data = name;
	p.private_data_len = sizeof(name);
	return sr_vlib.cm_connect(id, &p) ? "no-listener" : NULL;
}

static void established(struct ask *a)
{
	struct sr_ask *ask = a->ask;
	struct sr_vlink *l = a->link;

	sr_timer_cancel(&a->timer);
	l->id->context = &l->cm;
	LINK_OUT(a);
	free(a);
	ask->kind = NULL;
	__atomic_store_n(&l->link.notify, ask->notify, __ATOMIC_RELEASE);
	sr_link_raise(&l->link, SR_LINK_UP);
	ask->done(ask, &l->link, NULL);
}

/* What an event says, taken out of it before it is acknowledged. */
struct event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	uint8_t data[SR_NAME_LEN + REASON_LEN];
	size_t len;
};

/* The reason word in a refusal must be one of ours. */
static const char *refusal(const struct event *e, bool iwarp)
{
	char word[REASON_LEN];
	enum sr_reason r;
	size_t n = e->len;

	if (!iwarp && e->status == REJ_NO_SERVICE)
		return "no-listener";
	if (n >= sizeof(word))
		n = sizeof(word) - 1;
	memcpy(word, e->data, n);
	word[n] = 0;
	r = sr_reason_find(word);
	if (r != SR_REASON_NONE)
		return sr_reason_word(r);
	return iwarp ? "no-listener" : "refused";
}

static const char *ask_failure(struct ask *a, const struct event *e)
{
	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return e->status == -ETIMEDOUT ? "timeout" : "no-device";
	case RDMA_CM_EVENT_REJECTED:
		return refusal(e, a->iwarp);
	case RDMA_CM_EVENT_UNREACHABLE:
		return e->status == -ETIMEDOUT ? "timeout" : "no-listener";
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return "no-listener";
	default:
		return "device-failed";
	}
}

/*
 * siw now and then refuses one of many connections, in one way or another (seen:
 * 2 of 64 at once, 1 of 300 in a row).  Where nobody listens it costs 70 ms to be
 * sure.
 */
static bool hiccup(struct ask *a, const char *reason)
{
	return a->iwarp && a->hiccups < HICCUPS &&
	       !strcmp(reason, "no-listener");
}

static void once_more(struct sr_timer *t)
{
	struct ask *a = (struct ask *)((char *)t - offsetof(struct ask, timer));
	int err;

	watch_over(a);
	sr_enter();
	err = resolve(a);
	sr_leave();
	if (err)
		fail_ask(a, "no-device");
}

/* After 10, 20, 40 ms. */
static void start_over(struct ask *a)
{
	sr_debug("verbs: refused without a word: once more");
	release(a);
	a->timer.fn = once_more;
	sr_timer_set(&a->timer, 10u << a->hiccups++);
}

static void no_more(struct ask *a, const char *reason)
{
	if (hiccup(a, reason))
		start_over(a);
	else
		fail_ask(a, reason);
}

/* siw now and then keeps a refusal to itself (seen: 1 of 60): the queue pair is
 * flushed, and no event says why. */
static void ask_look(struct sr_timer *t)
{
	struct ask *a = (struct ask *)((char *)t - offsetof(struct ask, timer));

	if (a->link && sr_link_events(&a->link->link) & SR_LINK_DEAD)
		no_more(a, a->iwarp ? "no-listener" : "refused");
	else if (sr_now_ns() >= a->deadline_ns)
		fail_ask(a, "timeout");
	else
		sr_timer_set(t, LOOK_MS);
}

static void ask_event(struct ask *a, const struct event *e)
{
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
		reason = ask_failure(a, e);
		break;
	}
	if (reason)
		no_more(a, reason);
}

/* ---- answering ---- */

static void reject(struct rdma_cm_id *id, const char *reason)
{
	sr_enter();
	sr_vlib.cm_reject(id, reason, strlen(reason) + 1);
	sr_leave();
}

static void free_request(struct request *r, bool destroy)
{
	LINK_OUT(r);
	if (destroy) {
		sr_enter();
		sr_vlib.cm_destroy_id(r->id);
		sr_leave();
	}
	free(r);
}

static void refuse_at_once(struct rdma_cm_id *id, const char *reason)
{
	reject(id, reason);
	sr_vlib.cm_destroy_id(id);
}

static void connect_request(const struct event *e)
{
	struct rdma_cm_id *id = e->id;
	struct sr_name name;
	struct request *r;

	if (e->len < SR_NAME_LEN || sr_name_decode(&name, e->data, SR_NAME_LEN)) {
		refuse_at_once(id, "protocol");
		return;
	}
	/* It must come from the TCP peer's own address. */
	if (!same_host(&id->route.addr.dst_addr, &name) || !sr_link_request) {
		refuse_at_once(id, "no-match");
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		refuse_at_once(id, "memory");
		return;
	}
	r->req.ops = &sr_link_verbs;
	r->req.name = name;
	r->cm.what = SR_CM_REQUEST;
	r->id = id;
	id->context = &r->cm;
	LINK_IN(requests, r);
	sr_link_request(&r->req);
}

static void request_event(struct request *r, const struct event *e)
{
	if (e->type == RDMA_CM_EVENT_ADDR_CHANGE)
		return;
	if (sr_link_gone)
		sr_link_gone(&r->req);
	free_request(r, true);
}

struct sr_link *sr_verbs_accept(struct sr_request *req, void *owner,
				void (*notify)(struct sr_link *, unsigned),
				const char **reason)
{
	struct request *r = (struct request *)req;
	struct rdma_conn_param p;
	struct sr_vlink *l;
	struct sr_vdev *dev;

	dev = sr_vdev_get(r->id, reason);
	if (!dev)
		goto refuse;
	set_ack_timeout(r->id);
	l = sr_vlink_make(r->id, dev, SR_ROLE_ANSWERER, req->name.link_no,
			  owner, notify, reason);
	if (!l)
		goto refuse;
	conn_param(&p);
	sr_enter();
	if (sr_vlib.cm_accept(r->id, &p)) {
		sr_leave();
		sr_debug("verbs: accept: %m");
		*reason = "device-failed";
		reject(r->id, *reason);
		free_request(r, false);
		sr_vlink_close(l);
		sr_link_put(&l->link);
		return NULL;
	}
	sr_leave();
	free_request(r, false);
	return &l->link;

refuse:
	sr_verbs_refuse(req, *reason);
	return NULL;
}

void sr_verbs_refuse(struct sr_request *req, const char *reason)
{
	struct request *r = (struct request *)req;

	reject(r->id, reason);
	free_request(r, true);
}

static void link_event(struct sr_vlink *l, const struct event *e)
{
	switch (e->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		sr_vlink_up(l);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		/* What came before it counts. */
		sr_enter();
		while (sr_vcq_poll(l->cq, true) > 0)
			;
		sr_leave();
		sr_vlink_fail(l, "peer-dropped");
		break;
	default:
		break;
	}
}

/* ---- listening ---- */

static int listen_on(struct listener *ls, unsigned which, uint16_t port)
{
	struct sockaddr_storage addr;
	const char *reason;
	int err = 0;

	copy_addr(&addr, (struct sockaddr *)&ls->addr, port);
	ls->id[which] = make_id(&ls->cm);
	if (!ls->id[which])
		return -errno;
	sr_fd_making();
	if (sr_vlib.cm_bind_addr(ls->id[which], (struct sockaddr *)&addr) ||
	    sr_vlib.cm_listen(ls->id[which], BACKLOG))
		err = -errno;
	sr_vdev_hide(ls->id[which]->verbs);
	sr_fd_made(-1);
	if (!err) {
		if (ls->id[which]->verbs)	/* opened the device */
			sr_vdev_get(ls->id[which], &reason);
		return 0;
	}
	sr_vlib.cm_destroy_id(ls->id[which]);
	ls->id[which] = NULL;
	return err;
}

static void close_ids(struct listener *ls)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		if (ls->id[i])
			sr_vlib.cm_destroy_id(ls->id[i]);
		ls->id[i] = NULL;
	}
}

/* Wildcards bind on all devices, so with iWARP about the plain port number
 * may fail (TCP has it) and that is no error.  A bound one belongs to one
 * device, whose kind shows once it is bound. */
static int open_ids(struct listener *ls)
{
	uint16_t port = sr_addr_port((struct sockaddr *)&ls->addr);
	unsigned kinds = sr_verbs_devices();
	int err = -ENODEV, err2 = -ENODEV;

	if (kinds & SR_VDEV_IWARP)
		err2 = listen_on(ls, 1, iwarp_port(port));
	if (kinds & SR_VDEV_IB)
		err = listen_on(ls, 0, port);
	if (!err || !err2)
		return 0;
	return err != -ENODEV ? err : err2;
}

static void listen_again(struct sr_timer *t)
{
	struct listener *ls = (struct listener *)((char *)t -
			offsetof(struct listener, retry));

	sr_enter();
	close_ids(ls);
	if (open_ids(ls))
		sr_timer_set(t, RETRY_MS);
	sr_leave();
}

int sr_verbs_listen(const struct sockaddr *addr, void **out)
{
	struct listener *ls;
	int err;

	if (open_channel())
		return -ENODEV;
	ls = calloc(1, sizeof(*ls));
	if (!ls)
		return -ENOMEM;
	ls->cm.what = SR_CM_LISTEN;
	ls->retry.fn = listen_again;
	copy_addr(&ls->addr, addr, sr_addr_port(addr));
	sr_enter();
	err = open_ids(ls);
	sr_leave();
	if (err) {
		free(ls);
		return err;
	}
	LINK_IN(listeners, ls);
	*out = ls;
	return 0;
}

void sr_verbs_unlisten(void *listener)
{
	struct listener *ls = listener;

	sr_timer_cancel(&ls->retry);
	LINK_OUT(ls);
	sr_enter();
	close_ids(ls);
	sr_leave();
	free(ls);
}

/* ---- a device is gone ---- */

void sr_vcm_removed(struct ibv_context *ctx)
{
	struct request *r, *rnext;
	struct listener *ls;
	struct ask *a, *anext;

	for (a = asks; a; a = anext) {
		anext = a->next;
		if (a->id && a->id->verbs == ctx)
			fail_ask(a, "device-failed");
	}
	for (r = requests; r; r = rnext) {
		rnext = r->next;
		if (r->id->verbs != ctx)
			continue;
		if (sr_link_gone)
			sr_link_gone(&r->req);
		free_request(r, true);
	}
	for (ls = listeners; ls; ls = ls->next) {
		if (sr_addr_is_any(&ls->addr))
			continue;
		if ((ls->id[0] && ls->id[0]->verbs == ctx) ||
		    (ls->id[1] && ls->id[1]->verbs == ctx)) {
			sr_enter();
			close_ids(ls);
			sr_leave();
			sr_timer_set(&ls->retry, RETRY_MS);
		}
	}
}

/* ---- events ---- */

static void handle(const struct event *e)
{
	struct sr_vcm *cm = e->id->context;

	if (e->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		connect_request(e);
		return;
	}
	if (e->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		sr_vdev_remove(e->id->verbs);
		return;
	}
	switch (cm->what) {
	case SR_CM_ASK:
		ask_event((struct ask *)cm, e);
		break;
	case SR_CM_REQUEST:
		request_event((struct request *)((char *)cm -
					offsetof(struct request, cm)), e);
		break;
	case SR_CM_LINK:
		link_event((struct sr_vlink *)((char *)cm -
					offsetof(struct sr_vlink, cm)), e);
		break;
	case SR_CM_LISTEN:
	case SR_CM_SENTINEL:
		break;
	}
}

/* Before that librdmacm opens the device, and looks for ibacm. */
static bool had_link;

static void on_channel(struct sr_watch *w, uint32_t events)
{
	bool opens = !had_link;
	struct rdma_cm_event *ev;
	struct event e;

	(void)w;
	(void)events;
	sr_enter();
	if (opens)
		sr_fd_making();
	while (!sr_vlib.cm_get_cm_event(channel, &ev)) {
		sr_vdev_hide(ev->id->verbs);
		had_link |= ev->event == RDMA_CM_EVENT_ESTABLISHED;
		memset(&e, 0, sizeof(e));
		e.type = ev->event;
		e.status = ev->status;
		e.id = ev->id;
		e.len = least_of(ev->param.conn.private_data_len,
				 sizeof(e.data));
		if (!ev->param.conn.private_data)
			e.len = 0;
		if (e.len)
			memcpy(e.data, ev->param.conn.private_data, e.len);
		sr_vlib.cm_ack_cm_event(ev);
		sr_debug("verbs: CM event %d, status %d", (int)e.type,
			 e.status);
		handle(&e);
	}
	if (opens)
		sr_fd_made(-1);
	sr_leave();
}

/* ---- fork ---- */

void sr_verbs_forget(void)
{
	channel = NULL;
	had_link = false;
	memset(&channel_watch, 0, sizeof(channel_watch));
	asks = NULL;
	requests = NULL;
	listeners = NULL;
	sr_vdev_forget();
	sr_vscan_forget();
	sr_verbs_unload();
}
