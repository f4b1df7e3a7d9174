/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * spin.c - the guess whether a busy wait pays, on invented waits: how long one
 * takes awake and asleep is given, and what matters is how many are spun through.
 */
#include "base/spin.h"

#include "check.h"

#define LIMIT 100000

/* n waits; how many of them awake.  What is not over after LIMIT is slept on. */
static unsigned spun(struct sr_spin *sp, unsigned n, unsigned awake_ns,
		     unsigned asleep_ns)
{
	unsigned count = 0;

	while (n--) {
		bool awake = sr_spin_pays(sp, LIMIT, false);

		count += awake;
		sr_spin_learn(sp, LIMIT, awake ? awake_ns : asleep_ns);
	}
	return count;
}

int main(void)
{
	struct sr_spin sp = { 0 };

	/* quick answers: nearly always awake, from the first on */
	CHECK(sr_spin_pays(&sp, LIMIT, false));
	CHECK(spun(&sp, 1000, 1000, 40000) > 950);
	/* long ones: hardly ever */
	CHECK(spun(&sp, 10000, 1000000, 1000000) < 300);
	/* quick again, even if sleeping makes them less so */
	spun(&sp, 200, 1000, 40000);
	CHECK(spun(&sp, 1000, 1000, 40000) > 950);
	/* sleeping is as quick: leave the core to others */
	spun(&sp, 1000, 20000, 20000);
	CHECK(spun(&sp, 10000, 20000, 20000) < 300);
	/* sleeping is quicker */
	spun(&sp, 5000, 26000, 18000);
	CHECK(spun(&sp, 10000, 26000, 18000) < 300);
	/* it no longer is: found by a trial */
	spun(&sp, 10000, 1000, 18000);
	CHECK(spun(&sp, 1000, 1000, 18000) > 950);
	/* the core is wanted elsewhere, and then no more */
	CHECK(!sr_spin_stolen(&sp, LIMIT, 3000));
	CHECK(sr_spin_stolen(&sp, LIMIT, 3000000));
	CHECK(!sr_spin_pays(&sp, LIMIT, false));
	spun(&sp, 1000, 1000, 18000);
	CHECK(spun(&sp, 1000, 1000, 18000) > 950);
	/* the peer is to run here: asleep, and what that takes teaches nothing */
	CHECK(!sr_spin_pays(&sp, LIMIT, true));
	sr_spin_learn(&sp, LIMIT, 4 * LIMIT);
	CHECK(spun(&sp, 1000, 1000, 18000) > 950);
	/* off */
	CHECK(!sr_spin_pays(&sp, 0, false));
	return 0;
}
