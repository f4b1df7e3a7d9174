/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_verbs_domains.c - several carriers between two processes: which of them an ask takes, when
 * it makes one more, and what it waits for.
 */
#include "verbs_faults.h"
#include "link/verbs/ask.h"

/* Queue pairs of a carrier; asks at the same time; in open_in(), a stream that is in no set. */
enum { QUEUE_PAIRS = 2, CROWD = 40, NO_DOMAIN = CROWD };

static char domains[CROWD];

static void begin_shared(unsigned most)
{
	sr_conf.policy.carriers = most;
	begin_case();
	try_listen();
}

static struct sr_vcarrier *carrier_of(struct end *e)
{
	return sr_vlink(e->link)->c;
}

static unsigned links_of(struct sr_vcarrier *c)
{
	unsigned n;

	sr_lock(&c->lock);
	n = c->share.numbers.used;
	sr_unlock(&c->lock);
	return n;
}

static bool asks_alone;

static struct end *open_in(unsigned domain, uint32_t no)
{
	struct end *e = ask_prepare(ECHO << 8 | no, listen_port);

	e->ask.alone = asks_alone;
	e->ask.domain = domain == NO_DOMAIN ? NULL : &domains[domain];
	CHECK(!loop_call(ask_call, e));
	CHECK(ask_wait(e));
	both_ways(e, 3000, no);
	return e;
}

static void end_all(struct end **e, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		both_ways(e[i], 3000, i);
		close_end(e[i]);
	}
	end_case();
}

/* Two domains have a carrier each.  Streams of one domain share its carrier. */
static int apart_case(unsigned a, unsigned b)
{
	struct end *e[4];

	(void)a, (void)b;
	begin_shared(8);
	for (unsigned i = 0; i < COUNT(e); i++)
		e[i] = open_in(i % 2, i);
	CHECK(carrier_of(e[0]) == carrier_of(e[2]));
	CHECK(carrier_of(e[1]) == carrier_of(e[3]));
	CHECK(carrier_of(e[0]) != carrier_of(e[1]));
	CHECK_EQ(fake_queue_pairs(), 2 * QUEUE_PAIRS);
	end_all(e, COUNT(e));
	return STRUCK;
}

/* At the limit an ask of another domain takes the carrier with the fewest links.  With the limit 1
 * all domains share one. */
static int limit_case(unsigned most, unsigned b)
{
	struct end *e[6];
	unsigned i;

	(void)b;
	begin_shared(most);
	for (i = 0; i < 3; i++)
		e[i] = open_in(0, i);
	for (; i < COUNT(e); i++)
		e[i] = open_in(i, i);
	CHECK_EQ(fake_queue_pairs(), most * QUEUE_PAIRS);
	if (most > 1) {
		CHECK(carrier_of(e[3]) != carrier_of(e[0]));
		CHECK(carrier_of(e[4]) == carrier_of(e[3]));
		CHECK(carrier_of(e[5]) == carrier_of(e[3]));
	}
	end_all(e, COUNT(e));
	return STRUCK;
}

/* Streams that are in no epoll set have a carrier each, below the limit. */
static int no_domain_case(unsigned most, unsigned b)
{
	struct end *e[4];
	unsigned i;

	(void)b;
	begin_shared(most);
	for (i = 0; i < COUNT(e); i++)
		e[i] = open_in(NO_DOMAIN, i);
	CHECK_EQ(fake_queue_pairs(), most * QUEUE_PAIRS);
	for (i = 0; i < COUNT(e); i++)
		CHECK_EQ(links_of(carrier_of(e[i])), COUNT(e) / most);
	end_all(e, COUNT(e));
	return STRUCK;
}

/* Beyond the limit a set keeps to the carrier that it shares with a stream of no set. */
static int adopts_case(unsigned a, unsigned b)
{
	struct end *e[5];

	(void)a, (void)b;
	begin_shared(2);
	e[0] = open_in(NO_DOMAIN, 0);
	e[1] = open_in(NO_DOMAIN, 1);
	for (unsigned i = 2; i < COUNT(e); i++)
		e[i] = open_in(1, i);
	CHECK(carrier_of(e[3]) == carrier_of(e[2]) && carrier_of(e[4]) == carrier_of(e[2]));
	end_all(e, COUNT(e));
	return STRUCK;
}

/* If there is too little memory for one more carrier, at the asker or, if `theirs', at the answerer,
 * an ask takes one that there is. */
static int lacks_case(unsigned theirs, unsigned b)
{
	struct end *e[3];

	(void)b;
	begin_shared(8);
	e[0] = open_in(0, 0);
	fake_may_pin(fake_pinned() + (theirs ? fake_pinned() / 2 : 0) + 4096);
	e[1] = open_in(1, 1);
	e[2] = open_in(NO_DOMAIN, 2);
	CHECK(carrier_of(e[1]) == carrier_of(e[0]));
	CHECK(carrier_of(e[2]) == carrier_of(e[0]));
	while (fake_queue_pairs() > QUEUE_PAIRS)	/* those that were refused */
		usleep(1000);
	fake_may_pin(0);
	end_all(e, COUNT(e));
	return STRUCK;
}

/* A carrier whose links have all ended is of no domain, and the next ask takes it.  From then on it
 * is of that ask's domain. */
static int unused_case(unsigned a, unsigned b)
{
	struct sr_vcarrier *c;
	struct end *e[3];

	(void)a, (void)b;
	begin_shared(8);
	e[0] = open_in(0, 0);
	c = carrier_of(e[0]);
	close_end(e[0]);
	while (links_of(c))
		usleep(1000);
	e[0] = open_in(1, 1);
	e[1] = open_in(0, 2);
	e[2] = open_in(1, 3);
	CHECK(carrier_of(e[0]) == c);
	CHECK(carrier_of(e[1]) != c);
	CHECK(carrier_of(e[2]) == c);
	CHECK_EQ(fake_queue_pairs(), 2 * QUEUE_PAIRS);
	end_all(e, COUNT(e));
	return STRUCK;
}

enum { THEIRS, OURS, ALONE };	/* whose rule; or it is asked for */

/* By its rule a stream has a carrier of its own: the asker's two in the middle, or, by the
 * answerer's, each.  The streams of other rules share theirs. */
static int rule_case(unsigned whose, unsigned b)
{
	struct sr_policy alone;
	struct end *e[4];

	(void)b;
	begin_shared(8);
	alone = sr_conf.policy;
	alone.carriers = 0;
	if (whose == THEIRS)
		answer_policy = &alone;
	e[0] = open_in(0, 0);
	if (whose == OURS)
		ask_policy = &alone;
	asks_alone = whose == ALONE;
	e[1] = open_in(0, 1);
	e[2] = open_in(0, 2);
	ask_policy = &sr_conf.policy;
	asks_alone = false;
	e[3] = open_in(0, 3);
	CHECK((carrier_of(e[0]) == carrier_of(e[3])) == (whose != THEIRS));
	CHECK_EQ(fake_queue_pairs(), (whose == THEIRS ? 4 : 3) * QUEUE_PAIRS);
	end_all(e, COUNT(e));
	return STRUCK;
}

/* Asks once more if the answerer says so. */
static void ask_until_there(struct end *e)
{
	if (ask_wait(e))
		return;
	say("first: %s\n", e->reason);
	CHECK(!e->link && !strcmp(e->reason, "timeout"));
	e->reason = NULL;
	CHECK(!loop_call(ask_call, e));
	CHECK(ask_wait(e));
}

/* A carrier whose links have all ended is kept for later ones, but not if another one needs its
 * memory, at the asker or, if `theirs', at the answerer. */
static int scarce_case(unsigned theirs, unsigned b)
{
	enum { IDLE = 3, ALL = 5 };
	size_t one;
	struct sr_vcarrier *c;
	struct end *e[ALL];
	unsigned i;

	(void)b;
	begin_shared(8);
	for (i = 0; i < ALL; i++) {
		e[i] = ask_prepare(ECHO << 8 | i, listen_port);
		e[i]->ask.tclass = (uint8_t)(4 * i);	/* each has a carrier of its own */
	}
	for (i = 0; i < IDLE; i++) {
		CHECK(!loop_call(ask_call, e[i]));
		CHECK(ask_wait(e[i]));
		both_ways(e[i], 3000, i);
		c = carrier_of(e[i]);
		close_end(e[i]);
		while (links_of(c))
			usleep(1000);
	}
	one = theirs ? fake_pinned() / IDLE / 2 : 0;	/* the asker's comes first */
	fake_may_pin(fake_pinned() + one + 4096);
	for (i = IDLE; i < ALL; i++)
		CHECK(!loop_call(ask_call, e[i]));
	for (i = IDLE; i < ALL; i++)
		ask_until_there(e[i]);
	fake_may_pin(0);
	end_all(e + IDLE, ALL - IDLE);
	return STRUCK;
}

/* ---- many that ask at the same time ---- */

static struct end *crowd[CROWD];
static unsigned leaders;	/* asks that the connection manager has */

static void ask_all(void *arg)
{
	struct sr_vask *a;

	(void)arg;
	for (unsigned i = 0; i < CROWD; i++)
		CHECK(!sr_rendezvous_verbs.ask(&crowd[i]->ask));
	for (a = sr_vasks; a; a = a->next)
		leaders += a->id != NULL;
}

static void ask_both(void *arg)
{
	struct end **e = arg;

	CHECK(!sr_rendezvous_verbs.ask(&e[0]->ask));
	CHECK(!sr_rendezvous_verbs.ask(&e[1]->ask));
	CHECK(((struct sr_vask *)e[1]->ask.kind)->id);
}

/* Nobody waits for a carrier that is to be shared with nobody. */
static int alone_case(unsigned a, unsigned b)
{
	struct end *e[2];

	(void)a, (void)b;
	begin_shared(1);
	for (unsigned i = 0; i < COUNT(e); i++)
		e[i] = ask_prepare(ECHO << 8 | i, listen_port);
	e[0]->ask.alone = true;
	CHECK(!loop_call(ask_both, e));
	for (unsigned i = 0; i < COUNT(e); i++)
		CHECK(ask_wait(e[i]));
	end_all(e, COUNT(e));
	return STRUCK;
}

/* Those of a domain wait for the carrier that its first ask makes.  At the limit all wait.  (On a
 * busy machine they may wait for too long, and then make carriers themselves.) */
static int crowd_case(unsigned n, unsigned most)
{
	unsigned i;

	begin_shared(most);
	for (i = 0; i < CROWD; i++) {
		crowd[i] = ask_prepare(ECHO << 8 | i, listen_port);
		crowd[i]->ask.domain = &domains[i % n];
	}
	CHECK(!loop_call(ask_all, NULL));
	CHECK_EQ(leaders, n < most ? n : most);
	for (i = 0; i < CROWD; i++)
		CHECK(ask_wait(crowd[i]));
	say("%u queue pairs\n", fake_queue_pairs());
	end_all(crowd, CROWD);
	return STRUCK;
}

static void test_apart(void)
{
	run_case(apart_case, 0, 0);
}

static void test_limit(void)
{
	run_case(limit_case, 1, 0);
	run_case(limit_case, 2, 0);
	run_case(no_domain_case, 4, 0);
	run_case(no_domain_case, 2, 0);
	run_case(adopts_case, 0, 0);
	run_case(lacks_case, false, 0);
	run_case(lacks_case, true, 0);
}

static void test_unused(void)
{
	run_case(unused_case, 0, 0);
	run_case(scarce_case, 0, 0);
	run_case(scarce_case, 1, 0);
}

static void test_rule(void)
{
	run_case(rule_case, THEIRS, 0);
	run_case(rule_case, OURS, 0);
	run_case(rule_case, ALONE, 0);
	run_case(alone_case, 0, 0);
}

static void test_crowd(void)
{
	run_case(crowd_case, 1, 8);
	run_case(crowd_case, 4, 8);
	run_case(crowd_case, CROWD, 8);
	run_case(crowd_case, 4, 1);
}

static const struct test tests[] = {
	{"apart", test_apart, false},
	{"limit", test_limit, false},
	{"unused", test_unused, false},
	{"rule", test_rule, false},
	{"crowd", test_crowd, false},
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_cases);
}
