/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_pair.h - drives the verbs link through its contract, between two
 * processes: this one asks, its child answers.  Needs an RDMA device
 * (tests/lab/rdma-vm), else skips; RDMA_ADDR is the device's address.
 * With FAKE_VERBS both ends are in this process, on the device of fake_verbs.c,
 * and each test runs once on an InfiniBand and once on an iWARP device.
 *
 *   PROGRAM [-v] [test ...]     all tests by default, but what has to be named
 */
#ifndef SR_VERBS_PAIR_H
#define SR_VERBS_PAIR_H

#include "base/real.h" /* before any system header */

#include <arpa/inet.h>
#include <signal.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "link/verbs/verbs.h"
#include "link_end.h"
#include "loop_call.h"

#define PORT 7471
#define START 1000	/* N of both directions */

/* What the answerer does with a link: bits 8.. of its number. */
enum { ECHO = 1, SINK, SOURCE, DEAF };
enum { DEAF_MS = 1500 };	/* for which such a one does not read */
#define FAST_ECHO (ECHO << 8 | 0xff)	/* spins, looks at nothing */

static bool verbose;

#define say(...)                                                               \
	do {                                                                   \
		if (verbose)                                                   \
			fprintf(stderr, __VA_ARGS__);                          \
	} while (0)

/* ---- an end of a link ---- */

static void send_hello(struct end *e)
{
	CHECK(!send_message(e, SR_MSG_HELLO, 0) || dead(e));
}

static void send_plain(struct end *e, enum sr_msg_type type)
{
	send_message(e, type, type == SR_MSG_SWITCH ? START : atomic_load(&e->link->tx_w));
}

static struct end *last_end;	/* the answerer's */
static pid_t child;		/* answers; 0: this process does */
static bool in_child;

static void dump(struct end *e, unsigned want)
{
	struct sr_vlink *l = sr_vlink(e->link);

	fprintf(stderr,
		"link %x role %d waits for %u: w %llu sent %llu done %llu "
		"acked %llu; h %llu taken %llu said %llu; sq %u/%u; "
		"packets %u of %u, buffers %u/%u, received %u; probe %d ack %d; "
		"CQs %d %d sleepers %u %u watched %d\n",
		e->no, e->link->role, want, (long long)e->link->tx_w,
		(long long)l->tx.sent, (long long)l->tx.done,
		(long long)e->link->tx_acked, (long long)e->link->rx_h,
		(long long)e->link->rx_taken, (long long)l->tx.ack_said,
		l->c->out.sq_posted, l->c->out.sq_done, l->c->out.credit.sent,
		l->c->out.credit.peer_posted, l->c->out.buffers, l->c->out.buffers_done,
		sr_packets_taken(&l->c->out.credit), l->c->out.probe_out,
		l->tx.ack_due, l->c->cq.in.state, l->c->cq.out.state,
		l->c->cq.direct[0].arms + l->c->cq.direct[1].arms, l->c->cq.dispatched, l->c->cq.watched);
}

static void hung(struct end *e, unsigned want)
{
	dump(e, want);
	if (child) {
		kill(child, SIGUSR1);
		sleep(1);
	}
	CHECK(in_child);
}

static bool is_ready(struct end *e)
{
	unsigned both = SR_LINK_SWITCH | SR_LINK_ACKSW;

	return (sr_link_events(e->link) & both) == both;
}

static bool end_acked(struct end *e)
{
	return sr_link_events(e->link) & SR_LINK_ACKEND;
}

/* Takes at most 256 kB and sends as much back, until END. */
static void echo(struct end *e)
{
	bool fast = e->no == FAST_ECHO;
	struct iovec v[2];
	size_t n;

	if (fast)
		e->spin = -1;
	for (;;) {
		if (!await(e, SR_NOTIFY_RX, may_read))
			return;
		n = e->link->ops->rx_data(e->link, 0, v);
		if (!n)
			return;
		n = take(e, n, !fast);
		put(e, n, !fast);
	}
}

static void finish(struct end *e)
{
	send_plain(e, SR_MSG_END);
	await(e, SR_NOTIFY_TX, end_acked);
}

/* ---- an end and its loop ---- */

static void *answer(void *arg);

/* Nobody waits for it any more. */
static void close_fds(struct end *e)
{
	pthread_mutex_lock(&e->lock);
	close(e->efd[0]);
	close(e->efd[1]);
	e->efd[0] = e->efd[1] = -1;
	pthread_mutex_unlock(&e->lock);
}

static void put_call(void *arg)
{
	struct end *e = arg;

	e->put = true;
	close_fds(e);
	sr_link_put(e->link);
}

static bool stranger;	/* the asker does not prove that it has its streams */

/* The handshake, driven by events, in the loop. */
static void on_work(struct sr_task *t)
{
	struct end *e = (struct end *)((char *)t - offsetof(struct end, work));
	unsigned have, new, notes;
	bool asker;

	if (e->put || !e->link)
		return;
	have = sr_link_events(e->link);
	new = have & ~atomic_fetch_or(&e->told, have);
	asker = e->link->role == SR_ROLE_ASKER;
	if (asker && (new & SR_LINK_UP))
		send_hello(e);
	if (new & SR_LINK_HELLO) {
		if (!asker && !stranger)	/* as if the asker had proven that it has the stream */
			e->link->ops->proven(e->link);
		if (!asker)
			send_hello(e);
		send_plain(e, SR_MSG_SWITCH);
	}
	if (new & SR_LINK_SWITCH)
		send_plain(e, SR_MSG_ACKSW);
	if ((new & SR_LINK_ACKSW) && !asker) {
		CHECK(!pthread_create(&e->thread, NULL, answer, e));
		e->answers = true;
	}
	wake(e, SR_NOTIFY_CTL);
	notes = atomic_load(&e->notes);
	e->link->ops->work(e->link);
	pthread_mutex_lock(&e->tx);
	e->link->ops->tx_work(e->link);
	pthread_mutex_unlock(&e->tx);
	atomic_fetch_add(&e->worked, atomic_load(&e->notes) - notes);
	if ((have & SR_LINK_DEAD) && !asker && !e->answers)
		put_call(e);	/* nobody else will */
}

static void notify(struct sr_link *link, unsigned what)
{
	struct end *e = link->owner;

	if (what & SR_NOTIFY_TX)
		atomic_fetch_add(&e->notes, 1);
	if (what & (SR_NOTIFY_WORK | SR_NOTIFY_CTL))
		sr_loop_post(&e->work);
	if (what & (SR_NOTIFY_RX | SR_NOTIFY_TX | SR_NOTIFY_CTL))
		wake(e, what);
}

/* In the loop, so that on_work() knows. */
static void put_link(struct end *e)
{
	CHECK(!loop_call(put_call, e));
}

/* All of a test, both sides'. */
static _Atomic(struct end *) ends;

static struct end *new_end(uint32_t no)
{
	struct end *e = calloc(1, sizeof(*e));

	CHECK(e);
	e->next = atomic_load(&ends);
	while (!atomic_compare_exchange_weak(&ends, &e->next, e))
		;
	e->work.fn = on_work;
	pthread_mutex_init(&e->lock, NULL);
	pthread_mutex_init(&e->tx, NULL);
	e->efd[0] = eventfd(0, EFD_NONBLOCK);
	e->efd[1] = eventfd(0, EFD_NONBLOCK);
	e->no = no;
	e->spin = 1000;
	return e;
}

/* ---- the answerer ---- */

static void *answer(void *arg)
{
	struct end *e = arg;
	uint64_t want;
	size_t n;

	CHECK(await(e, SR_NOTIFY_RX, is_ready) || dead(e));
	switch (e->no >> 8) {
	case ECHO:
		echo(e);
		break;
	case SINK:
		e->spin = 20;
		while (take(e, 1 << 20, e->no & 1))
			;
		break;
	case SOURCE:	/* for one byte as many MB as the number says */
		take(e, 1, true);
		want = e->no & 0xff;
		put(e, want << 20, true);
		break;
	case DEAF:	/* nothing for a while, then all */
		usleep(DEAF_MS * 1000);
		n = take(e, SIZE_MAX, true);
		put(e, 1, true);
		say("unread: took %zu in the end\n", n);
		break;
	}
	if (!dead(e)) {
		send_plain(e, SR_MSG_END);
		while (take(e, 1 << 20, false))
			;
		if (!dead(e))
			send_plain(e, SR_MSG_ACKEND);
		await(e, SR_NOTIFY_TX, end_acked);
	}
	e->link->ops->drop(e->link, "short");
	put_link(e);
	return NULL;
}

#define LATE 0x1a7e	/* answered when the asker has gone */

static atomic_uint requests;
static bool ask_holds;	/* the asker wants a first answer */
static const struct sr_policy *ask_policy = &sr_conf.policy, *answer_policy = &sr_conf.policy;

static void request(struct sr_request *req)
{
	struct end *e;

	atomic_fetch_add(&requests, 1);
	say("request %x\n", req->name.link_no);
	if (req->holds) {
		CHECK(req->ops->tell(req, req->holds == SR_HOLDS_FIRST ? SR_FIRST_COMING :
									 SR_FIRST_LATER));
		return;
	}
	if (req->name.link_no == 0xdead) {
		req->ops->refuse(req, "no-match");
		return;
	}
	if (req->name.link_no == LATE && !in_child)
		return;		/* until the asker has gone */
	if (req->name.link_no == LATE)
		usleep(500 * 1000);
	last_end = e = new_end(req->name.link_no);
	req->policy = answer_policy;
	e->link = req->ops->accept(req, e, notify, &e->reason);
	if (!e->link) {
		say("accept failed\n");
		req->ops->refuse(req, e->reason);
	}
}

static void gone(struct sr_request *req)
{
	(void)req;
}

static struct sockaddr_storage address(int port)
{
	struct sockaddr_storage s = { 0 };
	struct sockaddr_in *in = (void *)&s;

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	inet_pton(AF_INET, getenv("RDMA_ADDR") ? : "10.9.0.1", &in->sin_addr);
	return s;
}

static void *listener;		/* NULL: none */
static int listen_port = PORT;

static void listen_call(void *arg)
{
	struct sockaddr_storage s = address(listen_port);

	sr_link_request = request;
	sr_link_gone = gone;
	((struct sockaddr_in *)&s)->sin_addr.s_addr = 0;
	*(int *)arg = sr_rendezvous_verbs.listen((struct sockaddr *)&s, NULL, &listener);
}

#ifdef FAKE_VERBS
#include "verbs_here.h"
#else
#include "verbs_child.h"
#endif

/* ---- the asker ---- */

static void asked(struct sr_ask *ask, struct sr_link *link, const char *reason)
{
	struct end *e = ask->owner;
	uint64_t one = 1;

	e->reason = reason;
	if (link) {
		e->link = link;
		sr_loop_post(&e->work);
	}
	atomic_store(&e->failed, !link);
	CHECK(write(e->efd[0], &one, 8) == 8);
}

static void ask_call(void *arg)
{
	struct end *e = arg;
	int err = sr_rendezvous_verbs.ask(&e->ask);

	if (err) {
		e->reason = strerror(-err);
		asked(&e->ask, NULL, e->reason);
	}
}

static const char one_domain;	/* the links' streams are in the same epoll set */

static struct end *ask_prepare(uint32_t no, int port)
{
	struct end *e = new_end(no);
	struct sr_ask *a = &e->ask;

	a->ops = &sr_rendezvous_verbs;
	a->src = address(40000);
	a->dst = address(port);
	CHECK(!sr_name_make(&a->name, (struct sockaddr *)&a->src,
			    (struct sockaddr *)&a->dst, no));
	a->owner = e;
	a->notify = notify;
	a->policy = ask_policy;
	a->done = asked;
	a->told = end_told;
	a->holds = ask_holds;
	a->domain = &one_domain;
	return e;
}

static struct end *ask_start(uint32_t no, int port)
{
	struct end *e = ask_prepare(no, port);

	CHECK(!loop_call(ask_call, e));
	return e;
}

static bool ask_wait(struct end *e)
{
	struct pollfd p = { e->efd[0], POLLIN, 0 };
	uint64_t sum;

	CHECK(poll(&p, 1, 20000) == 1);
	CHECK(read(e->efd[0], &sum, 8) == 8);
	if (e->failed)
		return false;
	return await(e, SR_NOTIFY_RX, is_ready);
}

static inline struct end *open_end(uint32_t no)
{
	struct end *e = ask_start(no, listen_port);

	if (!ask_wait(e)) {
		fprintf(stderr, "ask: %s\n", e->reason ? e->reason : "dead");
		abort();
	}
	return e;
}

static void let_go(struct end *e)
{
	e->link->ops->drop(e->link, "short");
	put_link(e);
}

static inline void close_end(struct end *e)
{
	finish(e);
	while (take(e, 1 << 20, false))
		;
	CHECK(sr_link_events(e->link) & SR_LINK_END);
	send_plain(e, SR_MSG_ACKEND);
	let_go(e);
}

/* ---- both ways ---- */

/* A second thread that writes what this one reads back. */
struct writer {
	struct end *e;
	size_t n;
	unsigned seed;		/* 0: one go; else pieces of any size */
	size_t done;
	pthread_t thread;
};

static void *write_all(void *arg)
{
	struct writer *w = arg;
	size_t n;

	while (w->done < w->n) {
		n = w->n - w->done;
		if (w->seed) {
			n = 1 + rand_r(&w->seed) % 20000;
			if (rand_r(&w->seed) % 4)
				n = 1 + n % 200;
		}
		if (n > w->n - w->done)
			n = w->n - w->done;
		if (put(w->e, n, true) < n)
			break;
		w->done += n;
	}
	return NULL;
}

static inline void both_ways(struct end *e, size_t n, unsigned seed)
{
	struct writer w = { .e = e, .n = n, .seed = seed };

	CHECK(!pthread_create(&w.thread, NULL, write_all, &w));
	CHECK(take(e, n, true) == n);
	pthread_join(w.thread, NULL);
	CHECK(w.done == n);
}

/* ---- running tests ---- */

struct test {
	const char *name;
	void (*fn)(void);
	bool asked;		/* only when named */
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline void run_answered(const struct test *t)
{
	alarm(300);
	start_answerer(t->asked);
	t->fn();
	stop_answerer();
}

static void run_test(const struct test *t, void (*run)(const struct test *t),
		     const char *kind)
{
	printf("%s%s ...", t->name, kind);
	fflush(stdout);
	run(t);
	printf(" ok\n");
}

/* The device is there, but the fake one comes anew for each test, of each kind. */
static void run_kinds(const struct test *t, void (*run)(const struct test *t))
{
#ifdef FAKE_VERBS
	for (iwarp = false;; iwarp = true) {
		if (fake_profile()->kinds & (iwarp ? FAKE_IWARP : FAKE_IB))
			run_test(t, run, iwarp ? ", iWARP" : "");
		if (iwarp)
			break;
	}
#else
	run_test(t, run, "");
#endif
}

static inline int run_tests(int argc, char **argv, const struct test *tests, size_t n,
			    void (*how)(const struct test *t))
{
	size_t i;
	int k;

	sr_conf_load();
#ifndef FAKE_VERBS
	if (sr_rendezvous_verbs.usable())
		return 77;
#endif
	if (argc > 1 && !strcmp(argv[1], "-v")) {
		verbose = true;
		sr_conf.log = SR_DEBUG;
		argc--, argv++;
	}
	for (i = 0; i < n; i++) {
		bool run = argc < 2 && !tests[i].asked;

		for (k = 1; k < argc; k++)
			run |= !strcmp(argv[k], tests[i].name);
		if (run)
			run_kinds(&tests[i], how);
	}
	return 0;
}

#endif
