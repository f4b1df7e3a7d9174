/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * upgrade.c - the connecting side: when to ask for a link, whom, and what kind.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "stream/wait.h"

/* A stream whose link broke, or whose peer had no listener (yet?) waits so long
 * before it asks again. */
#define AGAIN_NS 1000000000ull
#define ASKS_MAX 8		/* doublings */
/* A peer that had no listener then either is left alone for so long. */
#define PEER_BACKOFF_NS 10000000000ull

/* ---- when: any thread ---- */

static bool connected(struct sr_stream *st)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int err = errno;
	bool ok = true;

	if (sr_st_flags(st) & SR_ST_FRESH) {
		ok = getpeername(st->anchor, (struct sockaddr *)&ss, &len) == 0;
		if (ok)
			sr_st_clear(st, SR_ST_FRESH);
		if (ok && sr_conf.report[0])
			sr_stream_name(st);
		errno = err;
	}
	return ok;
}

static void ask_now(struct sr_stream *st)
{
	if (st->next_ask_ns && sr_now_ns() < st->next_ask_ns)
		return;
	if ((sr_st_flags(st) & (SR_ST_BARRED | SR_ST_HALF)) || !connected(st) ||
	    (sr_st_set(st, SR_ST_ASKED) & SR_ST_ASKED))
		return;
	atomic_store(&st->verdict, VERDICT_PENDING);
	if (sr_loop_start() < 0) {
		sr_upgrade_verdict(st, VERDICT_NO);
		return;
	}
	sr_stream_kick(st);
}

void sr_upgrade_used(struct sr_stream *st)
{
	unsigned f = sr_st_flags(st);

	if (!(f & SR_ST_USED)) {
		sr_st_set(st, SR_ST_USED);
		if (f & SR_ST_ACCEPT)
			sr_answer_look();
	}
	if ((f & SR_ST_FRESH) && !connected(st))
		return;
	if ((f & (SR_ST_CONNECT | SR_ST_ASKED)) == SR_ST_CONNECT &&
	    (sr_conf.upgrade == SR_EAGER || sr_conf.upgrade == SR_WAIT))
		ask_now(st);
}

static void bump(atomic_uint *n)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed)
				 + 1, memory_order_relaxed);
}

void sr_upgrade_count(struct sr_stream *st)
{
	bump(&st->tx_calls);
	if ((sr_st_flags(st) & (SR_ST_CONNECT | SR_ST_ASKED | SR_ST_BARRED)) !=
	    SR_ST_CONNECT)
		return;
	if (atomic_load_explicit(&st->tx_calls, memory_order_relaxed) <
		    sr_conf.upgrade_msgs &&
	    atomic_load_explicit(&st->tx_tcp, memory_order_relaxed) +
			    atomic_load_explicit(&st->rx_tcp,
						 memory_order_relaxed) <
		    sr_conf.upgrade_bytes)
		return;
	ask_now(st);
}

void sr_upgrade_verdict(struct sr_stream *st, int verdict)
{
	if (atomic_exchange(&st->verdict, verdict) != verdict)
		sr_stream_notify(st, SR_NOTIFY_RX | SR_NOTIFY_TX);
}

static bool has_verdict(struct sr_stream *st)
{
	return atomic_load(&st->verdict) != VERDICT_PENDING;
}

/* Policy wait: the connecting side's first call holds until the link is there
 * or refused. */
void sr_upgrade_hold(struct sr_stream *st)
{
	if (sr_conf.upgrade != SR_WAIT ||
	    (sr_st_flags(st) & (SR_ST_CONNECT | SR_ST_WAITED | SR_ST_ASKED)) !=
		    (SR_ST_CONNECT | SR_ST_ASKED))
		return;
	sr_stream_await(st, SR_NOTIFY_RX | SR_NOTIFY_TX, has_verdict,
			sr_now_ns() + sr_conf.upgrade_wait_ms * 1000000ull);
	sr_st_set(st, SR_ST_WAITED);
}

/* ---- whom: loop ---- */

static struct backoff {
	struct sockaddr_storage peer;
	const struct sr_link_ops *ops;
	uint64_t until;
} backoffs[64];

static bool left_alone(struct sr_stream *st, const struct sr_link_ops *ops)
{
	size_t i;

	for (i = 0; i < 64; i++)
		if (backoffs[i].ops == ops &&
		    backoffs[i].until > sr_now_ns() &&
		    sr_addr_same_host(&backoffs[i].peer, &st->peer) &&
		    sr_addr_port((struct sockaddr *)&backoffs[i].peer) ==
			    sr_addr_port((struct sockaddr *)&st->peer))
			return true;
	return false;
}

static void leave_alone(struct sr_stream *st, const struct sr_link_ops *ops,
			uint64_t ns)
{
	struct backoff *b = &backoffs[0];
	size_t i;

	for (i = 1; i < 64; i++)
		if (backoffs[i].until < b->until)
			b = &backoffs[i];
	b->peer = st->peer;
	b->ops = ops;
	b->until = sr_now_ns() + ns;
}

/* The peer is on this host if its address is one of ours; a connection to
 * oneself has the same address at both ends, but not always (127.0.0.1 to
 * 10.0.0.1). */
static bool on_this_host(struct sr_stream *st)
{
	struct sockaddr_storage peer;
	struct ifaddrs *list, *i;
	bool found = false;

	sr_addr_plain(&peer, (struct sockaddr *)&st->peer);
	if (sr_addr_same_host(&st->local, &st->peer) ||
	    (peer.ss_family == AF_INET &&
	     (ntohl(((struct sockaddr_in *)&peer)->sin_addr.s_addr) >> 24) ==
		     127))
		return true;
	if (getifaddrs(&list) < 0)
		return false;
	for (i = list; i && !found; i = i->ifa_next) {
		struct sockaddr_storage a;

		if (!i->ifa_addr)
			continue;
		sr_addr_plain(&a, i->ifa_addr);
		found = sr_addr_same_host(&a, &peer);
	}
	freeifaddrs(list);
	return found;
}

/* The k-th kind to try.  Both allowed: shm on this host, verbs to others. */
static const struct sr_link_ops *kind(struct sr_stream *st, unsigned k)
{
	const char *links = sr_conf.links;

	if (strcmp(links, "vs") == 0)
		links = on_this_host(st) ? "sv" : "v";
	if (k >= strlen(links))
		return NULL;
	return links[k] == 's' ? &sr_link_shm : &sr_link_verbs;
}

static void done(struct sr_ask *ask, struct sr_link *link, const char *reason);

/* Of several kinds that cannot be had the preferred one's reason counts. */
static void first_reason(struct sr_stream *st, enum sr_reason reason)
{
	if (atomic_load(&st->reason) == SR_REASON_NONE)
		sr_stream_reason(st, reason);
}

static void ask_next(struct sr_stream *st)
{
	const struct sr_link_ops *ops;
	int r;

	while ((ops = kind(st, st->kind)) != NULL) {
		const char *why = ops->usable();

		st->kind++;
		if (why) {
			first_reason(st, sr_reason_find(why));
			continue;
		}
		if (left_alone(st, ops)) {
			first_reason(st, SR_REASON_NO_LISTENER);
			continue;
		}
		memset(&st->ask, 0, sizeof(st->ask));
		st->ask.ops = ops;
		st->ask.name = st->name;
		st->ask.name.link_no = st->link_no + 1;
		/* Rendezvous goes by what is on the wire. */
		sr_addr_plain(&st->ask.src, (struct sockaddr *)&st->local);
		sr_addr_plain(&st->ask.dst, (struct sockaddr *)&st->peer);
		st->ask.owner = st;
		st->ask.notify = sr_stream_on_link;
		st->ask.done = done;
		st->asking = true;
		sr_stream_ref(st);
		sr_debug("%s: asks for a link: %s",
			 sr_stream_label(st, (char[128]){ 0 }), ops->name);
		r = ops->ask(&st->ask);
		if (r == 0)
			return;
		st->asking = false;
		sr_stream_put(st);
		first_reason(st, r == -ENOMEM ? SR_REASON_MEMORY :
				 r == -ELIBACC ? SR_REASON_NO_LIBRARY :
						 SR_REASON_NO_DEVICE);
	}
	sr_tell("%s: plain: %s", sr_stream_label(st, (char[128]){ 0 }),
		sr_reason_word((enum sr_reason)atomic_load(&st->reason)) ?:
			"no kind of link");
	sr_upgrade_verdict(st, VERDICT_NO);
}

static void done(struct sr_ask *ask, struct sr_link *link, const char *reason)
{
	struct sr_stream *st = ask->owner;

	st->asking = false;
	if (link && (sr_st_flags(st) & (SR_ST_CLOSING | SR_ST_BARRED))) {
		link->ops->drop(link, "short");
		sr_link_put(link);
	} else if (link) {
		sr_tell("%s: link %s%s%s up",
			sr_stream_label(st, (char[128]){ 0 }), link->ops->name,
			link->device && *link->device ? ":" : "",
			link->device ? link->device : "");
		sr_attach_begin(st, link);
	} else {
		first_reason(st, sr_reason_find(reason ? reason : ""));
		if (reason && (!strcmp(reason, "no-listener") ||
			       !strcmp(reason, "timeout") ||
			       !strcmp(reason, "no-device")))
			leave_alone(st, ask->ops,
				    sr_conf.upgrade == SR_WAIT ||
						    (sr_st_flags(st) & SR_ST_AGAIN) ?
					    PEER_BACKOFF_NS : AGAIN_NS);
		if (!(sr_st_flags(st) & SR_ST_CLOSING))
			ask_next(st);
	}
	sr_stream_put(st);
}

/* At the next call after a while, which grows as long as no link comes of it. */
static void ask_again(struct sr_stream *st)
{
	st->kind = 0;
	st->next_ask_ns = sr_now_ns() + (AGAIN_NS << st->asks);
	if (st->asks < ASKS_MAX)
		st->asks++;
	sr_st_clear(st, SR_ST_ASKED);
}

void sr_ask_progress(struct sr_stream *st)
{
	unsigned f = sr_st_flags(st);

	if (st->asking && (f & SR_ST_CLOSING)) {
		st->ask.ops->cancel(&st->ask);
		st->asking = false;
		sr_stream_put(st);
		return;
	}
	if (!(f & SR_ST_ASKED) || (f & (SR_ST_CLOSING | SR_ST_BARRED)) ||
	    st->asking || st->att)
		return;
	if (atomic_load(&st->verdict) == VERDICT_PENDING && !st->kind) {
		if (sr_stream_name(st))
			ask_next(st);
		else
			sr_upgrade_verdict(st, VERDICT_NO);
		return;
	}
	/* It may be that the peer has only just begun to listen. */
	if (atomic_load(&st->verdict) == VERDICT_NO && !(f & SR_ST_AGAIN) &&
	    atomic_load(&st->reason) == SR_REASON_NO_LISTENER &&
	    sr_conf.upgrade != SR_WAIT) {
		sr_st_set(st, SR_ST_AGAIN);
		ask_again(st);
		return;
	}
	/* A link that broke may be asked for again, once all is plain. */
	if (st->link_no && !sr_gate_shut(&st->rx_gate) && !sr_gate_shut(&st->tx_gate)) {
		ask_again(st);
	}
}
