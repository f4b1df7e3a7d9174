/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_pair.h - an asker and an answerer of a shared memory link, driven as the
 * engine would: attaching, blocking sends and receives, and running a
 * pair as two threads of one process or as two processes.
 */
#ifndef SR_LINK_PAIR_H
#define SR_LINK_PAIR_H

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/addr.h"
#include "base/closer.h"
#include "base/conf.h"
#include "base/process.h"
#include "base/list.h"
#include "link/shm/shm.h"
#include "link_end.h"
#include "loop_call.h"

#define HANG_MS 20000

/* Of a TCP connection, which both ends own. */
static uint16_t port, asker_port;
static void work(struct sr_task *t);

static struct end asker = {.asker = true, .tx = PTHREAD_MUTEX_INITIALIZER,
			   .lock = PTHREAD_MUTEX_INITIALIZER, .work.fn = work},
		  answerer = {.tx = PTHREAD_MUTEX_INITIALIZER,
			      .lock = PTHREAD_MUTEX_INITIALIZER, .work.fn = work};
static const char *refuse_with;
static bool ask_holds;	/* the asker wants a first answer */
static bool ask_later;	/* and hears another one after it */
static const struct sr_policy *answer_policy = &sr_conf.policy;
/* Not NULL: shared by the process to which askers are sent, and the one that sends them. */
static struct sent {
	atomic_bool listens;
	char word[sizeof(SR_THERE) + SR_THERE_LEN];
} *sent;

/* ---- the engine's part ---- */

static void work(struct sr_task *t)
{
	struct end *e = SR_OF(struct end, work, t);
	struct sr_link *link = atomic_load(&e->link);

	if (!link)
		return;
	pthread_mutex_lock(&e->tx);
	link->ops->tx_work(link);
	pthread_mutex_unlock(&e->tx);
}

static inline void notified(struct sr_link *link, unsigned what)
{
	struct end *e = link->owner;

	if (e->alone)
		return;
	if (what & SR_NOTIFY_WORK)
		sr_loop_post(&e->work);
	wake(e, what);
}

static inline uint64_t inode_of(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	return st.st_ino;
}

static inline void accept_or_refuse(struct sr_request *req)
{
	struct sr_link *link = sr_rendezvous_shm.accept(req, &answerer, notified,
							&answerer.reason);

	atomic_store(&answerer.link, link);
	if (!link)
		sr_rendezvous_shm.refuse(req, answerer.reason);
}

static inline void requested(struct sr_request *req)
{
	CHECK(req->name.dport == port && req->name.family == AF_INET);
	req->inode = inode_of(answerer.anchor);
	req->policy = answer_policy;
	if (req->holds) {
		CHECK(!sr_rendezvous_shm.tell(req, SR_FIRST_COMING));
		CHECK_EQ(req->holds, SR_HOLDS_ON);
		if (ask_later)
			CHECK(!sr_rendezvous_shm.tell(req, SR_FIRST_LATER) && !req->holds);
	}
	if (refuse_with)
		sr_rendezvous_shm.refuse(req, sent && atomic_load(&sent->listens)
						? sent->word
						: refuse_with);
	else
		accept_or_refuse(req);
}

static inline void gone(struct sr_request *req)
{
	(void)req;
}

static inline void asked(struct sr_ask *ask, struct sr_link *link, const char *reason)
{
	struct end *e = ask->owner;

	CHECK(!link == !!reason);
	if (reason && sr_ask_again(ask, &reason))
		return;
	e->reason = reason;
	atomic_store(&e->link, link);
	atomic_store(&e->answered, true);
}

static inline void address(struct sockaddr_storage *ss, uint16_t number)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	in->sin_family = AF_INET;
	in->sin_port = htons(number);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* Open for as long as the test runs. */
static inline void connect_tcp(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int fd = asker.anchor = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_storage ss;
	socklen_t len = sizeof(struct sockaddr_in);

	address(&ss, 0);
	CHECK(!bind(listener, (struct sockaddr *)&ss, len));
	CHECK(!listen(listener, 1));
	CHECK(!getsockname(listener, (struct sockaddr *)&ss, &len));
	CHECK(!connect(fd, (struct sockaddr *)&ss, len));
	answerer.anchor = accept(listener, NULL, NULL);
	CHECK(answerer.anchor >= 0);
	port = sr_addr_port((struct sockaddr *)&ss);
	CHECK(!getsockname(fd, (struct sockaddr *)&ss, &len));
	asker_port = sr_addr_port((struct sockaddr *)&ss);
}

static inline void listen_in_loop(void *any)
{
	struct sockaddr_storage ss;

	address(&ss, port);
	if (any)
		((struct sockaddr_in *)&ss)->sin_addr.s_addr = 0;
	sr_link_request = requested;
	sr_link_gone = gone;
	CHECK(!sr_rendezvous_shm.listen((struct sockaddr *)&ss, NULL,
				  &answerer.listener));
}

/* At a place of its own. */
static inline void listen_there_in_loop(void *arg)
{
	struct sockaddr_storage ss;
	char there[SR_THERE_LEN] = "";

	(void)arg;
	address(&ss, port);
	sr_link_request = requested;
	sr_link_gone = gone;
	CHECK(!sr_rendezvous_shm.listen((struct sockaddr *)&ss, there, &answerer.listener));
	snprintf(sent->word, sizeof(sent->word), SR_THERE " %s", there);
	atomic_store(&sent->listens, true);
}

static inline void unlisten_in_loop(void *arg)
{
	(void)arg;
	sr_rendezvous_shm.unlisten(answerer.listener);
}

static inline void ask_in_loop(void *arg)
{
	struct end *e = arg;

	e->ask = (struct sr_ask){.ops = &sr_rendezvous_shm,
				 .policy = &sr_conf.policy,
				 .owner = e,
				 .notify = notified,
				 .done = asked,
				 .told = end_told,
				 .holds = ask_holds};
	e->ask.inode = inode_of(e->anchor);
	address(&e->ask.src, asker_port);
	address(&e->ask.dst, port);
	CHECK(!sr_name_make(&e->ask.name, (struct sockaddr *)&e->ask.src,
			    (struct sockaddr *)&e->ask.dst, 1));
	CHECK(!sr_rendezvous_shm.ask(&e->ask));
}

static inline void await_events(struct end *e, unsigned bits)
{
	uint64_t end = sr_now_ns() + HANG_MS * UINT64_C(1000000);
	struct sr_link *l;

	for (;;) {
		l = atomic_load(&e->link);
		if (l && (sr_link_events(l) & bits) == bits)
			return;
		CHECK(sr_now_ns() < end);
		usleep(200); /* the loop has to see it, not we */
	}
}

static inline void say(struct end *e, enum sr_msg_type type, uint64_t n)
{
	CHECK(!send_message(e, type, n));
}

/* Both directions on the link from an odd offset on. */
static inline void attach(struct end *e)
{
	uint64_t n = e->asker ? 12345 : 777;

	if (e->asker) {
		int tries = 0;

		do { /* the other process may not listen yet */
			atomic_store(&e->answered, false);
			CHECK(!loop_call(ask_in_loop, e));
			while (!atomic_load(&e->answered))
				usleep(1000);
			CHECK(tries++ < 10000);
		} while (!e->link && (!strcmp(e->reason, "no-listener") ||
				      !strcmp(e->reason, "no-match")));
		CHECK(e->link);
	}
	await_events(e, SR_LINK_UP);
	say(e, SR_MSG_HELLO, 0);
	await_events(e, SR_LINK_HELLO);
	/* Shared memory does not keep the order of messages that nobody waits for. */
	if (e->asker)
		say(e, SR_MSG_SHARE, 0);
	await_events(e, SR_LINK_SHARE);
	say(e, e->asker ? SR_MSG_PROOF : SR_MSG_SHARE, 0);
	if (!e->asker)
		await_events(e, SR_LINK_PROOF);
	say(e, SR_MSG_SWITCH, n);
	await_events(e, SR_LINK_SWITCH);
	CHECK(e->link->peer_switch.n == (e->asker ? 777 : 12345));
	say(e, SR_MSG_ACKSW, 0);
	await_events(e, SR_LINK_ACKSW);
}

static inline void detach(struct end *e)
{
	sr_link_put(e->link);
	CHECK_EQ(sr_closer_threads(), 0);	/* the peer is trusted */
	atomic_store(&e->link, NULL);
}

/* ---- bytes ---- */

static inline void hung(struct end *e, unsigned want)
{
	fprintf(stderr, "%s: asleep, wants %u\n", e->asker ? "asker" : "answerer", want);
	check_fail(__FILE__, __LINE__);
}

static inline bool send_bytes(struct end *e, size_t n, size_t chunk)
{
	size_t k;

	for (; n; n -= k) {
		k = n < chunk ? n : chunk;
		if (put(e, k, true) < k)
			return false;
	}
	return true;
}

static inline bool receive_bytes(struct end *e, size_t n, size_t chunk, bool verify)
{
	size_t k;

	for (; n; n -= k) {
		k = n < chunk ? n : chunk;
		if (take(e, k, verify) < k)
			return false;
	}
	return true;
}

/* ---- running a pair ---- */

static inline void start(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		asker.efd[i] = eventfd(0, EFD_NONBLOCK);
		answerer.efd[i] = eventfd(0, EFD_NONBLOCK);
		CHECK(asker.efd[i] >= 0 && answerer.efd[i] >= 0);
	}
	sr_process_begin(); /* a fork is a process of its own here */
	CHECK(!sr_loop_start());
}

struct run {
	void (*fn)(struct end *e);
	struct end *e;
};

static inline void *run_end(void *arg)
{
	struct run *r = arg;

	attach(r->e);
	r->fn(r->e);
	return NULL;
}

static inline void as_threads(void (*fn)(struct end *e))
{
	struct run a = {fn, &asker}, b = {fn, &answerer};
	pthread_t t[2];

	start();
	CHECK(!loop_call(listen_in_loop, NULL));
	CHECK(!pthread_create(&t[0], NULL, run_end, &a));
	CHECK(!pthread_create(&t[1], NULL, run_end, &b));
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	detach(&asker);
	detach(&answerer);
	CHECK(!loop_call(unlisten_in_loop, NULL));
	while (sr_memory_used())
		usleep(100);
}

static inline void reap(pid_t pid, int want)
{
	int status;

	CHECK(waitpid(pid, &status, 0) > 0);
	CHECK(want ? WIFSIGNALED(status) && WTERMSIG(status) == want
		   : status == 0);
}

static inline void answerer_process(void (*fn)(struct end *e))
{
	pid_t pid;
	char c;

	pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start();
	CHECK(!loop_call(sent ? listen_there_in_loop : listen_in_loop, &c));
	attach(&answerer);
	if (!fn) {
		CHECK(send_bytes(&answerer, 50000, 1000));
		/* The asker has sent what it wants to send to a living one. */
		while (answerer.link->rx_h < 12345 + 5000)
			answerer.link->ops->poll(answerer.link);
		raise(SIGKILL);
	}
	fn(&answerer);
	detach(&answerer);
	while (sr_memory_used())
		usleep(100);
	_exit(0);
}

static inline void as_processes(void (*fn)(struct end *e))
{
	answerer_process(fn);
	start();
	attach(&asker);
	fn(&asker);
	reap(-1, 0);
}

#endif
