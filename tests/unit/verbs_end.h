/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_end.h - one end of a verbs link, driven as the stream floor would: waiting,
 * blocking sends and receives of bytes that can be checked.
 */
#ifndef SR_VERBS_END_H
#define SR_VERBS_END_H

#include "base/real.h" /* before any system header */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loop.h"
#include "link/verbs/verbs.h"

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
	pthread_mutex_t lock;		/* efd: notify() may be late */
	int efd[2];			/* wake the reader, the writer; -1: closed */
	atomic_int sleepers;
	atomic_bool failed;		/* asking did */
	const char *reason;
	atomic_uint notes, worked;	/* that there is room; and of those by work() */
	atomic_uint told;
	unsigned spin;
	pthread_t thread;
	bool answers;			/* the thread is answer() */
	bool put;			/* the link is no more ours; loop */
	struct end *next;
	pthread_mutex_t tx;		/* as the stream's */
	struct sr_ask ask;
	uint32_t no;
};

static void wake(struct end *e, unsigned what)
{
	const unsigned why[2] = { SR_NOTIFY_RX | SR_NOTIFY_CTL,
				  SR_NOTIFY_TX | SR_NOTIFY_CTL };
	uint64_t one = 1;
	unsigned i;

	if (!atomic_load(&e->sleepers))
		return;
	pthread_mutex_lock(&e->lock);
	for (i = 0; i < 2; i++)
		if ((what & why[i]) && e->efd[i] >= 0 &&
		    write(e->efd[i], &one, 8) != 8)
			abort();
	pthread_mutex_unlock(&e->lock);
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

static bool dead(struct end *e)
{
	return sr_link_events(e->link) & SR_LINK_DEAD;
}

static int wait_limit = 20000;	/* ms */
static struct end *last_end;	/* the answerer's */
static pid_t child;		/* answers; 0: this process does */
static bool in_child;

static void dump(struct end *e, unsigned want)
{
	struct sr_vlink *l = sr_vlink(e->link);

	fprintf(stderr,
		"link %x role %d waits for %u: w %llu sent %llu done %llu "
		"acked %llu; h %llu taken %llu said %llu; sq %u/%u/%u; "
		"msgs %u back %u, received %u said %u; probe %d ack %d; "
		"armed %d fired %d sleepers %u watched %d\n",
		e->no, e->link->role, want, (long long)e->link->tx_w,
		(long long)l->tx.sent, (long long)l->tx.done,
		(long long)e->link->tx_acked, (long long)e->link->rx_h,
		(long long)e->link->rx_taken, (long long)l->tx.ack_said,
		l->tx.sq_posted, l->tx.sq_signaled, l->tx.sq_done, l->tx.slots.sent,
		l->tx.slots.back, l->rx.msgs, l->tx.slots.reported, l->tx.probe_out, l->tx.ack_due, l->cq.armed, l->cq.fired,
		l->cq.sleepers, l->cq.watched);
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
			n = poll(p, 2, wait_limit);
			if (!n)
				dump(e, want);
			if (!n && child) {
				kill(child, SIGUSR1);
				sleep(1);
			}
			/* Asleep too long: a lost wake-up. */
			check(n || in_child);
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

	size_t room;

	pthread_mutex_lock(&e->tx);
	room = e->link->ops->tx_room(e->link, v);
	pthread_mutex_unlock(&e->tx);
	return room;
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
		pthread_mutex_lock(&e->tx);
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
		pthread_mutex_unlock(&e->tx);
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

#endif
