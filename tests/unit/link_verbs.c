/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* link_verbs.c - the verbs link: rings, credits, completions, failure, rendezvous. */
#include "verbs_pair.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/wait.h>

static void test_byte(void)
{
	struct end *e = open_end(ECHO << 8 | 1);

	CHECK(put(e, 1, true) == 1);
	CHECK(take(e, 1, true) == 1);
	say("%s, inline %u\n", e->link->name,
	    sr_vlink(e->link)->c->max_inline);
	close_end(e);
}

static void test_sizes(void)
{
	static const size_t sizes[] = {
		1, 2, 3, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097,
		16383, 16384, 16385, 30000, 65536, 100001, 1 << 20, 10 << 20 };
	struct end *e = open_end(ECHO << 8 | 2);
	unsigned i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		both_ways(e, sizes[i], 0);
	close_end(e);
}

static void test_pieces(void)
{
	struct end *e = open_end(ECHO << 8 | 3);

	both_ways(e, 6 << 20, 7);
	e->spin = 0;
	both_ways(e, 2 << 20, 8);
	close_end(e);
}

static void test_source(void)
{
	struct end *e = open_end(SOURCE << 8 | 20);

	CHECK(put(e, 1, true) == 1);
	CHECK(take(e, SIZE_MAX, true) == 20 << 20);
	close_end(e);
}

/* Bytes of memory that an end's link has. */
static size_t usage(struct end *e, bool pinned)
{
	struct sr_vlink *l = sr_vlink(e->link);
	const struct sr_vring *all[] = { &l->c->ctl, &l->rx.ring[0], &l->rx.ring[1], &l->tx.ring,
					 &l->tx.spare };
	size_t bytes = 0;

	sr_lock(&l->c->lock);
	for (unsigned i = 0; i < COUNT(all); i++)
		if (pinned ? (void *)all[i]->mr : all[i]->buf)
			bytes += all[i]->size;
	sr_unlock(&l->c->lock);
	return bytes;
}

enum { PACKETS = 48 << 10 };	/* pinned for these; nothing else of a link at first */

static void idle_call(void *arg)
{
	sr_vgrow_idle(arg);
}

/* A link has no rings before it has moved bytes, and has none of registered memory before they
 * grow; when it is idle they go. */
static void test_begins(void)
{
	struct end *e = open_end(ECHO << 8 | 1);
	unsigned i, k;

	for (k = 0; k < 3; k++) {
		CHECK_EQ(usage(e, false), PACKETS);
		both_ways(e, 3000, 0);
		CHECK_EQ(usage(e, false), PACKETS + 2 * sr_conf.policy.ring_first);
		CHECK_EQ(usage(e, true), PACKETS);
		for (i = 0; i < 5000 && usage(e, false) > PACKETS; i++) {
			CHECK(!loop_call(idle_call, sr_vlink(e->link)));
			usleep(1000);
		}
	}
	close_end(e);
}

static void test_growth(void)
{
	struct end *e = open_end(SOURCE << 8 | 20);
	struct sr_vlink *l = sr_vlink(e->link);

	CHECK_EQ(usage(e, false), PACKETS);
	CHECK(put(e, 1, true) == 1);
	CHECK(take(e, SIZE_MAX, true) == 20 << 20);
	say("receiver %zu bytes, generation %u\n", usage(e, false), l->rx.gens.n - 1);
	CHECK(l->rx.gens.n > 1);
	close_end(e);
}

/* A stream's own sizes of rings are those of its link.  (A child that answers has not
 * seen what is set here.) */
static void test_policy(void)
{
	static const struct sr_policy asker = { .ring_first = 32768, .ring_max = 65536 };
	static const struct sr_policy answerer = { .ring_first = 65536, .ring_max = 65536 };
	struct end *e;
	size_t size;

	ask_policy = &asker;
	answer_policy = &answerer;
	e = open_end(ECHO << 8 | 12);
	size = e->link->ops->ring(e->link, false);
	CHECK(size == 32768);
#ifdef FAKE_VERBS
	CHECK(e->link->ops->ring(e->link, true) == 32768);
	CHECK(last_end->link->ops->ring(last_end->link, false) == 65536);
#endif
	both_ways(e, 10 << 20, 0);
	size = e->link->ops->ring(e->link, false);
	say("grown to %zu\n", size);
	CHECK(size == 65536);
	close_end(e);
	ask_policy = answer_policy = &sr_conf.policy;
}

/* Takes 32 s. */
static void test_shrink(void)
{
	struct end *e = open_end(ECHO << 8 | 5);
	unsigned i;

	both_ways(e, 10 << 20, 0);
	say("grown %zu bytes\n", usage(e, true));
	CHECK(usage(e, true) > PACKETS);
	for (i = 0; i < 400 && usage(e, false) > PACKETS; i++)
		usleep(100 * 1000);
	say("idle %zu bytes after %u ms\n", usage(e, false), i * 100);
	CHECK_EQ(usage(e, false), PACKETS);
	both_ways(e, 1 << 20, 5);
	close_end(e);
}

/* Somebody who does not read: the window fills, once it has grown, and all is
 * there later. */
static void test_unread(void)
{
	uint64_t deaf_ns = sr_now_ns() + DEAF_MS * UINT64_C(1000000);
	struct end *e = open_end(DEAF << 8 | 1);
	struct iovec v[2];
	size_t room;
	unsigned i;

	CHECK(put(e, 256 << 10, true) == 256 << 10);
	for (i = 0; i < 300; i++) {
		e->link->ops->poll(e->link);
		room = e->link->ops->tx_room(e->link, v);
		/* (On a busy machine it reads before these looks are over.) */
		CHECK(!room || sr_now_ns() > deaf_ns);
		usleep(1000);
	}
	CHECK(put(e, 1 << 20, true) == 1 << 20);
	finish(e);
	CHECK(take(e, SIZE_MAX, true) == 1);
	CHECK(sr_link_events(e->link) & SR_LINK_END);
	send_plain(e, SR_MSG_ACKEND);
	let_go(e);
}

/*
 * Room that comes of a larger ring, nothing having been read, is told, too.  (Who was
 * woken by the offer may be asleep again; the peer's next word comes in its own time.)
 */
static void test_widened(void)
{
	struct end *e = open_end(DEAF << 8 | 2);
	int i;

	CHECK(put(e, sr_conf.policy.ring_first, true) == sr_conf.policy.ring_first);
	for (i = 0; i < wait_limit && !atomic_load(&e->worked); i++)
		usleep(1000);
	CHECK(may_write(e) && atomic_load(&e->link->tx_acked) == START);
	CHECK(atomic_load(&e->worked));
	finish(e);
	CHECK(take(e, SIZE_MAX, true) == 1);
	send_plain(e, SR_MSG_ACKEND);
	let_go(e);
}

static bool all_acked(struct end *e)
{
	return atomic_load(&e->link->tx_acked) == atomic_load(&e->link->tx_w);
}

/* After a pause the sender knows to the byte what was taken. */
static void test_acked(void)
{
	struct end *e = open_end(SINK << 8 | 3);
	unsigned i;

	e->spin = 0;
	for (i = 0; i < 3; i++) {
		CHECK(put(e, 777 + i, true) == 777 + i);
		CHECK(await(e, SR_NOTIFY_TX, all_acked));
	}
	close_end(e);
}

static void *ping(void *arg)
{
	struct end *e = arg;
	unsigned i;

	e->spin = (e->no & 1) * 200;
	for (i = 0; i < 400; i++) {
		CHECK(put(e, 1 + i % 300, true) == 1 + i % 300);
		CHECK(take(e, 1 + i % 300, true) == 1 + i % 300);
		if (i % 100 == 50)
			usleep(30 * 1000);
	}
	return NULL;
}

/* An arrival wakes who sleeps; the timer's tick, which would cure a lost event, comes
 * later. */
static void test_woken(void)
{
	enum { ROUNDS = 300, QUICK_MS = 40, QUICK = 50 };
	struct end *e = open_end(ECHO << 8 | 9);
	unsigned i, quick = 0;
	uint64_t start;

	e->spin = 0;
	/* If events were lost no round would be quick; on a busy machine some are. */
	for (i = 0; i < ROUNDS && quick < QUICK; i++) {
		usleep(2000);	/* soon it is in use, and not watched */
		start = sr_now_ns();
		CHECK(put(e, 1, true) == 1);
		CHECK(take(e, 1, true) == 1);
		quick += sr_now_ns() - start < QUICK_MS * UINT64_C(1000000);
	}
	say("%u of %u rounds were quick\n", quick, i);
	CHECK_EQ(quick, QUICK);
	close_end(e);
}

/* On shared carriers, and with one for each link. */
static void shared_and_alone(void (*test)(void))
{
	const unsigned most = sr_conf.policy.carriers;

	test();
	sr_conf.policy.carriers = 0;
	test();
	sr_conf.policy.carriers = most;
}

/* Threads asleep on their own links; none is forgotten. */
static void sleep_on_each(void)
{
	enum { N = 8 };
	struct end *e[N];
	unsigned i;

	for (i = 0; i < N; i++)
		e[i] = open_end(ECHO << 8 | (i + 10));
	for (i = 0; i < N; i++)
		CHECK(!pthread_create(&e[i]->thread, NULL, ping, e[i]));
	for (i = 0; i < N; i++)
		pthread_join(e[i]->thread, NULL);
	for (i = 0; i < N; i++)
		close_end(e[i]);
}

static void test_asleep(void)
{
	shared_and_alone(sleep_on_each);
}

/* What was queued by small writes goes out though nobody calls again. */
static void test_silent(void)
{
	struct end *e = open_end(ECHO << 8 | 4);
	unsigned i, k;

	for (k = 0; k < 5; k++) {
		for (i = 0; i < 50; i++)
			CHECK(put(e, 10, true) == 10);
		for (i = 0; i < 1000; i++) {	/* the service loop polls */
			if (atomic_load(&e->link->rx_h) -
				    atomic_load(&e->link->rx_taken) == 500)
				break;
			usleep(1000);
		}
		say("after %u ms\n", i);
		CHECK(i < 300);
		CHECK(take(e, 500, true) == 500);
		usleep(50 * 1000);
	}
	close_end(e);
}

static bool never(struct end *e)
{
	(void)e;
	return false;
}

static uint64_t ms(void)
{
	return sr_now_ns() / 1000000;
}

static void test_drop(void)
{
	struct end *e = open_end(ECHO << 8 | 6);
	struct end *f = open_end(ECHO << 8 | 7);

	CHECK(put(e, 100, true) == 100);
	e->link->ops->drop(e->link, "option");
	e->link->ops->drop(e->link, "fork");
	CHECK(dead(e) && !strcmp(e->link->reason, "option"));
	CHECK(sr_verbs_ctl(e->link, &(struct sr_msg){ .type = SR_MSG_END }) == -EPIPE);
	put_link(e);
	both_ways(f, 100000, 0);
	close_end(f);
}

/* All that it has to say has been posted, and has arrived but for the last ACK. */
static bool is_quiet(struct end *e)
{
	struct sr_vlink *l = sr_vlink(e->link);
	bool is;

	sr_lock(&l->c->lock);
	is = !sr_vpost_has_in_flight(l->c) && l->tx.sent == atomic_load(&e->link->tx_acked) &&
	     l->tx.ack_said == atomic_load(&e->link->rx_taken);
	sr_unlock(&l->c->lock);
	return is;
}

static void test_kill(void)
{
	struct end *e = open_end(ECHO << 8 | 8), *f = open_end(DEAF << 8 | 9);
	uint64_t t;
	struct iovec v[2];

	both_ways(e, 100000, 0);
	put(f, 5000, true);
	while (!is_quiet(e) && !dead(e))
		usleep(1000);
	kill_answerer();
	t = ms();
	CHECK(!await(e, SR_NOTIFY_RX, never));
	CHECK(!await(f, SR_NOTIFY_RX, never));
	say("killed: %s after %d ms\n", e->link->reason, (int)(ms() - t));
	/* On siw a request that is sent when the peer has just died fails with an error of the
	 * device's.  The last ACK may be one, because nothing tells when it has been sent. */
	CHECK(!strcmp(e->link->reason, "peer-dropped") ||
	      (sr_vlink(e->link)->c->iwarp && !strcmp(e->link->reason, "device-failed")));
	CHECK(f->link->ops->tx_retained(f->link, START, v) == 5000);
	CHECK(*(uint8_t *)v[0].iov_base == pattern(f->no, true, START));
	put_link(e);
	put_link(f);
}

static void test_removal(void)
{
	struct end *e, *f;
	uint64_t t = ms();

	if (!may_remove())
		return;
	e = open_end(ECHO << 8 | 8);
	f = open_end(DEAF << 8 | 9);
	both_ways(e, 100000, 0);
	CHECK(put(f, 5000, true) == 5000);
	remove_device();
	say("deleted after %d ms\n", (int)(ms() - t));
	CHECK(!await(e, SR_NOTIFY_RX, never));
	CHECK(!await(f, SR_NOTIFY_RX, never));
	say("%s, %s\n", e->link->reason, f->link->reason);
	put_link(e);
	put_link(f);
	CHECK(sr_rendezvous_verbs.usable());
	add_device();
	e = open_end(ECHO << 8 | 10);
	both_ways(e, 1000, 0);
	close_end(e);
}

static void test_speed(void)
{
	struct end *e = open_end(SINK << 8 | 2);
	size_t sum = 256 << 20, n;
	static const size_t sizes[] = { 64, 256, 512, 1024, 2048, 4096, 16384 };
	unsigned i, k, rounds = 3000;
	uint64_t t, total;

	put(e, 16 << 20, false);	/* rings grow */
	await(e, SR_NOTIFY_TX, all_acked);
	t = sr_now_ns();
	for (n = 0; n < sum; n += 65536)
		put(e, 65536, false);
	await(e, SR_NOTIFY_TX, all_acked);
	total = sr_now_ns() - t;
	printf("\n 64 kB writes: %.1f MB/s\n", sum * 1e3 / total);
	t = sr_now_ns();
	for (n = 0; n < 8 << 20; n += 64)
		put(e, 64, false);
	await(e, SR_NOTIFY_TX, all_acked);
	total = sr_now_ns() - t;
	printf(" 64 B writes: %.0f thousand/s\n", (8 << 20) / 64 * 1e6 / total);
	close_end(e);

	e = open_end(FAST_ECHO);
	e->spin = -1;
	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		for (i = 0; i < 2 * rounds; i++) {
			if (i == rounds)
				t = sr_now_ns();
			put(e, sizes[k], false);
			take(e, sizes[k], false);
		}
		printf(" %zu B round trip: %.1f us\n", sizes[k],
		       (sr_now_ns() - t) / 1e3 / rounds);
	}
	close_end(e);
}

/* ---- rendezvous ---- */

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

/* First answers of the connection manager are rejections, behind which the asker asks again. */
static void test_first(void)
{
	const unsigned most = sr_conf.policy.carriers;
	struct end *e;

	sr_conf.policy.carriers = 0;
	ask_holds = true;
	e = open_end(ECHO << 8 | 1);
	CHECK(told_first(e, SR_FIRST_COMING, true) && e->ask.heard);
	both_ways(e, 1000, 0);
	close_end(e);
	e = ask_start(0xdead, PORT);
	CHECK(!ask_wait(e) && !strcmp(e->reason, "no-match"));
	CHECK(told_first(e, SR_FIRST_COMING, true));
	ask_holds = false;
	e = ask_start(0xdead, PORT);
	CHECK(!ask_wait(e) && !e->firsts[SR_FIRST_SENT]);
	sr_conf.policy.carriers = most;
}

#ifndef FAKE_VERBS
/* How many mappings of RDMA devices there are. */
static unsigned device_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[256];
	unsigned n = 0;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, " /dev/infiniband/") != NULL;
	fclose(maps);
	return n;
}

/* So many are left in the child of a fork, in which the library forgets its links. */
static void maps_of_child(unsigned least, unsigned most)
{
	unsigned n;
	int status;
	pid_t pid = fork();

	if (!pid) {
		sr_verbs_forget();
		n = device_maps();
		if (n < least || n > most)
			fprintf(stderr, "%u mappings of a device\n", n);
		_exit(n < least || n > most);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}
#endif

/* A child has no mapping of ours: it would keep the device. */
static void test_forked(void)
{
#ifndef FAKE_VERBS
	struct end *e = open_end(ECHO << 8 | 1);

	CHECK(device_maps());
	maps_of_child(0, 0);
	both_ways(e, 1000, 0);
	close_end(e);
#endif
}

/* The program has a device of its own open: its descriptors stay what they are, and so does
 * what it has mapped, also in a child. */
static void test_own(void)
{
#ifndef FAKE_VERBS
	struct rdma_event_channel *(*create_channel)(void);
	int (*create_id)(struct rdma_event_channel *, struct rdma_cm_id **, void *,
			 enum rdma_port_space);
	int (*bind_addr)(struct rdma_cm_id *, struct sockaddr *);
	int (*destroy_id)(struct rdma_cm_id *);
	__typeof__(ibv_create_cq) *make_cq;
	unsigned maps;
	void *lib = dlopen("librdmacm.so.1", RTLD_NOW);
	struct sockaddr_storage at = address(0);
	struct ibv_context before, *ctx;
	struct rdma_cm_id *id;
	struct end *e;

	CHECK(lib);
	create_channel = dlsym(lib, "rdma_create_event_channel");
	create_id = dlsym(lib, "rdma_create_id");
	bind_addr = dlsym(lib, "rdma_bind_addr");
	destroy_id = dlsym(lib, "rdma_destroy_id");
	CHECK(!create_id(create_channel(), &id, NULL, RDMA_PS_TCP));
	CHECK(!bind_addr(id, (struct sockaddr *)&at));
	ctx = id->verbs;
	before = *ctx;
	make_cq = dlsym(lib, "ibv_create_cq");
	CHECK(make_cq(ctx, 10, NULL, NULL, 0));
	maps = device_maps();
	CHECK(maps);
	e = open_end(ECHO << 8 | 1);
	both_ways(e, 1000, 0);
	CHECK(sr_vlink(e->link)->c->dev->ctx != ctx);
	CHECK(ctx->cmd_fd == before.cmd_fd && ctx->async_fd == before.async_fd);
	CHECK(!(fcntl(ctx->async_fd, F_GETFL) & O_NONBLOCK));
	maps_of_child(maps, UINT_MAX);
	close_end(e);
	CHECK(!destroy_id(id));
#endif
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

static void ask_for_many(void)
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

static void test_many(void)
{
	shared_and_alone(ask_for_many);
}

static const struct test tests[] = {
	{ "byte", test_byte, false },
	{ "sizes", test_sizes, false },
	{ "pieces", test_pieces, false },
	{ "source", test_source, false },
	{ "begins", test_begins, false },
	{ "growth", test_growth, false },
	{ "policy", test_policy, false },
	{ "unread", test_unread, false },
	{ "widened", test_widened, false },
	{ "acked", test_acked, false },
	{ "woken", test_woken, false },
	{ "asleep", test_asleep, false },
	{ "silent", test_silent, false },
	{ "drop", test_drop, false },
	{ "kill", test_kill, false },
	{ "refused", test_refused, false },
	{ "first", test_first, false },
	{ "gone", test_gone, false },
	{ "many", test_many, false },
	{ "removal", test_removal, false },
	{ "forked", test_forked, false },
	{ "own", test_own, false },	/* keeps the device open */
	{ "shrink", test_shrink, true },
	{ "speed", test_speed, true },
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_answered);
}
