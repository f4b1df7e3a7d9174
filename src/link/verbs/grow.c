/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_grow.c - rings that grow with use and shrink when idle.
 *
 * The receiver decides.  It registers another ring and offers it: RING{addr,
 * rkey, size, gen}.  The sender makes its own ring fit (what it must retain is
 * copied), and says from which offset on it writes to the new one:
 * RING_USE{offset, gen}, in order with the data.  The receiver's program reads
 * the old ring up to there, then it is freed.
 *
 * Positions do not collide: bytes from offset on lie in a window of at most
 * the new size behind tx_acked, and bytes below offset are not in that ring.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"

enum {
	FACTOR = 4,
	QUICK_NS = 20 * 1000 * 1000,	/* a ring's worth in less, ... */
	ROOMY = 256 << 10,
	QUICK_TURNS = 3,		/* ... so often: a bulk flow */
	IDLE_TICKS = 300,		/* of 100 ms: 30 s */
};

static struct sr_vring *ring_now(struct sr_vlink *l)
{
	return &l->rx[atomic_load(&l->rx_gen) & 1];
}

static struct sr_vring *ring_other(struct sr_vlink *l)
{
	return &l->rx[(atomic_load(&l->rx_gen) + 1) & 1];
}

/* ---- the receiver ---- */

/* The program has taken another ring's worth.  rx. */
void sr_vgrow_turn(struct sr_vlink *l, uint64_t taken)
{
	size_t size = l->rx_window;	/* the ring may just be freed */
	uint64_t now = sr_now_ns();

	if (l->turn_at && now - l->turn_ns < QUICK_NS)
		l->turns++;
	else
		l->turns = 0;
	l->turn_ns = now;
	l->turn_at = taken + size;
	if (l->turns < QUICK_TURNS || size >= sr_conf.policy.ring_max)
		return;
	l->turns = 0;
	if (!atomic_exchange(&l->grow, size * FACTOR))
		sr_vlink_notify(l, SR_NOTIFY_WORK);
}

/*
 * So much is unread.  With a full ring the peer's program sleeps, which with
 * TCP it would not yet: some write a good deal before they read.  At once to
 * ROOMY, as a ring that is read from cannot be replaced again before it is empty.
 * Dispatch, post held.
 */
void sr_vgrow_full(struct sr_vlink *l, uint64_t unread, unsigned *what)
{
	size_t size = ring_now(l)->size;

	if (unread < size - size / 8 || size >= ROOMY ||
	    size >= sr_conf.policy.ring_max)
		return;
	if (!atomic_exchange(&l->grow, ROOMY))
		*what |= SR_NOTIFY_WORK;
}

static void offer(struct sr_vlink *l, size_t size)
{
	struct sr_vring *r = ring_other(l);
	struct sr_msg msg = { .type = SR_MSG_RING };
	const char *reason;

	if (l->offered || r->buf || atomic_load(&l->closed))
		return;
	reason = sr_vring_make(l->dev, r, size,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (reason) {
		sr_debug("verbs: link %x keeps its ring: %s", l->link.link_no,
			 reason);
		return;
	}
	sr_debug("verbs: link %x: receive ring of %zu bytes", l->link.link_no,
		 size);
	msg.ring.addr = (uintptr_t)r->buf;
	msg.ring.rkey = r->mr->rkey;
	msg.ring.size = size;
	msg.ring.gen = atomic_load(&l->rx_gen) + 1;
	sr_lock(&l->post);
	l->offered = true;
	if (sr_vtx_queue(l, &msg))
		sr_vlink_break(l, "protocol");
	sr_vtx_pump(l);
	sr_unlock(&l->post);
}

/* RING_USE.  Dispatch, post held. */
int sr_vgrow_use(struct sr_vlink *l, uint64_t offset, uint32_t gen,
		 unsigned *what)
{
	if (!l->offered || gen != atomic_load(&l->rx_gen) + 1 ||
	    (sr_link_events(&l->link) & (SR_LINK_SWITCH | SR_LINK_END)) !=
		    SR_LINK_SWITCH ||
	    offset != atomic_load(&l->link.rx_h))
		return -EPROTO;
	l->offered = false;
	l->rx_from[gen & 1] = offset;
	l->rx_window = l->rx[gen & 1].size;
	atomic_store(&l->rx_gen, gen);
	if (atomic_load(&l->link.rx_taken) >= offset) {
		atomic_store(&l->retire, gen);
		*what |= SR_NOTIFY_WORK;
	}
	return 0;
}

bool sr_vgrow_may_shrink(struct sr_vlink *l)
{
	return ring_now(l)->size > sr_conf.policy.ring_first && !l->offered &&
	       l->idle_ticks <= IDLE_TICKS;
}

/* A tenth of a second has passed.  loop. */
void sr_vgrow_idle(struct sr_vlink *l)
{
	if (l->idle_ticks == IDLE_TICKS &&
	    ring_now(l)->size > sr_conf.policy.ring_first &&
	    atomic_load(&l->link.rx_h) == atomic_load(&l->link.rx_taken) &&
	    (sr_link_events(&l->link) & (SR_LINK_SWITCH | SR_LINK_END)) ==
		    SR_LINK_SWITCH)
		offer(l, sr_conf.policy.ring_first);
}

/* ---- the sender ---- */

/* RING.  Dispatch, post held. */
int sr_vgrow_offered(struct sr_vlink *l, const struct sr_ring_ref *ring)
{
	if (l->peer_next.size || !l->peer.size ||
	    ring->gen != l->peer.gen + 1 || ring->size < 4096 ||
	    ring->size > 1u << 30)
		return -EPROTO;
	l->peer_next = *ring;
	return 0;
}

bool sr_vgrow_tx_widens(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	bool yes;

	sr_lock(&l->post);
	yes = l->window < ROOMY && !(sr_link_events(link) & SR_LINK_DEAD);
	sr_unlock(&l->post);
	return yes;
}

/* Puts the new rings to use.  tx, so that nobody is filling pieces; post held. */
bool sr_vgrow_swap(struct sr_vlink *l)
{
	uint64_t w = atomic_load(&l->link.tx_w);
	uint64_t at = atomic_load(&l->link.tx_acked);
	struct sr_msg msg = { .type = SR_MSG_RING_USE };
	size_t size = l->tx_next.buf ? l->tx_next.size : l->tx.size;
	struct iovec v[2], to[2];

	if (l->tx_old.buf || (sr_link_events(&l->link) & SR_LINK_DEAD) ||
	    (atomic_load(&l->link.said) & 1u << SR_MSG_END))
		return false;
	/* To shrink, nothing may be under way. */
	if ((size < l->tx.size || l->peer_next.size < l->peer.size) &&
	    (at != w || l->sent != w || l->done != w))
		return false;
	msg.use.offset = w;
	msg.use.gen = l->peer_next.gen;
	if (sr_vtx_queue(l, &msg))
		return false;
	if (l->tx_next.buf) {
		for (; at < w; at += least_of(v[0].iov_len, to[0].iov_len)) {
			sr_vring_pieces(&l->tx, at, w - at, v);
			sr_vring_pieces(&l->tx_next, at, w - at, to);
			memcpy(to[0].iov_base, v[0].iov_base,
			       least_of(v[0].iov_len, to[0].iov_len));
		}
		l->tx_old = l->tx;
		l->tx_old_until = l->sent;
		l->tx = l->tx_next;
		memset(&l->tx_next, 0, sizeof(l->tx_next));
	}
	l->window = least_of(l->tx.size, l->peer_next.size);
	sr_debug("verbs: link %x: window of %zu bytes", l->link.link_no,
		 l->window);
	l->tx_swap = false;
	l->use_queued = true;
	sr_vtx_pump(l);
	return true;
}

/*
 * The peer has offered a ring: ours has to hold as much.  If it cannot, both stay as
 * they are until the next call: the peer returns credit for each quarter of the ring
 * that is in use, and a smaller window would often be used up before.
 */
static void follow(struct sr_vlink *l)
{
	struct sr_vring r = { 0 };
	size_t want;

	sr_lock(&l->post);
	want = l->tx_swap || l->use_queued ? 0 : l->peer_next.size;
	sr_unlock(&l->post);
	if (!want || want > sr_conf.policy.ring_max)
		return;
	/* Only the loop, here, changes tx. */
	if (want != l->tx.size &&
	    sr_vring_make(l->dev, &r, want, IBV_ACCESS_LOCAL_WRITE))
		return;
	sr_lock(&l->post);
	l->tx_next = r;
	l->tx_swap = true;
	sr_unlock(&l->post);
}

static void free_old(struct sr_vlink *l)
{
	struct sr_vring r = { 0 };
	uint32_t gen;

	sr_lock(&l->post);
	if (l->tx_old.buf && l->done >= l->tx_old_until) {
		r = l->tx_old;
		memset(&l->tx_old, 0, sizeof(l->tx_old));
	}
	sr_unlock(&l->post);
	sr_vring_free(&r);
	/* Both the reader and the dispatcher may have said so. */
	gen = atomic_load(&l->retire);
	if (gen == l->retired || gen != atomic_load(&l->rx_gen))
		return;
	l->retired = gen;
	sr_vring_free(ring_other(l));
}

void sr_verbs_work(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	size_t size;

	if (atomic_load(&l->closed) || (sr_link_events(link) & SR_LINK_DEAD))
		return;
	sr_enter();
	free_old(l);
	size = least_of(atomic_exchange(&l->grow, 0), sr_conf.policy.ring_max);
	if (size > ring_now(l)->size)
		offer(l, size);
	follow(l);
	sr_leave();
}

void sr_verbs_tx_work(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	bool wider;

	sr_enter();
	sr_lock(&l->post);
	wider = l->tx_swap && sr_vgrow_swap(l);
	sr_unlock(&l->post);
	if (wider)
		link->tx_piece = (struct sr_piece){ 0 };
	/* Who sleeps for room has been woken by the offer, in vain. */
	if (wider)
		sr_vlink_notify(l, SR_NOTIFY_TX);
	sr_leave();
}
