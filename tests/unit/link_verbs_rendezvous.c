/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* link_verbs_rendezvous.c - the verbs link's rendezvous: refused, gone, many at once. */
#include "verbs_pair.h"

/* Many times: siw now and then has no event for it. */
static void test_refused(void)
{
	struct end *e;
	unsigned i;

	for (i = 0; i < 40; i++) {
		e = ask_start(0xdead, PORT);
		CHECK(!ask_wait(e));
		say("refused: %s\n", e->reason);
		CHECK(!strcmp(e->reason, "no-match"));
	}
	e = ask_start(1, PORT + 1);
	CHECK(!ask_wait(e));
	say("nobody there: %s\n", e->reason);
	CHECK(!strcmp(e->reason, "no-listener"));
}

static void cancel_call(void *arg)
{
	struct end *e = arg;

	sr_rendezvous_verbs.cancel(&e->ask);
}

/* The answerer's queue pair cannot be made any more; others' can. */
static void test_gone(void)
{
	struct end *e = ask_start(LATE, PORT);

	usleep(200 * 1000);
	CHECK(!loop_call(cancel_call, e));
	e = open_end(ECHO << 8 | 9);
	both_ways(e, 1000, 0);
	close_end(e);
}

static void test_many(void)
{
	enum { ASKED = 70 };
	struct end *e[ASKED], *one;
	unsigned i, k, n = 0;

	for (i = 0; i < ASKED; i++)
		e[i] = ask_start(ECHO << 8 | i, PORT);
	/* siw refuses some where they are many; their streams stay plain. */
	for (i = 0; i < ASKED; i++) {
		one = e[i];
		if (ask_wait(one))
			e[n++] = one;
		else
			fprintf(stderr, "(%s) ", one->reason ?: "dead");
	}
	CHECK(n == ASKED || (n >= ASKED - 7 &&
			     !strncmp(e[0]->link->name, "verbs:siw", 9)));
	for (k = 0; k < 20; k++)
		for (i = 0; i < n; i++)
			both_ways(e[i], 1 + k * 100 + i, 0);
	for (i = 0; i < n; i++)
		CHECK(put(e[i], 3000, true) == 3000);
	for (i = n; i-- > 0;)
		CHECK(take(e[i], 3000, true) == 3000);
	for (i = 0; i < n; i++)
		close_end(e[i]);
}

static const struct test tests[] = {
	{ "refused", test_refused, false },
	{ "gone", test_gone, false },
	{ "many", test_many, false },
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_answered);
}
