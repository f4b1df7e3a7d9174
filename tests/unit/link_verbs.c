/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_verbs.c - drives the verbs link through its contract, between two
 * processes: this one asks, its child answers.  Needs an RDMA device
 * (tests/lab/rdma-vm), else skips; RDMA_ADDR is the device's address.
 *
 *   link_verbs [-v] [test ...]       all tests by default, without "speed"
 */
#include "base/real.h" /* before any system header */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/loop.h"
#include "base/fdpriv.h"
#include "link/verbs.h"
#include "loop_call.h"

#define PORT 7471
#define START 1000	/* N of both directions */

/* What the answerer does with a link: bits 8.. of its number. */
enum { ECHO = 1, SINK, SOURCE, DEAF };
#define FAST_ECHO (ECHO << 8 | 0xff)	/* spins, looks at nothing */

static bool verbose;

#define say(...)                                                               \
	do {                                                                   \
		if (verbose)                                                   \
			fprintf(stderr, __VA_ARGS__);                          \
	} while (0)
#define check(cond)                                                            \
	do {                                                                   \
		if (!(cond)) {                                                 \
			fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__,   \
				__LINE__, __func__, #cond);                    \
			abort();                                               \
		}                                                              \
	} while (0)

/* ---- an end of a link ---- */

struct end {
	struct sr_link *link;
	struct sr_task work;
	int efd[2];			/* wake the reader, the writer */
	atomic_int sleepers;
	atomic_bool failed;		/* asking did */
	const char *reason;
	atomic_bool switched;		/* our SWITCH and ACKSW are out */
	atomic_uint told;
	unsigned spin;
	pthread_t thread;
	struct sr_ask ask;
	uint32_t no;
};

static void wake(struct end *e, unsigned what)
{
	const unsigned why[2] = { SR_NOTIFY_RX | SR_NOTIFY_CTL,
				  SR_NOTIFY_TX | SR_NOTIFY_CTL };
	uint64_t one = 1;
	unsigned i;

	for (i = 0; i < 2; i++)
		if (atomic_load(&e->sleepers) && (what & why[i]) &&
		    write(e->efd[i], &one, 8) != 8)
			abort();
}

static uint8_t pattern(uint32_t no, bool asker, uint64_t k)
{
	return (k * 2654435761u >> 13) + no + asker;
}

static void send_hello(struct end *e)
{
	struct sr_msg m = { .type = SR_MSG_HELLO };

	m.hello.version = SR_WIRE_VERSION;
	m.hello.role = e->link->role;
	m.hello.link_no = e->link->link_no;
	e->link->ops->hello(e->link, &m.hello);
	check(!e->link->ops->ctl(e->link, &m) ||
	      sr_link_events(e->link) & SR_LINK_DEAD);
}

static void send_plain(struct end *e, enum sr_msg_type type)
{
	struct sr_msg m = { .type = type };

	if (type == SR_MSG_SWITCH) {
		m.sw.n = START;
		m.sw.link_no = e->link->link_no;
	}
	if (type == SR_MSG_END)
		m.end = atomic_load(&e->link->tx_w);
	e->link->ops->ctl(e->link, &m);
}

static void *answer(void *arg);

/* The handshake, driven by events, in the loop. */
static void on_work(struct sr_task *t)
{
	struct end *e = (struct end *)((char *)t - offsetof(struct end, work));
	unsigned have = sr_link_events(e->link);
	unsigned new = have & ~atomic_fetch_or(&e->told, have);
	bool asker = e->link->role == SR_ROLE_ASKER;

	if (asker && (new & SR_LINK_UP))
		send_hello(e);
	if (new & SR_LINK_HELLO) {
		if (!asker)
			send_hello(e);
		send_plain(e, SR_MSG_SWITCH);
	}
	if (new & SR_LINK_SWITCH)
		send_plain(e, SR_MSG_ACKSW);
	if ((new & SR_LINK_ACKSW) && !asker)
		check(!pthread_create(&e->thread, NULL, answer, e));
	e->link->ops->work(e->link);
	wake(e, SR_NOTIFY_CTL);
}

static void notify(struct sr_link *link, unsigned what)
{
	struct end *e = link->owner;

	if (what & (SR_NOTIFY_WORK | SR_NOTIFY_CTL))
		sr_loop_post(&e->work);
	if (what & (SR_NOTIFY_RX | SR_NOTIFY_TX | SR_NOTIFY_CTL))
		wake(e, what);
}

static struct end *new_end(uint32_t no)
{
	struct end *e = calloc(1, sizeof(*e));

	check(e);
	e->work.fn = on_work;
	e->efd[0] = eventfd(0, EFD_NONBLOCK);
	e->efd[1] = eventfd(0, EFD_NONBLOCK);
	e->no = no;
	e->spin = 1000;
	return e;
}

static bool dead(struct end *e)
{
	return sr_link_events(e->link) & SR_LINK_DEAD;
}

static int patience = 20000;	/* ms */
static struct end *last_end;	/* the answerer's */
static pid_t child;

static void dump(struct end *e, unsigned want)
{
	struct sr_vlink *l = sr_vlink(e->link);

	fprintf(stderr,
		"link %x role %d waits for %u: w %llu sent %llu done %llu "
		"acked %llu; h %llu taken %llu said %llu; sq %u/%u/%u; "
		"msgs %u back %u, received %u said %u; probe %d %d ack %d; "
		"leader %p waiters %u watched %d asleep %d\n",
		e->no, e->link->role, want, (long long)e->link->tx_w,
		(long long)l->sent, (long long)l->done,
		(long long)e->link->tx_acked, (long long)e->link->rx_h,
		(long long)e->link->rx_taken, (long long)l->ack_said,
		l->sq_posted, l->sq_signaled, l->sq_done, l->msgs_sent,
		l->msgs_back, l->rx_msgs, l->slots_said, l->probe_due,
		l->probe_out, l->ack_due, l->dev->leader, l->dev->waiters,
		l->dev->watched, l->dev->asleep);
}

/* SIGUSR1: the answerer tells its side. */
static void tell(int sig)
{
	struct end *e = last_end;

	(void)sig;
	if (!e || !e->link)
		return;
	dump(e, 0);
	fprintf(stderr, "left in the CQ: %d\n",
		sr_vcq_poll(sr_vlink(e->link)->cq, false));
}

/* Waits until ready() or the link is dead: first spinning, then asleep. */
static bool await(struct end *e, unsigned want, bool (*ready)(struct end *))
{
	const struct sr_link_ops *ops = e->link->ops;
	unsigned spin = e->spin;
	struct pollfd p[2];
	uint64_t sum;
	int fd, n, efd = e->efd[want == SR_NOTIFY_TX];

	for (;;) {
		ops->poll(e->link);
		if (ready(e))
			return true;
		if (dead(e))
			return false;
		if (spin && spin--)
			continue;
		atomic_fetch_add(&e->sleepers, 1);
		fd = ops->arm(e->link, want);
		ops->poll(e->link);
		p[0] = (struct pollfd){ efd, POLLIN, 0 };
		p[1] = (struct pollfd){ fd, POLLIN, 0 };
		n = 0;
		if (!ready(e) && !dead(e)) {
			n = poll(p, 2, patience);
			if (!n) {
				dump(e, want);
				kill(child, SIGUSR1);
				sleep(1);
			}
			if (child)
				check(n);	/* asleep too long: a lost wake-up */
		}
		ops->awake(e->link, want, n > 0 && p[1].revents);
		atomic_fetch_sub(&e->sleepers, 1);
		if (n > 0 && p[0].revents && read(efd, &sum, 8) < 0)
			check(errno == EAGAIN);
	}
}

static bool may_read(struct end *e)
{
	return atomic_load(&e->link->rx_h) != atomic_load(&e->link->rx_taken) ||
	       (sr_link_events(e->link) & SR_LINK_END);
}

static bool may_write(struct end *e)
{
	struct iovec v[2];

	return e->link->ops->tx_room(e->link, v);
}

static bool is_ready(struct end *e)
{
	unsigned both = SR_LINK_SWITCH | SR_LINK_ACKSW;

	return (sr_link_events(e->link) & both) == both;
}

static bool all_acked(struct end *e)
{
	return atomic_load(&e->link->tx_acked) == atomic_load(&e->link->tx_w);
}

static bool end_acked(struct end *e)
{
	return sr_link_events(e->link) & SR_LINK_ACKEND;
}

/* Up to n bytes of the pattern; less if the link dies: bytes written. */
static size_t put(struct end *e, size_t n, bool fill)
{
	bool asker = e->link->role == SR_ROLE_ASKER;
	size_t done = 0, room, k, i, take;
	struct iovec v[2];
	uint64_t w;

	while (done < n) {
		if (!await(e, SR_NOTIFY_TX, may_write))
			return done;
		room = e->link->ops->tx_room(e->link, v);
		w = atomic_load(&e->link->tx_w);
		take = room < n - done ? room : n - done;
		if (fill)
			for (k = 0, i = 0; k < take; k++, i++) {
				if (k == v[0].iov_len)
					i = 0;
				((uint8_t *)v[k >= v[0].iov_len].iov_base)[i] =
					pattern(e->no, asker, w + k);
			}
		e->link->ops->tx_commit(e->link, take, false);
		done += take;
	}
	return done;
}

/* Up to n bytes, checked.  Less at END, or when the link dies. */
static size_t take(struct end *e, size_t n, bool verify)
{
	bool asker = e->link->role == SR_ROLE_ASKER;
	size_t done = 0, have, k, i;
	struct iovec v[2];
	uint64_t at;

	while (done < n) {
		if (!await(e, SR_NOTIFY_RX, may_read))
			return done;
		at = atomic_load(&e->link->rx_taken);
		have = e->link->ops->rx_data(e->link, 0, v);
		if (!have)
			return done;
		if (have > n - done)
			have = n - done;
		for (k = 0, i = 0; verify && k < have; k++, i++) {
			if (k == v[0].iov_len)
				i = 0;
			if (((uint8_t *)v[k >= v[0].iov_len].iov_base)[i] !=
			    pattern(e->no, !asker, at + k)) {
				fprintf(stderr, "link %x: byte %llu wrong\n",
					e->no, (unsigned long long)(at + k));
				abort();
			}
		}
		e->link->ops->rx_free(e->link, have);
		done += have;
	}
	return done;
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

/* ---- the answerer ---- */

static void *answer(void *arg)
{
	struct end *e = arg;
	uint64_t want;
	size_t n;

	check(await(e, SR_NOTIFY_RX, is_ready) || dead(e));
	switch (e->no >> 8) {
	case ECHO:
		echo(e);
		break;
	case SINK:
		e->spin = 20;
		while (take(e, 1 << 20, e->no & 1))
			;
		break;
	case SOURCE:	/* as many MB as the number says */
		want = e->no & 0xff;
		put(e, want << 20, true);
		break;
	case DEAF:	/* nothing for a while, then all */
		usleep(1500 * 1000);
		n = take(e, SIZE_MAX, true);
		put(e, 1, true);
		say("deaf: took %zu in the end\n", n);
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
	e->link->ops->drop(e->link, NULL);
	sr_link_put(e->link);
	return NULL;
}

#define LATE 0x1a7e	/* answered when the asker has gone */

static void request(struct sr_request *req)
{
	struct end *e;

	say("request %x\n", req->name.link_no);
	if (req->name.link_no == 0xdead) {
		req->ops->refuse(req, "no-match");
		return;
	}
	if (req->name.link_no == LATE)
		usleep(500 * 1000);
	last_end = e = new_end(req->name.link_no);
	e->link = req->ops->accept(req, e, notify, &e->reason);
	if (!e->link)
		say("accept failed\n");
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

static void listen_call(void *arg)
{
	struct sockaddr_storage s = address(PORT);
	void *l;

	sr_link_request = request;
	sr_link_gone = gone;
	((struct sockaddr_in *)&s)->sin_addr.s_addr = 0;
	*(int *)arg = sr_link_verbs.listen((struct sockaddr *)&s, &l);
}

static void answerer(int fd)
{
	int err = 0;

	signal(SIGUSR1, tell);
	check(!loop_call(listen_call, &err));
	if (err)
		fprintf(stderr, "listen: %s\n", strerror(-err));
	check(write(fd, &err, sizeof(err)) == sizeof(err));
	for (;;)
		pause();
}

static void start_answerer(bool patient)
{
	int p[2], err;

	patience = patient ? 60000 : 20000;
	check(!pipe(p));
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* we may abort */
		close(p[0]);
		sr_loop_forget();
		sr_verbs_forget();
		sr_fd_forget_all();
		answerer(p[1]);
	}
	close(p[1]);
	check(read(p[0], &err, sizeof(err)) == sizeof(err) && !err);
	close(p[0]);
}

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
	check(write(e->efd[0], &one, 8) == 8);
}

static void ask_call(void *arg)
{
	struct end *e = arg;
	int err = sr_link_verbs.ask(&e->ask);

	if (err) {
		e->reason = strerror(-err);
		asked(&e->ask, NULL, e->reason);
	}
}

static struct end *ask_start(uint32_t no, int port)
{
	struct end *e = new_end(no);
	struct sr_ask *a = &e->ask;

	a->ops = &sr_link_verbs;
	a->src = address(40000);
	a->dst = address(port);
	check(!sr_name_make(&a->name, (struct sockaddr *)&a->src,
			    (struct sockaddr *)&a->dst, no));
	a->owner = e;
	a->notify = notify;
	a->done = asked;
	check(!loop_call(ask_call, e));
	return e;
}

static bool ask_wait(struct end *e)
{
	struct pollfd p = { e->efd[0], POLLIN, 0 };
	uint64_t sum;

	check(poll(&p, 1, 20000) == 1);
	check(read(e->efd[0], &sum, 8) == 8);
	if (e->failed)
		return false;
	return await(e, SR_NOTIFY_RX, is_ready);
}

static struct end *open_end(uint32_t no)
{
	struct end *e = ask_start(no, PORT);

	if (!ask_wait(e)) {
		fprintf(stderr, "ask: %s\n", e->reason ? e->reason : "dead");
		abort();
	}
	return e;
}

static void let_go(struct end *e)
{
	e->link->ops->drop(e->link, NULL);
	sr_link_put(e->link);
}

static void close_end(struct end *e)
{
	finish(e);
	while (take(e, 1 << 20, false))
		;
	check(sr_link_events(e->link) & SR_LINK_END);
	send_plain(e, SR_MSG_ACKEND);
	let_go(e);
}

/* ---- tests ---- */

static void test_byte(void)
{
	struct end *e = open_end(ECHO << 8 | 1);

	check(put(e, 1, true) == 1);
	check(take(e, 1, true) == 1);
	say("device %s, inline %u\n", e->link->device,
	    sr_vlink(e->link)->max_inline);
	close_end(e);
}

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

static void both_ways(struct end *e, size_t n, unsigned seed)
{
	struct writer w = { .e = e, .n = n, .seed = seed };

	check(!pthread_create(&w.thread, NULL, write_all, &w));
	check(take(e, n, true) == n);
	pthread_join(w.thread, NULL);
	check(w.done == n);
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

	check(take(e, SIZE_MAX, true) == 20 << 20);
	close_end(e);
}

static size_t usage(struct end *e)
{
	size_t bytes;
	int fds;

	e->link->ops->usage(e->link, &bytes, &fds);
	return bytes;
}

static void test_growth(void)
{
	struct end *e = open_end(SOURCE << 8 | 20);
	struct sr_vlink *l = sr_vlink(e->link);

	say("at first %zu bytes\n", usage(e));
	check(usage(e) <= 65536);
	check(take(e, SIZE_MAX, true) == 20 << 20);
	say("receiver %zu bytes, generation %u\n", usage(e), l->rx_gen);
	check(l->rx_gen > 0);
	close_end(e);
}

/* Takes 32 s. */
static void test_shrink(void)
{
	struct end *e = open_end(ECHO << 8 | 5);
	unsigned i;

	both_ways(e, 10 << 20, 0);
	say("grown %zu bytes\n", usage(e));
	check(usage(e) > 65536);
	for (i = 0; i < 400 && usage(e) > 65536; i++)
		usleep(100 * 1000);
	say("idle %zu bytes after %u ms\n", usage(e), i * 100);
	check(usage(e) <= 65536);
	both_ways(e, 1 << 20, 5);
	close_end(e);
}

/* Somebody who does not read: the window fills, once it has grown, and all is
 * there later. */
static void test_deaf(void)
{
	struct end *e = open_end(DEAF << 8 | 1);
	struct iovec v[2];
	unsigned i;

	check(put(e, 256 << 10, true) == 256 << 10);
	for (i = 0; i < 300; i++) {
		e->link->ops->poll(e->link);
		check(!e->link->ops->tx_room(e->link, v));
		usleep(1000);
	}
	check(put(e, 1 << 20, true) == 1 << 20);
	finish(e);
	check(take(e, SIZE_MAX, true) == 1);
	check(sr_link_events(e->link) & SR_LINK_END);
	send_plain(e, SR_MSG_ACKEND);
	let_go(e);
}

/* After a pause the sender knows to the byte what was taken. */
static void test_acked(void)
{
	struct end *e = open_end(SINK << 8 | 3);
	unsigned i;

	e->spin = 0;
	for (i = 0; i < 3; i++) {
		check(put(e, 777 + i, true) == 777 + i);
		check(await(e, SR_NOTIFY_TX, all_acked));
	}
	close_end(e);
}

/* Many times: siw now and then has no event for it. */
static void test_refused(void)
{
	struct end *e;
	unsigned i;

	for (i = 0; i < 40; i++) {
		e = ask_start(0xdead, PORT);
		check(!ask_wait(e));
		say("refused: %s\n", e->reason);
		check(!strcmp(e->reason, "no-match"));
	}
	e = ask_start(1, PORT + 1);
	check(!ask_wait(e));
	say("nobody there: %s\n", e->reason);
	check(!strcmp(e->reason, "no-listener"));
}

static void cancel_call(void *arg)
{
	struct end *e = arg;

	sr_link_verbs.cancel(&e->ask);
}

/* The answerer's queue pair cannot be made any more; others' can. */
static void test_gone(void)
{
	struct end *e = ask_start(LATE, PORT);

	usleep(200 * 1000);
	check(!loop_call(cancel_call, e));
	e = open_end(ECHO << 8 | 9);
	both_ways(e, 1000, 0);
	close_end(e);
}

static void test_many(void)
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
	check(n == ASKED || (n >= ASKED - 7 && e[0]->link->device &&
			     !strncmp(e[0]->link->device, "siw", 3)));
	for (k = 0; k < 20; k++)
		for (i = 0; i < n; i++)
			both_ways(e[i], 1 + k * 100 + i, 0);
	for (i = 0; i < n; i++)
		check(put(e[i], 3000, true) == 3000);
	for (i = n; i-- > 0;)
		check(take(e[i], 3000, true) == 3000);
	for (i = 0; i < n; i++)
		close_end(e[i]);
}

static void *ping(void *arg)
{
	struct end *e = arg;
	unsigned i;

	e->spin = (e->no & 1) * 200;
	for (i = 0; i < 400; i++) {
		check(put(e, 1 + i % 300, true) == 1 + i % 300);
		check(take(e, 1 + i % 300, true) == 1 + i % 300);
		if (i % 100 == 50)
			usleep(30 * 1000);
	}
	return NULL;
}

/* Threads asleep on their own links: one leads, none is forgotten. */
static void test_asleep(void)
{
	enum { N = 8 };
	struct end *e[N];
	unsigned i;

	for (i = 0; i < N; i++)
		e[i] = open_end(ECHO << 8 | (i + 10));
	for (i = 0; i < N; i++)
		check(!pthread_create(&e[i]->thread, NULL, ping, e[i]));
	for (i = 0; i < N; i++)
		pthread_join(e[i]->thread, NULL);
	for (i = 0; i < N; i++)
		close_end(e[i]);
}

/* What was queued by small writes goes out though nobody calls again. */
static void test_silent(void)
{
	struct end *e = open_end(ECHO << 8 | 4);
	unsigned i, k;

	for (k = 0; k < 5; k++) {
		for (i = 0; i < 50; i++)
			check(put(e, 10, true) == 10);
		for (i = 0; i < 1000; i++) {	/* the service loop polls */
			if (atomic_load(&e->link->rx_h) -
				    atomic_load(&e->link->rx_taken) == 500)
				break;
			usleep(1000);
		}
		say("after %u ms\n", i);
		check(i < 300);
		check(take(e, 500, true) == 500);
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

	check(put(e, 100, true) == 100);
	e->link->ops->drop(e->link, "option");
	e->link->ops->drop(e->link, "fork");
	check(dead(e) && !strcmp(e->link->reason, "option"));
	check(sr_verbs_ctl(e->link, &(struct sr_msg){ .type = SR_MSG_END }) == -EPIPE);
	sr_link_put(e->link);
	both_ways(f, 100000, 0);
	close_end(f);
}

static void test_kill(void)
{
	struct end *e = open_end(ECHO << 8 | 8), *f = open_end(DEAF << 8 | 9);
	uint64_t t;
	struct iovec v[2];

	both_ways(e, 100000, 0);
	put(f, 5000, true);
	kill(child, SIGKILL);
	t = ms();
	check(!await(e, SR_NOTIFY_RX, never));
	check(!await(f, SR_NOTIFY_RX, never));
	say("killed: %s after %d ms\n", e->link->reason, (int)(ms() - t));
	check(!strcmp(e->link->reason, "peer-dropped"));
	check(f->link->ops->tx_retained(f->link, START, v) == 5000);
	check(*(uint8_t *)v[0].iov_base == pattern(f->no, true, START));
	sr_link_put(e->link);
	sr_link_put(f->link);
}

static const char *device_type(void)
{
	return getenv("RDMA_DEV") && getenv("RDMA_DEV")[0] == 's' ? "siw" :
								    "rxe";
}

static void test_removal(void)
{
	struct end *e = open_end(ECHO << 8 | 8), *f = open_end(DEAF << 8 | 9);
	char cmd[200];
	uint64_t t = ms();

	if (!getenv("RDMA_DEV") || geteuid())
		return;
	both_ways(e, 100000, 0);
	check(put(f, 5000, true) == 5000);
	snprintf(cmd, sizeof(cmd), "timeout 20 rdma link delete %s",
		 getenv("RDMA_DEV"));
	check(!system(cmd));
	say("deleted after %d ms\n", (int)(ms() - t));
	check(!await(e, SR_NOTIFY_RX, never));
	check(!await(f, SR_NOTIFY_RX, never));
	say("%s, %s\n", e->link->reason, f->link->reason);
	sr_link_put(e->link);
	sr_link_put(f->link);
	check(sr_link_verbs.usable());
	snprintf(cmd, sizeof(cmd), "rdma link add %s type %s netdev %s",
		 getenv("RDMA_DEV"), device_type(), getenv("RDMA_NETDEV"));
	check(!system(cmd));
	usleep(1000 * 1000);
	e = open_end(ECHO << 8 | 10);
	both_ways(e, 1000, 0);
	close_end(e);
}

static void test_speed(void)
{
	struct end *e = open_end(SINK << 8 | 2);
	size_t sum = 256 << 20, n;
	unsigned i, rounds = 3000;
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
	for (i = 0; i < 2 * rounds; i++) {
		if (i == rounds)
			t = sr_now_ns();
		put(e, 64, false);
		take(e, 64, false);
	}
	printf(" 64 B round trip: %.1f us\n",
	       (sr_now_ns() - t) / 1e3 / rounds);
	close_end(e);
}

static const struct {
	const char *name;
	void (*fn)(void);
	bool asked;		/* only when named */
} tests[] = {
	{ "byte", test_byte, false },
	{ "sizes", test_sizes, false },
	{ "pieces", test_pieces, false },
	{ "source", test_source, false },
	{ "growth", test_growth, false },
	{ "deaf", test_deaf, false },
	{ "acked", test_acked, false },
	{ "refused", test_refused, false },
	{ "gone", test_gone, false },
	{ "many", test_many, false },
	{ "asleep", test_asleep, false },
	{ "silent", test_silent, false },
	{ "drop", test_drop, false },
	{ "kill", test_kill, false },
	{ "removal", test_removal, false },
	{ "shrink", test_shrink, true },
	{ "speed", test_speed, true },
};

int main(int argc, char **argv)
{
	unsigned i;
	int k;

	sr_conf_load();
	if (sr_link_verbs.usable())
		return 77;
	if (argc > 1 && !strcmp(argv[1], "-v")) {
		verbose = true;
		sr_conf.log = SR_DEBUG;
		argc--, argv++;
	}
	alarm(300);
	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		bool run = argc < 2 && !tests[i].asked;

		for (k = 1; k < argc; k++)
			run |= !strcmp(argv[k], tests[i].name);
		if (!run)
			continue;
		printf("%s ...", tests[i].name);
		fflush(stdout);
		start_answerer(tests[i].asked);
		tests[i].fn();
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		printf(" ok\n");
	}
	return 0;
}
