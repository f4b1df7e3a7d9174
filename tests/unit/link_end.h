/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link_end.h - one end of a link of any kind, driven as the engine would: waiting,
 * blocking sends and receives of bytes that can be checked.
 */
#ifndef SR_LINK_END_H
#define SR_LINK_END_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/loop.h"
#include "check.h"
#include "link/link.h"
#include "link/rendezvous.h"

struct end {
	struct sr_link *_Atomic link;
	struct sr_task work;
	pthread_mutex_t lock;		/* efd: notify() may be late */
	int efd[2];			/* wake the reader, the writer; -1: closed */
	atomic_int sleepers;
	atomic_bool answered, failed;	/* asking was, did */
	const char *reason;		/* why there is no link */
	atomic_uint notes, worked;	/* that there is room; and of those by work() */
	atomic_uint told;
	unsigned spin;
	pthread_t thread;
	bool answers;			/* the thread is answer() */
	bool put;			/* the link is no more ours; loop */
	struct end *next;
	pthread_mutex_t tx;		/* as the stream's: tx_room() to tx_commit() */
	struct sr_ask ask;
	atomic_uint firsts[SR_FIRST_LATER + 1];	/* what it was told, how often */
	uint32_t no;
	bool asker;
	bool alone;			/* its one thread sees what comes: notify nobody */
	int anchor;
	void *listener;
};

static inline void wake(struct end *e, unsigned what)
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

static inline void end_told(struct sr_ask *ask, enum sr_first first)
{
	struct end *e = ask->owner;

	atomic_fetch_add(&e->firsts[first], 1);
}

static unsigned most_sent = 1;	/* times that one question may go out */

/* The question has gone out, and this answer has come first; then perhaps another one. */
static inline bool told_first(struct end *e, enum sr_first first, bool later)
{
	unsigned sum = 0;

	for (int i = SR_FIRST_TAKEN; i < SR_FIRST_LATER; i++)
		sum += atomic_load(&e->firsts[i]);
	return e->firsts[SR_FIRST_SENT] >= 1 && e->firsts[SR_FIRST_SENT] <= most_sent &&
	       e->firsts[first] == 1 && sum == 1 && e->firsts[SR_FIRST_LATER] == later;
}

static inline uint8_t pattern(uint32_t no, bool asker, uint64_t k)
{
	return (k * 2654435761u >> 13) + no + asker;
}

static inline bool dead(struct end *e)
{
	return sr_link_events(e->link) & SR_LINK_DEAD;
}

static inline int send_message(struct end *e, enum sr_msg_type type, uint64_t n)
{
	struct sr_msg m = { .type = type };
	struct sr_link *l = e->link;

	if (type == SR_MSG_HELLO) {
		m.hello.version = SR_WIRE_VERSION;
		m.hello.role = l->role;
		m.hello.link_no = l->link_no;
		if (l->ops->hello)
			l->ops->hello(l, &m.hello);
	} else if (type == SR_MSG_SWITCH) {
		m.sw = (struct sr_switch){ .n = n, .link_no = l->link_no };
	} else if (type == SR_MSG_END) {
		m.end = n;
	}
	return l->ops->ctl(l, &m);
}

static int wait_limit = 20000;	/* ms */

/* An end was asleep too long: a lost wake-up. */
static inline void hung(struct end *e, unsigned want);

/* Waits until ready() or the link is dead: first spinning, then asleep. */
static inline bool await(struct end *e, unsigned want, bool (*ready)(struct end *))
{
	const struct sr_link_ops *ops = e->link->ops;
	unsigned spin = e->spin;
	struct pollfd p[2];
	uint64_t sum;
	int fd, n, efd = e->efd[want == SR_NOTIFY_TX];
	bool over;

	for (;;) {
		ops->poll(e->link);
		over = dead(e);	/* before the look at what has come */
		if (ready(e))
			return true;
		if (over)
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
				hung(e, want);
		}
		ops->awake(e->link, want, fd >= 0, n > 0 && p[1].revents);
		atomic_fetch_sub(&e->sleepers, 1);
		if (n > 0 && p[0].revents && read(efd, &sum, 8) < 0)
			CHECK(errno == EAGAIN);
	}
}

static inline bool may_read(struct end *e)
{
	return atomic_load(&e->link->rx_h) != atomic_load(&e->link->rx_taken) ||
	       (sr_link_events(e->link) & SR_LINK_END);
}

static inline bool may_write(struct end *e)
{
	struct iovec v[2];
	size_t room;

	pthread_mutex_lock(&e->tx);
	room = e->link->ops->tx_room(e->link, v);
	pthread_mutex_unlock(&e->tx);
	return room;
}

/* Up to n bytes of the pattern; less if the link dies: bytes written. */
static inline size_t put(struct end *e, size_t n, bool fill)
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
static inline size_t take(struct end *e, size_t n, bool verify)
{
	bool asker = e->link->role == SR_ROLE_ASKER;
	size_t done = 0, have, k, i;
	struct sr_piece piece;
	struct iovec v[2];
	uint64_t at, known;
	ssize_t seen;

	while (done < n) {
		if (!await(e, SR_NOTIFY_RX, may_read))
			return done;
		at = atomic_load(&e->link->rx_taken);
		known = atomic_load(&e->link->rx_h) - at;
		seen = e->link->ops->rx_look(e->link, &piece);
		if (seen >= 0 && (uint64_t)seen < known) {
			fprintf(stderr, "link %x: the look sees %zd of %llu bytes\n",
				e->no, seen, (unsigned long long)known);
			abort();
		}
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

#endif
