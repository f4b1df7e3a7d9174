/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * totals.c - owns what a stream says of itself: its bytes by way, the states of its
 * directions, why it is plain, its line of the report.  Changes nothing that moves
 * bytes; takes rx_lock, then tx_lock.
 */
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "sockrail.h"

#define SLOW_NS 100000000ull	/* a slower answer is a timeout */

/* Why the stream was plain at its end, if no reason was stored. */
static enum sr_reason plain_reason(struct sr_stream *st)
{
	enum sr_reason r = (enum sr_reason)sr_load(&st->reason);
	uint64_t asked = sr_load(&st->up.asked_ns);

	if (r != SR_REASON_NONE)
		return r;
	if (st->policy->upgrade == SR_NEVER)
		return SR_REASON_NEVER;
	if (!st->policy->links[0])
		return SR_REASON_OFF;
	if (sr_is_shared(st))
		return SR_REASON_FORK;
	if (!asked && (sr_st_flags(st) & SR_ST_ACCEPT))
		return SR_REASON_NOT_ASKED;
	return asked && asked != SR_ANSWERED && sr_now_ns() - asked > SLOW_NS ?
		       SR_REASON_TIMEOUT : SR_REASON_SHORT;
}

/* Bytes of calls since the stream was retired: counted before it got a slot, and in the slot. */
static uint64_t plain_bytes(struct sr_hot *hot, struct sr_hot *own)
{
	uint64_t n = sr_load(&own->plain);

	return hot == own ? n : n + sr_load(&hot->plain);
}

uint64_t sr_stream_total_sent(struct sr_stream *st)
{
	uint64_t n = sr_gate_shut(&st->out.gate) ? st->tx.w :
			     sr_load(&st->out.tcp) + (uint64_t)st->out.delta;

	return n + plain_bytes(st->tx_hot, &st->tx_own);
}

uint64_t sr_stream_total_received(struct sr_stream *st)
{
	uint64_t n = sr_gate_shut(&st->in.gate) ? st->rx.rx :
			     sr_load(&st->in.tcp) + (uint64_t)st->in.delta;

	return n + plain_bytes(st->rx_hot, &st->rx_own);
}

void sr_stream_had(struct sr_stream *st, struct sr_link *link, char had[SR_REPORT_LINK])
{
	sr_anchor_keepalive(st);
	sr_format(had, SR_REPORT_LINK, "%s", link->name);
}

void sr_stream_tx_ways(struct sr_stream *st, uint64_t way[SR_WAYS])
{
	memcpy(way, st->out.way, sizeof(st->out.way));
	if (st->out.link && st->tx.state == SR_TX_LINK)
		way[st->out.link->ops->way] += st->tx.w - st->tx.n;
}

void sr_stream_totals(struct sr_stream *st, struct sr_report *r)
{
	const char *had;
	uint64_t tx, rx;
	int i;

	sr_stream_lock(st);
	rx = sr_stream_total_received(st) - st->in.before;
	tx = sr_stream_total_sent(st) - st->out.before;
	memset(r, 0, sizeof(*r));
	r->connected = sr_st_flags(st) & SR_ST_CONNECT;
	/* Else the service thread may be writing them. */
	if (sr_st_flags(st) & (SR_ST_NAMED | SR_ST_LISTEN))
		r->local = st->rare->local;
	if (sr_st_flags(st) & SR_ST_NAMED)
		r->peer = st->rare->peer;
	sr_stream_tx_ways(st, r->tx);
	memcpy(r->rx, st->in.way, sizeof(r->rx));
	for (i = SR_WAY_PLAIN + 1; i < SR_WAYS; i++) {
		tx -= r->tx[i];
		rx -= r->rx[i];
	}
	r->tx[SR_WAY_PLAIN] = tx;
	r->rx[SR_WAY_PLAIN] = rx;
	r->switches = st->out.switches + st->in.switches;
	had = st->out.had[0] ? st->out.had : st->in.had;
	strcpy(r->link, had[0] ? had : "plain");
	r->error = sr_load(&st->err.ended);
	r->reason = had[0] ? (enum sr_reason)sr_load(&st->reason) :
				  plain_reason(st);
	sr_stream_unlock(st);
}

enum sr_state sr_stream_tx_state(struct sr_stream *st)
{
	static const enum sr_state of[] = {
		[SR_TX_RAW] = SR_STATE_PLAIN, [SR_TX_WAIT] = SR_STATE_SWITCHING,
		[SR_TX_LINK] = SR_STATE_LINK,
		[SR_TX_RESEND] = SR_STATE_RETURNING,
		[SR_TX_DONE] = SR_STATE_ENDED,
	};

	return sr_load(&st->out.broken) ? SR_STATE_BROKEN : of[st->tx.state];
}

enum sr_state sr_stream_rx_state(struct sr_stream *st)
{
	static const enum sr_state of[] = {
		[SR_RX_RAW] = SR_STATE_PLAIN,
		[SR_RX_EXPECT] = SR_STATE_SWITCHING,
		[SR_RX_LINK] = SR_STATE_LINK, [SR_RX_EOF] = SR_STATE_ENDED,
		[SR_RX_RESET] = SR_STATE_BROKEN,
	};

	return of[st->rx.state];
}

void sr_stream_info(struct sr_stream *st, struct sr_info *info)
{
	struct sr_report r;

	sr_stream_totals(st, &r);
	memset(info, 0, sizeof(*info));
	memcpy(info->link, r.link, sizeof(info->link));
	sr_stream_lock(st);
	info->rx_state = sr_stream_rx_state(st);
	info->tx_state = sr_stream_tx_state(st);
	sr_stream_unlock(st);
	info->tx = (struct sr_bytes){ r.tx[SR_WAY_PLAIN], r.tx[SR_WAY_SHM],
				      r.tx[SR_WAY_VERBS] };
	info->rx = (struct sr_bytes){ r.rx[SR_WAY_PLAIN], r.rx[SR_WAY_SHM],
				      r.rx[SR_WAY_VERBS] };
	info->switches = r.switches;
	info->error = r.error;
	info->reason = sr_reason_word(r.reason);
}

void sr_stream_end_report(struct sr_stream *st)
{
	unsigned f = sr_st_flags(st);
	struct sr_report r;

	/* If several processes had the stream, only those that moved bytes report it.  A
	 * non-blocking connect(2) that moved none may have failed unseen: no report either. */
	if ((sr_is_shared(st) || (f & (SR_ST_HEIR | SR_ST_FRESH))) &&
	    sr_stream_total_sent(st) == st->out.before &&
	    sr_stream_total_received(st) == st->in.before)
		sr_st_set(st, SR_ST_ENDED | SR_ST_REPORTED);
	if (!(f & (SR_ST_CONNECT | SR_ST_ACCEPT)) ||
	    (sr_st_set(st, SR_ST_ENDED) & SR_ST_ENDED))
		return;
	if (sr_conf.report[0])
		sr_stream_name(st);
	if (sr_conf.report[0] || st->stat)
		sr_stream_totals(st, &r);
	if (sr_conf.report[0])
		sr_report_write(&r);
	if (st->stat)
		sr_stat_end(st, &r);
	sr_st_set(st, SR_ST_REPORTED);
}

static void report_one(struct sr_stream *st, void *arg)
{
	(void)arg;
	sr_stream_end_report(st);
}

void sr_streams_report(void)
{
	if (sr_conf.report[0])
		sr_streams_walk(report_one, NULL);
}
