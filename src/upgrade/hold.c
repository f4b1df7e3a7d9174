/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hold.c - owns the hold of policy wait: the first call that sends waits for the link, but
 * only while the process at the other end says that its program has the stream or is about
 * to take it.  Otherwise the first bytes go by TCP, and the stream goes on asking as in
 * policy eager.  Must not know how the question travels.  No locks: words that are atomic.
 *
 * The limits: SOCKRAIL_ANSWER_MS from the question to the first answer of a process there,
 * and SOCKRAIL_UPGRADE_WAIT_MS for all of it (a device's first opening may take long).
 */
#include "base/real.h"

#include "base/log.h"
#include "base/now.h"
#include "engine/asker.h"
#include "engine/engine.h"
#include "engine/index.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"

#define MS UINT64_C(1000000)

void sr_hold_told(struct sr_ask *ask, enum sr_first first)
{
	struct sr_stream *st = ask->owner;

	if (first == SR_FIRST_SENT)
		sr_store(&st->hold.sent_ns, sr_now_ns());
	else
		sr_debug("%s: first answer: %s", sr_stream_label(st, (char[128]){ 0 }),
			 sr_first_word(first));
	sr_publish(&st->hold.first, (int)first);
	sr_stream_notify(st, SR_NOTIFY_VERDICT);
}

static int first_of(struct sr_stream *st)
{
	return sr_observe(&st->hold.first);
}

/* Is there nothing to wait for? */
static bool is_settled(struct sr_stream *st)
{
	return !sr_ask_is_pending(st) || (sr_st_flags(st) & SR_ST_BARRED) ||
	       first_of(st) >= SR_FIRST_BYTES;
}

static bool is_sent(struct sr_stream *st)
{
	return is_settled(st) || first_of(st) != SR_FIRST_NONE;
}

static bool is_answered(struct sr_stream *st)
{
	return is_settled(st) || first_of(st) != SR_FIRST_SENT;
}

static bool is_asked_anew(struct sr_stream *st)
{
	return is_settled(st) || first_of(st) < SR_FIRST_TAKEN;
}

static bool (*const is_over[])(struct sr_stream *) = {
	[SR_FIRST_NONE] = is_sent,
	[SR_FIRST_SENT] = is_answered,
	[SR_FIRST_TAKEN] = is_asked_anew,
	[SR_FIRST_COMING] = is_asked_anew,
};

static uint64_t end_of(struct sr_stream *st, int first, uint64_t limit)
{
	uint64_t end = sr_load(&st->hold.sent_ns) + sr_conf.answer_ms * MS;

	return first == SR_FIRST_SENT && end < limit ? end : limit;
}

static void await_link(struct sr_stream *st)
{
	uint64_t limit = sr_now_ns() + st->policy->upgrade_wait_ms * MS, end;
	int first;

	while (!is_settled(st)) {
		first = first_of(st);
		if (first >= SR_FIRST_BYTES)
			break;
		end = end_of(st, first, limit);
		if (sr_now_ns() >= end)
			break;
		sr_stream_await(st, SR_NOTIFY_VERDICT, is_over[first], end);
		if (!is_over[first](st) && sr_now_ns() < end)
			break;	/* there is no memory to wait with */
	}
}

static bool is_linked(struct sr_stream *st)
{
	return sr_observe(&st->up.state) == SR_ASK_LINKED;	/* pairs with sr_ask_move() */
}

static const char *hold_outcome(struct sr_stream *st)
{
	int first = first_of(st);

	if (is_linked(st))
		return "link";
	if (is_settled(st) && first < SR_FIRST_BYTES)
		return "no link";
	return first == SR_FIRST_SENT ? "no answer" :
	       first < SR_FIRST_BYTES ? "too late" : sr_first_word(first);
}

/* (If the peer's program has spoken first, its bytes stay unread meanwhile; look_ahead() in
 * prove.c lets them count for the proof.) */
bool sr_upgrade_hold(struct sr_stream *st)
{
	if (st->policy->upgrade != SR_WAIT || sr_ask_is_due(st) ||
	    (sr_st_flags(st) & (SR_ST_CONNECT | SR_ST_WAITED)) != SR_ST_CONNECT)
		return false;
	/* While this thread is held it accepts nothing, so requests that wait for that are answered
	 * now. */
	sr_index_hold(st, sr_hold_thread());
	sr_answer_look();
	await_link(st);
	sr_index_hold(st, 0);
	if (!is_linked(st))
		sr_st_set(st, SR_ST_UNHELD);
	sr_st_set(st, SR_ST_WAITED);
	sr_debug("%s: the first send goes on: %s", sr_stream_label(st, (char[128]){ 0 }),
		 hold_outcome(st));
	return true;
}
