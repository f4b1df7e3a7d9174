/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cm.c - how two ends find each other: answering, and the one event channel of librdmacm.
 * The asker's part is in ask.c, listeners are in listen.c.  The number asked for is the
 * TCP port; on iWARP, where those are the kernel's, the port plus an offset; and so where a
 * port below 1024 cannot be bound.
 *
 * All in the loop.  Its lock is that for loading (base/lock.h), while the channel is
 * made.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/apart.h"
#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/log.h"

enum {
	RETRIES = 6,		/* 7 is for ever on rxe (rxe_completer()) */
	RNR_FOREVER = 7,
};

static struct rdma_event_channel *channel;
static struct sr_watch channel_watch;
static bool channel_watched;
static struct sr_vrequest *requests;

/* ---- addresses ---- */

void sr_vcm_addr(struct sockaddr_storage *to, const struct sockaddr *from, uint16_t port)
{
	sr_addr_unmap(to, from);
	sr_addr_set_port(to, port);
}

/* iWARP: stays within 1024 .. 65535. */
uint16_t sr_vcm_iwarp_port(uint16_t port)
{
	const unsigned least = 1024, span = 65536 - 1024;

	return least + ((unsigned)port + sr_conf.cm_port_offset + span - least) %
			       span;
}

static bool same_host(const struct sockaddr *a, const struct sr_name *name)
{
	struct sockaddr_storage s, src, dst;

	sr_addr_unmap(&s, a);
	sr_name_addresses(name, &src, &dst);
	return sr_addr_same_host(&s, &src);
}

/* ---- the channel ---- */

static void on_channel(struct sr_watch *w, uint32_t events);

/* If it cannot be watched, the next one that needs the channel tries again. */
static int watch_channel(void)
{
	int err = 0;

	if (!channel_watched) {
		channel_watch.fd = channel->fd;
		channel_watch.fn = on_channel;
		err = sr_loop_watch(&channel_watch, EPOLLIN);
		channel_watched = !err;
	}
	return err;
}

/*
 * Before Linux 5.9 fork gave a child's copy-on-write the pages that a device has pinned, queues
 * of its provider among them.  ibv_fork_init() keeps them out of children.  Where the kernel
 * copies them for the child it is not called, because rdma-core split mappings all
 * the same until 2024.
 */
static int guard_fork(void)
{
	enum { UNNEEDED = 2 };	/* IBV_FORK_UNNEEDED, of rdma-core 35 */
	static bool said;
	int err;

	if (sr_vlib.v_is_fork_initialized && sr_vlib.v_is_fork_initialized() == UNNEEDED)
		return 0;
	err = sr_vlib.v_fork_init();
	if (!err)
		return 0;
	if (!said)
		sr_warn("verbs: a fork would break links on this kernel (ibv_fork_init: %s): there will "
			"be none", sr_errno_name(err));
	said = true;
	return -ELIBACC;
}

int sr_vcm_open(void)
{
	int err;

	if (channel)
		return channel->fd < 0 ? -EMFILE : watch_channel();
	sr_lock(&sr_locks.loading);	/* libibverbs loads those of all kinds of devices */
	err = sr_verbs_load();
	if (!err)
		err = guard_fork();
	if (!err)
		channel = sr_vlib.cm_create_event_channel();
	if (channel)
		channel->fd = sr_fd_own(channel->fd);
	sr_unlock(&sr_locks.loading);	/* fork knows the descriptor as ours */
	if (!channel)
		return err ? err : -ENODEV;
	if (channel->fd < 0)
		return -EMFILE;
	sr_vdev_nonblock(channel->fd);
	return watch_channel();
}

struct rdma_cm_id *sr_vcm_id(struct sr_vcm *cm)
{
	struct rdma_cm_id *id;

	return sr_vlib.cm_create_id(channel, &id, cm, RDMA_PS_TCP) ? NULL : id;
}

void sr_vcm_param(struct rdma_conn_param *p)
{
	memset(p, 0, sizeof(*p));
	p->responder_resources = 1;
	p->initiator_depth = 1;
	p->retry_count = RETRIES;
	p->rnr_retry_count = RNR_FOREVER;
}

/* The queue pair waits 4.096 us * 2^t for each acknowledgement (InfiniBand Architecture 1,
 * 9.7.6.1.3): all tries together no longer than retry_ms. */
void sr_vcm_ack_timeout(struct rdma_cm_id *id)
{
	uint64_t ns = sr_conf.retry_ms * UINT64_C(1000000) / (RETRIES + 1);
	uint8_t t = 0;

	while (UINT64_C(4096) << (t + 1) <= ns)
		t++;
	sr_vlib.cm_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &t, sizeof(t));
}

/* ---- answering ---- */

static void vcm_reject(struct rdma_cm_id *id, const char *reason)
{
	sr_vlib.cm_reject(id, reason, strlen(reason) + 1);
}

struct sr_vrequest *sr_vrequest_new(void)
{
	struct sr_vrequest *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->req.ops = &sr_rendezvous_verbs;
	SR_LIST_ADD(requests, r);
	return r;
}

void sr_vrequest_of(struct sr_vrequest *r, const struct sr_question *question)
{
	r->req.name = question->name;
	r->req.holds = question->holds;
	r->req.tclass = question->tclass;
}

void sr_vrequest_free(struct sr_vrequest *r)
{
	SR_LIST_DROP(r);
	if (r->id)
		sr_vlib.cm_destroy_id(r->id);
	if (r->c)
		sr_vcarrier_put(r->c);
	free(r);
}

void sr_vrequests_gone(struct sr_vcarrier *c)
{
	struct sr_vrequest *r, *next;
	bool gone;

	for (r = requests; r; r = next) {
		next = r->next;
		if (r->c != c)
			continue;
		sr_lock(&c->lock);
		gone = r->gone || !c->qp;
		sr_unlock(&c->lock);
		if (!gone)
			continue;
		sr_link_gone(&r->req);
		sr_vrequest_free(r);
	}
}

static void refuse_at_once(struct rdma_cm_id *id, const char *reason)
{
	vcm_reject(id, reason);
	sr_vlib.cm_destroy_id(id);
}

static void request_event(struct sr_vcm *cm, const struct sr_vcm_event *e)
{
	struct sr_vrequest *r = SR_OF(struct sr_vrequest, cm, cm);

	if (e->type == RDMA_CM_EVENT_ADDR_CHANGE)
		return;
	sr_link_gone(&r->req);
	sr_vrequest_free(r);
}

static void connect_request(const struct sr_vcm_event *e)
{
	struct rdma_cm_id *id = e->id;
	struct sr_question question;
	struct sr_vrequest *r;
	const char *reason;

	/* librdmacm has opened the device, which must be closed when it is removed, also
	 * if all requests are redirected. */
	sr_vdev_get(id, &reason);
	if (sr_question_decode(&question, e->data, e->len)) {
		if (e->len >= SR_NAME_LEN && !memcmp(e->data, "SR", 2) &&
		    e->data[2] != SR_WIRE_VERSION)
			sr_inform("verbs: a peer has protocol version %u, this is %u",
				  e->data[2], SR_WIRE_VERSION);
		refuse_at_once(id, "protocol");
		return;
	}
	/* It must come from the TCP peer's own address. */
	if (!same_host(&id->route.addr.dst_addr, &question.name)) {
		refuse_at_once(id, "no-match");
		return;
	}
	r = sr_vrequest_new();
	if (!r) {
		refuse_at_once(id, "memory");
		return;
	}
	sr_vrequest_of(r, &question);
	r->cm.event = request_event;
	r->id = id;
	id->context = &r->cm;
	sr_link_request(&r->req);
}

/* The stream has the link already. */
static void accept_made(struct sr_vcarrier *c, const char *reason)
{
	const char *word;
	struct rdma_conn_param p;

	sr_vcm_param(&p);
	if (!reason && sr_vlib.cm_accept(c->id, &p)) {
		sr_debug("verbs: accept: %s", sr_errno_name(errno));
		reason = "device-failed";
	}
	if (!reason)
		return;
	word = sr_vcarriers_spare(reason) ? "timeout" : reason;	/* it asks again soon */
	sr_vcarrier_fail(c, reason);	/* first: the peer may end the stream once it is refused */
	vcm_reject(c->id, word);
}

struct sr_link *sr_verbs_accept(struct sr_request *req, void *owner,
				void (*notify)(struct sr_link *, unsigned),
				const char **reason)
{
	struct sr_vrequest *r = (struct sr_vrequest *)req;
	const struct sr_vlink_for f = {
		.policy = req->policy,
		.shares = req->policy->carriers,
		.role = SR_ROLE_ANSWERER,
		.link_no = req->name.link_no,
		.owner = owner,
		.notify = notify,
	};
	const struct sr_question first = { .name = req->name, .tclass = req->tclass };
	struct sr_vlink *l = NULL;
	struct sr_vdev *dev;

	if (r->c)
		return sr_vshare_accept(r, &f, reason);
	dev = sr_vdev_get(r->id, reason);
	if (dev) {
		sr_vcm_ack_timeout(r->id);
		*reason = "memory";
		l = sr_vlink_make(r->id, dev, &f, &first, accept_made, NULL);
	}
	if (!l)
		return NULL;
	r->id = NULL;	/* it is the carrier's */
	sr_vrequest_free(r);
	return &l->link;
}

void sr_verbs_refuse(struct sr_request *req, const char *reason)
{
	struct sr_vrequest *r = (struct sr_vrequest *)req;

	if (r->c) {
		sr_vshare_refuse(r, reason);
		return;
	}
	vcm_reject(r->id, reason);
	sr_vrequest_free(r);
}

bool sr_verbs_tell(struct sr_request *req, enum sr_first first)
{
	struct sr_vrequest *r = (struct sr_vrequest *)req;

	if (r->c) {
		sr_vshare_tell(r, first);
		return false;
	}
	sr_verbs_refuse(req, sr_first_word(first));
	return true;
}

void sr_vcm_link_event(struct sr_vcm *cm, const struct sr_vcm_event *e)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, cm, cm);

	switch (e->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		sr_vcarrier_lock(c);
		sr_vshare_established(c);
		sr_vcarrier_unlock(c);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		sr_vcq_look(c);	/* what came before it counts */
		sr_vcarrier_lock(c);
		sr_vcarrier_break(c, sr_vpost_why(c, IBV_WC_SUCCESS, "peer-dropped"));
		sr_vcarrier_unlock(c);
		break;
	default:
		break;
	}
}

/* ---- a device is gone ---- */

void sr_vcm_removed(struct ibv_context *ctx)
{
	struct sr_vrequest *r, *rnext;

	sr_vask_removed(ctx);
	sr_vlisten_removed(ctx);
	for (r = requests; r; r = rnext) {
		rnext = r->next;
		if (!r->id || r->id->verbs != ctx)
			continue;
		sr_link_gone(&r->req);
		sr_vrequest_free(r);
	}
}

/* ---- events ---- */

static void vcm_handle(const struct sr_vcm_event *e)
{
	struct sr_vcm *cm = e->id->context;

	if (e->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		connect_request(e);
	else if (e->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		sr_vdev_remove(e->id->verbs);
	else if (cm->event)
		cm->event(cm, e);
}

static void on_channel(struct sr_watch *w, uint32_t events)
{
	struct rdma_cm_event *ev;
	struct sr_vcm_event e;

	(void)w;
	(void)events;
	while (!sr_vlib.cm_get_cm_event(channel, &ev)) {
		sr_vdev_hide(ev->id->verbs);
		memset(&e, 0, sizeof(e));
		e.type = ev->event;
		e.status = ev->status;
		e.id = ev->id;
		e.len = least_of(ev->param.conn.private_data_len, sizeof(e.data) - 1);
		if (!ev->param.conn.private_data)
			e.len = 0;
		if (e.len)
			memcpy(e.data, ev->param.conn.private_data, e.len);
		sr_vlib.cm_ack_cm_event(ev);
		sr_debug("verbs: CM event %d, status %d", (int)e.type, e.status);
		vcm_handle(&e);
		/* The channel is readable still. */
		if (sr_loop_is_late())
			return;
	}
}

/* ---- fork ---- */

SR_SELDOM void sr_verbs_forget(void)
{
	channel = NULL;
	memset(&channel_watch, 0, sizeof(channel_watch));
	channel_watched = false;
	sr_vask_forget();
	requests = NULL;
	sr_vlisten_forget();
	sr_vdev_forget();
	sr_vpost_forget();
	sr_vring_forget();
	sr_verbs_unload();
}
