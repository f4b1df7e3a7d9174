/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * walk_model.h - what epoll_walk.c knows of its descriptors: the open files ("ends"), what
 * each of them has, the entries of sets, and what each of these is to report.
 */
#ifndef TEST_WALK_MODEL_H
#define TEST_WALK_MODEL_H

#include "epoll.h"

#include <sys/eventfd.h>

enum { ENDS = 14, NUMBERS = 3, ENTRIES = 64, STEPS = 250, UNREAD_MAX = 9000 };

enum kind { UNUSED, STREAM, PIPE_IN, PIPE_OUT, COUNTER, SET };

/* An open file. */
struct end {
	enum kind kind;
	int fd[NUMBERS];	/* -1: none */
	struct end *peer;	/* NULL: closed */
	size_t unread;
	unsigned char sent, read;	/* the next bytes */
	bool ended, reset, full, error;	/* what the peer did; what it means */
	bool shut_in, shut_out, lingers;
};

struct entry {
	struct end *set, *end;	/* NULL: unused */
	int fd;
	uint32_t events, news, got;
	uint64_t data;
	bool armed;
};

static struct end ends[ENDS];
static struct entry entries[ENTRIES];
static struct data dice;
static int listener;
static bool rare;	/* what makes streams plain is done, too */
static bool nests;	/* sets are in sets, and polled */
static bool late;	/* a sender may learn of a reset a moment later than poll(2) does, and all is
			 * slow */

static uint64_t roll(uint64_t n) { return data_next(&dice) % n; }

static int index_of(const struct end *e) { return (int)(e - ends); }

/* ---- the model ---- */

static uint32_t expected(const struct entry *t);

static uint32_t level(const struct end *e)
{
	bool gone = e->reset || (e->shut_out && (e->ended || e->shut_in));

	switch (e->kind) {
	case STREAM:
		return (e->unread || e->ended || e->reset || e->shut_in ? EPOLLIN : 0) |
		       (e->ended || e->reset || e->shut_in ? EPOLLRDHUP : 0) |
		       (!e->full || e->reset || e->shut_out ? EPOLLOUT : 0) |
		       (gone ? EPOLLHUP : 0) | (e->error ? EPOLLERR : 0);
	case PIPE_IN:
		return (e->unread ? EPOLLIN : 0) | (e->peer ? 0 : EPOLLHUP);
	case PIPE_OUT:
		return EPOLLOUT | (e->peer ? 0 : EPOLLERR);
	case COUNTER:
		return (e->unread ? EPOLLIN : 0) | EPOLLOUT;
	case SET:
		for (struct entry *t = entries; t < entries + ENTRIES; t++)
			if (t->end && t->set == e && expected(t))
				return EPOLLIN;
		return 0;
	default:
		return 0;
	}
}

static uint32_t present(const struct entry *t)
{
	return level(t->end) & (t->events | EPOLLERR | EPOLLHUP);
}

static uint32_t expected(const struct entry *t)
{
	if (!t->armed)
		return 0;
	return present(t) & (t->events & EPOLLET ? t->news : ~0u);
}

static void news(const struct end *e, uint32_t events)
{
	for (struct entry *t = entries; t < entries + ENTRIES; t++)
		if (t->end == e)
			t->news |= events;
}

static struct entry *find(const struct end *set, const struct end *e, int fd)
{
	for (struct entry *t = entries; t < entries + ENTRIES; t++)
		if (t->end == e && e && t->set == set && t->fd == fd)
			return t;
	return NULL;
}

static void forget_entries(const struct end *e)
{
	for (struct entry *t = entries; t < entries + ENTRIES; t++)
		if (t->end && (t->end == e || t->set == e))
			t->end = NULL;
}

/* ---- ends ---- */

static struct end *new_end(enum kind kind, int fd)
{
	struct end *e = ends;

	while (e < ends + ENDS && e->kind)
		e++;
	if (e == ends + ENDS)
		die("ends");
	*e = (struct end){.kind = kind, .fd = {fd, -1, -1}};
	return e;
}

static int room(void)
{
	int n = 0;

	for (struct end *e = ends; e < ends + ENDS; e++)
		n += !e->kind;
	return n;
}

/* One of a kind, or NULL. */
static struct end *any(enum kind kind)
{
	size_t from = roll(ENDS);

	for (size_t i = 0; i < ENDS; i++)
		if (ends[(from + i) % ENDS].kind == kind)
			return &ends[(from + i) % ENDS];
	return NULL;
}

static int number(const struct end *e)
{
	size_t from = roll(NUMBERS);

	for (size_t i = 0; i < NUMBERS; i++)
		if (e->fd[(from + i) % NUMBERS] >= 0)
			return e->fd[(from + i) % NUMBERS];
	die("number");
	return -1;
}

static void pair_up(struct end *a, struct end *b)
{
	a->peer = b;
	b->peer = a;
}

/* The accepting end is used first: so it answers when the other one asks for a link. */
static void new_pair(void)
{
	int a = dial(), b = answer(listener), rounds = (int)roll(5);
	struct pollfd p = {b, POLLIN, 0};

	set_int(a, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(b, IPPROTO_TCP, TCP_NODELAY, 1);
	poll(&p, 1, 0);
	for (int i = 0; i < rounds; i++) {
		message(a);
		swallow(b);
		message(b);
		swallow(a);
	}
	unblock(a);
	unblock(b);
	pair_up(new_end(STREAM, a), new_end(STREAM, b));
	say("pair, %d rounds", rounds);
}

static void new_other(void)
{
	int fd[2];

	if (roll(2)) {
		new_end(COUNTER, eventfd(0, EFD_NONBLOCK));
		say("eventfd");
		return;
	}
	if (pipe2(fd, O_NONBLOCK))
		die("pipe");
	pair_up(new_end(PIPE_IN, fd[0]), new_end(PIPE_OUT, fd[1]));
	say("pipe");
}

static void peer_reset(struct end *e)
{
	if (e->reset)
		return;
	e->reset = e->error = true;
	news(e, ~0u);
}

static void peer_ended(struct end *e)
{
	e->ended = true;
	news(e, EPOLLIN | EPOLLRDHUP | EPOLLHUP);
}

/* The last number is closed. */
static void gone(struct end *e, bool reset)
{
	struct end *peer = e->peer;

	forget_entries(e);
	if (peer) {
		peer->peer = NULL;
		if (e->kind != STREAM)
			news(peer, ~0u);
		else if (!e->reset && !(e->shut_out && peer->shut_out) && (reset || e->unread))
			peer_reset(peer);
		else if (!e->reset && !e->shut_out)
			peer_ended(peer);
	}
	e->kind = UNUSED;
}

static void close_one(struct end *e, bool reset)
{
	const struct linger l = {1, 0};
	int fd = number(e), left = 0;

	if (rare && e->peer && e->peer->unread)
		return;		/* a reset on a link that ends leaves nothing to read */
	e->lingers |= reset;
	if (reset)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	for (int i = 0; i < NUMBERS; i++) {
		if (e->fd[i] == fd)
			e->fd[i] = -1;
		left += e->fd[i] >= 0;
	}
	say("%s %d: %d, %d left", reset ? "reset" : "close", index_of(e), close(fd), left);
	if (!left)
		gone(e, e->lingers);
}

static void copy(struct end *e)
{
	for (int i = 0; i < NUMBERS; i++)
		if (e->fd[i] < 0) {
			e->fd[i] = dup(number(e));
			say("dup %d", index_of(e));
			return;
		}
}

#endif
