/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_entry.c - entries of sets: epoll_ctl(2), what a gate's shutting and
 * opening does to them, closing.
 */
#include "base/real.h"

#include <errno.h>

#include "base/fdpriv.h"
#include "base/log.h"
#include "stream/epoll_impl.h"

/* EPOLLEXCLUSIVE goes with these only: epoll_ctl(2). */
#define EXCLUSIVE_OK \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | \
	 EPOLLEXCLUSIVE)

static int control(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return sr_real.epoll_ctl(epfd, op, fd, &ev) < 0 ? -errno : 0;
}

static uint64_t address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* ---- the kernel's entry: one's own, or mute ---- */

uint64_t sr_epoll_entry_data(const struct sr_epoll_entry *e)
{
	return address(e) | (e->count & SR_EPOLL_COUNT);
}

static uint32_t mute(const struct sr_epoll_entry *e)
{
	return EPOLLET | (e->events & EPOLLEXCLUSIVE);
}

/* An exclusive entry cannot be modified.  set->lock held. */
static int change(struct sr_epoll_entry *e, uint32_t events, uint64_t data)
{
	int epfd = e->set->epfd;

	if (!(e->events & EPOLLEXCLUSIVE))
		return control(epfd, EPOLL_CTL_MOD, e->fd, events, data);
	control(epfd, EPOLL_CTL_DEL, e->fd, 0, 0);
	return control(epfd, EPOLL_CTL_ADD, e->fd, events, data);
}

static bool is_armed(struct sr_epoll_entry *e)
{
	bool armed;

	pthread_mutex_lock(&e->set->ready_lock);
	armed = e->armed;
	pthread_mutex_unlock(&e->set->ready_lock);
	return armed;
}

/* The entry as it is while plain.  One-shot and fired: mute until the program
 * says more. */
static void plain_form(struct sr_epoll_entry *e, uint32_t *events,
		       uint64_t *data)
{
	*events = e->events;
	*data = e->ours ? sr_epoll_entry_data(e) : e->data.u64;
	if ((e->events & EPOLLONESHOT) && !is_armed(e)) {
		*events = mute(e);
		*data = address(e->set);
	}
}

/* Are its one-shot events decided by us? */
static bool with_our_data(struct sr_stream *st, uint32_t events)
{
	return (events & EPOLLONESHOT) &&
	       !(sr_st_flags(st) & SR_ST_BARRED);
}

static int restore(struct sr_epoll_entry *e)
{
	uint64_t data;
	uint32_t events;
	int r;

	e->ours = with_our_data(e->st, e->events);
	if (e->ours)
		atomic_store(&e->set->oneshots, true);
	pthread_mutex_lock(&e->set->lock);
	plain_form(e, &events, &data);
	r = change(e, events, data);
	e->since = atomic_load(&e->set->calls);
	pthread_mutex_unlock(&e->set->lock);
	return r;
}

/* Back to TCP, in the background. */
static void leave(struct sr_stream *st)
{
	sr_stream_bar(st, SR_REASON_EPOLL);
	atomic_store(&st->want_back, true);
	sr_stream_kick(st);
}

/* ---- bells of links ---- */

static void bell_drop(struct sr_epoll_entry *e, struct sr_epoll_bell *b)
{
	if (!b->link)
		return;
	if (b->fd >= 0)
		control(e->set->inner, EPOLL_CTL_DEL, b->fd, 0, 0);
	if (b->own)
		sr_fd_close(b->fd);
	sr_link_put(b->link);
	*b = (struct sr_epoll_bell){ 0 };
}

/* False: it cannot be heard. */
static bool bell_hang(struct sr_epoll_entry *e, struct sr_epoll_bell *b,
		      struct sr_link *link, int fd)
{
	uint64_t data = address(e) | SR_EPOLL_BELL;
	uint32_t events = EPOLLIN | EPOLLET;
	int inner = e->set->inner, r = 0;

	*b = (struct sr_epoll_bell){ sr_link_get(link), fd, false };
	if (fd >= 0)
		r = control(inner, EPOLL_CTL_ADD, fd, events, data);
	if (r == -EEXIST) {
		/* The stream is in the set by another of its descriptors. */
		b->fd = sr_fd_dup(fd);
		b->own = b->fd >= 0;
		r = b->fd;
		if (b->own)
			r = control(inner, EPOLL_CTL_ADD, b->fd, events, data);
	}
	return r == 0;
}

static bool stand(struct sr_epoll_entry *e, struct sr_link *link, unsigned want)
{
	struct sr_epoll_bell *b = e->bell;
	int fd;

	if (!link)
		return true;
	if (b->link != link && (e->bell[1].link == link || b->link))
		b++;
	fd = link->ops->stand(link, want);
	return b->link == link || bell_hang(e, b, link, fd);
}

bool sr_epoll_stand(struct sr_epoll_entry *e, struct sr_link *rx,
		    struct sr_link *tx, bool full)
{
	struct sr_stream *st = e->st;
	bool ok = true, shut;
	int i;

	pthread_mutex_lock(&st->epoll_lock);
	shut = e->shut;
	if (shut) {
		for (i = 0; i < 2; i++)
			if (e->bell[i].link != rx && e->bell[i].link != tx)
				bell_drop(e, &e->bell[i]);
		ok = stand(e, rx, SR_NOTIFY_RX) && stand(e, tx, full ? SR_NOTIFY_TX : 0);
	}
	pthread_mutex_unlock(&st->epoll_lock);
	if (!ok)
		leave(st);
	return shut;
}

/* ---- shut and opened: epoll_lock held ---- */

static uint32_t anchor_events(const struct sr_epoll_entry *e)
{
	return (e->events & (SR_EPOLL_IN | SR_EPOLL_OUT)) | EPOLLET;
}

/* More than is wanted does no harm, heard() sifts it. */
static void ask_anchor(struct sr_epoll_entry *e)
{
	uint32_t events = anchor_events(e);

	if (!(events & ~e->asked))
		return;
	e->asked |= events;
	control(e->set->inner, EPOLL_CTL_MOD, e->fd, e->asked, address(e));
}

/* What the kernel may not have reported before the entry was muted. */
static uint32_t unreported(struct sr_epoll_entry *e)
{
	struct sr_epoll *set = e->set;

	if ((int)(atomic_load(&set->complete) - e->since) <= 0)
		return SR_EPOLL_ALL;
	return atomic_load(&e->st->tx_full) ? SR_EPOLL_OUT : 0;
}

static bool entry_shut(struct sr_epoll_entry *e, bool muted)
{
	struct sr_epoll *set = e->set;
	bool ok;

	if (e->shut)
		return true;
	if ((e->events & EPOLLONESHOT) && !e->ours && !muted)
		return false;	/* nobody knows whether it has fired */
	if (!sr_epoll_install(set))
		return false;
	pthread_mutex_lock(&set->lock);
	ok = !control(set->inner, EPOLL_CTL_ADD, e->fd, anchor_events(e),
		      address(e)) &&
	     (muted || !change(e, mute(e), address(set)));
	if (!ok)
		control(set->inner, EPOLL_CTL_DEL, e->fd, 0, 0);
	pthread_mutex_unlock(&set->lock);
	if (!ok)
		return false;
	e->shut = true;
	e->asked = anchor_events(e);
	atomic_fetch_add(&set->shut, 1);
	e->node.entry = e;
	sr_wait_attach(e->st, &e->node);
	sr_epoll_list(e, muted ? SR_EPOLL_ALL : unreported(e));
	return true;
}

static void entry_open(struct sr_epoll_entry *e)
{
	struct sr_epoll *set = e->set;

	if (!e->shut)
		return;
	sr_wait_detach(e->st, &e->node);
	e->shut = false;
	atomic_fetch_sub(&set->shut, 1);
	sr_epoll_unlist(e);
	bell_drop(e, &e->bell[0]);
	bell_drop(e, &e->bell[1]);
	control(set->inner, EPOLL_CTL_DEL, e->fd, 0, 0);
}

static struct sr_epoll_entry *entries(struct sr_stream *st)
{
	return atomic_load_explicit(&st->epoll, memory_order_relaxed);
}

bool sr_epoll_gate_shut(struct sr_stream *st)
{
	struct sr_epoll_entry *e;
	int err = errno;
	bool ok = true;

	/* Also if there is no entry: one may be on its way in. */
	pthread_mutex_lock(&st->epoll_lock);
	for (e = entries(st); e && ok; e = e->next_of_stream)
		ok = entry_shut(e, false);
	pthread_mutex_unlock(&st->epoll_lock);
	if (!ok) {
		sr_tell("%s: its epoll set cannot serve a link",
			sr_stream_label(st, (char[128]){ 0 }));
		sr_stream_bar(st, SR_REASON_EPOLL);
	}
	errno = err;
	return ok;
}

static void expel(struct sr_epoll_entry *e);

void sr_epoll_gate_opened(struct sr_stream *st)
{
	struct sr_epoll_entry *e, *next;
	int err = errno;

	pthread_mutex_lock(&st->epoll_lock);
	for (e = sr_any_gate_shut(st) ? NULL : entries(st); e; e = next) {
		next = e->next_of_stream;
		if (e->parked) {
			expel(e);
		} else if (e->shut) {
			entry_open(e);
			restore(e);
		}
	}
	pthread_mutex_unlock(&st->epoll_lock);
	errno = err;
}

/* ---- entries come and go: epoll_lock held ---- */

static struct sr_epoll_entry *find(struct sr_stream *st, struct sr_epoll *set,
				   int fd)
{
	struct sr_epoll_entry *e = entries(st);

	while (e && (e->set != set || e->fd != fd || e->fd_private))
		e = e->next_of_stream;
	return e;
}

static void entry_remove(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;
	struct sr_epoll *set = e->set;
	struct sr_epoll_entry *p = entries(st);
	bool busy;

	entry_open(e);
	if (p == e) {
		atomic_store(&st->epoll, e->next_of_stream);
	} else {
		while (p->next_of_stream != e)
			p = p->next_of_stream;
		p->next_of_stream = e->next_of_stream;
	}
	if (e->fd_private)
		sr_fd_close(e->fd);
	pthread_mutex_lock(&set->lock);
	pthread_mutex_lock(&set->ready_lock);
	e->live = false;
	busy = e->busy;		/* who looks at it frees it */
	pthread_mutex_unlock(&set->ready_lock);
	/* Who looked at it, or heard of it, while it was opened has listed it
	 * again; nobody will any more. */
	sr_epoll_unlist(e);
	if (!busy)
		sr_epoll_entry_free(e);
	pthread_mutex_unlock(&set->lock);
}

/* Out of the kernel's set, too. */
static void expel(struct sr_epoll_entry *e)
{
	pthread_mutex_lock(&e->set->lock);
	control(e->set->epfd, EPOLL_CTL_DEL, e->fd, 0, 0);
	pthread_mutex_unlock(&e->set->lock);
	entry_remove(e);
}

static bool park(struct sr_epoll_entry *e)
{
	if (!e->shut || (e->events & EPOLLEXCLUSIVE) ||
	    atomic_load(&e->set->forked) || atomic_load(&e->set->foreign))
		return false;
	pthread_mutex_lock(&e->set->ready_lock);
	e->parked = true;
	e->count++;		/* what a look has found by now does not count */
	e->edge = e->anchor = 0;
	pthread_mutex_unlock(&e->set->ready_lock);
	sr_epoll_unlist(e);
	return true;
}

static void set_events(struct sr_epoll_entry *e, uint32_t events,
		       epoll_data_t data)
{
	pthread_mutex_lock(&e->set->ready_lock);
	e->events = events;
	e->data = data;
	e->armed = true;
	e->parked = false;
	e->count++;
	pthread_mutex_unlock(&e->set->ready_lock);
}

static int change_shut(struct sr_epoll_entry *e, const struct epoll_event *ev)
{
	set_events(e, ev->events, ev->data);
	ask_anchor(e);
	sr_epoll_list(e, SR_EPOLL_ALL);
	return 0;
}

static int add(struct sr_epoll *set, struct sr_stream *st, int epfd, int fd,
	       struct epoll_event *ev)
{
	bool shut = sr_any_gate_shut(st);
	struct sr_epoll_entry *e;
	uint64_t data;
	uint32_t events;
	int r;

	/* What the kernel refuses in any case, it refuses itself. */
	if (!ev || ((ev->events & EPOLLEXCLUSIVE) &&
		    (ev->events & ~(uint32_t)EXCLUSIVE_OK)))
		return sr_real.epoll_ctl(epfd, EPOLL_CTL_ADD, fd, ev) < 0 ?
			       -errno : 0;
	e = sr_epoll_entry_new(set, st);
	if (!e)
		return -ENOMEM;
	e->fd = fd;
	set_events(e, ev->events, ev->data);
	e->ours = with_our_data(st, ev->events);
	if (e->ours)
		atomic_store(&set->oneshots, true);
	plain_form(e, &events, &data);
	if (shut)
		r = control(epfd, EPOLL_CTL_ADD, fd, mute(e), address(set));
	else
		r = control(epfd, EPOLL_CTL_ADD, fd, events, data);
	e->since = atomic_load(&set->calls);
	e->next_of_stream = entries(st);
	atomic_store(&st->epoll, e);
	if (r < 0) {
		entry_remove(e);
		return r;
	}
	if (!sr_any_gate_shut(st) || entry_shut(e, shut))
		return shut && !e->shut ? restore(e) : 0;
	leave(st);	/* no descriptor left, or the like */
	return restore(e);
}

static int modify(struct sr_epoll_entry *e, int epfd, struct epoll_event *ev)
{
	struct sr_epoll *set = e->set;
	uint32_t events = e->events;
	epoll_data_t data = e->data;
	unsigned count = e->count;
	bool armed = is_armed(e);
	int r;

	if (!ev || (ev->events & EPOLLEXCLUSIVE) || (events & EPOLLEXCLUSIVE))
		return sr_real.epoll_ctl(epfd, EPOLL_CTL_MOD, e->fd, ev) < 0 ?
			       -errno : 0;
	if (e->shut)		/* mute, whatever it is */
		return change_shut(e, ev);
	/* First: it may fire before the call has returned. */
	set_events(e, ev->events, ev->data);
	e->ours = with_our_data(e->st, e->events);
	if (e->ours)
		atomic_store(&set->oneshots, true);
	r = control(epfd, EPOLL_CTL_MOD, e->fd, e->events,
		    e->ours ? sr_epoll_entry_data(e) : e->data.u64);
	e->since = atomic_load(&set->calls);
	if (r < 0) {
		pthread_mutex_lock(&set->ready_lock);
		e->events = events;
		e->data = data;
		e->count = count;
		e->armed = armed;
		pthread_mutex_unlock(&set->ready_lock);
	}
	return r;
}

static int control_locked(struct sr_epoll *set, struct sr_stream *st, int epfd,
			  int op, int fd, struct epoll_event *ev)
{
	struct sr_epoll_entry *e = find(st, set, fd);
	int r;

	if (e && e->parked) {
		if (op == EPOLL_CTL_ADD && ev && !(ev->events & EPOLLEXCLUSIVE))
			return change_shut(e, ev);
		expel(e);
		e = NULL;
	}
	if (op == EPOLL_CTL_DEL && e && park(e))
		return 0;
	if (op == EPOLL_CTL_ADD && !e && !atomic_load(&set->foreign))
		return add(set, st, epfd, fd, ev);
	if (op == EPOLL_CTL_MOD && e)
		return modify(e, epfd, ev);
	r = sr_real.epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
	/* It was closed behind our back, and is back. */
	if (!r && op == EPOLL_CTL_ADD && e)
		return modify(e, epfd, ev);
	if (!r && op == EPOLL_CTL_DEL && e)
		entry_remove(e);
	return r;
}

/* In a set that we do not know. */
static int control_foreign(struct sr_stream *st, int epfd, int op, int fd,
			   struct epoll_event *ev)
{
	/* May it be in there at all? */
	if (op == EPOLL_CTL_ADD &&
	    !control(epfd, EPOLL_CTL_ADD, fd, EPOLLET, 0)) {
		sr_stream_plain(st, fd, SR_REASON_EPOLL);
		control(epfd, EPOLL_CTL_DEL, fd, 0, 0);
	}
	return sr_real.epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
}

int sr_epoll_ctl_stream(struct sr_epoll *set, struct sr_stream *st, int epfd,
			int op, int fd, struct epoll_event *ev)
{
	bool foreign = !set || atomic_load(&set->foreign);
	int r, err = errno;

	if (set && foreign)
		sr_epoll_foreign_use(set);
	if (op == EPOLL_CTL_ADD)
		sr_upgrade_used(st);
	if (sr_st_flags(st) & SR_ST_LISTEN) {
		r = sr_real.epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
	} else if (!set || (foreign && op == EPOLL_CTL_ADD)) {
		r = control_foreign(st, epfd, op, fd, ev);
	} else {
		pthread_mutex_lock(&st->epoll_lock);
		r = control_locked(set, st, epfd, op, fd, ev);
		pthread_mutex_unlock(&st->epoll_lock);
	}
	errno = err;
	return r;
}

/* ---- closing ---- */

/* The open file lives on, and so does the entry in the kernel's set, but under
 * a number by which nobody can change it. */
static bool renumber(struct sr_epoll_entry *e)
{
	int fd = sr_fd_dup(e->fd), epfd, inner = e->set->inner, r;
	uint32_t events = mute(e);
	uint64_t data = address(e->set);

	if (fd < 0)
		return false;
	pthread_mutex_lock(&e->set->lock);
	epfd = e->set->epfd;
	if (!e->shut)
		plain_form(e, &events, &data);
	control(epfd, EPOLL_CTL_DEL, e->fd, 0, 0);
	r = control(epfd, EPOLL_CTL_ADD, fd, events, data);
	if (e->shut) {
		control(inner, EPOLL_CTL_DEL, e->fd, 0, 0);
		control(inner, EPOLL_CTL_ADD, fd, anchor_events(e), address(e));
	}
	pthread_mutex_unlock(&e->set->lock);
	e->fd = fd;
	e->fd_private = true;
	return r == 0;
}

void sr_epoll_number_gone(struct sr_stream *st, int fd)
{
	struct sr_epoll_entry *e, *next;
	bool ok = true;

	if (!atomic_load(&st->epoll))
		return;
	pthread_mutex_lock(&st->epoll_lock);
	for (e = entries(st); e; e = next) {
		next = e->next_of_stream;
		if (e->fd == fd && e->parked) {
			expel(e);
			continue;
		}
		/* Barred: nobody will want to change it. */
		if (e->fd != fd || e->fd_private ||
		    (!e->shut && (sr_st_flags(st) & SR_ST_BARRED)))
			continue;
		ok &= renumber(e);
	}
	pthread_mutex_unlock(&st->epoll_lock);
	if (!ok)
		sr_stream_plain(st, fd, SR_REASON_EPOLL);
}

/* Plain entries go with the open file, as the kernel's do; it may be another
 * process's, too. */
void sr_epoll_stream_gone(struct sr_stream *st)
{
	struct sr_epoll_entry *e;

	if (!atomic_load(&st->epoll))
		return;
	pthread_mutex_lock(&st->epoll_lock);
	while ((e = entries(st))) {
		if (e->shut) {
			pthread_mutex_lock(&e->set->lock);
			control(e->set->epfd, EPOLL_CTL_DEL, e->fd, 0, 0);
			pthread_mutex_unlock(&e->set->lock);
		}
		entry_remove(e);
	}
	pthread_mutex_unlock(&st->epoll_lock);
}

static struct sr_stream *first_stream(struct sr_epoll *set)
{
	struct sr_stream *st = NULL;
	struct sr_epoll_entry *e;

	pthread_mutex_lock(&set->lock);
	for (e = set->entries; e && !st; e = e->next)
		if (e->live)
			st = sr_stream_ref(e->st);
	pthread_mutex_unlock(&set->lock);
	return st;
}

void sr_epoll_clear(struct sr_epoll *set)
{
	struct sr_epoll_entry *e, *next;
	struct sr_stream *st;

	while ((st = first_stream(set))) {
		pthread_mutex_lock(&st->epoll_lock);
		for (e = entries(st); e; e = next) {
			next = e->next_of_stream;
			if (e->set != set)
				continue;
			/* Another process may have the set, too. */
			if (e->shut && set->forked)
				entry_open(e), restore(e);
			entry_remove(e);
		}
		pthread_mutex_unlock(&st->epoll_lock);
		sr_stream_put(st);
	}
}

/* ---- other processes ---- */

/* Before fork, all locks held.  One that has fired is mute, until a MOD. */
void sr_epoll_own_data(struct sr_epoll *set)
{
	struct sr_epoll_entry *e;

	for (e = set->entries; e; e = e->next) {
		if (!e->live || e->shut || !e->ours || !e->armed)
			continue;
		e->ours = false;
		control(set->epfd, EPOLL_CTL_MOD, e->fd, e->events,
			e->data.u64);
	}
}

void sr_epoll_share(struct sr_epoll *set)
{
	struct sr_epoll_entry *e;

	if (atomic_exchange(&set->foreign, true))
		return;
	pthread_mutex_lock(&set->lock);
	for (e = set->entries; e; e = e->next)
		if (e->live)
			leave(e->st);
	pthread_mutex_unlock(&set->lock);
}
