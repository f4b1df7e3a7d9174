/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * entry.c - entries of sets, and what they are in the kernel's set: epoll_ctl(2), and
 * what a gate's shutting and opening does to them.
 *
 * `state' is a sequence count over events and data.  epoll_ctl(2) clears LIVE, writes the two,
 * and stores a new count with LIVE set.  A visit (ready.c) reads the state, events and data, and
 * the state again: if it reads the same state twice, with LIVE set, events and data belong to one
 * change.  Removing an entry sets DEAD and lists the entry, and the next visit frees it.
 *
 * If the program deletes an entry that is linked, the entry stays, without LIVE, and so do its
 * doorbells in the kernel's set.  Some programs delete and add a stream for every message
 * (redis-benchmark); in this way that costs neither a system call nor memory.
 *
 * A one-shot event must go to exactly one thread, but the kernel's set does not tell us whether
 * it has disabled an entry.  So a plain one-shot entry has a token in the kernel's set instead of
 * the program's data, with the count of changes in it.  The thread that receives the token, or
 * that finds the entry ready on a link, gets the event only if it is the one that clears ARMED.
 *
 * Lock: the stream's sets.lock.
 */
#include "base/sys.h"

#include <errno.h>

#include "base/log.h"
#include "engine/anchor.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"
#include "epoll/epoll.h"
#include "epoll/family.h"
#include "epoll/impl.h"
#include "epoll/member.h"
#include "epoll/nest.h"
#include "epoll/pool.h"

void sr_epoll_go_plain(struct sr_stream *st)
{
	sr_stream_bar(st, SR_REASON_EPOLL);
	sr_store(&st->want_tcp, true);
	sr_stream_kick(st);
}

/* ---- linked, and plain again: sets.lock held ---- */

/* The kernel's set has the entry as it is now.  An epoll_wait(2) that has begun already may not
 * report it. */
static void note_since(struct sr_epoll_entry *e)
{
	/* pair since: add_to_count(); the caller has changed the kernel's set */
	e->since = sr_look(&sr_epoll_set_of(e)->sleepers) / SR_EPOLL_CALL;
}

/* The program has put a plain entry into the kernel's set, or changed it.  If the stream has
 * no room now, room is news when it comes, also if no call has found it full. */
static void note_registered(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;

	note_since(e);
	if ((sr_load(&e->events) & EPOLLET) && (sr_load(&e->events) & SR_EPOLL_OUT) &&
	    sr_load(&st->out.tcp) && !sr_anchor_writable(st))
		sr_store(&st->out.full, true);	/* for news_of_link(), under sets.lock as well */
}

/*
 * Has the program been told of room since the entry's last change?  The entry is plain.
 *
 * It has if an epoll_wait(2) that began after the change returned fewer events than it had room
 * for (note_drained() in wait.c).  A program whose calls are always full makes no such call.  For
 * it the kernel is asked: if the anchor can be written to, but the kernel's set has nothing to
 * report, then a call has already reported the room.
 *
 * These two questions must be about one moment.  They are if nothing was sent between them, which
 * is known because no plain call is in flight and the count of bytes is the same as before.
 */
static bool is_room_told(struct sr_epoll_entry *e)
{
	struct sr_out *out = &e->st->out;
	uint64_t sent = sr_load(&out->tcp);

	if (sr_load(&sr_epoll_set_of(e)->drained) / SR_EPOLL_CALL >
	    e->since)
		return true;
	return (sr_load(&e->events) & EPOLLET) && (sr_load(&e->events) & SR_EPOLL_OUT) &&
	       sr_anchor_writable(e->st) && sr_epoll_is_kernel_quiet(sr_epoll_set_of(e)) &&
	       !sr_gate_calls(&out->gate) && sr_load(&out->tcp) == sent;
}

/*
 * What is news when a plain entry is linked, if it is edge-triggered.  Bytes are news if there
 * are any, because the program may not have been told of them.  Room is no news if the program
 * has been told of it, and has not found the stream full since.
 *
 * No edge is lost: a send that finds the stream full sets out.full, and then looks at the gates
 * (note_full() in sock/send.c).  Here a gate was shut first, and then out.full is looked at.
 */
static uint32_t news_of_link(struct sr_epoll_entry *e, bool told)
{
	sr_fence_look();	/* pair full: note_full(); the caller's caller has shut a gate */
	return told && !sr_load(&e->st->out.full) && !sr_load(&e->st->out.held_off) ?
		       SR_EPOLL_ALL & ~(uint32_t)SR_EPOLL_OUT : SR_EPOLL_ALL;
}

/* added: the entry is new, and the kernel's set has nothing of it. */
static bool entry_link(struct sr_epoll_entry *e, bool added)
{
	bool told;

	if (e->linked)
		return true;
	told = !added && is_room_told(e);	/* before the waker is in the kernel's set */
	if (!sr_epoll_install(sr_epoll_set_of(e)))
		return false;
	e->linked = true;
	e->asked = added ? 0 : sr_epoll_anchor_events(e);
	if (!added && sr_epoll_kernels(e, EPOLL_CTL_MOD)) {
		e->asked = 0;
		e->linked = false;
		return false;
	}
	sr_count(&sr_epoll_set_of(e)->linked, 1);
	atomic_fetch_sub_explicit(&sr_epoll_set_of(e)->plain, 1, memory_order_relaxed);
	e->node.entry = e;
	sr_wait_attach(e->st, &e->node);
	sr_epoll_note_nested(e);
	sr_epoll_list(e, added ? SR_EPOLL_ALL : news_of_link(e, told));
	return true;
}

static void entry_unlink(struct sr_epoll_entry *e)
{
	sr_wait_detach(e->st, &e->node);
	sr_epoll_doors_drop(e);
	e->linked = false;
	atomic_fetch_sub_explicit(&sr_epoll_set_of(e)->linked, 1, memory_order_relaxed);
	sr_count(&sr_epoll_set_of(e)->plain, 1);
}

static void entry_make_plain(struct sr_epoll_entry *e)
{
	int op = e->asked ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	entry_unlink(e);
	e->asked = 0;
	sr_epoll_kernels(e, op);
	note_since(e);
	sr_epoll_note_nested(e);
	if (sr_epoll_is_nested(sr_epoll_set_of(e)))
		sr_epoll_list(e, 0);	/* it leaves the queue if it is there */
}

void sr_epoll_remove(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;
	struct sr_epoll *set = sr_epoll_set_of(e);
	struct sr_epoll_entry *p = sr_epoll_entries(st);

	if (e->linked)
		entry_unlink(e);
	if (e->asked)
		sr_epoll_kernels(e, EPOLL_CTL_DEL);
	if (p == e) {
		sr_store(&st->sets.first, e->next_of_stream);
	} else {
		while (p->next_of_stream != e)
			p = p->next_of_stream;
		p->next_of_stream = e->next_of_stream;
	}
	sr_lock(&set->lock);
	SR_LIST_DROP(e);
	sr_unlock(&set->lock);
	atomic_fetch_sub_explicit(&set->plain, 1, memory_order_relaxed);
	/* Pairs with queue_drop(). */
	sr_publish(&e->state, (sr_load(&e->state) & ~(SR_EPOLL_STEP - 1u)) | SR_EPOLL_DEAD);
	sr_epoll_note_nested(e);
	sr_epoll_list(e, 0);
	atomic_fetch_add_explicit(&set->dead, 1, memory_order_release);	/* pairs with is_any_listed() */
	if (sr_epoll_is_nested(set))
		sr_epoll_tell(set, false);
}

/* A thread that has just received the entry's one-shot token finds that the count in it is not the
 * entry's any more, and drops the event.  The EPOLL_CTL_MOD here makes the kernel report the event
 * again. */
void sr_epoll_release_now(struct sr_epoll_entry *e)
{
	unsigned state = sr_load(&e->state);

	if (sr_epoll_is_deleted(e)) {
		sr_epoll_remove(e);
		return;
	}
	if (e->linked)
		entry_make_plain(e);
	if ((sr_load(&e->events) & EPOLLONESHOT) && (state & SR_EPOLL_ARMED) &&
	    sr_replace(&e->state, &state, state + SR_EPOLL_STEP)) /* pairs with take_oneshot() */
		sr_epoll_control(sr_epoll_set_of(e), EPOLL_CTL_MOD, e->number,
				 sr_load(&e->events), sr_load(&e->data));
	sr_store(&sr_epoll_set_of(e)->others, true);
	sr_epoll_remove(e);
}

/* (Of a broken stream the kernel knows the end, too.) */
void sr_epoll_release(struct sr_epoll_entry *e)
{
	if (sr_epoll_is_deleted(e) || !e->linked || !sr_any_gate_shut(e->st) ||
	    sr_load(&e->st->out.broken))
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
		else if (sr_epoll_is_deleted(e) || sr_load(&sr_epoll_set_of(e)->foreign))
			sr_epoll_release(e);
		else
			entry_make_plain(e);
	}
	sr_unlock(&st->sets.lock);
}

/* ---- epoll_ctl(2): sets.lock held ---- */

/* Pairs with a visit, as impl.h says. */
static void set_events(struct sr_epoll_entry *e, uint32_t events, uint64_t data)
{
	unsigned state = (sr_load(&e->state) & ~(SR_EPOLL_STEP - 1u)) + SR_EPOLL_STEP;

	sr_publish(&e->state, state);
	sr_publish(&e->events, events);
	sr_publish(&e->data, data);
	sr_publish(&e->state, state | SR_EPOLL_LIVE | SR_EPOLL_ARMED);
}

static int kernel_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return sr_sys_epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
}

static int entry_add(struct sr_epoll *set, struct sr_stream *st, int epfd, int fd,
	       struct epoll_event *ev)
{
	struct sr_epoll_entry *e, *next;
	bool shut = sr_any_gate_shut(st);
	int r;

	/* Entries of the stream that the program has deleted have kept their doorbells.  None of
	 * them is needed now. */
	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (sr_epoll_is_deleted(e))
			sr_epoll_remove(e);
	}
	e = sr_epoll_entry_new(set, epfd, st);
	if (!e)
		return -ENOMEM;
	if (sr_load(&set->foreign) && !sr_epoll_is_lent(set)) /* since control_locked() has looked */
		sr_epoll_go_plain(st);
	e->number = fd;
	set_events(e, ev->events, ev->data.u64);
	e->next_of_stream = sr_epoll_entries(st);
	sr_change(&st->sets.first, e); /* pair foreign: sr_epoll_lose(); entry_link() looks */
	if (shut && entry_link(e, true))
		return 0;
	if (shut)
		sr_epoll_go_plain(st);	/* no descriptor left, or the like */
	r = sr_epoll_kernels(e, EPOLL_CTL_ADD);
	note_registered(e);
	if (r < 0)
		sr_epoll_remove(e);
	return r;
}

static int entry_modify(struct sr_epoll_entry *e, struct epoll_event *ev)
{
	int r;

	/* Before the kernel's call, because the entry may fire before that returns.  (The kernel
	 * refuses if the descriptor was closed without the library's knowledge.  Then the entry is
	 * void.) */
	set_events(e, ev->events, ev->data.u64);
	if (!e->linked) {
		r = sr_epoll_kernels(e, EPOLL_CTL_MOD);
		note_registered(e);
		return r;
	}
	r = e->asked && !sr_epoll_is_nested(sr_epoll_set_of(e)) ? sr_epoll_ask_anchor(e, true, 0) : 0;
	sr_epoll_list_changed(e);
	return r;
}

/* The program has deleted the entry, which is linked still. */
static int control_deleted(struct sr_epoll_entry *e, int op, struct epoll_event *ev)
{
	if (op != EPOLL_CTL_ADD)
		return op == EPOLL_CTL_MOD || op == EPOLL_CTL_DEL ? -ENOENT : -EINVAL;
	set_events(e, ev->events, ev->data.u64);
	sr_epoll_list_changed(e);
	return 0;
}

/* What the kernel's set has of a linked entry is ours, so the program's call does not reach it. */
static int control_on_link(struct sr_epoll_entry *e, int op, struct epoll_event *ev)
{
	switch (op) {
	case EPOLL_CTL_MOD:
		return entry_modify(e, ev);
	case EPOLL_CTL_DEL:
		sr_publish(&e->state, (sr_load(&e->state) & ~(SR_EPOLL_STEP - 1u)) +
					      SR_EPOLL_STEP); /* as in set_events() */
		return 0;
	case EPOLL_CTL_ADD:
		return -EEXIST;
	}
	return -EINVAL;
}

/* e: a plain entry, or NULL. */
static int control_kernel(struct sr_epoll *set, struct sr_epoll_entry *e, int epfd, int op,
			  int fd, struct epoll_event *ev)
{
	int r = kernel_ctl(epfd, op, fd, ev);

	if (r)
		return r;
	if (op == EPOLL_CTL_ADD && e)	/* the number was closed behind our back, and is back */
		return entry_modify(e, ev);
	if (op == EPOLL_CTL_ADD)
		sr_store(&set->others, true);
	if (op == EPOLL_CTL_DEL && e)
		sr_epoll_remove(e);
	return 0;
}

/* May the set have an entry of ours with these events?  A foreign set may not, because tokens would
 * reach other processes.  But in a lent set, which may become this process's own later (family.c),
 * plain entries without a token may stay, so all but one-shot ones. */
static bool may_stay(struct sr_epoll *set, uint32_t events)
{
	return !sr_load(&set->foreign) || (!(events & EPOLLONESHOT) && sr_epoll_is_lent(set));
}

/* May the stream get an entry of ours in the set? */
static bool may_enter(struct sr_epoll *set, struct sr_stream *st, uint32_t events)
{
	return may_stay(set, events) && !sr_is_retired(st) && !sr_load(&st->out.broken) &&
	       !(events & EPOLLEXCLUSIVE);
}

/* May the stream that the program adds keep, or get, a link? */
static bool may_be_linked(struct sr_epoll *set, struct sr_stream *st, uint32_t events)
{
	if (!set || (events & EPOLLEXCLUSIVE) || !may_stay(set, events))
		return false;
	return !sr_load(&set->foreign) || (!sr_any_gate_shut(st) && !sr_stream_att(st));
}

bool sr_epoll_stream_lent(struct sr_stream *st)
{
	bool lent = false, for_good = false;
	struct sr_epoll_entry *e;

	if (!sr_load(&st->sets.first))
		return false;
	sr_lock(&st->sets.lock);
	for (e = sr_epoll_entries(st); e; e = e->next_of_stream) {
		if (!sr_load(&sr_epoll_set_of(e)->foreign))
			continue;
		lent = true;
		for_good |= !sr_epoll_is_lent(sr_epoll_set_of(e));
	}
	sr_unlock(&st->sets.lock);
	if (for_good)
		sr_stream_bar(st, SR_REASON_EPOLL);
	return lent;
}

/* Returns the entry that the program's call on fd is about, or NULL.  In two cases the entry is
 * removed first, and the kernel alone serves the call: an entry that the program has deleted, if
 * the call adds the stream with EPOLLEXCLUSIVE; and a plain entry that may not stay with the events
 * of the call. */
static struct sr_epoll_entry *entry_of_call(struct sr_epoll *set, struct sr_stream *st, int op,
					    int fd, struct epoll_event *ev)
{
	struct sr_epoll_entry *e = sr_epoll_entries(st);

	while (e && !sr_epoll_is_of(e, set, fd))
		e = e->next_of_stream;
	if (!e || op == EPOLL_CTL_DEL)
		return e;
	if (op == EPOLL_CTL_ADD && (ev->events & EPOLLEXCLUSIVE) && sr_epoll_is_deleted(e)) {
		sr_epoll_remove(e);
		return NULL;
	}
	if (op == EPOLL_CTL_MOD && !e->linked && !may_stay(set, ev->events)) {
		sr_epoll_release_now(e);
		sr_epoll_go_plain(st);
		return NULL;
	}
	return e;
}

static int control_locked(struct sr_epoll *set, struct sr_stream *st, int epfd,
			  int op, int fd, struct epoll_event *ev)
{
	struct sr_epoll_entry *e;

	if (op == EPOLL_CTL_MOD && (ev->events & EPOLLEXCLUSIVE))
		return -EINVAL;
	e = entry_of_call(set, st, op, fd, ev);
	if (e && sr_epoll_is_deleted(e))
		return control_deleted(e, op, ev);
	if (e && e->linked)
		return control_on_link(e, op, ev);
	if (e && op == EPOLL_CTL_MOD)
		return entry_modify(e, ev);
	if (!e && op == EPOLL_CTL_ADD && may_enter(set, st, ev->events))
		return entry_add(set, st, epfd, fd, ev);
	return control_kernel(set, e, epfd, op, fd, ev);
}

static void before_add(struct sr_epoll *set, struct sr_stream *st, uint32_t events)
{
	sr_guest_use(st, SR_NOTIFY_RX | SR_NOTIFY_TX);
	if (!(sr_st_flags(st) & SR_ST_LISTEN)) {
		if (!may_be_linked(set, st, events))
			sr_stream_make_plain(st, SR_REASON_EPOLL, false);
		return;
	}
	sr_listener_awaited(st);
	if (set) {
		sr_store(&sr_listener_of(st)->acceptor, sr_hold_thread());
		sr_epoll_listens(set, st);
	}
}

static int lock_and_control(struct sr_epoll *set, struct sr_stream *st, int epfd, int op, int fd,
		   struct epoll_event *ev)
{
	int r;

	sr_lock(&st->sets.lock);
	r = control_locked(set, st, epfd, op, fd, ev);
	sr_unlock(&st->sets.lock);
	return r;
}

static int control_plain(int epfd, int op, int fd, struct epoll_event *ev)
{
	if (op == EPOLL_CTL_ADD)
		sr_epoll_other(epfd);
	return kernel_ctl(epfd, op, fd, ev);
}

int sr_epoll_ctl_stream(struct sr_stream *st, int epfd, int op, int fd,
			struct epoll_event *ev)
{
	struct sr_epoll *set = sr_epoll_peek(epfd);
	bool adds = op == EPOLL_CTL_ADD, no_entry;
	int r;

	if (op != EPOLL_CTL_DEL && !ev)
		return -EFAULT;
	if (set && sr_epoll_is_shared(set))
		sr_epoll_use_inherited(set);
	if (adds)
		before_add(set, st, ev->events);
	if (!set || (sr_st_flags(st) & SR_ST_LISTEN)) {
		r = control_plain(epfd, op, fd, ev);
	} else {
		r = lock_and_control(set, st, epfd, op, fd, ev);
		no_entry = adds && r == -ENOMEM;
		if (no_entry)
			sr_stream_make_plain(st, SR_REASON_EPOLL, false);
		if (sr_epoll_is_nested(set))
			sr_epoll_settle_changed(st);
		if (no_entry)
			r = control_plain(epfd, op, fd, ev);
	}
	if (adds)	/* a stream that has just been barred, or is in a lent set, does not ask */
		sr_upgrade_used(st);
	return r;
}
