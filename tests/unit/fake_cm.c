/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fake_cm.c - the connection manager of the fake RDMA device: ids, events, and
 * who is connected with whom.  As librdmacm does, it finishes some of the work
 * only when an event is read (digest()).
 */
#include "fake_impl.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
	REQ_DATA = 56,	/* InfiniBand pads private data, and says */
	REJ_DATA = 148, /* that it is so long */
	REJ_NO_SERVICE = 8,
	REJ_STALE = 10,
	REJ_CONSUMER = 28,
};

struct event {
	struct rdma_cm_event v;
	uint8_t data[REJ_DATA];
	struct event *next;
};

struct channel {
	struct rdma_event_channel v;
	struct event *first;
};

static unsigned last_port = 50000, last_dev_port;
static uint8_t ack_timeout, retries, class;
static bool privileged, mapped;
static int backlog[2];		/* of the last listener: InfiniBand, iWARP */
static unsigned lost;		/* requests to come */
static int refused;		/* the status of the next rejection; 0: none is due */
static bool holding;		/* the next rejection is kept back, */
static struct event *held;	/* here */
static struct {
	bool set;
	enum rdma_cm_event_type from, to;
	int status;
} swap;

static struct sockaddr_in *source(struct id *id)
{
	return &id->v.route.addr.src_sin;
}

static struct sockaddr_in *target(struct id *id)
{
	return &id->v.route.addr.dst_sin;
}

static int no(int err)
{
	errno = err;
	return -1;
}

/* ---- events ---- */

struct rdma_event_channel *fake_create_event_channel(void)
{
	struct channel *ch;

	LOCKED;
	fake_may_begin();
	if (fake_fails("cm_create_event_channel"))
		return NULL;
	ch = fake_new(sizeof(*ch));
	fake_alive--; /* it is never destroyed */
	ch->v.fd = fake_eventfd();
	return &ch->v;
}

static void deliver(struct event *e)
{
	struct channel *ch = (struct channel *)e->v.id->channel;
	struct event **p = &ch->first;

	while (*p)
		p = &(*p)->next;
	*p = e;
	fake_ring(ch->v.fd);
}

static struct event *send_event(struct id *id, enum rdma_cm_event_type type,
				int status)
{
	struct event *e = fake_new(sizeof(*e));

	e->v.id = &id->v;
	e->v.event = type;
	e->v.status = status;
	if (type == RDMA_CM_EVENT_REJECTED && holding && !held)
		held = e;
	else
		deliver(e);
	return e;
}

static void send_data(struct id *id, enum rdma_cm_event_type type, int status,
		      const void *data, size_t len, size_t padded)
{
	struct event *e = send_event(id, type, status);

	memcpy(e->data, data, len);
	e->v.param.conn.private_data = e->data;
	e->v.param.conn.private_data_len = id->dev->iwarp ? len : padded;
}

static void name_gids(struct id *id)
{
	memcpy(&id->v.route.addr.addr.ibaddr.sgid, source(id), 8);
	memcpy(&id->v.route.addr.addr.ibaddr.dgid, target(id), 8);
}

static void digest(struct rdma_cm_event *e)
{
	struct id *id = (struct id *)e->id;

	if (swap.set && swap.from == e->event) {
		swap.set = false;
		e->event = swap.to;
		e->status = swap.status;
	}
	if (e->event == RDMA_CM_EVENT_ADDR_RESOLVED && id->dev->gone) {
		e->event = RDMA_CM_EVENT_ADDR_ERROR;
		e->status = -ENODEV;
	} else if (e->event == RDMA_CM_EVENT_ADDR_RESOLVED) {
		id->v.verbs = &id->dev->v;
		id->v.port_num = id->port;
		name_gids(id);
	} else if (e->event == RDMA_CM_EVENT_ESTABLISHED) {
		id->state = CONNECTED;
		if (id->active && id->queue && id->queue->v.state == IBV_QPS_INIT)
			id->queue->v.state = IBV_QPS_RTS;
		if (id->active && id->peer)
			send_event(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0);
	}
}

int fake_get_cm_event(struct rdma_event_channel *channel,
		      struct rdma_cm_event **out)
{
	struct channel *ch = (struct channel *)channel;
	struct event *e;

	LOCKED;
	if (fake_fails("cm_get_cm_event") || !fake_next_ring(channel->fd))
		return -1;
	e = ch->first;
	if (!e) /* it was a destroyed id's */
		return no(EAGAIN);
	ch->first = e->next;
	((struct id *)e->v.id)->unacked++;
	digest(&e->v);
	*out = &e->v;
	return 0;
}

int fake_ack_cm_event(struct rdma_cm_event *event)
{
	LOCKED;
	((struct id *)event->id)->unacked--;
	fake_free(event);
	return fake_fails("cm_ack_cm_event") ? -1 : 0;
}

/* ---- ids ---- */

static struct id *new_id(struct rdma_event_channel *channel, void *context)
{
	struct id *id = fake_new(sizeof(*id));

	id->v.channel = channel;
	id->v.context = context;
	id->v.ps = RDMA_PS_TCP;
	ADD(fake_ids, id);
	return id;
}

int fake_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out,
		   void *context, enum rdma_port_space ps)
{
	(void)ps;
	LOCKED;
	if (fake_fails("cm_create_id"))
		return -1;
	*out = &new_id(channel, context)->v;
	return 0;
}

/* The connection ends, and the peer is told. */
static void hang_up(struct id *id)
{
	struct id *peer = id->peer;

	if (id->queue)
		fake_flush_qp(id->queue);
	if (!peer)
		return;
	if (id->state >= ANSWERED || peer->state >= ANSWERED)
		send_event(peer, RDMA_CM_EVENT_DISCONNECTED, 0);
	else
		send_event(peer, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
	if (peer->queue && id->dev->iwarp) /* its TCP connection */
		fake_flush_qp(peer->queue);
	id->peer = peer->peer = NULL;
}

int fake_destroy_id(struct rdma_cm_id *cm)
{
	LOCKED;
	struct event **p = &((struct channel *)cm->channel)->first, *e;
	struct id *id = (struct id *)cm;

	if (id->queue)
		fake_broke("an id with a queue pair is destroyed");
	if (id->unacked)
		fake_broke("events of an id were not acknowledged");
	hang_up(id);
	while ((e = *p)) {
		if (e->v.id != cm) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		fake_free(e);
	}
	if (held && held->v.id == cm) {
		fake_free(held);
		held = NULL;
	}
	DROP(fake_ids, id);
	return fake_fails("cm_destroy_id") ? -1 : 0;
}

static void set_source(struct id *id, const struct sockaddr *addr)
{
	*source(id) = *(const struct sockaddr_in *)addr;
	if (!source(id)->sin_port)
		source(id)->sin_port = htons(last_port++);
}

int fake_bind_addr(struct rdma_cm_id *cm, struct sockaddr *addr)
{
	struct id *id = (struct id *)cm;

	LOCKED;
	if (fake_fails("cm_bind_addr"))
		return -1;
	if (privileged && ntohs(((struct sockaddr_in *)addr)->sin_port) < 1024)
		return no(EACCES);
	set_source(id, addr);
	if (!source(id)->sin_addr.s_addr)
		return 0;
	id->dev = fake_device();
	if (!id->dev)
		return no(ENODEV);
	cm->verbs = &id->dev->v;
	return 0;
}

int fake_set_option(struct rdma_cm_id *cm, int level, int name, void *val,
		    size_t len)
{
	(void)level;
	LOCKED;
	if (name == RDMA_OPTION_ID_ACK_TIMEOUT && len == 1)
		ack_timeout = *(uint8_t *)val;
	if (name == RDMA_OPTION_ID_TOS && len == 1) {
		if (((struct id *)cm)->routed)
			fake_broke("the traffic class comes too late for the route");
		((struct id *)cm)->tos = *(uint8_t *)val;
	}
	return fake_fails("cm_set_option") ? -1 : 0;
}

/* ---- connecting ---- */

int fake_resolve_addr(struct rdma_cm_id *cm, struct sockaddr *src,
		      struct sockaddr *dst, int ms)
{
	struct id *id = (struct id *)cm;

	(void)ms;
	LOCKED;
	if (fake_fails("cm_resolve_addr"))
		return -1;
	id->dev = fake_device();
	if (!id->dev)
		return no(ENODEV);
	id->port = 1 + last_dev_port++ % fake_profile()->ports;
	set_source(id, src);
	*target(id) = *(struct sockaddr_in *)dst;
	send_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

int fake_resolve_route(struct rdma_cm_id *cm, int ms)
{
	(void)ms;
	LOCKED;
	if (fake_fails("cm_resolve_route"))
		return -1;
	((struct id *)cm)->routed = true;
	send_event((struct id *)cm, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

int fake_listen(struct rdma_cm_id *cm, int n)
{
	LOCKED;
	if (fake_fails("cm_listen"))
		return -1;
	backlog[fake_device() && fake_device()->iwarp] = n;
	((struct id *)cm)->state = LISTENING;
	return 0;
}

/* What the profile says of requests. */
static void have_trouble(struct id *id)
{
	const struct fake_profile *p = fake_profile();
	static unsigned n;

	if (id->dev->iwarp)
		return;
	n++;
	if (p->lost && n % p->lost == 0 && !lost)
		lost = 1;
	else if (p->rejected && n % p->rejected == 0 && !refused)
		refused = REJ_STALE;
}

int fake_connect(struct rdma_cm_id *cm, struct rdma_conn_param *p)
{
	LOCKED;
	struct id *id = (struct id *)cm, *l = fake_ids, *child;

	if (fake_fails("cm_connect"))
		return -1;
	id->active = true;
	class = id->tos;
	retries = p->retry_count;
	have_trouble(id);
	if (lost) {
		lost--;
		return 0;
	}
	if (refused) {
		send_event(id, RDMA_CM_EVENT_REJECTED, refused);
		refused = 0;
		return 0;
	}
	while (l && (l->state != LISTENING ||
		     source(l)->sin_port != target(id)->sin_port))
		l = l->next;
	if (!l) {
		send_event(id, RDMA_CM_EVENT_REJECTED,
			   id->dev->iwarp ? -ECONNREFUSED : REJ_NO_SERVICE);
		return 0;
	}
	child = new_id(l->v.channel, l->v.context);
	child->dev = id->dev;
	child->v.verbs = &id->dev->v;
	child->v.port_num = child->port = id->port;
	*source(child) = *target(id);
	*target(child) = *source(id);
	if (mapped || (fake_profile()->maps_ports && id->dev->iwarp)) /* iwcm.c of the kernel, where only the asker has a port mapper */
		target(child)->sin_port ^= htons(0x4000);
	name_gids(child);
	child->peer = id;
	child->state = ASKED;
	id->peer = child;
	id->state = ASKING;
	send_data(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, p->private_data,
		  p->private_data_len, REQ_DATA);
	return 0;
}

int fake_accept(struct rdma_cm_id *cm, struct rdma_conn_param *p)
{
	struct id *id = (struct id *)cm;

	LOCKED;
	if (fake_fails("cm_accept"))
		return -1;
	retries = p->retry_count;
	if (id->state != ASKED || !id->peer)
		return no(EINVAL);
	id->state = ANSWERED;
	id->queue->v.state = IBV_QPS_RTS;
	send_event(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0);
	return 0;
}

int fake_reject(struct rdma_cm_id *cm, const void *data, uint8_t len)
{
	LOCKED;
	struct id *id = (struct id *)cm, *peer = id->peer;

	if (fake_fails("cm_reject"))
		return -1;
	if (!peer)
		return no(EINVAL);
	send_data(peer, RDMA_CM_EVENT_REJECTED,
		  id->dev->iwarp ? -ECONNREFUSED : REJ_CONSUMER, data, len,
		  REJ_DATA);
	if (peer->queue && id->dev->iwarp) /* siw's siw_cm_work_handler() */
		fake_flush_qp(peer->queue);
	id->peer = peer->peer = NULL;
	return 0;
}

int fake_disconnect(struct rdma_cm_id *cm)
{
	struct id *id = (struct id *)cm;

	LOCKED;
	if (fake_fails("cm_disconnect"))
		return -1;
	if (id->state < ANSWERED)
		return no(EINVAL);
	hang_up(id);
	return 0;
}

/* ---- what tests ask for ---- */

void fake_swap_event(enum rdma_cm_event_type from, enum rdma_cm_event_type to,
		     int status)
{
	LOCKED;
	swap.set = true;
	swap.from = from;
	swap.to = to;
	swap.status = status;
}

int fake_backlog(bool iwarp)
{
	LOCKED;
	return backlog[iwarp];
}

uint8_t fake_class(void)
{
	LOCKED;
	return class;
}

void fake_map_ports(bool map)
{
	LOCKED;
	mapped = map;
}

void fake_lose_requests(unsigned n)
{
	LOCKED;
	lost = n;
}

void fake_refuse_next(int status)
{
	LOCKED;
	refused = status;
}

void fake_hold_refusal(bool hold)
{
	LOCKED;
	holding = hold;
	if (!hold && held) {
		deliver(held);
		held = NULL;
	}
}

void fake_privileged(bool are)
{
	LOCKED;
	privileged = are;
}

void fake_patience(uint8_t *timeout, uint8_t *tries)
{
	LOCKED;
	*timeout = ack_timeout;
	*tries = retries;
}

void fake_kill(void)
{
	struct id *id;

	LOCKED;
	for (id = fake_ids; id; id = id->next)
		if (!id->active && id->state >= ANSWERED)
			hang_up(id);
}

void fake_unplug(void)
{
	struct device *d;
	struct id *id;
	struct qp *q;

	LOCKED;
	d = fake_device();
	if (!d)
		return;
	for (q = fake_qps; q; q = q->next)
		fake_flush_qp(q);
	for (id = fake_ids; id; id = id->next)
		if (id->v.verbs && id->dev == d)
			send_event(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	fake_add_async(d, IBV_EVENT_DEVICE_FATAL, NULL, 0);
	d->gone = true;
}
