/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * asker.h - where a stream stands on its way to a link: one state, and which one may
 * follow which.  asker.c has the table; nothing else changes the state, but for a child of
 * fork, which begins anew (owners.c).
 *
 * A stream that the process connected goes through all of these.  Who moves it is in
 * brackets: a call of the program, by whichever thread makes it, or the service thread.
 *
 *   IDLE      It has not asked.  A call may claim it, from next_ask_ns on.
 *     -> CLAIMED   [call] it is time to ask
 *   CLAIMED   One thread decides; all others leave the stream alone.
 *     -> IDLE      [call] no kind of link is possible now, and one may be later
 *     -> OVER      [call] none ever will be, or there is no service thread
 *     -> WANTED    [call] the service thread is to ask
 *   WANTED    The service thread has been kicked.
 *     -> ASKING    [service]
 *     -> OVER      [service] the stream has been barred or retired meanwhile
 *   ASKING    It asks for one kind of link after the other.
 *     -> SHAKING   [service] the peer has given a link
 *     -> PAUSED    [service] it has not, and may later
 *     -> BROKEN    [service] it has not, but had given one earlier
 *     -> OVER      [service] it will not, or the stream is closed or barred
 *   SHAKING   There is a link (`att'), and the handshake on it.
 *     -> LINKED    [service] our direction has switched
 *     -> BROKEN    [service] the link has ended
 *   LINKED    The link is in use.
 *     -> BROKEN    [service] the link has ended
 *   BROKEN    There is no link, but the return to TCP is not complete.
 *     -> PAUSED    [service] it is
 *   PAUSED    As IDLE, after a request or a link.
 *     -> CLAIMED   [call] it is time to ask again
 *   OVER      It gets no link any more, and retires as soon as it can.
 *
 * One that the process accepted is asked: the service thread moves it from IDLE or PAUSED
 * to SHAKING and LINKED, and back to PAUSED.
 *
 * The flags BARRED and CLOSING are no states: any thread may set them at any time, and the
 * service thread makes of them what the list says.
 */
#ifndef SR_ENGINE_ASKER_H
#define SR_ENGINE_ASKER_H

#include "engine/engine.h"

/* Moves the stream to this state, and wakes the threads that wait for a link if it answers
 * them.  False: it may not follow the present one, which stays.  No lock held.  Any thread. */
bool sr_ask_move(struct sr_stream *st, enum sr_ask_state to);

/* May the next call ask for a link? */
static inline bool sr_ask_is_due(struct sr_stream *st)
{
	/* Pairs with sr_ask_move(): the time until which it is paused comes before. */
	return sr_observe(&st->up.state) <= SR_ASK_PAUSED;
}

/* Is it still open what becomes of the request for a link, or of the handshake on it?  Of an
 * accepted stream: of the handshake. */
static inline bool sr_ask_is_pending(struct sr_stream *st)
{
	int state = sr_observe(&st->up.state);	/* pairs with sr_ask_move() */

	return state >= SR_ASK_CLAIMED && state <= SR_ASK_SHAKING;
}

/* Has the stream ever come so far as to ask, or be asked? */
static inline bool sr_ask_has_begun(struct sr_stream *st)
{
	return sr_look(&st->up.state) != SR_ASK_IDLE;	/* pair barred: sr_ask_move() */
}

/* What the last request or link has come to: it decides when the stream asks again.  The
 * report says the same. */
static inline void sr_ask_ended(struct sr_stream *st, enum sr_reason why)
{
	sr_store(&st->up.outcome, (int)why);
	sr_stream_reason(st, why);
}

#endif
