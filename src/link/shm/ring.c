/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ring.c - the rings of a shared memory link: where a byte is, how much room
 * there is, how a ring grows, and how an idle one returns its memory.  It owns
 * the list of links that the sweep visits.  It knows no descriptors and no
 * messages.
 *
 * Growth.  A ring consists of areas of virtual memory, one for each size, each
 * four times the one before; only pages that were touched cost memory.  The
 * sender alone changes the size, at any tx_w = G: "from G on, byte k is at
 * area[(k - G) & (size - 1)]" is a generation.  Bytes below G stay where they
 * are.  So nobody has to wait until they are taken, and a receiver whose
 * program does not read never keeps the sender from growing.  The sender
 * announces a generation before tx_w passes G, and the receiver reads tx_w
 * first and the generations afterwards, so it always knows the generations of
 * the bytes it knows of.
 *
 * Each later generation is larger, until the ring is empty and idle: then the
 * sweep frees all pages and starts a small generation again.  So areas in use
 * at one time differ, and at most SR_SHM_AREAS generations are in use; the
 * tables hold more than that.
 *
 * Locks: the sweep frees pages under the stream's tx_lock (tx_work()), which
 * every sender holds while it copies into the ring.  look_lock as noted below.
 */
#include "link/shm/shm.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/conf.h"

#define SWEEP_MS 1000 /* idle for at least this long, at most twice */
#define GROW 2	      /* log2 of the factor between two areas */

int sr_shm_plan(struct sr_shm_plan *plan, size_t first, size_t max)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size;
	unsigned i = 0;

	if (first < page)
		first = page;
	if (max < first)
		max = first;
	if (max > SR_SHM_RING_MAX || (max & (max - 1)) || (first & (first - 1)))
		return -EINVAL;
	*plan = (struct sr_shm_plan){.first = first};
	for (size = first;; size = max >> GROW < size ? max : size << GROW) {
		if (i == SR_SHM_AREAS)
			return -EINVAL;
		plan->at[i] = plan->ring;
		plan->size[i++] = size;
		plan->ring += size;
		if (size == max)
			break;
	}
	plan->areas = i;
	plan->page = page;
	plan->total = 2 * page + 2 * plan->ring;
	return 0;
}

/* ---- generations ---- */

struct place {		     /* a copy of a generation */
	uint64_t start, end; /* end: the next one's start, or UINT64_MAX */
	size_t size;
	uint8_t *mem;
};

static void place_of(const struct sr_shm_plan *plan,
		     const struct sr_shm_ring *r, uint64_t k, struct place *p)
{
	uint32_t n = atomic_load_explicit(&r->gens, memory_order_acquire), i;
	uint32_t area = 0;

	p->start = 0;
	p->end = UINT64_MAX;
	for (i = 1; i <= SR_SHM_GENS && i <= n; i++) {
		const struct sr_shm_gen *g = &r->gen[(n - i) % SR_SHM_GENS];

		p->start =
			atomic_load_explicit(&g->start, memory_order_relaxed);
		area = atomic_load_explicit(&g->area, memory_order_relaxed);
		if (p->start <= k)
			break;
		p->end = p->start;
	}
	p->size = plan->size[area];
	p->mem = r->mem + plan->at[area];
}

static void gen_add(struct sr_shm_ring *r, uint64_t start, uint32_t area)
{
	uint32_t n = atomic_load_explicit(&r->gens, memory_order_relaxed);
	struct sr_shm_gen *g = &r->gen[n % SR_SHM_GENS];

	atomic_store_explicit(&g->start, start, memory_order_relaxed);
	atomic_store_explicit(&g->area, area, memory_order_relaxed);
	atomic_store_explicit(&r->gens, n + 1, memory_order_release);
}

static struct sr_shm_gen *gen_last(struct sr_shm_ring *r)
{
	uint32_t n = atomic_load_explicit(&r->gens, memory_order_acquire);

	return &r->gen[(n - 1) % SR_SHM_GENS];
}

size_t sr_shm_span(const struct sr_shm_plan *plan, const struct sr_shm_ring *r,
		   uint64_t from, uint64_t to, struct iovec v[2])
{
	uint64_t k = from;
	int i;

	v[0] = v[1] = (struct iovec){0};
	for (i = 0; i < 2 && k < to; i++) {
		struct place p;
		uint64_t pos, n;

		place_of(plan, r, k, &p);
		pos = (k - p.start) & (p.size - 1);
		n = p.size - pos;
		if (n > p.end - k)
			n = p.end - k;
		if (n > to - k)
			n = to - k;
		v[i] = (struct iovec){p.mem + pos, n};
		k += n;
	}
	return k - from;
}

/* ---- sending ---- */

/* Bytes of the current generation that the peer's program has not taken yet. */
static uint64_t outstanding(struct sr_shm *l, uint64_t start)
{
	uint64_t w = atomic_load_explicit(&l->link.tx_w, memory_order_relaxed);
	uint64_t acked =
		atomic_load_explicit(&l->link.tx_acked, memory_order_acquire);

	return w - (acked > start ? acked : start);
}

/* Starts a new generation at tx_w.  tx_lock held. */
static void turn(struct sr_shm *l, uint32_t area)
{
	uint32_t n = atomic_load_explicit(&l->tx.gens, memory_order_relaxed);
	uint64_t w = atomic_load_explicit(&l->link.tx_w, memory_order_relaxed);
	struct sr_shm_gen *g = &l->own->gen[n % SR_SHM_GENS];

	gen_add(&l->tx, w, area);
	atomic_store_explicit(&g->start, w, memory_order_relaxed);
	atomic_store_explicit(&g->area, area, memory_order_relaxed);
	atomic_store_explicit(&l->own->gens, n + 1, memory_order_release);
}

static bool grow(struct sr_shm *l)
{
	struct sr_shm_gen *g = gen_last(&l->tx);
	uint32_t area = g->area + 1;

	if (area >= l->plan.areas || !sr_memory_take(l->plan.size[area]))
		return false;
	atomic_fetch_add(&l->taken_memory, l->plan.size[area]);
	turn(l, area);
	return true;
}

static void refresh_credit(struct sr_shm *l)
{
	bool grew = false;

	sr_lock(&l->look_lock);
	sr_shm_credit(l, &grew); /* the next look finds a violation again */
	sr_unlock(&l->look_lock);
}

size_t sr_shm_room(struct sr_shm *l, struct iovec v[2])
{
	struct sr_shm_gen *g = gen_last(&l->tx);
	size_t size = l->plan.size[g->area], room;
	uint64_t w, out = outstanding(l, g->start);

	if (out > size / 2) {
		refresh_credit(l);
		out = outstanding(l, g->start);
	}
	/* Offers a quarter of the ring at least, or nothing. */
	if (out > size - size / 4) {
		if (!grow(l)) {
			v[0] = v[1] = (struct iovec){0};
			l->link.tx_piece = (struct sr_piece){0};
			return 0;
		}
		g = gen_last(&l->tx);
		size = l->plan.size[g->area];
		out = 0;
	}
	w = atomic_load_explicit(&l->link.tx_w, memory_order_relaxed);
	room = sr_shm_span(&l->plan, &l->tx, w, w + size - out, v);
	l->link.tx_piece = (struct sr_piece){v[0].iov_base, v[0].iov_len};
	return room;
}

/* ---- receiving ---- */

/* All bytes known to have come; rx_h lags behind while rx_look() is used. */
static uint64_t known(struct sr_shm *l)
{
	uint64_t h = atomic_load_explicit(&l->link.rx_h, memory_order_acquire);

	return h > l->rx_seen ? h : l->rx_seen;
}

static size_t rx_size(struct sr_shm *l)
{
	return l->plan.size[gen_last(&l->rx)->area];
}

/* The fast path's look, under no lock but the reader's own.  Checks values that
 * a lying peer could have written, as sr_shm_absorb() does, and leaves to it
 * everything but bytes of the newest generation. */
ssize_t sr_shm_rx_look(struct sr_link *link, struct sr_piece *piece)
{
	struct sr_shm *l = (struct sr_shm *)link;
	struct sr_shm_page *p = l->peer;
	/* The generations are read after tx_w, see the top of this file. */
	uint64_t w = atomic_load_explicit(&p->tx_w, memory_order_acquire);
	uint64_t taken =
		atomic_load_explicit(&link->rx_taken, memory_order_relaxed);
	struct sr_shm_gen *g;
	size_t size, pos;

	if ((atomic_load_explicit(&p->ctl, memory_order_relaxed) &
	     ~atomic_load_explicit(&l->ctl_seen, memory_order_relaxed)) ||
	    atomic_load_explicit(&p->dropped, memory_order_relaxed) ||
	    atomic_load_explicit(&p->gens, memory_order_relaxed) !=
		    atomic_load_explicit(&l->rx.gens, memory_order_acquire))
		return -1;
	if (w == taken)
		return 0;
	g = gen_last(&l->rx);
	size = l->plan.size[g->area];
	if (w < taken || w > INT64_MAX || g->start > taken || w - taken > size)
		return -1;
	l->rx_seen = w;
	pos = (taken - g->start) & (size - 1);
	piece->at = l->rx.mem + l->plan.at[g->area] + pos;
	piece->left = w - taken < size - pos ? w - taken : size - pos;
	return (ssize_t)(w - taken);
}

/*
 * The program has taken all below `taken`.  Returns credit to the sender when
 * it is time: while bytes are left to take, up to an eighth of the ring may be
 * kept back.  Its sender is short of so much room, but would not be offered
 * such a small piece anyway.
 *
 * Returns true if a sender may be asleep for want of this credit.  To find out
 * takes a full fence (see arm()), which a reader of small messages is spared: A
 * sender sleeps with more than three quarters of the ring outstanding, counted
 * from the credit that it knows.  That credit is not less than rx_checked:
 * either the sender slept before the fence at rx_checked, and was woken, or it
 * has seen that credit.  So either more than three quarters of the ring lie
 * between rx_checked and what has come, or the reader has yet to reach an
 * eighth of the ring, where it looks in any case.
 */
bool sr_shm_return_credit(struct sr_shm *l, uint64_t taken)
{
	size_t size = rx_size(l);
	uint64_t h = known(l);

	if (h > taken && taken - l->rx_returned < size / 8)
		return false;
	l->rx_returned = taken;
	atomic_store_explicit(&l->own->rx_taken, taken, memory_order_release);
	if (taken - l->rx_checked < size / 8 && h - l->rx_checked <= size - size / 4)
		return false;
	l->rx_checked = taken;
	return true;
}

/* Would the sender be offered room now?  It needs more free space than this in
 * the newest generation that it has.  If that generation is newer than ours,
 * none of its bytes has come, and the sender is not out of room.  So whenever
 * the sender has room again, this returns true as well. */
bool sr_shm_decent(struct sr_shm *l, uint64_t taken)
{
	uint64_t h = known(l);
	struct sr_shm_gen *g = gen_last(&l->rx);
	size_t size = l->plan.size[g->area];
	uint64_t start = g->start;

	return h <= taken ||
	       h - (taken > start ? taken : start) <= size - size / 4;
}

/* At most the size of a generation may be outstanding in it. */
static bool fits(const struct sr_shm_plan *plan, uint64_t taken, uint64_t start,
		 uint32_t area, uint64_t end)
{
	uint64_t low = taken > start ? taken : start;

	return end <= low || end - low <= plan->size[area];
}

static const char *take_gens(struct sr_shm *l, uint64_t h, uint64_t taken)
{
	uint32_t n = atomic_load_explicit(&l->peer->gens, memory_order_acquire);
	uint32_t have = atomic_load_explicit(&l->rx.gens, memory_order_relaxed);

	if (n - have > SR_SHM_AREAS + 1)
		return "protocol";
	for (; have != n; have++) {
		struct sr_shm_gen *in = &l->peer->gen[have % SR_SHM_GENS];
		struct sr_shm_gen *last = gen_last(&l->rx);
		uint64_t start =
			atomic_load_explicit(&in->start, memory_order_relaxed);
		uint32_t area =
			atomic_load_explicit(&in->area, memory_order_relaxed);

		if (area >= l->plan.areas || start < h || start < last->start ||
		    start > INT64_MAX)
			return "protocol";
		/* A generation that does not grow is legal only when the ring
		 * is empty. */
		if (area <= last->area && start != taken)
			return "protocol";
		if (!fits(&l->plan, taken, last->start, last->area, start))
			return "protocol";
		gen_add(&l->rx, start, area);
	}
	return NULL;
}

/* last: the peer has ended, so bytes that it held back count, too. */
const char *sr_shm_absorb(struct sr_shm *l, bool last, bool *grew)
{
	struct sr_link *k = &l->link;
	uint64_t w = atomic_load_explicit(&l->peer->tx_w, memory_order_acquire);
	uint64_t kept = atomic_load_explicit(&l->peer->tx_kept, memory_order_acquire);
	uint64_t h = atomic_load_explicit(&k->rx_h, memory_order_relaxed);
	/* The sender used an older value of this, which was smaller. */
	uint64_t taken =
		atomic_load_explicit(&k->rx_taken, memory_order_acquire);
	const char *bad;
	uint32_t i, n;

	if (last && kept > w)
		w = kept;
	if (w == h)
		return NULL;
	if (w < h || w > INT64_MAX)
		return "protocol";
	bad = take_gens(l, h, taken);
	if (bad)
		return bad;
	n = atomic_load_explicit(&l->rx.gens, memory_order_relaxed);
	for (i = 1; i <= SR_SHM_GENS && i <= n; i++) {
		struct sr_shm_gen *g = &l->rx.gen[(n - i) % SR_SHM_GENS];

		if (g->start >= w)
			continue;
		if (!fits(&l->plan, taken, g->start, g->area, w))
			return "protocol";
		break;
	}
	atomic_store_explicit(&k->rx_h, w, memory_order_release);
	*grew = true;
	return NULL;
}

const char *sr_shm_credit(struct sr_shm *l, bool *grew)
{
	struct sr_link *k = &l->link;
	uint64_t a, have, w;

	if (!(sr_link_events(k) & SR_LINK_ACKSW))
		return NULL;
	a = atomic_load_explicit(&l->peer->rx_taken, memory_order_acquire);
	have = atomic_load_explicit(&k->tx_acked, memory_order_relaxed);
	/* Loaded after a: we see at least the tx_w that the peer has seen. */
	w = atomic_load_explicit(&k->tx_w, memory_order_acquire);
	if (a == have)
		return NULL;
	if (a < have || a > w)
		return "protocol";
	atomic_store_explicit(&k->tx_acked, a, memory_order_release);
	*grew = true;
	return NULL;
}

/* ---- the sweep: idle rings return their memory ---- */

static struct sr_shm *links;
static struct sr_timer sweep_timer;

void sr_shm_sweep(struct sr_link *link)
{
	struct sr_shm *l = (struct sr_shm *)link;
	uint64_t w = atomic_load(&link->tx_w);
	size_t give;

	if (!atomic_load(&l->dirty) || atomic_load(&l->dead) || w != l->swept_w)
		return;
	refresh_credit(l);
	if (atomic_load(&link->tx_acked) != w)
		return;
	madvise(l->tx.mem, l->plan.ring, MADV_REMOVE);
	if (gen_last(&l->tx)->area != 0) {
		turn(l, 0);
		give = atomic_load(&l->taken_memory) -
		       (2 * l->plan.page + l->plan.size[0]);
		atomic_fetch_sub(&l->taken_memory, give);
		sr_memory_give(give);
	}
	link->tx_piece = (struct sr_piece){0};
	atomic_store(&l->dirty, false);
}

static void sweep_all(struct sr_timer *t)
{
	struct sr_shm *l;
	bool again = false;

	for (l = links; l; l = l->next) {
		uint64_t w = atomic_load(&l->link.tx_w);

		if (!atomic_load(&l->dirty) || atomic_load(&l->dead))
			continue;
		again = true;
		if (w == l->swept_w)
			l->link.notify(&l->link, SR_NOTIFY_WORK);
		l->swept_w = w;
	}
	if (again)
		sr_timer_set(t, SWEEP_MS);
}

static void sweep_soon(struct sr_task *task)
{
	(void)task;
	if (!sweep_timer.at_ns)
		sr_timer_set(&sweep_timer, SWEEP_MS);
}

static struct sr_timer sweep_timer = {.fn = sweep_all};
static struct sr_task sweep_task = {.fn = sweep_soon};

void sr_shm_dirty(struct sr_shm *l)
{
	if (!atomic_load_explicit(&l->dirty, memory_order_relaxed)) {
		atomic_store(&l->dirty, true);
		sr_loop_post(&sweep_task);
	}
}

void sr_shm_enlist(struct sr_shm *l, bool linked)
{
	if (linked) {
		l->prev = NULL;
		l->next = links;
		if (links)
			links->prev = l;
		links = l;
		return;
	}
	if (l->prev)
		l->prev->next = l->next;
	else if (links == l)
		links = l->next;
	if (l->next)
		l->next->prev = l->prev;
	l->prev = l->next = NULL;
}

/* In the child of fork: the links are the parent's.  Marks them dead, so that
 * this process touches neither the memory nor the descriptors, whose numbers
 * will be used for other files. */
void sr_shm_ring_forget(void)
{
	struct sr_shm *l, *next;

	for (l = links; l; l = next) {
		next = l->next;
		l->prev = l->next = NULL;
		atomic_store(&l->dead, true);
		l->link.reason = "fork";
		sr_link_raise(&l->link, SR_LINK_DEAD);
		l->doorbell = l->line.fd = -1;
		l->line_watched = false;
	}
	links = NULL;
	sweep_timer.at_ns = 0;
}
