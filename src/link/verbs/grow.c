/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * grow.c - rings that grow with use and shrink when idle.
 *
 * A link begins with small rings of ordinary memory, which is allocated with the first bytes.
 * Their bytes travel in records, not by RDMA WRITE, so that idle streams pin no memory.
 *
 * The receiver decides when to grow.  It registers another ring and offers it: RING{addr, rkey,
 * size, gen}.  The sender registers a send ring of that size, too.  When no write is in flight, the
 * sender copies the bytes that it must retain, and says from which offset on it writes to the new
 * ring: RING_USE{offset, gen}, in order with the data.  The receiver's old ring is freed when the
 * program has read it up to that offset.  A large ring that has been idle is exchanged for a small
 * one in the same way, and the memory of an ordinary ring that has been idle is freed.
 *
 * Positions in the new receive ring do not collide: it has no bytes below offset, and those from
 * offset on lie in a window behind tx_acked of at most the ring's size.
 *
 * Locks: the carrier's, where said.  Only the loop changes the rings' memory, with two
 * exceptions, both locked: the sender exchanges tx.ring and tx.spare, and any thread with the
 * first bytes for an ordinary ring allocates its memory.  The program reads the receive ring
 * without the lock, but only bytes below rx_h, which is published after the memory is there;
 * and the memory is freed, locked, when the program has taken all bytes up to rx_h.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/order.h"
#include "base/probe.h"

#define ROOMY ((size_t)256 << 10)
#define TURNS 3
#define QUICK_NS 60000000	/* for so many turns */
#define FULL_PART 8		/* full: less than this part of it is free */

static unsigned ring_generation(struct sr_vlink *l)
{
	return sr_observe(&l->rx.gens.n) - 1; /* pairs with sr_gens_add() */
}

/* The ring in use (_now), and the other one. */
static size_t size_now(struct sr_vlink *l)
{
	return sr_gens_ring(&l->rx.gens)->size;
}

static struct sr_vring *ring_other(struct sr_vlink *l)
{
	return &l->rx.ring[(ring_generation(l) + 1) & 1];
}

static struct sr_vring *ring_now(struct sr_vlink *l)
{
	return &l->rx.ring[ring_generation(l) & 1];
}

bool sr_vgrow_valid(const struct sr_ring_ref *ring)
{
	if (!ring->addr && (ring->rkey || ring->size > SR_V_ORDINARY))
		return false;
	return ring->size >= 4096 && ring->size <= 1u << 30;
}

bool sr_vgrow_is_registered(struct sr_vlink *l)
{
	return ring_now(l)->mr;
}

bool sr_vgrow_begin(struct sr_vlink *l)
{
	struct sr_vring *r = ring_now(l);

	if (r->buf)
		return true;
	if (!sr_vring_fill(r))
		return false;
	l->rx.place[ring_generation(l) & 1].mem = r->buf;
	return true;
}

/* Does the peer write to our ring? */
static bool peer_writes_ring(struct sr_vlink *l)
{
	return (sr_link_events(&l->link) & (SR_LINK_SWITCH | SR_LINK_END)) ==
	       SR_LINK_SWITCH;
}

/* ---- the receiver ---- */

/* Asks the loop to offer a ring of that size, if it is larger.  Returns the bits for notify(). */
static unsigned ring_want(struct sr_vlink *l, size_t now, size_t size)
{
	return size > now && sr_vring_may_grow(size) &&
			       !atomic_exchange_explicit(&l->rx.grow, size, memory_order_relaxed) ?
		       SR_NOTIFY_WORK : 0;
}

/* The program has taken TURNS times the ring's worth, as far as rx.turn_at.  If this took
 * less than QUICK_NS, the ring is to grow.  rx. */
void sr_vgrow_turn(struct sr_vlink *l, uint64_t taken)
{
	size_t size = sr_load(&l->rx.window);	/* the ring may just be freed */
	size_t larger = sr_ring_step(size, l->policy->ring_max);
	uint64_t now = sr_now_ns();
	bool quick = l->rx.turn_at && now - l->rx.turn_ns < QUICK_NS;

	l->rx.turn_ns = now;
	l->rx.turn_at = taken + TURNS * size;
	if (quick && ring_want(l, size, larger))
		l->link.notify(&l->link, SR_NOTIFY_WORK);
}

/*
 * While the ring is full the peer's program has to sleep, where TCP would still take its bytes, and
 * some programs write a good deal before they read.  The ring grows to ROOMY in one step, because
 * no further ring can be offered while the old one still holds unread bytes.
 */
void sr_vgrow_full(struct sr_vlink *l, uint64_t unread)
{
	size_t size = size_now(l);

	if (sr_ring_full(size, unread, FULL_PART))
		sr_vlink_hear(l, ring_want(l, size, least_of(ROOMY, l->policy->ring_max)));
}

/* Makes a ring to be the other one.  An ordinary ring gets its memory with its first bytes. */
static const char *make_other(struct sr_vlink *l, struct sr_vring *r, size_t size, int access)
{
	if (size > SR_V_ORDINARY)
		return sr_vring_make(l->c, r, size, access);
	r->size = size;
	return NULL;
}

/* loop */
static void ring_offer(struct sr_vlink *l, size_t size)
{
	struct sr_vring *r = ring_other(l);
	struct sr_msg msg = { .type = SR_MSG_RING };
	const char *reason;

	if (r->size)	/* offered, or still being read */
		return;
	/* Others may have grown since ring_want(); only the loop makes rings. */
	if (size > size_now(l) && !sr_vring_may_grow(size))
		return;
	reason = make_other(l, r, size, SR_V_RX_ACCESS);
	sr_debug("verbs: link %x: receive ring of %zu bytes: %s", l->link.link_no,
		 size, reason ? reason : "offered");
	if (reason)
		return;
	sr_probe(grow, "verbs", size_now(l), size);
	msg.ring = sr_vring_ref(r, ring_generation(l) + 1);
	sr_vcarrier_lock(l->c);
	l->rx.place[msg.ring.gen & 1] = (struct sr_ring){ r->buf, size };
	l->rx.offered = true;
	if (sr_vtx_queue(l, &msg))
		sr_vlink_break(l, "protocol");
	sr_vpost_link(l);
	sr_vcarrier_unlock(l->c);
}

/* RING_USE.  locked. */
int sr_vgrow_use(struct sr_vlink *l, uint64_t offset, uint32_t gen)
{
	if (!l->rx.offered || gen != ring_generation(l) + 1 ||
	    !peer_writes_ring(l) || offset != sr_load(&l->link.rx_h))
		return -EPROTO;
	l->rx.offered = false;
	sr_store(&l->rx.window, l->rx.ring[gen & 1].size);
	sr_gens_add(&l->rx.gens, offset, gen & 1);
	sr_fence_look();	/* pair grown: sr_verbs_rx_free() */
	if (sr_load(&l->link.rx_taken) >= offset)
		sr_vlink_hear(l, SR_NOTIFY_WORK);	/* the old one is empty */
	sr_vlook_link(l, SR_LOOK);	/* the new one may be large, and idle */
	return 0;
}

static bool has_ordinary(const struct sr_vring *r)
{
	return r->buf && !r->mr;
}

/* Is the send ring ordinary, and has the peer's program taken all its bytes?  locked */
static bool send_ring_rests(struct sr_vlink *l)
{
	return has_ordinary(&l->tx.ring) &&
	       sr_load(&l->link.tx_acked) == sr_load(&l->link.tx_w);
}

/* Gives back the memory of an idle receive ring.  The send ring belongs to the sender: for it
 * this only asks for tx_work().  locked */
static void give_back(struct sr_vlink *l)
{
	/* It pairs with sr_verbs_rx_free(): the program reads that memory no more. */
	if (has_ordinary(ring_now(l)) &&
	    sr_load(&l->link.rx_h) == sr_observe(&l->link.rx_taken)) {
		l->rx.place[ring_generation(l) & 1].mem = NULL;
		sr_vring_empty(ring_now(l));
	}
	l->tx.idle = send_ring_rests(l);
	if (l->tx.idle)
		sr_vlink_hear(l, SR_NOTIFY_WORK);
}

bool sr_vgrow_idle(struct sr_vlink *l)
{
	bool large = size_now(l) > l->policy->ring_first && peer_writes_ring(l) &&
		     !ring_other(l)->size && !(sr_link_events(&l->link) & SR_LINK_DEAD);
	bool all_taken = sr_load(&l->link.rx_h) == sr_load(&l->link.rx_taken);
	bool some;

	sr_vcarrier_lock(l->c);
	some = has_ordinary(ring_now(l)) || has_ordinary(&l->tx.ring);
	give_back(l);
	sr_vcarrier_unlock(l->c);
	if (!all_taken)
		return large || some;
	if (large)
		ring_offer(l, l->policy->ring_first);
	return large && !ring_other(l)->size;	/* there is too little memory */
}

/* ---- the sender ---- */

/* RING.  locked. */
int sr_vgrow_offered(struct sr_vlink *l, const struct sr_ring_ref *ring)
{
	if (l->tx.peer_next.size || !l->tx.peer.size ||
	    ring->gen != l->tx.peer.gen + 1 || !sr_vgrow_valid(ring))
		return -EPROTO;
	l->tx.peer_next = *ring;
	return 0;
}

bool sr_vgrow_tx_widens(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	bool yes;

	sr_lock(&l->c->lock);
	yes = l->tx.window < ROOMY && !(sr_link_events(link) & SR_LINK_DEAD);
	sr_unlock(&l->c->lock);
	return yes;
}

static void copy_retained(struct sr_vlink *l)
{
	uint64_t w = sr_load(&l->link.tx_w);
	uint64_t at = sr_load(&l->link.tx_acked);
	struct iovec v[2], to[2];
	size_t n;

	for (; at < w; at += n) {
		sr_vring_pieces(&l->tx.ring, at, w - at, v);
		sr_vring_pieces(&l->tx.spare, at, w - at, to);
		n = least_of(v[0].iov_len, to[0].iov_len);
		memcpy(to[0].iov_base, v[0].iov_base, n);
	}
}

/* Puts the new rings to use, unless something is in flight.  The caller holds the direction's tx
 * lock, so that no thread is filling pieces of the old ring.  locked */
bool sr_vgrow_swap(struct sr_vlink *l)
{
	uint64_t w = sr_load(&l->link.tx_w);
	struct sr_msg msg = { .type = SR_MSG_RING_USE };
	size_t size = l->tx.spare.size ? l->tx.spare.size : l->tx.ring.size;
	struct sr_vring old = l->tx.ring;

	if (!sr_vtx_may_swap(l) || (sr_link_events(&l->link) & SR_LINK_DEAD) ||
	    sr_link_has_said(&l->link, SR_MSG_END))
		return false;
	/* To shrink, nothing may have to be retained. */
	if ((size < old.size || l->tx.peer_next.size < l->tx.peer.size) &&
	    sr_load(&l->link.tx_acked) != w)
		return false;
	if (l->tx.spare.size && sr_load(&l->link.tx_acked) != w && !sr_vring_fill(&l->tx.spare))
		return false;
	msg.use.offset = w;
	msg.use.gen = l->tx.peer_next.gen;
	if (sr_vtx_queue(l, &msg))
		return false;
	if (l->tx.spare.size) {
		copy_retained(l);
		l->tx.ring = l->tx.spare;
		l->tx.spare = old;
	}
	l->tx.peer = l->tx.peer_next;	/* RING_USE goes before all data */
	l->tx.peer_next.size = 0;
	l->tx.window = least_of(l->tx.ring.size, l->tx.peer.size);
	sr_debug("verbs: link %x: window of %zu bytes", l->link.link_no, (size_t)l->tx.window);
	l->tx.swap = false;
	sr_vpost_link(l);
	return true;
}

/*
 * If the peer has offered a ring, makes a send ring of the same size.  If that is not possible,
 * both rings stay as they are until the next call.  A smaller send ring would not do, because the
 * peer returns credit for each quarter of its own ring, and a smaller window would often be used
 * up before that.
 */
static void vgrow_follow(struct sr_vlink *l)
{
	struct sr_vring r = { 0 };
	size_t size;

	sr_lock(&l->c->lock);
	size = l->tx.swap ? 0 : l->tx.peer_next.size;
	sr_unlock(&l->c->lock);
	if (!size || size > l->policy->ring_max ||
	    (size > l->tx.ring.size && !sr_vring_may_grow(size)))
		return;
	if (size != l->tx.ring.size && make_other(l, &r, size, IBV_ACCESS_LOCAL_WRITE))
		return;
	sr_lock(&l->c->lock);
	l->tx.spare = r;
	l->tx.swap = true;
	sr_vpost_queue(l);
	sr_unlock(&l->c->lock);
	sr_vlook_link(l, SR_LOOK_SOON);	/* for the completion of what is in flight */
}

static void free_old(struct sr_vlink *l)
{
	struct sr_vring tx = { 0 }, rx = { 0 }, *other;

	sr_lock(&l->c->lock);
	other = ring_other(l);	/* RING_USE changes it */
	if (!l->tx.swap) {
		tx = l->tx.spare;
		l->tx.spare = (struct sr_vring){ 0 };
	}
	/* It pairs with sr_verbs_rx_free(): the program reads that ring no more. */
	if (!l->rx.offered &&
	    sr_observe(&l->link.rx_taken) >= sr_load(&sr_gens_last(&l->rx.gens)->start)) {
		rx = *other;
		*other = (struct sr_vring){ 0 };
	}
	sr_unlock(&l->c->lock);
	sr_vring_free(&tx);
	sr_vring_free(&rx);
}

void sr_verbs_work(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	size_t size;

	if (!l->c->id || (sr_link_events(link) & SR_LINK_DEAD))
		return;
	free_old(l);
	size = atomic_exchange_explicit(&l->rx.grow, 0, memory_order_relaxed);
	size = least_of(size, l->policy->ring_max);
	if (size > size_now(l))
		ring_offer(l, size);
	vgrow_follow(l);
}

void sr_verbs_tx_work(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	bool wider, empty;

	sr_vcarrier_lock(l->c);
	wider = l->tx.swap && sr_vgrow_swap(l);
	empty = l->tx.idle && send_ring_rests(l);
	if (empty)
		sr_vring_empty(&l->tx.ring);
	l->tx.idle = false;
	sr_vcarrier_unlock(l->c);
	if (wider || empty)
		sr_link_offer_none(link);
	if (wider) {
		/* The offer woke a thread that sleeps for room, but there was none then. */
		l->link.notify(&l->link, SR_NOTIFY_TX | SR_NOTIFY_WORK);
	}
}
