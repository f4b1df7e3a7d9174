/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * switch.c - the two state machines of sockrail-protocol(7), row by row.
 * Change tests/model/switch.pml first, then this file.  Pure; see switch.h.
 */
#include <errno.h>
#include <string.h>

#include "pure/switch_rx.h"
#include "pure/wire.h"

/* ---- sender ---- */

void sr_tx_init(struct sr_tx *tx)
{
	*tx = (struct sr_tx){.state = SR_TX_RAW};
}

int sr_tx_want(struct sr_tx *tx, uint32_t link_no, const uint8_t token[SR_TOKEN_LEN],
	       struct sr_switch *out)
{
	if (tx->ended)
		return -EPIPE;
	if (tx->state != SR_TX_RAW)
		return -EAGAIN;
	tx->state = SR_TX_WAIT;
	tx->acked = false;
	tx->n = tx->base = tx->w;
	sr_mark_make(tx->record, link_no, token);
	*out = (struct sr_switch){
		.n = tx->w,
		.marks = tx->marks,
		.link_no = link_no,
	};
	return 0;
}

void sr_tx_acksw(struct sr_tx *tx)
{
	if (tx->state == SR_TX_WAIT)
		tx->acked = true;
}

static unsigned send_end(struct sr_tx *tx)
{
	if (tx->end_sent)
		return 0;
	tx->end_sent = true;
	return SR_DO_END;
}

static unsigned be_raw(struct sr_tx *tx)
{
	tx->state = tx->ended ? SR_TX_DONE : SR_TX_RAW;
	return tx->ended ? SR_DO_FIN : 0;
}

unsigned sr_tx_marked(struct sr_tx *tx)
{
	if (tx->state != SR_TX_WAIT || !tx->acked)
		return 0;
	tx->state = SR_TX_LINK;
	tx->marks++;
	return tx->ended ? send_end(tx) : 0;
}

unsigned sr_tx_leave(struct sr_tx *tx)
{
	if (tx->state == SR_TX_WAIT) {
		/* From now on this mark must never be written (tests/model/PROTOCOL.md, hole 3). */
		tx->acked = false;
		memset(tx->record, 0, sizeof(tx->record));
		return SR_DO_DROP | be_raw(tx);
	}
	if (tx->state != SR_TX_LINK)
		return 0;
	tx->state = SR_TX_RESEND;
	tx->at = tx->base;
	sr_resume_make(tx->record, tx->base, tx->w);
	return SR_DO_DROP;
}

int sr_tx_ack(struct sr_tx *tx, uint64_t n)
{
	if (tx->state != SR_TX_LINK || n < tx->n)
		return 0;
	if (n < tx->base || n > tx->w)
		return -EPROTO;
	tx->base = n;
	return 0;
}

unsigned sr_tx_end(struct sr_tx *tx)
{
	if (tx->ended)
		return 0;
	tx->ended = true;
	if (tx->state == SR_TX_RAW)
		return be_raw(tx);
	return tx->state == SR_TX_LINK ? send_end(tx) : 0;
}

unsigned sr_tx_gone(struct sr_tx *tx)
{
	if (tx->state != SR_TX_LINK)
		return 0;
	tx->base = tx->w;
	return be_raw(tx);
}

unsigned sr_tx_ackend(struct sr_tx *tx)
{
	if (tx->state != SR_TX_LINK || !tx->end_sent)
		return 0;
	tx->base = tx->w;
	return be_raw(tx);
}

unsigned sr_tx_resent(struct sr_tx *tx, uint64_t n)
{
	if (tx->state != SR_TX_RESEND)
		return 0;
	tx->at += n;
	return tx->at >= tx->w ? be_raw(tx) : 0;
}

/* ---- receiver ---- */

void sr_rx_init(struct sr_rx *rx)
{
	*rx = (struct sr_rx){.state = SR_RX_RAW};
}

/* After a link's END, TCP may still bring a RESUME. */
static bool wants_record(const struct sr_rx *rx)
{
	return rx->state == SR_RX_LINK || (rx->state == SR_RX_EOF && rx->end);
}

static bool wants_mark(const struct sr_rx *rx)
{
	return rx->state == SR_RX_EXPECT && !rx->dup && rx->rx == rx->n;
}

size_t sr_rx_limit(const struct sr_rx *rx)
{
	if (rx->state == SR_RX_RESET)
		return 0;
	if (wants_record(rx) || wants_mark(rx))
		return SR_RECORD_LEN - rx->part;
	if (rx->state != SR_RX_EXPECT)
		return SIZE_MAX;
	if (rx->n - rx->rx > SIZE_MAX - rx->dup)
		return SIZE_MAX;
	return rx->n - rx->rx + rx->dup;
}

bool sr_rx_at_mark(const struct sr_rx *rx)
{
	return wants_record(rx) || wants_mark(rx);
}

/* What sr_rx_tcp() reads, in[0, len), and writes, out[0, put). */
struct feed {
	const uint8_t *in;
	size_t len;
	uint8_t *out;
	size_t put;
	unsigned todo;
};

static void feed_skip(struct feed *f, size_t n)
{
	f->in += n;
	f->len -= n;
}

static size_t drop_duplicates(struct sr_rx *rx, struct feed *f)
{
	size_t n = rx->dup < f->len ? (size_t)rx->dup : f->len;

	rx->dup -= n;
	feed_skip(f, n);
	return n;
}

/* Feeds program bytes, at most `most`. */
static void feed_raw(struct sr_rx *rx, struct feed *f, uint64_t most)
{
	size_t n;

	if (drop_duplicates(rx, f))
		return;
	n = most < f->len ? (size_t)most : f->len;
	memmove(f->out + f->put, f->in, n);
	f->put += n;
	rx->rx += n;
	feed_skip(f, n);
}

/* The bytes held as the mark's beginning are the program's: copies them to out.
 * They are equal to the mark's. */
static size_t release_held(struct sr_rx *rx, uint8_t *out)
{
	size_t n = rx->part;

	memcpy(out, rx->mark, n);
	rx->rx += n;
	rx->part = 0;
	return n;
}

/* The sender has gone on by TCP and will write no mark. */
static unsigned rx_miss_mark(struct sr_rx *rx)
{
	rx->state = SR_RX_RAW;
	rx->end = false;
	return SR_DO_DROP;
}

unsigned sr_rx_peek(struct sr_rx *rx, const uint8_t *in, size_t len)
{
	size_t n = len < SR_RECORD_LEN ? len : SR_RECORD_LEN;

	if (rx->state != SR_RX_EXPECT || rx->part || !memcmp(in, rx->mark, n))
		return 0;
	return rx_miss_mark(rx);
}

void sr_rx_unmarked(struct sr_rx *rx)
{
	if (rx->state == SR_RX_EXPECT && !rx->part)
		rx_miss_mark(rx);
}

/* Feeds bytes at N.  With in == out, the held bytes lie before f->in and after
 * f->out + f->put, so releasing them overwrites nothing unread. */
static void feed_mark(struct sr_rx *rx, struct feed *f)
{
	while (f->len && rx->part < SR_RECORD_LEN &&
	       *f->in == rx->mark[rx->part]) {
		rx->part++;
		feed_skip(f, 1);
	}
	if (rx->part == SR_RECORD_LEN) {
		rx->part = 0;
		rx->seen++;
		rx->state = SR_RX_LINK;
		rx->next_link = (uint64_t)rx->link_no + 1;
	} else if (f->len) {
		f->put += release_held(rx, f->out + f->put);
		f->todo |= rx_miss_mark(rx);
	}
}

static int take_resume(struct sr_rx *rx)
{
	uint64_t a, m;

	if (sr_resume_parse(rx->held, &a, &m) || a > rx->rx || m < rx->rx)
		return -EPROTO;
	if (rx->state == SR_RX_EOF && m != rx->rx)
		return -EPROTO;
	rx->dup = rx->rx - a;
	rx->m = m;
	rx->end = false;
	if (rx->state == SR_RX_LINK)
		rx->state = SR_RX_RAW;
	return 0;
}

static int feed_record(struct sr_rx *rx, struct feed *f)
{
	size_t n = SR_RECORD_LEN - rx->part;

	if (n > f->len)
		n = f->len;
	memcpy(rx->held + rx->part, f->in, n);
	rx->part += (unsigned)n;
	feed_skip(f, n);
	/* Checked at once: bytes that are no record may be fewer than 32, and no more may come. */
	if (!sr_resume_begins(rx->held, rx->part)) {
		rx->part = 0;
		return -EPROTO;
	}
	if (rx->part < SR_RECORD_LEN)
		return 0;
	rx->part = 0;
	f->todo |= SR_DO_DROP;
	return take_resume(rx);
}

static int feed_eof(struct sr_rx *rx, struct feed *f)
{
	if (wants_record(rx))
		return feed_record(rx, f);
	return drop_duplicates(rx, f) ? 0 : -EPROTO;
}

/* Takes at least one byte, changes the state, or fails. */
static int feed_step(struct sr_rx *rx, struct feed *f)
{
	switch (rx->state) {
	case SR_RX_RAW:
		feed_raw(rx, f, UINT64_MAX);
		return 0;
	case SR_RX_EXPECT:
		if (wants_mark(rx))
			feed_mark(rx, f);
		else
			feed_raw(rx, f, rx->n - rx->rx);
		return 0;
	case SR_RX_LINK:
		return feed_record(rx, f);
	case SR_RX_EOF:
		return feed_eof(rx, f);
	case SR_RX_RESET:
		break;
	}
	feed_skip(f, f->len);
	return 0;
}

ssize_t sr_rx_tcp(struct sr_rx *rx, const uint8_t *in, size_t len, uint8_t *out,
		  unsigned *todo)
{
	struct feed f = {.in = in, .len = len, .out = out};
	int err = 0;

	while (f.len && !err)
		err = feed_step(rx, &f);
	*todo = f.todo;
	if (err) {
		rx->state = SR_RX_RESET;
		return err;
	}
	return (ssize_t)f.put;
}

size_t sr_rx_fin(struct sr_rx *rx, bool reset, bool whole, uint64_t h, uint8_t *out)
{
	size_t n = 0;

	if (rx->state == SR_RX_LINK) {
		rx->tcp_over = true;
		rx->whole = whole && !reset;
		sr_rx_settle(rx, h);
		return 0;
	}
	if (rx->state != SR_RX_RAW && rx->state != SR_RX_EXPECT)
		return 0;
	/* A mark is written whole, so before a FIN the beginning of one
	 * belongs to the program.  Before a RST it may be what was left of a
	 * true mark. */
	if (rx->state == SR_RX_EXPECT && !reset)
		n = release_held(rx, out);
	rx->part = 0;
	if (rx->state == SR_RX_RAW && (rx->rx < rx->m || rx->dup) && whole &&
	    !reset) {
		rx->state = SR_RX_LINK;
		rx->dup = 0;
		rx->tcp_over = rx->whole = true;
		return n;
	}
	rx->state =
		reset || rx->dup || rx->rx < rx->m ? SR_RX_RESET : SR_RX_EOF;
	return n;
}

/* An impostor may claim any link number.  So a SWITCH displaces a pending one only
 * if its link has proven the history.  In RAW a SWITCH without a proof is accepted:
 * if it was an impostor's, the first byte that does not match the mark ends it. */
static unsigned judge_switch(const struct sr_rx *rx, const struct sr_switch *sw,
			     bool proven)
{
	if (rx->state == SR_RX_EOF || rx->state == SR_RX_RESET)
		return SR_DO_DROP;
	if (sw->n < rx->rx || sw->n < rx->m || sw->link_no < rx->next_link)
		return SR_DO_DROP;
	if (rx->state == SR_RX_LINK)
		return SR_DO_LATER;
	if (sw->marks < rx->seen)
		return SR_DO_DROP;
	if (rx->state == SR_RX_RAW)
		return sw->marks == rx->seen ? SR_DO_ACKSW : SR_DO_DROP;
	if (!proven)
		return SR_DO_DROP;
	return sw->marks == rx->seen ? SR_DO_ACKSW : SR_DO_LATER;
}

unsigned sr_rx_switch(struct sr_rx *rx, const struct sr_switch *sw,
		      const uint8_t token[SR_TOKEN_LEN], bool proven,
		      uint8_t *out, size_t *n)
{
	unsigned verdict = judge_switch(rx, sw, proven);

	*n = 0;
	if (verdict != SR_DO_ACKSW)
		return verdict;
	if (rx->part)
		*n = release_held(rx, out);
	if (proven)
		rx->next_link = (uint64_t)sw->link_no + 1;
	/* The bytes that were held lie behind this N, so the sender has sent
	 * them by TCP: it has given this link up, too. */
	if (sw->n < rx->rx) {
		rx->state = SR_RX_RAW;
		return SR_DO_DROP;
	}
	rx->state = SR_RX_EXPECT;
	rx->end = false;
	rx->link_no = sw->link_no;
	rx->n = sw->n;
	sr_mark_make(rx->mark, sw->link_no, token);
	return SR_DO_ACKSW;
}

int sr_rx_end(struct sr_rx *rx, uint64_t length, uint64_t h)
{
	if (rx->state != SR_RX_EXPECT && rx->state != SR_RX_LINK)
		return -EPROTO;
	if (rx->end || length != h || length < rx->n)
		return -EPROTO;
	rx->end = true;
	rx->end_at = length;
	return 0;
}

uint64_t sr_rx_ready(const struct sr_rx *rx, uint64_t h)
{
	if (rx->state != SR_RX_LINK)
		return 0;
	if (rx->end && h > rx->end_at)
		h = rx->end_at;
	return h > rx->rx ? h - rx->rx : 0;
}

unsigned sr_rx_settle(struct sr_rx *rx, uint64_t h)
{
	if (rx->state != SR_RX_LINK || sr_rx_ready(rx, h))
		return 0;
	if (rx->end && rx->rx == rx->end_at) {
		rx->state = SR_RX_EOF;
		return SR_DO_ACKEND;
	}
	if (rx->tcp_over)
		rx->state = rx->whole ? SR_RX_EOF : SR_RX_RESET;
	return 0;
}
