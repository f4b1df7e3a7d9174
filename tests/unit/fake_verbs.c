/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fake_verbs.c - the verbs of the fake device; see fake_verbs.h.  It defines what
 * lib.c does, so that the linker takes nothing from there.  A caller that breaks a rule
 * which real hardware need not notice (a queue that overflows, an object destroyed in
 * use) ends the program with a message.
 */
#include "fake_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct device *fake_devices; /* also those that were unplugged */
struct qp *fake_qps;
struct id *fake_ids;
atomic_uint fake_alive;
atomic_ulong fake_requests;
struct mr *fake_mrs;
static struct cq *cqs;
static unsigned last_key, last_qpn, last_cq;
static size_t pinned, most_pinned;

int fake_take(void)
{
	return pthread_mutex_lock(&fake_lock);
}

void fake_leave(int *unused)
{
	(void)unused;
	pthread_mutex_unlock(&fake_lock);
}

void fake_broke(const char *rule)
{
	fprintf(stderr, "fake verbs: %s\n", rule);
	abort();
}

/* ---- devices that are gone ---- */

/* Unplugged; or its context is of no use, as the library has closed its descriptor. */
static bool gone(struct ibv_context *ctx)
{
	struct stat st;

	if (fstat(ctx->cmd_fd, &st) || !S_ISREG(st.st_mode))
		((struct device *)ctx)->gone = true;
	errno = EIO;
	return ((struct device *)ctx)->gone;
}

static int destroyed(struct ibv_context *ctx, const char *verb)
{
	if (fake_fails(verb))
		return errno;
	return fake_profile()->destroys_fail && ((struct device *)ctx)->gone ? EIO : 0;
}

/* ---- objects ---- */

void *fake_new(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		fake_broke("no memory");
	fake_alive++;
	return p;
}

void fake_free(void *object)
{
	free(object);
	fake_alive--;
}

void fake_add(void *list, void *object, size_t next)
{
	void **head = list;

	*(void **)((char *)object + next) = *head;
	*head = object;
}

void fake_drop(void *list, void *object, size_t next)
{
	void **p = list;

	while (*p && *p != object)
		p = (void **)((char *)*p + next);
	if (!*p)
		fake_broke("an unknown object is destroyed");
	*p = *(void **)((char *)object + next);
	fake_free(object);
}

/* Not by libc: the link moves and closes descriptors by the bare system call, of
 * which ThreadSanitizer sees nothing, and it would take two for one. */
int fake_eventfd(void)
{
	return (int)syscall(SYS_eventfd2, 0, EFD_SEMAPHORE | EFD_CLOEXEC);
}

void fake_ring(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) != sizeof(one))
		fake_broke("an event could not be told");
}

bool fake_next_ring(int fd)
{
	uint64_t one;

	return read(fd, &one, sizeof(one)) == sizeof(one);
}

/* ---- fork ---- */

static bool fork_ready;

/* ibv_fork_init(3): before anything else; it costs mappings, where it is of no use. */
static int fake_fork_init(void)
{
	LOCKED;
	if (fake_fails("v_fork_init"))
		return errno;
	if (!fake_profile()->old_kernel)
		fake_broke("this kernel needs no ibv_fork_init()");
	fork_ready = true;
	return 0;
}

static int fake_is_fork_initialized(void)
{
	LOCKED;
	return fork_ready ? IBV_FORK_ENABLED :
	       fake_profile()->old_kernel ? IBV_FORK_DISABLED : IBV_FORK_UNNEEDED;
}

void fake_may_begin(void)
{
	if (fake_profile()->old_kernel && !fork_ready)
		fake_broke("after a fork the device would read other pages");
}

/* ---- memory ---- */

/* As ib_umem_get() of the kernel does.  Queues count with some devices only. */
static bool pin(size_t bytes, bool queue)
{
	if (queue && !fake_profile()->pins)
		return true;
	errno = ENOMEM;
	if (most_pinned && pinned + bytes > most_pinned)
		return false;
	pinned += bytes;
	return true;
}

static void unpin(size_t bytes, bool queue)
{
	if (!queue || fake_profile()->pins)
		pinned -= bytes;
}

/* Of mlx5, for queues of the library's sizes. */
static size_t cq_bytes(const struct cq *c)
{
	return (size_t)c->v.cqe * 2 * 64;
}

static size_t qp_bytes(const struct qp *q)
{
	return (size_t)q->send_cap * 512 + (size_t)q->recv_cap * 64;
}

void fake_may_pin(size_t bytes)
{
	LOCKED;
	most_pinned = bytes;
}

size_t fake_pinned(void)
{
	LOCKED;
	return pinned;
}

size_t sr_verbs_pinned(void)
{
	return fake_pinned();
}

static struct ibv_pd *fake_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd;

	fake_take_time("v_alloc_pd");
	LOCKED;
	if (fake_fails("v_alloc_pd") || gone(ctx))
		return NULL;
	pd = fake_new(sizeof(*pd));
	pd->context = ctx;
	return pd;
}

static int fake_dealloc_pd(struct ibv_pd *pd)
{
	struct ibv_context *ctx = pd->context;
	struct mr *m;
	struct qp *q;

	fake_take_time("v_dealloc_pd");
	LOCKED;
	for (m = fake_mrs; m; m = m->next)
		if (m->v.pd == pd)
			fake_broke(
				"a protection domain with memory is destroyed");
	for (q = fake_qps; q; q = q->next)
		if (q->v.pd == pd)
			fake_broke("a protection domain in use is destroyed");
	fake_free(pd);
	return destroyed(ctx, "v_dealloc_pd");
}

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
				  int access)
{
	struct mr *m;

	if (access & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | RELAXED))
		fake_broke("access that is not asked for by anybody");

	fake_take_time("v_reg_mr");
	LOCKED;
	if (fake_fails("v_reg_mr") || gone(pd->context) || !pin(len, false))
		return NULL;
	m = fake_new(sizeof(*m));
	m->v.context = pd->context;
	m->v.pd = pd;
	m->v.addr = addr;
	m->v.length = len;
	m->v.lkey = m->v.rkey = ++last_key << 8;
	m->access = access;
	ADD(fake_mrs, m);
	return &m->v;
}

/* A kernel of before 5.6 takes no optional flags, and the library leaves them out. */
static struct ibv_mr *fake_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
					unsigned access)
{
	if (iova != (uintptr_t)addr)
		fake_broke("another address for the peer");
	if (fake_profile()->old_kernel)
		access &= ~RELAXED;
	return fake_reg_mr(pd, addr, len, (int)access);
}

static bool may_be_written(const struct mr *m)
{
	struct qp *q;

	if (!(m->access & IBV_ACCESS_REMOTE_WRITE))
		return false;
	for (q = fake_qps; q; q = q->next)
		if (q->v.pd == m->v.pd && q->v.state != IBV_QPS_ERR)
			return true;
	return false;
}

static void check_told(const struct mr *m)
{
	struct qp *q;

	for (q = fake_qps; q; q = q->next)
		for (unsigned i = 0; i < q->n_held; i++)
			if (q->v.pd == m->v.pd &&
			    (size_t)(q->held[i].to - (uint8_t *)m->v.addr) < m->v.length)
				fake_broke("a region goes before anybody has been told what was written to it");
}

static int fake_dereg_mr(struct ibv_mr *mr)
{
	struct ibv_context *ctx = mr->context;

	fake_take_time("v_dereg_mr");
	LOCKED;
	check_told((struct mr *)mr);
	fake_open_regions += may_be_written((struct mr *)mr);
	unpin(mr->length, false);
	DROP(fake_mrs, (struct mr *)mr);
	return destroyed(ctx, "v_dereg_mr");
}

/* ---- completion queues ---- */

static struct ibv_comp_channel *fake_create_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *c;

	LOCKED;
	if (fake_fails("v_create_comp_channel") || gone(ctx))
		return NULL;
	c = fake_new(sizeof(*c));
	c->context = ctx;
	c->fd = fake_eventfd();
	return c;
}

static int fake_destroy_channel(struct ibv_comp_channel *c)
{
	struct cq *q;

	LOCKED;
	for (q = cqs; q; q = q->next)
		if (q->v.channel == c)
			fake_broke("a channel in use is destroyed");
	close(c->fd);
	fake_free(c);
	return fake_fails("v_destroy_comp_channel") ? errno : 0;
}

static struct ibv_cq *fake_create_cq(struct ibv_context *ctx, int n, void *arg,
				     struct ibv_comp_channel *channel,
				     int vector)
{
	struct cq *c;

	fake_take_time("v_create_cq");
	LOCKED;
	if (fake_fails("v_create_cq") || gone(ctx))
		return NULL;
	if (vector < 0 || vector >= ctx->num_comp_vectors)
		fake_broke("there is no such completion vector");
	c = fake_new(sizeof(*c));
	c->v.context = ctx;
	c->v.channel = channel;
	c->v.cq_context = arg;
	c->v.cqe = n;
	c->vector = vector;
	c->ring = calloc(n, sizeof(*c->ring));
	if (!c->ring || n > FAKE_CQE)
		fake_broke("so long a completion queue cannot be");
	c->arming = fake_profile()->arming;
	if (c->arming == ARM_IN_TURN)
		c->arming = last_cq++ % ARM_WAYS;
	if (!pin(cq_bytes(c), true)) {
		free(c->ring);
		fake_free(c);
		return NULL;
	}
	ADD(cqs, c);
	return &c->v;
}

unsigned fake_vectors(void)
{
	unsigned seen = 0;
	struct cq *c;

	LOCKED;
	for (c = cqs; c; c = c->next)
		seen |= 1u << c->vector;
	return (unsigned)__builtin_popcount(seen);
}

static int fake_destroy_cq(struct ibv_cq *cq)
{
	struct ibv_context *ctx = cq->context;
	struct device *d = (struct device *)ctx;
	struct cq *c = (struct cq *)cq;
	unsigned i;

	fake_take_time("v_destroy_cq");
	LOCKED;
	if (c->users)
		fake_broke("a completion queue in use is destroyed");
	if (c->unacked)
		fake_broke(
			"events of a completion queue were not acknowledged");
	for (i = 0; i < d->n_async; i++)
		if (d->async[i].element.cq == cq)
			d->async[i].element.cq = NULL;
	unpin(cq_bytes(c), true);
	free(c->ring);
	DROP(cqs, c);
	return destroyed(ctx, "v_destroy_cq");
}

static int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct cq *c = (struct cq *)cq;
	struct cqe *e;
	struct qp *q;
	int i;

	LOCKED;
	if (fake_fails("poll_cq"))
		return -1;
	for (i = 0; i < n && c->head != c->tail; i++) {
		e = &c->ring[c->head++ % c->v.cqe];
		wc[i] = e->wc;
		for (q = fake_qps; q && q->v.qp_num != e->wc.qp_num;
		     q = q->next)
			;
		if (q && e->send)
			q->freed = e->frees;
	}
	fake_polled(c);
	return i;
}

static int fake_req_notify(struct ibv_cq *cq, int solicited)
{
	struct cq *c = (struct cq *)cq;

	LOCKED;
	if (fake_fails("req_notify_cq"))
		return errno;
	if (solicited)	/* nor can each device do that (MANA, siw) */
		fake_broke("nothing that is sent asks for an event");
	fake_arm(c, ARMED);
	return 0;
}

/* If one is late already, the other one comes at once. */
void fake_tell(struct cq *c)
{
	unsigned us = fake_profile()->late_us;

	if (us && !c->late_ns) {
		c->late_ns = fake_due_ns() + us * UINT64_C(1000);
		fake_wake();
		return;
	}
	c->events++;
	fake_ring(c->v.channel->fd);
}

uint64_t fake_tell_late(uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct cq *c;

	for (c = cqs; c; c = c->next) {
		if (c->late_ns && c->late_ns <= now) {
			c->late_ns = 0;
			c->events++;
			fake_ring(c->v.channel->fd);
		}
		if (c->late_ns && c->late_ns < next)
			next = c->late_ns;
	}
	return next;
}

static int fake_get_cq_event(struct ibv_comp_channel *channel,
			     struct ibv_cq **cq, void **arg)
{
	LOCKED;
	struct cq *c = cqs;

	if (fake_fails("v_get_cq_event") || !fake_next_ring(channel->fd))
		return -1;
	while (c && (c->v.channel != channel || !c->events))
		c = c->next;
	errno = EAGAIN;
	if (!c) /* it was a destroyed one's */
		return -1;
	c->events--;
	c->unacked++;
	fake_event_read(c);
	*cq = &c->v;
	*arg = c->v.cq_context;
	return 0;
}

static void fake_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	LOCKED;
	((struct cq *)cq)->unacked -= n;
}

/* ---- queue pairs ---- */

static void post_one(struct qp *q, const struct ibv_send_wr *wr)
{
	struct send *s = &q->sends[q->posted % q->send_cap];

	if (q->posted++ - q->freed == q->send_cap)
		fake_broke("a send queue overflows");
	if (wr->num_sge != 1 || (wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_SEND) ||
	    (q->v.state != IBV_QPS_RTS && q->v.state != IBV_QPS_ERR))
		fake_broke("a send that cannot be");
	fake_requests++;
	s->wr_id = wr->wr_id;
	s->from = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	s->len = wr->sg_list->length;
	s->key = wr->sg_list->lkey;
	s->opcode = wr->opcode;
	s->remote_addr = wr->wr.rdma.remote_addr;
	s->rkey = wr->wr.rdma.rkey;
	s->signaled = wr->send_flags & IBV_SEND_SIGNALED;
	s->status = IBV_WC_SUCCESS;
	s->due_ns = fake_due_ns();
	/* RFC 5044, 7.1: the answerer's stack may not be in RDMA mode before. */
	if (fake_is_iwarp(q) && !q->id->active && !q->recv_head)
		fake_broke("on iWARP the accepting end sends first");
	if (!(wr->send_flags & IBV_SEND_INLINE) || fake_profile()->ignores_inline)
		return;
	if (s->len > q->max_inline)
		fake_broke("too much is sent inline");
	memcpy(s->copy, s->from, s->len);
	s->from = s->copy;
}

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	struct qp *q = (struct qp *)qp;

	LOCKED;
	*bad = wr;
	if (fake_fails("post_send"))
		return errno;
	for (; wr; wr = wr->next)
		post_one(q, wr);
	if (q->v.state == IBV_QPS_ERR)
		fake_flush_qp(q);
	fake_wake_for_request();
	return 0;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad)
{
	struct qp *q = (struct qp *)qp;
	struct recv *r;

	LOCKED;
	*bad = wr;
	if (fake_fails("post_recv"))
		return errno;
	for (; wr; wr = wr->next) {
		r = &q->recvs[q->recv_tail % q->recv_cap];
		if (q->recv_tail++ - q->recv_head == q->recv_cap)
			fake_broke("a receive queue overflows");
		r->wr_id = wr->wr_id;
		r->to = (uint8_t *)(uintptr_t)wr->sg_list->addr;
		r->len = wr->sg_list->length;
		r->key = wr->sg_list->lkey;
	}
	if (q->v.state == IBV_QPS_ERR)
		fake_flush_qp(q);
	return 0;
}

static int fake_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	const struct fake_profile *profile = fake_profile();
	struct qp *q;

	fake_take_time("cm_create_qp");
	LOCKED;
	if (fake_fails("cm_create_qp") || gone(pd->context))
		return -1;
	errno = EINVAL;
	if (attr->cap.max_inline_data > profile->max_inline && profile->grants_less)
		attr->cap.max_inline_data = profile->max_inline;
	if (attr->cap.max_inline_data > profile->max_inline ||
	    attr->cap.max_send_wr > FAKE_WR || attr->cap.max_recv_wr > FAKE_WR)
		return -1;
	q = fake_new(sizeof(*q));
	q->v.context = pd->context;
	q->v.pd = pd;
	q->v.send_cq = attr->send_cq;
	q->v.recv_cq = attr->recv_cq;
	q->v.qp_num = ++last_qpn;
	q->v.state = IBV_QPS_INIT;
	q->send_cap = attr->cap.max_send_wr;
	q->recv_cap = attr->cap.max_recv_wr;
	q->max_inline = attr->cap.max_inline_data;
	if (!pin(qp_bytes(q), true)) {
		fake_free(q);
		return -1;
	}
	q->sends = calloc(q->send_cap, sizeof(*q->sends));
	q->recvs = calloc(q->recv_cap, sizeof(*q->recvs));
	if (!q->sends || !q->recvs)
		fake_broke("no memory");
	q->id = (struct id *)id;
	((struct cq *)attr->send_cq)->users++;
	((struct cq *)attr->recv_cq)->users++;
	id->qp = &q->v;
	q->id->queue = q;
	ADD(fake_qps, q);
	return 0;
}

unsigned fake_queue_pairs(void)
{
	struct qp *q;
	unsigned n = 0;

	LOCKED;
	for (q = fake_qps; q; q = q->next)
		n++;
	return n;
}

static int fake_destroy_qp(struct ibv_qp *qp)
{
	struct ibv_context *ctx = qp->context;
	struct device *d = (struct device *)ctx;
	struct qp *q = (struct qp *)qp;
	unsigned i;

	fake_take_time("v_destroy_qp");
	LOCKED;
	unpin(qp_bytes(q), true);
	for (i = 0; i < d->n_async; i++)
		if (d->async[i].element.qp == &q->v)
			d->async[i].element.qp = NULL;
	((struct cq *)q->v.send_cq)->users--;
	((struct cq *)q->v.recv_cq)->users--;
	fake_place_held(q, false);
	free(q->sends);
	free(q->recvs);
	q->id->queue = NULL;
	DROP(fake_qps, q);
	return destroyed(ctx, "v_destroy_qp");
}

/* ---- devices ---- */

struct device *fake_device(void)
{
	return fake_devices && !fake_devices->gone ? fake_devices : NULL;
}

static int fake_get_async_event(struct ibv_context *ctx,
				struct ibv_async_event *out)
{
	struct device *d = (struct device *)ctx;

	LOCKED;
	if (fake_fails("v_get_async_event") || !fake_next_ring(ctx->async_fd))
		return -1;
	*out = d->async[0];
	memmove(d->async, d->async + 1, --d->n_async * sizeof(*out));
	return 0;
}

static void fake_ack_async_event(struct ibv_async_event *e)
{
	(void)e;
}

void fake_plug(bool iwarp)
{
	struct device *d = calloc(1, sizeof(*d));

	LOCKED;
	if (!d)
		fake_broke("no memory");
	fake_start();
	strcpy(d->ibdev.name, iwarp ? "siw_fake" : "fake");
	strcpy(d->ibdev.dev_name, "fake_uverbs");
	d->ibdev.transport_type =
		iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	d->iwarp = iwarp;
	d->v.device = &d->ibdev;
	d->v.num_comp_vectors = fake_profile()->vectors;
	d->v.cmd_fd = (int)syscall(SYS_memfd_create, "fake", MFD_CLOEXEC);
	d->v.async_fd = fake_eventfd();
	d->async_ring = dup(d->v.async_fd);
	d->v.ops.post_send = fake_post_send;
	d->v.ops.post_recv = fake_post_recv;
	d->v.ops.poll_cq = fake_poll_cq;
	d->v.ops.req_notify_cq = fake_req_notify;
	ADD(fake_devices, d);
}

/* ---- in the place of lib.c ---- */

struct sr_verbs_lib sr_vlib = {
	.cm_create_event_channel = fake_create_event_channel,
	.cm_create_id = fake_create_id,
	.cm_destroy_id = fake_destroy_id,
	.cm_bind_addr = fake_bind_addr,
	.cm_resolve_addr = fake_resolve_addr,
	.cm_resolve_route = fake_resolve_route,
	.cm_create_qp = fake_create_qp,
	.cm_connect = fake_connect,
	.cm_listen = fake_listen,
	.cm_accept = fake_accept,
	.cm_reject = fake_reject,
	.cm_disconnect = fake_disconnect,
	.cm_get_cm_event = fake_get_cm_event,
	.cm_ack_cm_event = fake_ack_cm_event,
	.cm_set_option = fake_set_option,
	.v_fork_init = fake_fork_init,
	.v_is_fork_initialized = fake_is_fork_initialized,
	.v_alloc_pd = fake_alloc_pd,
	.v_dealloc_pd = fake_dealloc_pd,
	.v_reg_mr = fake_reg_mr,
	.v_reg_mr_iova2 = fake_reg_mr_iova2,
	.v_dereg_mr = fake_dereg_mr,
	.v_create_comp_channel = fake_create_channel,
	.v_destroy_comp_channel = fake_destroy_channel,
	.v_create_cq = fake_create_cq,
	.v_destroy_cq = fake_destroy_cq,
	.v_destroy_qp = fake_destroy_qp,
	.v_get_cq_event = fake_get_cq_event,
	.v_ack_cq_events = fake_ack_cq_events,
	.v_get_async_event = fake_get_async_event,
	.v_ack_async_event = fake_ack_async_event,
};

unsigned sr_verbs_devices(void)
{
	struct device *d;

	LOCKED;
	d = fake_device();
	return !d ? 0 : d->iwarp ? SR_VDEV_IWARP : SR_VDEV_IB;
}

int sr_verbs_load(void)
{
	return sr_verbs_devices() ? 0 : -ENODEV;
}

void sr_verbs_unload(void)
{
}
