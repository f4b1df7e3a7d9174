/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shm.c - the link of two processes on one host: messages, bytes, credit, and
 * sleeping, over the memory that shm.h lays out.  It leaves to rendezvous.c how
 * two ends find each other, and to ring.c where bytes are in a ring.  It knows
 * no stream.  Locks: shm.h.
 *
 * Each byte is copied once in and once out: tx_room() offers the very memory
 * that the peer's program copies from.  The ring is the retention too, since
 * credit frees only what that program has taken.
 *
 * No wake-up is lost.  A sleeper sets a flag in its own page, and looks again.
 * An end that moves an offset stores it, and then reads the sleeper's flag.
 * Both have a full fence between the store and the load (Dekker), so at least
 * one of them sees what the other stored: the sleeper does not sleep, or the
 * doorbell rings.  The ringing end clears the flag before it writes to the
 * doorbell.  So a flag that is clear while its owner sleeps means that a packet
 * is on its way, or that another thread of the owner has drained it, which then
 * notifies the others (see awake()).
 *
 * The doorbell is a pair of connected sockets, an end for each process: a
 * packet wakes the other end's sleepers, and one descriptor serves both
 * directions.
 *
 * Messages and a drop ring the doorbell if the other end sleeps.  They always
 * wake its service thread, by a packet on the line, which is the connection of
 * the rendezvous.  The line is a descriptor of its own, so that data wake one
 * thread and not the service thread as well (4 us of a sleeping round trip of
 * 10).  The line's end of file says that the peer is gone.
 */
#include "base/real.h"

#include "link/shm/shm.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdpriv.h"
#include "base/log.h"
#include "base/now.h"

static struct sr_shm *shm_of(struct sr_link *link)
{
	return (struct sr_shm *)link;
}

/* ---- doorbells ---- */

/* Puts a packet on the doorbell or the line.  If the socket is full, the
 * packets in it wake the peer just as well. */
static void ping(int fd)
{
	int err = errno;

	if (fd >= 0)
		(void)!sr_now_send(fd, "", 1);
	errno = err;
}

/* More packets than a peer sends that keeps to the protocol: one for each bit
 * of `asleep`, and one for each message. */
#define DRAIN_MAX 64

/* Returns false if the other end is closed. */
static bool drain(int fd)
{
	int err = errno, i = 0;
	ssize_t n;
	bool open;
	char c;

	do {
		n = sr_now_recv(fd, &c, 1, 0);
	} while (n > 0 && ++i < DRAIN_MAX);
	open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
	errno = err;
	return open;
}

/* In `asleep`, besides the SR_NOTIFY_ bits: how the sleeper is to be woken. */
enum { BY_DOORBELL = 1 << 6, BY_FUTEX = 1 << 7 };
#define WANTED (SR_NOTIFY_RX | SR_NOTIFY_TX)
static_assert((WANTED & (BY_DOORBELL | BY_FUTEX)) == 0, "bits of their own");

static void wake_futex(_Atomic uint32_t *word)
{
	int err = errno;

	sr_real.syscall(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0, 0, 0);
	errno = err;
}

/* Says where this thread runs.  Returns what it says. */
static uint32_t tell_core(struct sr_shm *l)
{
	uint32_t core = (uint32_t)sched_getcpu() + 1;

	if (atomic_load_explicit(&l->own->core, memory_order_relaxed) != core)
		atomic_store_explicit(&l->own->core, core, memory_order_relaxed);
	return core;
}

/* An end tells its core when it begins to wait and when it wakes the other one. */
static bool same_core(struct sr_link *link)
{
	struct sr_shm *l = shm_of(link);
	uint32_t own = tell_core(l);

	return own && own == atomic_load_explicit(&l->peer->core,
						  memory_order_relaxed);
}

/* The caller has a full fence between its store and this load. */
static void ring_if_asleep(struct sr_shm *l, unsigned bit)
{
	_Atomic uint32_t *asleep = &l->peer->asleep;
	uint32_t was;

	if (!(atomic_load_explicit(asleep, memory_order_relaxed) & bit))
		return;
	was = atomic_fetch_and(asleep, ~bit);
	if (!(was & bit))
		return;
	tell_core(l);
	if (was & BY_FUTEX)
		wake_futex(asleep);
	if (was & BY_DOORBELL)
		ping(l->doorbell);
}

static void ring_all(struct sr_shm *l)
{
	atomic_thread_fence(memory_order_seq_cst); /* pairs with arm()'s */
	ring_if_asleep(l, WANTED);
	ping(l->line.fd);
}

/* ---- arrivals ---- */

/* Reads four words of one cache line, usually cached. */
static bool news(struct sr_shm *l, unsigned have)
{
	struct sr_shm_page *p = l->peer;
	struct sr_link *k = &l->link;

	if (atomic_load_explicit(&p->ctl, memory_order_relaxed) &
	    ~atomic_load_explicit(&l->ctl_seen, memory_order_relaxed))
		return true;
	if (atomic_load_explicit(&p->dropped, memory_order_relaxed))
		return true;
	if ((have & SR_LINK_SWITCH) &&
	    atomic_load_explicit(&p->tx_w, memory_order_relaxed) !=
		    atomic_load_explicit(&k->rx_h, memory_order_relaxed))
		return true;
	return (have & SR_LINK_ACKSW) &&
	       atomic_load_explicit(&p->rx_taken, memory_order_relaxed) !=
		       atomic_load_explicit(&k->tx_acked, memory_order_relaxed);
}

static const char *take_message(struct sr_shm *l, unsigned type)
{
	struct sr_shm_slot *slot = &l->peer->slot[type];
	uint8_t buf[SR_MSG_MAX];
	struct sr_msg msg;
	uint32_t len;

	atomic_fetch_or_explicit(&l->ctl_seen, 1u << type,
				 memory_order_relaxed);
	len = atomic_load_explicit(&slot->len, memory_order_relaxed);
	if (len > sizeof(buf))
		return "protocol";
	memcpy(buf, slot->msg, len);
	if (sr_msg_decode(&msg, buf, len) || msg.type != type)
		return "protocol";
	if (type == SR_MSG_SWITCH) {
		if (msg.sw.n > INT64_MAX)
			return "protocol";
		/* Before the bit is raised, as our ACKSW must not come before
		 * this store. */
		atomic_store_explicit(&l->own->rx_taken, msg.sw.n,
				      memory_order_release);
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

/* Holds look_lock.  Reads the drop first, so that everything before it is seen;
 * END after the bytes before it; bytes after the SWITCH before them. */
static const char *look_locked(struct sr_shm *l, bool last, unsigned *what)
{
	const uint32_t end = 1u << SR_MSG_END;
	bool dropped =
		atomic_load_explicit(&l->peer->dropped, memory_order_acquire);
	uint32_t ctl =
		atomic_load_explicit(&l->peer->ctl, memory_order_acquire) &
		~atomic_load_explicit(&l->ctl_seen, memory_order_relaxed);
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

void sr_shm_look(struct sr_shm *l)
{
	unsigned have = sr_link_events(&l->link), what = 0;
	const char *over;

	if (!(have & SR_LINK_UP) || (have & SR_LINK_DEAD) || !news(l, have))
		return;
	sr_lock(&l->look_lock);
	over = look_locked(l, false, &what);
	sr_unlock(&l->look_lock);
	if (what)
		l->link.notify(&l->link, what);
	if (over)
		sr_shm_drop(&l->link, over);
}

/* The memory holds all that the peer's program has sent, even if that was
 * killed: the peer published it before TCP ended, including what it held back.
 * But if the peer left bytes of ours unread (then credit is missing), TCP would
 * have reset the stream. */
static bool rx_last(struct sr_link *link)
{
	struct sr_shm *l = shm_of(link);
	const char *over;
	unsigned what = 0;

	sr_lock(&l->look_lock);
	over = look_locked(l, true, &what);
	sr_unlock(&l->look_lock);
	return (!over || strcmp(over, "protocol") != 0) &&
	       (!(sr_link_events(link) & SR_LINK_ACKSW) ||
		atomic_load(&link->tx_acked) == atomic_load(&link->tx_w));
}

/* The other end of the line or doorbell is closed.  The peer has dropped the
 * link, and recorded that before, or it was killed. */
static void line_lost(struct sr_shm *l)
{
	sr_shm_look(l);
	if (!atomic_load(&l->peer->dropped))
		sr_link_raise(&l->link, SR_LINK_LOST);
	sr_shm_drop(&l->link, "peer-dropped");
}

static void poll_shm(struct sr_link *link)
{
	sr_shm_look(shm_of(link));
}

/* ---- messages ---- */

/* Publishes the credit that rx_free() keeps back.  Another thread may be
 * publishing credit in rx_free() now: its value is newer, and must stay. */
static void give_rest(struct sr_shm *l)
{
	uint64_t was = atomic_load(&l->own->rx_taken);
	uint64_t taken = atomic_load(&l->link.rx_taken);

	if (was < taken)
		atomic_compare_exchange_strong(&l->own->rx_taken, &was, taken);
}

static int ctl(struct sr_link *link, struct sr_msg *msg)
{
	struct sr_shm *l = shm_of(link);
	struct sr_shm_slot *slot = &l->own->slot[msg->type];
	int err;

	msg->ack = atomic_load(&link->rx_taken);
	msg->slots = 0;
	if (msg->type == SR_MSG_PROBE) { /* the peer reads credit in the page */
		if (sr_link_events(link) & SR_LINK_DEAD)
			return -EPIPE;
		ping(l->doorbell);
		ping(l->line.fd);
		return 0;
	}
	sr_lock(&l->ctl_lock);
	err = sr_link_say(link, msg);
	if (!err) {
		if (msg->type == SR_MSG_SWITCH) {
			l->tx_shown = msg->sw.n;
			atomic_store_explicit(&l->own->tx_w, msg->sw.n,
					      memory_order_release);
		}
		if (msg->type == SR_MSG_END)
			give_rest(l);	/* the process may end now */
		atomic_store_explicit(&slot->len,
				      (uint32_t)sr_msg_encode(msg, slot->msg),
				      memory_order_relaxed);
		atomic_fetch_or_explicit(&l->own->ctl, 1u << msg->type,
					 memory_order_release);
	}
	sr_unlock(&l->ctl_lock);
	if (!err)
		ring_all(l);
	return err;
}

/* The first reason stays. */
static void say_dropped(struct sr_shm *l, uint32_t why)
{
	uint32_t none = 0;

	atomic_compare_exchange_strong(&l->own->dropped, &none, why);
	ring_all(l);
}

static bool peer_leaves(struct sr_shm *l)
{
	uint32_t why = atomic_load(&l->peer->dropped);

	return why == SR_SHM_LEAVES || why == SR_SHM_RESENT;
}

/* A Dekker pair with the drop of the other end: at least one end sees the other.
 * A peer that drops the link because it saw us leave does not count on TCP. */
static bool leave(struct sr_link *link, bool resent)
{
	struct sr_shm *l = shm_of(link);
	uint32_t leaves = SR_SHM_LEAVES, peer;

	give_rest(l);
	say_dropped(l, SR_SHM_LEAVES);
	if (resent)
		atomic_compare_exchange_strong(&l->own->dropped, &leaves,
					       SR_SHM_RESENT);
	peer = atomic_load(&l->peer->dropped);
	return !peer || peer == SR_SHM_FOLLOWED;
}

static bool rx_resent(struct sr_link *link)
{
	return atomic_load(&shm_of(link)->peer->dropped) == SR_SHM_RESENT;
}

void sr_shm_drop(struct sr_link *link, const char *reason)
{
	struct sr_shm *l = shm_of(link);

	if (atomic_exchange(&l->dead, true))
		return;
	link->reason = reason;
	give_rest(l);
	say_dropped(l, peer_leaves(l) ? SR_SHM_FOLLOWED : SR_SHM_DROPPED);
	if (peer_leaves(l))
		sr_link_raise(link, SR_LINK_LEFT);
	sr_link_raise(link, SR_LINK_DEAD);
	link->notify(link, SR_NOTIFY_CTL | SR_NOTIFY_RX | SR_NOTIFY_TX);
}

/* ---- bytes ---- */

static size_t tx_room(struct sr_link *link, struct iovec v[2])
{
	if (sr_link_events(link) & SR_LINK_DEAD) {
		v[0] = v[1] = (struct iovec){0};
		return 0;
	}
	return sr_shm_room(shm_of(link), v);
}

/* With `more`, the bytes are counted in tx_w but not yet published to the peer. */
static void tx_commit(struct sr_link *link, size_t n, bool more)
{
	struct sr_shm *l = shm_of(link);
	struct sr_piece *room = &link->tx_piece;
	uint64_t w = atomic_load_explicit(&link->tx_w, memory_order_relaxed) + n;

	if (n) {
		/* Stored before the peer's copy, as the peer's credit is
		 * checked against it. */
		atomic_store_explicit(&link->tx_w, w, memory_order_release);
		if (n < room->left)
			*room = (struct sr_piece){room->at + n, room->left - n};
		else
			*room = (struct sr_piece){0};
		sr_shm_dirty(l);
		if (more)
			atomic_store_explicit(&l->own->tx_kept, w,
					      memory_order_release);
	}
	if (more || w == l->tx_shown)
		return;
	l->tx_shown = w;
	atomic_exchange(&l->own->tx_w, w); /* also a full fence, which pairs with
					    * arm()'s */
	ring_if_asleep(l, SR_NOTIFY_RX);
}

static size_t tx_retained(struct sr_link *link, uint64_t from,
			  struct iovec v[2])
{
	struct sr_shm *l = shm_of(link);

	return sr_gens_span(&l->tx.gens, from, atomic_load(&link->tx_w), v);
}

/* The peer's memory has all published bytes. */
static uint64_t tx_arrived(struct sr_link *link)
{
	return shm_of(link)->tx_shown;
}

static size_t rx_data(struct sr_link *link, size_t skip, struct iovec v[2])
{
	struct sr_shm *l = shm_of(link);
	uint64_t h = atomic_load_explicit(&link->rx_h, memory_order_acquire);
	uint64_t taken =
		atomic_load_explicit(&link->rx_taken, memory_order_relaxed);

	return sr_gens_span(&l->rx.gens, taken + skip, h, v);
}

static void rx_free(struct sr_link *link, size_t n)
{
	struct sr_shm *l = shm_of(link);
	uint64_t taken =
		atomic_load_explicit(&link->rx_taken, memory_order_relaxed) + n;

	/* Stored before the peer's copy, as in tx_commit(). */
	atomic_store_explicit(&link->rx_taken, taken, memory_order_release);
	if (!sr_shm_return_credit(l, taken))
		return;
	atomic_thread_fence(memory_order_seq_cst); /* pairs with arm()'s */
	if (sr_shm_decent(l, taken))
		ring_if_asleep(l, SR_NOTIFY_TX);
}

/* ---- sleeping ---- */

static int arm(struct sr_link *link, unsigned want)
{
	struct sr_shm *l = shm_of(link);

	tell_core(l);
	sr_lock(&l->arm_lock);
	l->armed_rx += (want & SR_NOTIFY_RX) != 0;
	l->armed_tx += (want & SR_NOTIFY_TX) != 0;
	atomic_fetch_or(&l->own->asleep, (want & WANTED) | BY_DOORBELL);
	sr_unlock(&l->arm_lock);
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the ringing end's */
	return l->doorbell;
}

/* A wake-up that has come is noticed by its cleared flag.  Then the doorbell is
 * drained, since a full one would make no edge, and other waiters for whom
 * these packets were meant are notified. */
static int stand(struct sr_link *link, unsigned want)
{
	struct sr_shm *l = shm_of(link);
	unsigned others = 0, flags;
	bool open = true;

	want &= WANTED;
	if (!want)
		return l->doorbell;
	tell_core(l);
	sr_lock(&l->arm_lock);
	flags = atomic_load(&l->own->asleep);
	if (l->standing & ~flags) {
		open = drain(l->doorbell);
		others |= l->armed_rx ? SR_NOTIFY_RX : 0;
		others |= l->armed_tx ? SR_NOTIFY_TX : 0;
		flags = atomic_load(&l->own->asleep);
	}
	l->standing |= want;
	atomic_fetch_or(&l->own->asleep, want | BY_DOORBELL);
	sr_unlock(&l->arm_lock);
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the ringing end's */
	if (others & ~flags)
		link->notify(link, others & ~flags);
	if (!open)
		line_lost(l);
	return l->doorbell;
}

/* The peer first clears a wanted bit, which changes the word, and then wakes
 * sleepers if BY_FUTEX is set.  So a thread that waits on the word with the bit
 * still set either does not fall asleep, or is woken.  The caller must check
 * for a bit that was cleared before. */
static _Atomic uint32_t *futex(struct sr_link *link, unsigned want)
{
	struct sr_shm *l = shm_of(link);

	(void)want;
	sr_lock(&l->arm_lock);
	atomic_fetch_or(&l->own->asleep, BY_FUTEX);
	/* nobody but the caller waits */
	if (l->armed_rx + l->armed_tx == 1 && !l->standing)
		atomic_fetch_and(&l->own->asleep, ~BY_DOORBELL);
	sr_unlock(&l->arm_lock);
	return &l->own->asleep;
}

/* All armed threads sleep on one doorbell, and the first one awake drains it.
 * If a flag is clear that another thread waits for, the packet was meant for
 * that thread as well, and it is notified.  A set armed by stand() is notified
 * once. */
static void awake(struct sr_link *link, unsigned want, bool slept)
{
	struct sr_shm *l = shm_of(link);
	unsigned others = 0, flags;

	if (slept && !drain(l->doorbell))
		line_lost(l);
	sr_lock(&l->arm_lock);
	l->armed_rx -= (want & SR_NOTIFY_RX) != 0;
	l->armed_tx -= (want & SR_NOTIFY_TX) != 0;
	others |= l->armed_rx ? SR_NOTIFY_RX : 0;
	others |= l->armed_tx ? SR_NOTIFY_TX : 0;
	others |= l->standing;
	flags = atomic_fetch_and(&l->own->asleep,
				 others ? others | ~(uint32_t)WANTED : 0);
	l->standing &= flags;
	sr_unlock(&l->arm_lock);
	if (others & ~flags)
		link->notify(link, others & ~flags);
	sr_shm_look(l);
}

static void line_readable(struct sr_watch *w, uint32_t events)
{
	struct sr_shm *l =
		(struct sr_shm *)((char *)w - offsetof(struct sr_shm, line));
	bool open = drain(w->fd);

	(void)events;
	if (open) {
		sr_shm_look(l);
		return;
	}
	sr_loop_unwatch(w); /* the fd is closed later, when nobody can write to it */
	l->line_watched = false;
	line_lost(l);
}

/* ---- life ---- */

static void raise_up(struct sr_task *task)
{
	struct sr_shm *l =
		(struct sr_shm *)((char *)task - offsetof(struct sr_shm, up));

	if (!atomic_load(&l->dead)) {
		sr_link_raise(&l->link, SR_LINK_UP);
		l->link.notify(&l->link, SR_NOTIFY_CTL);
		sr_shm_look(l);
	}
	sr_link_put(&l->link); /* the reference of sr_shm_accept() */
}

struct sr_shm *sr_shm_new(enum sr_role role, uint32_t link_no, void *owner,
			  void (*notify)(struct sr_link *, unsigned))
{
	struct sr_link *link = sr_link_new(&sr_link_shm, sizeof(struct sr_shm),
					   role, link_no, owner, notify);
	struct sr_shm *l = shm_of(link);

	if (!link)
		return NULL;
	l->doorbell = l->line.fd = -1;
	l->up.fn = raise_up;
	pthread_mutex_init(&l->look_lock, NULL);
	pthread_mutex_init(&l->ctl_lock, NULL);
	pthread_mutex_init(&l->arm_lock, NULL);
	return l;
}

int sr_shm_map(struct sr_shm *l, int memfd, const struct sr_shm_plan *plan)
{
	bool asker = l->link.role == SR_ROLE_ASKER;
	size_t bytes = 2 * plan->page + plan->size[0];
	uint8_t *rings;
	void *map;

	if (!sr_memory_take(bytes))
		return -ENOBUFS;
	map = mmap(NULL, plan->total, PROT_READ | PROT_WRITE, MAP_SHARED, memfd,
		   0);
	if (map == MAP_FAILED) {
		sr_memory_give(bytes);
		return -errno;
	}
	madvise(map, plan->total, MADV_DONTFORK);
	l->plan = *plan;
	l->map = map;
	atomic_store(&l->taken_memory, bytes);
	l->own = (void *)(l->map + (asker ? 0 : plan->page));
	l->peer = (void *)(l->map + (asker ? plan->page : 0));
	rings = l->map + 2 * plan->page;
	sr_shm_ring_init(&l->tx, plan, rings + (asker ? 0 : plan->ring));
	sr_shm_ring_init(&l->rx, plan, rings + (asker ? plan->ring : 0));
	atomic_store(&l->own->gens, 1);
	return 0;
}

int sr_shm_start(struct sr_shm *l, int line)
{
	int err;

	l->line = (struct sr_watch){.fd = line, .fn = line_readable};
	err = sr_loop_watch(&l->line, EPOLLIN);
	if (err) {
		sr_fd_close(line);
		l->line.fd = -1;
		return err;
	}
	l->line_watched = true;
	sr_shm_enlist(l, true);
	return 0;
}

static void close_own(int fd)
{
	if (fd >= 0)
		sr_fd_close(fd);
}

void sr_shm_free(struct sr_link *link)
{
	struct sr_shm *l = shm_of(link);

	sr_shm_enlist(l, false);
	if (l->map) {
		if (!atomic_exchange(&l->dead, true))
			say_dropped(l, SR_SHM_DROPPED);
		munmap(l->map, l->plan.total);
		sr_memory_give(atomic_load(&l->taken_memory));
	}
	if (l->line_watched)
		sr_loop_unwatch(&l->line);
	close_own(l->line.fd);
	close_own(l->doorbell);
	pthread_mutex_destroy(&l->look_lock);
	pthread_mutex_destroy(&l->ctl_lock);
	pthread_mutex_destroy(&l->arm_lock);
	free(l);
}

static void hello(struct sr_link *link, struct sr_hello *h)
{
	(void)link;
	h->slots = 0;
	h->ring = (struct sr_ring_ref){0};
}

static void work(struct sr_link *link)
{
	(void)link;
}

static void usage(struct sr_link *link, size_t *bytes, int *fds)
{
	*bytes = atomic_load(&shm_of(link)->taken_memory);
	*fds = 2;
}

static const char *usable(void)
{
	return NULL;
}

const struct sr_link_ops sr_link_shm = {
	.name = "shm",
	.vouched = true,
	.hello = hello,
	.ctl = ctl,
	.tx_room = tx_room,
	.tx_commit = tx_commit,
	.tx_retained = tx_retained,
	.tx_arrived = tx_arrived,
	.rx_data = rx_data,
	.rx_look = sr_shm_rx_look,
	.rx_free = rx_free,
	.rx_last = rx_last,
	.leave = leave,
	.rx_resent = rx_resent,
	.poll = poll_shm,
	.arm = arm,
	.futex = futex,
	.awake = awake,
	.same_core = same_core,
	.stand = stand,
	.work = work,
	.tx_work = sr_shm_sweep,
	.drop = sr_shm_drop,
	.free = sr_shm_free,
	.usage = usage,
	.forget = sr_shm_forget,
	.usable = usable,
	.absent = sr_shm_absent,
	.ask = sr_shm_ask,
	.cancel = sr_shm_cancel,
	.listen = sr_shm_listen,
	.unlisten = sr_shm_unlisten,
	.accept = sr_shm_accept,
	.refuse = sr_shm_refuse,
};
