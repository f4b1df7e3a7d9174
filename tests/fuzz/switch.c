/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * switch.c - the two machines of a direction, each with a peer that obeys no rule: any
 * bytes on TCP, any message at any time.  No number leaves its bounds, nothing loops.
 */
#include "fuzz.h"
#include "pure/switch_rx.h"
#include "pure/wire.h"

#define MAX_FEED 200
#define EVENTS 200

static const uint8_t token[SR_TOKEN_LEN] = "a token";

/* Anything, or what comes close to what is awaited. */
static size_t make_bytes(struct fuzz *f, const struct sr_rx *rx, uint8_t *buf)
{
	size_t len = fuzz_below(f, MAX_FEED), at = 0;
	unsigned records = fuzz_below(f, 8);

	fuzz_copy(f, buf, len);
	for (; (records & 3) && at + SR_RECORD_LEN <= len; records--) {
		if (rx->state == SR_RX_EXPECT)
			memcpy(buf + at, rx->mark, SR_RECORD_LEN);
		else
			sr_resume_make(buf + at, rx->rx - fuzz_below(f, 4),
				       rx->rx + fuzz_below(f, 4));
		at += records & 4 ? SR_RECORD_LEN : fuzz_below(f, SR_RECORD_LEN);
	}
	return len;
}

static void feed(struct fuzz *f, struct sr_rx *rx)
{
	uint8_t buf[MAX_FEED];
	size_t len = make_bytes(f, rx, buf);
	size_t room = len + rx->part;
	uint64_t before = rx->rx;
	uint8_t *in = fuzz_exact(buf, len), *out = in;
	unsigned todo;
	ssize_t n;

	if (rx->part || fuzz_below(f, 2)) {
		out = malloc(room ? room : 1);
		CHECK(out != NULL);
	}
	n = sr_rx_tcp(rx, in, len, out, &todo);
	CHECK(n <= (ssize_t)room);
	CHECK(n >= 0 ? rx->rx == before + (uint64_t)n : rx->state == SR_RX_RESET);
	if (out != in)
		free(out);
	free(in);
}

static void message(struct fuzz *f, struct sr_rx *rx)
{
	struct sr_switch sw = {
		.n = fuzz_number(f, rx->rx),
		.marks = fuzz_below(f, 4) ? rx->seen : (uint32_t)fuzz_number(f, rx->seen),
		.link_no = (uint32_t)fuzz_number(f, rx->next_link),
	};
	uint8_t *out = malloc(SR_RECORD_LEN);
	size_t n;

	CHECK(out != NULL);
	sr_rx_switch(rx, &sw, token, fuzz_below(f, 2), out, &n);
	CHECK(n <= SR_RECORD_LEN);
	free(out);
}

static void event(struct fuzz *f, struct sr_rx *rx, uint64_t *h)
{
	unsigned what = fuzz_below(f, 8);
	uint8_t out[SR_RECORD_LEN];
	uint64_t ready;

	switch (what) {
	case 0:
		CHECK(sr_rx_fin(rx, fuzz_below(f, 2), fuzz_below(f, 2), *h, out) <=
		      SR_RECORD_LEN);
		break;
	case 1:
		sr_rx_end(rx, fuzz_below(f, 2) ? *h : fuzz_number(f, *h), *h);
		break;
	case 2:
		*h = rx->rx + fuzz_below(f, 50);
		break;
	case 3:
		ready = sr_rx_ready(rx, *h);
		CHECK(ready <= *h);
		rx->rx += ready ? fuzz_bytes(f, 1) % (ready + 1) : 0;
		sr_rx_settle(rx, *h);
		break;
	case 4:
		message(f, rx);
		break;
	default:
		feed(f, rx);
	}
}

static void receiver(struct fuzz *f)
{
	struct sr_rx rx;
	uint64_t h = 0;

	sr_rx_init(&rx);
	for (unsigned i = 0; i < EVENTS && f->left; i++) {
		event(f, &rx, &h);
		CHECK(rx.part < SR_RECORD_LEN);
		CHECK(rx.dup <= rx.rx);
		CHECK(rx.state != SR_RX_EXPECT || rx.rx <= rx.n);
		CHECK((sr_rx_limit(&rx) == 0) == (rx.state == SR_RX_RESET));
	}
}

static void sender_event(struct fuzz *f, struct sr_tx *tx, unsigned i)
{
	struct sr_switch sw;

	switch (fuzz_below(f, 8)) {
	case 0:
		sr_tx_want(tx, i, token, &sw);
		break;
	case 1:
		sr_tx_acksw(tx);
		break;
	case 2:
		sr_tx_marked(tx);
		break;
	case 3:
		sr_tx_ack(tx, fuzz_number(f, tx->w));
		break;
	case 4:
		sr_tx_ackend(tx);
		break;
	case 5:
		sr_tx_resent(tx, tx->w - tx->at < 5 ? tx->w - tx->at : 5);
		break;
	case 6:
		sr_tx_leave(tx);
		break;
	default:
		if (tx->state == SR_TX_RAW || tx->state == SR_TX_LINK)
			tx->w += fuzz_below(f, 9);
	}
}

static void sender(struct fuzz *f)
{
	struct sr_tx tx;

	sr_tx_init(&tx);
	for (unsigned i = 0; i < EVENTS && f->left; i++) {
		sender_event(f, &tx, i);
		CHECK(tx.base <= tx.w && tx.at <= tx.w);
	}
}

void fuzz_switch(const uint8_t *data, size_t size)
{
	struct fuzz f = {data, size};

	if (fuzz_below(&f, 4))
		receiver(&f);
	else
		sender(&f);
}
