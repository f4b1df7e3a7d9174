/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_shared.c - epoll sets of streams whose links share a carrier, and so a doorbell, which the
 * kernel's set takes once.  The service thread is kept busy, so that an arrival which the sets
 * themselves do not hear of hangs the case.  Also: which streams share a carrier.
 */
#include "failover.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>

#include "engine/stream.h"
#include "link/verbs/verbs.h"
#include "loop_call.h"

enum { STREAMS = 4, SETS = 3, QUEUE_PAIRS = 2, QUIET_MS = 60 };

static int listening;

static struct sr_link *link_of(struct pair *p, int end)
{
	struct sr_stream *st = sr_fdtab_get(p->fd[end]);
	struct sr_link *link;

	sr_lock(&st->rx_lock);
	link = st->in.link;
	sr_unlock(&st->rx_lock);
	sr_stream_put(st);
	return link;
}

static struct sr_vcarrier *carrier_of(struct pair *p, int end)
{
	return sr_vlink(link_of(p, end))->c;
}

static void open_all(void)
{
	struct sockaddr_in a;

	fake_plug(iwarp);
	sr_conf.policy.carriers = 1;
	listening = listener(&a);
	for (unsigned i = 0; i < STREAMS; i++)
		open_pair(&pairs[i], listening, &a, i);
	CHECK_EQ(fake_queue_pairs(), QUEUE_PAIRS);
	for (unsigned i = 0; i < STREAMS; i++)
		CHECK(carrier_of(&pairs[i], ANSWERER) == carrier_of(&pairs[0], ANSWERER));
}

static void close_all(void)
{
	for (unsigned i = 0; i < STREAMS; i++)
		if (pairs[i].fd[ANSWERER] >= 0)
			close_pair(&pairs[i]);
	sr_close(listening);
	printf(" ok\n");
}

/* ---- the service thread stands still ---- */

static sem_t held, release;

static void hold(struct sr_task *t)
{
	(void)t;
	sem_post(&held);
	while (sem_wait(&release))
		;	/* EINTR */
}

static struct sr_task holding = {.fn = hold};

static void stop_service(void)
{
	sem_init(&held, 0, 0);
	sem_init(&release, 0, 0);
	CHECK(sr_loop_post(&holding));
	while (sem_wait(&held))
		;	/* EINTR */
}

static void continue_service(void)
{
	sem_post(&release);
}

/* What waits for a completion is sent.  While the service thread stands still, nobody else looks
 * for that. */
static void send_all(struct sr_vcarrier *c)
{
	bool waits = true;

	while (waits) {
		sr_vcq_look(c);
		sr_lock(&c->lock);
		waits = sr_vpost_waits(c);
		sr_unlock(&c->lock);
	}
}

/* The asker sends ten bytes. */
static void send_some(struct pair *p)
{
	CHECK_EQ(say(p, ASKER, 10, 0), 10);
	send_all(carrier_of(p, ASKER));
}

/* The askers acknowledge ten bytes of each stream, by one packet. */
static void acknowledge_all(void)
{
	struct sr_vcarrier *c = carrier_of(&pairs[0], ASKER);
	struct sr_link *link[STREAMS];
	unsigned i;

	for (i = 0; i < STREAMS; i++) {
		link[i] = link_of(&pairs[i], ASKER);
		CHECK_EQ(say(&pairs[i], ANSWERER, 10, 0), 10);
		send_all(carrier_of(&pairs[i], ANSWERER));
		hear(&pairs[i], ANSWERER, 10);
	}
	sr_lock(&c->lock);
	for (i = 0; i < STREAMS; i++)
		sr_vtx_owe(sr_vlink(link[i]));
	sr_vpost_due(c);
	sr_unlock(&c->lock);
	send_all(c);
}

/* ---- sets ---- */

static void control(int set, int op, unsigned i, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.u32 = i};

	CHECK_EQ(sr_epoll_ctl(set, op, pairs[i].fd[ANSWERER], &e), 0);
}

/* All entries of the set are armed: it has slept. */
static void quieten(int set)
{
	struct epoll_event e;

	while (sr_epoll_wait(set, &e, 1, QUIET_MS))
		;	/* an edge of room */
}

/* A set of streams from the first one on, each for these events. */
static int set_of(unsigned first, unsigned n, uint32_t events)
{
	int set = sr_epoll_create1(EPOLL_CLOEXEC);

	CHECK(set >= 0);
	for (unsigned i = first; i < first + n; i++)
		control(set, EPOLL_CTL_ADD, i, events);
	quieten(set);
	return set;
}

static void is_told(int set, unsigned i)
{
	struct epoll_event e;

	CHECK_EQ(sr_epoll_wait(set, &e, 1, -1), 1);
	CHECK_EQ(e.data.u32, i);
	CHECK(e.events & EPOLLIN);
	hear(&pairs[i], ASKER, 10);
}

/* Bytes come for the stream, and its set says so. */
static void arrives(int set, unsigned i)
{
	check_about("stream", i);
	send_some(&pairs[i]);
	is_told(set, i);
}

static void arrive_from(int set, unsigned first)
{
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = first; i < STREAMS; i++)
			arrives(set, i);
}

/* All streams are in one set, and the service thread stands still. */
static int begin_set(uint32_t events)
{
	int set;

	open_all();
	set = set_of(0, STREAMS, events);
	stop_service();
	return set;
}

static void end_set(int set)
{
	continue_service();
	sr_close(set);
	close_all();
}

/* The stream whose token the kernel has goes: another one's takes its place. */
static void deleted(const struct fault *f)
{
	int set;

	(void)f;
	set = begin_set(EPOLLIN);
	arrive_from(set, 0);
	quieten(set);
	control(set, EPOLL_CTL_DEL, 0, 0);
	arrive_from(set, 1);
	control(set, EPOLL_CTL_ADD, 0, EPOLLIN);
	arrive_from(set, 0);
	quieten(set);
	for (unsigned i = 0; i + 1 < STREAMS; i++) {
		CHECK(!sr_close(pairs[i].fd[ANSWERER]));
		arrive_from(set, i + 1);
		quieten(set);
	}
	continue_service();
	for (unsigned i = 0; i + 1 < STREAMS; i++) {
		CHECK(!sr_close(pairs[i].fd[ASKER]));
		pairs[i].fd[ANSWERER] = -1;
	}
	sr_close(set);
	close_all();
}

/* The one whose token the kernel has is not to report anything. */
static void silent(const struct fault *f)
{
	int set;

	(void)f;
	set = begin_set(EPOLLIN);
	control(set, EPOLL_CTL_MOD, 0, EPOLLIN | EPOLLONESHOT);
	arrives(set, 0);
	arrive_from(set, 1);
	control(set, EPOLL_CTL_MOD, 0, EPOLLOUT | EPOLLET);
	quieten(set);
	arrive_from(set, 1);
	control(set, EPOLL_CTL_MOD, 0, EPOLLIN | EPOLLET);
	quieten(set);
	arrive_from(set, 0);
	end_set(set);
}

/* A call that does not sleep reports what the doorbell has rung for, also if that lists all entries of
 * the set. */
static void at_once(const struct fault *f)
{
	struct pollfd door = {.events = POLLIN};
	struct epoll_event e;
	int set;

	(void)f;
	open_all();
	set = set_of(0, 1, EPOLLIN);
	door.fd = carrier_of(&pairs[0], ANSWERER)->cq.fd;
	stop_service();
	for (unsigned round = 0; round < 3; round++) {
		send_some(&pairs[0]);
		fake_pause(true);	/* all that was sent has come */
		while (fake_step(100))
			;
		CHECK_EQ(poll(&door, 1, -1), 1);
		CHECK_EQ(sr_epoll_wait(set, &e, 1, 0), 1);
		CHECK(e.events & EPOLLIN);
		fake_pause(false);
		hear(&pairs[0], ASKER, 10);
		quieten(set);
	}
	end_set(set);
}

/* Two sets watch the doorbell; and one of them does so for two entries of a stream. */
static void two_sets(const struct fault *f)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = 1};
	int a, b, copy;

	(void)f;
	open_all();
	a = set_of(0, 2, EPOLLIN);
	b = set_of(2, 2, EPOLLIN | EPOLLET);
	copy = sr_dup(pairs[1].fd[ANSWERER]);
	CHECK_EQ(sr_epoll_ctl(a, EPOLL_CTL_ADD, copy, &e), 0);
	control(a, EPOLL_CTL_MOD, 1, 0);
	quieten(a);
	stop_service();
	for (int round = 0; round < 3; round++) {
		arrives(a, 0);
		arrives(b, 3);
		arrives(a, 1);
		arrives(b, 2);
	}
	sr_close(a);
	arrives(b, 2);
	quieten(b);
	arrives(b, 3);
	continue_service();
	CHECK(!sr_close(copy));
	sr_close(b);
	close_all();
}

/* The doorbell has rung for another stream's bytes: that makes no outer set readable. */
static void outer_is_silent(int outer, int set, unsigned i)
{
	struct pollfd door = {.fd = carrier_of(&pairs[i], ANSWERER)->cq.fd, .events = POLLIN};
	struct epoll_event e;

	quieten(set);
	stop_service();
	send_some(&pairs[i]);
	CHECK_EQ(poll(&door, 1, -1), 1);
	CHECK_EQ(sr_epoll_wait(outer, &e, 1, 0), 0);
	is_told(set, i);
	continue_service();
}

/* A third set has no place there, and hears of what comes by the service thread; nor has one that
 * is waited for itself. */
static void dispatched(const struct fault *f)
{
	struct epoll_event e = {.events = EPOLLIN};
	int set[SETS], outer = sr_epoll_create1(EPOLL_CLOEXEC);

	(void)f;
	open_all();
	for (unsigned i = 0; i < SETS; i++)
		set[i] = set_of(i, 1, EPOLLIN);
	for (unsigned i = 0; i < SETS * 3; i++)
		arrives(set[i % SETS], i % SETS);
	CHECK_EQ(sr_epoll_ctl(outer, EPOLL_CTL_ADD, set[0], &e), 0);
	for (unsigned i = 0; i < SETS * 3; i++) {
		CHECK_EQ(sr_epoll_wait(outer, &e, 1, 0), 0);
		arrives(set[i % SETS], i % SETS);
	}
	outer_is_silent(outer, set[1], 1);
	for (unsigned i = 0; i < SETS; i++)
		sr_close(set[i]);
	sr_close(outer);
	close_all();
}

static void is_readable(int outer)
{
	struct epoll_event e;

	CHECK_EQ(sr_epoll_wait(outer, &e, 1, -1), 1);
}

/* Each message is an edge of the set that the stream's set is in, whether the program has taken the
 * last message or not. */
static void nested_edge(const struct fault *f)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLET};
	int set, outer = sr_epoll_create1(EPOLL_CLOEXEC);

	(void)f;
	open_all();
	set = set_of(0, 2, EPOLLIN);
	CHECK_EQ(sr_epoll_ctl(outer, EPOLL_CTL_ADD, set, &e), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3; i++) {
			check_about("message", i);
			send_some(&pairs[0]);
			is_readable(outer);
			CHECK_EQ(sr_epoll_wait(outer, &e, 1, 0), 0);
		}
		hear(&pairs[0], ASKER, 30);
		arrives(set, 1);
	}
	sr_close(set);
	sr_close(outer);
	close_all();
}

/* Streams are told of in the order in which their bytes have come, whatever came before them. */
static void in_order(const struct fault *f)
{
	static const unsigned order[STREAMS] = {2, 0, 3, 1};
	struct epoll_event e[STREAMS];
	unsigned told = 0;
	int set, n;

	(void)f;
	set = begin_set(EPOLLIN | EPOLLET);
	acknowledge_all();
	for (unsigned i = 0; i < STREAMS; i++)
		send_some(&pairs[order[i]]);
	usleep(50000);	/* so that all have come, as a rule */
	while (told < STREAMS) {
		n = sr_epoll_wait(set, e, STREAMS, -1);
		CHECK(n > 0);
		for (int i = 0; i < n; i++)
			CHECK_EQ(e[i].data.u32, order[told++]);
	}
	end_set(set);
}

/* An asker's stream has its link on the carrier of its set; if it is in no set, of the set in which
 * the thread last waited; before the thread has waited in any, of the first that it has made; and
 * without any on its own.  In a set that is in another one it has a carrier of its own, too. */
static void domains(const struct fault *f)
{
	enum { NO_SET, NONE_EITHER, MADE, FIRST, SECOND, WAITED, BOTH, NESTED, ALL };
	struct sr_vcarrier *c[ALL];
	struct sockaddr_in a;
	int set[2], outer = -1;

	(void)f;
	fake_plug(iwarp);
	sr_conf.policy.carriers = 8;
	listening = listener(&a);
	for (unsigned i = 0; i < ALL; i++) {
		struct epoll_event e = {.events = EPOLLIN};

		connect_pair(&pairs[i], listening, &a, i);
		if (i == MADE || i == SECOND)
			set[i == SECOND] = sr_epoll_create1(EPOLL_CLOEXEC);
		if (i == WAITED)
			CHECK_EQ(sr_epoll_wait(set[1], &e, 1, 0), 0);
		if (i == NESTED) {
			outer = sr_epoll_create1(EPOLL_CLOEXEC);
			CHECK_EQ(sr_epoll_ctl(outer, EPOLL_CTL_ADD, set[0], &e), 0);
		}
		if (i == FIRST || i == BOTH || i == NESTED)
			CHECK_EQ(sr_epoll_ctl(set[0], EPOLL_CTL_ADD, pairs[i].fd[ASKER], &e), 0);
		if (i == SECOND || i == BOTH)
			CHECK_EQ(sr_epoll_ctl(set[1], EPOLL_CTL_ADD, pairs[i].fd[ASKER], &e), 0);
		talk_until(&pairs[i], linked);
		c[i] = carrier_of(&pairs[i], ASKER);
	}
	CHECK(c[NO_SET] != c[NONE_EITHER] && c[FIRST] != c[SECOND]);
	CHECK(c[NO_SET] != c[FIRST] && c[NO_SET] != c[SECOND]);
	CHECK(c[NONE_EITHER] != c[FIRST] && c[NONE_EITHER] != c[SECOND]);
	CHECK(c[MADE] == c[FIRST] && c[WAITED] == c[SECOND] && c[BOTH] == c[FIRST]);
	CHECK(!sr_load(&c[NESTED]->shared));
	CHECK_EQ(fake_queue_pairs(), 5 * QUEUE_PAIRS);
	for (unsigned i = 0; i < ALL; i++)
		close_pair(&pairs[i]);
	sr_close(outer);
	sr_close(set[0]);
	sr_close(set[1]);
	sr_close(listening);
	printf(" ok\n");
}

static const struct fault cases[] = {
	{.name = "deleted", .run = deleted},
	{.name = "silent", .run = silent},
	{.name = "at-once", .run = at_once},
	{.name = "two-sets", .run = two_sets},
	{.name = "dispatched", .run = dispatched},
	{.name = "nested-edge", .run = nested_edge},
	{.name = "order", .run = in_order},
	{.name = "domains", .run = domains},
};

int main(int argc, char **argv)
{
	return run_faults(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
