/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_verbs_service.c - the service thread's share of verbs links: verbs that take long, many
 * links at once, what is left when the program computes, and peers that cannot be heard; and
 * a device that is late.
 */
#include "verbs_faults.h"

#include <semaphore.h>

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

	begin_unshared();
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

static const char *unmade_at = "v_alloc_pd"; /* one for each carrier */

/* A link goes while it is being made: the asker's, or (n is 2) the answerer's. */
static int unmade_case(unsigned how, unsigned n)
{
	struct end *e, *f;

	begin_unshared();
	try_listen();
	e = open_end(ECHO << 8 | 1);
	fake_hold(unmade_at, n);
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

/* The job has made the first rings of a link that has gone. */
static void test_outlived(void)
{
	const struct sr_policy small = sr_conf.policy;
	unsigned how, n;

	sr_conf.policy.ring_first = 128 << 10;
	unmade_at = "cm_create_qp";
	for (how = CANCELLED; how <= UNPLUGGED; how++)
		for (n = 1 + (how == DROPPED); n <= 2; n++)
			run_case(unmade_case, how, n);
	sr_conf.policy = small;
	unmade_at = "v_alloc_pd";
}

/* ---- small writes of a program that computes ---- */

static bool is_watched(struct end *e)
{
	struct sr_vlink *l = sr_vlink(e->link);
	bool is;

	sr_lock(&l->c->lock);
	is = l->c->cq.watched;
	sr_unlock(&l->c->lock);
	return is;
}

static void look_until(struct end *e, bool watched)
{
	do {	/* it is in use */
		usleep(1000);
		e->link->ops->poll(e->link);
	} while (is_watched(e) != watched);
}

/* A thread that is about to sleep, and is woken. */
struct sleeper {
	struct end *e;
	int fd[2];		/* as arm() has returned them, for both of its calls */
	sem_t armed, over;
	pthread_t thread;
};

static void *arm_and_awake(void *arg)
{
	struct sleeper *s = arg;
	struct sr_link *link = s->e->link;
	int i;

	for (i = 0; i < 2; i++)
		s->fd[i] = link->ops->arm(link, SR_NOTIFY_RX);
	CHECK(!sem_post(&s->armed));
	while (sem_wait(&s->over))
		;
	for (i = 0; i < 2; i++)
		link->ops->awake(link, SR_NOTIFY_RX, s->fd[i] >= 0, s->fd[i] >= 0);
	return NULL;
}

static void begin_sleep(struct sleeper *s, struct end *e)
{
	*s = (struct sleeper){ .e = e };
	CHECK(!sem_init(&s->armed, 0, 0) && !sem_init(&s->over, 0, 0));
	CHECK(!pthread_create(&s->thread, NULL, arm_and_awake, s));
	while (sem_wait(&s->armed))
		;
	CHECK_EQ(s->fd[0], s->fd[1]);	/* it is one sleeper, however many links it arms */
}

static void end_sleep(struct sleeper *s)
{
	CHECK(!sem_post(&s->over));
	pthread_join(s->thread, NULL);
}

/* Two threads that sleep have the channel.  For a third one the service thread watches it, also
 * while the link is in use, and stops when the thread has gone. */
static int dispatched_case(unsigned a, unsigned b)
{
	const struct sr_link_ops *ops;
	struct pollfd p = { .events = POLLIN };
	struct end *e;
	struct sleeper s[3];
	uint64_t sum;
	int i;

	(void)a, (void)b;
	begin_case();
	try_listen();
	e = open_end(ECHO << 8 | 1);
	ops = e->link->ops;
	p.fd = e->efd[0];
	look_until(e, false);
	for (i = 0; i < 3; i++)
		begin_sleep(&s[i], e);
	CHECK(s[0].fd[0] >= 0 && s[0].fd[0] == s[1].fd[0] && s[2].fd[0] < 0);
	look_until(e, true);
	for (i = 0; i < 200; i++) {	/* some looks of the service thread's */
		usleep(1000);
		ops->poll(e->link);
		CHECK(is_watched(e));
	}
	atomic_fetch_add(&e->sleepers, 1);
	CHECK(put(e, 1, true) == 1);
	while (!may_read(e))	/* notify() wakes, perhaps for something else at first */
		CHECK(poll(&p, 1, 20000) == 1 && read(p.fd, &sum, 8) == 8);
	atomic_fetch_sub(&e->sleepers, 1);
	for (i = 0; i < 3; i++)
		end_sleep(&s[i]);
	look_until(e, false);
	CHECK(take(e, 1, true) == 1);
	close_end(e);
	end_case();
	return STRUCK;
}

static void test_dispatched(void)
{
	run_case(dispatched_case, 0, 0);
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

	sr_lock(&l->c->lock);
	n = atomic_load(&e->link->tx_w) - l->tx.sent;
	sr_unlock(&l->c->lock);
	return n;
}

enum { LOOK_US = 200 };	/* after which the service thread looks soon */

/* When the service thread looks; 0: that is not known, because it has just done so. */
static uint64_t next_look_ns;
static unsigned calm;		/* as the carrier's timer counts it */

static void look_call(void *arg)
{
	struct sr_vcarrier *c = sr_vlink(((struct end *)arg)->link)->c;
	struct sr_vlook *k = &c->look;
	uint64_t now = sr_now_ns();

	next_look_ns = k->timer.at_ns > now ? k->timer.at_ns - now : 0;
	calm = k->calm;
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
	CHECK(ns <= LOOK_US * UINT64_C(1000));
	fake_pause(false);
	while (held_back(e))
		usleep(100);
	return ns;
}

static void become_calm(struct end *e)
{
	enum { RARE_NS = 20000000 };

	for (next_look_ns = 0; next_look_ns < RARE_NS || is_watched(e);) {
		for (int i = 0; i < 100; i++)
			e->link->ops->poll(e->link);
		CHECK(!loop_call(look_call, e));
	}
}

static struct end *begin_calm(uint32_t no)
{
	struct end *e;

	begin_sharing(true);
	try_listen();
	e = open_end(no);
	become_calm(e);
	return e;
}

/* While the program takes all packets of a shared carrier, the ticks become rare.  What it leaves is
 * still seen soon. */
static int calm_case(unsigned a, unsigned b)
{
	struct end *e = begin_calm(SINK << 8 | 2);

	(void)a, (void)b;
	while (!hold_once(e))
		;
	close_end(e);
	end_case();
	return STRUCK;
}

/* They are rare no more if packets come between its looks, however often it looks. */
static int bursts_case(unsigned a, unsigned b)
{
	struct end *e = begin_calm(ECHO << 8 | 2);
	int i;

	(void)a, (void)b;
	for (i = 0; i < 500 && calm; i++) {
		CHECK(put(e, 1, true) == 1);
		usleep(15000);
		CHECK(!loop_call(look_call, e));
		CHECK(take(e, 1, true) == 1);
	}
	CHECK(i < 500);
	close_end(e);
	end_case();
	return STRUCK;
}

static void forget_moves(void *arg)
{
	sr_vlink(((struct end *)arg)->link)->seen.moved_ns = 0;
}

static bool listed;

static void see_listed(void *arg)
{
	struct sr_vlink *l = sr_vlink(((struct end *)arg)->link), *m = sr_load(&l->c->look.moved);

	while (m && m != l)
		m = m->moved_next;
	listed = m;
	CHECK_EQ(listed, sr_load(&l->moved));
}

/* Between two looks of the service thread. */
static bool is_listed(struct end *e)
{
	CHECK(!loop_call(see_listed, e));
	return listed;
}

/* Whole looks see only the links that have moved lately. */
static int rests_case(unsigned a, unsigned b)
{
	struct end *e, *f;

	(void)a, (void)b;
	begin_sharing(true);
	try_listen();
	e = open_end(ECHO << 8 | 1);
	f = open_end(ECHO << 8 | 2);
	CHECK(sr_vlink(e->link)->c == sr_vlink(f->link)->c);
	both_ways(e, 3000, 1);
	CHECK(is_listed(e));
	while (is_listed(e)) {
		CHECK(!loop_call(forget_moves, e));	/* as if it had been long ago */
		both_ways(f, 100, 2);
	}
	both_ways(f, 100, 3);
	CHECK(is_listed(f) && !is_listed(e));
	both_ways(e, 3000, 4);
	CHECK(is_listed(e) && is_listed(f));
	close_end(e);
	both_ways(f, 3000, 5);
	CHECK(is_listed(f));
	close_end(f);
	end_case();
	return STRUCK;
}

static struct end *begin_with_sink(bool shares)
{
	begin_sharing(shares);
	try_listen();
	return open_end(SINK << 8 | 2);
}

static int held_case(unsigned shares, unsigned b)
{
	struct end *e;
	int i;

	(void)b;
	e = begin_with_sink(shares);
	for (i = 0; i < 100 && !hold_once(e); i++)
		;
	CHECK(i < 100);
	close_end(e);
	end_case();
	return STRUCK;
}

/* A program that only sends takes its completions itself: none of them wakes the service
 * thread. */
static int sender_case(unsigned shares, unsigned b)
{
	struct end *e;
	int i;

	(void)b;
	e = begin_with_sink(shares);
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

static void test_ticks(void)
{
	run_case(calm_case, 0, 0);
	run_case(bursts_case, 0, 0);
	run_case(rests_case, 0, 0);
}

static void test_small(void)
{
	run_case(held_case, false, 0);
	run_case(held_case, true, 0);
	run_case(sender_case, false, 0);
	run_case(sender_case, true, 0);
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
	begin_unshared();
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
	begin_unshared();
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
	begin_numbered(n);
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
	begin_numbered(seed);
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

/* Who gives a link up says so on it, with his last word of what he has taken: the peer need
 * not hear of it from the CM, nor from the queue pair's end. */
static int last_case(unsigned a, unsigned b)
{
	struct end *e;

	(void)a, (void)b;
	begin_unshared();
	try_listen();
	e = open_end(SINK << 8 | 1);
	fake_fail("cm_disconnect", 1, EIO);
	fake_hold("v_destroy_qp", 1);
	CHECK(put(e, 1000, true) == 1000);
	while (atomic_load(&last_end->link->rx_taken) != START + 1000)
		usleep(1000);
	CHECK(!loop_call(drop_call, "option"));
	CHECK(!await(e, SR_NOTIFY_RX, never));
	CHECK(!strcmp(e->link->reason, "peer-dropped") && all_acked(e));
	fake_hold(NULL, 0);
	let_go(e);
	end_case();
	return STRUCK;
}

static void test_last(void)
{
	run_case(last_case, 0, 0);
}

static const struct test tests[] = {
	{"last", test_last, false},
	{"slow", test_slow, false},
	{"outlived", test_outlived, false},
	{"dispatched", test_dispatched, false},
	{"ticks", test_ticks, false},
	{"small", test_small, false},
	{"turns", test_turns, false},
	{"unwatched", test_unwatched, false},
	{"mute", test_mute, false},
	{"late", test_late, false},
	{"steps", test_steps, false},
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, COUNT(tests), run_cases);
}
