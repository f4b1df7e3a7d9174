/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * share.c - several links on one carrier: the numbers of its links, the records that open and
 * end links, and the requests that arrive by such records.  The state of each number is changed
 * by pure/number.c; tests/model/PROTOCOL.md, "A number", says what the states mean.
 *
 * The connection manager opens link 1.  The asker of the carrier opens further links by OPEN
 * records, if both ends have said in PROCESS that they take more than one link: then the carrier is
 * shared.  A carrier that is not shared ends with its link.
 *
 * The thread that polls a completion handles the records in its packet, and must not wait or
 * allocate meanwhile.  So it notes what the service thread has to do, and posts a task: an OPEN
 * waits in c->share.open, and an answer to our own OPEN waits in the link (l->answer).
 *
 * After its own last record a link posts nothing, but the peer may still write to its receive ring
 * until the peer's last record has come, and the device may still read its send ring.  So a link
 * of a shared carrier that no stream has any more stays (l->lingers) until its number is free and
 * the last WRITE from its send ring has completed.  Then the carrier's timer (tick.c) frees it.
 *
 * Locks: the carrier's, except where said.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/pages.h"

/* ---- the table of numbers ---- */

static size_t tables_size(unsigned most)
{
	return most * (sizeof(struct sr_vnumber) + sizeof(struct sr_number)) +
	       (most > 1 ? SR_V_OPENS * sizeof(struct sr_vopen) : 0);
}

/* The tables of a shared carrier lie in pages, which take memory when they are used: the first
 * numbers are used first. */
bool sr_vshare_init(struct sr_vcarrier *c, bool asks, bool shares)
{
	const unsigned most = shares ? SR_V_LINKS : 1;
	const size_t size = tables_size(most);
	struct sr_vshare *s = &c->share;
	struct sr_number *table;

	s->number = shares ? sr_pages_get_root(size) : calloc(1, size);
	if (!s->number)
		return false;
	table = (struct sr_number *)(s->number + most);
	if (shares && !asks)
		s->open = (struct sr_vopen *)(table + most);
	sr_numbers_init(&s->numbers, table, most, asks);
	s->most = most;
	return true;
}

void sr_vshare_free(struct sr_vcarrier *c)
{
	if (c->share.most > 1)
		sr_pages_put_root(c->share.number, tables_size(c->share.most));
	else
		free(c->share.number);
}

static struct sr_vnumber *number_of(struct sr_vcarrier *c, uint32_t number)
{
	return &c->share.number[number - 1];
}

struct sr_vlink *sr_vshare_link(struct sr_vcarrier *c, uint32_t number)
{
	return number && number <= c->share.numbers.size ? number_of(c, number)->link : NULL;
}

/* The service thread has something to do for the carrier: sr_vshare_task(). */
static void task_post(struct sr_vcarrier *c)
{
	sr_vcarrier_get(c);
	if (!sr_loop_post(&c->share.task))
		sr_vcarrier_put(c);
}

/* Asks that have found no number, or no carrier that is ready, try again. */
static void tell_askers(struct sr_vcarrier *c)
{
	if (c->share.numbers.asks && c->share.wanted)
		task_post(c);
}

/* Both ends have sent their last records for the number, so it is free for another link. */
static void give_number_back(struct sr_vcarrier *c, uint32_t number)
{
	struct sr_vlink *l = number_of(c, number)->link;

	number_of(c, number)->link = NULL;
	if (l)
		l->over = true;
	if (!c->share.numbers.used)
		sr_vlook_start(c, SR_LOOK | SR_LOOK_SOON);
	tell_askers(c);
}

/* This end sends its last record for the number. */
static void end_number(struct sr_vcarrier *c, uint32_t number)
{
	if (sr_number_leave(&c->share.numbers, number)) {
		give_number_back(c, number);
		return;
	}
	if (!c->share.numbers.held)
		sr_vlook_start(c, SR_LOOK);	/* the peer may never send its own */
	tell_askers(c);
}

void sr_vshare_begin(struct sr_vlink *l, const struct sr_name *name, uint8_t tclass)
{
	struct sr_vcarrier *c = l->c;

	if (c->share.numbers.asks)
		l->number = sr_number_open(&c->share.numbers);
	else if (sr_number_comes(&c->share.numbers, SR_V_NUMBER, SR_RECORD_OPEN) == SR_NUMBER_NEW)
		l->number = SR_V_NUMBER;
	if (!c->share.numbers.asks)
		sr_number_accept(&c->share.numbers, l->number);
	number_of(c, l->number)->link = l;
	c->share.wanted = c->share.numbers.asks && c->share.most > 1;
	c->share.name = *name;
	c->share.tclass = tclass;
}

/* The connection is established: the connection manager has said so, or a packet has come before
 * its event. */
void sr_vshare_established(struct sr_vcarrier *c)
{
	struct sr_vlink *l = number_of(c, SR_V_NUMBER)->link;

	if (c->established)
		return;
	c->established = true;
	if (!l)
		return;
	if (c->share.numbers.asks)
		sr_number_comes(&c->share.numbers, l->number, SR_RECORD_ACCEPT);
	if (sr_link_raise(&l->link, SR_LINK_UP))
		sr_vlink_hear(l, SR_NOTIFY_CTL);
}

void sr_vshare_greeted(struct sr_vcarrier *c, const struct sr_process *peer)
{
	struct sr_numbers *n = &c->share.numbers;

	c->in.greeted = true;
	if (n->asks && n->size > peer->links)
		n->size = peer->links;
	sr_store(&c->shared, n->size > 1 && peer->links > 1);
	tell_askers(c);
}

bool sr_vshare_names(const struct sr_vcarrier *c, const struct sr_name *name, uint8_t tclass)
{
	return tclass == c->share.tclass && sr_name_same_way(name, &c->share.name);
}

/* ---- records that no link sends ---- */

/* Makes a record of that type due for the number, in place of another one that is due. */
static struct sr_vnumber *number_say(struct sr_vcarrier *c, uint32_t number, uint8_t type)
{
	struct sr_vnumber *n = number_of(c, number);

	n->due = type;
	if (!n->queued) {
		n->queued = true;
		n->next_due = c->share.first_due;
		c->share.first_due = (uint16_t)number;
	}
	return n;
}

static bool put_number_record(struct sr_packet_out *out, uint32_t number,
			      const struct sr_vnumber *n)
{
	switch (n->due) {
	case SR_RECORD_WORD:
		return sr_packet_put_first(out, number, n->word);
	case SR_RECORD_REFUSE:
		return sr_packet_put_refuse(out, number, sr_reason_word(n->word));
	case SR_RECORD_THERE:
		return sr_packet_put_there(out, number, n->there);
	default:
		return sr_packet_put_raw(out, number, SR_RECORD_DROP, 0, 0);
	}
}

bool sr_vshare_fill(struct sr_vcarrier *c, struct sr_vpacket *p)
{
	struct sr_vnumber *n;
	uint32_t number;
	bool any = false;

	while ((number = c->share.first_due)) {
		n = number_of(c, number);
		if (n->due && !put_number_record(&p->out, number, n)) {
			p->full = true;
			break;
		}
		any |= n->due;
		c->share.first_due = n->next_due;
		n->queued = false;
		if (n->due && n->due != SR_RECORD_WORD)
			end_number(c, number);
		n->due = 0;
	}
	return any;
}

bool sr_vshare_open_fill(struct sr_vlink *l, struct sr_vpacket *p)
{
	bool put = l->tx.opens == SR_RECORD_OPEN ?
			   sr_packet_put_open(&p->out, l->number, &l->question) :
			   sr_packet_put_accept(&p->out, l->number, false);

	if (put)
		l->tx.opens = 0;
	p->full |= !put;
	return put;
}

void sr_vshare_left(struct sr_vlink *l)
{
	end_number(l->c, l->number);
}

/* ---- records that arrive ---- */

static int request_came(struct sr_vcarrier *c, const struct sr_record *r)
{
	struct sr_vshare *s = &c->share;

	if (!sr_load(&c->shared) || s->opens == SR_V_OPENS ||
	    !sr_vshare_names(c, &r->question.name, r->question.tclass))
		return -EPROTO;
	s->open[s->opens++] = (struct sr_vopen){ r->number, r->question };
	c->look.opens = SR_V_OPEN_LOOKS;
	sr_vlook_start(c, SR_LOOK | SR_LOOK_WATCH);
	task_post(c);
	return 0;
}

/* The peer has withdrawn its request.  Either the request is still in c->share.open, or the service
 * thread has taken it, and src/upgrade has not answered it yet. */
static void request_ends(struct sr_vcarrier *c, uint32_t number)
{
	struct sr_vnumber *n = number_of(c, number);
	struct sr_vshare *s = &c->share;

	for (unsigned i = 0; i < s->opens; i++)
		if (s->open[i].number == number)
			s->open[i--] = s->open[--s->opens];
	if (n->request) {
		n->request->gone = true;
		n->request = NULL;
		task_post(c);
	}
	number_say(c, number, SR_RECORD_DROP);
}

static void link_ends(struct sr_vlink *l, const struct sr_record *r)
{
	l->answer.type = r->type;
	l->answer.there[0] = l->answer.there[1] = 0;
	if (r->type == SR_RECORD_REFUSE)
		l->answer.reason = sr_reason_find(r->word);
	else if (r->type == SR_RECORD_THERE)
		memcpy(l->answer.there, r->there, sizeof(r->there));
	else if (!(sr_link_events(&l->link) & SR_LINK_DEAD))
		sr_vtx_credit(l, r->ack);
	sr_vlink_break(l, sr_vpost_why(l->c, IBV_WC_SUCCESS, "peer-dropped"));
}

static int link_comes(struct sr_vlink *l, const struct sr_record *r)
{
	switch (r->type) {
	case SR_RECORD_WORD:
		l->answer.word = r->first;
		sr_vlink_hear(l, SR_V_NEWS);
		return 0;
	case SR_RECORD_ACCEPT:
		sr_link_raise(&l->link, SR_LINK_UP);
		sr_vlink_hear(l, SR_V_NEWS);
		return 0;
	default:
		return sr_vrx_record(l, r);
	}
}

/* A link that broke, or was given up, takes no record any more.  A record that breaks the protocol
 * ends only its link if the carrier is shared; otherwise it ends the carrier. */
static int record_for_link(struct sr_vlink *l, const struct sr_record *r)
{
	int err = 0;

	if (!l || l->broken || (sr_link_events(&l->link) & SR_LINK_DEAD))
		return 0;
	sr_trace("verbs: link %x: record %d", l->link.link_no, r->type);
	err = link_comes(l, r);
	if (!err || !sr_load(&l->c->shared))
		return err;
	sr_debug("verbs: link %x: a record of type %d breaks the protocol", l->link.link_no, r->type);
	sr_vlink_break(l, "protocol");
	return 0;
}

int sr_vshare_record(struct sr_vcarrier *c, const struct sr_record *r)
{
	enum sr_number_news news = sr_number_comes(&c->share.numbers, r->number, r->type);
	struct sr_vlink *l = sr_vshare_link(c, r->number);

	switch (news) {
	case SR_NUMBER_NEW:
		return request_came(c, r);
	case SR_NUMBER_BUSY:
		if (!sr_load(&c->shared))
			return -EPROTO;
		number_say(c, r->number, SR_RECORD_REFUSE)->word = SR_REASON_TIMEOUT;
		return 0;
	case SR_NUMBER_RECORD:
		return record_for_link(l, r);
	case SR_NUMBER_ENDS:
		if (l)
			link_ends(l, r);
		else
			request_ends(c, r->number);
		return 0;
	case SR_NUMBER_ENDED:
		give_number_back(c, r->number);
		return 0;
	case SR_NUMBER_IGNORE:
		return 0;
	default:
		return -EPROTO;
	}
}

void sr_vshare_prove(struct sr_vlink *l)
{
	if (sr_vshare_link(l->c, l->number) != l)
		return;
	sr_number_prove(&l->c->share.numbers, l->number);
	tell_askers(l->c);
}

void sr_verbs_proven(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);

	sr_vcarrier_lock(l->c);
	sr_vshare_prove(l);
	sr_vcarrier_unlock(l->c);
}

/* ---- the asker: loop ---- */

struct sr_vlink *sr_vshare_open(struct sr_vcarrier *c, const struct sr_vlink_for *f,
				const struct sr_question *question)
{
	struct sr_vlink *l = sr_vlink_new(f);

	if (!l)
		return NULL;
	l->question = *question;
	sr_vcarrier_lock(c);
	l->number = c->qp && !c->broken ? sr_number_open(&c->share.numbers) : 0;
	c->share.wanted |= !l->number;
	if (l->number) {
		number_of(c, l->number)->link = l;
		sr_vcarrier_join(c, l);
		l->tx.opens = SR_RECORD_OPEN;
		c->look.opens = SR_V_OPEN_LOOKS;
		sr_vpost_queue(l);
		sr_vpost_gathered(c);
	}
	sr_vcarrier_unlock(c);
	if (!l->number) {
		free(l);
		return NULL;
	}
	sr_vlook_link(l, SR_LOOK | SR_LOOK_WATCH);
	return l;
}

/* ---- the answerer: loop ---- */

/* Takes the request off its number.  False: the peer has gone, and needs no answer. */
static bool request_leaves(struct sr_vrequest *r)
{
	bool wanted = !r->gone && r->c->qp && !r->c->broken;

	if (!r->gone)
		number_of(r->c, r->number)->request = NULL;
	return wanted;
}

/* Makes a request of the OPEN that has waited for longest; r is NULL: there is no memory for it.  The
 * number has the request from when the OPEN has left c->share.open, so that a DROP of the asker finds
 * one of the two.  False: there is none.  locked */
static bool open_begins(struct sr_vcarrier *c, struct sr_vrequest *r)
{
	struct sr_vshare *s = &c->share;
	const struct sr_vopen open = s->open[0];

	if (!s->opens || !c->qp || c->broken)
		return false;
	s->opens--;
	memmove(s->open, s->open + 1, s->opens * sizeof(open));
	if (!r) {
		number_say(c, open.number, SR_RECORD_REFUSE)->word = SR_REASON_MEMORY;
		sr_vpost_gathered(c);
		return true;
	}
	sr_vcarrier_get(c);
	r->c = c;
	r->number = open.number;
	sr_vrequest_of(r, &open.question);
	number_of(c, open.number)->request = r;
	return true;
}

/* Memory is allocated before the lock is taken.  Otherwise a thread that holds malloc's lock, and
 * whose signal handler waits for the carrier's, would deadlock with this one. */
static bool take_open(struct sr_vcarrier *c)
{
	struct sr_vrequest *r = sr_vrequest_new();
	bool any;

	sr_vcarrier_lock(c);
	any = open_begins(c, r);
	sr_vcarrier_unlock(c);
	if (r && any)
		sr_link_request(&r->req);
	else if (r)
		sr_vrequest_free(r);
	return any;
}

void sr_vshare_refuse(struct sr_vrequest *r, const char *word)
{
	struct sr_vcarrier *c = r->c;
	struct sr_vnumber *n;
	uint16_t there[2];
	bool elsewhere = sr_there_verbs(there, word);

	sr_vcarrier_lock(c);
	if (request_leaves(r)) {
		n = number_say(c, r->number, elsewhere ? SR_RECORD_THERE : SR_RECORD_REFUSE);
		n->word = (uint8_t)(sr_reason_find(word) ?: SR_REASON_REFUSED);
		if (elsewhere)
			memcpy(n->there, there, sizeof(there));
		sr_vpost_gathered(c);
	}
	sr_vcarrier_unlock(c);
	sr_vlook_start(c, SR_LOOK);
	sr_vrequest_free(r);
}

void sr_vshare_tell(struct sr_vrequest *r, enum sr_first first)
{
	sr_vcarrier_lock(r->c);
	if (!r->gone && r->c->qp && !r->c->broken) {
		number_say(r->c, r->number, SR_RECORD_WORD)->word = (uint8_t)first;
		sr_vpost_gathered(r->c);
	}
	sr_vcarrier_unlock(r->c);
	r->req.holds = sr_first_holds(first);
}

struct sr_link *sr_vshare_accept(struct sr_vrequest *r, const struct sr_vlink_for *f,
				 const char **reason)
{
	struct sr_vcarrier *c = r->c;
	struct sr_vlink *l = sr_vlink_new(f);
	bool wanted;

	*reason = "memory";
	if (!l)
		return NULL;
	sr_vcarrier_lock(c);
	wanted = request_leaves(r);
	if (wanted) {
		number_of(c, r->number)->due = 0;
		number_of(c, r->number)->link = l;
		sr_number_accept(&c->share.numbers, r->number);
		l->number = r->number;
		sr_vcarrier_join(c, l);
		sr_link_raise(&l->link, SR_LINK_UP);
		l->link.greets = true;	/* HELLO goes behind ACCEPT, and both ends have greeted */
		l->tx.opens = SR_RECORD_ACCEPT;
		sr_vpost_queue(l);
		sr_vpost_gathered(c);
	}
	sr_vcarrier_unlock(c);
	if (wanted) {
		sr_vrequest_free(r);
		sr_vlook_link(l, SR_LOOK);
		return &l->link;
	}
	*reason = "peer-dropped";
	free(l);
	return NULL;
}

void sr_vshare_task(struct sr_task *t)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, share.task, t);

	sr_vrequests_gone(c);
	if (c->share.numbers.asks)
		sr_vreuse_retry(c);
	else
		while (c->share.open && take_open(c))
			;
	sr_vcarrier_put(c);
}
