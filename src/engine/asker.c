/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * asker.c - owns the state of a stream on its way to a link (engine/asker.h): the table of
 * transitions.  Must not know why a stream is moved.  No locks: the state is one atomic word.
 */
#include "base/real.h"

#include "engine/asker.h"
#include "engine/engine.h"

#define TO(state) (1u << SR_ASK_##state)

static const uint16_t successors[] = {
	[SR_ASK_IDLE] = TO(CLAIMED) | TO(SHAKING),
	[SR_ASK_PAUSED] = TO(CLAIMED) | TO(SHAKING),
	[SR_ASK_CLAIMED] = TO(IDLE) | TO(WANTED) | TO(OVER),
	[SR_ASK_WANTED] = TO(ASKING) | TO(OVER),
	[SR_ASK_ASKING] = TO(SHAKING) | TO(PAUSED) | TO(BROKEN) | TO(OVER),
	[SR_ASK_SHAKING] = TO(LINKED) | TO(BROKEN) | TO(PAUSED),
	[SR_ASK_LINKED] = TO(BROKEN) | TO(PAUSED),
	[SR_ASK_BROKEN] = TO(PAUSED),
	[SR_ASK_OVER] = 0,
};

/* What the state answers to a thread that waits for a link (hold.c): 1: there is one, -1: there
 * is none, 0: nothing yet. */
static int answer_in(enum sr_ask_state state)
{
	return state == SR_ASK_LINKED ? 1 :
	       state == SR_ASK_PAUSED || state >= SR_ASK_BROKEN ? -1 : 0;
}

bool sr_ask_move(struct sr_stream *st, enum sr_ask_state to)
{
	int from = sr_load(&st->up.state);

	do {
		if (!(successors[from] >> to & 1))
			return false;
		/* Pairs with the acquires of asker.h.  pair barred: sr_ask_has_begun(); the service
		 * thread looks at the flags before each step. */
	} while (!atomic_compare_exchange_strong_explicit(&st->up.state, &from, (int)to,
							  memory_order_seq_cst,
							  memory_order_relaxed));
	if (answer_in(to) && answer_in(to) != answer_in((enum sr_ask_state)from))
		sr_stream_notify(st, SR_NOTIFY_CHANGE | SR_NOTIFY_VERDICT);
	sr_stat_note(st);
	return true;
}
