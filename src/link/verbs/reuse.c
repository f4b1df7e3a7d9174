/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * reuse.c - how an asker opens a link on a carrier that exists already.
 *
 * An ask first looks for a carrier between the same two addresses, and opens a link on it
 * (share.c).  If there is no such carrier yet, one ask goes to the connection manager (ask.c), and
 * others for the same place wait for its outcome, for WAIT_LOOKS looks at most.  If there is still
 * no carrier then, they go to the connection manager themselves.
 *
 * All of it runs in the loop.  Locks: the carrier's, for the state of its numbers.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/ask.h"

#include "base/addr.h"
#include "base/log.h"
#include "base/report.h"

enum {
	WAIT_LOOKS = 8,		/* for another ask's outcome: 200 ms */
	NUMBER_LOOKS = 40,	/* for a number, while others are unproven: 1 s */
	RETRIED = 8,		/* asks that try again when a number is free */
};

/* Do they ask the same place for streams between the same two addresses? */
static bool is_same_place(struct sr_vask *a, struct sr_vask *b)
{
	return sr_vask_port(a) == sr_vask_port(b) && a->ask->tclass == b->ask->tclass &&
	       sr_name_same_way(&a->ask->name, &b->ask->name);
}

/* The ask has brought no carrier, so asks that have waited for it use the connection manager. */
void sr_vreuse_wake(struct sr_vask *a)
{
	struct sr_vask *b;

	for (b = sr_vasks; b; b = b->next)
		if (b->waits && is_same_place(a, b)) {
			b->waited = b->waited < WAIT_LOOKS ? WAIT_LOOKS : b->waited;
			sr_timer_set(&b->timer, 0);
		}
}

/* ---- opening a link on a carrier ---- */

/* The ask gives up the link that it has opened.  The link sends its last record. */
void sr_vreuse_leave(struct sr_vask *a)
{
	struct sr_vlink *l = a->link;

	a->link = NULL;
	a->opened = false;
	l->ask = NULL;
	l->link.ops->drop(&l->link, "short");
	sr_link_put(&l->link);
}

/* Is another ask, to the same place, on its way to the connection manager? */
static bool is_another_asking(struct sr_vask *a)
{
	struct sr_vask *b;

	for (b = sr_vasks; b; b = b->next)
		if (b != a && b->id && is_same_place(a, b))
			return true;
	return false;
}

static bool open_on_carrier(struct sr_vask *a, struct sr_vcarrier *c)
{
	const struct sr_question question = sr_vask_question(a);
	const struct sr_vlink_for f = sr_vask_link_for(a);

	a->link = sr_vshare_open(c, &f, &question);
	if (!a->link)
		return false;
	a->opened = true;
	a->link->ask = a;
	a->asked_at = a->looks;
	if (a->holds == SR_HOLDS_FIRST)
		a->ask->told(a->ask, SR_FIRST_SENT);
	return true;
}

enum carrier_state { NO_USE, OPENS, IS_FULL, IS_NEW, SHARES_NOT };

/* What the carrier is to the ask: of no use; one that may open a link; one that has no number for
 * it; one whose peer has sent nothing yet; or one that shows that the peer takes one link only. */
static enum carrier_state carrier_state(struct sr_vask *a, struct sr_vcarrier *c)
{
	enum carrier_state state = IS_NEW;

	if (!c->share.numbers.asks || !c->id || c->cm_port != sr_vask_port(a) ||
	    !sr_vshare_names(c, &a->ask->name, a->ask->tclass))
		return NO_USE;
	sr_lock(&c->lock);
	if (c->broken || (!c->qp && !c->make.busy))
		state = NO_USE;
	else if (c->in.greeted && !sr_load(&c->shared))
		state = SHARES_NOT;
	else if (c->in.greeted)
		state = c->share.numbers.used < c->share.numbers.size ? OPENS : IS_FULL;
	else
		c->share.wanted = true;
	sr_unlock(&c->lock);
	return state;
}

/* Opens a link on a carrier, or waits for one.  False: neither. */
bool sr_vreuse_or_wait(struct sr_vask *a)
{
	bool waits = false;
	struct sr_vcarrier *c;
	struct sr_vdev *dev;

	for (dev = sr_vdevs; dev; dev = dev->next)
		for (c = dev->gone ? NULL : dev->carriers; c; c = c->next)
			switch (carrier_state(a, c)) {
			case OPENS:
				if (open_on_carrier(a, c))
					return true;
				waits |= a->waited < NUMBER_LOOKS;
				break;
			case IS_NEW:
				waits |= a->waited < WAIT_LOOKS;
				break;
			case SHARES_NOT:
				return false;
			default:
				break;
			}
	a->waits = waits || (a->waited < WAIT_LOOKS && is_another_asking(a));
	return a->waits;
}

/* A number is free, or the carrier has become ready. */
void sr_vreuse_retry(struct sr_vcarrier *c)
{
	unsigned n = 0;
	struct sr_vask *a;

	sr_lock(&c->lock);
	c->share.wanted = false;
	sr_unlock(&c->lock);
	for (a = sr_vasks; a && n < RETRIED; a = a->next)
		if (a->waits && c->cm_port == sr_vask_port(a) &&
		    sr_vshare_names(c, &a->ask->name, a->ask->tclass)) {
			sr_timer_set(&a->timer, 0);
			n++;
		}
}

/* ---- the answer to OPEN ---- */

static void open_accepted(struct sr_vask *a)
{
	struct sr_ask *ask = a->ask;
	struct sr_vlink *l = a->link;

	l->ask = NULL;
	a->link = NULL;
	a->opened = false;
	sr_vask_free(a);
	ask->done(ask, &l->link, NULL);
}

/* If the peer has refused the link, the ask fails with the peer's reason.  If the carrier has
 * ended, or the peer has given the link up without an answer, the connection manager asks. */
static void open_failed(struct sr_vask *a, const struct sr_vanswer *answer)
{
	const char *reason = NULL;

	if (answer->type == SR_RECORD_THERE && answer->there[a->iwarp]) {
		sr_format(a->ask->there, sizeof(a->ask->there), SR_THERE " %u %u", answer->there[0],
			  answer->there[1]);
		reason = SR_THERE;
	} else if (answer->type == SR_RECORD_REFUSE || answer->type == SR_RECORD_THERE) {
		reason = answer->reason ? sr_reason_word(answer->reason) : "refused";
	}
	a->ask->heard |= answer->type != 0;
	if (!reason)
		reason = sr_vask_at_once(a);
	if (reason)
		sr_vask_fail(a, reason);
}

void sr_vreuse_news(struct sr_task *t)
{
	struct sr_vlink *l = SR_OF(struct sr_vlink, news, t);
	unsigned have = sr_link_events(&l->link);
	struct sr_vanswer answer;
	struct sr_vask *a = l->ask;

	sr_lock(&l->c->lock);
	answer = l->answer;
	l->answer.word = SR_FIRST_NONE;
	sr_unlock(&l->c->lock);
	if (a && sr_first_suits(answer.word, a->holds))
		sr_vask_first(a, answer.word);
	if (a && (have & SR_LINK_DEAD))
		open_failed(a, &answer);
	else if (a && (have & SR_LINK_UP))
		open_accepted(a);
	sr_link_put(&l->link);
}
