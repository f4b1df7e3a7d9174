/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pure_fuzz.c - what a peer may do that obeys no rule: any bytes, any messages
 * at any time.  Built with the sanitizers this looks for reads and writes out
 * of place; always, that no number leaves its bounds and nothing loops.
 *
 * Usage: pure_fuzz [SEED [ROUNDS]]
 */
#include <stdbool.h>
#include <string.h>

#include "pure/switch.h"
#include "pure/wire.h"
#include "check.h"

#define MAX_FEED 200

static uint64_t state;
static const uint8_t token[SR_TOKEN_LEN] = "a token";

static uint64_t below(uint64_t n)
{
	return check_random(&state) % n;
}

/* Small, near a limit, or anything. */
static uint64_t number(void)
{
	switch (below(4)) {
	case 0:
		return below(100);
	case 1:
		return UINT64_MAX - below(3);
	case 2:
		return UINT64_C(1) << below(64);
	default:
		return check_random(&state);
	}
}

static void fill(uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = below(4) ? (uint8_t)below(256) : 0;
}

/* Exactly as large as it says, so that the sanitizer sees one byte too many. */
static uint8_t *copy_of(const void *buf, size_t len)
{
	uint8_t *p = malloc(len ? len : 1);

	CHECK(p != NULL);
	if (len)
		memcpy(p, buf, len);
	return p;
}

static void decode(void)
{
	uint8_t buf[SR_MSG_MAX + 8], again[SR_MSG_MAX];
	struct sr_msg msg;
	size_t len;
	uint8_t *p;

	memset(&msg, 0, sizeof(msg));
	msg.type = 1 + (enum sr_msg_type)below(SR_MSG_BYTES);
	fill((uint8_t *)&msg + sizeof(msg.type),
	     sizeof(msg) - sizeof(msg.type));
	if (msg.type == SR_MSG_BYTES)
		msg.bytes.len = 1 + (uint32_t)below(SR_MSG_BYTES_MAX);
	len = sr_msg_encode(&msg, buf);
	CHECK(len <= SR_MSG_MAX);
	if (below(2))
		buf[below(len)] = (uint8_t)below(256);
	if (!below(4))
		len = below(sizeof(buf));
	if (!below(8))
		fill(buf, sizeof(buf));
	p = copy_of(buf, len);
	/* What is accepted means exactly these bytes. */
	if (!sr_msg_decode(&msg, p, len)) {
		CHECK_EQ(sr_msg_encode(&msg, again), len);
		CHECK(!memcmp(p, again, len));
	}
	free(p);
}

static void decode_name(void)
{
	uint8_t buf[SR_NAME_LEN] = {'S', 'R', 1, below(2) ? 4 : 6};
	uint8_t again[SR_NAME_LEN];
	struct sr_name name;
	size_t len = below(8) ? sizeof(buf) : below(sizeof(buf));
	uint8_t *p;

	fill(buf + 4, buf[3] == 4 ? 12 : sizeof(buf) - 4);
	if (buf[3] == 4)
		fill(buf + 28, 4);
	if (!below(3))
		buf[below(sizeof(buf))] = (uint8_t)below(256);
	p = copy_of(buf, len);
	if (!sr_name_decode(&name, p, len)) {
		sr_name_encode(&name, again);
		CHECK(!memcmp(p, again, sizeof(again)));
	}
	free(p);
}

/* Garbage, or what comes close to what is awaited. */
static size_t make_bytes(const struct sr_rx *rx, uint8_t *buf)
{
	size_t len = below(MAX_FEED), at = 0;

	fill(buf, len);
	while (below(2) && at + SR_RECORD_LEN <= len) {
		if (rx->state == SR_RX_EXPECT)
			memcpy(buf + at, rx->mark, SR_RECORD_LEN);
		else
			sr_resume_make(buf + at, rx->rx - below(4),
				       rx->rx + below(4));
		at += below(8) ? SR_RECORD_LEN : below(SR_RECORD_LEN);
	}
	return len;
}

static void feed(struct sr_rx *rx)
{
	uint8_t buf[MAX_FEED];
	size_t len = make_bytes(rx, buf);
	size_t room = len + rx->part;
	uint64_t before = rx->rx;
	uint8_t *in = copy_of(buf, len), *out = in;
	unsigned todo;
	ssize_t n;

	if (rx->part || below(2)) {
		out = malloc(room ? room : 1);
		CHECK(out != NULL);
	}
	n = sr_rx_tcp(rx, in, len, out, &todo);
	CHECK(n <= (ssize_t)room);
	CHECK(n >= 0 ? rx->rx == before + (uint64_t)n
		     : rx->state == SR_RX_RESET);
	if (out != in)
		free(out);
	free(in);
}

static void message(struct sr_rx *rx)
{
	struct sr_switch sw = {
		.n = below(2) ? rx->rx + below(8) : number(),
		.marks = below(4) ? rx->seen : (uint32_t)number(),
		.link_no =
			below(2) ? (uint32_t)rx->next_link : (uint32_t)number(),
		.first = below(2) ? 0xf5 : 0,
	};
	uint8_t *out = malloc(SR_RECORD_LEN);
	size_t n;

	CHECK(out != NULL);
	sr_rx_switch(rx, &sw, token, below(2), out, &n);
	CHECK(n <= SR_RECORD_LEN);
	free(out);
}

static void event(struct sr_rx *rx, uint64_t *h)
{
	uint8_t out[SR_RECORD_LEN];
	uint64_t ready;

	switch (below(12)) {
	case 0:
		CHECK(sr_rx_fin(rx, below(2), below(2), *h, out) <= SR_RECORD_LEN);
		break;
	case 1:
		sr_rx_end(rx, below(2) ? *h : number(), *h);
		break;
	case 2:
		*h = rx->rx + below(50);
		break;
	case 3:
	case 4:
		ready = sr_rx_ready(rx, *h);
		CHECK(ready <= *h);
		sr_rx_took(rx, ready ? below(ready + 1) : 0);
		sr_rx_settle(rx, *h);
		break;
	case 5:
	case 6:
		message(rx);
		break;
	default:
		feed(rx);
	}
}

static void lie_to_receiver(void)
{
	struct sr_rx rx;
	uint64_t h = 0;

	sr_rx_init(&rx);
	for (unsigned i = 0; i < 40; i++) {
		event(&rx, &h);
		CHECK(rx.part < SR_RECORD_LEN);
		CHECK(rx.dup <= rx.rx);
		CHECK(rx.state != SR_RX_EXPECT || rx.rx <= rx.n);
		CHECK((sr_rx_limit(&rx) == 0) == (rx.state == SR_RX_RESET));
	}
}

static void lie_to_sender(void)
{
	struct sr_switch sw;
	struct sr_tx tx;
	int err;

	sr_tx_init(&tx);
	for (unsigned i = 0; i < 40; i++) {
		switch (below(8)) {
		case 0:
			sr_tx_want(&tx, (uint32_t)i, token, -1, &sw);
			break;
		case 1:
			sr_tx_acksw(&tx);
			break;
		case 2:
			sr_tx_marked(&tx);
			break;
		case 3:
			sr_tx_ack(&tx, below(2) ? tx.w : number());
			break;
		case 4:
			sr_tx_ackend(&tx, &err);
			break;
		case 5:
			if (!below(8))
				sr_tx_leave(&tx);
			sr_tx_resent(&tx, tx.w - tx.at < 5 ? tx.w - tx.at : 5);
			break;
		default:
			if (tx.state == SR_TX_RAW || tx.state == SR_TX_LINK)
				sr_tx_took(&tx, below(9));
		}
		CHECK(tx.base <= tx.w && tx.at <= tx.w);
	}
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : 50000;

	for (uint64_t i = 0; i < rounds; i++) {
		check_about("seed", seed + i);
		state = seed + i;
		decode();
		decode_name();
		lie_to_receiver();
		lie_to_sender();
	}
	return 0;
}
