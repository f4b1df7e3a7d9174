/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream_verbs.c - streams on an RDMA device that fails: every verb at its n-th call,
 * completions with an error, events that come as others, queue pairs flushed, peers
 * that vanish or fall silent, the device unplugged, everything late.  Whatever happens,
 * each byte arrives, by TCP if need be, and nothing is left over.  In half of the cases the
 * streams share a carrier.
 *
 *     stream_verbs         all verbs, and some of each other kind
 *     stream_verbs SEED    one case of any kind, as a line for tests/faults/table.awk
 *
 * Each case is a process of its own, so that a hang or a crash is one case's.
 */
#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "check.h"
#include "fake_profile.h"
#include "fake_verbs.h"
#include "in_process.h"
#include "link/link.h"
#include "link/verbs/lib.h"
#include "loop_call.h"
#include "sockrail.h"
#include "upgrade/upgrade.h"

enum { FEW = 3, MANY = 200, HANG_S = 30, HANG_MANY_S = 120 };
enum { STRUCK = 1, HAD_LINK = 2, RESULTS = 4 };	/* what a case returns, by bits */

/* It takes two eventfds for one, as fake_eventfd() says. */
const char *__tsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__tsan_default_suppressions(void)
{
	return "race:sr_waiter_fd\n";
}

static uint64_t dice;
static unsigned streams = FEW;

static unsigned below(unsigned n)
{
	return (unsigned)(check_random(&dice) % n);
}

/* ---- bytes ---- */

struct flow {
	pthread_t thread;
	int fd;
	bool sends;
	uint64_t id, seed;
	size_t n;
};

static unsigned char byte_at(const struct flow *f, size_t at)
{
	return (unsigned char)(f->id * 89 + at * 7 + (at >> 8));
}

static void send_all(struct flow *f)
{
	unsigned char buf[20000];
	size_t at = 0, n;
	ssize_t r;

	while (at < f->n) {
		n = 1 + check_random(&f->seed) % sizeof(buf);
		n = n < f->n - at ? n : f->n - at;
		for (size_t i = 0; i < n; i++)
			buf[i] = byte_at(f, at + i);
		r = sr_send(f->fd, buf, n, 0);
		CHECK(r > 0);
		at += (size_t)r;
		usleep(at < 200000 ? 500 : 0);	/* there may be a link soon */
	}
	CHECK_EQ(sr_shutdown(f->fd, SHUT_WR), 0);
}

static void receive_all(struct flow *f)
{
	struct pollfd p = {.fd = f->fd, .events = POLLIN};
	unsigned char buf[20000];
	size_t at = 0;
	ssize_t r;

	do {
		if (check_random(&f->seed) % 2)
			CHECK_EQ(sr_poll(&p, 1, -1), 1);
		r = sr_recv(f->fd, buf, 1 + check_random(&f->seed) % sizeof(buf), 0);
		CHECK(r >= 0);
		for (size_t i = 0; i < (size_t)r; i++)
			CHECK_EQ(buf[i], byte_at(f, at + i));
		at += (size_t)r;
	} while (r);
	CHECK_EQ(at, f->n);
}

static void *run_flow(void *arg)
{
	struct flow *f = arg;

	if (f->sends)
		send_all(f);
	else
		receive_all(f);
	return NULL;
}

/* ---- streams, whose ends are both this process's ---- */

static int listen_here(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = sr_socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)a, sizeof(*a)));
	CHECK_EQ(getsockname(fd, (struct sockaddr *)a, &len), 0);
	CHECK_EQ(sr_listen(fd, MANY), 0);
	return fd;
}

/* The two flows of each way: id tells their bytes. */
static void start_flows(struct flow flow[4], const int fd[2], unsigned id)
{
	const unsigned most = streams == MANY ? 30000 : 400000;
	size_t n[2] = {1 + below(most), 1 + below(most)};

	for (unsigned k = 0; k < 4; k++) {
		unsigned way = k / 2;	/* 0: from fd[0] */

		flow[k] = (struct flow){.fd = fd[(k & 1) ^ way], .sends = !(k & 1),
					.id = id * 2 + way, .seed = below(1 << 20),
					.n = n[way]};
		CHECK_EQ(pthread_create(&flow[k].thread, NULL, run_flow, &flow[k]), 0);
	}
}

static bool end_stream(struct flow flow[4], const int fd[2])
{
	struct sr_info info;

	for (unsigned k = 0; k < 4; k++)
		pthread_join(flow[k].thread, NULL);
	CHECK_EQ(sr_info(fd[0], &info, sizeof(info)), 0);
	CHECK_EQ(sr_close(fd[0]), 0);
	CHECK_EQ(sr_close(fd[1]), 0);
	return info.tx.verbs + info.rx.verbs > 0;
}

static bool move_all(void (*trouble)(void))
{
	static struct flow flow[MANY][4];
	int fd[MANY][2], lfd;
	struct sockaddr_in a;
	bool linked = false;

	lfd = listen_here(&a);
	for (unsigned i = 0; i < streams; i++) {
		fd[i][0] = sr_socket(AF_INET, SOCK_STREAM, 0);
		CHECK_EQ(sr_connect(fd[i][0], (struct sockaddr *)&a, sizeof(a)), 0);
		fd[i][1] = sr_accept4(lfd, NULL, NULL, 0);
		CHECK(fd[i][1] >= 0);
		start_flows(flow[i], fd[i], i);
	}
	if (trouble)
		trouble();
	for (unsigned i = 0; i < streams; i++)
		linked |= end_stream(flow[i], fd[i]);
	CHECK_EQ(sr_close(lfd), 0);
	return linked;
}

/* ---- kinds of trouble ---- */

static void flush_all(void)
{
	usleep(below(30000));
	fake_flush();
}

static void kill_peers(void)
{
	usleep(below(30000));
	fake_kill();
}

static void plug(void)
{
	bool iwarp = below(2);

	fake_plug(fake_profile()->kinds == FAKE_BOTH ? iwarp : fake_profile()->kinds == FAKE_IWARP);
}

static void unplug(void)
{
	usleep(below(30000));
	fake_unplug();
	usleep(below(30000));
	if (below(2))
		plug();
}

static void fall_silent(void)
{
	usleep(below(30000));
	fake_mute(true);
}

static void tell(void)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_PORT_ERR,
		IBV_EVENT_CQ_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_DEVICE_FATAL};

	usleep(below(30000));
	fake_async(types[below(6)]);
}

static void lose_event(void)
{
	static const enum rdma_cm_event_type from[] = {
		RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED,
		RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ESTABLISHED};
	static const enum rdma_cm_event_type to[] = {
		RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_ERROR,
		RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_CONNECT_ERROR};
	unsigned i = below(4);

	fake_swap_event(from[i], to[i], -ETIMEDOUT);
}

static void fail_completion(void)
{
	static const enum ibv_wc_status statuses[] = {
		IBV_WC_LOC_PROT_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_RETRY_EXC_ERR,
		IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_FATAL_ERR, IBV_WC_WR_FLUSH_ERR};

	fake_fail_send(NULL, 1 + below(60), statuses[below(6)]);
}

static unsigned verb, call;	/* what fails, and when */

static void fail_verb(void)
{
	fake_fail(fake_verb(verb), call, call & 1 ? ENOMEM : EIO);
}

static void be_late(void)
{
	fake_delay(1 + below(3000), below(1 << 20));
}

static const struct {
	const char *name;
	void (*before)(void), (*during)(void);
} kinds[] = {
	{"verb-fails", fail_verb, NULL},
	{"completion-fails", fail_completion, NULL},
	{"event-lost", lose_event, NULL},
	{"queue-pairs-flushed", NULL, flush_all},
	{"RDMA-peer-vanishes", NULL, kill_peers},
	{"device-unplugged", NULL, unplug},
	{"device-silent", NULL, fall_silent},
	{"device-event", NULL, tell},
	{"device-late", be_late, NULL},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- a case ---- */

static void nothing(void *arg)
{
	(void)arg;
}

static void check_nothing_left(void)
{
	CHECK_EQ(loop_call(nothing, NULL), 0);	/* a rendezvous is open, or never will be */
	for (int i = 0; i < 8000 && sr_memory_used(); i++)
		usleep(1000);
	CHECK_EQ(sr_memory_used(), 0);
	fake_unplug();
	for (int i = 0; i < 5000 && atomic_load(&fake_alive); i++)
		usleep(1000);
	CHECK_EQ(atomic_load(&fake_alive), 0);
	CHECK_EQ(loop_call(nothing, NULL), 0);
}

static int move_in_trouble(unsigned kind)
{
	bool linked;
	int result;

	sr_answer_init();	/* as the constructor of fork.c, which is not linked */
	sr_conf.policy.upgrade = below(3) ? SR_WAIT : SR_EAGER;
	sr_conf.policy.carriers = streams == MANY ? 1 : (unsigned[]){ 0, 1, 0, 8 }[below(4)];
	plug();
	fake_delay(below(3) * 100, below(1 << 20));
	if (kinds[kind].before)
		kinds[kind].before();
	linked = move_all(kinds[kind].during);
	result = (linked ? HAD_LINK : 0) | (fake_struck() ? STRUCK : 0);
	fake_fail(NULL, 0, 0);
	fake_fail_send(NULL, 0, 0);
	fake_delay(0, 1);
	check_nothing_left();
	return result;
}

struct a_case {
	unsigned kind;
	uint64_t seed;
};

static int run(void *arg)
{
	const struct a_case *c = arg;

	dice = c->seed;
	check_about(kinds[c->kind].name, c->seed);
	_exit(move_in_trouble(c->kind) + 16);
}

/* Its status. */
static int run_case(unsigned kind, uint64_t seed)
{
	struct a_case c = { kind, seed };

	return in_process(run, &c, streams == MANY ? HANG_MANY_S : HANG_S);
}

static bool is_good(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) >= 16;
}

/* Of any kind. */
static int any_case(uint64_t seed)
{
	unsigned kind, verbs = 0;
	int status;

	dice = seed;
	while (fake_verb(verbs))
		verbs++;
	kind = below(3) ? 0 : 1 + below(KINDS - 1);
	verb = below(verbs);
	call = 1 + below(below(2) ? 10 : 60);
	status = run_case(kind, seed);
	printf("%s %s - - - - 0 %d: status=%x verb=%s call=%u linked=%d\n",
	       is_good(status) ? "ok" : "failed", kinds[kind].name,
	       WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM, (unsigned)status,
	       kind ? "-" : fake_verb(verb), call, is_good(status) && (WEXITSTATUS(status) & HAD_LINK));
	return !is_good(status);
}

static unsigned cases, linked_cases;

static bool good_case(unsigned kind, uint64_t seed)
{
	int status = run_case(kind, seed);

	if (!is_good(status)) {
		fprintf(stderr, "%s %s, call %u, seed %u: status %x\n", kinds[kind].name,
			fake_verb(verb), call, (unsigned)seed, (unsigned)status);
		exit(1);
	}
	cases++;
	linked_cases += (WEXITSTATUS(status) & HAD_LINK) != 0;
	return WEXITSTATUS(status) & STRUCK;
}

int main(int argc, char **argv)
{
	if (!getenv("SOCKRAIL_LINKS")) {	/* they are read before main() */
		setenv("SOCKRAIL_LINKS", "verbs", 1);
		execv(argv[0], argv);
	}
	if (argc > 1)
		return any_case(strtoull(argv[1], NULL, 0));
	for (verb = 0; fake_verb(verb); verb++)
		for (call = 1; call < 60; call += 1 + call / 3)
			if (!good_case(0, call))
				break;
	for (unsigned kind = 1; kind < KINDS; kind++)
		for (unsigned seed = 1; seed < 5; seed++)
			good_case(kind, seed);
	streams = MANY;	/* on one carrier, which is killed */
	good_case(3, 1);
	good_case(4, 2);
	printf("%u cases, %u with a link\n", cases, linked_cases);
	CHECK(cases > 60 && linked_cases > cases / 3);
	return 0;
}
