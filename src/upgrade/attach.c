/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * attach.c - owns the handshake on a new link: hellos, then the directions'
 * switches.  Must not know how a link moves bytes.  Only the service thread runs it;
 * it takes rx_lock or tx_lock, never both.
 *
 *   asker                         answerer
 *   HELLO                    ->
 *                            <-   HELLO
 *   ...                           proof (prove.c), unless the kernel has vouched
 *   SWITCH                   ->
 *                            <-   ACKSW
 *   mark on TCP              ->   rx is on the link: owner proven
 *                            <-   SWITCH
 *   ACKSW                    ->
 *                            <-   mark on TCP
 *
 * (On a link that greets the answerer's HELLO comes first.)
 *
 * No end writes a mark before the other has proven that it knows the history, or the
 * kernel has said that the link's ends are the stream's (vouched), and the
 * answerer sends no SWITCH before it has seen the asker's mark (sockrail-protocol(7),
 * promise 3).
 */
#include "base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/probe.h"
#include "engine/asker.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"

/* Limit of a handshake; in policy wait at least upgrade_wait_ms. */
#define ATTACH_MS 5000
#define HELD_NS 60000000000ull /* a link that lasts so long has been worth asking for */
#define FOLLOW_MS 250 /* time for the peer's direction, in policy wait */
#define STILL_MS 50 /* time without a read before a mark; 4 times that behind SR_TX_MUCH */

bool sr_attach_busy(struct sr_stream *st)
{
	return sr_stream_att(st) && (!st->up.started ||
			   (!st->up.took &&
			    (sr_stream_att(st)->role == SR_ROLE_ANSWERER ||
			     (sr_link_events(sr_stream_att(st)) & SR_LINK_SWITCH))) ||
			   (sr_load(&st->up.state) == SR_ASK_SHAKING &&
			    sr_stream_att(st)->role == SR_ROLE_ASKER));
}

void sr_attach_begin(struct sr_stream *st, struct sr_link *link)
{
	sr_inform("%s: link %s %s", sr_stream_label(st, (char[128]){ 0 }), link->name,
		  link->role == SR_ROLE_ASKER ? "up" : "accepted");
	/* pair option: go_plain() of sock/option.c; sr_promise_bars() looks before our hello.
	 * pair barred: is_involved() of back.c; sr_attach_progress() looks. */
	sr_change(&st->up.att, link);
	sr_ask_move(st, SR_ASK_SHAKING);
	st->link_no = link->link_no;
	sr_store(&st->up.asked_ns, SR_ANSWERED);
	st->up.checked = st->up.proven = st->up.started = st->up.took = false;
	st->up.since = sr_now_ns();
	st->out.started = 0;
	st->up.due_seen_ns = 0;
	sr_prove_begin(st);
	if (sr_sys_getrandom(st->up.token, sizeof(st->up.token), 0) !=
	    (ssize_t)sizeof(st->up.token))
		link->ops->drop(link, "protocol");
	sr_stream_kick(st);
}

void sr_attach_give_up(struct sr_stream *st, enum sr_reason reason)
{
	struct sr_link *link = sr_stream_att(st);

	sr_ask_ended(st, reason);	/* first: the peer may end the stream once it hears */
	link->ops->drop(link, sr_reason_word(reason));
}

static void send_hello(struct sr_stream *st)
{
	struct sr_link *l = sr_stream_att(st);
	struct sr_msg msg = { .type = SR_MSG_HELLO };

	msg.hello.version = SR_WIRE_VERSION;
	msg.hello.role = (uint8_t)l->role;
	msg.hello.link_no = l->link_no;
	msg.hello.tx_have = st->up.proving.hello_tx;
	msg.hello.rx_have = st->up.proving.hello_rx;
	msg.hello.proves = st->up.proving.able;
	memcpy(msg.hello.token, st->up.token, SR_TOKEN_LEN);
	if (l->ops->hello)
		l->ops->hello(l, &msg.hello);
	l->ops->ctl(l, &msg);
}

static void note_proven(struct sr_stream *st)
{
	struct sr_link *link = sr_stream_att(st);

	if (link->ops->proven)
		link->ops->proven(link);
}

/* True, once: the peer has said hello, and proven that the stream is its own. */
static bool check_hello(struct sr_stream *st, unsigned ev)
{
	if (!(ev & SR_LINK_HELLO) || !sr_link_has_said(sr_stream_att(st), SR_MSG_HELLO) ||
	    st->up.checked)
		return false;
	if (sr_stream_att(st)->proof == SR_PROOF_NONE)
		st->up.proven = true;
	else if (!sr_prove_progress(st, ev))
		return false;
	sr_debug("%s: handshake done, the peer %s", sr_stream_label(st, (char[128]){ 0 }),
		 st->up.proven ? "has proven the stream's history" :
				 "is trusted without proof");
	st->up.checked = true;
	if (st->up.proven)
		note_proven(st);
	return true;
}

/* Stores the link that our direction is to switch to. */
static void arm_tx(struct sr_stream *st)
{
	sr_lock(&st->tx_lock);
	if (!sr_load(&st->out.next) && st->tx.state == SR_TX_RAW &&
	    !(sr_st_flags(st) & (SR_ST_HALF | SR_ST_BARRED | SR_ST_CLOSING)))
		sr_store(&st->out.next, sr_link_get(sr_stream_att(st)));
	sr_unlock(&st->tx_lock);
}

static void try_first_switch(struct sr_stream *st)
{
	st->up.started = true;
	sr_lock(&st->tx_lock);
	sr_tx_try_start(st);
	sr_unlock(&st->tx_lock);
}

/* Hellos and proofs; the asker's direction is the first to switch. */
static void shake_hands(struct sr_stream *st, unsigned ev)
{
	bool asker = sr_stream_att(st)->role == SR_ROLE_ASKER;

	/* An option may have been set since the link was asked for.  (A thread that sets one
	 * now sees up.att.) */
	if (!sr_link_has_said(sr_stream_att(st), SR_MSG_HELLO) && sr_promise_bars(st)) {
		sr_stream_att(st)->ops->drop(sr_stream_att(st), "option");
		return;
	}
	if (!sr_link_has_said(sr_stream_att(st), SR_MSG_HELLO) &&
	    (asker || sr_stream_att(st)->greets || (ev & SR_LINK_HELLO)) && sr_prove_stock(st))
		send_hello(st);
	if (check_hello(st, ev) && asker) {
		arm_tx(st);
		try_first_switch(st);
	}
}

/* The peer has sent SWITCH, and waits until our program has read the bytes that come before the
 * switch.  Notes what the program has read by now.  Returns true if the program goes on reading, so
 * that this end waits on.  (The peer has a limit of its own: wait_ns() in engine/tx.c.) */
static bool note_reading(struct sr_stream *st)
{
	uint64_t now = sr_now_ns(), rx = sr_load(&st->in.tcp), ms = STILL_MS;

	if (!st->up.due_seen_ns || rx != st->up.due_seen) {
		st->up.due_seen = rx;
		st->up.due_seen_ns = now;
	}
	if (sr_stream_att(st)->peer_switch.n >= SR_TX_MUCH)
		ms *= 4;
	return now - st->up.due_seen_ns < ms * 1000000ull;
}

/* Bars the stream if the program has read without the library.  Returns whether it has. */
static bool bar_read_around(struct sr_stream *st)
{
	bool agrees;

	sr_lock(&st->rx_lock);
	agrees = sr_gate_calls(&st->in.gate) || sr_load(&st->anchor) < 0 ||
		 sr_anchor_rx_agrees(st);
	sr_unlock(&st->rx_lock);
	if (agrees)
		return false;
	sr_stream_bar(st, SR_REASON_COUNTERS);
	return true;
}

static void take_switch(struct sr_stream *st)
{
	if (sr_stream_att(st)->role == SR_ROLE_ANSWERER)
		arm_tx(st);		/* before the mark can arrive */
	sr_lock(&st->rx_lock);
	sr_rx_progress(st);
	st->up.took = sr_rx_take_switch(st, sr_stream_att(st), st->up.proven);
	sr_unlock(&st->rx_lock);
	if (st->up.took) {
		sr_store(&st->in.due, 0);
		sr_stream_kick(st);
	} else if (!note_reading(st)) {
		sr_attach_give_up(st, bar_read_around(st) ? SR_REASON_COUNTERS :
					      SR_REASON_UNREAD);
	}
}

/*
 * The asker's mark has come, so our direction may follow.  In policy wait it
 * follows at once, if it has carried nothing.  Otherwise it follows at the program's next send, which
 * rx_moved() in engine/rx.c arranges, as this thread may be behind.  (Bytes sent
 * before may stay unread for long, like iperf's reply, and an attempt then
 * would cost the other direction its link.)
 */
static void follow_switch(struct sr_stream *st)
{
	bool verified;

	sr_lock(&st->rx_lock);
	verified = st->rx.state == SR_RX_LINK && st->in.link == sr_stream_att(st);
	sr_unlock(&st->rx_lock);
	if (!verified)
		return;
	note_proven(st);
	if (st->policy->upgrade == SR_WAIT && !sr_load(&st->out.tcp))
		try_first_switch(st);
	else
		st->up.started = true;
}

/* The stream is at its end, so its link ends as well. */
static bool is_at_end(struct sr_stream *st)
{
	return sr_stream_tx(st) == SR_TX_DONE ||
	       sr_stream_rx(st) == SR_RX_EOF ||
	       (sr_st_flags(st) & SR_ST_CLOSING);
}

static enum sr_reason link_reason(struct sr_link *l)
{
	return sr_reason_find(sr_load(&l->reason));
}

/* Did an end finish with the link, rather than give it up? */
static bool was_closed(struct sr_stream *st, struct sr_link *l)
{
	enum sr_reason why = link_reason(l);

	return !sr_load(&st->out.broken) &&
	       (is_at_end(st) || (sr_link_events(l) & SR_LINK_LEFT)) &&
	       (why == SR_REASON_SHORT || why == SR_REASON_PEER_DROPPED);
}

static void log_end(struct sr_stream *st, struct sr_link *l)
{
	char label[128];

	sr_stream_label(st, label);
	if (was_closed(st, l))
		sr_inform("%s: link %s is closed", label, l->ops->name);
	else
		sr_inform("%s: link %s has ended: %s", label, l->ops->name,
			sr_load(&l->reason));
}

/* Has the peer's process ended, in order or killed, and TCP with it? */
static bool has_peer_ended(struct sr_stream *st, unsigned ev)
{
	bool yes;

	if (!(ev & SR_LINK_LOST))
		return ev & SR_LINK_LEFT;
	sr_lock(&st->rx_lock);
	yes = sr_load(&st->anchor) >= 0 && sr_anchor_ended(st);
	sr_unlock(&st->rx_lock);
	return yes;
}

/* As sr_attach_give_up(), but at the stream's end the link's end is no news. */
static void give_up_unless_over(struct sr_stream *st, enum sr_reason reason)
{
	struct sr_link *link = sr_stream_att(st);

	if (!is_at_end(st) && !has_peer_ended(st, sr_link_events(link)))
		sr_attach_give_up(st, reason);
	else
		link->ops->drop(link, sr_reason_word(reason));
}

/* The device and the CM work, and short messages arrive, but packets of full length do not. */
static void path_failed(struct sr_stream *st)
{
	uint64_t rest_ns = sr_path_died(&st->rare->peer, st->up.since, sr_now_ns());

	if (rest_ns)
		sr_warn("%s: the network does not carry packets as long as the RDMA device's (its "
			"MTU?): for %llu s there are no links with this peer",
			sr_stream_label(st, (char[128]){ 0 }),
			(unsigned long long)(rest_ns / 1000000000));
}

static void link_died(struct sr_stream *st, unsigned ev)
{
	struct sr_link *l = sr_stream_att(st);
	bool late = !(ev & SR_LINK_DEAD);

	if (late)
		give_up_unless_over(st, SR_REASON_TIMEOUT);
	log_end(st, l);
	if (link_reason(l) == SR_REASON_PATH && sr_stream_name(st))
		path_failed(st);
	if (l->ops == &sr_link_verbs && l->role == SR_ROLE_ASKER &&
	    !(ev & SR_LINK_HELLO) && (ev & SR_LINK_DEAD) &&
	    link_reason(l) != SR_REASON_PROTOCOL && !st->up.heard) {
		/* Some other program may answer on that RDMA port. */
		sr_ask_ended(st, SR_REASON_NO_LISTENER);
	} else if (!is_at_end(st) && !has_peer_ended(st, ev) &&
		   !(sr_st_flags(st) & SR_ST_BARRED)) {
		sr_ask_ended(st, link_reason(l));
	}
	if (sr_now_ns() - st->up.since > HELD_NS)
		st->up.breaks = 0;
	sr_prove_ended(st);
	sr_store(&st->up.att, NULL);
	sr_lock(&st->tx_lock);
	if (sr_load(&st->out.next) == l) {
		sr_tx_try_start(st);		/* drops the link */
	}
	sr_unlock(&st->tx_lock);
	sr_ask_move(st, l->role == SR_ROLE_ASKER ? SR_ASK_BROKEN : SR_ASK_PAUSED);
	sr_link_put(l);
	sr_stream_kick(st);
}

/* Our direction is on the link.  Is the peer's not to be waited for?  In policy wait it follows
 * in a moment, if it can: not if its program has ended it, or sleeps in a send on TCP, or waits
 * for ours to read. */
static bool has_settled(struct sr_stream *st)
{
	return !sr_waits(st) || sr_stream_rx(st) == SR_RX_LINK || st->up.due_seen_ns;
}

/* Begins the wait for the peer's direction with the first call.  Returns true when that has taken
 * too long. */
static bool time_settling(struct sr_stream *st)
{
	if (!st->out.started)
		st->out.started = sr_now_ns();
	return sr_now_ns() - st->out.started > FOLLOW_MS * 1000000ull;
}

static bool is_overdue(struct sr_stream *st)
{
	uint64_t ms = ATTACH_MS;

	if (st->policy->upgrade == SR_WAIT && st->policy->upgrade_wait_ms > ms)
		ms = st->policy->upgrade_wait_ms;
	return sr_now_ns() - st->up.since > ms * 1000000ull;
}

/* Drops the link if the stream may no longer have it: that can change while it is being made. */
static void drop_unwanted(struct sr_stream *st, struct sr_link *link)
{
	/* pair barred: sr_stream_make_plain() */
	if (sr_look(&st->flags) & SR_ST_BARRED)
		link->ops->drop(link, "refused");
	else if (sr_is_shared(st) && !sr_any_gate_shut(st))
		give_up_unless_over(st, SR_REASON_FORK);
	if (link->ops == &sr_link_verbs && sr_tclass_changed(st))
		give_up_unless_over(st, SR_REASON_OPTION);
}

static void note_linked(struct sr_stream *st, struct sr_link *link)
{
	sr_ask_ended(st, SR_REASON_NONE);
	st->up.asks = 0;
	if (link->ops == &sr_link_verbs && sr_stream_name(st))
		sr_path_works(&st->rare->peer);
	sr_probe(upgrade, st, link->ops->name, st->up.since);
	sr_ask_move(st, SR_ASK_LINKED);
}

/* Is the link dead, or has no direction used it for too long? */
static bool is_useless(struct sr_stream *st, unsigned ev)
{
	return (ev & SR_LINK_DEAD) || (sr_stream_tx(st) == SR_TX_RAW &&
				       sr_stream_rx(st) != SR_RX_LINK && is_overdue(st));
}

void sr_attach_progress(struct sr_stream *st)
{
	struct sr_link *link = sr_stream_att(st);
	unsigned ev;

	if (!link)
		return;
	drop_unwanted(st, link);
	ev = sr_link_events(link);
	if (!(ev & SR_LINK_DEAD) && (ev & SR_LINK_UP)) {
		shake_hands(st, ev);
		ev = sr_link_events(link);
	}
	if ((ev & SR_LINK_SWITCH) && !st->up.took && st->up.checked &&
	    !(ev & SR_LINK_DEAD))
		take_switch(st);
	if (link->role == SR_ROLE_ANSWERER && !st->up.started &&
	    st->up.took)
		follow_switch(st);
	if (is_useless(st, ev))
		link_died(st, ev);
	else if (sr_load(&st->up.state) == SR_ASK_SHAKING &&
		 sr_stream_tx(st) == SR_TX_LINK && (has_settled(st) || time_settling(st)))
		note_linked(st, link);
}
