/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stream.c - owns a stream's life: the pool, references, names, what fork makes of
 * it.  Must not know how bytes move.  pool_lock is a leaf.
 *
 * Memory of streams is never freed, only reused for streams, so a look-up may
 * take a reference on a stale pointer (tryget) and check the table again.
 */
#include "base/sys.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/apart.h"
#include "base/fdpriv.h"
#include "base/gather.h"
#include "base/log.h"
#include "base/pages.h"
#include "base/probe.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "engine/observers.h"
#include "engine/fdtab.h"
#include "engine/impl.h"
#include "engine/index.h"
#include "engine/owners.h"
#include "engine/stream.h"

#define SLAB 128		/* address space: a page that is never used costs nothing */
#define SLABS 2048

/* A page that two processes write after a fork is copied: streams lie close together, and
 * what few of them need is apart.  (Their size is no power of two, so that they do not share
 * the same few sets of the caches.) */
struct slab {
	struct sr_stream stream[SLAB];
	struct sr_rare rare[SLAB];
};

_Static_assert(sizeof(struct sr_stream) % 1024, "spread over the sets");

static struct sr_mutex pool_lock = SR_MUTEX(SR_RANK_LEAF);
SR_APART static _Atomic(struct slab *) slabs[SLABS];
/* Streams that there have been at one time.  stream_make() publishes it behind the slab; a walk
 * observes it. */
static atomic_uint made;
static atomic_int barred;	/* the reason for all new streams, + 1 */
static struct sr_stream *free_list;
static unsigned generation = 1;	/* a process that is forked counts on */

static struct sr_stream *made_as(unsigned i)
{
	return &sr_load(&slabs[i / SLAB])->stream[i % SLAB];
}

/* Did the parent process make the stream, and has this process not looked it up yet?  (Also true
 * of memory that has never been a stream.)  If false, the caller sees what inherit_one() has
 * written, because this load pairs with the store of the generation there. */
static bool is_inherited(struct sr_stream *st)
{
	return sr_observe(&st->generation) != generation;
}

static void init_locks(struct sr_stream *st)
{
	sr_mutex_init(&st->rx_lock, SR_RANK_RX);
	sr_mutex_init(&st->tx_lock, SR_RANK_TX);
	sr_mutex_init(&st->sets.lock, SR_RANK_EPOLL);
	sr_mutex_init(&st->waits.lock, SR_RANK_WAIT);
}

/* A stream that has not been one before, or NULL.  pool_lock held. */
static struct sr_stream *stream_make(void)
{
	unsigned n = sr_load(&made);
	struct sr_stream *st;
	struct slab *slab;

	if (n == SLABS * SLAB)
		return NULL;
	if (n % SLAB == 0) {
		slab = sr_pages_get_root(sizeof(*slab));
		if (!slab)
			return NULL;
		sr_store(&slabs[n / SLAB], slab);
	}
	st = made_as(n);
	st->rare = &sr_load(&slabs[n / SLAB])->rare[n % SLAB];
	sr_publish(&made, n + 1);	/* pairs with the walks */
	return st;
}

/* Keeps the locks and the references.  Gates and the task may be cleared: a call enters
 * a gate, and the loop has the task, only with a reference. */
static void stream_clear(struct sr_stream *st)
{
	struct sr_mutex w, ep;

	/* The parent's thread may have held the lock of a free stream at the fork: the fast path
	 * locks stale pointers (fast.c), and fork waits for live streams only. */
	if (is_inherited(st))
		init_locks(st);
	w = st->waits.lock;
	ep = st->sets.lock;
	sr_store(&st->head.tx_fast, false);
	sr_store(&st->head.rx_fast, false);
	sr_store(&st->head.retired, false);
	memset((char *)st + offsetof(struct sr_stream, flags), 0,
	       sizeof(*st) - offsetof(struct sr_stream, flags));
	st->listener.socket = st;
	sr_history_begin(&st->rare->in);
	sr_history_begin(&st->rare->out);
	st->waits.lock = w;
	st->sets.lock = ep;
	st->loop.task.fn = sr_kicked;
	st->tx_own = st->rx_own = (struct sr_hot){ 0 };
	st->tx_hot = &st->tx_own;
	st->rx_hot = &st->rx_own;
	sr_store(&st->anchor, -1);
	sr_tx_init(&st->tx);
	sr_rx_init(&st->rx);
	atomic_flag_clear_explicit(&st->history_busy, memory_order_relaxed);
}

static struct sr_stream *take_free(void)
{
	struct sr_stream *st;

	sr_lock(&pool_lock);
	st = free_list;
	if (st)
		free_list = st->next_free;
	else
		st = stream_make();
	sr_unlock(&pool_lock);
	if (st)
		stream_clear(st);
	return st;
}

bool sr_stream_tryget(struct sr_stream *st)
{
	int n = sr_load(&st->refs);

	while (n > 0)
		/* Pairs with sr_stream_open(), and with the reference that is given back. */
		if (sr_replace(&st->refs, &n, n + 1))
			return true;
	return false;
}

enum sr_tx_state sr_stream_tx(struct sr_stream *st)
{
	enum sr_tx_state s;

	sr_lock(&st->tx_lock);
	s = st->tx.state;
	sr_unlock(&st->tx_lock);
	return s;
}

enum sr_rx_state sr_stream_rx(struct sr_stream *st)
{
	enum sr_rx_state s;

	sr_lock(&st->rx_lock);
	s = st->rx.state;
	sr_unlock(&st->rx_lock);
	return s;
}

struct sr_stream *sr_stream_ref(struct sr_stream *st)
{
	sr_count(&st->refs, 1);	/* the caller has one */
	return st;
}

/* A listener's rendezvous lives as long as there are streams from that
 * listener: a server may accept one connection, close the listener, and be
 * asked for a link later (socat does).  (A closed stream may have references for long,
 * of a thread that sleeps in a set.) */
void sr_stream_over(struct sr_stream *st)
{
	struct sr_listener *l = st->up.listener;

	if (!l || (sr_st_set(st, SR_ST_OVER) & SR_ST_OVER))
		return;
	/* pair children: sr_listener_progress() */
	if (atomic_fetch_sub_explicit(&l->children, 1, memory_order_seq_cst) == 1 &&
	    (sr_look(&l->socket->flags) & SR_ST_CLOSING))
		sr_stream_kick(l->socket);
}

static void give_listener_back(struct sr_stream *st)
{
	struct sr_listener *l = st->up.listener;

	sr_stream_over(st);
	st->up.listener = NULL;
	sr_stream_put(l->socket);
}

/* The socket ends, and its listener with it. */
static void listener_end(struct sr_listener *l)
{
	int line = sr_load(&l->claims) - 1;

	if (line >= 0)	/* nothing lies unread there */
		sr_fd_close(line);
}

void sr_stream_put(struct sr_stream *st)
{
	sr_hold();
	/* Pairs with itself: the last one sees what all others did with the stream. */
	if (atomic_fetch_sub_explicit(&st->refs, 1, memory_order_acq_rel) == 1) {
		if (st->up.listener)
			give_listener_back(st);
		listener_end(sr_listener_of(st));
		sr_stat_close(st);
		sr_index_drop(st);
		sr_lock(&pool_lock);
		st->next_free = free_list;
		free_list = st;
		sr_unlock(&pool_lock);
	}
	sr_release();
}

void sr_streams_walk(void (*fn)(struct sr_stream *st, void *arg), void *arg)
{
	unsigned n = sr_observe(&made);

	for (unsigned i = 0; i < n; i++) {
		struct sr_stream *st = made_as(i);

		if (is_inherited(st) || !sr_stream_tryget(st))
			continue;
		fn(st, arg);
		sr_stream_put(st);
	}
}

struct sr_stream *sr_stream_open(int fd)
{
	struct sr_stream *st;

	if (sr_conf.inert || (sr_conf.never && !sr_conf.report[0]))
		return NULL;
	st = take_free();
	if (!st)
		return NULL;
	if (sr_conf.report[0])
		sr_gather_open(true);
	st->policy = &sr_conf.policy;
	sr_publish(&st->generation, generation); /* pairs with is_inherited() */
	sr_store(&st->anchor, fd);
	sr_store(&st->fds, 1);
	if (sr_conf.never)
		sr_stream_bar(st, SR_REASON_NEVER);
	else if (fd <= 2)
		sr_stream_bar(st, SR_REASON_STDIO);
	if (sr_stat_orphans)
		sr_stat_adopt();
	sr_stat_open(st);
	sr_publish(&st->refs, 1);	/* pairs with sr_stream_tryget() */
	sr_fence_look();	/* pair opened: sr_streams_bar_all() walks over streams with references */
	if (sr_load(&barred))
		sr_stream_bar(st, (enum sr_reason)(sr_load(&barred) - 1));
	return st;
}

void sr_stream_policy(struct sr_stream *st, bool connects,
		      const struct sockaddr_storage *addr)
{
	struct sockaddr_storage plain;

	if (!sr_has_rules())
		return;
	sr_addr_unmap(&plain, (const struct sockaddr *)addr);
	st->policy = sr_policy_of(connects, &plain);
	if (st->policy->upgrade == SR_NEVER)
		sr_stream_bar(st, SR_REASON_NEVER);
}

/* The kernel's socket inherits its listener's options; so do our copies, and whether it
 * needs no histories. */
static void inherit_options(struct sr_stream *st, struct sr_stream *socket)
{
	unsigned options = sr_st_flags(socket) & SR_ST_INHERITED;

	if (options)
		sr_st_set(st, options);
	sr_store(&st->up.promises, sr_load(&socket->up.promises));
}

struct sr_stream *sr_stream_accepted(struct sr_stream *socket, int fd)
{
	struct sr_listener *l = sr_listener_of(socket);
	struct sr_stream *st = sr_stream_open(fd);

	if (!st)
		return NULL;
	inherit_options(st, socket);
	sr_stream_ref(socket);
	st->up.listener = l;
	sr_count(&l->children, 1);
	sr_st_set(st, SR_ST_ACCEPT);
	sr_index_accepted(st);	/* now the service thread finds it: upgrade/answer.c */
	if (sr_conf.report[0] || sr_has_rules())
		sr_stream_name(st);
	sr_stream_policy(st, false, &st->rare->local);
	if ((sr_st_flags(socket) & (SR_ST_BARRED | SR_ST_BARRED_ALONE)) == SR_ST_BARRED)
		sr_stream_bar(st, sr_load(&socket->reason));
	if (sr_listener_has(l, SR_LISTENER_ANSWERED))
		sr_st_set(st, SR_ST_ANSWERED);
	if (sr_listener_has(l, SR_LISTENER_UNAVAILABLE)) {
		sr_stream_reason(st, sr_load(&socket->reason));
		sr_store(&st->head.retired, true);
	}
	sr_stat_note(st);
	return st;
}

/* Once a stream is barred its reason is final, even for a caller that was about
 * to store another one: a thread that acquires the reason that sr_stream_bar() has published
 * sees BARRED. */
void sr_stream_reason(struct sr_stream *st, enum sr_reason reason)
{
	int old = sr_observe(&st->reason);	/* pairs with sr_stream_bar() */

	do {
		if (sr_st_flags(st) & SR_ST_BARRED)
			return;
	} while (!sr_replace(&st->reason, &old, (int)reason)); /* the same */
	sr_stat_note(st);
	sr_probe(reason, st, sr_reason_word(reason));
}

static void bar_one(struct sr_stream *st, void *arg)
{
	sr_stream_bar(st, *(enum sr_reason *)arg);
}

void sr_streams_bar_all(enum sr_reason reason)
{
	sr_store(&barred, (int)reason + 1);
	sr_fence_look();	/* pair opened: sr_stream_open() looks when it has a reference */
	sr_streams_walk(bar_one, &reason);
}

void sr_stream_bar(struct sr_stream *st, enum sr_reason reason)
{
	sr_hold();
	if (!(sr_st_set(st, SR_ST_BARRED) & SR_ST_BARRED)) {
		/* A listener's epoll set says nothing of the streams that it accepts. */
		if (reason == SR_REASON_EPOLL)
			sr_st_set(st, SR_ST_BARRED_ALONE);
		sr_publish(&st->reason, (int)reason); /* pairs with sr_stream_reason() */
		sr_stat_note(st);
		sr_probe(reason, st, sr_reason_word(reason));
		if (reason != SR_REASON_NEVER)	/* which is no news */
			sr_inform("%s: gets no link any more: %s",
				  sr_stream_label(st, (char[128]){ 0 }), sr_reason_word(reason));
	}
	sr_release();
}

void sr_stream_failed(struct sr_stream *st, ssize_t r)
{
	if (r == -ECONNRESET || r == -ETIMEDOUT || r == -EHOSTUNREACH ||
	    r == -ENETUNREACH || r == -ENETDOWN)
		sr_store(&st->err.ended, (int)-r);
}

/* Finds the addresses, and the name that both ends give the connection.  Takes rx_lock. */
bool sr_stream_name(struct sr_stream *st)
{
	socklen_t a = sizeof(st->rare->local), b = sizeof(st->rare->peer);
	const struct sockaddr *local = (struct sockaddr *)&st->rare->local;
	const struct sockaddr *peer = (struct sockaddr *)&st->rare->peer;
	bool connected = sr_st_flags(st) & SR_ST_CONNECT;
	int err = errno;
	bool ok;

	if (sr_observe(&st->flags) & SR_ST_NAMED) /* pairs with sr_st_set() below */
		return true;
	sr_lock(&st->rx_lock);
	ok = (sr_st_flags(st) & SR_ST_NAMED) ||
	     (sr_load(&st->anchor) >= 0 &&
	      sr_sys_getsockname(sr_load(&st->anchor), (struct sockaddr *)&st->rare->local,
			  &a) == 0 &&
	      sr_sys_getpeername(sr_load(&st->anchor), (struct sockaddr *)&st->rare->peer, &b) == 0 &&
	      sr_name_make(&st->rare->name, connected ? local : peer,
			   connected ? peer : local, 0) == 0);
	if (ok)
		sr_st_set(st, SR_ST_NAMED);
	sr_unlock(&st->rx_lock);
	errno = err;
	return ok;
}

const char *sr_stream_label(struct sr_stream *st, char buf[128])
{
	int n;

	if (!(sr_observe(&st->flags) & SR_ST_NAMED)) { /* pairs with sr_stream_name() */
		sr_format(buf, 128, "stream of descriptor %d", sr_load(&st->anchor));
		return buf;
	}
	n = sr_addr_format(buf, 60, &st->rare->local);
	n += sr_format(buf + n, 128 - (size_t)n, "%s",
		       sr_st_flags(st) & SR_ST_CONNECT ? "->" : "<-");
	sr_addr_format(buf + n, 128 - (size_t)n, &st->rare->peer);
	return buf;
}

/* ---- fork ---- */

static bool is_live(struct sr_stream *st)
{
	return sr_load(&st->refs) > 0;
}

/* Reads, for the most part: a page that is written is copied, now and after the fork.
 * No thread holds the locks of two streams, so each can be awaited by itself. */
void sr_streams_before_fork(void (*rang)(void))
{
	unsigned n = sr_observe(&made);

	for (unsigned i = 0; i < n; i++) {
		struct sr_stream *st = made_as(i);

		if (!is_live(st))
			continue;
		if (is_inherited(st)) {
			sr_owners_share_heir(st);
			continue;
		}
		sr_lock_await(&st->rx_lock);
		sr_lock_await(&st->tx_lock);
		sr_owners_share(st, rang);
	}
}

/* Tagged pointer: bit 6 of an entry of the descriptor table (fdtab.c) marks a stream inherited
 * from the parent.  The tagged address points at st->heir, which is all zero: read as a stream it
 * is not fast, not retired and has no references.  So the fast path's flag test fails there
 * without a branch of its own. */
#define HEIR offsetof(struct sr_stream, heir)

_Static_assert(HEIR == 64 && _Alignof(struct sr_stream) == 2 * HEIR, "one bit");

void *sr_stream_heir(void *entry)
{
	return (void *)((uintptr_t)entry | HEIR);
}

static struct sr_mutex heirs_lock = SR_MUTEX(SR_RANK_HEIRS);
static bool heirs_left;		/* sr_streams_leave_heirs() */

void sr_streams_forget(void)
{
	sr_mutex_init(&pool_lock, SR_RANK_LEAF);
	sr_mutex_init(&heirs_lock, SR_RANK_HEIRS);
	heirs_left = false;
	generation++;
	sr_index_forget();
	sr_fdtab_inherit();
	sr_page_forget();
}

/* Sets the generation last, so that a child forked in the midst of this begins anew. */
SR_SELDOM static void inherit_one(struct sr_stream *st)
{
	bool in_sets;

	sr_stat_inherit(st);
	init_locks(st);
	sr_store(&st->waits.first, NULL);
	sr_index_inherit(st);
	sr_store(&st->loop.watching, false);
	sr_store(&st->loop.watched, 0);
	st->loop.timed = false;
	in_sets = sr_sets.inherited(st);
	sr_owners_inherit(st);
	if (in_sets)
		sr_stream_bar(st, SR_REASON_EPOLL);
	if (heirs_left)
		sr_st_set(st, SR_ST_SHARED | SR_ST_PAUSED);
	if (sr_load(&barred))
		sr_stream_bar(st, (enum sr_reason)(sr_load(&barred) - 1));
	sr_publish(&st->generation, generation); /* pairs with is_inherited() */
}

struct sr_stream *sr_stream_inherit(void *entry)
{
	struct sr_stream *st;

	if (!((uintptr_t)entry & HEIR))
		return entry;
	st = (struct sr_stream *)((char *)entry - HEIR);
	sr_lock(&heirs_lock);
	if (is_inherited(st)) {
		if (st->up.listener && is_inherited(st->up.listener->socket))
			inherit_one(st->up.listener->socket);
		inherit_one(st);
	}
	sr_unlock(&heirs_lock);
	return st;
}

void sr_streams_leave_heirs(bool ends)
{
	unsigned n = sr_observe(&made);

	sr_lock(&heirs_lock);
	for (unsigned i = 0; i < n && !heirs_left; i++) {
		struct sr_stream *st = made_as(i);

		if (is_inherited(st) && is_live(st))
			sr_owners_leave_heir(st, ends);
	}
	heirs_left = true;
	sr_unlock(&heirs_lock);
}
