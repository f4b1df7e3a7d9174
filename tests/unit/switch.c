/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * switch.c - every row of the two tables of sockrail-protocol(7), and what a
 * peer that lies gets.  switch_sim.c plays whole streams.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "pure/switch_rx.h"
#include "pure/wire.h"
#include "check.h"

static const uint8_t token[SR_TOKEN_LEN] = "0123456789abcde";
static uint8_t out[1024];
static unsigned todo;
static size_t count;

/* ---- sender ---- */

static struct sr_tx tx_raw(uint64_t w)
{
	struct sr_tx tx;

	sr_tx_init(&tx);
	tx.w += w;
	return tx;
}

static struct sr_tx tx_wait(uint64_t w)
{
	struct sr_tx tx = tx_raw(w);
	struct sr_switch sw;

	CHECK_EQ(sr_tx_want(&tx, 7, token, &sw), 0);
	return tx;
}

static struct sr_tx tx_link(uint64_t n, uint64_t w)
{
	struct sr_tx tx = tx_wait(n);

	sr_tx_acksw(&tx);
	CHECK_EQ(sr_tx_marked(&tx), 0);
	tx.w += w - n;
	return tx;
}

static void tx_in_raw(void)
{
	struct sr_tx tx = tx_raw(10);

	CHECK_EQ(tx.state, SR_TX_RAW);
	CHECK_EQ(tx.w, 10);
	CHECK_EQ(sr_tx_ack(&tx, 99), 0);
	CHECK_EQ(sr_tx_leave(&tx), 0);
	CHECK_EQ(sr_tx_resent(&tx, 3), 0);
	sr_tx_acksw(&tx);
	CHECK(!tx.acked);
	CHECK_EQ(sr_tx_marked(&tx), 0);
	CHECK_EQ(sr_tx_end(&tx), SR_DO_FIN);
	CHECK_EQ(tx.state, SR_TX_DONE);
	CHECK_EQ(sr_tx_end(&tx), 0);
}

static void tx_wants_up(void)
{
	struct sr_tx tx = tx_raw(10);
	struct sr_switch sw;
	uint8_t mark[SR_RECORD_LEN];

	CHECK_EQ(sr_tx_want(&tx, 7, token, &sw), 0);
	CHECK_EQ(tx.state, SR_TX_WAIT);
	CHECK_EQ(sw.n, 10);
	CHECK_EQ(sw.marks, 0);
	CHECK_EQ(sw.link_no, 7);
	sr_mark_make(mark, 7, token);
	CHECK(!memcmp(mark, tx.record, sizeof(mark)));
	CHECK_EQ(sr_tx_want(&tx, 8, token, &sw), -EAGAIN);
	tx = tx_raw(1);
	sr_tx_end(&tx);
	CHECK_EQ(sr_tx_want(&tx, 7, token, &sw), -EPIPE);
}

static void tx_in_wait(void)
{
	struct sr_tx tx = tx_wait(10);
	static const uint8_t nothing[SR_RECORD_LEN];

	CHECK_EQ(sr_tx_marked(&tx), 0); /* no ACKSW */
	CHECK_EQ(tx.state, SR_TX_WAIT);
	CHECK_EQ(sr_tx_ack(&tx, 99), 0);
	sr_tx_acksw(&tx);
	CHECK_EQ(sr_tx_marked(&tx), 0);
	CHECK_EQ(tx.state, SR_TX_LINK);
	CHECK_EQ(tx.marks, 1);

	tx = tx_wait(10);
	CHECK_EQ(sr_tx_leave(&tx), SR_DO_DROP);
	CHECK_EQ(tx.state, SR_TX_RAW);
	CHECK(!memcmp(tx.record, nothing, sizeof(nothing)));
	sr_tx_acksw(&tx); /* too late */
	CHECK(!tx.acked);
	CHECK_EQ(sr_tx_marked(&tx), 0);
	CHECK_EQ(tx.marks, 0);

	tx = tx_wait(10);
	CHECK_EQ(sr_tx_end(&tx), 0);
	CHECK_EQ(tx.state, SR_TX_WAIT);
	sr_tx_acksw(&tx);
	CHECK_EQ(sr_tx_marked(&tx), SR_DO_END);

	tx = tx_wait(10);
	sr_tx_end(&tx);
	CHECK_EQ(sr_tx_leave(&tx), SR_DO_DROP | SR_DO_FIN);
	CHECK_EQ(tx.state, SR_TX_DONE);
}

static void tx_in_link(void)
{
	struct sr_tx tx = tx_link(10, 30);

	CHECK_EQ(tx.w, 30);
	CHECK_EQ(sr_tx_ack(&tx, 4), 0); /* raw bytes not read yet */
	CHECK_EQ(tx.base, 10);
	CHECK_EQ(sr_tx_ack(&tx, 20), 0);
	CHECK_EQ(tx.base, 20);
	CHECK_EQ(sr_tx_ack(&tx, 19), -EPROTO);
	CHECK_EQ(sr_tx_ack(&tx, 31), -EPROTO);
	CHECK_EQ(tx.base, 20);
	CHECK_EQ(sr_tx_ackend(&tx), 0);
	CHECK_EQ(sr_tx_end(&tx), SR_DO_END);
	CHECK_EQ(sr_tx_end(&tx), 0);
	CHECK_EQ(tx.state, SR_TX_LINK);
	CHECK_EQ(sr_tx_ackend(&tx), SR_DO_FIN);
	CHECK_EQ(tx.state, SR_TX_DONE);
	CHECK_EQ(sr_tx_leave(&tx), 0);
}

static void tx_goes_back(void)
{
	struct sr_tx tx = tx_link(10, 30);
	uint64_t a, m;

	sr_tx_ack(&tx, 20);
	CHECK_EQ(sr_tx_leave(&tx), SR_DO_DROP);
	CHECK_EQ(tx.state, SR_TX_RESEND);
	CHECK_EQ(sr_resume_parse(tx.record, &a, &m), 0);
	CHECK_EQ(a, 20);
	CHECK_EQ(m, 30);
	CHECK_EQ(tx.at, 20);
	CHECK_EQ(sr_tx_leave(&tx), 0);
	CHECK_EQ(sr_tx_ack(&tx, 25), 0);
	CHECK_EQ(tx.base, 20);
	CHECK_EQ(sr_tx_ackend(&tx), 0);
	CHECK_EQ(sr_tx_resent(&tx, 9), 0);
	CHECK_EQ(tx.state, SR_TX_RESEND);
	CHECK_EQ(sr_tx_resent(&tx, 1), 0);
	CHECK_EQ(tx.state, SR_TX_RAW);

	tx = tx_link(10, 30);
	sr_tx_end(&tx);
	sr_tx_leave(&tx);
	CHECK_EQ(sr_tx_resent(&tx, 20), SR_DO_FIN);
	CHECK_EQ(tx.state, SR_TX_DONE);

	tx = tx_link(10, 10); /* nothing to resend */
	sr_tx_leave(&tx);
	CHECK_EQ(sr_tx_end(&tx), 0);
	CHECK_EQ(sr_tx_resent(&tx, 0), SR_DO_FIN);
}

/* ---- receiver ---- */

static struct sr_switch switch_at(uint64_t n, uint32_t marks, uint32_t link_no)
{
	return (struct sr_switch){
		.n = n, .marks = marks, .link_no = link_no};
}

static unsigned take_switch(struct sr_rx *rx, struct sr_switch sw, bool proven)
{
	return sr_rx_switch(rx, &sw, token, proven, out, &count);
}

/* Feeds bytes; returns what came out, which is in out. */
static ssize_t feed(struct sr_rx *rx, const void *in, size_t len)
{
	memset(out, 0, sizeof(out));
	return sr_rx_tcp(rx, in, len, out, &todo);
}

static ssize_t feed_mark(struct sr_rx *rx, uint32_t link_no)
{
	uint8_t mark[SR_RECORD_LEN];

	sr_mark_make(mark, link_no, token);
	return feed(rx, mark, sizeof(mark));
}

static ssize_t feed_resume(struct sr_rx *rx, uint64_t a, uint64_t m)
{
	uint8_t record[SR_RECORD_LEN];

	sr_resume_make(record, a, m);
	return feed(rx, record, sizeof(record));
}

static struct sr_rx rx_raw(uint64_t n)
{
	struct sr_rx rx;
	uint8_t in[256] = {0};

	sr_rx_init(&rx);
	CHECK_EQ(feed(&rx, in, n), n);
	return rx;
}

static struct sr_rx rx_expect(uint64_t have, uint64_t n)
{
	struct sr_rx rx = rx_raw(have);

	CHECK_EQ(take_switch(&rx, switch_at(n, 0, 7), true), SR_DO_ACKSW);
	CHECK_EQ(count, 0);
	return rx;
}

static struct sr_rx rx_link(uint64_t n)
{
	struct sr_rx rx = rx_expect(n, n);

	CHECK_EQ(feed_mark(&rx, 7), 0);
	CHECK_EQ(rx.state, SR_RX_LINK);
	return rx;
}

static void rx_in_raw(void)
{
	struct sr_rx rx = rx_raw(0);

	CHECK_EQ(feed(&rx, "abc", 3), 3);
	CHECK(!memcmp(out, "abc", 3));
	CHECK_EQ(rx.rx, 3);
	CHECK_EQ(todo, 0);
	CHECK(sr_rx_limit(&rx) == SIZE_MAX);
	CHECK(!sr_rx_at_mark(&rx));
	CHECK_EQ(sr_rx_ready(&rx, 100), 0);
	CHECK_EQ(sr_rx_end(&rx, 3, 3), -EPROTO);
	CHECK_EQ(sr_rx_fin(&rx, false, false, 3, out), 0);
	CHECK_EQ(rx.state, SR_RX_EOF);
	CHECK_EQ(take_switch(&rx, switch_at(3, 0, 7), true), SR_DO_DROP);
	CHECK_EQ(feed(&rx, "x", 1), -EPROTO);
	CHECK_EQ(rx.state, SR_RX_RESET);
	CHECK_EQ(sr_rx_limit(&rx), 0);
	CHECK_EQ(feed(&rx, "x", 1), 0);
	CHECK_EQ(take_switch(&rx, switch_at(9, 0, 7), true), SR_DO_DROP);

	rx = rx_raw(3);
	sr_rx_fin(&rx, true, false, 3, out);
	CHECK_EQ(rx.state, SR_RX_RESET);
}

/* RAW after RESUME{4, 12} with 10 taken: 6 duplicates, then 2 owed. */
static struct sr_rx rx_resumed(void)
{
	struct sr_rx rx = rx_link(3);

	rx.rx += 7;
	CHECK_EQ(feed_resume(&rx, 4, 12), 0);
	CHECK_EQ(todo, SR_DO_DROP);
	CHECK_EQ(rx.state, SR_RX_RAW);
	return rx;
}

static void rx_drops_duplicates(void)
{
	struct sr_rx rx = rx_resumed();

	CHECK_EQ(feed(&rx, "4567", 4), 0);
	CHECK_EQ(feed(&rx, "89abc", 5), 3);
	CHECK(!memcmp(out, "abc", 3));
	CHECK_EQ(rx.rx, 13);
	sr_rx_fin(&rx, false, false, 13, out);
	CHECK_EQ(rx.state, SR_RX_EOF);

	rx = rx_resumed(); /* FIN among duplicates */
	feed(&rx, "45", 2);
	sr_rx_fin(&rx, false, false, 10, out);
	CHECK_EQ(rx.state, SR_RX_RESET);

	rx = rx_link(3); /* the same with nothing new owed */
	rx.rx += 7;
	feed_resume(&rx, 4, 10);
	sr_rx_fin(&rx, false, false, 10, out);
	CHECK_EQ(rx.state, SR_RX_RESET);

	rx = rx_resumed(); /* FIN below m */
	feed(&rx, "456789a", 7);
	sr_rx_fin(&rx, false, false, 10, out);
	CHECK_EQ(rx.state, SR_RX_RESET);
}

/* The ring still has what the sender's end has cut off. */
static void rx_whole(void)
{
	struct sr_rx rx = rx_resumed();

	feed(&rx, "456789a", 7);
	sr_rx_fin(&rx, false, true, 12, out);
	CHECK_EQ(rx.state, SR_RX_LINK);
	CHECK_EQ(sr_rx_ready(&rx, 12), 1);
	rx.rx += 1;
	CHECK_EQ(sr_rx_settle(&rx, 12), 0);
	CHECK_EQ(rx.state, SR_RX_EOF);

	rx = rx_resumed(); /* among duplicates */
	feed(&rx, "45", 2);
	sr_rx_fin(&rx, false, true, 12, out);
	CHECK_EQ(sr_rx_ready(&rx, 12), 2);

	rx = rx_resumed(); /* a RST is a reset all the same */
	sr_rx_fin(&rx, true, true, 12, out);
	CHECK_EQ(rx.state, SR_RX_RESET);

	rx = rx_link(3); /* killed, on the link, without END */
	sr_rx_fin(&rx, false, true, 5, out);
	CHECK_EQ(rx.state, SR_RX_LINK);
	rx.rx += 2;
	sr_rx_settle(&rx, 5);
	CHECK_EQ(rx.state, SR_RX_EOF);

	rx = rx_link(3);
	sr_rx_fin(&rx, true, true, 5, out);
	rx.rx += 2;
	sr_rx_settle(&rx, 5);
	CHECK_EQ(rx.state, SR_RX_RESET);
}

static void tx_gone(void)
{
	struct sr_tx tx;

	sr_tx_init(&tx);
	CHECK_EQ(sr_tx_gone(&tx), 0);
	CHECK_EQ(tx.state, SR_TX_RAW);
	tx.state = SR_TX_LINK;
	tx.w = 9;
	CHECK_EQ(sr_tx_gone(&tx), 0);
	CHECK(tx.state == SR_TX_RAW && tx.base == 9);
	tx.state = SR_TX_LINK;
	tx.ended = true;
	CHECK_EQ(sr_tx_gone(&tx), SR_DO_FIN);
	CHECK_EQ(tx.state, SR_TX_DONE);
}

/* Given up by the sender, who sent on by TCP; or never right. */
static void rx_switch_passed(void)
{
	struct sr_rx rx = rx_raw(5);
	struct sr_switch late = switch_at(4, 0, 7), wrong = switch_at(5, 1, 7);

	CHECK_EQ(take_switch(&rx, late, true), SR_DO_DROP);
	CHECK(late.n < rx.rx);
	CHECK_EQ(take_switch(&rx, wrong, true), SR_DO_DROP);
	CHECK(wrong.n == rx.rx);

	rx = rx_expect(5, 5);	/* and bytes held for an older mark count */
	CHECK_EQ(feed(&rx, "\xf5", 1), 0);
	late = switch_at(5, 0, 8);
	CHECK_EQ(take_switch(&rx, late, true), SR_DO_DROP);
	CHECK(late.n < rx.rx);
}

static void rx_takes_switch(void)
{
	struct sr_rx rx = rx_raw(5);

	CHECK_EQ(take_switch(&rx, switch_at(4, 0, 7), true), SR_DO_DROP);
	CHECK_EQ(rx.state, SR_RX_RAW);
	CHECK_EQ(take_switch(&rx, switch_at(5, 1, 7), true), SR_DO_DROP);
	CHECK_EQ(take_switch(&rx, switch_at(5, 0, 7), false), SR_DO_ACKSW);
	CHECK_EQ(rx.state, SR_RX_EXPECT);
	CHECK_EQ(rx.n, 5);

	rx = rx_resumed(); /* below what is owed; marks; an old link */
	CHECK_EQ(take_switch(&rx, switch_at(11, 1, 8), true), SR_DO_DROP);
	CHECK_EQ(take_switch(&rx, switch_at(12, 0, 8), true), SR_DO_DROP);
	CHECK_EQ(take_switch(&rx, switch_at(12, 1, 7), true), SR_DO_DROP);
	CHECK_EQ(take_switch(&rx, switch_at(12, 1, 8), true), SR_DO_ACKSW);
	CHECK_EQ(sr_rx_limit(&rx), 8); /* duplicates, and on to N */
}

static void rx_expects(void)
{
	struct sr_rx rx = rx_expect(5, 8);

	CHECK_EQ(sr_rx_limit(&rx), 3);
	CHECK(!sr_rx_at_mark(&rx));
	CHECK_EQ(feed(&rx, "567", 3), 3);
	CHECK(sr_rx_at_mark(&rx));
	CHECK_EQ(sr_rx_limit(&rx), SR_RECORD_LEN);
	CHECK_EQ(feed(&rx, "\xf5sock", 5), 0);
	CHECK_EQ(rx.rx, 8);
	CHECK_EQ(sr_rx_limit(&rx), SR_RECORD_LEN - 5);
	CHECK_EQ(feed(&rx, "etry", 4), 9);
	CHECK(!memcmp(out, "\xf5socketry", 9));
	CHECK_EQ(todo, SR_DO_DROP);
	CHECK_EQ(rx.state, SR_RX_RAW);
	CHECK_EQ(rx.rx, 17);

	rx = rx_expect(5, 8); /* DATA and END: kept, not given */
	CHECK_EQ(sr_rx_end(&rx, 20, 20), 0);
	CHECK_EQ(sr_rx_end(&rx, 20, 20), -EPROTO);
	CHECK_EQ(sr_rx_ready(&rx, 20), 0);
	CHECK_EQ(sr_rx_settle(&rx, 20), 0);
	CHECK_EQ(rx.state, SR_RX_EXPECT);
}

static void rx_fin_while_expecting(void)
{
	struct sr_rx rx = rx_expect(5, 8);

	CHECK_EQ(sr_rx_fin(&rx, false, false, 8, out), 0); /* below N */
	CHECK_EQ(rx.state, SR_RX_EOF);

	rx = rx_expect(5, 5);
	feed(&rx, "\xf5so", 3);
	CHECK_EQ(sr_rx_fin(&rx, false, false, 5, out), 3);
	CHECK(!memcmp(out, "\xf5so", 3));
	CHECK_EQ(rx.rx, 8);
	CHECK_EQ(rx.state, SR_RX_EOF);

	rx = rx_expect(5, 5); /* may have been a true mark */
	feed(&rx, "\xf5so", 3);
	CHECK_EQ(sr_rx_fin(&rx, true, false, 5, out), 0);
	CHECK_EQ(rx.state, SR_RX_RESET);

	rx = rx_resumed();
	CHECK_EQ(take_switch(&rx, switch_at(12, 1, 8), true), SR_DO_ACKSW);
	feed(&rx, "45", 2);
	sr_rx_fin(&rx, false, false, 12, out);
	CHECK_EQ(rx.state, SR_RX_RESET);
}

static void rx_expectation_gives_way(void)
{
	struct sr_rx rx = rx_expect(5, 5);

	CHECK_EQ(take_switch(&rx, switch_at(5, 0, 8), false), SR_DO_DROP);
	CHECK_EQ(take_switch(&rx, switch_at(5, 0, 6), true), SR_DO_DROP);
	CHECK_EQ(take_switch(&rx, switch_at(5, 0, 7), true), SR_DO_DROP);
	CHECK_EQ(take_switch(&rx, switch_at(5, 1, 8), true), SR_DO_LATER);
	CHECK_EQ(rx.link_no, 7);
	feed(&rx, "\xf5so", 3);
	CHECK_EQ(take_switch(&rx, switch_at(9, 0, 8), true), SR_DO_ACKSW);
	CHECK_EQ(count, 3);
	CHECK(!memcmp(out, "\xf5so", 3));
	CHECK_EQ(rx.rx, 8);
	CHECK_EQ(rx.n, 9);
	CHECK_EQ(rx.state, SR_RX_EXPECT);

	rx = rx_expect(5, 5); /* the bytes held came after this N, too */
	feed(&rx, "\xf5so", 3);
	CHECK_EQ(take_switch(&rx, switch_at(7, 0, 8), true), SR_DO_DROP);
	CHECK_EQ(count, 3);
	CHECK_EQ(rx.rx, 8);
	CHECK_EQ(rx.state, SR_RX_RAW);
}

/* A stranger's number puts nobody out. */
static void rx_stranger(void)
{
	struct sr_rx rx = rx_raw(5);

	CHECK_EQ(take_switch(&rx, switch_at(6, 0, UINT32_MAX), false),
		 SR_DO_ACKSW);
	CHECK_EQ(take_switch(&rx, switch_at(6, 0, 1), true), SR_DO_ACKSW);
	CHECK_EQ(take_switch(&rx, switch_at(6, 0, UINT32_MAX), false),
		 SR_DO_DROP);
	CHECK_EQ(feed(&rx, "5", 1), 1);
	CHECK_EQ(feed_mark(&rx, 1), 0);
	CHECK_EQ(rx.state, SR_RX_LINK);

	rx = rx_expect(5, UINT64_MAX); /* an N that never comes */
	CHECK(sr_rx_limit(&rx) <= UINT64_MAX - 5);
	CHECK_EQ(feed(&rx, "567", 3), 3);
	sr_rx_fin(&rx, false, false, 8, out);
	CHECK_EQ(rx.state, SR_RX_EOF);
}

static void rx_in_link(void)
{
	struct sr_rx rx = rx_link(5);

	CHECK_EQ(rx.seen, 1);
	CHECK(sr_rx_at_mark(&rx));
	CHECK_EQ(sr_rx_limit(&rx), SR_RECORD_LEN);
	CHECK_EQ(sr_rx_ready(&rx, 5), 0);
	CHECK_EQ(sr_rx_ready(&rx, 25), 20);
	rx.rx += 15;
	CHECK_EQ(sr_rx_ready(&rx, 25), 5);
	CHECK_EQ(take_switch(&rx, switch_at(30, 1, 8), true), SR_DO_LATER);
	CHECK_EQ(take_switch(&rx, switch_at(19, 1, 8), true), SR_DO_DROP);
	CHECK_EQ(take_switch(&rx, switch_at(30, 1, 7), true), SR_DO_DROP);
	CHECK_EQ(sr_rx_end(&rx, 24, 25), -EPROTO);
	CHECK_EQ(sr_rx_end(&rx, 25, 25), 0);
	CHECK_EQ(sr_rx_ready(&rx, 99), 5); /* nothing beyond END */
	CHECK_EQ(sr_rx_settle(&rx, 25), 0);
	CHECK_EQ(rx.state, SR_RX_LINK);
	rx.rx += 5;
	CHECK_EQ(sr_rx_settle(&rx, 25), SR_DO_ACKEND);
	CHECK_EQ(rx.state, SR_RX_EOF);
	CHECK_EQ(sr_rx_settle(&rx, 25), 0);
}

static void rx_tcp_over_in_link(void)
{
	struct sr_rx rx;

	for (int reset = 0; reset < 2; reset++) {
		rx = rx_link(5);
		CHECK_EQ(sr_rx_fin(&rx, reset, false, 7, out), 0);
		CHECK_EQ(sr_rx_settle(&rx, 7), 0);
		CHECK_EQ(rx.state, SR_RX_LINK); /* the ring first */
		rx.rx += 2;
		sr_rx_settle(&rx, 7);
		CHECK_EQ(rx.state, SR_RX_RESET);

		rx = rx_link(5);
		sr_rx_end(&rx, 7, 7);
		sr_rx_fin(&rx, reset, false, 7, out);
		CHECK_EQ(rx.state, SR_RX_LINK);
		rx.rx += 2;
		sr_rx_settle(&rx, 7);
		CHECK_EQ(rx.state, SR_RX_EOF);
	}
}

static void rx_refuses_resume(uint64_t a, uint64_t m)
{
	struct sr_rx rx = rx_link(5);

	rx.rx += 5;
	CHECK_EQ(feed_resume(&rx, a, m), -EPROTO);
	CHECK_EQ(rx.state, SR_RX_RESET);
}

static void rx_bad_records(void)
{
	struct sr_rx rx = rx_link(5);
	uint8_t junk[SR_RECORD_LEN] = "junk";

	rx_refuses_resume(11, 12); /* a > rx */
	rx_refuses_resume(3, 9);   /* m < rx */
	rx_refuses_resume(10, 9);  /* a > m */
	CHECK_EQ(feed(&rx, junk, 1), -EPROTO); /* the rest may never come */
	rx = rx_link(5);
	sr_resume_make(junk, 2, 9);
	junk[7] ^= 1;
	CHECK_EQ(feed(&rx, junk, 7), 0);
	CHECK_EQ(feed(&rx, junk + 7, 1), -EPROTO);
	rx = rx_link(5);
	CHECK_EQ(feed_mark(&rx, 7), -EPROTO);
}

static struct sr_rx rx_ended(void)
{
	struct sr_rx rx = rx_link(5);

	sr_rx_end(&rx, 9, 9);
	rx.rx += 4;
	CHECK_EQ(sr_rx_settle(&rx, 9), SR_DO_ACKEND);
	return rx;
}

static void rx_in_eof(void)
{
	struct sr_rx rx = rx_ended();

	CHECK(sr_rx_at_mark(&rx));
	CHECK_EQ(sr_rx_limit(&rx), SR_RECORD_LEN);
	CHECK_EQ(feed_resume(&rx, 6, 9), 0);
	CHECK_EQ(todo, SR_DO_DROP);
	CHECK_EQ(rx.state, SR_RX_EOF);
	CHECK(!sr_rx_at_mark(&rx));
	CHECK(sr_rx_limit(&rx) > 0); /* FIN is still to be read */
	CHECK_EQ(feed(&rx, "678", 3), 0);
	CHECK_EQ(sr_rx_fin(&rx, false, false, 9, out), 0);
	CHECK_EQ(rx.state, SR_RX_EOF);
	CHECK_EQ(feed(&rx, "9", 1), -EPROTO);

	rx = rx_ended();
	CHECK_EQ(feed_resume(&rx, 6, 10), -EPROTO);
	CHECK_EQ(rx.state, SR_RX_RESET);

	rx = rx_ended();
	CHECK_EQ(take_switch(&rx, switch_at(9, 1, 8), true), SR_DO_DROP);
	sr_rx_fin(&rx, true, false, 9, out);
	CHECK_EQ(rx.state, SR_RX_EOF);
}

/* raw, mark, RESUME, duplicates and raw, cut in two anywhere, or one buffer
 * that is also where the program wants its bytes. */
static void rx_all_in_one(void)
{
	uint8_t in[5 + 2 * SR_RECORD_LEN + 6] = "01234";
	uint8_t copy[sizeof(in)];
	struct sr_rx rx;
	ssize_t n;

	sr_mark_make(in + 5, 7, token);
	sr_resume_make(in + 5 + SR_RECORD_LEN, 5, 8);
	memcpy(in + 5 + 2 * SR_RECORD_LEN, "56789a", 6);
	for (size_t cut = 0; cut <= sizeof(in); cut++) {
		sr_rx_init(&rx);
		take_switch(&rx, switch_at(5, 0, 7), true);
		n = sr_rx_tcp(&rx, in, cut, out, &todo);
		n += sr_rx_tcp(&rx, in + cut, sizeof(in) - cut, out + n, &todo);
		CHECK_EQ(n, 11);
		CHECK(!memcmp(out, "0123456789a", 11));
	}
	memcpy(copy, in, sizeof(in));
	sr_rx_init(&rx);
	take_switch(&rx, switch_at(5, 0, 7), true);
	CHECK_EQ(sr_rx_tcp(&rx, copy, sizeof(copy), copy, &todo), 11);
	CHECK(!memcmp(copy, "0123456789a", 11));
	CHECK_EQ(todo, SR_DO_DROP);

	/* the mark but for its last byte, in place */
	memcpy(copy, in, sizeof(in));
	copy[5 + SR_RECORD_LEN - 1] ^= 1;
	memcpy(in, copy, sizeof(in));
	sr_rx_init(&rx);
	take_switch(&rx, switch_at(5, 0, 7), true);
	CHECK_EQ(sr_rx_tcp(&rx, copy, sizeof(copy), copy, &todo), sizeof(copy));
	CHECK(!memcmp(copy, in, sizeof(in)));
	CHECK_EQ(todo, SR_DO_DROP);
}

/* Where a mark should be: looked at, and left to the kernel if it is none. */
static void rx_peeks(void)
{
	struct sr_rx rx;
	uint8_t in[SR_RECORD_LEN + 1];

	sr_rx_init(&rx);
	rx.state = SR_RX_EXPECT;
	for (unsigned i = 0; i < SR_RECORD_LEN; i++)
		rx.mark[i] = in[i] = (uint8_t)(i + 7);
	in[SR_RECORD_LEN] = 'x';
	CHECK(!sr_rx_peek(&rx, in, 1) && !sr_rx_peek(&rx, in, sizeof(in)));
	CHECK(rx.state == SR_RX_EXPECT && !rx.part);
	in[5]++;
	CHECK(!sr_rx_peek(&rx, in, 5));
	rx.part = 1;
	CHECK(!sr_rx_peek(&rx, in, sizeof(in)));
	rx.part = 0;
	CHECK(sr_rx_peek(&rx, in, 6) == SR_DO_DROP && rx.state == SR_RX_RAW);
	CHECK(!sr_rx_peek(&rx, in, 6) && rx.rx == 0);
}

/* The sender says that no mark comes: only bytes that may be its beginning wait. */
static void rx_hears_of_no_mark(void)
{
	struct sr_rx rx;

	sr_rx_init(&rx);
	sr_rx_unmarked(&rx);
	CHECK(rx.state == SR_RX_RAW);
	rx.state = SR_RX_EXPECT;
	rx.part = 1;
	sr_rx_unmarked(&rx);
	CHECK(rx.state == SR_RX_EXPECT);
	rx.part = 0;
	sr_rx_unmarked(&rx);
	CHECK(rx.state == SR_RX_RAW && sr_rx_limit(&rx) == SIZE_MAX);
	rx.state = SR_RX_LINK;
	sr_rx_unmarked(&rx);
	CHECK(rx.state == SR_RX_LINK);
}

int main(void)
{
	rx_peeks();
	rx_hears_of_no_mark();
	tx_in_raw();
	tx_wants_up();
	tx_in_wait();
	tx_in_link();
	tx_goes_back();
	rx_in_raw();
	rx_drops_duplicates();
	rx_whole();
	tx_gone();
	rx_switch_passed();
	rx_takes_switch();
	rx_expects();
	rx_fin_while_expecting();
	rx_expectation_gives_way();
	rx_stranger();
	rx_in_link();
	rx_tcp_over_in_link();
	rx_bad_records();
	rx_in_eof();
	rx_all_in_one();
	return 0;
}
