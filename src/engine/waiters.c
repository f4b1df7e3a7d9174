/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waiters.c - owns waiters, and how they are woken (waiters.h).  Must not know
 * what a thread waits for.  Locks: waits.lock and the pool's lock, both leaves.
 */
#include "base/real.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdpriv.h"
#include "base/now.h"
#include "base/order.h"
#include "base/pages.h"
#include "base/pool.h"
#include "engine/engine.h"
#include "engine/observers.h"
#include "engine/waiters.h"

enum { AWAKE, AT_EVENTFD, AT_WORD, CALLED };

#define CALL 0x10000u /* counts wake-ups in a word; the link uses less */

static struct sr_pool pool = SR_POOL;

struct sr_waiter *sr_waiter_get(void)
{
	struct sr_waiter *w = (struct sr_waiter *)sr_pool_take(&pool);

	if (w)
		return w;
	w = sr_pages_get(sizeof(*w)); /* in a handler, which may have interrupted malloc(3) */
	if (w)
		w->efd = -1;
	return w;
}

int sr_waiter_fd(struct sr_waiter *w)
{
	if (w->efd < 0)
		w->efd = sr_fd_own(sr_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	return w->efd;
}

void sr_waiter_put(struct sr_waiter *w)
{
	sr_pool_keep(&pool, &w->pooled);
}

void sr_waiters_forget(void)
{
	sr_pool_forget(&pool);
}

static bool waiter_falls_asleep(struct sr_waiter *w, int how)
{
	int awake = AWAKE;

	return sr_replace(&w->state, &awake, how); /* pairs with waiter_call(): w->word is set */
}

bool sr_waiter_sleeping(struct sr_waiter *w)
{
	return waiter_falls_asleep(w, AT_EVENTFD);
}

/* waiter_call() changes the state, then the word, then wakes.  Here the order is
 * reversed: if the state is not CALLED after the word was read, the word
 * changes before the kernel compares it, or the wake is still to come.  So the word is
 * acquired before the state is loaded, and pairs with the release in waiter_call().
 *
 * The sleep always has a timeout, even centuries away: futex(2) without one is restarted
 * after a handler with SA_RESTART (signal(7)), and poll(2) must not be. */
SR_WINDOW_FRAME
int sr_waiter_wait(struct sr_waiter *w, _Atomic uint32_t *word, unsigned want,
		   uint64_t deadline_ns)
{
	struct timespec end = sr_timespec(deadline_ns);
	uint32_t seen;
	int r, type;

	w->word = word = word ?: &w->own;
	if (!waiter_falls_asleep(w, AT_WORD))
		return 0;
	seen = sr_observe(word);
	if ((seen & want) != want || sr_load(&w->state) != AT_WORD)
		return 0;
	/* This is a cancellation point, made as the C library makes its own. */
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	r = (int)SR_SYS(SYS_futex, word, FUTEX_WAIT_BITSET, seen, &end, 0,
			FUTEX_BITSET_MATCH_ANY);
	pthread_setcanceltype(type, NULL);
	return r < 0 && errno == EINTR ? -EINTR : 0;
}

/* A call may write the eventfd after another reason has woken us; the count
 * then remains and costs one idle turn later. */
void sr_waiter_awake(struct sr_waiter *w, bool readable)
{
	uint64_t n;

	if (readable)
		(void)!sr_now_read(w->efd, &n, sizeof(n));
	sr_store(&w->state, AWAKE);	/* relaxed: the thread attaches again before it looks */
}

static void waiter_call(struct sr_waiter *w)
{
	const uint64_t one = 1;
	int was = sr_swap(&w->state, CALLED);	/* pairs with sr_waiter_wait() */

	if (was == AT_EVENTFD)
		(void)!sr_now_write(w->efd, &one, sizeof(one));
	else if (was == AT_WORD) {
		/* Pairs with sr_waiter_wait(). */
		atomic_fetch_add_explicit(w->word, CALL, memory_order_release);
		SR_SYS(SYS_futex, w->word, FUTEX_WAKE, INT_MAX);
	}
}

void sr_wait_attach(struct sr_stream *st, struct sr_wait_node *node)
{
	struct sr_wait_node *first;

	sr_lock(&st->waits.lock);
	first = sr_load(&st->waits.first);
	node->next = first;
	node->link = NULL;
	if (first)
		first->link = &node->next;
	sr_store(&st->waits.first, node);
	sr_unlock(&st->waits.lock);
	sr_fence_look(); /* pair waiters: sr_stream_notify() */
}

void sr_wait_detach(struct sr_stream *st, struct sr_wait_node *node)
{
	sr_lock(&st->waits.lock);
	if (node->next)
		node->next->link = node->link;
	if (node->link)
		*node->link = node->next;
	else
		sr_store(&st->waits.first, node->next);
	sr_unlock(&st->waits.lock);
}

/* Sets hear of room only after a send or a poll has found none: as with the
 * kernel's socket not every acknowledgement is an event.  *news: the bits that
 * are an edge; the end of a switch is not one. */
static unsigned for_sets(struct sr_stream *st, unsigned what, unsigned *news)
{
	bool full, held;

	*news = what;
	if (!(what & SR_NOTIFY_TX))
		return what;
	/* pair full: the caller has changed the credit; move_tx_on() and room_after_all() change
	 * `full' and look at that. */
	full = atomic_exchange_explicit(&st->out.full, false, memory_order_seq_cst);
	held = atomic_exchange_explicit(&st->out.held_off, false, memory_order_seq_cst);
	if (!full)
		*news &= ~(unsigned)SR_NOTIFY_TX;
	return full || held || what != SR_NOTIFY_TX ? what : 0;
}

void sr_stream_notify(struct sr_stream *st, unsigned what)
{
	struct sr_wait_node *n;
	unsigned sets, news = 0;
	int err = errno;

	sr_fence_look(); /* pair waiters: the caller has changed what sr_wait_attach()'s
			  * caller looks at */
	if (!sr_load(&st->waits.first))
		return;
	sr_lock(&st->waits.lock);
	n = sr_load(&st->waits.first);
	sets = sr_load(&st->sets.first) ? for_sets(st, what, &news) : 0;
	for (; n; n = n->next) {
		if (n->entry && sets)
			sr_sets.notified(n->entry, sets, news);
		else if (!n->entry && (n->want & what))
			waiter_call(n->waiter);
	}
	sr_unlock(&st->waits.lock);
	errno = err;
}

void sr_waiters_wake(struct sr_stream *st)
{
	struct sr_wait_node *n;
	int err = errno;

	sr_fence_look(); /* pair waiters: the caller has changed the anchor; sr_wait_attach() */
	if (!sr_load(&st->waits.first))
		return;
	sr_lock(&st->waits.lock);
	n = sr_load(&st->waits.first);
	for (; n; n = n->next)
		if (!n->entry)
			waiter_call(n->waiter);
	sr_unlock(&st->waits.lock);
	errno = err;
}

struct await {
	struct sr_stream *st;
	struct sr_waiter *w;
};

/* A signal handler jumps out of the sleep, or the thread is cancelled. */
static void waiter_abandoned(void *arg)
{
	struct await *a = arg;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	sr_wait_detach(a->st, &a->w->node[0]);
	sr_waiter_put(a->w);
	sr_stream_put(a->st);
}

SR_WINDOW_FRAME
void sr_stream_await(struct sr_stream *st, unsigned what,
		     bool (*done)(struct sr_stream *st), uint64_t end_ns)
{
	struct await a = { st, NULL };
	struct sr_wait_node *node;
	struct sr_waiter *w;
	struct sr_window win;

	sr_hold();
	a.w = w = sr_waiter_get();
	if (!w)
		goto out;
	node = &w->node[0];
	node->waiter = w;
	node->want = what;
	for (;;) {
		sr_store(&w->state, AWAKE);
		sr_wait_attach(st, node);
		if (done(st) || sr_now_ns() >= end_ns) {
			sr_wait_detach(st, node);
			break;
		}
		sr_window_open(&win, waiter_abandoned, &a);
		sr_waiter_wait(w, NULL, 0, end_ns);
		sr_window_close(&win);
		sr_waiter_awake(w, false);
		sr_wait_detach(st, node);
	}
	sr_waiter_put(w);
out:
	sr_release();
}
