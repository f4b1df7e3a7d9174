/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fake_verbs.c - see fake_verbs.h.  It defines what lib.c does, so that
 * the linker takes nothing from there.  One thread plays the hardware: it
 * executes send requests, each at its time, and completes them some time later.
 * A caller that breaks a rule which real hardware need not notice (a queue that
 * overflows, an object destroyed in use) ends the program with a message.
 */
#include "fake_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum {
	RNR_US = 200,	      /* before a send is tried again */
	RETRY_US = 20 * 1000, /* before a sender gives a lost peer up */
};

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct device *fake_devices; /* also those that were unplugged */
struct qp *fake_qps;
struct id *fake_ids;
atomic_uint fake_alive, fake_rnrs;
static pthread_cond_t work;
static bool started, paused, mute;
static struct mr *mrs;
static struct cq *cqs;
static uint64_t seed = 1;
static unsigned delay_us, last_key, last_qpn, wrong_send;
static enum ibv_wc_status wrong_status, always_status;

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

/* ---- failing on demand ---- */

/* Destroyers without a result, and such as cannot fail, are not in here. */
#define SKIP(name)                                                             \
	(!strcmp(name, "cm_destroy_qp") || strstr(name, "v_ack_") ||           \
	 !strcmp(name, "v_get_device_name"))
#define NAME(lib, prefix, name) #lib "_" #name,
static const char *const verbs[] = {"post_send", "post_recv", "poll_cq",
				    "req_notify_cq", SR_VERBS_CALLS(NAME)};
enum { VERBS = sizeof(verbs) / sizeof(verbs[0]) };
static unsigned calls[VERBS];
static struct {
	unsigned verb, left;
	int err;
} fault;

static unsigned number_of(const char *verb)
{
	unsigned i;

	for (i = 0; i < VERBS; i++)
		if (!strcmp(verbs[i], verb))
			return i;
	fake_broke("no such verb");
}

bool fake_fails(const char *verb)
{
	unsigned i = number_of(verb);

	calls[i]++;
	if (fault.verb != i || !fault.left || --fault.left)
		return false;
	errno = fault.err;
	return true;
}

static bool gone(struct ibv_context *ctx)
{
	errno = EIO;
	return ((struct device *)ctx)->gone;
}

void fake_fail(const char *verb, unsigned n, int err)
{
	LOCKED;
	fault.verb = n ? number_of(verb) : 0;
	fault.left = n;
	fault.err = err;
}

bool fake_struck(void)
{
	LOCKED;
	return !fault.left;
}

unsigned fake_calls(const char *verb)
{
	LOCKED;
	return calls[number_of(verb)];
}

const char *fake_verb(unsigned i)
{
	unsigned k;

	for (k = 0; k < VERBS; k++)
		if (!SKIP(verbs[k]) && !i--)
			return verbs[k];
	return NULL;
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

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static uint64_t some_time_ns(void)
{
	return check_random(&seed) % (delay_us + 1) * 1000;
}

/* ---- memory ---- */

static struct ibv_pd *fake_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd;

	LOCKED;
	if (fake_fails("v_alloc_pd") || gone(ctx))
		return NULL;
	pd = fake_new(sizeof(*pd));
	pd->context = ctx;
	return pd;
}

static int fake_dealloc_pd(struct ibv_pd *pd)
{
	struct mr *m;
	struct qp *q;

	LOCKED;
	for (m = mrs; m; m = m->next)
		if (m->v.pd == pd)
			fake_broke(
				"a protection domain with memory is destroyed");
	for (q = fake_qps; q; q = q->next)
		if (q->v.pd == pd)
			fake_broke("a protection domain in use is destroyed");
	fake_free(pd);
	return fake_fails("v_dealloc_pd") ? errno : 0;
}

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
				  int access)
{
	struct mr *m;

	LOCKED;
	if (fake_fails("v_reg_mr") || gone(pd->context))
		return NULL;
	m = fake_new(sizeof(*m));
	m->v.context = pd->context;
	m->v.pd = pd;
	m->v.addr = addr;
	m->v.length = len;
	m->v.lkey = m->v.rkey = ++last_key << 8;
	m->access = access;
	ADD(mrs, m);
	return &m->v;
}

static int fake_dereg_mr(struct ibv_mr *mr)
{
	LOCKED;
	DROP(mrs, (struct mr *)mr);
	return fake_fails("v_dereg_mr") ? errno : 0;
}

static bool may_access(struct qp *q, uint32_t key, const void *at, uint32_t len,
		       int access)
{
	struct mr *m;

	for (m = mrs; m && m->v.lkey != key; m = m->next)
		;
	return m && m->v.pd == q->v.pd && (m->access & access) == access &&
	       (uintptr_t)at >= (uintptr_t)m->v.addr &&
	       (uintptr_t)at + len <= (uintptr_t)m->v.addr + m->v.length;
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

	(void)vector;
	LOCKED;
	if (fake_fails("v_create_cq") || gone(ctx))
		return NULL;
	c = fake_new(sizeof(*c));
	c->v.context = ctx;
	c->v.channel = channel;
	c->v.cq_context = arg;
	c->v.cqe = n;
	c->ring = calloc(n, sizeof(*c->ring));
	if (!c->ring || n > FAKE_CQE)
		fake_broke("so long a completion queue cannot be");
	ADD(cqs, c);
	return &c->v;
}

static int fake_destroy_cq(struct ibv_cq *cq)
{
	struct cq *c = (struct cq *)cq;

	LOCKED;
	if (c->users)
		fake_broke("a completion queue in use is destroyed");
	if (c->unacked)
		fake_broke(
			"events of a completion queue were not acknowledged");
	free(c->ring);
	DROP(cqs, c);
	return fake_fails("v_destroy_cq") ? errno : 0;
}

static void push(struct ibv_cq *cq, const struct cqe *e, bool solicited)
{
	struct cq *c = (struct cq *)cq;

	if (c->tail - c->head == (uint32_t)c->v.cqe)
		fake_broke("a completion queue overflows");
	c->ring[c->tail++ % c->v.cqe] = *e;
	solicited |= e->wc.status != IBV_WC_SUCCESS;
	if (c->armed == NOT_ARMED ||
	    (c->armed == ARMED_SOLICITED && !solicited))
		return;
	c->armed = NOT_ARMED;
	c->events++;
	fake_ring(c->v.channel->fd);
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
	return i;
}

static int fake_req_notify(struct ibv_cq *cq, int solicited)
{
	struct cq *c = (struct cq *)cq;

	LOCKED;
	if (fake_fails("req_notify_cq"))
		return errno;
	if (!solicited || c->armed == ARMED)
		c->armed = ARMED;
	else
		c->armed = ARMED_SOLICITED;
	return 0;
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
	*cq = &c->v;
	*arg = c->v.cq_context;
	return 0;
}

static void fake_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	LOCKED;
	((struct cq *)cq)->unacked -= n;
}

/* ---- what comes of requests ---- */

static bool is_iwarp(const struct qp *q)
{
	return ((const struct device *)q->v.context)->iwarp;
}

/* As on siw, whose receives are never solicited, and whose sends are. */
static void complete_send(struct qp *q, enum ibv_wc_status status)
{
	struct send *s = &q->sends[q->completed++ % q->send_cap];
	struct cqe e = {.frees = q->completed, .send = true};

	e.wc.wr_id = s->wr_id;
	e.wc.status = status;
	e.wc.qp_num = q->v.qp_num;
	e.wc.opcode =
		s->opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
	if (s->signaled || status != IBV_WC_SUCCESS)
		push(q->v.send_cq, &e, is_iwarp(q) && s->solicited);
}

static void complete_recv(struct qp *q, enum ibv_wc_status status,
			  const struct send *s)
{
	struct cqe e = {.wc.status = status, .wc.qp_num = q->v.qp_num};

	e.wc.wr_id = q->recvs[q->recv_head++ % q->recv_cap].wr_id;
	e.wc.opcode = IBV_WC_RECV;
	if (s && s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		e.wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		e.wc.wc_flags = IBV_WC_WITH_IMM;
		e.wc.imm_data = s->imm;
	}
	e.wc.byte_len = s ? s->len : 0;
	push(q->v.recv_cq, &e, s && s->solicited && !is_iwarp(q));
}

void fake_flush_qp(struct qp *q)
{
	q->v.state = IBV_QPS_ERR;
	while (q->completed != q->posted)
		complete_send(q, IBV_WC_WR_FLUSH_ERR);
	q->executed = q->posted;
	while (q->recv_head != q->recv_tail)
		complete_recv(q, IBV_WC_WR_FLUSH_ERR, NULL);
}

void fake_add_async(struct device *d, enum ibv_event_type type, struct qp *q)
{
	struct ibv_async_event *e = &d->async[d->n_async];

	if (d->n_async == FAKE_ASYNCS || d->gone)
		return;
	d->n_async++;
	e->event_type = type;
	e->element.qp = q ? &q->v : NULL;
	fake_ring(d->async_ring);
}

/* What a request does at the peer: a status; or -1, no receive is posted. */
static int execute(struct qp *q, struct qp *p, struct send *s)
{
	bool takes = s->opcode != IBV_WR_RDMA_WRITE;
	struct recv *r = &p->recvs[p->recv_head % p->recv_cap];
	void *to = (void *)(uintptr_t)s->remote_addr;

	if (s->from != s->copy && !may_access(q, s->key, s->from, s->len, 0))
		return IBV_WC_LOC_PROT_ERR;
	if (mute || always_status)
		return always_status;
	if (takes && p->recv_head == p->recv_tail)
		return -1;
	if (s->opcode == IBV_WR_SEND) {
		to = r->to;
		if (s->len > r->len || !may_access(p, r->key, to, s->len,
						   IBV_ACCESS_LOCAL_WRITE)) {
			complete_recv(p, IBV_WC_LOC_LEN_ERR, NULL);
			fake_flush_qp(p);
			return IBV_WC_REM_INV_REQ_ERR;
		}
	} else if (!may_access(p, s->rkey, to, s->len,
			       IBV_ACCESS_REMOTE_WRITE)) {
		fake_add_async((struct device *)p->v.context,
			       IBV_EVENT_QP_ACCESS_ERR, p);
		fake_flush_qp(p);
		return IBV_WC_REM_ACCESS_ERR;
	}
	memcpy(to, s->from, s->len);
	if (takes)
		complete_recv(p, IBV_WC_SUCCESS, s);
	return IBV_WC_SUCCESS;
}

static void step_send(struct qp *q, uint64_t now)
{
	struct send *s = &q->sends[q->executed % q->send_cap];
	struct qp *p = q->id->peer ? (struct qp *)q->id->peer->v.qp : NULL;
	bool there =
		p && (p->v.state == IBV_QPS_RTS || p->v.state == IBV_QPS_INIT);
	int status = there ? execute(q, p, s) : IBV_WC_RETRY_EXC_ERR;

	if (!there && s->status == IBV_WC_SUCCESS) {
		s->status = IBV_WC_RETRY_EXC_ERR; /* the next time */
		s->due_ns = now + RETRY_US * 1000;
		return;
	}
	if (status < 0) {
		fake_rnrs++;
		s->due_ns = now + RNR_US * 1000;
		return;
	}
	if (wrong_send && !--wrong_send)
		status = wrong_status;
	s->status = status;
	s->due_ns = now + some_time_ns();
	q->executed++;
}

static void step_completion(struct qp *q)
{
	enum ibv_wc_status status = q->sends[q->completed % q->send_cap].status;

	complete_send(q, status);
	if (status != IBV_WC_SUCCESS)
		fake_flush_qp(q);
}

/* When is q's next step?  Either the next completion or the next request. */
static uint64_t next_step(struct qp *q, bool *completes)
{
	uint64_t a = UINT64_MAX, b = UINT64_MAX;

	if (q->v.state != IBV_QPS_RTS)
		return UINT64_MAX;
	if (q->completed != q->executed)
		a = q->sends[q->completed % q->send_cap].due_ns;
	if (q->executed != q->posted)
		b = q->sends[q->executed % q->send_cap].due_ns;
	*completes = a <= b;
	return a < b ? a : b;
}

/* One step that is due, of a random queue pair; in a pause every one is due.
 * False: there is none, and *next_ns is when to look again. */
static bool step(uint64_t *next_ns)
{
	bool completes, pick_completes = false;
	uint64_t now = now_ns(), due;
	struct qp *q, *pick = NULL;
	unsigned n = 0;

	*next_ns = UINT64_MAX;
	for (q = fake_qps; q; q = q->next) {
		due = next_step(q, &completes);
		if (due == UINT64_MAX)
			continue;
		if (due > now && !paused) {
			*next_ns = due < *next_ns ? due : *next_ns;
		} else if (!(check_random(&seed) % ++n)) {
			pick = q;
			pick_completes = completes;
		}
	}
	if (pick && pick_completes)
		step_completion(pick);
	else if (pick)
		step_send(pick, now);
	return pick;
}

static void *hardware(void *arg)
{
	struct timespec ts;
	uint64_t next;

	for (;;) {
		LOCKED;
		if (!paused && step(&next))
			continue;
		if (paused || next == UINT64_MAX) {
			pthread_cond_wait(&work, &fake_lock);
			continue;
		}
		ts.tv_sec = next / 1000000000;
		ts.tv_nsec = next % 1000000000;
		pthread_cond_timedwait(&work, &fake_lock, &ts);
	}
	return arg;
}

/* ---- queue pairs ---- */

static void post_one(struct qp *q, const struct ibv_send_wr *wr)
{
	struct send *s = &q->sends[q->posted % q->send_cap];

	if (q->posted++ - q->freed == q->send_cap)
		fake_broke("a send queue overflows");
	if (wr->num_sge != 1 || wr->opcode > IBV_WR_SEND ||
	    (is_iwarp(q) && wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) ||
	    (q->v.state != IBV_QPS_RTS && q->v.state != IBV_QPS_ERR))
		fake_broke("a send that cannot be");
	s->wr_id = wr->wr_id;
	s->from = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	s->len = wr->sg_list->length;
	s->key = wr->sg_list->lkey;
	s->opcode = wr->opcode;
	s->imm = wr->imm_data;
	s->remote_addr = wr->wr.rdma.remote_addr;
	s->rkey = wr->wr.rdma.rkey;
	s->signaled = wr->send_flags & IBV_SEND_SIGNALED;
	s->solicited = wr->send_flags & IBV_SEND_SOLICITED;
	s->status = IBV_WC_SUCCESS;
	s->due_ns = now_ns() + some_time_ns();
	if (!(wr->send_flags & IBV_SEND_INLINE))
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
	pthread_cond_signal(&work);
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
	struct qp *q;

	LOCKED;
	if (fake_fails("cm_create_qp") || gone(pd->context))
		return -1;
	errno = EINVAL;
	if (attr->cap.max_inline_data > FAKE_INLINE ||
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
	q->sends = calloc(q->send_cap, sizeof(*q->sends));
	q->recvs = calloc(q->recv_cap, sizeof(*q->recvs));
	if (!q->sends || !q->recvs)
		fake_broke("no memory");
	q->id = (struct id *)id;
	((struct cq *)attr->send_cq)->users++;
	((struct cq *)attr->recv_cq)->users++;
	id->qp = &q->v;
	ADD(fake_qps, q);
	return 0;
}

static void fake_destroy_qp(struct rdma_cm_id *id)
{
	struct qp *q = (struct qp *)id->qp;
	struct device *d = (struct device *)q->v.context;
	unsigned i;

	LOCKED;
	for (i = 0; i < d->n_async; i++)
		if (d->async[i].element.qp == &q->v)
			d->async[i].element.qp = NULL;
	((struct cq *)q->v.send_cq)->users--;
	((struct cq *)q->v.recv_cq)->users--;
	free(q->sends);
	free(q->recvs);
	DROP(fake_qps, q);
	id->qp = NULL;
}

/* ---- devices ---- */

struct device *fake_device(void)
{
	return fake_devices && !fake_devices->gone ? fake_devices : NULL;
}

static const char *fake_get_device_name(struct ibv_device *d)
{
	return d->name;
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

static void start_hardware(void)
{
	pthread_condattr_t attr;
	pthread_t thread;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&work, &attr);
	if (pthread_create(&thread, NULL, hardware, NULL))
		fake_broke("no thread");
	pthread_detach(thread);
}

void fake_plug(bool iwarp)
{
	struct device *d = calloc(1, sizeof(*d));

	LOCKED;
	if (!d)
		fake_broke("no memory");
	if (!started)
		start_hardware();
	started = true;
	strcpy(d->ibdev.name, iwarp ? "siw_fake" : "fake");
	strcpy(d->ibdev.dev_name, "fake_uverbs");
	d->ibdev.transport_type =
		iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	d->iwarp = iwarp;
	d->v.device = &d->ibdev;
	d->v.cmd_fd = fake_eventfd();
	d->v.async_fd = fake_eventfd();
	d->async_ring = dup(d->v.async_fd);
	d->v.ops.post_send = fake_post_send;
	d->v.ops.post_recv = fake_post_recv;
	d->v.ops.poll_cq = fake_poll_cq;
	d->v.ops.req_notify_cq = fake_req_notify;
	ADD(fake_devices, d);
}

/* ---- what tests ask for ---- */

void fake_delay(unsigned us, uint64_t new_seed)
{
	LOCKED;
	delay_us = us;
	seed = new_seed;
}

void fake_pause(bool pause)
{
	LOCKED;
	paused = pause;
	pthread_cond_signal(&work);
}

unsigned fake_step(unsigned n)
{
	uint64_t next;
	unsigned i;

	LOCKED;
	for (i = 0; i < n && step(&next); i++)
		;
	return i;
}

void fake_fail_send(unsigned n, enum ibv_wc_status status)
{
	LOCKED;
	wrong_send = n;
	wrong_status = status;
}

void fake_fail_sends(enum ibv_wc_status status)
{
	LOCKED;
	always_status = status;
}

void fake_mute(bool is)
{
	LOCKED;
	mute = is;
}

void fake_async(enum ibv_event_type type)
{
	LOCKED;
	if (fake_device())
		fake_add_async(fake_device(), type, fake_qps);
}

void fake_flush(void)
{
	struct qp *q;

	LOCKED;
	for (q = fake_qps; q; q = q->next)
		fake_flush_qp(q);
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
	.cm_destroy_qp = fake_destroy_qp,
	.cm_connect = fake_connect,
	.cm_listen = fake_listen,
	.cm_accept = fake_accept,
	.cm_reject = fake_reject,
	.cm_disconnect = fake_disconnect,
	.cm_get_cm_event = fake_get_cm_event,
	.cm_ack_cm_event = fake_ack_cm_event,
	.cm_set_option = fake_set_option,
	.v_get_device_name = fake_get_device_name,
	.v_alloc_pd = fake_alloc_pd,
	.v_dealloc_pd = fake_dealloc_pd,
	.v_reg_mr = fake_reg_mr,
	.v_dereg_mr = fake_dereg_mr,
	.v_create_comp_channel = fake_create_channel,
	.v_destroy_comp_channel = fake_destroy_channel,
	.v_create_cq = fake_create_cq,
	.v_destroy_cq = fake_destroy_cq,
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

const char *sr_verbs_load(void)
{
	return sr_verbs_devices() ? NULL : "no-device";
}

void sr_verbs_unload(void)
{
}
