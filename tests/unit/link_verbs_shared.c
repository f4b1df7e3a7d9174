/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_verbs_shared.c - several links on one carrier: bytes of both, numbers that are used again,
 * ends that cross, peers that lie, and the carrier's own end.
 */
#include "verbs_faults.h"

#include <semaphore.h>

enum { QUEUE_PAIRS = 2, AGAIN = 70000, MANY = 200 };

/* As begin_case(), for ends that share. */
static void begin_shared(void)
{
	sr_conf.policy.carriers = 1;
	begin_case();
	try_listen();
}

static struct sr_vcarrier *carrier_of(struct end *e)
{
	return sr_vlink(e->link)->c;
}

static bool goes_on(struct end *e)
{
	both_ways(e, 30000, 3);
	return !dead(e);
}

/* What is left of the carrier's numbers. */
static unsigned numbers_used(struct sr_vcarrier *c)
{
	unsigned used;

	sr_lock(&c->lock);
	used = c->share.numbers.used;
	sr_unlock(&c->lock);
	return used;
}

static void await_used(struct sr_vcarrier *c, unsigned used)
{
	for (int i = 0; i < wait_limit && numbers_used(c) != used; i++)
		usleep(1000);
	CHECK_EQ(numbers_used(c), used);
}

static void *run_both_ways(void *arg)
{
	both_ways(arg, 2 << 20, 5);
	return NULL;
}

/* Two links move bytes both ways at the same time; one ends, and the other one goes on.  A later
 * link has the number of the one that ended. */
static int two_case(unsigned a, unsigned b)
{
	struct end *e, *f, *g;
	pthread_t t;

	(void)a, (void)b;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	CHECK(!last_end->link->greets);
	f = open_end(ECHO << 8 | 2);
	CHECK(carrier_of(e) == carrier_of(f) && last_end->link->greets);
	CHECK_EQ(fake_queue_pairs(), QUEUE_PAIRS);
	CHECK(!pthread_create(&t, NULL, run_both_ways, e));
	both_ways(f, 2 << 20, 6);
	pthread_join(t, NULL);
	f->link->ops->drop(f->link, "option");
	put_link(f);
	CHECK(goes_on(e));
	await_used(carrier_of(e), 1);
	g = open_end(ECHO << 8 | 3);
	CHECK_EQ(sr_vlink(g->link)->number, 2);
	CHECK(goes_on(g) && goes_on(e));
	close_end(e);
	CHECK(goes_on(g));
	close_end(g);
	CHECK_EQ(fake_queue_pairs(), QUEUE_PAIRS);
	end_case();
	return STRUCK;
}

static void test_two(void)
{
	run_case(two_case, 0, 0);
}

/* Only a carrier's first link may begin with registered rings, because OPEN registers nothing. */
static int large_case(unsigned a, unsigned b)
{
	struct end *e, *f;

	(void)a, (void)b;
	sr_conf.policy.ring_first = 4 * SR_V_ORDINARY;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	f = open_end(ECHO << 8 | 2);
	CHECK(carrier_of(e) == carrier_of(f));
	CHECK_EQ(e->link->ops->ring(e->link, true), 4 * SR_V_ORDINARY);
	CHECK_EQ(f->link->ops->ring(f->link, true), SR_V_ORDINARY);
	both_ways(e, 2 << 20, 5);
	both_ways(f, 2 << 20, 6);
	close_end(e);
	close_end(f);
	end_case();
	return STRUCK;
}

static void test_large(void)
{
	run_case(large_case, 0, 0);
}

struct looked {
	struct sr_vcarrier *c;
	bool watched;
	uint64_t tick;
};

static void look_at(void *arg)
{
	struct looked *k = arg;

	k->watched = k->c->cq.watched;
	k->tick = k->c->look.tick;
}

/* A program uses the carrier, so that its service thread does not watch it: the asker's, or the
 * answerer's (theirs).  When a link is opened, the service thread takes what comes soon, and not in
 * its next tick.  (One tick in ten may come just then.) */
static int in_use_case(unsigned theirs, unsigned b)
{
	unsigned i, soon = 0;
	struct looked k, was;
	struct end *e, *f;

	(void)b;
	begin_shared();
	e = open_end(DEAF << 8 | 1);
	k.c = theirs ? sr_vlink(last_end->link)->c : carrier_of(e);
	for (i = 0; i < 10; i++) {
		do {
			sr_vlook_start(k.c, SR_LOOK);	/* as traffic does: or there are no ticks */
			sr_vcq_look(k.c);
			CHECK(!loop_call(look_at, &k));
		} while (k.watched);
		was = k;
		f = open_end(ECHO << 8 | 2);
		CHECK(!loop_call(look_at, &k));
		soon += k.tick == was.tick;
		close_end(f);
	}
	say("%u of %u at once\n", soon, i);
	CHECK(soon >= 3);
	close_end(e);
	end_case();
	return STRUCK;
}

static void test_in_use(void)
{
	run_case(in_use_case, 0, 0);
	run_case(in_use_case, 1, 0);
}

/* How many packets the carrier has posted; if `quiet', once all of them have completed. */
static uint64_t packets_posted(struct sr_vcarrier *c, bool quiet)
{
	uint64_t posted, arrived;
	int i = 0;

	do {
		sr_vcq_look(c);
		sr_lock(&c->lock);
		posted = c->out.packets;
		arrived = c->out.arrived;
		sr_unlock(&c->lock);
	} while (quiet && posted != arrived && ++i < wait_limit && !usleep(1000));
	CHECK(!quiet || posted == arrived);
	return posted;
}

struct gathering {
	struct end *e[20];
	struct sr_vcarrier *c;
	bool steady;
	enum { NOT, ARMS, ELSEWHERE } sleeps;
	uint64_t packets, more;	/* for all messages, and as a thread is about to sleep */
};

static atomic_bool loop_stands;

static void stand(void *arg)
{
	(void)arg;
	loop_stands = true;
	while (loop_stands)
		usleep(100);
}

static void *stop_loop(void *arg)
{
	CHECK(!loop_call(stand, arg));
	return NULL;
}

/* While the service thread does not look.  The device stands still. */
static void say_all(struct gathering *g)
{
	struct sr_link *first = g->e[0]->link;
	uint64_t posted = packets_posted(g->c, false);
	unsigned i;
	int fd;

	for (i = 0; i < COUNT(g->e); i++)
		put(g->e[i], 64, true);
	g->packets = packets_posted(g->c, false) - posted;
	if (!g->sleeps)
		return;
	if (g->sleeps == ELSEWHERE) {
		sr_links_before_wait();
		g->more = packets_posted(g->c, false) - posted - g->packets;
		CHECK(!sr_link_left);
		return;
	}
	fd = first->ops->arm(first, SR_NOTIFY_RX);
	g->more = packets_posted(g->c, false) - posted - g->packets;
	first->ops->awake(first, SR_NOTIFY_RX, fd >= 0, false);
}

/* Links that have something to say while a packet is under way have it in one packet, which goes
 * when the service thread looks, or when a thread is about to sleep for one of the links, or for
 * something else. */
static int gather_case(unsigned sleeps, unsigned b)
{
	struct gathering g = { .sleeps = sleeps };
	pthread_t t;
	unsigned i;

	(void)b;
	begin_shared();
	for (i = 0; i < COUNT(g.e); i++) {
		g.e[i] = open_end(ECHO << 8 | (i + 1));
		both_ways(g.e[i], 100, 3);
	}
	g.c = carrier_of(g.e[0]);
	usleep(200 * 1000);	/* ACKs that are due later */
	packets_posted(g.c, true);
	fake_pause(true);
	CHECK(!pthread_create(&t, NULL, stop_loop, NULL));
	while (!loop_stands)
		usleep(100);
	say_all(&g);
	loop_stands = false;
	CHECK(!pthread_join(t, NULL));
	CHECK_EQ(g.packets, 1);
	CHECK_EQ(g.more, sleeps != NOT);
	fake_pause(false);
	for (i = 0; i < COUNT(g.e); i++) {
		CHECK_EQ(take(g.e[i], 64, true), 64);
		close_end(g.e[i]);
	}
	end_case();
	return STRUCK;
}

static void see_steady(void *arg)
{
	struct gathering *g = arg;

	g->steady = g->c->look.steady > 20;
}

static uint64_t packets_out(struct sr_vcarrier *c)
{
	uint64_t n;

	sr_lock(&c->lock);
	n = c->out.packets;
	sr_unlock(&c->lock);
	return n;
}

/* The service thread leaves a program alone that sends and looks all the time.  When that stops, what
 * it has left still goes. */
static int steady_case(unsigned a, unsigned b)
{
	struct gathering g = { 0 };
	uint64_t posted;
	int n;

	(void)a, (void)b;
	begin_shared();
	for (n = 0; n < 2; n++)
		g.e[n] = open_end(ECHO << 8 | (n + 1));
	g.c = carrier_of(g.e[0]);
	for (n = 0; n < wait_limit && !g.steady; n++) {
		for (int i = 0; i < 8; i++)
			put(g.e[i % 2], 64, true);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(take(g.e[i], 256, true), 256);
		CHECK(!loop_call(see_steady, &g));
	}
	CHECK(g.steady);
	packets_posted(g.c, true);
	fake_pause(true);
	posted = packets_out(g.c);
	put(g.e[0], 64, true);
	put(g.e[1], 64, true);
	for (n = 0; n < wait_limit && packets_out(g.c) - posted < 2; n++)
		usleep(1000);
	CHECK_EQ(packets_out(g.c) - posted, 2);
	fake_pause(false);
	for (n = 0; n < 2; n++) {
		CHECK_EQ(take(g.e[n], 64, true), 64);
		close_end(g.e[n]);
	}
	end_case();
	return STRUCK;
}

static void test_gather(void)
{
	run_case(steady_case, 0, 0);
	run_case(gather_case, NOT, 0);
	run_case(gather_case, ARMS, 0);
	run_case(gather_case, ELSEWHERE, 0);
}

/* The receiver of one link does not read: its sender is out of credit, the other one is not. */
static int full_case(unsigned a, unsigned b)
{
	struct end *deaf, *e;
	struct iovec v[2];

	(void)a, (void)b;
	begin_shared();
	deaf = open_end(DEAF << 8 | 1);
	e = open_end(ECHO << 8 | 2);
	CHECK(carrier_of(deaf) == carrier_of(e));
	put(deaf, 256 << 10, true);
	both_ways(e, 4 << 20, 7);
	CHECK(deaf->link->ops->tx_room(deaf->link, v) == 0 || deaf->link->tx_acked > START);
	put(deaf, 1 << 20, true);
	close_end(e);
	finish(deaf);
	CHECK(take(deaf, SIZE_MAX, true) == 1);
	send_plain(deaf, SR_MSG_ACKEND);
	let_go(deaf);
	end_case();
	return STRUCK;
}

static void test_full(void)
{
	run_case(full_case, 0, 0);
}

/* A thread that slept for several links of a carrier reads its events once. */
static int slept_case(unsigned a, unsigned b)
{
	enum { LINKS = 6 };
	struct end *e[LINKS];
	struct pollfd p = { .events = POLLIN };
	unsigned i, calls;

	(void)a, (void)b;
	begin_shared();
	for (i = 0; i < LINKS; i++)
		e[i] = open_end(ECHO << 8 | i);
	for (i = 0; i < LINKS; i++)
		p.fd = e[i]->link->ops->arm(e[i]->link, SR_NOTIFY_RX);
	CHECK(p.fd >= 0);
	sr_vcq_look(carrier_of(e[0]));
	CHECK(put(e[0], 100, true) == 100);
	CHECK(poll(&p, 1, -1) == 1);
	calls = fake_calls("v_get_cq_event");
	for (i = 0; i < LINKS; i++)
		e[i]->link->ops->awake(e[i]->link, SR_NOTIFY_RX, true, true);
	CHECK(fake_calls("v_get_cq_event") - calls < LINKS);
	CHECK(take(e[0], 100, true) == 100);
	for (i = 0; i < LINKS; i++)
		close_end(e[i]);
	end_case();
	return STRUCK;
}

/* Asks that wait: for the first one's answer, and for numbers while links are unproven. */
static int many_case(unsigned a, unsigned b)
{
	struct end *e[MANY];
	unsigned i;

	(void)a, (void)b;
	begin_shared();
	for (i = 0; i < MANY; i++)
		e[i] = ask_start(ECHO << 8 | (i & 0x7f), PORT);
	for (i = 0; i < MANY; i++)
		if (!ask_wait(e[i]))
			say("%u: %s\n", i, e[i]->reason ?: e[i]->link->reason);
	say("%u queue pairs\n", fake_queue_pairs());
	CHECK(fake_queue_pairs() <= 4 * QUEUE_PAIRS);
	for (i = 0; i < MANY; i++)
		both_ways(e[i], 1 + i * 10, 0);
	for (i = 0; i < MANY; i++)
		close_end(e[i]);
	end_case();
	return STRUCK;
}

/* The carrier is killed with all its links. */
static int killed_case(unsigned how, unsigned b)
{
	struct end *e[MANY];
	struct iovec v[2];
	unsigned i;

	(void)b;
	begin_shared();
	for (i = 0; i < MANY; i++)
		e[i] = open_end(DEAF << 8 | (i & 0x7f));
	CHECK_EQ(fake_queue_pairs(), QUEUE_PAIRS);
	for (i = 0; i < MANY; i++)
		CHECK(put(e[i], 3000, true) == 3000);
	if (how)
		fake_kill();
	else
		fake_flush();
	for (i = 0; i < MANY; i++) {
		CHECK(!await(e[i], SR_NOTIFY_RX, never));
		CHECK(!e[i]->link->ops->tx_retained(e[i]->link, START, v) ||
		      *(uint8_t *)v[0].iov_base == pattern(e[i]->no, true, START));
		put_link(e[i]);
	}
	end_case();
	return STRUCK;
}

static bool has_asked(struct sr_vcarrier *c)
{
	bool has;

	sr_lock(&c->lock);
	has = c->out.probe_out;
	sr_unlock(&c->lock);
	return has;
}

/* The peer has bytes that its program does not read, and must say that it lives.  The link that has
 * asked it to ends before the answer; another one asks the next time. */
static int probe_case(unsigned a, unsigned b)
{
	struct end *e, *f;

	(void)a, (void)b;
	sr_conf.retry_ms = 400;
	begin_shared();
	e = open_end(DEAF << 8 | 1);
	f = open_end(ECHO << 8 | 2);
	CHECK(carrier_of(e) == carrier_of(f));
	CHECK(put(e, 3000, true) == 3000);
	both_ways(f, 1000, 3);
	fake_pause(true);
	for (int i = 0; i < wait_limit && !has_asked(carrier_of(e)); i++)
		usleep(1000);
	CHECK(has_asked(carrier_of(e)));
	f->link->ops->drop(f->link, "short");
	fake_pause(false);
	put_link(f);
	usleep(2 * sr_conf.retry_ms * 1000);
	CHECK(!dead(e));
	await_used(carrier_of(e), 1);
	put_link(e);
	end_case();
	return STRUCK;
}

static void fail_and_put(void *arg)
{
	struct end *e = arg;

	sr_vcarrier_fail(carrier_of(e), "device-failed");
	put_call(e);
}

/* The carrier fails on this side, and its peer may be writing.  Its queue pair goes before the ring
 * of a link that nobody has any more. */
static int failed_case(unsigned a, unsigned b)
{
	struct end *e, *f;

	(void)a, (void)b;
	sr_conf.policy.ring_max = 2 * SR_V_ORDINARY;	/* rings are registered once, and none goes before */
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	f = open_end(ECHO << 8 | 2);
	CHECK(carrier_of(e) == carrier_of(f));
	both_ways(e, 2 << 20, 5);
	CHECK(sr_vlink(e->link)->rx.ring[0].mr || sr_vlink(e->link)->rx.ring[1].mr);
	CHECK(!loop_call(fail_and_put, e));
	CHECK(!await(f, SR_NOTIFY_RX, never));
	put_link(f);
	for (int i = 0; i < wait_limit && fake_queue_pairs(); i++)
		usleep(1000);
	CHECK_EQ(fake_queue_pairs(), 0);
	CHECK_EQ(fake_open_regions, 0);
	end_case();
	return STRUCK;
}

static void test_many(void)
{
	run_case(slept_case, 0, 0);
	run_case(many_case, 0, 0);
	run_case(killed_case, 0, 0);
	run_case(killed_case, 1, 0);
	run_case(probe_case, 0, 0);
	run_case(failed_case, 0, 0);
}

/* ---- numbers used again ---- */

static unsigned refusals, again;
static sem_t refused_all;

static void refused_again(struct sr_ask *ask, struct sr_link *link, const char *reason)
{
	CHECK(!link && !strcmp(reason, "no-match"));
	if (++refusals == again)
		CHECK(!sem_post(&refused_all));
	else
		CHECK(!sr_rendezvous_verbs.ask(ask));
}

static int again_case(unsigned a, unsigned b)
{
	struct end *e, *f;

	(void)a, (void)b;
	again = getenv("SR_TEST_SHORT") ? AGAIN / 20 : AGAIN;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	f = ask_prepare(0xdead, PORT);
	f->ask.done = refused_again;
	CHECK(!sem_init(&refused_all, 0, 0));
	CHECK(!loop_call(ask_call, f));
	while (sem_wait(&refused_all))
		;
	CHECK_EQ(fake_queue_pairs(), QUEUE_PAIRS);
	await_used(carrier_of(e), 1);
	f = open_end(ECHO << 8 | 2);
	CHECK(carrier_of(f) == carrier_of(e) && sr_vlink(f->link)->number == 2);
	CHECK(goes_on(e) && goes_on(f));
	close_end(f);
	close_end(e);
	end_case();
	return STRUCK;
}

static void test_again(void)
{
	run_case(again_case, 0, 0);
}

/* ---- ends that cross ---- */

static struct sr_request *late;

static void keep_request(struct sr_request *req)
{
	if (req->name.link_no == LATE)
		late = req;
	else
		request(req);
}

static void keep_call(void *arg)
{
	(void)arg;
	sr_link_request = keep_request;
}

static void cancel_call(void *arg)
{
	struct end *e = arg;

	sr_rendezvous_verbs.cancel(&e->ask);
}

static atomic_bool late_gone;

static void late_goes(struct sr_request *req)
{
	CHECK(req == late);
	late = NULL;
	late_gone = true;
}

static void is_late_call(void *arg)
{
	sr_link_gone = late_goes;
	*(bool *)arg = late;
}

static void refuse_call(void *arg)
{
	(void)arg;
	late->ops->refuse(late, "no-match");
	late = NULL;
}

static void accept_call(void *arg)
{
	CHECK(!late_gone);
	request(late);
	(void)arg;
}

/* The asker gives up what the answerer is about to refuse (how 0), accept (1), or does not answer
 * yet (2).  Either way the number is free behind it, at both ends. */
static int crossing_case(unsigned how, unsigned b)
{
	struct end *e, *f, *g;
	bool here = false;

	(void)b;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	CHECK(!loop_call(keep_call, NULL));
	f = ask_start(LATE, PORT);
	while (!here) {
		usleep(1000);
		CHECK(!loop_call(is_late_call, &here));
	}
	fake_pause(true);
	if (how < 2)
		CHECK(!loop_call(how ? accept_call : refuse_call, NULL));
	CHECK(!loop_call(cancel_call, f));
	fake_pause(false);
	if (how == 2)
		while (!late_gone)
			usleep(1000);
	await_used(carrier_of(e), 1);
	CHECK(goes_on(e));
	g = open_end(ECHO << 8 | 3);
	CHECK_EQ(sr_vlink(g->link)->number, 2);
	CHECK(goes_on(g));
	close_end(g);
	close_end(e);
	end_case();
	return STRUCK;
}

static void tell_call(void *arg)
{
	(void)arg;
	CHECK(!late->ops->tell(late, SR_FIRST_COMING));	/* the request still needs its answer */
	late->holds = SR_HOLDS_NOT;
}

/* A first answer travels on the carrier, before the answer: a refusal (how 0), or a link (1). */
static int first_answer_case(unsigned how, unsigned b)
{
	struct end *e, *f;
	bool here = false;

	(void)b;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	CHECK(!loop_call(keep_call, NULL));
	ask_holds = true;
	f = ask_start(LATE, PORT);
	ask_holds = false;
	while (!here) {
		usleep(1000);
		CHECK(!loop_call(is_late_call, &here));
	}
	CHECK(!loop_call(tell_call, NULL));
	while (!atomic_load(&f->firsts[SR_FIRST_COMING]))
		usleep(1000);
	in_child = true;	/* LATE is answered now */
	CHECK(!loop_call(how ? accept_call : refuse_call, NULL));
	in_child = false;
	CHECK_EQ(ask_wait(f), how);
	CHECK(told_first(f, SR_FIRST_COMING, false) && f->ask.heard);
	if (how)
		let_go(f);
	else
		CHECK(!strcmp(f->reason, "no-match"));
	await_used(carrier_of(e), 1);
	CHECK(goes_on(e));
	close_end(e);
	end_case();
	return STRUCK;
}

/* Both ends drop at once, with bytes on their way. */
static int both_drop_case(unsigned a, unsigned b)
{
	struct end *e, *f, *theirs;

	(void)a, (void)b;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	f = open_end(SINK << 8 | 2);
	theirs = last_end;
	fake_pause(true);
	put(f, 5000, true);
	f->link->ops->drop(f->link, "short");
	theirs->link->ops->drop(theirs->link, "fork");
	fake_pause(false);
	put_link(f);
	await_used(carrier_of(e), 1);
	CHECK(goes_on(e));
	close_end(e);
	end_case();
	return STRUCK;
}

static void test_crossing(void)
{
	run_case(crossing_case, 0, 0);
	run_case(crossing_case, 1, 0);
	run_case(crossing_case, 2, 0);
	run_case(both_drop_case, 0, 0);
	run_case(first_answer_case, 0, 0);
	run_case(first_answer_case, 1, 0);
}

/* ---- liars ---- */

static struct sr_link *foreign;

/* Opens one more link on the carrier, without an ask. */
static struct sr_vlink *open_more(struct end *e, const struct sr_question *q)
{
	struct sr_vlink *l = sr_vlink(e->link);
	const struct sr_vlink_for f = { .policy = l->policy, .role = SR_ROLE_ASKER, .owner = e,
					.notify = notify, .link_no = q->name.link_no };

	l = sr_vshare_open(l->c, &f, q);
	foreign = &l->link;
	return l;
}

static void open_foreign(void *arg)
{
	struct end *e = arg;
	struct sr_question q = { .name = e->ask.name };

	q.name.saddr[3] ^= 1;
	q.name.link_no = 7;
	open_more(e, &q);
}

/* An OPEN for a stream of other addresses, or a record for a number that is free, costs the liar
 * his carrier. */
static int liar_case(unsigned how, unsigned b)
{
	struct sr_link *answerers;
	struct end *e, *f;

	(void)b;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	f = open_end(ECHO << 8 | 2);
	answerers = sr_link_get(last_end->link);	/* or it may go before we have read its reason */
	if (how) {
		sr_vlink(f->link)->number = 77;
		put(f, 1, true);
	} else {
		CHECK(!loop_call(open_foreign, f));
	}
	CHECK(!await(e, SR_NOTIFY_RX, never));
	CHECK(!await(f, SR_NOTIFY_RX, never));
	sr_vlink(f->link)->number = 2;
	say("%s, %s\n", e->link->reason, answerers->reason);
	CHECK(!strcmp(answerers->reason, "protocol"));
	sr_link_put(answerers);
	put_link(e);
	put_link(f);
	if (foreign)
		sr_link_put(foreign);
	end_case();
	return STRUCK;
}

/* An asker that does not count its unproven links is refused some, and may ask again. */
static int busy_case(unsigned a, unsigned b)
{
	struct sr_vcarrier *c;
	struct end *e, *f;
	unsigned i;

	(void)a, (void)b;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	c = carrier_of(e);
	CHECK(!loop_call(keep_call, NULL));
	for (i = 0; i < SR_UNPROVEN_LATER; i++) {
		sr_lock(&c->lock);
		c->share.numbers.unproven = 0;
		sr_unlock(&c->lock);
		f = ask_start(LATE, PORT);
	}
	sr_lock(&c->lock);
	c->share.numbers.unproven = 0;
	sr_unlock(&c->lock);
	f = ask_start(ECHO << 8 | 3, PORT);
	CHECK(!ask_wait(f));
	say("refused: %s\n", f->reason);
	CHECK(!strcmp(f->reason, "timeout") && f->ask.heard);
	CHECK(goes_on(e));
	_exit(STRUCK);	/* those that are late are not answered */
}

/* The asker does not send its last record for a link, but does so much else that it is not silent: the
 * answerer ends the carrier. */
static int owing_case(unsigned a, unsigned b)
{
	struct sr_link *answerers;
	struct sr_vlink *l;
	struct end *e, *f;
	int i;

	(void)a, (void)b;
	begin_shared();
	sr_conf.retry_ms = 200;
	e = open_end(ECHO << 8 | 1);
	answerers = sr_link_get(last_end->link);
	f = open_end(ECHO << 8 | 2);
	l = sr_vlink(f->link);
	finish(f);
	while (take(f, 1 << 20, false))
		;
	send_plain(f, SR_MSG_ACKEND);
	sr_vcarrier_lock(l->c);
	sr_vpost_due(l->c);
	l->tx.last = SR_V_DROPPED;
	l->over = true;		/* or the asker, too, would wait for the answerer */
	sr_vcarrier_unlock(l->c);
	for (i = 0; i < 1000 && transfer(e, 100); i++)
		usleep(10 * 1000);
	say("%d transfers, %s\n", i, answerers->reason);
	CHECK(dead(e) && !strcmp(answerers->reason, "timeout"));
	let_go(f);
	let_go(e);
	sr_link_put(answerers);
	end_case();
	return STRUCK;
}

static void open_and_say_no_more(void *arg)
{
	struct end *e = arg;
	struct sr_question q = { .name = e->ask.name };
	struct sr_vlink *l;

	q.name.link_no = 0xdead;
	l = open_more(e, &q);
	CHECK(l && !l->tx.opens);
	l->tx.last = SR_V_DROPPED;
}

/* An answerer keeps no carrier for an asker that has proven nothing; also not (refused) if it has
 * refused a link, and the asker does not send its last record for that. */
static int stranger_case(unsigned refused, unsigned b)
{
	struct sr_vcarrier *c;
	struct end *e;

	(void)b;
	begin_shared();
	stranger = true;
	e = open_end(ECHO << 8 | 1);
	c = carrier_of(e);
	sr_vcarrier_get(c);
	if (refused)
		CHECK(!loop_call(open_and_say_no_more, e));
	close_end(e);
	for (int i = 0; i < 20000 && fake_queue_pairs(); i++)
		usleep(1000);
	CHECK(c->broken && !strcmp(c->broken, "peer-dropped"));	/* not idle for too long */
	if (refused)
		sr_link_put(foreign);
	sr_vcarrier_put(c);
	end_case();
	return STRUCK;
}

static void test_liar(void)
{
	run_case(owing_case, 0, 0);
	run_case(stranger_case, false, 0);
	run_case(stranger_case, true, 0);
	run_case(liar_case, 0, 0);
	run_case(liar_case, 1, 0);
	run_case(busy_case, 0, 0);
}

/* ---- the carrier's end ---- */

/* The asker's carrier stays for a while, for the next link, and then it goes at both ends. */
static int idle_case(unsigned a, unsigned b)
{
	struct sr_vcarrier *c;
	struct end *e;
	unsigned i;

	(void)a, (void)b;
	begin_shared();
	e = open_end(ECHO << 8 | 1);
	c = carrier_of(e);
	CHECK(goes_on(e));
	close_end(e);
	usleep(500 * 1000);
	CHECK_EQ(fake_queue_pairs(), QUEUE_PAIRS);
	e = open_end(ECHO << 8 | 2);
	CHECK(carrier_of(e) == c);
	CHECK(goes_on(e));
	close_end(e);
	for (i = 0; i < 20000 && fake_queue_pairs(); i++)
		usleep(1000);
	CHECK_EQ(fake_queue_pairs(), 0);
	end_case();
	return STRUCK;
}

static void test_idle(void)
{
	run_case(idle_case, 0, 0);
}

static const struct test tests[] = {
	{"two", test_two, false},
	{"large", test_large, false},
	{"in-use", test_in_use, false},
	{"gather", test_gather, false},
	{"full", test_full, false},
	{"many", test_many, false},
	{"again", test_again, false},
	{"crossing", test_crossing, false},
	{"liar", test_liar, false},
	{"idle", test_idle, false},
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_cases);
}
