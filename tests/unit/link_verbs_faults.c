/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_verbs_faults.c - the verbs link on a device that fails: every verb at
 * its n-th call, completions with an error, queue pairs flushed, events lost,
 * the device unplugged; and on one that is late.  Whatever happens, the link
 * works or dies at both ends, nothing is left over, and the next link works.
 *
 * Each case is a process of its own, so that a hang or a crash is one case's:
 *
 *   PROGRAM [-v] [test ...]
 */
#include "verbs_pair.h"

#include <limits.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <sys/stat.h>

#include "base/pages.h"
#include "check.h"
#include "fake_impl.h"

enum { HANG_S = 40, BYTES = 400 << 10, STRUCK = 0, NOT_STRUCK = 3, NUMBERS = 17000 };

static _Thread_local uint64_t dice;

static unsigned below(unsigned n)
{
	return check_random(&dice) % n;
}

static bool never(struct end *e)
{
	(void)e;
	return false;
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

static void begin_case(void)
{
	fake_plug(iwarp);
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

static int verb_case(unsigned verb, unsigned n)
{
	int result;

	begin_case();
	fake_fail(fake_verb(verb), n, n & 1 ? ENOMEM : EIO);
	try_listen();
	session(BYTES);
	result = fake_struck() ? STRUCK : NOT_STRUCK;
	end_case();
	return result;
}

static void test_verbs(void)
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
	begin_case();
	try_listen();
	e = open_end(ECHO << 8 | 2);
	f = open_end(ECHO << 8 | 3);
	port = sr_vlink(e->link)->id->port_num;
	if (type == IBV_EVENT_PORT_ERR) {
		if (fake_profile()->ports > 1)
			CHECK(port != sr_vlink(f->link)->id->port_num);
		fake_async_one(type, NULL, port);
	} else {
		fake_async_one(type, sr_vlink(e->link)->qp, 0);
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

/* The sender cannot register as large a ring as the receiver offers.  It goes
 * on with the rings that there are, at their speed: the receiver returns credit
 * for each quarter of the ring that it believes to be in use. */
static int narrow_case(unsigned a, unsigned b)
{
	uint64_t start = sr_now_ns();
	struct end *e;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = open_end(SINK << 8 | 1);
	CHECK(!loop_call(no_call, NULL)); /* or work() is called once more */
	fake_fail("v_reg_mr", 2, ENOMEM);
	CHECK(put(e, 4 << 20, true) == 4 << 20);
	CHECK(fake_struck() && sr_vlink(e->link)->tx.window == sr_conf.policy.ring_first);
	close_end(e);
	CHECK(sr_now_ns() - start < UINT64_C(3000000000));
	end_case();
	return STRUCK;
}

static void test_narrow(void)
{
	run_case(narrow_case, 0, 0);
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

/* One that is dead altogether, or a peer that ends meanwhile, is not that. */
static int no_path_case(unsigned how, unsigned unused)
{
	struct end *e;

	(void)unused;
	begin_case();
	try_listen();
	if (how)
		fake_fail_sends(IBV_WC_RETRY_EXC_ERR);
	else
		fake_fail_send(NULL, 3, IBV_WC_WR_FLUSH_ERR);
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
	run_case(no_path_case, 1, 0);
}

/* ---- locked memory ---- */

static const char *reason_for_none(void)
{
	struct end *e = ask_start(ECHO << 8 | 1, PORT);
	const char *reason;

	if (!ask_wait(e) && !e->link) {
		reason = e->reason;
		close_fds(e);
		return reason;
	}
	let_go(e);
	return NULL;
}

/* Whatever of a link is the first that may not be pinned, at whichever end: the word is
 * memlock. */
static int memlock_case(unsigned a, unsigned b)
{
	const char *reason = "";
	size_t bytes;

	(void)a, (void)b;
	begin_case();
	try_listen();
	for (bytes = 4096; reason; bytes += 4096) {
		fake_may_pin(bytes);
		reason = reason_for_none();
		say("%zu bytes: %s\n", bytes, reason ? reason : "a link");
		CHECK(!reason || !strcmp(reason, "memlock"));
	}
	CHECK(bytes > 90 << 10 && bytes < 300 << 10);
	fake_may_pin(0);
	fake_fail("v_reg_mr", 1, EPERM);	/* the limit is zero */
	CHECK(!strcmp(reason_for_none(), "memlock"));
	fake_fail("v_create_cq", 1, EIO);
	CHECK(!strcmp(reason_for_none(), "device-failed"));
	end_case();
	return STRUCK;
}

/* Without CAP_IPC_LOCK. */
static void limit_memory(size_t bytes)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	struct rlimit rl = { bytes, bytes };

	CHECK(!syscall(SYS_capget, &head, caps));
	caps[0].effective &= ~(1u << CAP_IPC_LOCK);
	CHECK(!syscall(SYS_capset, &head, caps) && !setrlimit(RLIMIT_MEMLOCK, &rl));
	fake_may_pin(bytes);
}

/* Rings grow into half of what may be locked, queues included: the other half is for links
 * to come.  (Both ends are in this process.) */
static int room_case(unsigned limit, unsigned links)
{
	enum { BUSY_LINKS = 8, MOST = 64 };
	struct end *e[BUSY_LINKS + MOST];
	size_t idle;
	unsigned i, n;
	bool grown;

	/* The answerers of the links that are not in use yet wait for longer than a lost
	 * wake-up is waited for, if the machine has much else to do. */
	wait_limit = HANG_S * 1000;
	limit_memory(limit);
	begin_case();
	try_listen();
	for (n = 0; n < BUSY_LINKS; n++)
		e[n] = open_end(ECHO << 8 | n);
	idle = fake_pinned() / BUSY_LINKS;
	grown = idle * BUSY_LINKS > limit / 2;	/* there is no room for that */
	/* Rings grow only if the machine is quick enough. */
	for (i = 0; i < BUSY_LINKS || (!grown && i < 50 * BUSY_LINKS); i++) {
		both_ways(e[i % BUSY_LINKS], 512 << 10, i);
		grown |= fake_pinned() > idle * BUSY_LINKS;
	}
	say("idle %zu, with busy ones %zu bytes\n", idle, fake_pinned());
	CHECK(grown);
	for (i = 0; i < links && i < limit / 2 / idle && i < MOST; i++)
		e[n + i] = open_end(ECHO << 8 | (n + i));
	n += i;
	while (n-- > 0)
		let_go(e[n]);
	fake_may_pin(0);
	end_case();
	return STRUCK;
}

static void test_memlock(void)
{
	run_case(memlock_case, 0, 0);
	run_case(room_case, 4 << 20, UINT_MAX);
}

/* The program has all numbers among which ours are. */
static int numbers_case(unsigned a, unsigned b)
{
	struct rlimit rl;
	int n = 0;

	(void)a, (void)b;
	CHECK(!getrlimit(RLIMIT_NOFILE, &rl));
	if (rl.rlim_max < NUMBERS) {
		fprintf(stderr, "(not tried: the limit is %lu) ", (unsigned long)rl.rlim_max);
		return NOT_STRUCK;
	}
	rl.rlim_cur = NUMBERS;
	CHECK(!setrlimit(RLIMIT_NOFILE, &rl));
	begin_case();
	try_listen();
	CHECK(session(1000));
	/* Not by libc: the fake closes its descriptors as the library does, by the bare system
	 * call, so ThreadSanitizer would take a new descriptor for an old one. */
	for (int fd = 0; fd < NUMBERS - 100; n++)
		CHECK((fd = (int)syscall(SYS_dup, STDERR_FILENO)) > 0);
	CHECK(n > 1000);
	CHECK(!session(1000));
	CHECK(!close_range(1000, 10000, 0));
	end_case();
	return STRUCK;
}

static void test_numbers(void)
{
	run_case(numbers_case, 0, 0);
}

static bool all_acked(struct end *e)
{
	return atomic_load(&e->link->tx_acked) == atomic_load(&e->link->tx_w);
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
	fake_fail_send(sr_vlink(e->link)->qp, 1, status);
	CHECK(put(e, 4000, true) == 4000 && put(e, 4000, true) == 4000);
	CHECK(sr_vlink(e->link)->tx.sq_posted - sr_vlink(e->link)->tx.sq_done >= 2);
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

/* ---- verbs that take long: the service thread goes on meanwhile ---- */

static void cancel_call(void *arg)
{
	struct end *e = arg;

	sr_rendezvous_verbs.cancel(&e->ask);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* The loop of both ends runs: a call of it returns, and a stream moves bytes. */
static void other_work(struct end *e)
{
	CHECK(!loop_call(nothing, NULL));
	both_ways(e, 100000, 1);
}

static const char *const slow[] = {"v_alloc_pd", "v_reg_mr", "v_create_cq", "cm_create_qp",
				   "v_destroy_qp", "v_destroy_cq", "v_dereg_mr", "v_dealloc_pd"};
enum { MAKE = 4, SLOW = COUNT(slow) };

/* The first call of that verb is held, which is for the asker's link; or the second one, which
 * is for the answerer's if a link takes one such call. */
static int slow_case(unsigned verb, unsigned n)
{
	bool makes = verb < MAKE;
	struct end *e, *f = NULL;

	begin_case();
	try_listen();
	e = open_end(ECHO << 8 | 1);
	if (!makes)
		f = open_end(ECHO << 8 | 2);
	fake_hold(slow[verb], n);
	if (makes)
		f = ask_start(ECHO << 8 | 2, listen_port);
	else
		let_go(f);
	fake_await_held();
	other_work(e);
	close_end(e);
	fake_hold(NULL, 0);
	if (makes) {
		CHECK(ask_wait(f));
		both_ways(f, 5000, 1);
		close_end(f);
	}
	end_case();
	return STRUCK;
}

enum { CANCELLED, DROPPED, UNPLUGGED };

static void drop_call(void *arg)
{
	last_end->link->ops->drop(last_end->link, arg);
}

/* A link goes while it is being made: the asker's, or (n is 2) the answerer's. */
static int unmade_case(unsigned how, unsigned n)
{
	struct end *e, *f;

	begin_case();
	try_listen();
	e = open_end(ECHO << 8 | 1);
	fake_hold("v_create_cq", n);	/* one for each link, on every device */
	f = ask_start(ECHO << 8 | 2, listen_port);
	fake_await_held();
	if (how == CANCELLED)
		CHECK(!loop_call(cancel_call, f));
	else if (how == DROPPED)
		CHECK(!loop_call(drop_call, "memory"));
	else
		fake_unplug();
	if (how != UNPLUGGED)
		other_work(e);
	CHECK(!loop_call(nothing, NULL));
	fake_hold(NULL, 0);
	if (how == CANCELLED)
		close_fds(f);
	else
		CHECK(!ask_wait(f));
	if (how == DROPPED)
		CHECK(!strcmp(f->reason, "memory"));
	let_go(e);
	end_case();
	return STRUCK;
}

static void test_slow(void)
{
	unsigned i;

	for (i = 0; i < SLOW; i++) {
		run_case(slow_case, i, 1);
		run_case(slow_case, i, 2);
	}
	run_case(unmade_case, CANCELLED, 1);
	run_case(unmade_case, CANCELLED, 2);
	run_case(unmade_case, DROPPED, 2);
	run_case(unmade_case, UNPLUGGED, 1);
	run_case(unmade_case, UNPLUGGED, 2);
}

/* A peer that lies: it writes to another link's ring, whose address and key it knows. */
static int neighbour_case(unsigned a, unsigned b)
{
	struct sr_ring_ref own, other;
	struct end *e, *f;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = open_end(SINK << 8 | 2);
	f = open_end(ECHO << 8 | 2);
	both_ways(f, 5000, 1);
	sr_lock(&sr_vlink(f->link)->lock);
	other = sr_vlink(f->link)->tx.peer;
	sr_unlock(&sr_vlink(f->link)->lock);
	sr_lock(&sr_vlink(e->link)->lock);
	own = sr_vlink(e->link)->tx.peer;
	CHECK(own.rkey != other.rkey);
	sr_vlink(e->link)->tx.peer = (struct sr_ring_ref){
		.addr = other.addr, .rkey = other.rkey, .size = own.size, .gen = own.gen };
	sr_unlock(&sr_vlink(e->link)->lock);
	CHECK(put(e, 1000, true) == 1000);
	CHECK(!await(e, SR_NOTIFY_TX, all_acked));
	say("%s\n", e->link->reason);
	CHECK(!strcmp(e->link->reason, "peer-dropped"));
	both_ways(f, 100000, 1);
	let_go(e);
	close_end(f);
	end_case();
	return STRUCK;
}

static void test_neighbour(void)
{
	run_case(neighbour_case, 0, 0);
}

/* A completion vector is an interrupt, and so a CPU, which wakes those that sleep. */
static int vectors_case(unsigned a, unsigned b)
{
	enum { SOME = 8 };
	struct end *e[SOME];
	unsigned i, most = fake_profile()->vectors;

	(void)a, (void)b;
	begin_case();
	try_listen();
	for (i = 0; i < SOME; i++)
		e[i] = open_end(ECHO << 8 | i);
	say("%u of %u vectors\n", fake_vectors(), most);
	CHECK(fake_vectors() == (most < SOME ? most : SOME));
	while (i-- > 0)
		let_go(e[i]);
	end_case();
	return STRUCK;
}

/* ---- where the memory is ---- */

/* How the kernel treats the pages at that address: a word of VmFlags in smaps. */
static bool has_flag(const void *at, const char *flag)
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	bool here = false, has = false;
	char line[512];

	CHECK(maps);
	while (!has && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= (uintptr_t)at && (uintptr_t)at < to;
		has = here && !strncmp(line, "VmFlags:", 8) && strstr(line, flag);
	}
	fclose(maps);
	return has;
}

static int access_of(const struct sr_vring *r)
{
	return ((struct mr *)r->mr)->access;
}

/* Receive rings alone are written in any order.  Large ones lie in huge pages, if there are
 * any, and small ones do not. */
static int memory_case(unsigned kb, unsigned huge)
{
	const bool relaxed = !fake_profile()->old_kernel;
	struct sr_vlink *l;
	struct end *e;

	sr_conf.policy.ring_first = kb << 10;
	sr_conf.policy.ring_max = kb << 10;
	begin_case();
	try_listen();
	e = open_end(ECHO << 8 | 2);
	l = sr_vlink(e->link);
	CHECK_EQ(!!(access_of(&l->rx.ring[0]) & IBV_ACCESS_RELAXED_ORDERING), relaxed);
	CHECK(!((access_of(&l->tx.ring) | access_of(&l->ctl)) & IBV_ACCESS_RELAXED_ORDERING));
	CHECK_EQ(!has_flag(l->rx.ring[0].buf, " hg"), !huge);
	CHECK_EQ(!has_flag(l->tx.ring.buf, " hg"), !huge);
	CHECK(has_flag(l->rx.ring[0].buf, " dc"));	/* not for children of fork */
	if (huge)
		CHECK(!((uintptr_t)l->rx.ring[0].buf % (2 << 20)));
	both_ways(e, 3 * kb << 10, 1);
	close_end(e);
	end_case();
	return STRUCK;
}

/* The kernel's word for a device that is near one node.  Where it has but one node, none is
 * asked for. */
static int node_case(unsigned a, unsigned b)
{
	enum { NODE_OF_ADDRESS = 2 };	/* MPOL_F_ADDR of linux/mempolicy.h */
	char dir[] = "/tmp/node.XXXXXX", path[64];
	const size_t size = 65536;
	int policy = -1;
	FILE *file;
	void *mem;

	(void)a, (void)b;
	CHECK(mkdtemp(dir));
	CHECK_EQ(sr_vmem_node(dir), -1);
	snprintf(path, sizeof(path), "%s/device", dir);
	CHECK(!mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/device/numa_node", dir);
	for (int node = -1; node < 2; node++) {
		file = fopen(path, "we");
		CHECK(file && fprintf(file, "%d\n", node) > 0);
		fclose(file);
		CHECK_EQ(sr_vmem_node(dir), node);
	}
	CHECK(!unlink(path));
	snprintf(path, sizeof(path), "%s/device", dir);
	CHECK(!rmdir(path) && !rmdir(dir));

	mem = sr_pages_get(size);
	sr_vmem_place(mem, size, 0);
	if (syscall(SYS_get_mempolicy, &policy, NULL, 0, mem, NODE_OF_ADDRESS))
		say("no get_mempolicy: %s\n", strerror(errno));
	else
		CHECK_EQ(policy, 1);	/* MPOL_PREFERRED */
	sr_pages_put(mem, size);
	return STRUCK;
}

static void test_memory(void)
{
	run_case(memory_case, 1 << 10, false);
	if (!access("/sys/kernel/mm/transparent_hugepage", F_OK)) {
		run_case(memory_case, 2 << 10, true);
		run_case(memory_case, 4 << 10, true);
	}
	run_case(node_case, 0, 0);
}

static void test_vectors(void)
{
	run_case(vectors_case, 0, 0);
}

/* ---- small writes of a program that computes ---- */

static bool is_watched(struct end *e)
{
	struct sr_vlink *l = sr_vlink(e->link);
	bool is;

	sr_lock(&l->lock);
	is = l->cq.watched;
	sr_unlock(&l->lock);
	return is;
}

/* Without a look at what has come. */
static void write_small(struct end *e)
{
	struct iovec v[2];

	pthread_mutex_lock(&e->tx);
	if (e->link->ops->tx_room(e->link, v))
		e->link->ops->tx_commit(e->link, 1, false);
	pthread_mutex_unlock(&e->tx);
}

/* Returns how many bytes are not posted yet. */
static uint64_t held_back(struct end *e)
{
	struct sr_vlink *l = sr_vlink(e->link);
	uint64_t n;

	sr_lock(&l->lock);
	n = atomic_load(&e->link->tx_w) - l->tx.sent;
	sr_unlock(&l->lock);
	return n;
}

/* When the service thread looks; 0: that is not known, because it has just done so. */
static uint64_t next_look_ns;

static void look_call(void *arg)
{
	struct sr_vlook *k = &sr_vlink(((struct end *)arg)->link)->look;
	uint64_t now = sr_now_ns();

	next_look_ns = k->busy || k->timer.at_ns <= now ? 0 : k->timer.at_ns - now;
}

/* Three small writes, and then no call.  The third is held back until the others have
 * completed, and the service thread looks soon. */
static bool hold_once(struct end *e)
{
	uint64_t ns;
	int i;

	do {	/* in use, and so not watched */
		usleep(1000);
		e->link->ops->poll(e->link);
	} while (!all_acked(e) || is_watched(e));
	fake_pause(true);
	for (i = 0; i < 3; i++)
		write_small(e);
	CHECK(held_back(e) == 1);
	CHECK(!loop_call(look_call, e));
	ns = next_look_ns;
	say("the next look is in %u us\n", (unsigned)(ns / 1000));
	CHECK(ns <= 200000);
	fake_pause(false);
	while (held_back(e))
		usleep(100);
	return ns;
}

static int held_case(unsigned a, unsigned b)
{
	struct end *e;
	int i;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = open_end(SINK << 8 | 2);
	for (i = 0; i < 100 && !hold_once(e); i++)
		;
	CHECK(i < 100);
	close_end(e);
	end_case();
	return STRUCK;
}

/* A program that only sends takes its completions itself: none of them wakes the service
 * thread. */
static int sender_case(unsigned a, unsigned b)
{
	struct end *e;
	int i;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = open_end(SINK << 8 | 2);
	usleep(150 * 1000);
	while (!is_watched(e))	/* idle */
		usleep(1000);
	for (i = 0; i < 5000 && is_watched(e); i++) {
		write_small(e);
		usleep(1000);
	}
	CHECK(!is_watched(e));
	close_end(e);
	end_case();
	return STRUCK;
}

static void test_small(void)
{
	run_case(held_case, 0, 0);
	run_case(sender_case, 0, 0);
}

/* ---- many links at once ---- */

enum { AT_ONCE = 24 };

static void ask_for_all(void *arg)
{
	struct end **e = arg;

	for (int i = 0; i < AT_ONCE; i++)
		CHECK(!sr_rendezvous_verbs.ask(&e[i]->ask));
}

static void let_all_go(void *arg)
{
	struct end **e = arg;

	for (int i = 0; i < AT_ONCE; i++) {
		e[i]->link->ops->drop(e[i]->link, "short");
		put_call(e[i]);
	}
}

/* The service thread has other things to do: it answers the PROBEs of all links.  (It makes a
 * device's first objects, to see whether it is of use.) */
static int turns_case(unsigned a, unsigned b)
{
	struct end *e[AT_ONCE], *first;
	unsigned i, before;

	(void)a, (void)b;
	begin_case();
	try_listen();
	first = open_end(ECHO << 8 | AT_ONCE);
	before = fake_slow_in_loop();
	for (i = 0; i < AT_ONCE; i++)
		e[i] = ask_prepare(ECHO << 8 | i, listen_port);
	CHECK(!loop_call(ask_for_all, e));
	for (i = 0; i < AT_ONCE; i++)
		CHECK(ask_wait(e[i]));
	CHECK(!loop_call(let_all_go, e));
	let_go(first);
	while (sr_memory_used())
		usleep(1000);
	CHECK_EQ(fake_slow_in_loop(), before);
	end_case();
	return STRUCK;
}

static void test_turns(void)
{
	run_case(turns_case, 0, 0);
}

/* ---- a peer that cannot be heard ---- */

/* A queue pair gives up in retry_ms; and so does the link, if all that it has sent seems to
 * have arrived. */
static int mute_case(unsigned ms, unsigned unused)
{
	uint8_t timeout, retries;
	uint64_t start, took;
	struct end *e;

	(void)unused;
	begin_case();
	sr_conf.retry_ms = ms;
	try_listen();
	e = open_end(SINK << 8 | 1);
	fake_patience(&timeout, &retries);
	took = (UINT64_C(4096) << timeout) * (retries + 1u) / 1000000;
	CHECK(took <= ms && took > ms / 3 && retries < 7);
	CHECK(put(e, 1000, true) == 1000);
	CHECK(await(e, SR_NOTIFY_TX, all_acked));
	usleep(200000);		/* the service thread does not look any more */
	fake_mute(true);
	start = sr_now_ns();
	CHECK(put(e, 1000, true) == 1000);
	CHECK(!await(e, SR_NOTIFY_TX, all_acked));
	took = (sr_now_ns() - start) / 1000000;
	say("%s after %u ms\n", e->link->reason, (unsigned)took);
	CHECK(!strcmp(e->link->reason, "timeout"));
	CHECK(took >= ms * 3 / 4);
	fake_mute(false);
	let_go(e);
	end_case();
	return STRUCK;
}

/* epoll(7), max_user_watches: no descriptor can be watched any more. */
static atomic_bool no_watches;

int sr_sys_fails(long number);
int sr_sys_fails(long number)
{
	return number == SYS_epoll_ctl && atomic_load(&no_watches) ? ENOSPC : 0;
}

static void begin_case_with_a_loop(void)
{
	CHECK(!loop_call(no_call, NULL));
	begin_case();
}

/* unwatched: the peer answers PROBEs, although its service thread cannot watch the link. */
static int deaf_case(unsigned ms, unsigned unwatched)
{
	struct end *e;

	begin_case_with_a_loop();
	sr_conf.retry_ms = ms;
	try_listen();
	if (!unwatched) {
		e = open_end(DEAF << 8 | 1);
	} else {
		CHECK(session(1000));	/* device and channel are watched */
		atomic_store(&no_watches, true);
		e = open_end(DEAF << 8 | 1);
	}
	CHECK(put(e, 1000, true) == 1000);
	CHECK(await(e, SR_NOTIFY_TX, all_acked)); /* after 1.5 s */
	close_end(e);
	atomic_store(&no_watches, false);
	end_case();
	return STRUCK;
}

/* The CM's channel, or the device, cannot be watched: no link, and nobody waits for one. */
static int unwatched_case(unsigned ms, unsigned unused)
{
	uint64_t start;

	(void)unused;
	begin_case_with_a_loop();
	atomic_store(&no_watches, true);
	try_listen();
	CHECK(!listener);
	start = sr_now_ns();
	CHECK(!session(1000));
	CHECK(sr_now_ns() - start < ms * UINT64_C(1000000));
	atomic_store(&no_watches, false);
	end_case();
	return STRUCK;
}

static void test_unwatched(void)
{
	run_case(unwatched_case, 4000, 0);
	run_case(deaf_case, 700, 1);
}

static void test_mute(void)
{
	run_case(mute_case, 400, 0);
	run_case(mute_case, 1000, 0);
	run_case(deaf_case, 700, 0);
}

/* ---- late, and in another order ---- */

enum { LINKS = 6 };

static void *run_transfer(void *arg)
{
	struct end *e = arg;

	e->spin = e->no % 3 * 30;
	both_ways(e, 300000, e->no & 3);
	return NULL;
}

static void many_transfers(void)
{
	struct end *e[LINKS];
	unsigned i;

	for (i = 0; i < LINKS; i++)
		e[i] = open_end(ECHO << 8 | i);
	for (i = 0; i < LINKS; i++)
		CHECK(!pthread_create(&e[i]->thread, NULL, run_transfer, e[i]));
	for (i = 0; i < LINKS; i++)
		pthread_join(e[i]->thread, NULL);
	for (i = 0; i < LINKS; i++)
		close_end(e[i]);
}

static int late_case(unsigned us, unsigned n)
{
	begin_case();
	try_listen();
	fake_delay(us, n);
	many_transfers();
	end_case();
	return STRUCK;
}

static void test_late(void)
{
	run_case(late_case, 1, 1);
	run_case(late_case, 50, 2);
	run_case(late_case, 500, 3);
}

static atomic_bool stepping;

/* Bursts of steps, and pauses in which nothing moves. */
static void *run_steps(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (atomic_load(&stepping)) {
		fake_step(1 + check_random(&seed) % 100);
		if (!(check_random(&seed) % 8))
			usleep(check_random(&seed) % 2000);
	}
	return NULL;
}

static int step_case(unsigned seed, unsigned unused)
{
	pthread_t t;

	(void)unused;
	begin_case();
	try_listen();
	fake_delay(0, seed);
	fake_pause(true);
	atomic_store(&stepping, true);
	CHECK(!pthread_create(&t, NULL, run_steps, (void *)(uintptr_t)seed));
	many_transfers();
	atomic_store(&stepping, false);
	pthread_join(t, NULL);
	fake_pause(false);
	end_case();
	return STRUCK;
}

static void test_steps(void)
{
	run_case(step_case, 1, 0);
	run_case(step_case, 2, 0);
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

	begin_case();
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
	const char *seed = getenv("SEED");

	run_case(soak_case, seed ? atoi(seed) : 1, 3);
}

static void test_long_soak(void)
{
	unsigned seed;

	for (seed = 1; seed <= 20; seed++)
		run_case(soak_case, seed, 10);
}

static const struct test tests[] = {
	{"verbs", test_verbs, false},	     {"statuses", test_statuses, false},
	{"events", test_events, false},	     {"midst", test_midst, false},
	{"low_port", test_low_port, false},  {"requests", test_requests, false},
	{"iwarp", test_iwarp, false},	     {"path", test_path, false},
	{"told", test_told, false},	     {"memlock", test_memlock, false},
	{"asking", test_asking, false},	     {"narrow", test_narrow, false},
	{"numbers", test_numbers, false},    {"batch", test_batch, false},
	{"lost", test_lost, false},	     {"mute", test_mute, false},
	{"neighbour", test_neighbour, false},
	{"memory", test_memory, false},
	{"unwatched", test_unwatched, false}, {"vectors", test_vectors, false},
	{"small", test_small, false},	     {"turns", test_turns, false},
	{"late", test_late, false},	     {"slow", test_slow, false},
	{"steps", test_steps, false},	     {"soak", test_soak, false},
	{"long_soak", test_long_soak, true},
};

static void run_cases(const struct test *t)
{
	t->fn();
}

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_cases);
}
