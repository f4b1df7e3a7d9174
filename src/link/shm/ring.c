/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ring.c - the rings of a shared memory link: what one end may put into them
 * and what the other end finds, how rings grow, and how idle rings return their
 * memory.  It knows no descriptors and no messages.  pure/ring.h says where a byte
 * is.
 *
 * Growth.  A ring consists of areas of virtual memory, one for each size; only
 * pages that were touched cost memory.  Only the sender changes the size, at
 * any tx_w, so a ring can grow even if the receiver's program does not read.
 * The sender announces a generation before tx_w passes its start.  The
 * receiver reads tx_w first and the generations afterwards, so it always knows
 * the generations of the bytes that it knows of.
 *
 * Each generation is larger than the one before, until the ring is empty and idle:
 * then the sweep frees all pages and starts a small generation again.  So no two
 * generations in use at one time have the same area.
 *
 * Locks: the sweep frees pages under the stream's tx_lock (tx_work()), which
 * every sender holds while it copies into the ring.  Functions that need
 * look_lock say so.
 */
#include "base/sys.h" /* before any system header */
#include "link/shm/shm.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/order.h"
#include "base/probe.h"

#define SWEEP_MS 1000 /* idle for at least this long, at most twice */

int sr_shm_plan(struct sr_shm_plan *plan, size_t first, size_t max)
{
	size_t page = (size_t)getauxval(AT_PAGESZ), size;
	unsigned i = 0;

	if (first < page)
		first = page;
	if (max < first)
		max = first;
	if (max > SR_SHM_RING_MAX || (max & (max - 1)) || (first & (first - 1)))
		return -EINVAL;
	*plan = (struct sr_shm_plan){.page = page};
	for (size = first;; size = sr_ring_step(size, max)) {
		if (i == SR_SHM_AREAS)
			return -EINVAL;
		plan->size[i++] = size;
		plan->ring += size;
		if (size == max)
			break;
	}
	plan->areas = i;
	plan->total = 2 * page + 2 * plan->ring;
	return 0;
}

void sr_shm_ring_init(struct sr_shm_ring *r, const struct sr_shm_plan *plan,
		      uint8_t *mem)
{
	unsigned i;

	for (i = 0; i < plan->areas; mem += plan->size[i++])
		r->area[i] = (struct sr_ring){mem, plan->size[i]};
	sr_gens_init(&r->gens, r->area);
}

/* ---- sending ---- */

/* Bytes of the current generation that the peer's program has not taken yet. */
static uint64_t ring_outstanding(struct sr_shm *l)
{
	uint64_t w = sr_load(&l->link.tx_w);
	uint64_t acked = sr_observe(&l->link.tx_acked); /* pairs with sr_shm_credit() */

	return sr_credit_used(w, acked, sr_load(&sr_gens_last(&l->tx.gens)->start));
}

/* Starts a new generation at tx_w.  tx_lock held. */
static void ring_turn(struct sr_shm *l, uint32_t area)
{
	uint32_t n = sr_load(&l->tx.gens.n);
	uint64_t w = sr_load(&l->link.tx_w);
	struct sr_gen *g = &l->own->gen[n % SR_GENS];

	sr_gens_add(&l->tx.gens, w, area);
	sr_store(&g->start, w);
	sr_store(&g->ring, area);
	sr_publish(&l->own->gens, n + 1); /* pairs with the peer's take_gens() */
}

/* The ring is full. */
static bool ring_grow(struct sr_shm *l)
{
	uint32_t area = sr_load(&sr_gens_last(&l->tx.gens)->ring) + 1;

	if (area == l->plan.areas || l->plan.size[area] > l->tx_most ||
	    !sr_memory_take(l->plan.size[area]))
		return false;
	sr_count(&l->taken_memory, l->plan.size[area]);
	sr_probe(grow, "shm", l->plan.size[area - 1], l->plan.size[area]);
	ring_turn(l, area);
	return true;
}

static void refresh_credit(struct sr_shm *l)
{
	bool grew = false;

	sr_lock(&l->look_lock);
	sr_shm_credit(l, &grew); /* ignores an error, because the next look finds it again */
	sr_unlock(&l->look_lock);
}

size_t sr_shm_tx_room(struct sr_link *link, struct iovec v[2])
{
	struct sr_shm *l = sr_shm_of(link);
	const struct sr_ring *ring = sr_gens_ring(&l->tx.gens);
	uint64_t w, out = ring_outstanding(l);
	size_t room;

	if (sr_link_events(link) & SR_LINK_DEAD)
		return 0;
	if (out > ring->size / 2) {
		refresh_credit(l);
		out = ring_outstanding(l);
	}
	room = sr_credit_room(ring->size, out, ring->size / SR_CREDIT_ROOM);
	if (!room && ring_grow(l)) {
		ring = sr_gens_ring(&l->tx.gens);
		room = ring->size;
	}
	w = sr_load(&link->tx_w);
	sr_ring_span(ring, w, room, v);
	sr_link_offer(link, v, true);
	if (room)
		l->rest_end = 0;
	return room;
}

/*
 * tx_room() has just returned 0 to the caller, so the credit is up to date.
 *
 * Less than a 64th of the ring is left free.  If sends filled the ring to the last byte, a
 * sender that shares a CPU with its reader was woken for each quarter that became free, and
 * not once for the whole ring: it slept 2,100 times for a GB instead of 1,000 times, and both
 * ends used 9 % more CPU time.
 */
size_t sr_shm_tx_rest(struct sr_link *link, struct iovec v[2])
{
	struct sr_shm *l = sr_shm_of(link);
	const struct sr_ring *ring = sr_gens_ring(&l->tx.gens);
	uint64_t w = sr_load(&link->tx_w);
	size_t room = sr_credit_room(ring->size, ring_outstanding(l), 0);

	if (sr_link_events(link) & SR_LINK_DEAD)
		return 0;
	if (l->rest_end && room > l->rest_end - w)
		room = l->rest_end - w;
	if (room < ring->size / SR_CREDIT_REST)
		room = 0;
	else
		l->rest_end = w + room;
	sr_ring_span(ring, w, room, v);
	sr_link_offer(link, v, false);
	return room;
}

/* ---- receiving ---- */

/* The end of the bytes known to have come.  (rx_look() does not move rx_h on.) */
static uint64_t ring_known_end(struct sr_shm *l)
{
	uint64_t h = sr_observe(&l->link.rx_h); /* pairs with sr_shm_absorb() */

	return h > l->rx_seen ? h : l->rx_seen;
}

/* For the fast path; the caller holds the rx_lock only.  Checks the values, because a
 * lying peer may have written them, as sr_shm_absorb() does.  Handles only bytes of the
 * newest generation, and leaves everything else to sr_shm_absorb(). */
ssize_t sr_shm_rx_look(struct sr_link *link, struct sr_piece *piece)
{
	struct sr_shm *l = sr_shm_of(link);
	struct sr_shm_page *p = l->peer;
	/* The generations are read after tx_w, see the top of this file.  It pairs with the peer's
	 * tx_commit(). */
	uint64_t w = sr_observe(&p->tx_w);
	uint64_t taken = sr_load(&link->rx_taken);
	const struct sr_gen *g;
	const struct sr_ring *ring;
	struct iovec v[2];

	if ((sr_load(&p->ctl) & ~sr_load(&l->ctl_seen)) || sr_load(&p->dropped) ||
	    sr_load(&p->gens) != sr_observe(&l->rx.gens.n)) /* pairs with sr_gens_add() */
		return -1;
	if (w == taken)
		return 0;
	g = sr_gens_last(&l->rx.gens);
	ring = &l->rx.area[sr_load(&g->ring)];
	if (w < taken || w > INT64_MAX || sr_load(&g->start) > taken ||
	    w - taken > ring->size)
		return -1;
	l->rx_seen = w;
	sr_ring_span(ring, taken, w - taken, v);
	*piece = (struct sr_piece){v[0].iov_base, v[0].iov_len};
	return (ssize_t)(w - taken);
}

/* The program has taken all bytes below `taken`: returns credit to the sender if enough
 * has gathered.  Returns true if a sender may be asleep because it has no credit. */
static bool return_credit(struct sr_shm *l, uint64_t taken)
{
	bool check = false;

	if (!sr_credit_take(&l->credit, sr_gens_ring(&l->rx.gens)->size, taken,
			    ring_known_end(l), &check))
		return false;
	sr_publish(&l->own->rx_taken, taken); /* pairs with the peer's sr_shm_credit() */
	return check;
}

/*
 * Would tx_room() offer the sender room now?  tx_room() needs a quarter of the ring of the
 * newest generation that the sender knows.  If that generation is newer than the newest that
 * we know, none of its bytes has come, so no sender waits for the bytes that we free here.
 * So this returns true whenever a sleeping sender has room again.
 *
 * A thread may sleep for room while another thread's non-blocking send fills the rest of
 * the ring (tx_rest()).  The sleeper still needs a quarter, and has to wait for longer,
 * because more bytes are outstanding.  If we do not know of all of these bytes yet, we wake
 * the sleeper too early: it finds no room, and sleeps again.
 */
static bool sender_has_room(struct sr_shm *l, uint64_t taken)
{
	uint64_t h = ring_known_end(l);
	const struct sr_gen *g = sr_gens_last(&l->rx.gens);
	size_t size = l->plan.size[sr_load(&g->ring)];

	return h <= taken || !sr_ring_full(size, sr_credit_used(h, taken, sr_load(&g->start)),
					   SR_CREDIT_ROOM);
}

void sr_shm_rx_free(struct sr_link *link, size_t n)
{
	struct sr_shm *l = sr_shm_of(link);
	uint64_t taken = sr_load(&link->rx_taken) + n;

	/* Stored before the peer's copy, as in tx_commit().  It pairs with sr_shm_absorb(). */
	sr_publish(&link->rx_taken, taken);
	if (!return_credit(l, taken))
		return;
	sr_fence_look(); /* pair doorbell: arm(), arm_once() */
	if (sender_has_room(l, taken))
		sr_shm_ring(l, SR_NOTIFY_TX);
}

static const char *take_gens(struct sr_shm *l, uint64_t h, uint64_t taken)
{
	uint32_t n = sr_observe(&l->peer->gens); /* pairs with the peer's ring_turn() */
	uint32_t have = sr_load(&l->rx.gens.n);

	if (n - have > SR_SHM_AREAS + 1)
		return "protocol";
	for (; have != n; have++) {
		struct sr_gen *in = &l->peer->gen[have % SR_GENS];
		uint64_t start = sr_load(&in->start);
		uint32_t area = sr_load(&in->ring);

		if (area >= l->plan.areas ||
		    !sr_gens_may_add(&l->rx.gens, start, area, h, taken))
			return "protocol";
		sr_gens_add(&l->rx.gens, start, area);
	}
	return NULL;
}

/* last: the peer has ended, so bytes that it held back count, too. */
const char *sr_shm_absorb(struct sr_shm *l, bool last, bool *grew)
{
	struct sr_link *k = &l->link;
	uint64_t w = sr_observe(&l->peer->tx_w); /* both pair with the peer's tx_commit() */
	uint64_t kept = sr_observe(&l->peer->tx_kept);
	uint64_t h = sr_load(&k->rx_h);
	/* The sender used an older value of this, which was smaller.  It pairs with
	 * sr_shm_rx_free(). */
	uint64_t taken = sr_observe(&k->rx_taken);
	const char *bad;

	if (last && kept > w)
		w = kept;
	if (w == h)
		return NULL;
	if (w < h || w > INT64_MAX)
		return "protocol";
	bad = take_gens(l, h, taken);
	if (bad)
		return bad;
	if (!sr_gens_fit(&l->rx.gens, taken, w))
		return "protocol";
	sr_publish(&k->rx_h, w); /* pairs with ring_known_end() and rx_data() */
	*grew = true;
	return NULL;
}

const char *sr_shm_credit(struct sr_shm *l, bool *grew)
{
	struct sr_link *k = &l->link;
	uint64_t a, have, w;
	int news;

	if (!(sr_link_events(k) & SR_LINK_ACKSW))
		return NULL;
	a = sr_observe(&l->peer->rx_taken); /* pairs with the peer's return_credit() */
	have = sr_load(&k->tx_acked);
	/* Loaded after a: we see at least the tx_w that the peer has seen.  It pairs with
	 * tx_commit(). */
	w = sr_observe(&k->tx_w);
	news = sr_credit_said(have, w, a);
	if (news > 0) {
		sr_publish(&k->tx_acked, a); /* pairs with ring_outstanding() */
		*grew = true;
	}
	return news < 0 ? "protocol" : NULL;
}

/* ---- the sweep: idle rings return their memory ---- */

static void sweep_due(struct sr_timer *t)
{
	struct sr_shm *l = SR_OF(struct sr_shm, sweep, t);
	uint64_t w = sr_load(&l->link.tx_w);

	if (w == l->swept_w)
		l->link.notify(&l->link, SR_NOTIFY_WORK);
	else if (!sr_load(&l->link.reason))
		sr_timer_set(t, SWEEP_MS);
	l->swept_w = w;
}

/* The first call after the ring was empty starts a timer, which causes further calls until
 * all bytes are taken and none was sent since the call before. */
void sr_shm_sweep(struct sr_link *link)
{
	struct sr_shm *l = sr_shm_of(link);
	uint64_t w = sr_load(&link->tx_w);
	bool idle = w == l->swept_w;
	size_t give;

	if (!sr_load(&l->dirty) || sr_load(&link->reason) || l->sweep.at_ns)
		return;
	if (idle)
		refresh_credit(l);
	/* Pairs with sr_shm_credit(): the peer has read what is about to be freed. */
	if (!idle || sr_observe(&link->tx_acked) != w) {
		l->swept_w = w;
		l->sweep.fn = sweep_due;
		sr_timer_set(&l->sweep, SWEEP_MS);
		return;
	}
	sr_sys_madvise(l->tx.area[0].mem, l->plan.ring, MADV_REMOVE);
	if (sr_load(&sr_gens_last(&l->tx.gens)->ring) != 0) {
		ring_turn(l, 0);
		give = sr_load(&l->taken_memory) -
		       (2 * l->plan.page + l->plan.size[0]);
		atomic_fetch_sub_explicit(&l->taken_memory, give, memory_order_relaxed);
		sr_memory_give(give);
	}
	sr_link_offer_none(link);
	sr_store(&l->dirty, false);
}

void sr_shm_dirty(struct sr_shm *l)
{
	if (!sr_load(&l->dirty)) {
		sr_store(&l->dirty, true);
		l->link.notify(&l->link, SR_NOTIFY_WORK);
	}
}
