/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * engine.c - a stream of the engine, over TCP and a link in memory, against a peer that
 * the input moves.  The peer is made of the machines of src/pure, and at first keeps the
 * protocol, with every call, message, byte and fault in any order: then each program gets
 * what the other one has sent, in order and once, and the end only at the end.  From some
 * moment on it may lie instead, on TCP and on the link: then calls return, and the next
 * input's stream is as good as new.
 */
#include "engine_peer.h"
#include "loop_hold.h"

#define STEPS 300

/* ---- the stream's program ---- */

static void program_sends(size_t n)
{
	uint8_t buf[CHUNK];
	ssize_t r;

	for (size_t i = 0; i < n; i++)
		buf[i] = byte_out(w.sent + i);
	r = w.ended ? 0 : fake_write(&w.e, buf, n);
	CHECK(r <= (ssize_t)n && (w.lies || r >= 0 || r == -EAGAIN));
	w.sent += r > 0 ? (uint64_t)r : 0;
}

static void program_receives(size_t n)
{
	uint8_t buf[CHUNK];
	ssize_t r = fake_recv(&w.e, buf, n);

	CHECK(r <= (ssize_t)n);
	if (w.lies)
		return;
	CHECK(r >= 0 || r == -EAGAIN);
	for (ssize_t i = 0; i < r; i++)
		CHECK(buf[i] == byte_in(w.in + (uint64_t)i));
	w.in += r > 0 ? (uint64_t)r : 0;
	CHECK(w.in <= w.tx.w);
	w.eof |= n && !r;
	CHECK(!w.eof || (w.tx.ended && w.in == w.tx.w));
}

static void program_ends(void)
{
	w.ended = true;
	sr_stream_shutdown(w.e.st, w.e.fd, SHUT_WR);
}

/* ---- the stream's service thread ---- */

static void stream_wants(void)
{
	struct sr_stream *st = w.e.st;

	sr_lock(&st->tx_lock);
	if (!st->out.next && st->tx.state == SR_TX_RAW && !dead() && !w.ended &&
	    !(atomic_load(&w.e.f->link.said) & 1u << SR_MSG_SWITCH)) {
		memcpy(w.e.f->link.peer_hello.token, peers_token, SR_TOKEN_LEN);
		st->out.next = sr_link_get(&w.e.f->link);
	}
	if (st->out.next)
		sr_tx_try_start(st);
	sr_unlock(&st->tx_lock);
}

static void stream_goes_on(void)
{
	struct sr_stream *st = w.e.st;

	fake_progress(&w.e);
	if (w.took || !(sr_link_events(&w.e.f->link) & SR_LINK_SWITCH))
		return;
	sr_lock(&st->rx_lock);
	w.took = sr_rx_take_switch(st, &w.e.f->link, true);
	sr_unlock(&st->rx_lock);
}

/* Another link, once the last one is dead. */
static void new_link(void)
{
	struct sr_link *last = &w.e.f->link;
	uint32_t no = last->link_no + 1;
	struct sr_link *link;

	if (!dead())
		return;
	peer_goes_on();
	link = sr_link_new(&fake_ops, sizeof(struct fake), SR_ROLE_ASKER, no, w.e.st,
			   sr_stream_on_link);
	CHECK(link);
	w.e.f = fake_of(link);
	pthread_mutex_init(&w.e.f->lock, NULL);
	w.e.f->doorbell = -1;
	w.heard = 0;
	w.took = false;
	sr_link_put(last);
}

/* ---- the peer, lying ---- */

static void lie_by_message(void)
{
	struct sr_msg msg = {.type = 1 + (enum sr_msg_type)fuzz_below(&w.f, SR_MSG_SHARE)};
	struct fake *f = w.e.f;

	if (msg.type == SR_MSG_SWITCH)
		msg.sw = (struct sr_switch){
			.n = fuzz_number(&w.f, w.e.st->rx.rx) & INT64_MAX,
			.marks = (uint32_t)fuzz_number(&w.f, w.e.st->rx.seen),
			.link_no = (uint32_t)fuzz_number(&w.f, f->link.link_no),
		};
	if (msg.type == SR_MSG_END)
		msg.end = fuzz_number(&w.f, f->arrived);
	if (dead())
		return;
	sr_link_raise(&f->link, SR_LINK_UP | SR_LINK_HELLO);
	fake_poll(&f->link);
	if (sr_link_take(&f->link, &msg)) {
		drop("protocol");
		return;
	}
	if (msg.type == SR_MSG_SWITCH)
		f->arrived = msg.sw.n;
	f->link.notify(&f->link, SR_NOTIFY_CTL);
}

static void lie_by_tcp(void)
{
	uint8_t buf[CHUNK];
	size_t n = fuzz_below(&w.f, CHUNK);

	switch (fuzz_below(&w.f, 4)) {
	case 0:
		n = fuzz_copy(&w.f, buf, n);
		break;
	case 1:
		sr_mark_make(buf, w.e.f->link.link_no, w.e.st->up.token);
		n = SR_RECORD_LEN;
		break;
	case 2:
		sr_resume_make(buf, fuzz_number(&w.f, w.e.st->rx.rx),
			       fuzz_number(&w.f, w.e.st->rx.rx));
		n = SR_RECORD_LEN;
		break;
	default:
		memcpy(buf, w.e.st->rx.mark, SR_RECORD_LEN);
		n = fuzz_below(&w.f, SR_RECORD_LEN);
	}
	if (n)
		send(w.e.peer, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Numbers that a kind of link lets pass. */
static void lie_by_credit(void)
{
	struct fake *f = w.e.f;
	uint64_t to;

	if (dead())
		return;
	to = f->arrived + fuzz_bytes(&w.f, 2);
	if ((sr_link_events(&f->link) & SR_LINK_SWITCH) && f->arrived <= to &&
	    to - f->link.rx_taken <= FAKE_RING)
		f->arrived = to;
	to = f->taken + fuzz_bytes(&w.f, 2);
	if ((sr_link_events(&f->link) & SR_LINK_ACKSW) && to <= f->link.tx_w) {
		f->limit += to - f->taken;
		f->taken = to;
	}
	fake_wake(f, SR_NOTIFY_RX | SR_NOTIFY_TX);
}

static void lie(void)
{
	w.lies = true;
	switch (fuzz_below(&w.f, 4)) {
	case 0:
		lie_by_message();
		break;
	case 1:
		lie_by_tcp();
		break;
	case 2:
		lie_by_credit();
		break;
	default:
		shutdown(w.e.peer, SHUT_WR);
	}
}

/* ---- a case ---- */

static void step(void)
{
	unsigned what = fuzz_below(&w.f, 20), n = 1 + fuzz_below(&w.f, CHUNK);

	switch (what) {
	case 0: case 1: program_sends(n); break;
	case 2: case 3: program_receives(n); break;
	case 4: case 5: w.lies ? lie() : peer_sends(n); break;
	case 6: case 7: w.lies ? lie() : peer_reads(n); break;
	case 8: peer_takes(n); break;
	case 9: case 10: peer_hears(); break;
	case 11: peer_goes_on(); break;
	case 12: peer_wants(); break;
	case 13: stream_wants(); break;
	case 14: case 15: stream_goes_on(); break;
	case 16: drop("device-failed"); break;
	case 17: new_link(); break;
	case 18:
		if (n == 1)
			program_ends();
		else if (n == 2)
			peer_does(sr_tx_end(&w.tx));
		break;
	default:
		if (n == 3 || w.lies)
			lie();
	}
}

/* Both go on until all has arrived that was sent, and then the ends. */
static void finish(void)
{
	bool done = false;

	for (int i = 0; i < LOOKS && !done; i++) {
		if (i == 20 && !w.ended)
			program_ends();
		if (i == 20 && !w.tx.ended)
			peer_does(sr_tx_end(&w.tx));
		stream_goes_on();
		program_receives(CHUNK);
		peer_hears();
		peer_goes_on();
		peer_takes(CHUNK);
		peer_reads(CHUNK);
		done = w.eof && w.rx.state == SR_RX_EOF;
		if (i > LOOKS / 2)
			usleep(1000);
	}
	CHECK_EQ(w.out, w.sent);
	CHECK_EQ(w.in, w.tx.w);
	CHECK(done);
}

void fuzz_engine(const uint8_t *data, size_t size)
{
	memset(&w, 0, sizeof(w));
	w.f = (struct fuzz){data, size};
	loop_hold();
	w.e = fake_begin(false);
	sr_tx_init(&w.tx);
	sr_rx_init(&w.rx);
	for (int i = 0; i < STEPS && w.f.left; i++)
		step();
	if (!w.lies)
		finish();
	drop("peer-dropped");
	fake_over(&w.e);
}
