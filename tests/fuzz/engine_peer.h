/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * engine_peer.h - what tests/fuzz/engine.c plays with: a stream of the engine, and an honest
 * peer made of the machines of src/pure.
 */
#ifndef SR_ENGINE_PEER_H
#define SR_ENGINE_PEER_H

#include "../unit/fake_link.h"
#include "fuzz.h"

#define CHUNK 200

static const uint8_t peers_token[SR_TOKEN_LEN] = {9};

static struct world {
	struct fuzz f;
	struct fake_pair e;
	bool lies, over;	/* over: the peer's end of TCP has been read */
	unsigned heard;		/* of the stream's messages on this link */
	bool took;		/* the stream has taken the peer's SWITCH */
	struct sr_tx tx;	/* the peer's two directions */
	struct sr_rx rx;
	uint64_t in, out;	/* bytes that the stream's program and the peer's got */
	uint64_t sent;		/* by the stream's program */
	bool ended, eof;	/* the stream's program: has ended; has seen the end */
} w;

/* Never the first of a mark, which would be held. */
static uint8_t byte_in(uint64_t k)
{
	return k * 167 >> 3 & 0x7f;
}

static uint8_t byte_out(uint64_t k)
{
	return (uint8_t)(k * 59 >> 2);
}

static bool dead(void)
{
	return sr_link_events(&w.e.f->link) & SR_LINK_DEAD;
}

static void drop(const char *reason)
{
	if (!dead())
		fake_drop(&w.e.f->link, reason);
}

static void say(struct sr_msg msg)
{
	if (!dead())
		fake_say(w.e.f, msg);
}

/* ---- the peer, honest ---- */

static void by_tcp(const void *buf, size_t n)
{
	CHECK(send(w.e.peer, buf, n, MSG_NOSIGNAL) == (ssize_t)n || w.lies);
}

static void resend(void)
{
	uint8_t buf[CHUNK];
	size_t n;

	by_tcp(w.tx.record, SR_RECORD_LEN);
	do {
		n = w.tx.w - w.tx.at < CHUNK ? w.tx.w - w.tx.at : CHUNK;
		for (size_t i = 0; i < n; i++)
			buf[i] = byte_in(w.tx.at + i);
		if (n)
			by_tcp(buf, n);
		if (sr_tx_resent(&w.tx, n) & SR_DO_FIN)
			shutdown(w.e.peer, SHUT_WR);
	} while (w.tx.state == SR_TX_RESEND);
}

static void peer_does(unsigned todo)
{
	if (todo & SR_DO_DROP)
		drop("peer-dropped");
	if (todo & SR_DO_END)
		say((struct sr_msg){.type = SR_MSG_END, .end = w.tx.w});
	if (todo & SR_DO_FIN)
		shutdown(w.e.peer, SHUT_WR);
}

static void peer_sends(size_t n)
{
	struct fake *f = w.e.f;
	uint8_t buf[CHUNK];
	size_t room = (size_t)(f->link.rx_taken + FAKE_RING - f->arrived);

	for (size_t i = 0; i < n; i++)
		buf[i] = byte_in(w.tx.w + i);
	if (w.tx.ended)
		return;
	if (w.tx.state == SR_TX_RAW) {
		by_tcp(buf, n);
	} else if (w.tx.state == SR_TX_LINK && !dead()) {
		n = n < room ? n : room;
		fake_send(f, buf, n);
	} else {
		return;
	}
	w.tx.w += n;
}

static void peer_wants(void)
{
	struct sr_msg msg = {.type = SR_MSG_SWITCH};
	struct fake *f = w.e.f;

	if (dead() || (sr_link_events(&f->link) & SR_LINK_SWITCH) ||
	    sr_tx_want(&w.tx, f->link.link_no, w.e.st->up.token, &msg.sw))
		return;
	say(msg);
	f->arrived = msg.sw.n;
}

/* What it does without being asked: a dead link is left, a mark is written. */
static void peer_goes_on(void)
{
	if (dead() && (w.tx.state == SR_TX_WAIT || w.tx.state == SR_TX_LINK)) {
		peer_does(sr_tx_leave(&w.tx));
		if (w.tx.state == SR_TX_RESEND)
			resend();
	}
	if (w.tx.state == SR_TX_WAIT && w.tx.acked) {
		by_tcp(w.tx.record, SR_RECORD_LEN);
		peer_does(sr_tx_marked(&w.tx));
	}
	if (w.tx.state == SR_TX_LINK)
		CHECK(w.lies || !sr_tx_ack(&w.tx, w.e.f->link.rx_taken));
}

static void got(const uint8_t *buf, size_t n)
{
	for (size_t i = 0; i < n && !w.lies; i++)
		CHECK(buf[i] == byte_out(w.out + i));
	w.out += n;
	CHECK(w.lies || (w.out <= w.sent && w.out == w.rx.rx));
}

/* How far bytes for the peer have come; what a dead link still has, it forgets. */
static uint64_t come(void)
{
	return w.rx.link_no == w.e.f->link.link_no ? (uint64_t)w.e.f->link.tx_w : w.rx.rx;
}

static void settle(void)
{
	if ((sr_rx_settle(&w.rx, come()) & SR_DO_ACKEND) &&
	    w.rx.link_no == w.e.f->link.link_no)
		say((struct sr_msg){.type = SR_MSG_ACKEND});
	CHECK(w.lies || w.rx.state != SR_RX_RESET);
	CHECK(w.lies || w.rx.state != SR_RX_EOF || (w.ended && w.out == w.sent));
}

static void peer_reads(size_t n)
{
	uint8_t buf[CHUNK], out[CHUNK + SR_RECORD_LEN];
	size_t limit = sr_rx_limit(&w.rx);
	unsigned todo = 0;
	ssize_t r;

	n = n < limit ? n : limit;
	if (!n || w.over)
		return;
	r = recv(w.e.peer, buf, n, MSG_DONTWAIT);
	if (r < 0)
		return;
	w.over = !r;
	if (r)
		r = sr_rx_tcp(&w.rx, buf, (size_t)r, out, &todo);
	else
		r = (ssize_t)sr_rx_fin(&w.rx, false, false, come(), out);
	CHECK(w.lies || r >= 0);
	got(out, r > 0 ? (size_t)r : 0);
	if (todo & SR_DO_DROP)
		drop("peer-dropped");
	settle();
}

static void peer_takes(size_t n)
{
	uint64_t ready = sr_rx_ready(&w.rx, come());
	uint8_t buf[CHUNK];

	n = n < ready ? n : (size_t)ready;
	if (!n || w.lies)
		return;
	fake_take(w.e.f, buf, n);
	w.rx.rx += n;
	got(buf, n);
	settle();
}

static bool hears_switch(const struct sr_switch *sw)
{
	uint8_t out[SR_RECORD_LEN];
	size_t n;
	unsigned todo = sr_rx_switch(&w.rx, sw, peers_token, true, out, &n);

	got(out, n);
	if (todo & SR_DO_DROP)
		drop("peer-dropped");
	if (todo & SR_DO_ACKSW)
		say((struct sr_msg){.type = SR_MSG_ACKSW});
	return !(todo & SR_DO_LATER);
}

static void peer_hears(void)
{
	const struct sr_msg *msg = &w.e.f->sent[w.heard];

	if (dead() || w.heard == w.e.f->count || w.lies)
		return;
	if (msg->type == SR_MSG_SWITCH && !hears_switch(&msg->sw))
		return;
	w.heard++;
	if (msg->type == SR_MSG_ACKSW)
		sr_tx_acksw(&w.tx);
	if (msg->type == SR_MSG_END)
		CHECK_EQ(sr_rx_end(&w.rx, msg->end, w.e.f->link.tx_w), 0);
	if (msg->type == SR_MSG_ACKEND)
		peer_does(sr_tx_ackend(&w.tx));
	settle();
}

#endif
