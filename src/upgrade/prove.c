/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * prove.c - owns the proof that a link's peer has the other end of the stream: both
 * know what the stream has carried, and agree on a key with that as the password
 * (pure/pake.h).  Must not know how a link is made, or what follows.  Only the service
 * thread runs it; it takes rx_lock or tx_lock, never both.
 *
 *   asker                         answerer
 *   HELLO (token, counts)    ->
 *                            <-   HELLO (token, counts), SHARE
 *   SHARE, PROOF             ->   checks the asker's tag
 *   checks the answerer's    <-   PROOF
 *
 * (On a link that greets the answerer's HELLO comes first, and its SHARE behind the asker's HELLO.)
 * A share says nothing of the history.  A tag tells the end that receives it whether the
 * history that it has put into its own share is right: that is one guess.  The asker can be
 * anybody, so it shows its tag first, and both ends count what may have been a guess.
 */
#include "base/real.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"

#define PROOF_BYTES 16		/* shared history that proves something */
#define GUESSES 3		/* that a stream allows */
#define STOCK_MS 250 /* without reading, while our hello waits for the program's reads */
/* Unread bytes that are looked at instead: more than TCP's buffer has by default (tcp_rmem). */
#define AHEAD_MAX ((size_t)8 << 20)

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void sr_prove_know(struct sr_stream *st)
{
	uint64_t acked;

	sr_lock(&st->tx_lock);
	acked = sr_anchor_acked(st);
	sr_unlock(&st->tx_lock);
	st->up.proving.known_tx = smaller_of(acked, sr_history_seen(&st->rare->out));
	st->up.proving.known_rx = sr_history_seen(&st->rare->in);
}

static bool is_needed(struct sr_stream *st, enum sr_proof proof)
{
	return proof == SR_PROOF_ALWAYS ||
	       (proof == SR_PROOF_POLICY && st->policy->upgrade == SR_LAZY);
}

bool sr_prove_can(struct sr_stream *st, enum sr_proof proof)
{
	return !is_needed(st, proof) || sr_sodium();
}

bool sr_prove_may(struct sr_stream *st, enum sr_proof proof)
{
	uint64_t carried;

	if (!is_needed(st, proof))
		return true;
	sr_lock(&st->tx_lock);
	carried = sr_anchor_acked(st);
	sr_unlock(&st->tx_lock);
	sr_lock(&st->rx_lock);
	carried += sr_anchor_received(st);
	sr_unlock(&st->rx_lock);
	return carried >= PROOF_BYTES;
}

void sr_prove_begin(struct sr_stream *st)
{
	struct sr_proving *p = &st->up.proving;

	*p = (struct sr_proving){ .known_tx = p->known_tx, .known_rx = p->known_rx };
	p->able = sr_stream_att(st)->proof != SR_PROOF_NONE && sr_sodium();
}

/* What TCP has carried by now: the peer may require all of that. */
static void order_stock(struct sr_stream *st)
{
	struct sr_proving *p = &st->up.proving;

	p->stock_ns = sr_now_ns();
	sr_lock(&st->tx_lock);
	if (!(sr_st_flags(st) & SR_ST_TX_HISTORY))
		p->stock_tx = sr_anchor_acked(st);
	sr_unlock(&st->tx_lock);
	sr_lock(&st->rx_lock);
	if (!(sr_st_flags(st) & SR_ST_RX_HISTORY) && !sr_anchor_ended(st))
		p->stock_rx = sr_anchor_received(st);
	sr_unlock(&st->rx_lock);
}

static bool peek_whole(struct sr_stream *st, uint8_t *buf, size_t n)
{
	bool all;

	sr_lock(&st->rx_lock);
	all = sr_load(&st->anchor) >= 0 && sr_anchor_read(st, buf, n, MSG_PEEK) == (ssize_t)n;
	sr_unlock(&st->rx_lock);
	return all;
}

/* The program may leave bytes unread for long, such as a server's greeting or iperf's
 * reply, but the peer requires all that TCP has acknowledged.  So they are looked at where
 * they are.  A call that reads meanwhile shows in the gate, or has changed the count. */
static void look_ahead(struct sr_stream *st)
{
	struct sr_proving *p = &st->up.proving;
	struct sr_history *ahead = &st->rare->ahead;
	uint64_t at = sr_load(&st->in.tcp);
	size_t n = p->stock_rx - p->hello_rx;
	uint8_t *buf;

	/* Both acquires pair with sr_rx_gate_leave(): in.tcp counts what the calls have read. */
	if (n > AHEAD_MAX || sr_observe(&st->in.gate) ||
	    (sr_st_flags(st) & SR_ST_RX_HISTORY))
		return;
	buf = malloc(n);
	if (buf && peek_whole(st, buf, n)) {
		sr_stream_history_lock(st);
		sr_history_copy(ahead, &st->rare->in);
		sr_stream_history_unlock(st);
		p->ahead = !sr_observe(&st->in.gate) && sr_load(&st->in.tcp) == at &&
			   sr_history_seen(ahead) == p->hello_rx;
	}
	if (p->ahead) {
		sr_history_add(ahead, buf, n);
		p->hello_rx = sr_history_seen(ahead);
	}
	free(buf);
}

static const struct sr_history *history_in(struct sr_stream *st)
{
	return st->up.proving.ahead ? &st->rare->ahead : &st->rare->in;
}

/* A program that goes on reading comes to the end of the stock, so the time begins anew. */
static void note_moved(struct sr_proving *p)
{
	uint64_t moved = p->hello_rx + p->hello_tx;

	if (moved != p->stock_moved)
		p->stock_ns = sr_now_ns();
	p->stock_moved = moved;
}

bool sr_prove_stock(struct sr_stream *st)
{
	struct sr_proving *p = &st->up.proving;

	if (sr_stream_att(st)->proof == SR_PROOF_NONE)
		return true;
	if (!p->stock_ns)
		order_stock(st);
	p->hello_tx = sr_history_seen(&st->rare->out);
	p->hello_rx = sr_history_seen(&st->rare->in);
	p->ahead = false;
	note_moved(p);
	if (p->hello_rx < p->stock_rx)
		look_ahead(st);
	return (p->hello_rx >= p->stock_rx && p->hello_tx >= p->stock_tx) ||
	       sr_now_ns() - p->stock_ns > STOCK_MS * 1000000ull;
}

/* How many bytes of each direction both ends can show.  Our hello does not
 * change once it is sent, because the peer computes with it. */
struct cover {
	uint64_t tx, rx;
};

static struct cover prove_covered(struct sr_stream *st)
{
	struct sr_hello *peer = &sr_stream_att(st)->peer_hello;

	return (struct cover){ smaller_of(peer->rx_have, st->up.proving.hello_tx),
			       smaller_of(peer->tx_have, st->up.proving.hello_rx) };
}

/* Would a proof say anything? */
static bool is_something(struct cover n)
{
	return n.tx + n.rx >= PROOF_BYTES;
}

/* Can the peer show what it must have, and something at all?  If not, a proof would
 * cost less to guess than it should.  (Its program may have yet to read.) */
static enum sr_reason shows_too_little(struct sr_stream *st)
{
	struct sr_proving *p = &st->up.proving;
	struct cover n = prove_covered(st);

	if (n.tx < p->known_tx || n.rx < p->known_rx) {
		sr_debug("%llu and %llu bytes can be proven, the peer knows %llu and %llu",
			 (unsigned long long)n.tx, (unsigned long long)n.rx,
			 (unsigned long long)p->known_tx, (unsigned long long)p->known_rx);
		return SR_REASON_UNREAD;
	}
	return is_something(n) || !is_needed(st, sr_stream_att(st)->proof) ? SR_REASON_NONE :
									     SR_REASON_HISTORY;
}

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

/* What goes into the key besides the password. */
struct terms {
	uint8_t password[SR_SHA512_LEN], channel[SR_ID_MAX + SR_NAME_LEN],
		session[2 * SR_TOKEN_LEN];
	struct sr_pake_terms of;
};
_Static_assert(SR_ID_MAX + SR_NAME_LEN < 128, "pake.h");

static void make_terms(struct sr_stream *st, struct terms *t)
{
	struct sr_link *l = sr_stream_att(st);
	bool asker = l->role == SR_ROLE_ASKER;
	const struct sr_history *out = &st->rare->out, *in = history_in(st);
	struct cover n = prove_covered(st);
	struct sr_name name = st->rare->name;
	uint8_t *at = t->channel;

	sr_stream_history_lock(st);
	sr_history_password(sr_sodium(), t->password, asker ? out : in,
			    asker ? n.tx : n.rx, asker ? in : out, asker ? n.rx : n.tx);
	sr_stream_history_unlock(st);
	name.link_no = l->link_no;
	sr_name_encode(&name, at);
	at += SR_NAME_LEN;
	at += l->ops->identity(l, at);
	put_bytes(put_bytes(t->session, asker ? st->up.token : l->peer_hello.token, SR_TOKEN_LEN),
	    asker ? l->peer_hello.token : st->up.token, SR_TOKEN_LEN);
	t->of = (struct sr_pake_terms){
		.password = { t->password, sizeof(t->password) },
		.channel = { t->channel, (size_t)(at - t->channel) },
		.session = { t->session, sizeof(t->session) },
	};
}

static void send_share(struct sr_stream *st)
{
	struct sr_proving *p = &st->up.proving;
	struct sr_msg msg = { .type = SR_MSG_SHARE };
	struct terms t;

	make_terms(st, &t);
	sr_pake_begin(sr_sodium(), &p->pake, &t.of);
	memcpy(msg.share, p->pake.share, SR_SHARE_LEN);
	sr_stream_att(st)->ops->ctl(sr_stream_att(st), &msg);
}

/* The peer's share has come: makes the key, and of it both tags. */
static bool make_tags(struct sr_stream *st)
{
	struct sr_proving *p = &st->up.proving;
	struct sr_link *l = sr_stream_att(st);
	int us = l->role == SR_ROLE_ANSWERER;
	uint64_t counts[2][2];
	uint8_t key[SR_SHA512_LEN];
	struct sr_pake_end end[2];
	struct terms t;
	int err;

	counts[us][0] = htobe64(p->hello_tx);
	counts[us][1] = htobe64(p->hello_rx);
	counts[!us][0] = htobe64(l->peer_hello.tx_have);
	counts[!us][1] = htobe64(l->peer_hello.rx_have);
	for (int i = 0; i < 2; i++)
		end[i] = (struct sr_pake_end){
			.share = { i == us ? p->pake.share : l->peer_share, SR_SHARE_LEN },
			.data = { counts[i], sizeof(counts[i]) } };
	make_terms(st, &t);
	err = sr_pake_key(sr_sodium(), &p->pake, t.of.session, end, us, key);
	explicit_bzero(p->pake.scalar, sizeof(p->pake.scalar));
	for (int i = 0; i < 2 && !err; i++)
		sr_pake_tag(sr_sodium(), key, i, p->tag[i]);
	explicit_bzero(key, sizeof(key));
	p->keyed = !err;
	return !err;
}

static void send_tag(struct sr_stream *st)
{
	struct sr_msg msg = { .type = SR_MSG_PROOF };

	memcpy(msg.tag, st->up.proving.tag[sr_stream_att(st)->role == SR_ROLE_ANSWERER], SR_TAG_LEN);
	sr_stream_att(st)->ops->ctl(sr_stream_att(st), &msg);
}

/* The peer may have guessed, and may guess again: after GUESSES times the stream is barred. */
static void note_guess(struct sr_stream *st)
{
	unsigned n = sr_count(&st->up.guesses, 1) + 1;

	sr_inform("%s: the peer did not prove the stream's history (%u)",
		  sr_stream_label(st, (char[128]){ 0 }), n);
	sr_stat_note(st);
	if (n < GUESSES)
		return;
	sr_warn("%s: %d peers did not prove the stream's history: it stays on TCP",
		sr_stream_label(st, (char[128]){ 0 }), GUESSES);
	sr_stream_bar(st, SR_REASON_HISTORY);
}

/* The link has ended.  If this end is the asker, has shown its tag, and has not seen a proof of the
 * peer's, the peer may have used the tag to check a guess: it counts as one. */
void sr_prove_ended(struct sr_stream *st)
{
	struct sr_link *l = sr_stream_att(st);

	if (l->role == SR_ROLE_ASKER && sr_link_has_said(l, SR_MSG_PROOF) && !st->up.checked)
		note_guess(st);
}

/* Without libsodium at both ends nothing is shown; eager and wait trust the hosts. */
static bool trust_or_give_up(struct sr_stream *st)
{
	if (!is_needed(st, sr_stream_att(st)->proof))
		return true;
	sr_attach_give_up(st, SR_REASON_NO_LIBSODIUM);
	return false;
}

bool sr_prove_progress(struct sr_stream *st, unsigned ev)
{
	struct sr_proving *p = &st->up.proving;
	struct sr_link *l = sr_stream_att(st);
	bool asker = l->role == SR_ROLE_ASKER;
	enum sr_reason lacks;

	if (!p->able || !l->peer_hello.proves)
		return trust_or_give_up(st);
	if (!sr_link_has_said(l, SR_MSG_SHARE)) {
		lacks = shows_too_little(st);
		if (lacks != SR_REASON_NONE) {
			sr_attach_give_up(st, lacks);
			return false;
		}
		if (!prove_covered(st).tx && !prove_covered(st).rx)
			return true;	/* anybody knows an empty password */
		send_share(st);
	}
	if (!(ev & SR_LINK_SHARE))
		return false;
	if (!p->keyed && !make_tags(st)) {
		sr_attach_give_up(st, SR_REASON_PROTOCOL);
		return false;
	}
	if (asker && !sr_link_has_said(l, SR_MSG_PROOF))
		send_tag(st);
	if (!(ev & SR_LINK_PROOF))
		return false;
	if (sr_sodium()->compare(l->peer_tag, p->tag[asker], SR_TAG_LEN)) {
		sr_debug("the proof of %llu and %llu bytes is wrong",
			 (unsigned long long)prove_covered(st).tx,
			 (unsigned long long)prove_covered(st).rx);
		sr_attach_give_up(st, SR_REASON_HISTORY);
		if (!asker)
			note_guess(st);	/* else sr_prove_ended() does that */
		return false;
	}
	if (!asker)
		send_tag(st);
	st->up.proven = is_something(prove_covered(st));
	return true;
}
