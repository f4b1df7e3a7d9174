/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* number.c - the machine of numbers; see number.h.  Pure: no I/O, no locks. */
#include "pure/number.h"

#include "pure/packet.h"

void sr_numbers_init(struct sr_numbers *s, struct sr_number *table, unsigned size, bool asks)
{
	*s = (struct sr_numbers){.table = table, .size = size, .asks = asks};
}

static struct sr_number *number_at(struct sr_numbers *s, unsigned number)
{
	return &s->table[number - 1];
}

/* ---- numbers in use, links unproven ---- */

static bool may_be_unproven(const struct sr_numbers *s)
{
	return s->unproven < (s->proven ? SR_UNPROVEN_LATER : SR_UNPROVEN_FIRST);
}

static void use_number(struct sr_numbers *s, struct sr_number *n)
{
	*n = (struct sr_number){.state = SR_NUMBER_ASKED, .unproven = true};
	s->used++;
	s->held++;
	s->unproven++;
}

static void free_number(struct sr_numbers *s, struct sr_number *n)
{
	unsigned index = (unsigned)(n - s->table);

	n->state = SR_NUMBER_FREE;
	s->used--;
	if (s->below > index)
		s->below = index;
}

static void count_no_more(struct sr_numbers *s, struct sr_number *n)
{
	s->unproven -= n->unproven;
	n->unproven = false;
}

/* ---- what this end sends ---- */

unsigned sr_number_open(struct sr_numbers *s)
{
	if (!may_be_unproven(s))
		return 0;
	while (s->below < s->size && s->table[s->below].state != SR_NUMBER_FREE)
		s->below++;
	if (s->below == s->size)
		return 0;
	use_number(s, &s->table[s->below]);
	return ++s->below;
}

void sr_number_accept(struct sr_numbers *s, unsigned number)
{
	number_at(s, number)->state = SR_NUMBER_OPEN;
}

/* The asker counts a link as unproven until it sends its DROP, the answerer until that DROP
 * arrives.  When an OPEN arrives, all DROPs that the asker has sent before it have arrived, too,
 * and the answerer has verified each proof before the asker learns of it.  So at that moment the
 * answerer counts no more links than the asker did, and never refuses an honest asker as busy. */
bool sr_number_leave(struct sr_numbers *s, unsigned number)
{
	struct sr_number *n = number_at(s, number);

	if (s->asks)
		count_no_more(s, n);
	s->held--;
	if (n->state == SR_NUMBER_DUE) {
		free_number(s, n);
		return true;
	}
	n->state = SR_NUMBER_LEFT;
	return false;
}

void sr_number_prove(struct sr_numbers *s, unsigned number)
{
	count_no_more(s, number_at(s, number));
	s->proven = true;
}

/* ---- what arrives ---- */

static enum sr_number_news number_opens(struct sr_numbers *s, struct sr_number *n)
{
	bool takes = may_be_unproven(s);

	if (s->asks || n->state != SR_NUMBER_FREE)
		return SR_NUMBER_WRONG;
	use_number(s, n);
	return takes ? SR_NUMBER_NEW : SR_NUMBER_BUSY;
}

static enum sr_number_news last_comes(struct sr_numbers *s, struct sr_number *n)
{
	if (!s->asks)
		count_no_more(s, n);
	if (n->state == SR_NUMBER_LEFT) {
		free_number(s, n);
		return SR_NUMBER_ENDED;
	}
	n->state = SR_NUMBER_DUE;
	return SR_NUMBER_ENDS;
}

/* May such a record arrive for a link that was asked for and is not accepted yet?  The asker may
 * send HELLO and SWITCH behind its OPEN; the answerer sends first answers (WORD) and ACCEPT. */
static bool suits_asked(const struct sr_numbers *s, unsigned type)
{
	return s->asks ? type == SR_RECORD_WORD || type == SR_RECORD_ACCEPT :
			 type == SR_MSG_HELLO || type == SR_MSG_SWITCH;
}

static enum sr_number_news number_hears(struct sr_numbers *s, struct sr_number *n, unsigned type)
{
	switch (n->state) {
	case SR_NUMBER_ASKED:
		if (!suits_asked(s, type))
			return SR_NUMBER_WRONG;
		if (type == SR_RECORD_ACCEPT)
			n->state = SR_NUMBER_OPEN;
		return SR_NUMBER_RECORD;
	case SR_NUMBER_OPEN:
		return type == SR_RECORD_WORD || type == SR_RECORD_ACCEPT ? SR_NUMBER_WRONG :
									    SR_NUMBER_RECORD;
	case SR_NUMBER_LEFT:
		return SR_NUMBER_IGNORE;
	default:
		return SR_NUMBER_WRONG;
	}
}

static bool is_answerers(unsigned type)
{
	return type >= SR_RECORD_ACCEPT && type <= SR_RECORD_THERE;
}

/* May the peer end the link by such a record?  REFUSE and THERE answer an OPEN, and so do not
 * follow ACCEPT; in state LEFT we do not know whether the peer has sent ACCEPT. */
static bool may_end(const struct sr_number *n, unsigned type)
{
	return n->state == SR_NUMBER_LEFT || n->state == SR_NUMBER_ASKED ||
	       (n->state == SR_NUMBER_OPEN && type == SR_RECORD_DROP);
}

enum sr_number_news sr_number_comes(struct sr_numbers *s, unsigned number, unsigned type)
{
	struct sr_number *n;

	if (!number || number > s->size || (is_answerers(type) && !s->asks))
		return SR_NUMBER_WRONG;
	n = &s->table[number - 1];
	switch (type) {
	case SR_RECORD_OPEN:
		return number_opens(s, n);
	case SR_RECORD_DROP:
	case SR_RECORD_REFUSE:
	case SR_RECORD_THERE:
		return may_end(n, type) ? last_comes(s, n) : SR_NUMBER_WRONG;
	default:
		return number_hears(s, n, type);
	}
}
