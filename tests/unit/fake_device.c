/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fake_device.c - the hardware of the fake device; see fake_verbs.h.  One thread plays it:
 * it executes send requests, each at its time, and completes them some time later.
 */
#include "fake_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum {
	RNR_US = 200,	      /* before a send is tried again */
	RETRY_US = 20 * 1000, /* before a sender gives a lost peer up */
	LOST_US = 1000 * 1000, /* before it gives up what is lost on the way */
};

atomic_uint fake_rnrs, fake_open_regions;
static pthread_cond_t work;
static bool paused, mute;
static uint64_t seed = 1;
static unsigned delay_us, wrong_send, longest;
static const struct ibv_qp *wrong_qp;
static enum ibv_wc_status wrong_status, always_status;

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

uint64_t fake_due_ns(void)
{
	return now_ns() + some_time_ns();
}

void fake_wake(void)
{
	pthread_cond_signal(&work);
}

void fake_wake_for_request(void)
{
	if (!paused)
		fake_wake();
}

bool fake_is_iwarp(const struct qp *q)
{
	return ((const struct device *)q->v.context)->iwarp;
}

static struct mr *region(uint32_t key)
{
	struct mr *m;

	for (m = fake_mrs; m && m->v.lkey != key; m = m->next)
		;
	return m;
}

static bool may_access(struct qp *q, uint32_t key, const void *at, uint32_t len,
		       int access)
{
	struct mr *m = region(key);

	return m && m->v.pd == q->v.pd && (m->access & access) == access &&
	       (uintptr_t)at >= (uintptr_t)m->v.addr &&
	       (uintptr_t)at + len <= (uintptr_t)m->v.addr + m->v.length;
}

static void push(struct ibv_cq *cq, const struct cqe *e)
{
	struct cq *c = (struct cq *)cq;

	if (c->tail - c->head == (uint32_t)c->v.cqe)
		fake_broke("a completion queue overflows");
	c->ring[c->tail++ % c->v.cqe] = *e;
	if (c->armed == NOT_ARMED)
		return;
	c->armed = NOT_ARMED;
	fake_tell(c);
}

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
		push(q->v.send_cq, &e);
}

/* Relaxed ordering: what was written arrives by the next completion of a receive, which shows
 * all, and in any order: here the last first. */
static void place(struct qp *q, const struct send *s)
{
	struct held *h = &q->held[q->n_held];

	if (!(region(s->rkey)->access & RELAXED)) {
		memcpy((void *)(uintptr_t)s->remote_addr, s->from, s->len);
		return;
	}
	if (q->n_held == FAKE_HELD)
		fake_broke("too much is written of which nobody is told");
	*h = (struct held){ (uint8_t *)(uintptr_t)s->remote_addr, malloc(s->len), s->len };
	if (!h->bytes)
		fake_broke("no memory");
	memcpy(h->bytes, s->from, s->len);
	q->n_held++;
}

void fake_place_held(struct qp *q, bool is_there)
{
	struct held *h;

	while (q->n_held) {
		h = &q->held[--q->n_held];
		if (is_there)
			memcpy(h->to, h->bytes, h->len);
		free(h->bytes);
	}
}

static void complete_recv(struct qp *q, enum ibv_wc_status status,
			  const struct send *s)
{
	struct cqe e = {.wc.status = status, .wc.qp_num = q->v.qp_num};

	fake_place_held(q, status == IBV_WC_SUCCESS);
	e.wc.wr_id = q->recvs[q->recv_head++ % q->recv_cap].wr_id;
	e.wc.opcode = IBV_WC_RECV;
	e.wc.byte_len = s ? s->len : 0;
	push(q->v.recv_cq, &e);
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

void fake_add_async(struct device *d, enum ibv_event_type type, struct qp *q, int port)
{
	struct ibv_async_event *e = &d->async[d->n_async];

	if (d->n_async == FAKE_ASYNCS || d->gone)
		return;
	d->n_async++;
	e->event_type = type;
	e->element.qp = q ? &q->v : NULL;
	if (q && type == IBV_EVENT_CQ_ERR)
		e->element.cq = q->v.send_cq;
	if (!q)
		e->element.port_num = port;
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
			       IBV_EVENT_QP_ACCESS_ERR, p, 0);
		fake_flush_qp(p);
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (s->opcode == IBV_WR_SEND)
		memcpy(to, s->from, s->len);
	else
		place(p, s);
	if (takes)
		complete_recv(p, IBV_WC_SUCCESS, s);
	return IBV_WC_SUCCESS;
}

static void step_send(struct qp *q, uint64_t now)
{
	struct send *s = &q->sends[q->executed % q->send_cap];
	struct qp *p = q->id->peer ? q->id->peer->queue : NULL;
	bool there =
		p && (p->v.state == IBV_QPS_RTS || p->v.state == IBV_QPS_INIT);
	bool fits = !longest || s->len <= longest;
	int status = there && fits ? execute(q, p, s) : IBV_WC_RETRY_EXC_ERR;

	if (!(there && fits) && s->status == IBV_WC_SUCCESS) {
		s->status = IBV_WC_RETRY_EXC_ERR; /* the next time */
		s->due_ns = now + (there ? LOST_US : RETRY_US) * 1000;
		return;
	}
	if (status < 0) {
		fake_rnrs++;
		s->due_ns = now + RNR_US * 1000;
		return;
	}
	if (wrong_send && (!wrong_qp || wrong_qp == &q->v) && !--wrong_send)
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

/* Nothing behind a request that has failed is executed. */
static bool has_failed(const struct qp *q)
{
	return q->executed != q->completed &&
	       q->sends[(q->executed - 1) % q->send_cap].status != IBV_WC_SUCCESS;
}

/* When is q's next step?  Either the next completion or the next request. */
static uint64_t next_step(struct qp *q, bool *completes)
{
	uint64_t a = UINT64_MAX, b = UINT64_MAX;

	if (q->v.state != IBV_QPS_RTS)
		return UINT64_MAX;
	if (q->completed != q->executed)
		a = q->sends[q->completed % q->send_cap].due_ns;
	if (q->executed != q->posted && !has_failed(q))
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
	uint64_t next, late;

	for (;;) {
		LOCKED;
		late = fake_tell_late(now_ns());
		next = UINT64_MAX;
		if (!paused && step(&next))
			continue;
		next = late < next ? late : next;
		if (next == UINT64_MAX) {
			pthread_cond_wait(&work, &fake_lock);
			continue;
		}
		ts.tv_sec = next / 1000000000;
		ts.tv_nsec = next % 1000000000;
		pthread_cond_timedwait(&work, &fake_lock, &ts);
	}
	return arg;
}

void fake_start(void)
{
	static bool started;
	pthread_condattr_t attr;
	pthread_t thread;

	if (started)
		return;
	started = true;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&work, &attr);
	if (pthread_create(&thread, NULL, hardware, NULL))
		fake_broke("no thread");
	pthread_detach(thread);
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
	fake_wake();
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

void fake_fail_send(const struct ibv_qp *qp, unsigned n, enum ibv_wc_status status)
{
	LOCKED;
	wrong_qp = qp;
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

void fake_lose_longer(unsigned bytes)
{
	LOCKED;
	longest = bytes;
}

void fake_async(enum ibv_event_type type)
{
	struct device *d;
	struct qp *q;
	int port;

	LOCKED;
	d = fake_device();
	if (!d)
		return;
	if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE)
		for (port = 1; port <= fake_profile()->ports; port++)
			fake_add_async(d, type, NULL, port);
	else if (type == IBV_EVENT_CQ_ERR)
		for (q = fake_qps; q; q = q->next)
			fake_add_async(d, type, q, 0);
	else
		fake_add_async(d, type, type == IBV_EVENT_DEVICE_FATAL ? NULL : fake_qps, 0);
}

void fake_async_one(enum ibv_event_type type, struct ibv_qp *qp, int port)
{
	LOCKED;
	if (fake_device())
		fake_add_async(fake_device(), type, (struct qp *)qp, port);
}

void fake_flush(void)
{
	struct qp *q;

	LOCKED;
	for (q = fake_qps; q; q = q->next)
		fake_flush_qp(q);
}
