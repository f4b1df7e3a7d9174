/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_verbs_requests.c - how the two ends of a verbs link find each other where the
 * network, the kernel or the device has its days.
 */
#include "verbs_faults.h"

/* The kernel lets nobody bind a port below 1024 who has no privilege for that in the first
 * user namespace, whatever ip_unprivileged_port_start says for TCP. */
static int low_port_case(unsigned port, unsigned privileged)
{
	begin_case();
	fake_privileged(privileged);
	listen_port = (int)port;
	try_listen();
	CHECK(listener);
	CHECK(session(1000));
	end_case();
	return STRUCK;
}

/* Of the requests some do not reach the peer.  (iWARP's TCP sends again.) */
static int lost_request_case(unsigned n, unsigned ms)
{
	uint64_t start;

	begin_case();
	try_listen();
	fake_lose_requests(n);
	start = sr_now_ns();
	CHECK(session(1000));
	say("%u ms\n", (unsigned)((sr_now_ns() - start) / 1000000));
	CHECK(sr_now_ns() - start < ms * UINT64_C(1000000));
	end_case();
	return STRUCK;
}

/* Rejections of the kernel: 3 no resources, 10 stale connection: a number of a queue pair
 * that it has seen lately. */
static int refused_request_case(unsigned status, unsigned unused)
{
	(void)unused;
	begin_case();
	try_listen();
	fake_refuse_next((int)status);
	CHECK(session(1000));
	end_case();
	return STRUCK;
}

static void deliver_refusal(struct sr_timer *t)
{
	(void)t;
	fake_hold_refusal(false);
}

static void set_delivery(void *arg)
{
	sr_timer_set(arg, 60);	/* between two looks of the asker and the third */
}

/* iWARP's kernel flushes the queue pair of a refused request, and delivers the refusal some time
 * later: its word counts, and the asker does not ask anew meanwhile. */
static int late_refusal_case(unsigned a, unsigned b)
{
	struct sr_timer timer = { .fn = deliver_refusal };
	struct end *e;

	(void)a, (void)b;
	begin_case();
	try_listen();
	fake_hold_refusal(true);
	ask_holds = true;
	e = ask_start(0xdead, PORT);
	CHECK(!loop_call(set_delivery, &timer));
	CHECK(!ask_wait(e) && !strcmp(e->reason, "no-match"));
	CHECK(told_first(e, SR_FIRST_COMING, true));
	ask_holds = false;
	end_case();
	return STRUCK;
}

static void test_requests(void)
{
	run_case(late_refusal_case, 0, 0);
	if (iwarp)
		return;
	run_case(lost_request_case, 1, 4000);
	run_case(refused_request_case, 3, 0);
	run_case(refused_request_case, 10, 0);
}

/* An iWARP device whose asker alone has a port mapper: both ends must see one identity of
 * the link all the same, because the proof contains it. */
static int mapped_case(unsigned a, unsigned b)
{
	uint8_t id[2][SR_ID_MAX];
	size_t len[2];
	struct end *e;

	(void)a, (void)b;
	begin_case();
	try_listen();
	fake_map_ports(iwarp);
	e = open_end(ECHO << 8 | 2);
	len[0] = e->link->ops->identity(e->link, id[0]);
	len[1] = e->link->ops->identity(last_end->link, id[1]);
	CHECK(len[0] && len[0] == len[1] && !memcmp(id[0], id[1], len[0]));
	fake_map_ports(false);
	close_end(e);
	end_case();
	return STRUCK;
}

/* On iWARP the kernel makes a work item for each place of the backlog: 40 ms for 1024. */
static int backlog_case(unsigned most, unsigned least)
{
	begin_case();
	try_listen();
	CHECK(fake_backlog(iwarp) >= (int)least && fake_backlog(iwarp) <= (int)most);
	end_case();
	return STRUCK;
}

static void test_iwarp(void)
{
	run_case(mapped_case, 0, 0);
	run_case(backlog_case, iwarp ? 128 : 1024, 64);
}

static void test_low_port(void)
{
	run_case(low_port_case, 80, true);
	run_case(low_port_case, 80, false);
	run_case(low_port_case, 1024, true);
}

/* The request is not answered when the device goes. */
static int asking_case(unsigned a, unsigned b)
{
	struct end *e;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = ask_start(LATE, PORT);
	while (!fake_calls("v_reg_mr") || !atomic_load(&requests))
		usleep(1000);
	fake_unplug();
	CHECK(!ask_wait(e));
	say("unplugged while asking: %s\n", e->reason);
	CHECK(!strcmp(e->reason, "device-failed"));
	end_case();
	return STRUCK;
}

static void test_asking(void)
{
	run_case(asking_case, 0, 0);
}

static const struct test tests[] = {
	{"low_port", test_low_port, false},
	{"requests", test_requests, false},
	{"iwarp", test_iwarp, false},
	{"asking", test_asking, false},
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_cases);
}
