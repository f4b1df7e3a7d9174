/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs.c - an end of an RDMA link on a device that does nothing, whose peer sends what it
 * likes: messages with any bytes and numbers, rings.  In half of the cases the two ends share the
 * carrier between several links, which the end opens and the peer accepts, refuses or ends.  What
 * the end finds and what it posts lies in its rings; no counter passes another one that it must
 * not pass.
 */
#include "base/real.h" /* before any system header */

#include <errno.h>

#include "base/conf.h"
#include "fuzz.h"
#include "link/verbs/verbs.h"

#ifdef HAVE_VERBS

#define STEPS 300

enum { SR_V_FUZZED = 2, PEER_LINKS = 8 };

static struct fuzz f;
static struct sr_vcarrier *c;
static struct sr_vlink *l;	/* the one that a step is about */
static struct sr_vlink *all[SR_V_FUZZED];
static bool shares;
static struct ibv_context context;
static struct ibv_cq cq;
static struct ibv_qp qp;
static struct sr_vdev dev;
static uint32_t posted, completed;	/* work requests, all signalled or before one */
static uint32_t sends;

static bool inside(const struct sr_vring *r, const uint8_t *p, size_t n)
{
	return r->buf && p >= r->buf && p + n <= r->buf + r->size;
}

/* From the link's ring into the peer's? */
static bool is_write_of(const struct sr_vlink *w, const struct ibv_send_wr *wr, const uint8_t *p,
			size_t n)
{
	return w && inside(&w->tx.ring, p, n) && w->tx.peer.addr && w->tx.ring.mr &&
	       wr->wr.rdma.remote_addr >= w->tx.peer.addr &&
	       wr->wr.rdma.remote_addr + n <= w->tx.peer.addr + w->tx.peer.size;
}

static int post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)q;
	(void)bad;
	for (; wr; wr = wr->next) {
		const uint8_t *p = (const uint8_t *)(uintptr_t)wr->sg_list->addr;
		size_t n = wr->sg_list->length;

		if (wr->opcode == IBV_WR_SEND)
			CHECK(inside(&c->ctl, p, n));
		else
			CHECK(is_write_of(all[0], wr, p, n) || is_write_of(all[1], wr, p, n));
		sends += wr->opcode == IBV_WR_SEND;
		posted++;
	}
	CHECK(posted - completed <= SR_V_SQ);
	CHECK(sends <= c->out.credit.peer_posted);	/* the receiver is ready */
	return 0;
}

static int post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)q;
	(void)bad;
	for (; wr; wr = wr->next)
		CHECK(inside(&c->ctl, (const uint8_t *)(uintptr_t)wr->sg_list->addr,
			     wr->sg_list->length));
	return 0;
}

static int poll_cq(struct ibv_cq *q, int n, struct ibv_wc *wc)
{
	(void)q;
	(void)n;
	(void)wc;
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *at, size_t n, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)pd;
	(void)access;
	if (mr)
		*mr = (struct ibv_mr){.addr = at, .length = n, .rkey = 7, .lkey = 7};
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

static void heard(struct sr_link *link, unsigned what)
{
	(void)link;
	(void)what;
}

/* ---- the peer ---- */

static void completion(const struct ibv_wc *wc)
{
	sr_vcarrier_lock(c);
	sr_vrx_completion(c, wc);
	if (sr_vrx_repost(c))
		sr_vcarrier_break(c, "device-failed");
	sr_vpost_due(c);
	sr_vcarrier_unlock(c);
}

static uint32_t ring_size(void)
{
	return (uint32_t)1 << (12 + fuzz_below(&f, 6));
}

static struct sr_ring_ref ring(uint32_t gen)
{
	const bool ordinary = fuzz_below(&f, 2);

	return (struct sr_ring_ref){
		.addr = ordinary ? 0 : 4096, .rkey = !ordinary, .gen = gen,
		.size = fuzz_below(&f, 8) ? ring_size() : (uint32_t)fuzz_bytes(&f, 4),
	};
}

static void fill(struct sr_msg *msg)
{
	msg->ack = fuzz_below(&f, 8) ? fuzz_number(&f, l->link.tx_acked) : l->link.tx_acked;
	switch (msg->type) {
	case SR_MSG_HELLO:
		msg->hello = (struct sr_hello){
			.version = SR_WIRE_VERSION, .role = SR_ROLE_ANSWERER, .link_no = 1,
			.ring = ring(0),
		};
		break;
	case SR_MSG_SWITCH:
		msg->sw = (struct sr_switch){.n = fuzz_number(&f, 1000), .link_no = 1};
		break;
	case SR_MSG_END:
		msg->end = fuzz_number(&f, l->link.rx_h);
		break;
	case SR_MSG_DATA:
		msg->len = (uint32_t)(fuzz_below(&f, 4) ? fuzz_bytes(&f, 2) : fuzz_number(&f, 0));
		break;
	case SR_MSG_RING:
		msg->ring = ring((uint32_t)fuzz_number(&f, l->tx.peer.gen + 1));
		break;
	case SR_MSG_RING_USE:
		msg->use.offset = fuzz_number(&f, l->link.rx_h);
		msg->use.gen = (uint32_t)fuzz_number(&f, sr_gens_last(&l->rx.gens)->ring + 1);
		break;
	default:
		break;
	}
}

/* To OPEN; or OPEN itself, which only the end may send; or the link's end. */
static void add_answer(struct sr_packet_out *p, uint32_t number)
{
	const struct sr_question question = {.name = {.family = AF_INET}};
	const uint16_t there[2] = {7, 8};

	switch (fuzz_below(&f, 8)) {
	case 0: case 1: case 2: sr_packet_put_accept(p, number, fuzz_below(&f, 2)); break;
	case 3: sr_packet_put_first(p, number, SR_FIRST_TAKEN); break;
	case 4: sr_packet_put_refuse(p, number, "no-match"); break;
	case 5: sr_packet_put_there(p, number, there); break;
	case 6: sr_packet_put_raw(p, number, SR_RECORD_DROP, l->link.tx_acked, 0); break;
	default: sr_packet_put_open(p, number, &question);
	}
}

/* Bytes of the stream, or an honest message with any numbers. */
static void add_record(struct sr_packet_out *p)
{
	uint32_t number = fuzz_below(&f, 32) ? l->number : (uint32_t)fuzz_bytes(&f, 2);
	struct sr_msg msg;
	size_t n;

	if (shares && !fuzz_below(&f, 3)) {
		add_answer(p, number);
		return;
	}
	memset(&msg, 0, sizeof(msg));
	msg.type = 1 + (enum sr_msg_type)fuzz_below(&f, SR_MSG_BYTES);
	if (msg.type != SR_MSG_BYTES) {
		fill(&msg);
		sr_packet_put(p, number, &msg);
		return;
	}
	n = 1 + fuzz_bytes(&f, 2) % SR_RECORD_BYTES_MAX;
	if (n <= sr_packet_room(p))
		memset(sr_packet_put_raw(p, number, SR_MSG_BYTES, l->link.tx_acked, n), 'b', n);
}

static uint32_t make_packet(uint8_t *at)
{
	const struct sr_process process = {.version = SR_WIRE_VERSION,
					   .links = shares ? PEER_LINKS : 1};
	struct sr_packet_out p;

	sr_packet_begin(&p, at, SR_PACKET_MAX);
	sr_packet_posted(&p, (uint32_t)(fuzz_below(&f, 16) ? c->out.credit.sent + SR_V_RQ :
							      fuzz_number(&f, c->out.credit.sent)));
	if (!c->in.greeted)
		sr_packet_put_process(&p, &process);
	do
		add_record(&p);
	while (fuzz_below(&f, 4) == 3);	/* (behind the input are zeros) */
	return (uint32_t)p.len;
}

/* Packets of records, or any bytes. */
static void peer_says(void)
{
	unsigned buf = fuzz_below(&f, SR_V_RQ);
	uint8_t *at = c->ctl.buf + buf * SR_PACKET_MAX;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV,
			    .wr_id = SR_V_RECEIVE | buf};

	if (fuzz_below(&f, 16))
		wc.byte_len = make_packet(at);
	else
		wc.byte_len = (uint32_t)fuzz_copy(&f, at, fuzz_below(&f, SR_PACKET_MAX + 1));
	completion(&wc);
}

/* ---- the end ---- */

static void completes(void)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	if (posted == completed)
		return;
	/* (Writes are not signalled, but a later completion says that they are over.) */
	completed += 1 + fuzz_below(&f, posted - completed);
	wc.wr_id = (uint16_t)(completed - 1);
	completion(&wc);
}

static void says(void)
{
	struct sr_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = 1 + (enum sr_msg_type)fuzz_below(&f, SR_MSG_ACKEND);
	if (msg.type == SR_MSG_SWITCH)
		msg.sw = (struct sr_switch){.n = 500};
	if (msg.type == SR_MSG_END)
		msg.end = l->link.tx_w;
	if (!(atomic_load(&l->link.said) & 1u << msg.type))
		sr_verbs_ctl(&l->link, &msg);
}

static void in_rings(const struct iovec v[2], size_t n)
{
	CHECK_EQ(v[0].iov_len + v[1].iov_len, n);
	for (int i = 0; i < 2; i++)
		if (v[i].iov_len)
			CHECK(inside(&l->rx.ring[0], v[i].iov_base, v[i].iov_len) ||
			      inside(&l->rx.ring[1], v[i].iov_base, v[i].iov_len));
}

static void reads(void)
{
	struct iovec v[2];
	size_t n;

	if (!(sr_link_events(&l->link) & SR_LINK_SWITCH))
		return;
	n = sr_verbs_rx_data(&l->link, 0, v);
	in_rings(v, n);
	if (n)
		sr_verbs_rx_free(&l->link, 1 + fuzz_bytes(&f, 2) % n);
}

static void writes(void)
{
	struct iovec v[2];
	size_t n;

	if (!(atomic_load(&l->link.said) & 1u << SR_MSG_SWITCH) ||
	    (atomic_load(&l->link.said) & 1u << SR_MSG_END))
		return;
	n = sr_verbs_tx_room(&l->link, v);
	CHECK(!n || v[0].iov_len + v[1].iov_len == n);
	for (int i = 0; i < 2 && n; i++)
		CHECK(!v[i].iov_len || inside(&l->tx.ring, v[i].iov_base, v[i].iov_len));
	if (n)
		sr_verbs_tx_commit(&l->link, 1 + fuzz_bytes(&f, 2) % n, fuzz_below(&f, 2));
}

/* The service thread is never to run the task, as it is queued already. */
static void leave_alone(struct sr_task *t)
{
	t->queued = 1;	/* the loop's first epoch */
}

/* One more link, or the end of it, or of the first one. */
static void opens_or_drops(void)
{
	const struct sr_vlink_for asks = {.policy = &sr_conf.policy, .role = SR_ROLE_ASKER,
					  .link_no = 1, .notify = heard};
	const struct sr_question question = {.name = {.family = AF_INET}};

	if (!c->in.greeted || !c->shared)
		return;
	if (!all[1]) {
		all[1] = sr_vshare_open(c, &asks, &question);
		if (all[1])
			leave_alone(&all[1]->news);
	} else if (!fuzz_below(&f, 4)) {
		sr_link_verbs.drop(&l->link, "short");
	}
}

static void step(void)
{
	l = all[1] && fuzz_below(&f, 2) ? all[1] : all[0];
	if (shares && !fuzz_below(&f, 8))
		opens_or_drops();
	switch (fuzz_below(&f, 13)) {
	case 0: case 1: case 2: case 3: case 4: peer_says(); break;
	case 5: says(); break;
	case 6: case 7: reads(); break;
	case 8: writes(); break;
	case 9: sr_verbs_work(&l->link); break;
	case 10: sr_verbs_tx_work(&l->link); break;
	case 11: sr_vgrow_idle(l); break;
	default: completes();
	}
}

/* ---- a case ---- */

/* As sr_vlink_make() leaves it, without the CM. */
static void begin(void)
{
	const struct sr_name name = {.family = AF_INET};

	if (!sr_conf.memory)
		sr_conf_load();
	sr_conf.policy.carriers = shares;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	context.ops.poll_cq = poll_cq;
	cq.context = qp.context = &context;
	sr_vlib.v_reg_mr = reg_mr;
	sr_vlib.v_dereg_mr = dereg_mr;
	dev.iwarp = fuzz_below(&f, 2);
	posted = completed = sends = 0;
	l = sr_vlink(sr_link_new(&sr_link_verbs, sizeof(*l), SR_ROLE_ASKER, 1, NULL, heard));
	CHECK(l);
	c = calloc(1, sizeof(*c));
	CHECK(c);
	sr_mutex_init(&c->lock, SR_RANK_LINK_FIRST);
	all[0] = l;
	all[1] = NULL;
	leave_alone(&l->news);
	leave_alone(&c->share.task);
	leave_alone(&c->look.task);
	CHECK(sr_vshare_init(c, true, shares));
	sr_vcarrier_join(c, l);
	sr_vshare_begin(l, &name, 0);
	c->dev = &dev;
	l->policy = &sr_conf.policy;
	c->iwarp = dev.iwarp;
	c->qp = &qp;
	c->cq.in.cq = c->cq.out.cq = &cq;
	c->cq.fd = -1;
	c->id = (void *)&context;
	sr_packets_init(&c->out.credit);
	atomic_init(&l->rx.window, 4096);
	CHECK(!sr_vring_make(c, &c->ctl, (SR_V_RQ + SR_V_SENDS) * SR_PACKET_MAX, 0));
	l->rx.ring[0].size = l->tx.ring.size = 4096;
	if (fuzz_below(&f, 2))	/* else they are ordinary */
		CHECK(!sr_vring_make(c, &l->rx.ring[0], 4096, 0) &&
		      !sr_vring_make(c, &l->tx.ring, 4096, 0));
	l->rx.place[0] = (struct sr_ring){l->rx.ring[0].buf, l->rx.ring[0].size};
	sr_gens_init(&l->rx.gens, l->rx.place);
	sr_vshare_established(c);
}

static void end(void)
{
	for (int i = 0; i < SR_V_FUZZED && all[i]; i++) {
		sr_vring_free(&all[i]->rx.ring[0]);
		sr_vring_free(&all[i]->rx.ring[1]);
		sr_vring_free(&all[i]->tx.ring);
		sr_vring_free(&all[i]->tx.spare);
		free(all[i]);
	}
	sr_vring_free(&c->ctl);
	sr_vshare_free(c);
	free(c);
}

void fuzz_verbs(const uint8_t *data, size_t size)
{
	f = (struct fuzz){data, size};
	shares = size & 1;
	begin();
	for (int i = 0; i < STEPS && f.left; i++) {
		step();
		CHECK(l->link.tx_acked <= l->link.tx_w);
		CHECK(l->link.tx_w - l->link.tx_acked <= l->tx.ring.size);
		CHECK(l->tx.done <= l->tx.sent && l->tx.sent <= l->link.tx_w);
		CHECK(l->link.rx_taken <= l->link.rx_h &&
		      l->link.rx_h - l->link.rx_taken <= sr_conf.policy.ring_max);
	}
	end();
}

#else

void fuzz_verbs(const uint8_t *data, size_t size)
{
	(void)data;
	(void)size;
}

#endif
