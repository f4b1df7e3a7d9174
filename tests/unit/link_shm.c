/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_shm.c - the shared memory link, driven as the engine would.  Each
 * pair of an asker and an answerer runs as two processes and as two threads of
 * one.  A wait that takes 20 s is a lost wake-up.
 */
#include <sched.h>

#include "base/now.h"
#include "in_process.h"
#include "link_pair.h"

#define HANG_S 300

/* ---- the cases: what one end does ---- */

static const size_t sizes[] = {1,     2,     63,    4096,    16383,
			       16384, 16385, 65537, 1000000, 10000000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void *send_all_sizes(void *arg)
{
	unsigned i;

	for (i = 0; i < SIZES; i++)
		CHECK(send_bytes(arg, sizes[i], i % 3 ? 65536 : 1000));
	return NULL;
}

static void bytes(struct end *e)
{
	pthread_t t;
	unsigned i;

	CHECK(!pthread_create(&t, NULL, send_all_sizes, e));
	for (i = 0; i < SIZES; i++)
		CHECK(receive_bytes(e, sizes[i], i % 2 ? 70000 : 999, true));
	pthread_join(t, NULL);
}

static void ping_pong_n(struct end *e, unsigned n)
{
	while (n--) {
		if (e->asker)
			CHECK(send_bytes(e, 8, 8));
		CHECK(receive_bytes(e, 8, 8, true));
		if (!e->asker)
			CHECK(send_bytes(e, 8, 8));
	}
}

static void ping_pong(struct end *e)
{
	/* An emulated processor takes a millisecond for a turn. */
	unsigned turns = getenv("SR_TEST_SHORT") ? 5000 : 100000;

	e->spin = 0;
	ping_pong_n(e, turns);
	e->spin = 3; /* now and then asleep: the races */
	ping_pong_n(e, turns);
	e->spin = 0;
}

static void slow_consumer(struct end *e)
{
	int i;

	if (e->asker) {
		CHECK(send_bytes(e, 3000000, 50000));
		return;
	}
	for (i = 0; i < 100; i++) {
		CHECK(receive_bytes(e, 30000, 10000, true));
		usleep(1000);
	}
}

/* A receiver that does not read must not keep a ring from growing. */
static void retained(struct end *e)
{
	struct iovec v[2];
	uint64_t k = 12345;
	size_t n = sr_conf.policy.ring_max;

	if (!e->asker) {
		await_events(e, SR_LINK_END);
		CHECK(receive_bytes(e, n, 1000, true));
		return;
	}
	CHECK(send_bytes(e, n, 5000));
	while (k < e->link->tx_w) {
		size_t i, j, got = e->link->ops->tx_retained(e->link, k, v);

		CHECK(got && got == v[0].iov_len + v[1].iov_len);
		for (i = 0; i < 2; i++)
			for (j = 0; j < v[i].iov_len; j++, k++)
				CHECK(((uint8_t *)v[i].iov_base)[j] ==
				      pattern(0, true, k));
	}
	CHECK(k == 12345 + n);
	say(e, SR_MSG_END, k);
}

static size_t resident(struct end *e)
{
	struct sr_shm *l = (struct sr_shm *)e->link;
	size_t page = l->plan.page, n = l->plan.total / page, i, sum = 0;
	unsigned char *in = malloc(n);

	CHECK(in && !mincore(l->map, l->plan.total, in));
	for (i = 0; i < n; i++)
		sum += (in[i] & 1) * page;
	free(in);
	return sum;
}

static void idle(struct end *e)
{
	bytes(e);
	usleep(3500000);
	CHECK(resident(e) <= 65536);
	CHECK(sr_shm_of(e->link)->taken_memory <= 65536);
	ping_pong_n(e, 1); /* the other one has to look, too */
	bytes(e);
}

static void ending(struct end *e)
{
	struct iovec v[2];
	int i;

	for (i = 0; i < 20; i++)
		CHECK(send_bytes(e, 1000, 100));
	say(e, SR_MSG_END, e->link->tx_w);
	CHECK(receive_bytes(e, 20000, 512, true));
	CHECK(!await(e, SR_NOTIFY_RX, may_read) || !e->link->ops->rx_data(e->link, 0, v));
	CHECK(sr_link_events(e->link) & SR_LINK_END);
	CHECK(e->link->rx_h == e->link->peer_end);
	say(e, SR_MSG_ACKEND, 0);
	await_events(e, SR_LINK_ACKEND);
	while (e->link->tx_acked != e->link->tx_w)
		e->link->ops->poll(e->link);
}

static void dropping(struct end *e)
{
	struct iovec v[2];
	struct sr_msg msg = {.type = SR_MSG_END};

	if (e->asker) {
		CHECK(send_bytes(e, 5000, 5000));
		e->link->ops->drop(e->link, "option");
		CHECK(dead(e) && !strcmp(e->link->reason, "option"));
		CHECK(e->link->ops->ctl(e->link, &msg) == -EPIPE);
		CHECK(!e->link->ops->tx_room(e->link, v));
		return;
	}
	while (await(e, SR_NOTIFY_RX, may_read)) { /* asleep when it comes */
		e->link->ops->rx_free(e->link, 1000);
		if (e->link->rx_taken == 12345 + 5000)
			e->spin = 0;
	}
	CHECK(dead(e) && !strcmp(e->link->reason, "peer-dropped"));
	CHECK(e->link->rx_taken == 12345 + 5000);
}

/* Several threads asleep on one doorbell, each direction wakes the right one. */
static void *take_half(void *arg)
{
	CHECK(receive_bytes(arg, 300000, 64, true));
	return NULL;
}

static void two_sleepers(struct end *e)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, take_half, e));
	CHECK(send_bytes(e, 300000, e->asker ? 5000 : 1));
	pthread_join(t, NULL);
}

/* Bytes that come to one who stands make the descriptor readable, once. */
static void await_standing(struct end *e)
{
	struct sr_link *l = atomic_load(&e->link);
	struct pollfd p = { -1, POLLIN, 0 };

	for (;;) {
		p.fd = l->ops->arm_once(l, SR_NOTIFY_RX);
		l->ops->poll(l);
		if (atomic_load(&l->rx_h) != atomic_load(&l->rx_taken))
			return;
		CHECK(poll(&p, 1, HANG_MS) == 1);
	}
}

static void armed_once(struct end *e)
{
	for (int i = 0; i < 2000; i++) {
		if (e->asker)
			CHECK(send_bytes(e, 10, 10));
		await_standing(e);
		CHECK(receive_bytes(e, 10, 10, false));
		if (!e->asker)
			CHECK(send_bytes(e, 10, 10));
	}
}

/* Both ends on one core see that they are. */
static void one_core(struct end *e)
{
	cpu_set_t set;
	int core = 0;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	while (!CPU_ISSET(core, &set))
		core++;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	CHECK(!sched_setaffinity(0, sizeof(set), &set));
	while (!sr_link_same_core(e->link))
		usleep(100);
	ping_pong_n(e, 1); /* the other one has to see it, too */
}

/* ---- peers that misbehave ---- */

/* The peer is gone without a word: what there is stays readable. */
static void killed(void)
{
	struct iovec v[2];

	answerer_process(NULL);
	start();
	attach(&asker);
	CHECK(send_bytes(&asker, 5000, 1000));
	CHECK(receive_bytes(&asker, 40000, 1000, true));
	await_events(&asker, SR_LINK_DEAD);
	CHECK(!strcmp(asker.link->reason, "peer-dropped"));
	CHECK(receive_bytes(&asker, 10000, 1000, true));
	CHECK(!asker.link->ops->rx_data(asker.link, 0, v));
	CHECK(asker.link->ops->tx_retained(asker.link, 12345, v) == 5000);
	detach(&asker);
	while (sr_memory_used())
		usleep(100);
}

static uint64_t seed = 1;

/* Writes nonsense over all the memory while its own end goes on working. */
__attribute__((no_sanitize("thread"))) static void scribble(struct end *e)
{
	struct sr_shm *l = (struct sr_shm *)e->link;
	uint64_t stop;
	uint64_t *head = (uint64_t *)l->map;

	await_events(e, SR_LINK_END);
	stop = sr_now_ns() + 20000000;
	while (sr_now_ns() < stop) {
		uint64_t r = check_random(&seed);
		size_t words = r & 1 ? 2 * l->plan.page : l->plan.total;
		uint64_t what = check_random(&seed);

		if (r & 2)
			what &= 0xffff;
		/* Mostly what matters: the first lines of its page. */
		if (r & 4)
			head[(l->plan.page + (r >> 8) % 384) / 8] = what;
		else
			head[(r >> 8) % words / 8] = what;
		if (!(r & 0xf0))
			(void)!sr_now_send(l->doorbell, "\1\0\0\0\0\0\0", 8);
	}
}

static void look(const struct iovec v[2])
{
	for (int i = 0; i < 2; i++)
		for (size_t j = 0; j < v[i].iov_len; j++)
			(void)((volatile uint8_t *)v[i].iov_base)[j];
}

/* Does what a program would, for a while, whatever comes. */
static void *suffer(void *arg)
{
	struct end *e = arg;
	struct sr_link *l = e->link;
	uint64_t stop = sr_now_ns() + 40000000;
	struct iovec v[2];
	size_t n, i;

	while (sr_now_ns() < stop) {
		int fd = l->ops->arm(l, SR_NOTIFY_RX | SR_NOTIFY_TX);
		struct pollfd pfd = {.fd = fd, .events = POLLIN};

		l->ops->awake(l, SR_NOTIFY_RX | SR_NOTIFY_TX, fd >= 0, poll(&pfd, 1, 1) == 1);
		n = l->ops->rx_data(l, 0, v);
		CHECK(n == v[0].iov_len + v[1].iov_len &&
		      n <= sr_conf.policy.ring_max * 2);
		look(v);
		l->ops->rx_free(l, n);
		n = l->ops->tx_room(l, v);
		CHECK(!n || (n == v[0].iov_len + v[1].iov_len &&
			     n <= sr_conf.policy.ring_max));
		for (i = 0; i < 2 && n; i++)
			if (v[i].iov_len)
				memset(v[i].iov_base, 1, v[i].iov_len);
		l->ops->tx_commit(l, n, false);
		n = l->ops->tx_retained(l, l->tx_acked, v);
		look(v);
	}
	return NULL;
}

static int scribbled_once(void *n)
{
	seed = *(uint64_t *)n;
	answerer_process(scribble);
	start();
	attach(&asker);
	say(&asker, SR_MSG_END, INT64_MAX); /* never reached */
	suffer(&asker);
	reap(-1, 0);
	CHECK(!dead(&asker) || !strcmp(asker.link->reason, "protocol") ||
	      !strcmp(asker.link->reason, "peer-dropped"));
	detach(&asker);
	while (sr_memory_used())
		usleep(100);
	return 0;
}

static void scribbled(void)
{
	uint64_t n;

	for (n = 1; n <= 100; n++)
		CHECK(!in_process(scribbled_once, &n, HANG_S));
}

/* ---- rendezvous ---- */

static const char *ask_reason(void)
{
	atomic_store(&asker.answered, false);
	CHECK(!loop_call(ask_in_loop, &asker));
	while (!atomic_load(&asker.answered))
		usleep(100);
	return asker.reason;
}

static void refused(void)
{
	start();
	CHECK(!strcmp(ask_reason(), "no-listener"));
	CHECK(!loop_call(listen_in_loop, NULL));
	refuse_with = "no-match"; /* and there is no other to ask */
	CHECK(!strcmp(ask_reason(), "no-match"));
	refuse_with = "memory";
	CHECK(!strcmp(ask_reason(), "memory"));
	refuse_with = "no such word";
	CHECK(!strcmp(ask_reason(), "refused"));
	while (sr_memory_used())
		usleep(100);
}

/* First answers come in front of the answer, on the same line. */
static void first_answer(void)
{
	start();
	ask_holds = true;
	CHECK(!loop_call(listen_in_loop, NULL));
	refuse_with = "memory";
	CHECK(!strcmp(ask_reason(), "memory"));
	CHECK(told_first(&asker, SR_FIRST_COMING, false) && asker.ask.heard);
	memset(asker.firsts, 0, sizeof(asker.firsts));
	ask_later = true;
	CHECK(!strcmp(ask_reason(), "memory"));
	CHECK(told_first(&asker, SR_FIRST_COMING, true));
	ask_later = false;
	memset(asker.firsts, 0, sizeof(asker.firsts));
	refuse_with = "taken";	/* a second one */
	CHECK(!strcmp(ask_reason(), "refused"));
	CHECK(told_first(&asker, SR_FIRST_COMING, false));
	ask_holds = false;
	memset(asker.firsts, 0, sizeof(asker.firsts));
	CHECK(!strcmp(ask_reason(), "refused"));
	CHECK(!asker.firsts[SR_FIRST_SENT] && !asker.firsts[SR_FIRST_TAKEN]);
	while (sr_memory_used())
		usleep(100);
}

static void requested_late(struct sr_request *req)
{
	sr_rendezvous_shm.cancel(&asker.ask);
	requested(req);
	atomic_store(&asker.answered, true);
}

/* The asker has gone before it is answered. */
static void given_up(void)
{
	start();
	CHECK(!loop_call(listen_in_loop, NULL));
	sr_link_request = requested_late;
	ask_reason();
	CHECK(!answerer.link && !strcmp(answerer.reason, "peer-dropped"));
	while (sr_memory_used())
		usleep(100);
}

/* The process at the address sends the asker to the one that has its stream. */
static void redirected(void)
{
	int go[2];
	char c;
	pid_t pid;

	sent = mmap(NULL, sizeof(*sent), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sent != MAP_FAILED && !pipe(go));
	pid = fork();
	if (!pid) {
		start();
		refuse_with = "no-match";
		CHECK(!loop_call(listen_in_loop, NULL));
		CHECK(write(go[1], "x", 1) == 1);
		pause();
	}
	CHECK(read(go[0], &c, 1) == 1);
	as_processes(bytes);
	kill(pid, SIGKILL);
	reap(pid, SIGKILL);
}

static void *other_listener; /* LeakSanitizer is to find it */

/* To nobody, or to one that sends it on and on: it gives up. */
static void sent_astray(void)
{
	const char *places[] = {"there 0123456789abcdef 0", "there", "there ../x", NULL};
	char itself[sizeof(sent->word)];
	int i;

	sent = calloc(1, sizeof(*sent));
	start();
	CHECK(!loop_call(listen_there_in_loop, NULL));
	other_listener = answerer.listener;
	CHECK(!loop_call(listen_in_loop, NULL));
	strcpy(itself, sent->word);
	refuse_with = itself;
	CHECK(!strcmp(ask_reason(), "no-match"));
	atomic_store(&sent->listens, false);
	for (i = 0; places[i]; i++) {
		refuse_with = places[i];
		CHECK(!strcmp(ask_reason(), i ? "refused" : "no-match"));
	}
	while (sr_memory_used())
		usleep(100);
}

/* Each end's own knob limits the ring that it sends by. */
static void fill(struct end *e)
{
	const struct sr_policy *policy = e->asker ? &sr_conf.policy : answer_policy;
	const struct sr_link_ops *ops = e->link->ops;
	struct iovec v[2];
	size_t n;

	while ((n = ops->tx_room(e->link, v)))
		ops->tx_commit(e->link, n, false);
	CHECK_EQ(ops->ring(e->link, true), policy->ring_max);
}

static void own_limit(void)
{
	static struct sr_policy small;

	small = sr_conf.policy;
	small.ring_max = 4 * small.ring_first;
	answer_policy = &small;
	as_threads(fill);
}

static atomic_uint eighths;	/* of the ring that the reader shall take, and has taken */
static atomic_uint eighths_taken;

static void take_eighths(struct end *e)
{
	size_t part = sr_conf.policy.ring_max / 8;

	while (!(sr_link_events(e->link) & SR_LINK_END)) {
		if (atomic_load(&eighths_taken) == atomic_load(&eighths)) {
			usleep(100);
			e->link->ops->poll(e->link);
			continue;
		}
		CHECK(receive_bytes(e, part, part, false));
		atomic_fetch_add(&eighths_taken, 1);
	}
}

static void more_eighths(unsigned n)
{
	atomic_fetch_add(&eighths, n);
	while (atomic_load(&eighths_taken) != atomic_load(&eighths))
		usleep(100);
}

static size_t room(struct end *e)
{
	struct iovec v[2];
	size_t n = e->link->ops->tx_room(e->link, v);

	CHECK_EQ(e->link->tx_ready, n != 0);
	CHECK_EQ(e->link->tx_piece.left, v[0].iov_len);
	return n;
}

/* What a send that may not wait finds. */
static size_t rest(struct end *e)
{
	struct iovec v[2];
	size_t n;

	CHECK(!room(e));
	n = e->link->ops->tx_rest(e->link, v);
	CHECK(!e->link->tx_ready);
	CHECK_EQ(e->link->tx_piece.left, v[0].iov_len);
	CHECK_EQ(v[0].iov_len + v[1].iov_len, n);
	return n;
}

/* A send that may not wait gets less than a quarter of the ring as well, but what is freed
 * behind the first such send only once there is a quarter. */
static void rest_of_ring(struct end *e)
{
	const struct sr_link_ops *ops = e->link->ops;
	size_t part = sr_conf.policy.ring_max / 8, least = part / 8;

	if (!e->asker) {
		take_eighths(e);
		return;
	}
	CHECK_EQ(room(e), 8 * part);
	ops->tx_commit(e->link, 8 * part, false);
	more_eighths(1);
	CHECK_EQ(rest(e), part);
	ops->tx_commit(e->link, part / 2, false);
	CHECK_EQ(rest(e), part / 2);
	more_eighths(1);
	CHECK_EQ(rest(e), part / 2);
	ops->tx_commit(e->link, part / 2, false);
	CHECK_EQ(rest(e), 0);
	more_eighths(1);
	CHECK_EQ(room(e), 2 * part);
	ops->tx_commit(e->link, 2 * part - 7 * least, false);
	CHECK_EQ(rest(e), 7 * least);
	ops->tx_commit(e->link, 6 * least + 1, false);
	CHECK_EQ(rest(e), 0);
	more_eighths(1);
	CHECK_EQ(rest(e), 0);
	more_eighths(1);
	CHECK_EQ(room(e), 2 * part + least - 1);
	say(e, SR_MSG_END, e->link->tx_w);
}

static void rest_for_those_that_may_not_wait(void)
{
	sr_conf.policy.ring_first = sr_conf.policy.ring_max;
	as_threads(rest_of_ring);
}

static void bad_memory_limit(void)
{
	sr_conf.memory = 1000;
	start();
	CHECK(!loop_call(listen_in_loop, NULL));
	CHECK(!strcmp(ask_reason(), "memory"));
	CHECK(!sr_memory_used());
}

/* ---- */

static const struct {
	const char *name;
	void (*fn)(struct end *e);	/* NULL: it is no pair */
	void (*alone)(void);
} cases[] = {
	{"bytes", bytes, NULL},
	{"ping_pong", ping_pong, NULL},
	{"slow_consumer", slow_consumer, NULL},
	{"retained", retained, NULL},
	{"idle", idle, NULL},
	{"ending", ending, NULL},
	{"dropping", dropping, NULL},
	{"two_sleepers", two_sleepers, NULL},
	{"armed once", armed_once, NULL},
	{"one_core", one_core, NULL},
	{"killed", NULL, killed},
	{"scribbled", NULL, scribbled},
	{"refused", NULL, refused},
	{"first", NULL, first_answer},
	{"given_up", NULL, given_up},
	{"redirected", NULL, redirected},
	{"sent_astray", NULL, sent_astray},
	{"own_limit", NULL, own_limit},
	{"rest", NULL, rest_for_those_that_may_not_wait},
	{"bad_memory_limit", NULL, bad_memory_limit},
};

static int threads(void *i)
{
	as_threads(cases[*(size_t *)i].fn);
	return 0;
}

static int processes(void *i)
{
	as_processes(cases[*(size_t *)i].fn);
	return 0;
}

static int alone(void *i)
{
	cases[*(size_t *)i].alone();
	return 0;
}

static void timed(size_t i, int (*run)(void *i), const char *how)
{
	uint64_t t = sr_now_ns();

	CHECK(!in_process(run, &i, HANG_S));
	printf("%s%s: %.1f s\n", cases[i].name, how, (double)(sr_now_ns() - t) / 1e9);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	sr_conf_load();
	connect_tcp();
	sr_conf.policy.ring_first = 16384;
	sr_conf.policy.ring_max = 1 << 20;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name))
			continue;
		if (cases[i].alone) {
			timed(i, alone, "");
			continue;
		}
		timed(i, threads, ", threads");
		timed(i, processes, ", processes");
	}
	return 0;
}
