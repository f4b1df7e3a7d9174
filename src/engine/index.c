/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * index.c - owns the lists by which requests find streams (index.h).  Must not know what a
 * request is.
 *
 * An accepted stream's name takes two system calls to learn, which a server whose clients
 * ask for no links should not make.  So a new stream waits in the list of newcomers, and the
 * next search gives all of these their names and puts them into the table.
 *
 * A stream stays in its list until its last reference has gone, and a moment longer: a thread
 * that finds it there uses it only if sr_stream_tryget() succeeds.
 *
 * Locks: index_lock, a leaf.
 */
#include "base/sys.h"

#include <string.h>

#include "base/list.h"
#include "base/pages.h"
#include "engine/engine.h"
#include "engine/index.h"
#include "engine/stream.h"

#define BUCKETS (1u << 14)

static struct sr_mutex index_lock = SR_MUTEX(SR_RANK_LEAF);
static struct sr_indexed *newcomers, *listeners, *holding;
static struct sr_indexed **table;	/* NULL until the first search */

static struct sr_stream *indexed_stream(struct sr_indexed *x)
{
	return SR_OF(struct sr_stream, indexed, x);
}

/* ---- lists: index_lock held ---- */

static void index_enlist(struct sr_indexed **list, struct sr_indexed *x)
{
	SR_LIST_ADD(*list, x);
}

static void index_delist(struct sr_indexed *x)
{
	if (!x->pprev)
		return;
	SR_LIST_DROP(x);
	x->pprev = NULL;
}

static void move_to(struct sr_indexed **list, struct sr_stream *st)
{
	sr_lock(&index_lock);
	index_delist(&st->indexed);
	index_enlist(list, &st->indexed);
	sr_unlock(&index_lock);
}

void sr_index_accepted(struct sr_stream *st)
{
	move_to(&newcomers, st);
}

void sr_index_listens(struct sr_listener *l)
{
	move_to(&listeners, l->socket);
}

void sr_index_drop(struct sr_stream *st)
{
	sr_lock(&index_lock);
	index_delist(&st->indexed);
	index_delist(&st->hold.node);
	sr_unlock(&index_lock);
}

/* ---- accepted streams ---- */

/* The hash begins with the table's address, which clients do not know: they choose the ports,
 * and could fill one bucket otherwise. */
static struct sr_indexed **bucket_of(const struct sr_name *name)
{
	uint64_t words[5], hash = (uintptr_t)table;

	memcpy(words, name->saddr, sizeof(name->saddr));
	memcpy(words + 2, name->daddr, sizeof(name->daddr));
	words[4] = (uint64_t)name->sport << 16 | name->dport;
	for (unsigned i = 0; i < 5; i++) {
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	return &table[hash % BUCKETS];
}

/* A newcomer, which is in no list now, with a reference; or NULL. */
static struct sr_stream *take_newcomer(void)
{
	struct sr_stream *st = NULL;

	sr_lock(&index_lock);
	while (newcomers && !st) {
		st = indexed_stream(newcomers);
		index_delist(&st->indexed);
		if (!sr_stream_tryget(st))
			st = NULL;
	}
	sr_unlock(&index_lock);
	return st;
}

/* A newcomer that gets no name is no longer connected, so no request asks for it. */
static void name_newcomers(void)
{
	struct sr_stream *st;

	while ((st = take_newcomer())) {
		if (sr_stream_name(st)) {
			sr_lock(&index_lock);
			if (!st->indexed.pprev)	/* it may listen by now */
				index_enlist(bucket_of(&st->rare->name), &st->indexed);
			sr_unlock(&index_lock);
		}
		sr_stream_put(st);
	}
}

struct sr_stream *sr_index_find(const struct sr_name *name)
{
	struct sr_stream *st = NULL;
	struct sr_indexed *x;

	if (!table)
		table = sr_pages_get(BUCKETS * sizeof(*table));
	if (!table)
		return NULL;
	name_newcomers();
	sr_lock(&index_lock);
	for (x = *bucket_of(name); x && !st; x = x->next) {
		st = indexed_stream(x);
		if (!sr_name_equal(&st->rare->name, name) ||
		    (sr_st_flags(st) & SR_ST_CLOSING) || !sr_stream_tryget(st))
			st = NULL;
	}
	sr_unlock(&index_lock);
	return st;
}

/* ---- listeners ---- */

/* The next one behind `last`, whose reference is given back; the first one if that is NULL.
 * (One that has left the list meanwhile ends the walk: its socket has just been closed, and
 * the request is looked at again.) */
static struct sr_stream *next_listener(struct sr_stream *last)
{
	struct sr_stream *st = NULL;
	struct sr_indexed *x;

	sr_lock(&index_lock);
	x = !last ? listeners : last->indexed.pprev ? last->indexed.next : NULL;
	for (; x && !st; x = x->next)
		if (sr_stream_tryget(indexed_stream(x)))
			st = indexed_stream(x);
	sr_unlock(&index_lock);
	if (last)
		sr_stream_put(last);
	return st;
}

void sr_index_each_listener(void (*fn)(struct sr_listener *l, void *arg), void *arg)
{
	struct sr_stream *st = NULL;

	while ((st = next_listener(st)))
		fn(sr_listener_of(st), arg);
}

/* ---- threads that are held ---- */

void sr_index_hold(struct sr_stream *st, uintptr_t thread)
{
	sr_lock(&index_lock);
	st->hold.held = thread;
	index_delist(&st->hold.node);
	if (thread)
		index_enlist(&holding, &st->hold.node);
	sr_unlock(&index_lock);
}

bool sr_index_is_held(uintptr_t thread)
{
	struct sr_indexed *x;

	sr_lock(&index_lock);
	for (x = holding; x; x = x->next)
		if (SR_OF(struct sr_stream, hold.node, x)->hold.held == thread)
			break;
	sr_unlock(&index_lock);
	return x;
}

/* ---- fork ---- */

/* The parent's table stays mapped, as do its streams. */
void sr_index_forget(void)
{
	sr_mutex_init(&index_lock, SR_RANK_LEAF);
	newcomers = listeners = holding = NULL;
	table = NULL;
}

void sr_index_inherit(struct sr_stream *st)
{
	st->indexed = (struct sr_indexed){ 0 };
	st->hold.node = (struct sr_indexed){ 0 };
	st->hold.held = 0;
	if (sr_st_flags(st) & SR_ST_ACCEPT)
		sr_index_accepted(st);
}
