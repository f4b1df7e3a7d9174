/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * reuse.c - how an asker opens a link on a carrier that exists already.
 *
 * Of the carriers between the same two addresses an ask takes the one of its own domain, or one
 * that has no links at present, and opens a link on it (share.c).  If there is none, the ask goes
 * to the connection manager (ask.c) for one more carrier, and other asks of the same domain wait
 * for the outcome.  If there are as many carriers as SOCKRAIL_CARRIERS allows, or too little memory
 * for one more, the ask takes the one with the fewest links.  An ask that has waited for WAIT_LOOKS
 * or LONG_LOOKS looks goes to the connection manager itself.
 *
 * All of it runs in the loop.  Locks: the carrier's, for the state of its numbers.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/ask.h"

#include "base/log.h"
#include "base/report.h"

enum {
	WAIT_LOOKS = 8,		/* as long as the peer has not answered: 200 ms */
	LONG_LOOKS = 40,	/* afterwards, for a carrier or a number of it: 1 s */
	LACKS_MS = 1000,	/* for which no further carrier is tried if there was too little for one */
	RETRIED = 8,		/* asks that try again when a number is free */
};

/* Do they ask the same place for streams between the same two addresses? */
static bool is_same_place(struct sr_vask *a, struct sr_vask *b)
{
	return sr_vask_port(a) == sr_vask_port(b) && a->ask->tclass == b->ask->tclass &&
	       sr_name_same_way(&a->ask->name, &b->ask->name);
}

/* Are they to share a carrier?  NULL is no domain. */
static bool is_same_domain(const void *a, const void *b)
{
	return a && a == b;
}

/* The ask has brought no carrier, so asks of its domain that have waited for it use the connection
 * manager.  Others look whether there are fewer carriers now than the limit. */
void sr_vreuse_wake(struct sr_vask *a)
{
	unsigned others = 0;
	struct sr_vask *b;
	bool own;

	for (b = sr_vasks; b; b = b->next) {
		if (!b->waits || !is_same_place(a, b))
			continue;
		own = is_same_domain(b->ask->domain, a->ask->domain);
		if (own)
			b->waited = LONG_LOOKS;
		if (own || others++ < RETRIED)
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

/* ---- which carrier ---- */

enum carrier_state { NO_USE, IS_ASKED, IS_NEW, OPENS, IS_FULL, SHARES_NOT };

/* What the carrier is to the ask: of no use; one that the peer has not accepted yet; one whose peer
 * has sent nothing yet; one that may open a link; one that has no number for it; or one that shows
 * that the peer takes one link only.  *links: how many it has. */
static enum carrier_state carrier_state(struct sr_vask *a, struct sr_vcarrier *c, unsigned *links)
{
	enum carrier_state state;

	if (!c->share.numbers.asks || !c->id || c->cm_port != sr_vask_port(a) ||
	    c->share.most == 1 || !sr_vshare_names(c, &a->ask->name, a->ask->tclass))
		return NO_USE;
	sr_lock(&c->lock);
	*links = c->share.numbers.used;
	state = c->established ? IS_NEW : IS_ASKED;
	if (c->broken || (!c->qp && !c->make.busy))
		state = NO_USE;
	else if (c->in.greeted && !sr_load(&c->shared))
		state = SHARES_NOT;
	else if (c->in.greeted)
		state = *links < c->share.numbers.size ? OPENS : IS_FULL;
	else
		c->share.wanted = true;
	sr_unlock(&c->lock);
	return state;
}

/* What there is for an ask: carriers to its place, and those that other asks are making. */
struct choice {
	struct fewest {
		struct sr_vcarrier *c;	/* that has the fewest links; NULL: none opens any */
		unsigned links;		/* if 0, the carrier has no domain any more */
	} own, any;			/* of the ask's domain; of all domains */
	unsigned carriers;		/* all that are not full */
	bool own_comes;			/* one of the ask's domain is being made */
	bool answered;			/* by the peer: it has accepted a carrier */
	bool lacks;			/* there has been too little for one more, lately */
	bool single;			/* the peer takes one link a carrier */
};

static void prefer_fewer(struct fewest *f, struct sr_vcarrier *c, unsigned links)
{
	if (!f->c || links < f->links)
		*f = (struct fewest){ c, links };
}

static void choice_weigh(struct choice *ch, struct sr_vask *a, struct sr_vcarrier *c)
{
	const bool own = is_same_domain(c->domain, a->ask->domain);
	unsigned links = 0;
	enum carrier_state state = carrier_state(a, c, &links);

	ch->carriers += state == IS_ASKED || state == IS_NEW || state == OPENS;
	ch->own_comes |= own && (state == IS_ASKED || state == IS_NEW);
	ch->answered |= state == IS_NEW || state == OPENS || state == IS_FULL;
	ch->single |= state == SHARES_NOT;
	ch->lacks |= state != NO_USE && sr_now_ns() < c->lacks_until_ns;
	if (state != OPENS)
		return;
	prefer_fewer(&ch->any, c, links);
	if (own)
		prefer_fewer(&ch->own, c, links);
}

static struct choice choice_find(struct sr_vask *a)
{
	struct choice ch = { 0 };
	struct sr_vcarrier *c;
	struct sr_vask *b;
	struct sr_vdev *dev;

	for (dev = sr_vdevs; dev; dev = dev->next)
		for (c = dev->gone ? NULL : dev->carriers; c; c = c->next)
			choice_weigh(&ch, a, c);
	for (b = sr_vasks; b; b = b->next)
		/* Its carrier is not made yet. */
		if (b->id && !b->link && sr_vask_shares(b) && is_same_place(a, b)) {
			ch.carriers++;
			ch.own_comes |= is_same_domain(a->ask->domain, b->ask->domain);
		}
	return ch;
}

/* Opens a link on a carrier, or waits for one.  False: neither. */
bool sr_vreuse_or_wait(struct sr_vask *a)
{
	struct choice ch = choice_find(a);
	const bool at_limit = ch.carriers >= a->ask->policy->carriers || ch.lacks;
	struct fewest f = ch.own;

	a->waits = false;
	if (ch.single)
		return false;
	if (!f.c && (!ch.any.links || (at_limit && !ch.own_comes)))
		f = ch.any;
	if (f.c && open_on_carrier(a, f.c)) {
		if (!f.links || !f.c->domain)
			f.c->domain = a->ask->domain;
		return true;
	}
	if (f.c || ch.own_comes || at_limit)
		a->waits = a->waited < (ch.answered ? LONG_LOOKS : WAIT_LOOKS);
	return a->waits;
}

bool sr_vreuse_lacks(struct sr_vask *a)
{
	struct sr_vcarrier *c = choice_find(a).any.c;

	if (!c)
		return false;
	c->lacks_until_ns = sr_now_ns() + LACKS_MS * UINT64_C(1000000);
	sr_vreuse_retry(c);
	return true;
}

/* Asks that wait look again, those of the carrier's domain or all others.  n have done so before,
 * and at most RETRIED may.  Returns how many have now. */
static unsigned retry_waiting(struct sr_vcarrier *c, unsigned n, bool own)
{
	struct sr_vask *a;

	for (a = sr_vasks; a && n < RETRIED; a = a->next)
		if (a->waits && c->cm_port == sr_vask_port(a) &&
		    own == is_same_domain(c->domain, a->ask->domain) &&
		    sr_vshare_names(c, &a->ask->name, a->ask->tclass)) {
			sr_timer_set(&a->timer, 0);
			n++;
		}
	return n;
}

/* A number is free, or the carrier has become ready, or there is too little for another one. */
void sr_vreuse_retry(struct sr_vcarrier *c)
{
	unsigned n;

	sr_lock(&c->lock);
	c->share.wanted = false;
	sr_unlock(&c->lock);
	n = retry_waiting(c, 0, true);
	retry_waiting(c, n, false);
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
	ask->heard = true;	/* the peer of a carrier is Sockrail */
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
