/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shm.c - the link of two processes on one host: messages, bytes and credit, over
 * the memory that shm.h lays out.  It leaves to rendezvous.c how two ends find
 * each other, to ring.c where bytes are in a ring, and to wake.c how an end sleeps.
 * It knows no stream.  Locks: shm.h.
 *
 * Each byte is copied once into the ring and once out of it: tx_room() offers the
 * memory from which the peer's recv() copies.  The ring also retains bytes for a
 * resend, because credit frees only what the peer's program has taken.
 */
#include "base/real.h"

#include "link/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"
#include "base/order.h"

/* ---- arrivals ---- */

/* Reads four words of one cache line, usually cached. */
static bool shm_has_news(struct sr_shm *l, unsigned have)
{
	struct sr_shm_page *p = l->peer;
	struct sr_link *k = &l->link;

	if (sr_load(&p->ctl) & ~sr_load(&l->ctl_seen))
		return true;
	if (sr_load(&p->dropped))
		return true;
	if ((have & SR_LINK_SWITCH) &&
	    sr_load(&p->tx_w) != sr_load(&k->rx_h))
		return true;
	return (have & SR_LINK_ACKSW) &&
	       sr_load(&p->rx_taken) != sr_load(&k->tx_acked);
}

static const char *take_message(struct sr_shm *l, unsigned type)
{
	struct sr_shm_slot *slot = &l->peer->slot[type];
	uint8_t buf[SR_MSG_MAX];
	struct sr_msg msg;
	uint32_t len;

	atomic_fetch_or_explicit(&l->ctl_seen, 1u << type,
				 memory_order_relaxed);
	len = sr_load(&slot->len);
	if (len > sizeof(buf))
		return "protocol";
	memcpy(buf, slot->msg, len);
	if (sr_msg_decode(&msg, buf, len) || msg.type != type)
		return "protocol";
	if (type == SR_MSG_SWITCH) {
		/* Before the bit is raised, as our ACKSW must not come before
		 * this store.  It pairs with the peer's sr_shm_credit(). */
		sr_publish(&l->own->rx_taken, msg.sw.n);
	}
	return sr_link_take(&l->link, &msg) ? "protocol" : NULL;
}

/* Takes messages in the order of their types, which sr_link_take() accepts. */
static const char *take_messages(struct sr_shm *l, uint32_t bits)
{
	const char *bad = NULL;
	unsigned type;

	if (bits >> SR_SHM_SLOTS || (bits & 1))
		return "protocol";
	for (type = 1; type < SR_SHM_SLOTS && !bad; type++)
		if (bits & (1u << type))
			bad = take_message(l, type);
	return bad;
}

/* The caller holds look_lock.  The order of reading: `dropped' first, so that what the peer
 * wrote before it dropped the link is seen; then SWITCH before the bytes that follow it, and
 * END after the bytes that come before it. */
static const char *look_locked(struct sr_shm *l, bool last, unsigned *what)
{
	const uint32_t end = 1u << SR_MSG_END;
	bool dropped = sr_observe(&l->peer->dropped); /* pairs with say_dropped() */
	uint32_t ctl = sr_observe(&l->peer->ctl) & /* pairs with the peer's shm_send_ctl() */
		~sr_load(&l->ctl_seen);
	bool rx = false, tx = false;
	const char *bad = NULL;

	if (ctl & ~end)
		bad = take_messages(l, ctl & ~end);
	if (!bad && (sr_link_events(&l->link) & SR_LINK_SWITCH))
		bad = sr_shm_absorb(l, last, &rx);
	if (!bad && (ctl & end))
		bad = take_messages(l, end);
	if (!bad)
		bad = sr_shm_credit(l, &tx);
	if (ctl)
		*what |= SR_NOTIFY_CTL;
	if (rx || (ctl & end))
		*what |= SR_NOTIFY_RX;
	if (tx)
		*what |= SR_NOTIFY_TX;
	return bad ? bad : dropped ? "peer-dropped" : NULL;
}

void sr_shm_look(struct sr_link *link)
{
	struct sr_shm *l = sr_shm_of(link);
	unsigned have = sr_link_events(link), what = 0;
	const char *over;

	if (!(have & SR_LINK_UP) || (have & SR_LINK_DEAD) || !shm_has_news(l, have))
		return;
	sr_lock(&l->look_lock);
	over = look_locked(l, false, &what);
	sr_unlock(&l->look_lock);
	if (what)
		link->notify(link, what);
	if (over)
		sr_shm_drop(link, over);
}

/* The shared memory has all that the peer's program has sent, even if that was
 * killed: the peer published tx_w, and tx_kept for bytes held back, before TCP
 * ended.  Returns false if the peer has left bytes of ours unread (credit is
 * missing), because TCP would have reset the stream then. */
static bool rx_last(struct sr_link *link)
{
	struct sr_shm *l = sr_shm_of(link);
	const char *over;
	unsigned what = 0;

	sr_lock(&l->look_lock);
	over = look_locked(l, true, &what);
	sr_unlock(&l->look_lock);
	return sr_reason_find(over) != SR_REASON_PROTOCOL &&
	       (!(sr_link_events(link) & SR_LINK_ACKSW) ||
		sr_load(&link->tx_acked) == sr_load(&link->tx_w));
}

/* ---- messages ---- */

/* Publishes the credit that rx_free() has kept back.  If another thread publishes
 * credit in rx_free() at the same time, its value is newer and stays. */
static void give_rest(struct sr_shm *l)
{
	uint64_t was = sr_load(&l->own->rx_taken);
	uint64_t taken = sr_observe(&l->link.rx_taken); /* pairs with sr_shm_rx_free() */

	if (was < taken)	/* pairs with the peer's sr_shm_credit() */
		sr_replace(&l->own->rx_taken, &was, taken);
}

static int shm_send_ctl(struct sr_link *link, struct sr_msg *msg)
{
	struct sr_shm *l = sr_shm_of(link);
	struct sr_shm_slot *slot = &l->own->slot[msg->type];
	bool lost = false;
	int err;

	msg->ack = sr_observe(&link->rx_taken);	/* pairs with sr_shm_rx_free() */
	sr_lock(&l->ctl_lock);
	err = sr_link_say(link, msg);
	if (!err && sr_observe(&l->by_line)) { /* pairs with go_to_memory() */
		err = sr_shm_line_say(l, msg);
		lost = err;
	} else if (!err) {
		if (msg->type == SR_MSG_SWITCH) {
			l->tx_shown = msg->sw.n;
			/* Pairs with the peer's sr_shm_absorb(). */
			sr_publish(&l->own->tx_w, msg->sw.n);
		}
		if (msg->type == SR_MSG_END)
			give_rest(l);	/* the process may end now */
		sr_store(&slot->len, (uint32_t)sr_msg_encode(msg, slot->msg));
		/* Pairs with the peer's look_locked(). */
		atomic_fetch_or_explicit(&l->own->ctl, 1u << msg->type,
					 memory_order_release);
	}
	sr_unlock(&l->ctl_lock);
	if (!err)
		sr_shm_ring_all(l);
	if (lost)
		sr_shm_drop(link, "peer-dropped");
	return err;
}

/* The first reason stays.  pair leave: shm_leave() and sr_shm_drop(), our callers, look next. */
static void say_dropped(struct sr_shm *l, uint32_t why)
{
	uint32_t none = 0;

	atomic_compare_exchange_strong_explicit(&l->own->dropped, &none, why, memory_order_seq_cst,
						memory_order_relaxed);
	sr_shm_ring_all(l);
}

static bool peer_leaves(struct sr_shm *l)
{
	uint32_t why = sr_look(&l->peer->dropped); /* pair leave: the caller has changed ours */

	return why == SR_SHM_LEAVES || why == SR_SHM_RESENT;
}

/* pair leave: sr_shm_drop() of the other end, which changes its own `dropped' and looks at
 * ours.  A peer that drops the link because it saw us leave does not count on TCP. */
static bool shm_leave(struct sr_link *link, bool resent)
{
	struct sr_shm *l = sr_shm_of(link);
	uint32_t leaves = SR_SHM_LEAVES, peer;

	give_rest(l);
	say_dropped(l, SR_SHM_LEAVES);
	if (resent)	/* pairs with the other end's rx_resent(): TCP has the bytes */
		sr_replace(&l->own->dropped, &leaves, SR_SHM_RESENT);
	peer = sr_look(&l->peer->dropped);
	return !peer || peer == SR_SHM_FOLLOWED;
}

static bool rx_resent(struct sr_link *link)
{
	/* Pairs with the other end's shm_leave(). */
	return sr_observe(&sr_shm_of(link)->peer->dropped) == SR_SHM_RESENT;
}

static void shm_tx_unmarked(struct sr_link *link)
{
	sr_publish(&sr_shm_of(link)->own->unmarked, 1); /* pairs with shm_rx_unmarked() */
}

static bool shm_rx_unmarked(struct sr_link *link)
{
	return sr_observe(&sr_shm_of(link)->peer->unmarked); /* pairs with shm_tx_unmarked() */
}

/* pair over: shm_tx_over() of the other end, which has changed its tx_w; our caller then looks
 * for bytes.  (If neither end saw the other's change, the reset would come at the next
 * tick.) */
static void shm_rx_over(struct sr_link *link)
{
	struct sr_shm *l = sr_shm_of(link);
	uint64_t none = 0, come = sr_load(&l->peer->tx_w);

	atomic_compare_exchange_strong_explicit(&l->own->over, &none, come + 1,
						memory_order_relaxed, memory_order_relaxed);
	sr_fence_look(); /* pair over: shm_tx_over() */
}

/* pair over: shm_rx_over() of the other end; tx_commit() has changed our tx_w. */
static bool shm_tx_over(struct sr_link *link)
{
	struct sr_shm *l = sr_shm_of(link);
	uint64_t over = sr_look(&l->peer->over);

	return over && l->tx_shown >= over;
}

void sr_shm_drop(struct sr_link *link, const char *reason)
{
	struct sr_shm *l = sr_shm_of(link);

	if (!sr_link_set_reason(link, reason))
		return;
	give_rest(l);
	say_dropped(l, peer_leaves(l) ? SR_SHM_FOLLOWED : SR_SHM_DROPPED);
	/* pair leave: shm_leave() of the other end */
	if (peer_leaves(l))
		sr_link_raise(link, SR_LINK_LEFT);
	sr_link_raise(link, SR_LINK_DEAD);
	if (sr_observe(&l->by_line)) /* pairs with go_to_memory() */
		sr_sys_shutdown(l->line.fd, SHUT_RDWR);
	link->notify(link, SR_NOTIFY_CTL | SR_NOTIFY_RX | SR_NOTIFY_TX);
}

/* ---- bytes ---- */

/* With `more`, the bytes are counted in tx_w but not yet published to the peer. */
static void tx_commit(struct sr_link *link, size_t n, bool more)
{
	struct sr_shm *l = sr_shm_of(link);
	uint64_t w = sr_load(&link->tx_w) + n;

	if (n) {
		/* Stored before the peer's copy, as the peer's credit is
		 * checked against it. */
		sr_publish(&link->tx_w, w); /* pairs with sr_shm_credit() */
		sr_link_offer_moves(link, n);
		sr_shm_dirty(l);
		if (more)
			sr_publish(&l->own->tx_kept, w); /* pairs with the peer's sr_shm_absorb() */
	}
	if (more || w == l->tx_shown)
		return;
	l->tx_shown = w;
	/* pair doorbell: arm(), arm_once().  pair over: shm_rx_over().  The release in it pairs with
	 * the other end's sr_shm_rx_look() and sr_shm_absorb(). */
	atomic_exchange_explicit(&l->own->tx_w, w, memory_order_seq_cst);
	sr_shm_ring(l, SR_NOTIFY_RX);
}

static size_t tx_retained(struct sr_link *link, uint64_t from,
			  struct iovec v[2])
{
	struct sr_shm *l = sr_shm_of(link);

	return sr_gens_span(&l->tx.gens, from, sr_load(&link->tx_w), v);
}

/* The peer's memory has all published bytes. */
static uint64_t tx_arrived(struct sr_link *link)
{
	return sr_shm_of(link)->tx_shown;
}

static size_t rx_data(struct sr_link *link, size_t skip, struct iovec v[2])
{
	struct sr_shm *l = sr_shm_of(link);
	uint64_t h = sr_observe(&link->rx_h); /* pairs with sr_shm_absorb() */
	uint64_t taken = sr_load(&link->rx_taken);

	return sr_gens_span(&l->rx.gens, taken + skip, h, v);
}

/* ---- life ---- */

struct sr_shm *sr_shm_new(enum sr_role role, uint32_t link_no, void *owner,
			  void (*notify)(struct sr_link *, unsigned),
			  const struct sr_policy *policy,
			  const struct sr_shm_plan *plan)
{
	size_t bytes = 2 * plan->page + plan->size[0];
	struct sr_link *link;
	struct sr_shm *l;

	if (!sr_memory_take(bytes))
		return NULL;
	link = sr_link_new(&sr_link_shm, sizeof(*l), role, link_no, owner, notify);
	if (!link) {
		sr_memory_give(bytes);
		return NULL;
	}
	l = sr_shm_of(link);
	link->proof = SR_PROOF_NONE;
	l->plan = *plan;
	l->tx_most = policy->ring_max;
	sr_store(&l->taken_memory, bytes);
	l->doorbell = l->line.fd = l->memory = -1;
	sr_mutex_init(&l->look_lock, SR_RANK_LINK_SECOND);
	sr_mutex_init(&l->ctl_lock, SR_RANK_LINK_THIRD);
	sr_mutex_init(&l->arm_lock, SR_RANK_LINK_FIRST);
	return l;
}

int sr_shm_start(struct sr_shm *l, int line)
{
	int err;

	l->line = (struct sr_watch){.fd = line,
				    .fn = sr_load(&l->by_line) ? sr_shm_line_heard :
								 sr_shm_line_readable};
	err = sr_loop_watch(&l->line, EPOLLIN);
	if (!err) {
		sr_link_raise(&l->link, SR_LINK_UP);
		return 0;
	}
	if (l->doorbell != line)
		sr_local_close(line);
	l->line.fd = -1;
	return err;
}

static void shm_free_link(struct sr_link *link)
{
	struct sr_shm *l = sr_shm_of(link);

	sr_timer_cancel(&l->sweep);
	if (l->map) {
		if (!sr_load(&link->reason))
			say_dropped(l, SR_SHM_DROPPED);
		sr_sys_munmap(l->map, l->plan.total);
	}
	sr_memory_give(sr_load(&l->taken_memory));
	if (l->doorbell >= 0 && l->bell_streams)	/* the peer is trusted */
		sr_fd_close(l->doorbell);
	else if (l->doorbell >= 0 && l->doorbell != l->line.fd)
		sr_local_close(l->doorbell);
	if (l->memory >= 0)
		sr_fd_close(l->memory);
	if (l->line.fd >= 0) {
		sr_loop_unwatch(&l->line);
		sr_local_close(l->line.fd);
	}
	free(l);
}

static size_t shm_ring_size(struct sr_link *link, bool tx)
{
	struct sr_shm *l = sr_shm_of(link);

	return sr_gens_ring(tx ? &l->tx.gens : &l->rx.gens)->size;
}

const struct sr_link_ops sr_link_shm = {
	.name = "shm",
	.way = SR_WAY_SHM,
	.identity = sr_shm_identity,
	.ctl = shm_send_ctl,
	.tx_room = sr_shm_tx_room,
	.tx_rest = sr_shm_tx_rest,
	.tx_commit = tx_commit,
	.tx_retained = tx_retained,
	.tx_arrived = tx_arrived,
	.rx_data = rx_data,
	.rx_look = sr_shm_rx_look,
	.rx_free = sr_shm_rx_free,
	.rx_over = shm_rx_over,
	.tx_over = shm_tx_over,
	.rx_last = rx_last,
	.leave = shm_leave,
	.rx_resent = rx_resent,
	.tx_unmarked = shm_tx_unmarked,
	.rx_unmarked = shm_rx_unmarked,
	.poll = sr_shm_look,
	.arm = sr_shm_arm,
	.futex = sr_shm_futex,
	.awake = sr_shm_awake,
	.same_core = sr_shm_same_core,
	.arm_once = sr_shm_arm_once,
	.tx_work = sr_shm_sweep,
	.drop = sr_shm_drop,
	.free = shm_free_link,
	.ring = shm_ring_size,
};
