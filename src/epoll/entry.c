/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * entry.c - entries of sets, and what they are in the kernel's set: epoll_ctl(2), and
 * what a gate's shutting and opening does to them.
 *
 * `state' counts the program's changes of an entry; a change makes it not LIVE first
 * and LIVE last, so a visit that finds the same LIVE state before and behind has read
 * events and data of one change, and none that was over before the visit began.  A
 * removed entry is DEAD and listed; the next visit frees it.
 *
 * An entry that the program deletes while it is linked is only made not LIVE: programs
 * delete and add a stream for every message (redis-benchmark), and that costs neither
 * a system call nor memory as long as its doorbells stay where they are.
 *
 * Which thread gets a one-shot event must be decided once, and the kernel does not say
 * whether it has disabled an entry.  So plain one-shot entries carry a token with the
 * count of changes, and a thread that returns with it, or that finds the entry ready,
 * must clear ARMED.
 *
 * Lock: the stream's sets.lock.
 */
#include "base/sys.h"

#include <errno.h>

#include "base/log.h"
#include "engine/anchor.h"
#include "engine/engine.h"
#include "engine/observers.h"
#include "engine/fast.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"
#include "epoll/epoll.h"
#include "epoll/family.h"
#include "epoll/impl.h"
#include "epoll/pool.h"

#define COUNT 63u		/* of the changes, in a one-shot token */

/* The stream goes back to TCP, in the background. */
static void leave(struct sr_stream *st)
{
	sr_stream_bar(st, SR_REASON_EPOLL);
	atomic_store(&st->want_tcp, true);
	sr_stream_kick(st);
}

/* ---- the entry in the kernel's set ---- */

static uint64_t token_of(const struct sr_epoll_entry *e, unsigned kind)
{
	return (uint64_t)(uintptr_t)e | kind;
}

uint64_t sr_epoll_oneshot(unsigned state, const struct sr_epoll_entry *e)
{
	return token_of(e, SR_EPOLL_ONESHOT) | (state / SR_EPOLL_STEP & COUNT) << 2;
}

static int kernels(struct sr_epoll_entry *e, int op)
{
	unsigned state = atomic_load(&e->state);
	uint32_t events = e->linked ? e->asked | EPOLLET : e->events;
	uint64_t data = e->linked ? token_of(e, SR_EPOLL_ANCHOR) : e->data;

	if (events & EPOLLONESHOT) {
		data = sr_epoll_oneshot(state, e);
		if (!(state & SR_EPOLL_ARMED))
			events = EPOLLET; /* none, until the program says more */
	}
	return sr_epoll_control(e->set, op, e->number, events, data);
}

static uint32_t anchor_events(struct sr_epoll_entry *e)
{
	return (e->events & (SR_EPOLL_IN | SR_EPOLL_OUT)) | EPOLLRDHUP; /* never 0 */
}

/* The same at a switch.  In a nested set only the directions whose gates are open: behind
 * the other ones a mark comes, which is nothing to be read. */
static uint32_t anchor_events_now(struct sr_epoll_entry *e)
{
	uint32_t ours = 0;

	if (sr_epoll_is_nested(e->set)) {
		ours |= sr_gate_shut(&e->st->in.gate) ? SR_EPOLL_IN & ~EPOLLRDHUP : 0;
		ours |= sr_gate_shut(&e->st->out.gate) ? SR_EPOLL_OUT : 0;
	}
	return anchor_events(e) & ~ours;
}

/* Of the anchor, at least what the entry is to report.  More does no harm, but in a nested
 * set, which would be readable for it: there it is what the kernel has a say in (asks). */
static int ask_anchor(struct sr_epoll_entry *e, bool anchor, short asks)
{
	const uint32_t some = SR_EPOLL_IN | SR_EPOLL_OUT;
	uint32_t events = e->asked | anchor_events(e);
	bool asked = e->asked;

	if (sr_epoll_is_nested(e->set))
		events = ((unsigned short)asks & some & anchor_events(e)) | EPOLLRDHUP;
	else if (!anchor)
		return 0;
	if (events == e->asked || (!anchor && !asked))
		return 0;
	e->asked = events;
	return kernels(e, asked ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
}

/* ---- doorbells of links ---- */

static void door_drop(struct sr_epoll_entry *e, struct sr_epoll_doorbell *d)
{
	if (!d->link)
		return;
	if (d->fd >= 0)
		sr_epoll_control(e->set, EPOLL_CTL_DEL, d->fd, 0, 0);
	sr_link_put(d->link);
	*d = (struct sr_epoll_doorbell){ 0 };
}

/* False: no wake-up can come from it, or the stream is in the set by two
 * descriptors. */
static bool arm(struct sr_epoll_entry *e, struct sr_link *link, unsigned want)
{
	struct sr_epoll_doorbell *d = e->door;
	int fd;

	if (!link)
		return true;
	if (d->link != link && (e->door[1].link == link || d->link))
		d++;
	if (want && sr_epoll_is_nested(e->set))
		want |= SR_ARM_DATA;
	fd = link->ops->arm_once(link, want);
	if (d->link == link)
		return true;
	*d = (struct sr_epoll_doorbell){ sr_link_get(link), fd };
	if (fd < 0 || !sr_epoll_control(e->set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET,
					token_of(e, SR_EPOLL_DOORBELL)))
		return true;
	d->fd = -1;
	return false;
}

bool sr_epoll_arm(struct sr_epoll_entry *e, struct sr_link *rx,
		  struct sr_link *tx, bool full, bool anchor, short asks)
{
	struct sr_stream *st = e->st;
	bool ok = true, linked;
	int i;

	sr_lock(&st->sets.lock);
	linked = e->linked;
	if (linked) {
		for (i = 0; i < 2; i++)
			if (e->door[i].link != rx && e->door[i].link != tx)
				door_drop(e, &e->door[i]);
		ok = arm(e, rx, SR_NOTIFY_RX) &&
		     arm(e, tx, full ? SR_NOTIFY_TX : 0) &&
		     !ask_anchor(e, anchor, asks);
	}
	sr_unlock(&st->sets.lock);
	if (!ok)
		leave(st);
	return linked;
}

void sr_epoll_silence(struct sr_epoll_entry *e)
{
	const unsigned may = SR_EPOLL_LIVE | SR_EPOLL_ARMED;

	sr_lock(&e->st->sets.lock);
	if (e->linked && (atomic_load(&e->state) & may) != may) {
		door_drop(e, &e->door[0]);
		door_drop(e, &e->door[1]);
		if (e->asked)
			kernels(e, EPOLL_CTL_DEL);
		e->asked = 0;
	}
	sr_unlock(&e->st->sets.lock);
}

/* ---- linked, and plain again: sets.lock held ---- */

static int count_nested(struct sr_stream *st)
{
	struct sr_epoll_entry *e;
	int n = 0;

	for (e = sr_epoll_entries(st); e; e = e->next_of_stream)
		n += e->linked && sr_epoll_is_nested(e->set);
	atomic_store_explicit(&st->sets.nested, n, memory_order_relaxed);
	return n;
}

/* The entry is linked now, or is not any more. */
static void note_linked(struct sr_epoll_entry *e)
{
	if (sr_epoll_is_nested(e->set))
		count_nested(e->st);
}

bool sr_epoll_count_nested(struct sr_stream *st)
{
	int n;

	sr_lock(&st->sets.lock);
	n = count_nested(st);
	sr_unlock(&st->sets.lock);
	return n;
}

/* The kernel's set tells of the entry as it is from now on; a call that has begun already may
 * not see it. */
static void note_since(struct sr_epoll_entry *e)
{
	e->since = atomic_load(&e->set->sleepers) / SR_EPOLL_CALL;
}

/* The program has put a plain entry into the kernel's set, or changed it.  If the stream has
 * no room now, room is news when it comes, also if no call has found it full. */
static void note_changed(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;

	note_since(e);
	if ((e->events & EPOLLET) && (e->events & SR_EPOLL_OUT) &&
	    atomic_load_explicit(&st->out.tcp, memory_order_relaxed) && !sr_anchor_writable(st))
		atomic_store(&st->out.full, true);	/* pair full: news_of_link() */
}

/*
 * What is news when a plain entry is linked, if it is edge-triggered.  Bytes are if there are
 * any, because the program may not have been told of them.  Room is none if the program has
 * been told of it, and has not found the stream full since: it was told if a call that began
 * after the entry's last change has told all that the kernel's set had.
 *
 * No edge is lost between the two: a call that finds the stream full sets out.full, and then
 * looks at the gates (note_full() in sock/send.c); here a gate has been shut before out.full
 * is looked at.
 */
static uint32_t news_of_link(struct sr_epoll_entry *e)
{
	bool told = atomic_load_explicit(&e->set->drained, memory_order_relaxed) /
			    SR_EPOLL_CALL > e->since;

	/* pair full: note_full() */
	return told && !atomic_load(&e->st->out.full) && !atomic_load(&e->st->out.held_off) ?
		       SR_EPOLL_ALL & ~(uint32_t)SR_EPOLL_OUT : SR_EPOLL_ALL;
}

/* added: just now, and not in the kernel's set. */
static bool entry_link(struct sr_epoll_entry *e, bool added)
{
	if (e->linked)
		return true;
	if (!sr_epoll_install(e->set))
		return false;
	e->linked = true;
	e->asked = added ? 0 : anchor_events_now(e);
	if (!added && kernels(e, EPOLL_CTL_MOD)) {
		e->asked = 0;
		e->linked = false;
		return false;
	}
	atomic_fetch_add(&e->set->linked, 1);
	atomic_fetch_sub(&e->set->plain, 1);
	e->node.entry = e;
	sr_wait_attach(e->st, &e->node);
	note_linked(e);
	sr_epoll_list(e, added ? SR_EPOLL_ALL : news_of_link(e));
	return true;
}

static void entry_unlink(struct sr_epoll_entry *e)
{
	sr_wait_detach(e->st, &e->node);
	door_drop(e, &e->door[0]);
	door_drop(e, &e->door[1]);
	e->linked = false;
	atomic_fetch_sub(&e->set->linked, 1);
	atomic_fetch_add(&e->set->plain, 1);
}

static void make_plain(struct sr_epoll_entry *e)
{
	int op = e->asked ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	entry_unlink(e);
	e->asked = 0;
	kernels(e, op);
	note_since(e);
	note_linked(e);
	if (sr_epoll_is_nested(e->set))
		sr_epoll_list(e, 0);	/* it leaves the queue if it is there */
}

void sr_epoll_remove(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;
	struct sr_epoll *set = e->set;
	struct sr_epoll_entry *p = sr_epoll_entries(st);

	if (e->linked)
		entry_unlink(e);
	if (e->asked)
		kernels(e, EPOLL_CTL_DEL);
	if (p == e) {
		atomic_store(&st->sets.first, e->next_of_stream);
	} else {
		while (p->next_of_stream != e)
			p = p->next_of_stream;
		p->next_of_stream = e->next_of_stream;
	}
	sr_lock(&set->lock);
	SR_LIST_DROP(e);
	sr_unlock(&set->lock);
	atomic_fetch_sub(&set->plain, 1);
	atomic_store(&e->state, (e->state & ~(SR_EPOLL_STEP - 1u)) |
					SR_EPOLL_DEAD);
	if (sr_epoll_is_nested(set))
		count_nested(st);
	sr_epoll_list(e, 0);
	atomic_fetch_add(&set->dead, 1);
	if (sr_epoll_is_nested(set))
		sr_epoll_tell(set, false);
}

/* A thread that has received the event already, with a token, leaves it to the next. */
void sr_epoll_release_now(struct sr_epoll_entry *e)
{
	unsigned state = atomic_load(&e->state);

	if (sr_epoll_is_deleted(e)) {
		sr_epoll_remove(e);
		return;
	}
	if (e->linked)
		make_plain(e);
	if ((e->events & EPOLLONESHOT) && (state & SR_EPOLL_ARMED) &&
	    atomic_compare_exchange_strong(&e->state, &state, state + SR_EPOLL_STEP))
		sr_epoll_control(e->set, EPOLL_CTL_MOD, e->number, e->events, e->data);
	atomic_store(&e->set->others, true);
	sr_epoll_remove(e);
}

/* (Of a broken stream the kernel knows the end, too.) */
void sr_epoll_release(struct sr_epoll_entry *e)
{
	if (sr_epoll_is_deleted(e) || !e->linked || !sr_any_gate_shut(e->st) ||
	    e->st->out.broken)
		sr_epoll_release_now(e);
}

bool sr_epoll_gate_shut(struct sr_stream *st)
{
	struct sr_epoll_entry *e;
	bool ok = true;

	/* Also if there is no entry: one may be on its way in. */
	sr_lock(&st->sets.lock);
	for (e = sr_epoll_entries(st); e && ok; e = e->next_of_stream)
		ok = entry_link(e, false);
	sr_unlock(&st->sets.lock);
	if (!ok) {
		sr_inform("%s: an epoll set that it is in cannot wait for links",
			sr_stream_label(st, (char[128]){ 0 }));
		sr_stream_bar(st, SR_REASON_EPOLL);
	}
	return ok;
}

void sr_epoll_gate_opened(struct sr_stream *st)
{
	struct sr_epoll_entry *e, *next;
	bool linked;

	sr_lock(&st->sets.lock);
	linked = sr_any_gate_shut(st);
	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (!e->linked)
			continue;
		if (linked)
			sr_epoll_list(e, 0); /* the kernel has a say now */
		else if (sr_epoll_is_deleted(e) || atomic_load(&e->set->foreign))
			sr_epoll_release(e);
		else
			make_plain(e);
	}
	sr_unlock(&st->sets.lock);
}

/* ---- epoll_ctl(2): sets.lock held ---- */

static void set_events(struct sr_epoll_entry *e, uint32_t events, uint64_t data)
{
	unsigned state = (e->state & ~(SR_EPOLL_STEP - 1u)) + SR_EPOLL_STEP;

	atomic_store(&e->state, state);
	atomic_store(&e->events, events);
	atomic_store(&e->data, data);
	atomic_store(&e->state, state | SR_EPOLL_LIVE | SR_EPOLL_ARMED);
}

static int kernel_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return sr_sys_epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
}

static int add(struct sr_epoll *set, struct sr_stream *st, int epfd, int fd,
	       struct epoll_event *ev)
{
	struct sr_epoll_entry *e, *next;
	bool shut = sr_any_gate_shut(st);
	int r;

	/* One with its doorbells is enough. */
	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (sr_epoll_is_deleted(e))
			sr_epoll_remove(e);
	}
	e = sr_epoll_entry_new(set, epfd, st);
	if (!e)
		return -ENOMEM;
	if (atomic_load(&set->foreign)) /* since control_locked() has looked */
		leave(st);
	e->number = fd;
	set_events(e, ev->events, ev->data.u64);
	e->next_of_stream = sr_epoll_entries(st);
	atomic_store(&st->sets.first, e); /* pair foreign: sr_epoll_lose(); entry_link() looks */
	if (shut && entry_link(e, true))
		return 0;
	if (shut)
		leave(st);	/* no descriptor left, or the like */
	r = kernels(e, EPOLL_CTL_ADD);
	note_changed(e);
	if (r < 0)
		sr_epoll_remove(e);
	return r;
}

static int modify(struct sr_epoll_entry *e, struct epoll_event *ev)
{
	int r;

	/* First: it may fire before the call has returned.  (The kernel refuses if the
	 * descriptor was closed behind our back.  Then the entry is void.) */
	set_events(e, ev->events, ev->data.u64);
	if (!e->linked) {
		r = kernels(e, EPOLL_CTL_MOD);
		note_changed(e);
		return r;
	}
	r = e->asked && !sr_epoll_is_nested(e->set) ? ask_anchor(e, true, 0) : 0;
	sr_epoll_list(e, SR_EPOLL_ALL);
	return r;
}

static int control_locked(struct sr_epoll *set, struct sr_stream *st, int epfd,
			  int op, int fd, struct epoll_event *ev)
{
	struct sr_epoll_entry *e = sr_epoll_entries(st);
	int r;

	while (e && !sr_epoll_is_of(e, set, fd))
		e = e->next_of_stream;
	if (op == EPOLL_CTL_MOD && (ev->events & EPOLLEXCLUSIVE))
		return -EINVAL;
	if (e && sr_epoll_is_deleted(e)) {
		if (op != EPOLL_CTL_ADD)
			return op == EPOLL_CTL_MOD || op == EPOLL_CTL_DEL ? -ENOENT : -EINVAL;
		if (!(ev->events & EPOLLEXCLUSIVE)) {
			set_events(e, ev->events, ev->data.u64);
			sr_epoll_list(e, SR_EPOLL_ALL);
			return 0;
		}
		sr_epoll_remove(e);
		e = NULL;
	}
	if (op == EPOLL_CTL_ADD && !e && !atomic_load(&set->foreign) && !sr_is_plain(st) &&
	    !st->out.broken && !(ev->events & EPOLLEXCLUSIVE))
		return add(set, st, epfd, fd, ev);
	if (op == EPOLL_CTL_MOD && e)
		return modify(e, ev);
	if (e && e->linked) {
		if (op == EPOLL_CTL_DEL)
			atomic_store(&e->state, (e->state & ~(SR_EPOLL_STEP - 1u)) +
							SR_EPOLL_STEP);
		return op == EPOLL_CTL_DEL ? 0 :
		       op == EPOLL_CTL_ADD ? -EEXIST : -EINVAL;
	}
	r = kernel_ctl(epfd, op, fd, ev);
	if (!r && op == EPOLL_CTL_ADD) {
		if (e) /* closed behind our back, and back */
			return modify(e, ev);
		atomic_store(&set->others, true);
	}
	if (!r && op == EPOLL_CTL_DEL && e)
		sr_epoll_remove(e);
	return r;
}

int sr_epoll_ctl_stream(struct sr_stream *st, int epfd, int op, int fd,
			struct epoll_event *ev)
{
	struct sr_epoll *set = sr_epoll_peek(epfd);
	bool listens = sr_st_flags(st) & SR_ST_LISTEN, adds = op == EPOLL_CTL_ADD;
	bool plain = !set || listens;
	int r = 0;

	if (op != EPOLL_CTL_DEL && !ev)
		return -EFAULT;
	if (set && sr_epoll_is_shared(set))
		sr_epoll_use_inherited(set);
	if (adds)
		sr_guest_use(st, SR_NOTIFY_RX | SR_NOTIFY_TX);
	if (adds && !listens && (!set || atomic_load(&set->foreign) ||
				 (ev->events & EPOLLEXCLUSIVE)))
		sr_stream_plain(st, SR_REASON_EPOLL, false);
	if (adds && listens && set) {
		atomic_store(&st->hold.acceptor, sr_hold_thread());
		sr_epoll_listens(set, st);
	}
	if (adds)	/* last, because a stream that was just barred need not ask for a link */
		sr_upgrade_used(st);
	if (!plain) {
		sr_lock(&st->sets.lock);
		r = control_locked(set, st, epfd, op, fd, ev);
		sr_unlock(&st->sets.lock);
		if (r == -ENOMEM && adds) {	/* for an entry */
			plain = true;
			sr_stream_plain(st, SR_REASON_EPOLL, false);
		}
		if (sr_epoll_is_nested(set))
			sr_epoll_settle_changed(st);
	}
	if (plain) {
		if (adds)
			sr_epoll_other(epfd);
		r = kernel_ctl(epfd, op, fd, ev);
	}
	return r;
}
