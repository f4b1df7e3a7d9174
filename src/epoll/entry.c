/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_entry.c - entries of sets: epoll_ctl(2), and what a gate's shutting and
 * opening does to them.  The argument is in epoll_impl.h.
 */
#include "base/real.h"

#include <errno.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "engine/stream.h"
#include "engine/waiters.h"
#include "upgrade/upgrade.h"
#include "epoll/epoll.h"
#include "epoll/hooks.h"
#include "epoll/impl.h"

/* EPOLLEXCLUSIVE goes with these only: epoll_ctl(2). */
#define EXCLUSIVE_OK \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | \
	 EPOLLEXCLUSIVE)

#define COUNT 63u		/* of the changes, in a one-shot token */

void sr_epoll_leave(struct sr_stream *st)
{
	sr_stream_bar(st, SR_REASON_EPOLL);
	atomic_store(&st->want_back, true);
	sr_stream_kick(st);
}

/* ---- the entry in the kernel's set: epoll_lock held ---- */

uint64_t sr_epoll_oneshot(unsigned state, const struct sr_epoll_entry *e)
{
	return sr_epoll_token(e, SR_EPOLL_ONESHOT) |
	       (state / SR_EPOLL_STEP & COUNT) << 2;
}

/* While plain.  One-shot and fired: without events until the program says more. */
static void plain_form(struct sr_epoll_entry *e, uint32_t *events, uint64_t *data)
{
	unsigned state = atomic_load(&e->state);

	*events = e->events;
	*data = e->ours ? sr_epoll_oneshot(state, e) : e->data;
	if ((e->events & EPOLLONESHOT) && !(state & SR_EPOLL_ARMED))
		*events = EPOLLET;
}

static int kernels(struct sr_epoll_entry *e, int op)
{
	uint32_t events = e->asked | EPOLLET;
	uint64_t data = sr_epoll_token(e, SR_EPOLL_ANCHOR);

	if (!e->shut)
		plain_form(e, &events, &data);
	return sr_epoll_set_control(e->set, op, e->number, events, data);
}

/* As it is now, where something else was.  An exclusive entry cannot be modified. */
static int change(struct sr_epoll_entry *e)
{
	if (!(e->events & EPOLLEXCLUSIVE))
		return kernels(e, EPOLL_CTL_MOD);
	kernels(e, EPOLL_CTL_DEL);
	return kernels(e, EPOLL_CTL_ADD);
}

/* Does a token decide who gets its one-shot events? */
static void set_ours(struct sr_epoll_entry *e)
{
	e->ours = (e->events & EPOLLONESHOT) &&
		  !(sr_st_flags(e->st) & SR_ST_BARRED);
}

/* Of the anchor, at least what the entry is to report.  More does no harm. */
static int ask_anchor(struct sr_epoll_entry *e)
{
	uint32_t events = e->asked | (e->events & (SR_EPOLL_IN | SR_EPOLL_OUT)) |
			  EPOLLRDHUP; /* never 0 */
	bool asked = e->asked;

	if (events == e->asked)
		return 0;
	e->asked = events;
	return kernels(e, asked ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
}

/* ---- doorbells of links: epoll_lock held ---- */

static void door_drop(struct sr_epoll_entry *e, struct sr_epoll_doorbell *d)
{
	if (!d->link)
		return;
	if (d->fd >= 0)
		sr_epoll_set_control(e->set, EPOLL_CTL_DEL, d->fd, 0, 0);
	sr_link_put(d->link);
	*d = (struct sr_epoll_doorbell){ 0 };
}

/* False: it cannot be heard; or the stream is in the set by two descriptors. */
static bool arm(struct sr_epoll_entry *e, struct sr_link *link, unsigned want)
{
	struct sr_epoll_doorbell *d = e->door;
	int fd;

	if (!link)
		return true;
	if (d->link != link && (e->door[1].link == link || d->link))
		d++;
	fd = link->ops->stand(link, want);
	if (d->link == link)
		return true;
	*d = (struct sr_epoll_doorbell){ sr_link_get(link), fd };
	if (fd < 0 || !sr_epoll_set_control(e->set, EPOLL_CTL_ADD, fd,
					    EPOLLIN | EPOLLET,
					    sr_epoll_token(e, SR_EPOLL_DOORBELL)))
		return true;
	d->fd = -1;
	return false;
}

bool sr_epoll_arm(struct sr_epoll_entry *e, struct sr_link *rx,
		  struct sr_link *tx, bool full, bool anchor)
{
	struct sr_stream *st = e->st;
	bool ok = true, shut;
	int i, err = errno;

	sr_lock(&st->epoll_lock);
	shut = e->shut;
	if (shut) {
		for (i = 0; i < 2; i++)
			if (e->door[i].link != rx && e->door[i].link != tx)
				door_drop(e, &e->door[i]);
		ok = arm(e, rx, SR_NOTIFY_RX) &&
		     arm(e, tx, full ? SR_NOTIFY_TX : 0) &&
		     !(anchor && ask_anchor(e));
	}
	sr_unlock(&st->epoll_lock);
	if (!ok)
		sr_epoll_leave(st);
	errno = err;
	return shut;
}

/* ---- linked, and plain again: epoll_lock held ---- */

/* added: just now, and not in the kernel's set. */
static bool entry_shut(struct sr_epoll_entry *e, bool added)
{
	if (e->shut)
		return true;
	if ((e->events & EPOLLONESHOT) && !e->ours && !added)
		return false;	/* nobody knows whether it has fired */
	if (!sr_epoll_install(e->set))
		return false;
	e->shut = true;
	e->asked = added ? 0 : (e->events & (SR_EPOLL_IN | SR_EPOLL_OUT)) |
				       EPOLLRDHUP;
	if (!added && change(e)) {
		e->asked = 0;
		e->shut = false;
		return false;
	}
	atomic_fetch_add(&e->set->shut, 1);
	e->node.entry = e;
	sr_wait_attach(e->st, &e->node);
	sr_epoll_list(e, SR_EPOLL_ALL);
	return true;
}

static void entry_open(struct sr_epoll_entry *e)
{
	sr_wait_detach(e->st, &e->node);
	door_drop(e, &e->door[0]);
	door_drop(e, &e->door[1]);
	e->shut = false;
	atomic_fetch_sub(&e->set->shut, 1);
}

/* In its plain form. */
static int restore(struct sr_epoll_entry *e)
{
	bool there = e->asked;

	set_ours(e);
	e->asked = 0;
	return there ? change(e) : kernels(e, EPOLL_CTL_ADD);
}

/* A plain entry stays in the kernel's set, or goes with the open file or the set. */
static void entry_remove(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;
	struct sr_epoll *set = e->set;
	struct sr_epoll_entry *p = sr_epoll_entries(st);

	if (e->shut)
		entry_open(e);
	if (e->asked)
		kernels(e, EPOLL_CTL_DEL);
	if (p == e) {
		atomic_store(&st->epoll, e->next_of_stream);
	} else {
		while (p->next_of_stream != e)
			p = p->next_of_stream;
		p->next_of_stream = e->next_of_stream;
	}
	sr_lock(&set->lock);
	*e->pprev = e->next;
	if (e->next)
		e->next->pprev = e->pprev;
	sr_unlock(&set->lock);
	atomic_fetch_sub(&set->members, 1);
	atomic_store(&e->state, (e->state & ~(SR_EPOLL_STEP - 1u)) |
					SR_EPOLL_DEAD);
	sr_epoll_bury(e);
}

static bool gate_shut(struct sr_stream *st)
{
	struct sr_epoll_entry *e;
	int err = errno;
	bool ok = true;

	/* Also if there is no entry: one may be on its way in. */
	sr_lock(&st->epoll_lock);
	for (e = sr_epoll_entries(st); e && ok; e = e->next_of_stream)
		ok = entry_shut(e, false);
	sr_unlock(&st->epoll_lock);
	if (!ok) {
		sr_tell("%s: its epoll set cannot serve a link",
			sr_stream_label(st, (char[128]){ 0 }));
		sr_stream_bar(st, SR_REASON_EPOLL);
	}
	errno = err;
	return ok;
}

static void gate_opened(struct sr_stream *st)
{
	struct sr_epoll_entry *e, *next;
	int err = errno;
	bool linked;

	sr_lock(&st->epoll_lock);
	linked = sr_any_gate_shut(st);
	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (!e->shut)
			continue;
		if (linked) {
			sr_epoll_list(e, 0); /* the kernel has a say now */
		} else if (e->deleted) {
			entry_remove(e);
		} else {
			entry_open(e);
			restore(e);
		}
	}
	sr_unlock(&st->epoll_lock);
	errno = err;
}

/* ---- entries come and go: epoll_lock held ---- */

static struct sr_epoll_entry *find(struct sr_stream *st, struct sr_epoll *set,
				   int fd)
{
	struct sr_epoll_entry *e = sr_epoll_entries(st);

	while (e && (e->set != set || e->number != fd))
		e = e->next_of_stream;
	return e;
}

static void set_events(struct sr_epoll_entry *e, uint32_t events, uint64_t data)
{
	unsigned state = (e->state & ~(SR_EPOLL_STEP - 1u)) + SR_EPOLL_STEP;

	atomic_store(&e->state, state);
	atomic_store(&e->events, events);
	atomic_store(&e->data, data);
	atomic_store(&e->state, state | SR_EPOLL_LIVE | SR_EPOLL_ARMED);
}

static void drop_deleted(struct sr_stream *st)
{
	struct sr_epoll_entry *e, *next;

	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (e->deleted)
			entry_remove(e);
	}
}

static int add(struct sr_epoll *set, struct sr_stream *st, int fd,
	       struct epoll_event *ev, struct sr_epoll_entry *deleted)
{
	bool shut = sr_any_gate_shut(st);
	struct sr_epoll_entry *e;
	int r;

	/* What the kernel refuses in any case, it refuses itself. */
	if ((ev->events & EPOLLEXCLUSIVE) &&
	    (ev->events & ~(uint32_t)EXCLUSIVE_OK))
		return -EINVAL;
	if (deleted) {
		deleted->deleted = false;
		set_events(deleted, ev->events, ev->data.u64);
		sr_epoll_list(deleted, SR_EPOLL_ALL);
		return 0;
	}
	drop_deleted(st);	/* one with its doorbells is enough */
	e = sr_epoll_entry_new(set, st);
	if (!e)
		return -ENOMEM;
	if (atomic_load(&set->foreign)) /* since control_locked() has looked */
		sr_epoll_leave(st);
	e->number = fd;
	set_events(e, ev->events, ev->data.u64);
	set_ours(e);
	e->next_of_stream = sr_epoll_entries(st);
	atomic_store(&st->epoll, e);
	if (shut && entry_shut(e, true))
		return 0;
	if (shut)
		sr_epoll_leave(st);	/* no descriptor left, or the like */
	r = kernels(e, EPOLL_CTL_ADD);
	if (r < 0)
		entry_remove(e);
	return r;
}

/* A linked entry.  The program may add and delete it for every message
 * (redis-benchmark), so its doorbells stay where they are. */
static void delete(struct sr_epoll_entry *e)
{
	e->deleted = true;
	atomic_store(&e->state, (e->state & ~(SR_EPOLL_STEP - 1u)) + SR_EPOLL_STEP);
}

static int modify(struct sr_epoll_entry *e, struct epoll_event *ev)
{
	uint32_t events = e->events;
	uint64_t data = e->data;
	unsigned state = e->state;
	bool ours = e->ours;
	int r;

	if ((ev->events | events) & EPOLLEXCLUSIVE)
		return -EINVAL;
	/* First: it may fire before the call has returned. */
	set_events(e, ev->events, ev->data.u64);
	if (e->shut) {
		r = e->asked ? ask_anchor(e) : 0;
		sr_epoll_list(e, SR_EPOLL_ALL);
		return r;
	}
	set_ours(e);
	r = kernels(e, EPOLL_CTL_MOD);
	if (r < 0) {
		e->ours = ours;
		atomic_store(&e->events, events);
		atomic_store(&e->data, data);
		atomic_store(&e->state, state);
	}
	return r;
}

static int control_locked(struct sr_epoll *set, struct sr_stream *st, int epfd,
			  int op, int fd, struct epoll_event *ev)
{
	struct sr_epoll_entry *e = find(st, set, fd);
	int r;

	if (op == EPOLL_CTL_ADD && (!e || e->deleted) &&
	    !atomic_load(&set->foreign) && !sr_is_plain(st))
		return add(set, st, fd, ev, e);
	if (e && e->deleted)
		return op == EPOLL_CTL_MOD || op == EPOLL_CTL_DEL ? -ENOENT : -EINVAL;
	if (op == EPOLL_CTL_MOD && e)
		return modify(e, ev);
	if (e && e->shut) {
		if (op == EPOLL_CTL_DEL)
			delete(e);
		return op == EPOLL_CTL_DEL ? 0 :
		       op == EPOLL_CTL_ADD ? -EEXIST : -EINVAL;
	}
	r = sr_real.epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
	if (!r && op == EPOLL_CTL_ADD) {
		if (e) /* closed behind our back, and back */
			return modify(e, ev);
		atomic_store(&set->others, true);
	}
	if (!r && op == EPOLL_CTL_DEL && e)
		entry_remove(e);
	return r;
}

/* In a foreign set. */
static int control_foreign(struct sr_stream *st, int epfd, int op, int fd,
			   struct epoll_event *ev)
{
	/* May it be in there at all? */
	if (op == EPOLL_CTL_ADD &&
	    !sr_epoll_control(epfd, EPOLL_CTL_ADD, fd, EPOLLET, 0)) {
		sr_stream_plain(st, fd, SR_REASON_EPOLL);
		sr_epoll_control(epfd, EPOLL_CTL_DEL, fd, 0, 0);
	}
	return sr_real.epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
}

int sr_epoll_ctl_stream(struct sr_epoll *set, struct sr_stream *st, int epfd,
			int op, int fd, struct epoll_event *ev)
{
	bool foreign = !set || atomic_load(&set->foreign);
	int r, err = errno;

	if (op != EPOLL_CTL_DEL && !ev)
		return -EFAULT;
	if (set && foreign)
		sr_epoll_tell_parent(set);
	if (op == EPOLL_CTL_ADD) {
		sr_guest_use(st, SR_NOTIFY_RX | SR_NOTIFY_TX);
		sr_upgrade_used(st);
	}
	if (sr_st_flags(st) & (SR_ST_LISTEN | SR_ST_NO_RENDEZVOUS)) {
		if (op == EPOLL_CTL_ADD)
			sr_epoll_other(epfd);
		r = sr_real.epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
	} else if (!set || (foreign && op == EPOLL_CTL_ADD)) {
		r = control_foreign(st, epfd, op, fd, ev);
	} else {
		sr_lock(&st->epoll_lock);
		r = control_locked(set, st, epfd, op, fd, ev);
		sr_unlock(&st->epoll_lock);
	}
	errno = err;
	return r;
}

/* ---- closing ---- */

/* Plain entries go with the open file, as the kernel's do; it may be another
 * process's, too. */
void sr_epoll_stream_gone(struct sr_stream *st)
{
	struct sr_epoll_entry *e;
	int err = errno;

	if (!atomic_load(&st->epoll))
		return;
	sr_lock(&st->epoll_lock);
	while ((e = sr_epoll_entries(st)))
		entry_remove(e);
	sr_unlock(&st->epoll_lock);
	errno = err;
}

static void let_go(struct sr_epoll_entry *e)
{
	atomic_store(&e->set->others, true);
	entry_remove(e);
}

static bool let_all_go(struct sr_stream *st)
{
	struct sr_epoll_entry *e;

	for (e = sr_epoll_entries(st); e; e = e->next_of_stream)
		if (e->shut || e->ours)
			return false;
	while ((e = sr_epoll_entries(st)))
		let_go(e);
	return true;
}

/* ---- sets go, or are no longer ours alone ---- */

/* Of the entries that are not passed. */
static struct sr_stream *next_stream(struct sr_epoll *set)
{
	struct sr_stream *st = NULL;
	struct sr_epoll_entry *e;

	sr_lock(&set->lock);
	for (e = set->entries; e && !st; e = e->next)
		if (!e->passed)
			st = sr_stream_ref(e->st);
	sr_unlock(&set->lock);
	return st;
}

static void each_entry(struct sr_epoll *set, struct sr_stream *st,
		       void (*fn)(struct sr_epoll_entry *e))
{
	struct sr_epoll_entry *e, *next;

	sr_lock(&st->epoll_lock);
	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (e->set == set)
			fn(e);
	}
	sr_unlock(&st->epoll_lock);
	sr_stream_put(st);
}

void sr_epoll_clear(struct sr_epoll *set)
{
	struct sr_epoll_entry *e;
	struct sr_stream *st;

	sr_lock(&set->lock);
	for (e = set->entries; e; e = e->next)
		e->passed = false;
	sr_unlock(&set->lock);
	while ((st = next_stream(set)))
		each_entry(set, st, entry_remove);
}

/* The program's own data.  A thread that has been given the event already, with a
 * token, leaves it to the next. */
static void pass(struct sr_epoll_entry *e)
{
	unsigned state = atomic_load(&e->state);

	if (e->deleted) {
		entry_remove(e);
		return;
	}
	e->passed = true;
	if (e->shut || !e->ours)
		return;
	e->ours = false;
	if (!(state & SR_EPOLL_ARMED) ||
	    !atomic_compare_exchange_strong(&e->state, &state,
					    state + SR_EPOLL_STEP))
		return;
	kernels(e, EPOLL_CTL_MOD);
}

/*
 * fd is closed and the open file lives on, and so does the entry in the kernel's set, but
 * under a number by which nobody can change it: it has to be the program's own for good.
 * (If the peer does not answer in time it goes from the set.)
 */
void sr_epoll_number_gone(struct sr_stream *st, int fd)
{
	struct sr_epoll_entry *e, *next;
	bool found = false;

	if (!atomic_load(&st->epoll))
		return;
	sr_lock(&st->epoll_lock);
	drop_deleted(st);
	for (e = sr_epoll_entries(st); e; e = e->next_of_stream)
		found |= e->number == fd;
	sr_unlock(&st->epoll_lock);
	if (!found)
		return;
	sr_stream_plain(st, fd, SR_REASON_EPOLL);
	sr_lock(&st->epoll_lock);
	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (e->number != fd)
			continue;
		if (!e->deleted) /* pass() removes that */
			pass(e);
		let_go(e);
	}
	sr_unlock(&st->epoll_lock);
}

void sr_epoll_give_up(struct sr_epoll *set, bool must)
{
	struct sr_stream *st;
	int r, err = errno;

	if (atomic_load(&set->foreign) && !must)
		return;
	atomic_store(&set->foreign, true);
	while ((st = next_stream(set))) {
		do
			r = sr_stream_plain(st, -1, SR_REASON_EPOLL);
		while (r == -ETIMEDOUT && must);
		if (!r)
			gate_opened(st); /* who opened it may be late */
		each_entry(set, st, pass);
	}
	errno = err;
}

void sr_epoll_pass(struct sr_epoll *set)
{
	sr_epoll_give_up(set, true);
	sr_lock(&set->lock);
	if (set->installed)
		sr_epoll_control(set->epfd, EPOLL_CTL_DEL, set->bell, 0, 0);
	set->installed = false;
	sr_unlock(&set->lock);
}

const struct sr_sets_ops sr_sets_ops = {
	.gate_shut = gate_shut,
	.gate_opened = gate_opened,
	.event = sr_epoll_told,
	.forget = let_all_go,
};
