/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_faults.h - for tests of the verbs link on a fake device.  Each case is a process of
 * its own, so that a hang or a crash is one case's:
 *
 *   PROGRAM [-v] [test ...]
 */
#ifndef VERBS_FAULTS_H
#define VERBS_FAULTS_H

#include "verbs_pair.h"

#include <limits.h>
#include <sys/syscall.h>

#include "check.h"

enum { HANG_S = 40, BYTES = 400 << 10, STRUCK = 0, NOT_STRUCK = 3 };

static _Thread_local uint64_t dice;

static unsigned below(unsigned n)
{
	return check_random(&dice) % n;
}

static inline bool never(struct end *e)
{
	(void)e;
	return false;
}

static inline bool all_acked(struct end *e)
{
	return atomic_load(&e->link->tx_acked) == atomic_load(&e->link->tx_w);
}

/* ---- a stream's life, in which everything may fail ---- */

static bool transfer(struct end *e, size_t n)
{
	struct writer w = {.e = e, .n = n, .seed = 1 + below(1000)};
	size_t got;

	CHECK(!pthread_create(&w.thread, NULL, write_all, &w));
	got = take(e, n, true);
	if (got < n)
		CHECK(dead(e));
	pthread_join(w.thread, NULL);
	return got == n && w.done == n;
}

/* True: nothing went wrong. */
static bool session(size_t n)
{
	struct end *e = ask_start(ECHO << 8 | 1, listen_port);
	bool ok = ask_wait(e);

	if (!e->link) {
		close_fds(e);
		return false;
	}
	ok = ok && transfer(e, n);
	if (ok) {
		finish(e);
		while (take(e, 1 << 20, false))
			;
		ok = !dead(e);
	}
	if (ok)
		send_plain(e, SR_MSG_ACKEND);
	else
		say("the link died: %s\n",
		    e->link->reason ? e->link->reason : "");
	let_go(e);
	return ok;
}

static void try_listen(void)
{
	int err = 0;

	CHECK(!loop_call(listen_call, &err));
	if (err)
		listener = NULL;
}

/* Each link of the case has a carrier of its own, whatever SOCKRAIL_CARRIERS says. */
static inline void begin_unshared(void)
{
	sr_conf.policy.carriers = 0;
	fake_plug(iwarp);
}

static void begin_case(void)
{
	fake_plug(iwarp);
}

static inline void begin_sharing(bool shares)
{
	if (shares)
		begin_case();
	else
		begin_unshared();
}

/* The links of every second case have carriers of their own. */
static inline void begin_numbered(unsigned n)
{
	begin_sharing(n % 2 == 0);
}

/* What failed fails no more: the next stream gets its link. */
static void end_case(void)
{
	fake_fail(NULL, 0, 0);
	fake_fail_send(NULL, 0, 0);
	fake_delay(0, 1);
	if (!sr_verbs_devices())
		fake_plug(iwarp);
	if (!listener)
		try_listen();
	CHECK(listener);
	CHECK(session(30000));
	CHECK(!atomic_load(&fake_rnrs));
	stop_answerer();
}

/* ---- the cases, each in a process ---- */

struct a_case {
	int (*fn)(unsigned, unsigned);
	unsigned a, b;
};

static int run(void *arg)
{
	const struct a_case *c = arg;

	dice = c->a * 1000 + c->b;
	return c->fn(c->a, c->b);
}

static int run_case(int (*fn)(unsigned, unsigned), unsigned a, unsigned b)
{
	struct a_case c = { fn, a, b };
	int status = in_process(run, &c, HANG_S);

	if (WIFEXITED(status) && (WEXITSTATUS(status) == STRUCK ||
				  WEXITSTATUS(status) == NOT_STRUCK))
		return WEXITSTATUS(status);
	fprintf(stderr, "case %u, %u: status %x\n", a, b, status);
	exit(1);
}

static void run_cases(const struct test *t)
{
	t->fn();
}

#endif
