/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * number.c - the machine of numbers does what its table says, in each state with each record;
 * and two ends that keep to it agree on every number, whatever crosses on the way.
 */
#include "pure/number.h"

#include "check.h"
#include "pure/packet.h"

/* ---- the table ---- */

#define FREE SR_NUMBER_FREE
#define ASKED SR_NUMBER_ASKED
#define OPENED SR_NUMBER_OPEN
#define LEFT SR_NUMBER_LEFT
#define DUE SR_NUMBER_DUE
#define STATES (SR_NUMBER_DUE + 1)

/* What a record does to a number in each state; the news WRONG leaves it as it is. */
struct step {
	enum sr_number_news news;
	enum sr_number_state then;
};
#define WRONG {SR_NUMBER_WRONG, FREE}
#define TAKEN(then) {SR_NUMBER_RECORD, then}
#define THROWN {SR_NUMBER_IGNORE, LEFT}
#define ENDS {SR_NUMBER_ENDS, DUE}
#define ENDED {SR_NUMBER_ENDED, FREE}

static const struct {
	unsigned type;
	bool asks;		/* at the asker's end */
	struct step step[STATES]; /* FREE, ASKED, OPEN, LEFT, DUE */
} table[] = {
	{SR_RECORD_OPEN, true, {WRONG, WRONG, WRONG, WRONG, WRONG}},
	{SR_RECORD_OPEN, false, {{SR_NUMBER_NEW, ASKED}, WRONG, WRONG, WRONG, WRONG}},
	{SR_RECORD_WORD, true, {WRONG, TAKEN(ASKED), WRONG, THROWN, WRONG}},
	{SR_RECORD_WORD, false, {WRONG, WRONG, WRONG, WRONG, WRONG}},
	{SR_RECORD_ACCEPT, true, {WRONG, TAKEN(OPENED), WRONG, THROWN, WRONG}},
	{SR_RECORD_ACCEPT, false, {WRONG, WRONG, WRONG, WRONG, WRONG}},
	{SR_RECORD_REFUSE, true, {WRONG, ENDS, WRONG, ENDED, WRONG}},
	{SR_RECORD_REFUSE, false, {WRONG, WRONG, WRONG, WRONG, WRONG}},
	{SR_RECORD_THERE, true, {WRONG, ENDS, WRONG, ENDED, WRONG}},
	{SR_RECORD_THERE, false, {WRONG, WRONG, WRONG, WRONG, WRONG}},
	{SR_RECORD_DROP, true, {WRONG, ENDS, ENDS, ENDED, WRONG}},
	{SR_RECORD_DROP, false, {WRONG, ENDS, ENDS, ENDED, WRONG}},
	{SR_MSG_HELLO, true, {WRONG, WRONG, TAKEN(OPENED), THROWN, WRONG}},
	{SR_MSG_HELLO, false, {WRONG, TAKEN(ASKED), TAKEN(OPENED), THROWN, WRONG}},
	{SR_MSG_SWITCH, true, {WRONG, WRONG, TAKEN(OPENED), THROWN, WRONG}},
	{SR_MSG_SWITCH, false, {WRONG, TAKEN(ASKED), TAKEN(OPENED), THROWN, WRONG}},
	{SR_MSG_BYTES, true, {WRONG, WRONG, TAKEN(OPENED), THROWN, WRONG}},
	{SR_MSG_BYTES, false, {WRONG, WRONG, TAKEN(OPENED), THROWN, WRONG}},
	{SR_MSG_ACK, true, {WRONG, WRONG, TAKEN(OPENED), THROWN, WRONG}},
	{SR_MSG_ACK, false, {WRONG, WRONG, TAKEN(OPENED), THROWN, WRONG}},
};

static void each_step(void)
{
	struct sr_number number[3];
	struct sr_numbers s;
	const struct step *want;

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (unsigned state = 0; state < STATES; state++) {
			check_about("type and state", table[i].type * 10 + state);
			want = &table[i].step[state];
			memset(number, 0, sizeof(number));
			sr_numbers_init(&s, number, 3, table[i].asks);
			number[1].state = (enum sr_number_state)state;
			s.used = state != FREE;
			s.held = s.used && state != LEFT;
			CHECK_EQ(sr_number_comes(&s, 2, table[i].type), want->news);
			CHECK_EQ(number[1].state,
				 want->news == SR_NUMBER_WRONG ? state : want->then);
			CHECK_EQ(s.used, number[1].state != FREE);
			CHECK_EQ(s.held, s.used && number[1].state != LEFT);
		}
	CHECK_EQ(sr_number_comes(&s, 0, SR_MSG_ACK), SR_NUMBER_WRONG);
	CHECK_EQ(sr_number_comes(&s, 4, SR_MSG_ACK), SR_NUMBER_WRONG);
}

/* ---- numbers and limits ---- */

static void lowest_first(void)
{
	struct sr_number number[3] = {0};
	struct sr_numbers s;

	sr_numbers_init(&s, number, 3, true);
	for (unsigned i = 1; i <= 3; i++)
		CHECK_EQ(sr_number_open(&s), i);
	CHECK_EQ(sr_number_open(&s), 0);
	CHECK(!sr_number_leave(&s, 3));
	CHECK_EQ(sr_number_comes(&s, 3, SR_RECORD_DROP), SR_NUMBER_ENDED);
	CHECK_EQ(sr_number_comes(&s, 1, SR_RECORD_REFUSE), SR_NUMBER_ENDS);
	CHECK(!sr_number_may_post(&s, 1));
	CHECK_EQ(s.held, 2);
	CHECK(sr_number_leave(&s, 1));
	CHECK_EQ(s.used, 1);
	CHECK_EQ(s.held, 1);
	CHECK_EQ(sr_number_open(&s), 1);
	CHECK_EQ(sr_number_open(&s), 3);
	CHECK_EQ(sr_number_open(&s), 0);
}

enum { MANY = 200 };

static void few_unproven(void)
{
	struct sr_number asker[MANY] = {0}, answerer[MANY] = {0};
	struct sr_numbers a, b;
	unsigned n;

	sr_numbers_init(&a, asker, MANY, true);
	sr_numbers_init(&b, answerer, MANY, false);
	for (n = 1; n <= SR_UNPROVEN_FIRST; n++) {
		CHECK_EQ(sr_number_open(&a), n);
		CHECK_EQ(sr_number_comes(&b, n, SR_RECORD_OPEN), SR_NUMBER_NEW);
	}
	CHECK_EQ(sr_number_open(&a), 0);
	CHECK_EQ(sr_number_comes(&b, n, SR_RECORD_OPEN), SR_NUMBER_BUSY);
	CHECK(!sr_number_leave(&b, n));		/* REFUSE; a liar need not send DROP, */
	CHECK_EQ(b.unproven, SR_UNPROVEN_FIRST + 1);
	CHECK_EQ(sr_number_comes(&b, n, SR_RECORD_DROP), SR_NUMBER_ENDED);
	CHECK_EQ(b.unproven, SR_UNPROVEN_FIRST);

	sr_number_prove(&b, 1);
	sr_number_prove(&b, 1);
	sr_number_prove(&a, 1);
	for (n = SR_UNPROVEN_FIRST + 1; n <= SR_UNPROVEN_LATER + 1; n++) {
		CHECK_EQ(sr_number_open(&a), n);
		CHECK_EQ(sr_number_comes(&b, n, SR_RECORD_OPEN), SR_NUMBER_NEW);
	}
	CHECK_EQ(sr_number_open(&a), 0);
	CHECK_EQ(sr_number_comes(&b, n, SR_RECORD_OPEN), SR_NUMBER_BUSY);
	CHECK(!sr_number_leave(&a, 2));		/* its own last record is enough for the asker */
	CHECK_EQ(sr_number_open(&a), SR_UNPROVEN_LATER + 2);
}

/* ---- two ends ---- */

enum { NUMBERS = 6, FLIGHT = 16, STEPS = 4000 };

struct end {
	struct sr_number table[NUMBERS];
	struct sr_numbers numbers;
	unsigned link[NUMBERS];	/* which link an end takes the number for */
	struct {
		unsigned number, type, link;
	} sent[FLIGHT];		/* on their way from here */
	unsigned head, tail;
};

static bool has_room(const struct end *e)
{
	return e->head - e->tail < FLIGHT;
}

static void post_record(struct end *e, unsigned number, unsigned type)
{
	unsigned i = e->head++ % FLIGHT;

	e->sent[i].number = number;
	e->sent[i].type = type;
	e->sent[i].link = e->link[number - 1];
}

/* The type of this end's last record: what suits the state. */
static unsigned last_type(const struct end *e, bool accepted, uint64_t random)
{
	if (e->numbers.asks || accepted)
		return SR_RECORD_DROP;
	return random & 1 ? SR_RECORD_REFUSE : SR_RECORD_THERE;
}

static void end_moves(struct end *e, unsigned *links, bool opens, uint64_t random)
{
	unsigned number = 1 + (unsigned)(random >> 8) % NUMBERS;
	struct sr_number *n = &e->table[number - 1];
	bool asks = e->numbers.asks;

	if (!has_room(e))
		return;
	if (n->state == DUE || (n->state != LEFT && n->state != FREE && !(random >> 16 & 7))) {
		post_record(e, number, last_type(e, n->state == OPENED, random));
		sr_number_leave(&e->numbers, number);
	} else if (n->state == FREE && asks && opens) {
		number = sr_number_open(&e->numbers);
		if (!number)
			return;
		e->link[number - 1] = ++*links;
		post_record(e, number, SR_RECORD_OPEN);
	} else if (n->state == ASKED && !asks) {
		post_record(e, number, random & 2 ? SR_RECORD_ACCEPT : SR_RECORD_WORD);
		if (random & 2)
			sr_number_accept(&e->numbers, number);
	} else if (n->state == OPENED) {
		if (!asks)	/* it is convinced before it says so */
			sr_number_prove(&e->numbers, number);
		post_record(e, number, SR_MSG_BYTES);
	}
}

/* A record finds the link that it was sent for.  (An answerer in state DUE that had not accepted
 * says REFUSE, one that had says DROP: the asker, in state LEFT, takes either.) */
static void record_arrives(struct end *from, struct end *at)
{
	unsigned i = from->tail % FLIGHT, number = from->sent[i].number;
	unsigned type = from->sent[i].type;
	enum sr_number_news news;

	if (from->head == from->tail)
		return;
	from->tail++;
	news = sr_number_comes(&at->numbers, number, type);
	CHECK(news != SR_NUMBER_WRONG && news != SR_NUMBER_BUSY);
	if (news == SR_NUMBER_NEW)
		at->link[number - 1] = from->sent[i].link;
	else if (news == SR_NUMBER_RECORD && type == SR_MSG_BYTES && at->numbers.asks)
		sr_number_prove(&at->numbers, number);
	CHECK_EQ(at->link[number - 1], from->sent[i].link);
}

static void ends_agree(uint64_t seed)
{
	struct end e[2] = {0};
	unsigned links = 0;
	uint64_t random;

	sr_numbers_init(&e[0].numbers, e[0].table, NUMBERS, true);
	sr_numbers_init(&e[1].numbers, e[1].table, NUMBERS, false);
	for (int i = 0; i < STEPS; i++) {
		random = check_random(&seed);
		if (random & 1)
			end_moves(&e[random >> 1 & 1], &links, i < STEPS / 2, random >> 2);
		else
			record_arrives(&e[random >> 1 & 1], &e[!(random >> 1 & 1)]);
	}
	CHECK(links > NUMBERS);
	CHECK_EQ(e[0].numbers.used, 0);
	CHECK_EQ(e[1].numbers.used, 0);
	CHECK_EQ(e[0].numbers.unproven, 0);
	CHECK_EQ(e[1].numbers.unproven, 0);
}

int main(void)
{
	each_step();
	lowest_first();
	few_unproven();
	for (uint64_t seed = 1; seed <= 300; seed++) {
		check_about("seed", seed);
		ends_agree(seed);
	}
	return 0;
}
