/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * attacker.h - an attacker's end of a queue pair (attack.c): messages, guesses of what a
 * stream has carried, and what he got.
 */
#ifndef SR_ATTACKER_H
#define SR_ATTACKER_H

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "pure/history.h"
#include "pure/packet.h"
#include "pure/request.h"
#include "pure/wire.h"

enum { RECEIVES = 32, RING = 4096, OUT = 128, UNTOUCHED = 0xee, FILE_MAX = 65536 };

#define CHECK(what)                                                                        \
	do {                                                                               \
		if (!(what)) {                                                             \
			fprintf(stderr, "attack: %d: %s: %s\n", __LINE__, #what,           \
				strerror(errno));                                          \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

static const struct sr_sodium *na;
static struct {
	unsigned asked, links, shares, tags, switches, acks, bytes, matches;
} got;

struct end {
	struct rdma_cm_id *id;
	struct sr_name name;
	unsigned heard;		/* messages, a bit for each type */
	struct sr_msg said[SR_MSG_SHARE + 1];	/* by the other end */
	struct sr_hello hello;	/* our own */
	struct sr_pake pake;
	bool over, sent, greeted, replays;
	struct ibv_mr *mr;
	uint8_t (*in)[SR_PACKET_MAX];	/* and behind them the ring, and */
	uint8_t *out;			/* what is sent */
};

static unsigned now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* ---- messages ---- */

static void post_receive(struct end *e, unsigned i)
{
	CHECK(!rdma_post_recv(e->id, (void *)(uintptr_t)i, e->in[i], SR_PACKET_MAX, e->mr));
}

static void make_end(struct end *e)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 16, .max_recv_wr = RECEIVES, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	size_t size = RECEIVES * SR_PACKET_MAX + RING + OUT;

	CHECK(!rdma_create_qp(e->id, NULL, &attr));
	CHECK(!posix_memalign((void **)&e->in, 4096, size));
	memset(e->in, UNTOUCHED, size);
	e->out = (uint8_t *)e->in + size - OUT;
	e->mr = rdma_reg_write(e->id, e->in, size);
	CHECK(e->mr);
	for (unsigned i = 0; i < RECEIVES; i++)
		post_receive(e, i);
}

static void free_end(struct end *e)
{
	uint8_t c;

	for (unsigned i = 0; e->in && i < RING; i++) {
		c = e->in[RECEIVES][i];
		got.bytes += c != UNTOUCHED;
	}
	if (e->id->qp) {
		rdma_destroy_qp(e->id);
		ibv_dereg_mr(e->mr);
	}
	free(e->in);
	rdma_destroy_id(e->id);
}

static void note_message(struct end *e, const struct sr_msg *msg)
{
	e->said[msg->type] = *msg;
	e->heard |= 1u << msg->type;
	got.shares += msg->type == SR_MSG_SHARE;
	got.tags += msg->type == SR_MSG_PROOF;
	got.switches += msg->type == SR_MSG_SWITCH;
	got.acks += msg->type == SR_MSG_ACKSW;
	if (msg->type == SR_MSG_DATA)
		got.bytes += msg->len;
}

static void note_packet(struct end *e, const uint8_t *buf, size_t len)
{
	struct sr_packet_in in;
	struct sr_record r;

	if (sr_packet_open(&in, buf, len))
		return;
	while (sr_packet_next(&in, &r) > 0)
		if (r.type == SR_MSG_BYTES)
			got.bytes += (unsigned)r.len;
		else if (r.type < SR_MSG_BYTES)
			note_message(e, &r.msg);
}

static void completed(struct end *e, const struct ibv_wc *wc)
{
	if (wc->status)
		e->over = true;
	else if (wc->opcode == IBV_WC_SEND)
		e->sent = true;
	else
		note_packet(e, e->in[wc->wr_id], wc->byte_len);
}

static bool has_heard(struct end *e, enum sr_msg_type type)
{
	return e->heard & 1u << type;
}

/* False: it has not come, and will not, or time is over. */
static bool hear(struct end *e, enum sr_msg_type type, unsigned ms)
{
	unsigned start = now_ms();
	struct ibv_wc wc;

	while (!has_heard(e, type) && !e->over && now_ms() - start < ms) {
		while (ibv_poll_cq(e->id->recv_cq, 1, &wc) > 0 ||
		       ibv_poll_cq(e->id->send_cq, 1, &wc) > 0)
			completed(e, &wc);
		usleep(200);
	}
	return has_heard(e, type);
}

/* Waits for a completion of what was sent last.  False: it failed, or there is none. */
static bool is_sent(struct end *e)
{
	unsigned start = now_ms();
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(e->id->send_cq, 1, &wc);
	while (!n && now_ms() - start < 2000 && !usleep(100));
	return n == 1 && !wc.status;
}

static void send_bytes(struct end *e, const void *bytes, size_t len)
{
	memcpy(e->out, bytes, len);
	if (rdma_post_send(e->id, NULL, e->out, len, e->mr, IBV_SEND_SIGNALED))
		return;
	is_sent(e);
}

static FILE *record;	/* of what is sent: length, bytes */

static void send_msg(struct end *e, const struct sr_msg *msg)
{
	const struct sr_process process = { .version = SR_WIRE_VERSION, .links = 1 };
	uint8_t buf[SR_MSG_MAX], out[OUT + SR_MSG_MAX], len = (uint8_t)sr_msg_encode(msg, buf);
	struct sr_packet_out p;

	if (record && !e->replays)
		CHECK(fwrite(&len, 1, 1, record) == 1 && fwrite(buf, len, 1, record) == 1);
	sr_packet_begin(&p, out, sizeof(out));
	sr_packet_posted(&p, RECEIVES);
	if (!e->greeted)
		CHECK(sr_packet_put_process(&p, &process));
	e->greeted = true;
	CHECK(sr_packet_put(&p, 1, msg));
	send_bytes(e, out, p.len);
}

static struct sr_ring_ref ring_of(const struct end *e)
{
	return (struct sr_ring_ref){ .addr = (uintptr_t)e->in[RECEIVES], .rkey = e->mr->rkey,
				     .size = RING };
}

static void send_hello(struct end *e, enum sr_role role, uint64_t tx_have, uint64_t rx_have)
{
	struct sr_msg msg = { .type = SR_MSG_HELLO };

	msg.hello = (struct sr_hello){
		.version = SR_WIRE_VERSION, .role = role,
		.link_no = e->name.link_no, .tx_have = tx_have, .rx_have = rx_have,
		.ring = ring_of(e), .proves = 1,
	};
	CHECK(getrandom(msg.hello.token, SR_TOKEN_LEN, 0) == SR_TOKEN_LEN);
	e->hello = msg.hello;
	send_msg(e, &msg);
}

/* ---- guesses ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

struct guess {
	uint8_t password[SR_SHA512_LEN], channel[SR_NAME_LEN + 36], session[2 * SR_TOKEN_LEN];
	struct sr_pake_terms terms;
};

/* That the stream is these bytes. */
static void make_guess(struct end *e, struct guess *g, const uint8_t *bytes)
{
	struct sr_hello *peer = &e->said[SR_MSG_HELLO].hello;
	bool asks = e->hello.role == SR_ROLE_ASKER;
	struct sr_hello *end[2] = { asks ? &e->hello : peer, asks ? peer : &e->hello };
	struct sockaddr_in *addr[2] = {
		(struct sockaddr_in *)(asks ? rdma_get_local_addr(e->id) :
					      rdma_get_peer_addr(e->id)),
		(struct sockaddr_in *)(asks ? rdma_get_peer_addr(e->id) :
					      rdma_get_local_addr(e->id)) };
	struct sr_history history = { 0 };

	memset(g, 0, sizeof(*g));
	sr_history_add(&history, bytes, FILE_MAX);
	sr_history_password(na, g->password, &history,
			    least(FILE_MAX, least(end[0]->tx_have, end[1]->rx_have)), &history,
			    least(FILE_MAX, least(end[0]->rx_have, end[1]->tx_have)));
	sr_name_encode(&e->name, g->channel);
	for (int i = 0; i < 2; i++) {
		put(g->channel + SR_NAME_LEN + 18 * i, &addr[i]->sin_addr, 4);
		put(g->channel + SR_NAME_LEN + 18 * i + 16, &addr[i]->sin_port, 2);
		put(g->session + SR_TOKEN_LEN * i, end[i]->token, SR_TOKEN_LEN);
	}
	g->terms = (struct sr_pake_terms){ { g->password, sizeof(g->password) },
					   { g->channel, sizeof(g->channel) },
					   { g->session, sizeof(g->session) } };
}

static void send_share(struct end *e, const struct guess *g)
{
	struct sr_msg msg = { .type = SR_MSG_SHARE };

	sr_pake_begin(na, &e->pake, &g->terms);
	memcpy(msg.share, e->pake.share, SR_SHARE_LEN);
	send_msg(e, &msg);
}

/* The tag of that end, if the guess was right. */
static void make_tag(struct end *e, const struct guess *g, const struct sr_pake *pake,
		     int who, uint8_t tag[SR_TAG_LEN])
{
	struct sr_hello *hello[2] = { &e->hello, &e->said[SR_MSG_HELLO].hello };
	const uint8_t *share[2] = { pake->share, e->said[SR_MSG_SHARE].share };
	int us = e->hello.role == SR_ROLE_ANSWERER;
	uint8_t key[SR_SHA512_LEN];
	struct sr_pake_end end[2];
	uint64_t counts[2][2];

	for (int i = 0; i < 2; i++) {
		counts[i][0] = htobe64(hello[i != us]->tx_have);
		counts[i][1] = htobe64(hello[i != us]->rx_have);
		end[i] = (struct sr_pake_end){ { share[i != us], SR_SHARE_LEN },
					       { counts[i], sizeof(counts[i]) } };
	}
	CHECK(!sr_pake_key(na, pake, g->terms.session, end, us, key));
	sr_pake_tag(na, key, who, tag);
}

#endif
