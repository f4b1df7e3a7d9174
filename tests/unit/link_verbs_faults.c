/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_verbs_faults.c - the verbs link on a device that fails: every verb at
 * its n-th call, completions with an error, queue pairs flushed, events lost,
 * the device unplugged.  Whatever happens, the link works or dies at both ends, nothing is
 * left over, and the next link works.
 */
#include "verbs_faults.h"

#include <sys/resource.h>

enum { MANY_NUMBERS = 17000, ALL_NUMBERS = 66000 };

static bool shares;	/* the cases' links share carriers */

static int verb_case(unsigned verb, unsigned n)
{
	int result;

	begin_sharing(shares);
	fake_fail(fake_verb(verb), n, n & 1 ? ENOMEM : EIO);
	try_listen();
	session(BYTES);
	result = fake_struck() ? STRUCK : NOT_STRUCK;
	end_case();
	return result;
}

static void fail_each_verb(void)
{
	unsigned i, n, total = 0;

	for (i = 0; fake_verb(i); i++)
		for (n = 1; n < 60; n += 1 + n / 3) {
			say("%s, call %u\n", fake_verb(i), n);
			if (run_case(verb_case, i, n) == NOT_STRUCK)
				break;
			total++;
		}
	say("%u failures\n", total);
	CHECK(total > 60);
}

static void test_verbs(void)
{
	for (int i = 0; i < 2; i++) {
		shares = i;
		fail_each_verb();
	}
}

static int status_case(unsigned status, unsigned n)
{
	begin_case();
	try_listen();
	fake_fail_send(NULL, n, status);
	CHECK(!session(BYTES));
	end_case();
	return STRUCK;
}

static void test_statuses(void)
{
	static const enum ibv_wc_status statuses[] = {
		IBV_WC_LOC_PROT_ERR, IBV_WC_REM_ACCESS_ERR,
		IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR,
		IBV_WC_FATAL_ERR};
	unsigned i, n;

	for (i = 0; i < COUNT(statuses); i++)
		for (n = 1 + i; n < 40; n += 13)
			run_case(status_case, statuses[i], n);
}

static const struct {
	enum rdma_cm_event_type from, to;
	int status;
} swaps[] = {
	{RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV},
	{RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT},
	{RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
	{RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL},
	{RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, 28},
	{RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ADDR_CHANGE, 0},
};

static int event_case(unsigned i, unsigned unused)
{
	(void)unused;
	begin_case();
	try_listen();
	fake_swap_event(swaps[i].from, swaps[i].to, swaps[i].status);
	session(BYTES);
	end_case();
	return STRUCK;
}

static void test_events(void)
{
	unsigned i;

	for (i = 0; i < COUNT(swaps); i++)
		run_case(event_case, i, 0);
}

/* ---- in the midst of a transfer ---- */

static void *run_session(void *arg)
{
	(void)arg;
	session(8 << 20);
	return NULL;
}

static void act(unsigned what)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_PORT_ERR,
		IBV_EVENT_CQ_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_DEVICE_FATAL};

	if (what == 0)
		fake_flush();
	else if (what == 1)
		fake_kill();
	else if (what == 2)
		fake_unplug();
	else
		fake_async(types[what - 3]);
}

static int midst_case(unsigned what, unsigned n)
{
	pthread_t t;

	begin_case();
	try_listen();
	fake_delay(n & 1 ? 0 : 100, n + 1);
	CHECK(!pthread_create(&t, NULL, run_session, NULL));
	usleep(below(15000));
	act(what);
	pthread_join(t, NULL);
	end_case();
	return STRUCK;
}

static void test_midst(void)
{
	unsigned what, n;

	for (what = 0; what < 9; what++)
		for (n = 0; n < 3; n++)
			run_case(midst_case, what, n);
}

/* ---- single cases ---- */

/* One of two links is meant: the other one goes on. */
static int event_of_one_case(unsigned type, unsigned unused)
{
	struct end *e, *f;
	int port;

	(void)unused;
	begin_unshared();
	try_listen();
	e = open_end(ECHO << 8 | 2);
	f = open_end(ECHO << 8 | 3);
	port = sr_vlink(e->link)->c->id->port_num;
	if (type == IBV_EVENT_PORT_ERR) {
		if (fake_profile()->ports > 1)
			CHECK(port != sr_vlink(f->link)->c->id->port_num);
		fake_async_one(type, NULL, port);
	} else {
		fake_async_one(type, sr_vlink(e->link)->c->qp, 0);
	}
	CHECK(!await(e, SR_NOTIFY_RX, never));
	CHECK(!strcmp(e->link->reason, "device-failed"));
	if (type != IBV_EVENT_PORT_ERR || fake_profile()->ports > 1)
		both_ways(f, 100000, 1);
	let_go(e);
	let_go(f);
	end_case();
	return STRUCK;
}

/* The device says that it has failed, and stays: cxgb4 does so for each queue pair that
 * fails.  The next link is made on it, by the context that librdmacm still has. */
static int fatal_case(unsigned a, unsigned b)
{
	struct end *e;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = open_end(ECHO << 8 | 2);
	fake_async(IBV_EVENT_DEVICE_FATAL);
	CHECK(!await(e, SR_NOTIFY_RX, never));
	CHECK(!strcmp(e->link->reason, "device-failed"));
	let_go(e);
	CHECK(session(1000));
	end_case();
	return STRUCK;
}

static void test_told(void)
{
	run_case(event_of_one_case, IBV_EVENT_PORT_ERR, 0);
	run_case(event_of_one_case, IBV_EVENT_CQ_ERR, 0);
	run_case(fatal_case, 0, 0);
}

/* A network that loses packets as long as the device's lets the handshake begin: the link fails
 * before a stream could switch to it.  (iWARP's TCP finds out how long packets may be.) */
static int path_case(unsigned longest, unsigned unused)
{
	struct end *e;

	(void)unused;
	begin_case();
	try_listen();
	fake_lose_longer(longest);
	e = ask_start(SINK << 8 | 1, listen_port);
	CHECK(!ask_wait(e) && e->link);
	CHECK(!strcmp(e->link->reason, "path"));
	CHECK(sr_link_events(e->link) & SR_LINK_HELLO);
	CHECK(!(sr_link_events(e->link) & (SR_LINK_SWITCH | SR_LINK_ACKSW)));
	fake_lose_longer(0);
	let_go(e);
	end_case();
	return STRUCK;
}

/* One that is dead altogether is not that. */
static int no_path_case(unsigned a, unsigned b)
{
	struct end *e;

	(void)a, (void)b;
	begin_case();
	try_listen();
	fake_fail_sends(IBV_WC_RETRY_EXC_ERR);
	e = ask_start(SINK << 8 | 1, listen_port);
	CHECK(!ask_wait(e) && e->link);
	say("it is: %s\n", e->link->reason);
	CHECK(strcmp(e->link->reason, "path"));
	fake_fail_sends(IBV_WC_SUCCESS);
	let_go(e);
	end_case();
	return STRUCK;
}

static void test_path(void)
{
	if (!iwarp)
		run_case(path_case, 1024, 0);
	run_case(no_path_case, 0, 0);
}

/* The program has the numbers among which ours are in most processes; or all among which they may
 * be. */
static int numbers_case(unsigned numbers, unsigned all)
{
	struct rlimit rl;
	int n = 0;

	CHECK(!getrlimit(RLIMIT_NOFILE, &rl));
	rl.rlim_cur = numbers;
	rl.rlim_max = rl.rlim_max < numbers ? numbers : rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl)) {
		fprintf(stderr, "(not tried: there may be no %u descriptors) ", numbers);
		return NOT_STRUCK;
	}
	begin_unshared();
	try_listen();
	CHECK(session(1000));
	/* Not by libc: the fake closes its descriptors as the library does, by the bare system
	 * call, so ThreadSanitizer would take a new descriptor for an old one. */
	for (int fd = 0; fd < (int)numbers - 100; n++)
		CHECK((fd = (int)syscall(SYS_dup, STDERR_FILENO)) > 0);
	CHECK(n > 1000);
	CHECK(session(1000) == !all);
	CHECK(!close_range(1000, 10000, 0));
	end_case();
	return STRUCK;
}

static void test_numbers(void)
{
	run_case(numbers_case, MANY_NUMBERS, false);
	run_case(numbers_case, ALL_NUMBERS, true);
}

/* In the loop, which therefore cannot end the link before the peer has all of
 * it. */
static void put_much(void *arg)
{
	put(arg, 1 << 20, true);
	usleep(100 * 1000);
}

/* Of a long list of requests the first part is not posted: the second must not
 * be either, or the peer takes what it writes for the first. */
static int batch_case(unsigned a, unsigned b)
{
	struct end *e;
	int i;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = open_end(SINK << 8 | 1);
	/* Rings grow only if the machine is quick enough. */
	for (i = 0; i < 50 && sr_vlink(e->link)->tx.window < 1 << 20; i++) {
		CHECK(put(e, 8 << 20, true) == 8 << 20);
		CHECK(await(e, SR_NOTIFY_TX, all_acked));
	}
	CHECK(sr_vlink(e->link)->tx.window == 1 << 20);
	fake_fail("post_send", 1, ENOMEM);
	CHECK(!loop_call(put_much, e));
	CHECK(!await(e, SR_NOTIFY_TX, all_acked));
	say("%s\n", e->link->reason);
	CHECK(!strcmp(e->link->reason, "device-failed"));
	let_go(e);
	end_case();
	return STRUCK;
}

static void test_batch(void)
{
	run_case(batch_case, 0, 0);
}

/* Of two requests the first comes to nothing, and so does the second, which is flushed.
 * The reason says whose fault it is. */
static int lost_case(unsigned status, unsigned peer)
{
	struct end *e;

	begin_case();
	try_listen();
	e = open_end(SINK << 8 | 1);
	CHECK(put(e, 1000, true) == 1000);
	CHECK(await(e, SR_NOTIFY_TX, all_acked));
	fake_pause(true);
	fake_fail_send(sr_vlink(e->link)->c->qp, 1, status);
	CHECK(put(e, 4000, true) == 4000 && put(e, 4000, true) == 4000);
	CHECK(sr_vlink(e->link)->c->out.sq_posted - sr_vlink(e->link)->c->out.sq_done >= 2);
	fake_pause(false);
	CHECK(!await(e, SR_NOTIFY_TX, all_acked));
	CHECK(e->link->ops->tx_arrived(e->link) == atomic_load(&e->link->tx_acked));
	CHECK(!strcmp(e->link->reason, peer ? "peer-dropped" : "device-failed"));
	let_go(e);
	end_case();
	return STRUCK;
}

static void test_lost(void)
{
	run_case(lost_case, IBV_WC_RETRY_EXC_ERR, false);
	run_case(lost_case, IBV_WC_REM_ACCESS_ERR, true);
}

/* A peer that takes no packets: its lock is held. */
struct stopped {
	struct sr_vlink *l;
	atomic_int stage;	/* 1: it stands still; 2: it may go on */
	pthread_t thread;
};

static void *stop_peer(void *arg)
{
	struct stopped *s = arg;

	sr_lock(&s->l->c->lock);
	atomic_store(&s->stage, 1);
	while (atomic_load(&s->stage) == 1)
		usleep(1000);
	sr_unlock(&s->l->c->lock);
	return NULL;
}

static bool is_spent(struct end *e)
{
	return sr_packets_known(&sr_vlink(e->link)->c->out.credit) == SR_PACKETS_KEPT;
}

/* The last record goes although the peer has no buffer left but those for counts. */
static int last_case(unsigned a, unsigned b)
{
	struct stopped s = { 0 };
	struct end *e;
	size_t n;

	(void)a, (void)b;
	begin_unshared();
	try_listen();
	e = open_end(SINK << 8 | 1);
	CHECK(put(e, 1000, true) == 1000 && await(e, SR_NOTIFY_TX, all_acked));
	s.l = sr_vlink(last_end->link);
	CHECK(!pthread_create(&s.thread, NULL, stop_peer, &s));
	while (!atomic_load(&s.stage))
		usleep(1000);
	for (n = 0; !is_spent(e); n++) {
		CHECK(n < 1000);
		CHECK(put(e, 1, true) == 1);
		usleep(1000);	/* it completes, and the next one is a packet of its own */
		e->link->ops->poll(e->link);
	}
	e->link->ops->drop(e->link, "short");
	CHECK_EQ(sr_vlink(e->link)->tx.last, SR_V_DROPPED);
	atomic_store(&s.stage, 2);
	pthread_join(s.thread, NULL);
	put_link(e);
	end_case();
	return STRUCK;
}

static void test_last(void)
{
	run_case(last_case, 0, 0);
}

/* ---- anything, for a while ---- */

struct soak {
	uint64_t end_ns, seed;
	pthread_t thread;
};

static void *soak_thread(void *arg)
{
	struct soak *s = arg;

	dice = s->seed;
	while (sr_now_ns() < s->end_ns)
		session(1 + below(1 << 20));
	return NULL;
}

static void trouble(void)
{
	static const char *const verbs[] = {
		"post_send",	 "post_recv",  "poll_cq",
		"req_notify_cq", "v_reg_mr",   "cm_create_qp",
		"cm_accept",	 "cm_connect", "v_get_cq_event"};

	switch (below(6)) {
	case 0:
		fake_flush();
		break;
	case 1:
		fake_kill();
		break;
	case 2:
		fake_fail_send(NULL, 1 + below(50), IBV_WC_RETRY_EXC_ERR);
		break;
	case 3:
		fake_unplug();
		usleep(below(20000));
		fake_plug(iwarp);
		break;
	case 4:
		fake_fail(verbs[below(COUNT(verbs))], 1 + below(30), ENOMEM);
		break;
	case 5:
		fake_delay(below(3) * below(300), below(1000));
		break;
	}
}

static int soak_case(unsigned seed, unsigned seconds)
{
	uint64_t end = sr_now_ns() + seconds * UINT64_C(1000000000);
	struct soak t[4];
	unsigned i;

	begin_numbered(seed);
	try_listen();
	say("seed %u\n", seed);
	for (i = 0; i < COUNT(t); i++) {
		t[i] = (struct soak){end, seed * 100 + i, 0};
		CHECK(!pthread_create(&t[i].thread, NULL, soak_thread, &t[i]));
	}
	while (sr_now_ns() < end) {
		usleep(below(40000));
		trouble();
	}
	for (i = 0; i < COUNT(t); i++)
		pthread_join(t[i].thread, NULL);
	end_case();
	return STRUCK;
}

static void test_soak(void)
{
	const char *text = getenv("SEED");
	unsigned seed = text ? atoi(text) : 1;

	run_case(soak_case, seed, 2);
	run_case(soak_case, seed + 1, 2);
}

static void test_long_soak(void)
{
	unsigned seed;

	for (seed = 1; seed <= 20; seed++)
		run_case(soak_case, seed, 10);
}

static const struct test tests[] = {
	{"verbs", test_verbs, false},
	{"statuses", test_statuses, false},
	{"events", test_events, false},
	{"midst", test_midst, false},
	{"told", test_told, false},
	{"path", test_path, false},
	{"numbers", test_numbers, false},
	{"batch", test_batch, false},
	{"lost", test_lost, false},
	{"last", test_last, false},
	{"soak", test_soak, false},
	{"long_soak", test_long_soak, true},
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_cases);
}
