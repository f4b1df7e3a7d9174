/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * switch_sim.c - two ends, one or two directions, several links one after
 * another, and chance.  TCP is a queue of bytes that come in pieces of any
 * size; a read may have been asleep since before the switch, and what it got
 * may be looked at later; links die, senders go back, ends are killed,
 * strangers ask.  What arrives must be what was sent.
 *
 * Usage: switch_sim [SEED [CASES]].  A failure prints the seed of its case;
 * give that seed and 1 to see it again.
 */
#include "sim_world.h"

/* ---- sender ---- */

static size_t tcp_room(const struct direction *d)
{
	size_t used = d->tail - d->head;

	return used < sim.room ? sim.room - used : 0;
}

static void tcp_put(struct direction *d, const void *buf, size_t n)
{
	CHECK(d->tail + n <= TCP_BYTES && !d->fin);
	memcpy(d->tcp + d->tail, buf, n);
	d->tail += n;
}

static void sender_do(struct direction *d, unsigned todo)
{
	if (todo & SR_DO_DROP)
		drop(sender(d), d->used);
	if (todo & SR_DO_END)
		push(link_at(d->used), &link_at(d->used)->fwd[d->id],
		     (struct item){.kind = END, .n = d->tx.w});
	if (todo & SR_DO_FIN)
		d->fin = true;
}

static void act_write(struct direction *d)
{
	struct sr_tx *tx = &d->tx;
	uint64_t n = 1 + below(sim.piece);

	if (tx->ended || n > d->total - tx->w)
		return;
	if (tx->state == SR_TX_RAW && n <= tcp_room(d)) {
		tcp_put(d, d->data + tx->w, n);
		tx->w += n;
	} else if (tx->state == SR_TX_LINK && tx->w - tx->base < sim.credit) {
		uint64_t credit = sim.credit - (tx->w - tx->base);

		n = n < credit ? n : credit;
		push(link_at(d->used), &link_at(d->used)->fwd[d->id],
		     (struct item){.kind = DATA, .n = tx->w, .len = n});
		tx->w += n;
	}
}

static void act_end(struct direction *d)
{
	if (sim.open || (d->tx.w < d->total && !one_in(300)))
		return;
	sender_do(d, sr_tx_end(&d->tx));
}

/* The link that this direction may try now, or 0. */
static unsigned next_link(struct direction *d)
{
	const struct sr_rx *asker = &sim.d[0].rx;

	if (d->id == 0)
		return d->used < sim.links ? d->used + 1 : 0;
	if (asker->state != SR_RX_LINK || asker->link_no <= d->used)
		return 0;
	return link_at(asker->link_no)->gone[1] ? 0 : asker->link_no;
}

static void act_want(struct direction *d)
{
	unsigned no = next_link(d);
	uint8_t token[SR_TOKEN_LEN];
	struct item item = {.kind = SWITCH};

	if (!no || one_in(2))
		return;
	token_of(token, no, d->id);
	if (sr_tx_want(&d->tx, no, token, &item.sw))
		return;
	d->used = no;
	push(link_at(no), &link_at(no)->fwd[d->id], item);
}

static void act_mark(struct direction *d)
{
	if (d->tx.state != SR_TX_WAIT || !d->tx.acked ||
	    tcp_room(d) < SR_RECORD_LEN)
		return;
	tcp_put(d, d->tx.record, SR_RECORD_LEN);
	sender_do(d, sr_tx_marked(&d->tx));
	seen.links++;
}

static void act_leave(struct direction *d)
{
	bool dead = d->used && link_at(d->used)->dead;

	if (d->tx.state != SR_TX_WAIT && d->tx.state != SR_TX_LINK)
		return;
	if (!dead && (!sim.back || !one_in(12)))
		return;
	sender_do(d, sr_tx_leave(&d->tx));
	if (d->tx.state == SR_TX_RESEND) {
		seen.resumes++;
		d->record_left = SR_RECORD_LEN;
	}
}

static void act_resend(struct direction *d)
{
	struct sr_tx *tx = &d->tx;
	size_t n = 1 + below(sim.piece);

	if (tx->state != SR_TX_RESEND)
		return;
	n = n < tcp_room(d) ? n : tcp_room(d);
	if (d->record_left) {
		n = n < d->record_left ? n : d->record_left;
		tcp_put(d, tx->record + SR_RECORD_LEN - d->record_left, n);
		d->record_left -= (unsigned)n;
		n = 0;
	} else {
		n = n < tx->w - tx->at ? n : tx->w - tx->at;
		tcp_put(d, d->data + tx->at, n);
	}
	if (!d->record_left)
		sender_do(d, sr_tx_resent(tx, n));
}

static void act_answer(struct direction *d)
{
	struct link *link = d->used ? link_at(d->used) : NULL;
	struct item item;
	int err = 0;

	if (!link || link->gone[sender(d)] ||
	    link->bwd[d->id].head == link->bwd[d->id].tail)
		return;
	item = link->bwd[d->id].item[link->bwd[d->id].head++ % QUEUE];
	if (item.kind == ACKSW)
		sr_tx_acksw(&d->tx);
	else if (item.kind == ACK)
		err = sr_tx_ack(&d->tx, item.n);
	else
		sender_do(d, sr_tx_ackend(&d->tx));
	CHECK_EQ(err, 0);
}

/* ---- receiver ---- */

static void deliver(struct direction *d, const uint8_t *buf, size_t n)
{
	CHECK(d->delivered + n <= d->tx.w);
	CHECK(!memcmp(buf, d->data + d->delivered, n));
	d->delivered += n;
	CHECK_EQ(d->rx.rx, d->delivered);
}

static void settle(struct direction *d)
{
	unsigned todo = sr_rx_settle(&d->rx, d->h);
	unsigned no = d->rx.link_no;
	unsigned end = sender(d);

	if (todo & SR_DO_ACKEND) {
		push(link_at(no), &link_at(no)->bwd[d->id],
		     (struct item){.kind = ACKEND});
		seen.link_ends++;
	}
	if (d->rx.state == SR_RX_EOF) {
		CHECK_EQ(d->delivered, d->tx.w);
		CHECK(d->tx.ended || sim.raw_when_killed[end]);
	}
	if (d->rx.state == SR_RX_RESET) {
		CHECK(sim.killed[end]);
		CHECK(!d->rx.tcp_over || d->delivered == d->h);
		seen.resets++;
	}
}

static void act_sleep(struct direction *d)
{
	size_t limit = sr_rx_limit(&d->rx);
	size_t n = 1 + below(sim.big_reads ? MAX_READ : sim.piece);

	if (d->asleep || d->got_len || !limit || d->over_read)
		return;
	d->asleep = n < limit ? n : limit;
	d->for_record = sr_rx_at_mark(&d->rx) && d->rx.state != SR_RX_EXPECT;
}

static void act_wake(struct direction *d)
{
	size_t n = 1 + below(sim.big_reads && one_in(2) ? MAX_READ : sim.piece);
	size_t have = d->tail - d->head;

	if (!d->asleep || d->got_len || !have ||
	    (sim.slow_reads && !one_in(12)))
		return;
	n = n < d->asleep ? n : d->asleep;
	n = n < have ? n : have;
	memcpy(d->got, d->tcp + d->head, n);
	d->got_len = n;
	d->head += n;
	d->asleep = 0;
}

/* The descriptor must be fit to be handed on: all raw bytes still in it. */
static void check_nothing_beyond_record(const struct direction *d, ssize_t n)
{
	uint64_t a, m;

	CHECK_EQ(sr_resume_parse(d->rx.held, &a, &m), 0);
	CHECK_EQ(n, 0);
	CHECK_EQ(d->rx.dup, d->rx.rx - a);
}

static void act_classify(struct direction *d)
{
	uint8_t other[MAX_READ + SR_RECORD_LEN];
	uint8_t *out = d->rx.part || one_in(2) ? other : d->got;
	enum sr_rx_state before = d->rx.state;
	unsigned todo, no = d->rx.link_no;
	uint32_t marks = d->rx.seen;
	ssize_t n;

	if (!d->got_len)
		return;
	n = sr_rx_tcp(&d->rx, d->got, d->got_len, out, &todo);
	d->got_len = 0;
	CHECK(n >= 0);
	if (d->for_record && todo & SR_DO_DROP)
		check_nothing_beyond_record(d, n);
	deliver(d, out, (size_t)n);
	if (todo & SR_DO_DROP && !d->stranger)
		drop(receiver(d), no);
	if (before == SR_RX_EXPECT && todo & SR_DO_DROP)
		*(d->rx.seen > marks ? &seen.mixed : &seen.mismatches) += 1;
	seen.duplicates += d->rx.dup > 0;
	settle(d);
}

static void act_over(struct direction *d)
{
	uint8_t out[SR_RECORD_LEN];
	bool reset = d->rst;

	if (d->head < d->tail || d->got_len || d->over_read ||
	    !(d->fin || d->rst))
		return;
	d->over_read = true;
	d->asleep = 0;
	deliver(d, out, sr_rx_fin(&d->rx, reset, false, d->h, out));
	settle(d);
}

static unsigned take_switch(struct direction *d, const struct item *item)
{
	unsigned no = item->sw.link_no;
	struct link *link = link_at(no);
	bool displaces = d->rx.state == SR_RX_EXPECT;
	uint8_t token[SR_TOKEN_LEN], out[SR_RECORD_LEN];
	unsigned todo;
	size_t n;

	token_of(token, no, d->id);
	todo = sr_rx_switch(&d->rx, &item->sw, token, link->proven, out, &n);
	deliver(d, out, n);
	if (todo == SR_DO_DROP)
		drop(receiver(d), no);
	seen.later += todo == SR_DO_LATER;
	if (todo != SR_DO_ACKSW)
		return todo;
	CHECK(d->delivered <= item->sw.n);
	seen.displaced += displaces;
	d->stranger = false;
	d->h = d->acked = item->sw.n;
	memset(d->ring, 0xee, sizeof(d->ring));
	push(link, &link->bwd[d->id], (struct item){.kind = ACKSW});
	return todo;
}

static bool in_use(const struct direction *d, unsigned no)
{
	return !d->stranger && d->rx.link_no == no &&
	       (d->rx.state == SR_RX_EXPECT || d->rx.state == SR_RX_LINK);
}

static void act_message(struct direction *d)
{
	unsigned no = 1 + below(sim.links);
	struct link *link = link_at(no);
	struct queue *q = &link->fwd[d->id];
	const struct item *item = &q->item[q->head % QUEUE];

	if (link->gone[receiver(d)] || q->head == q->tail)
		return;
	if (item->kind == SWITCH) {
		q->head += take_switch(d, item) != SR_DO_LATER;
		return;
	}
	if (!in_use(d, no))
		return;
	if (item->kind == DATA) {
		CHECK_EQ(item->n, d->h);
		memcpy(d->ring + d->h, d->data + item->n, item->len);
		d->h += item->len;
	} else {
		CHECK_EQ(sr_rx_end(&d->rx, item->n, d->h), 0);
	}
	q->head++;
	settle(d);
}

static void act_ring(struct direction *d)
{
	uint64_t ready = sr_rx_ready(&d->rx, d->h);
	uint64_t n = 1 + below(sim.piece), from = d->rx.rx;

	if (!ready)
		return;
	CHECK(d->rx.state == SR_RX_LINK && !d->stranger);
	n = n < ready ? n : ready;
	d->rx.rx += n;
	deliver(d, d->ring + from, n);
	settle(d);
}

/* Credit may lag, and says so also while raw bytes are missing. */
static void act_ack(struct direction *d)
{
	unsigned no = d->rx.link_no;

	if (!d->rx.next_link || !in_use(d, no) || d->acked == d->rx.rx)
		return;
	if (d->rx.rx < d->rx.n && !one_in(8))
		return;
	d->acked = d->rx.rx;
	push(link_at(no), &link_at(no)->bwd[d->id],
	     (struct item){.kind = ACK, .n = d->rx.rx});
}

/* ---- what goes wrong ---- */

/* An end takes notice of a link's death: what it has not read is lost. */
static void act_notice(struct direction *d)
{
	unsigned no = 1 + below(sim.links);

	if (link_at(no)->dead && one_in(4))
		link_at(no)->gone[receiver(d)] = true;
}

static void act_fault(struct direction *d)
{
	(void)d;
	if (sim.faults && one_in(40))
		link_at(1 + below(sim.links))->dead = true;
}

static void act_kill(struct direction *d)
{
	unsigned end = sender(d);

	if (!sim.kill || !one_in(100))
		return;
	sim.kill = false;
	sim.killed[end] = true;
	for (unsigned no = 1; no <= sim.links; no++)
		link_at(no)->dead = true;
	if (d->fin)
		return;
	sim.raw_when_killed[end] =
		d->tx.state == SR_TX_RAW || d->tx.state == SR_TX_WAIT;
	d->rst = one_in(2);
	d->fin = !d->rst;
	/* A reset may overtake what was on its way. */
	if (d->rst && one_in(2))
		d->tail -= below((unsigned)(d->tail - d->head) + 1);
}

/* Somebody who has no part in the stream found a way to the link's end. */
static void act_stranger(struct direction *d)
{
	struct sr_switch sw = {
		.n = d->rx.rx + below(20) - below(3),
		.marks = one_in(2) ? d->rx.seen : below(3),
		.link_no = one_in(2) ? UINT32_MAX : below(MAX_LINKS + 2),
	};
	uint8_t token[SR_TOKEN_LEN] = "stranger";
	uint8_t out[SR_RECORD_LEN];
	size_t n;

	if (!sim.strangers || d->id != 0 || !one_in(30))
		return;
	if (sr_rx_switch(&d->rx, &sw, token, false, out, &n) == SR_DO_ACKSW) {
		d->stranger = true;
		d->h = sw.n;
	}
	CHECK_EQ(n, 0);
	if (!d->stranger || d->rx.state != SR_RX_EXPECT)
		return;
	d->h += below(3);
	sr_rx_end(&d->rx, d->h, d->h);
}

/* ---- a case ---- */

static const struct {
	void (*act)(struct direction *d);
	bool sends;
} actions[] = {
	{act_write, true},  {act_write, true},	   {act_end, true},
	{act_want, true},   {act_mark, true},	   {act_leave, true},
	{act_resend, true}, {act_answer, true},	   {act_kill, true},
	{act_sleep, false}, {act_wake, false},	   {act_classify, false},
	{act_over, false},  {act_message, false},  {act_message, false},
	{act_ring, false},  {act_ack, false},	   {act_notice, false},
	{act_fault, false}, {act_stranger, false},
};

/* Bytes that like to look like the beginning of a mark, which needs the token
 * to be guessed: never the whole. */
static void make_data(struct direction *d)
{
	uint8_t mark[SR_RECORD_LEN], token[SR_TOKEN_LEN];
	unsigned at = 0;

	while (at < MAX_BYTES) {
		unsigned no = 1 + below(sim.links);
		unsigned n = one_in(3) ? below(SR_RECORD_LEN) : below(3);

		token_of(token, no, d->id);
		sr_mark_make(mark, no, token);
		n = n < MAX_BYTES - at ? n : MAX_BYTES - at;
		memcpy(d->data + at, mark, n);
		at += n;
		if (at < MAX_BYTES && one_in(2))
			d->data[at++] = (uint8_t)below(256);
	}
	d->total = below(one_in(2) ? 8 : MAX_BYTES + 1);
}

static void make_case(uint64_t seed)
{
	bool history, kinds;

	memset(&sim, 0, sizeof(sim));
	sim.random = seed;
	sim.directions = 1 + below(2);
	sim.links = 1 + below(MAX_LINKS);
	sim.credit = one_in(3) ? 1 : 1 + below(64);
	sim.room = SR_RECORD_LEN + below(one_in(2) ? 4 : 400);
	sim.piece = 1 + below(one_in(2) ? 4 : 64);
	sim.faults = one_in(2);
	sim.back = one_in(2);
	sim.kill = one_in(3);
	sim.strangers = one_in(3);
	sim.big_reads = one_in(2);
	sim.slow_reads = one_in(6);
	sim.open = one_in(4);
	history = one_in(2);
	kinds = one_in(3);
	for (unsigned i = 0; i < sim.links; i++) {
		history = history || (kinds && one_in(2));
		sim.link[i].proven = history;
	}
	for (unsigned i = 0; i < 2; i++) {
		sim.d[i].id = i;
		sr_tx_init(&sim.d[i].tx);
		sr_rx_init(&sim.d[i].rx);
		make_data(&sim.d[i]);
	}
}

static bool finished(const struct direction *d)
{
	if (sim.killed[receiver(d)])
		return true;
	if (d->rx.state == SR_RX_RESET)
		return true;
	/* A lone byte like the mark's first may be held back (hole 10). */
	if (sim.open && d->tx.w == d->total && d->head == d->tail &&
	    !d->got_len && (!d->rx.part || d->tx.state == SR_TX_RAW) &&
	    d->delivered + d->rx.part == d->total)
		return true;
	return d->rx.state == SR_RX_EOF && d->over_read &&
	       (sim.killed[sender(d)] || d->tx.state == SR_TX_DONE);
}

static void take_step(void)
{
	struct direction *d = &sim.d[below(sim.directions)];
	size_t i = below(sizeof(actions) / sizeof(actions[0]));
	unsigned end = actions[i].sends ? sender(d) : receiver(d);

	if (!sim.killed[end])
		actions[i].act(d);
}

static void run_case(uint64_t seed)
{
	make_case(seed);
	while (!finished(&sim.d[0]) ||
	       (sim.directions == 2 && !finished(&sim.d[1]))) {
		CHECK(sim.step++ < MAX_STEPS);
		take_step();
	}
}

#ifndef SIM_NO_MAIN
int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t cases = argc > 2 ? strtoull(argv[2], NULL, 0) : 100000;

	for (uint64_t i = 0; i < cases; i++) {
		check_about("seed", seed + i);
		run_case(seed + i);
	}
	printf("%" PRIu64 " cases: %" PRIu64 " marks, %" PRIu64 " resumes, "
	       "%" PRIu64 " with duplicates, %" PRIu64 " mismatches, "
	       "%" PRIu64 " mark to RESUME in one read, %" PRIu64
	       " put off, %" PRIu64 " displaced, %" PRIu64
	       " ends by link, %" PRIu64 " resets\n",
	       cases, seen.links, seen.resumes, seen.duplicates,
	       seen.mismatches, seen.mixed, seen.later, seen.displaced,
	       seen.link_ends, seen.resets);
	if (cases < 10000)
		return 0;
	CHECK(seen.links && seen.resumes && seen.duplicates);
	CHECK(seen.mismatches && seen.mixed && seen.later);
	CHECK(seen.displaced && seen.link_ends && seen.resets);
	return 0;
}
#endif
