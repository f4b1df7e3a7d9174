/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * failover.h - TCP connections of this process to itself, on the device of fake_verbs.c with the
 * whole engine, while something fails.  Each case is a process of its own:
 *
 *   PROGRAM [-v] [fault ...]
 */
#ifndef FAILOVER_H
#define FAILOVER_H

#include "base/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/now.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/fdtab.h"
#include "fake_profile.h"
#include "fake_verbs.h"
#include "in_process.h"
#include "link/verbs/lib.h"
#include "sockrail.h"
#include "upgrade/upgrade.h"

enum { RECV, POLLED, EPOLLED, SEND, POLLED_OUT, CALLS };
enum { PAIRS = 2 * CALLS, HANG_S = 200, RETRY_MS = 400, AGAIN_MS = 300 };
enum { ASKER, ANSWERER };

/* Bytes of a direction are numbered by who sends them. */
struct pair {
	int fd[2], call, blocked;	/* which end is */
	uint64_t sent[2], got[2];
	uint64_t woke_ns;
	pthread_t thread;
	atomic_bool started;
};

static struct pair pairs[PAIRS];
static bool iwarp;

static uint8_t pattern(int from, uint64_t k)
{
	return (uint8_t)(k * 2654435761u >> 13) + (uint8_t)from;
}

static ssize_t say(struct pair *p, int from, size_t n, int flags)
{
	uint8_t buf[4096];
	ssize_t r;
	size_t i;

	CHECK(n <= sizeof(buf));
	for (i = 0; i < n; i++)
		buf[i] = pattern(from, p->sent[from] + i);
	r = sr_send(p->fd[from], buf, n, flags);
	if (r > 0)
		p->sent[from] += (uint64_t)r;
	return r;
}

static void hear(struct pair *p, int from, uint64_t n)
{
	uint8_t buf[4096];
	ssize_t r, i;

	while (n) {
		r = sr_recv(p->fd[!from], buf, n < sizeof(buf) ? n : sizeof(buf), 0);
		CHECK(r > 0);
		for (i = 0; i < r; i++)
			CHECK_EQ(buf[i], pattern(from, p->got[from]++));
		n -= (uint64_t)r;
	}
}

static void hear_all(struct pair *p)
{
	hear(p, ASKER, p->sent[ASKER] - p->got[ASKER]);
	hear(p, ANSWERER, p->sent[ANSWERER] - p->got[ANSWERER]);
}

/* ---- which way the bytes go ---- */

static inline bool are(struct pair *p, enum sr_tx_state tx, enum sr_rx_state rx)
{
	bool yes = true;
	int i;

	for (i = 0; i < 2; i++) {
		struct sr_stream *st = sr_fdtab_get(p->fd[i]);

		CHECK(st);
		yes &= sr_stream_tx(st) == tx && sr_stream_rx(st) == rx;
		sr_stream_put(st);
	}
	return yes;
}

static inline bool linked(struct pair *p)
{
	return are(p, SR_TX_LINK, SR_RX_LINK);
}

static inline bool plain(struct pair *p)
{
	return are(p, SR_TX_RAW, SR_RX_RAW);
}

static void talk(struct pair *p)
{
	CHECK_EQ(say(p, ASKER, 10, 0), 10);
	CHECK_EQ(say(p, ANSWERER, 10, 0), 10);
	hear_all(p);
	usleep(2000);
}

/* Both ends go on talking meanwhile.  Returns milliseconds. */
static unsigned talk_until(struct pair *p, bool (*is)(struct pair *))
{
	uint64_t from = sr_now_ns();

	while (!is(p))
		talk(p);
	return (unsigned)((sr_now_ns() - from) / 1000000);
}

/* ---- the streams ---- */

static int listener(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int l = sr_socket(AF_INET, SOCK_STREAM, 0);

	*a = (struct sockaddr_in){.sin_family = AF_INET};
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(l >= 0 && !bind(l, (struct sockaddr *)a, len));
	CHECK(!sr_listen(l, PAIRS) && !getsockname(l, (struct sockaddr *)a, &len));
	return l;
}

static void connect_pair(struct pair *p, int l, const struct sockaddr_in *a, unsigned i)
{
	char c;

	*p = (struct pair){.call = (int)i % CALLS, .blocked = i >= CALLS};
	p->fd[ASKER] = sr_socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!sr_connect(p->fd[ASKER], (const struct sockaddr *)a, sizeof(*a)));
	p->fd[ANSWERER] = sr_accept(l, NULL, NULL);
	CHECK(p->fd[ANSWERER] >= 0);
	CHECK_EQ(sr_recv(p->fd[ANSWERER], &c, 1, MSG_DONTWAIT), -1);
}

static inline void open_pair(struct pair *p, int l, const struct sockaddr_in *a, unsigned i)
{
	connect_pair(p, l, a, i);
	talk_until(p, linked);
}

static inline enum sr_reason reason_of(struct pair *p, int end)
{
	struct sr_stream *st = sr_fdtab_get(p->fd[end]);
	enum sr_reason r;

	CHECK(st);
	r = (enum sr_reason)atomic_load(&st->reason);
	sr_stream_put(st);
	return r;
}

static inline void close_pair(struct pair *p)
{
	hear_all(p);
	CHECK(!sr_close(p->fd[0]) && !sr_close(p->fd[1]));
}

struct fault {
	const char *name;
	void (*run)(const struct fault *f), (*strike)(void);
	bool told;	/* the device says so, and so to both ends */
};

static int run_case(void *arg)
{
	const struct fault *f = arg;

	sr_answer_init();
	f->run(f);
	return 0;
}

static int run_faults(int argc, char **argv, const struct fault *faults, size_t n)
{
	struct fault f;
	unsigned i, k;
	bool run;

	strcpy(sr_conf.policy.links, "v");
	sr_conf.policy.upgrade = SR_WAIT;
	sr_conf.policy.upgrade_wait_ms = 5000;
	sr_conf.answer_ms = 5000;
	sr_conf.policy.ring_max = 65536;
	sr_conf.retry_ms = RETRY_MS;
	sr_conf.again_ms = AGAIN_MS;
	if (argc > 1 && !strcmp(argv[1], "-v")) {
		sr_conf.log = SR_DEBUG;
		argc--, argv++;
	}
	for (i = 0; i < 2 * n; i++) {
		iwarp = i % 2;
		f = faults[i / 2];
		run = argc < 2;
		for (k = 1; k < (unsigned)argc; k++)
			run |= !strcmp(argv[k], f.name);
		if (!run || !(fake_profile()->kinds & (iwarp ? FAKE_IWARP : FAKE_IB)))
			continue;
		printf("%s%s:", f.name, iwarp ? ", iWARP" : "");
		CHECK_EQ(in_process(run_case, &f, HANG_S), 0);
	}
	return 0;
}

#endif
