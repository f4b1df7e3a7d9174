/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_entry.c - entries of sets: epoll_ctl(2), what a gate's shutting and
 * opening does to them.
 */
#include "base/real.h"

#include <errno.h>

#include "base/fdpriv.h"
#include "base/log.h"
#include "base/readable.h"
#include "stream/epoll_impl.h"

/* EPOLLEXCLUSIVE goes with these only: epoll_ctl(2). */
#define EXCLUSIVE_OK \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | \
	 EPOLLEXCLUSIVE)

int sr_epoll_control(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return sr_real.epoll_ctl(epfd, op, fd, &ev) < 0 ? -errno : 0;
}

/* ---- the kernel's entry: one's own, or mute ---- */

uint64_t sr_epoll_entry_data(const struct sr_epoll_entry *e)
{
	return sr_epoll_address(e) | (e->count & SR_EPOLL_COUNT);
}

uint32_t sr_epoll_mute(const struct sr_epoll_entry *e)
{
	return EPOLLET | (e->events & EPOLLEXCLUSIVE);
}

/* An exclusive entry cannot be modified.  set->lock held. */
static int change(struct sr_epoll_entry *e, uint32_t events, uint64_t data)
{
	int epfd = e->set->epfd;

	if (!(e->events & EPOLLEXCLUSIVE))
		return sr_epoll_control(epfd, EPOLL_CTL_MOD, e->fd, events,
					data);
	sr_epoll_control(epfd, EPOLL_CTL_DEL, e->fd, 0, 0);
	return sr_epoll_control(epfd, EPOLL_CTL_ADD, e->fd, events, data);
}

static bool is_armed(struct sr_epoll_entry *e)
{
	bool armed;

	sr_lock(&e->set->ready_lock);
	armed = e->armed;
	sr_unlock(&e->set->ready_lock);
	return armed;
}

/* The entry as it is while plain.  One-shot and fired: mute until the program
 * says more. */
void sr_epoll_plain_form(struct sr_epoll_entry *e, uint32_t *events,
			 uint64_t *data)
{
	*events = e->events;
	*data = e->ours ? sr_epoll_entry_data(e) : e->data.u64;
	if ((e->events & EPOLLONESHOT) && !is_armed(e)) {
		*events = sr_epoll_mute(e);
		*data = sr_epoll_address(e->set);
	}
}

/* Are its one-shot events decided by us? */
static bool with_our_data(struct sr_stream *st, uint32_t events)
{
	return (events & EPOLLONESHOT) &&
	       !(sr_st_flags(st) & SR_ST_BARRED);
}

int sr_epoll_restore(struct sr_epoll_entry *e)
{
	uint64_t data;
	uint32_t events;
	int r;

	e->ours = with_our_data(e->st, e->events);
	if (e->ours)
		atomic_store(&e->set->oneshots, true);
	sr_lock(&e->set->lock);
	sr_epoll_plain_form(e, &events, &data);
	r = change(e, events, data);
	e->since = atomic_load(&e->set->calls);
	sr_unlock(&e->set->lock);
	return r;
}

/* Back to TCP, in the background. */
void sr_epoll_leave(struct sr_stream *st)
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
		sr_epoll_control(e->set->inner, EPOLL_CTL_DEL, b->fd, 0, 0);
	if (b->own)
		sr_fd_close(b->fd);
	sr_link_put(b->link);
	*b = (struct sr_epoll_bell){ 0 };
}

/* False: it cannot be heard. */
static bool bell_hang(struct sr_epoll_entry *e, struct sr_epoll_bell *b,
		      struct sr_link *link, int fd)
{
	uint64_t data = sr_epoll_address(e) | SR_EPOLL_BELL;
	uint32_t events = EPOLLIN | EPOLLET;
	int inner = e->set->inner, r = 0;

	*b = (struct sr_epoll_bell){ sr_link_get(link), fd, false };
	if (fd >= 0)
		r = sr_epoll_control(inner, EPOLL_CTL_ADD, fd, events, data);
	if (r == -EEXIST) {
		/* The stream is in the set by another of its descriptors. */
		b->fd = sr_fd_dup(fd);
		b->own = b->fd >= 0;
		r = b->fd;
		if (b->own)
			r = sr_epoll_control(inner, EPOLL_CTL_ADD, b->fd,
					     events, data);
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

	sr_lock(&st->epoll_lock);
	shut = e->shut;
	if (shut) {
		for (i = 0; i < 2; i++)
			if (e->bell[i].link != rx && e->bell[i].link != tx)
				bell_drop(e, &e->bell[i]);
		ok = stand(e, rx, SR_NOTIFY_RX) && stand(e, tx, full ? SR_NOTIFY_TX : 0);
	}
	sr_unlock(&st->epoll_lock);
	if (!ok)
		sr_epoll_leave(st);
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
	sr_epoll_control(e->set->inner, EPOLL_CTL_MOD, e->fd, e->asked,
			 sr_epoll_address(e));
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
	sr_lock(&set->lock);
	ok = !sr_epoll_control(set->inner, EPOLL_CTL_ADD, e->fd,
			       anchor_events(e), sr_epoll_address(e)) &&
	     (muted || !change(e, sr_epoll_mute(e), sr_epoll_address(set)));
	if (!ok)
		sr_epoll_control(set->inner, EPOLL_CTL_DEL, e->fd, 0, 0);
	sr_unlock(&set->lock);
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

void sr_epoll_entry_open(struct sr_epoll_entry *e)
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
	sr_epoll_control(set->inner, EPOLL_CTL_DEL, e->fd, 0, 0);
}

bool sr_epoll_gate_shut(struct sr_stream *st)
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

void sr_epoll_gate_opened(struct sr_stream *st)
{
	struct sr_epoll_entry *e, *next;
	int err = errno;

	sr_lock(&st->epoll_lock);
	for (e = sr_any_gate_shut(st) ? NULL : sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (e->parked) {
			sr_epoll_expel(e);
		} else if (e->shut) {
			sr_epoll_entry_open(e);
			sr_epoll_restore(e);
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

	while (e && (e->set != set || e->fd != fd || e->fd_private))
		e = e->next_of_stream;
	return e;
}

void sr_epoll_entry_remove(struct sr_epoll_entry *e)
{
	struct sr_stream *st = e->st;
	struct sr_epoll *set = e->set;
	struct sr_epoll_entry *p = sr_epoll_entries(st);
	bool busy;

	sr_epoll_entry_open(e);
	if (p == e) {
		atomic_store(&st->epoll, e->next_of_stream);
	} else {
		while (p->next_of_stream != e)
			p = p->next_of_stream;
		p->next_of_stream = e->next_of_stream;
	}
	if (e->fd_private)
		sr_fd_close(e->fd);
	sr_lock(&set->lock);
	sr_lock(&set->ready_lock);
	e->live = false;
	busy = e->busy;		/* who looks at it frees it */
	sr_unlock(&set->ready_lock);
	/* Who looked at it, or heard of it, while it was opened has listed it
	 * again; nobody will any more. */
	sr_epoll_unlist(e);
	if (!busy)
		sr_epoll_entry_free(e);
	sr_unlock(&set->lock);
}

/* Out of the kernel's set, too. */
void sr_epoll_expel(struct sr_epoll_entry *e)
{
	sr_lock(&e->set->lock);
	sr_epoll_control(e->set->epfd, EPOLL_CTL_DEL, e->fd, 0, 0);
	sr_unlock(&e->set->lock);
	sr_epoll_entry_remove(e);
}

static bool park(struct sr_epoll_entry *e)
{
	if (!e->shut || (e->events & EPOLLEXCLUSIVE) ||
	    atomic_load(&e->set->forked) || atomic_load(&e->set->foreign))
		return false;
	sr_lock(&e->set->ready_lock);
	e->parked = true;
	e->count++;		/* what a look has found by now does not count */
	e->edge = e->anchor = 0;
	sr_unlock(&e->set->ready_lock);
	sr_epoll_unlist(e);
	return true;
}

static void set_events(struct sr_epoll_entry *e, uint32_t events,
		       epoll_data_t data)
{
	sr_lock(&e->set->ready_lock);
	e->events = events;
	e->data = data;
	e->armed = true;
	e->parked = false;
	e->count++;
	sr_unlock(&e->set->ready_lock);
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
	if ((ev->events & EPOLLEXCLUSIVE) &&
	    (ev->events & ~(uint32_t)EXCLUSIVE_OK))
		return sr_real.epoll_ctl(epfd, EPOLL_CTL_ADD, fd, ev) < 0 ?
			       -errno : 0;
	e = sr_epoll_entry_new(set, st);
	if (!e)
		return -ENOMEM;
	if (atomic_load(&set->foreign)) /* since control_locked() has looked */
		sr_epoll_leave(st);
	e->fd = fd;
	set_events(e, ev->events, ev->data);
	e->ours = with_our_data(st, ev->events);
	if (e->ours)
		atomic_store(&set->oneshots, true);
	sr_epoll_plain_form(e, &events, &data);
	if (shut)
		r = sr_epoll_control(epfd, EPOLL_CTL_ADD, fd, sr_epoll_mute(e),
				     sr_epoll_address(set));
	else
		r = sr_epoll_control(epfd, EPOLL_CTL_ADD, fd, events, data);
	e->since = atomic_load(&set->calls);
	e->next_of_stream = sr_epoll_entries(st);
	atomic_store(&st->epoll, e);
	if (r < 0) {
		sr_epoll_entry_remove(e);
		return r;
	}
	if (!sr_any_gate_shut(st) || entry_shut(e, shut))
		return shut && !e->shut ? sr_epoll_restore(e) : 0;
	sr_epoll_leave(st);	/* no descriptor left, or the like */
	return sr_epoll_restore(e);
}

static int modify(struct sr_epoll_entry *e, int epfd, struct epoll_event *ev)
{
	struct sr_epoll *set = e->set;
	uint32_t events = e->events;
	epoll_data_t data = e->data;
	unsigned count = e->count;
	bool armed = !(events & EPOLLONESHOT) || is_armed(e);
	int r;

	if ((ev->events & EPOLLEXCLUSIVE) || (events & EPOLLEXCLUSIVE))
		return sr_real.epoll_ctl(epfd, EPOLL_CTL_MOD, e->fd, ev) < 0 ?
			       -errno : 0;
	if (e->shut)		/* mute, whatever it is */
		return change_shut(e, ev);
	/* First: it may fire before the call has returned. */
	set_events(e, ev->events, ev->data);
	e->ours = with_our_data(e->st, e->events);
	if (e->ours)
		atomic_store(&set->oneshots, true);
	r = sr_epoll_control(epfd, EPOLL_CTL_MOD, e->fd, e->events,
			     e->ours ? sr_epoll_entry_data(e) : e->data.u64);
	e->since = atomic_load(&set->calls);
	if (r < 0) {
		sr_lock(&set->ready_lock);
		e->events = events;
		e->data = data;
		e->count = count;
		e->armed = armed;
		sr_unlock(&set->ready_lock);
	}
	return r;
}

static int control_locked(struct sr_epoll *set, struct sr_stream *st, int epfd,
			  int op, int fd, struct epoll_event *ev)
{
	struct sr_epoll_entry *e = find(st, set, fd);
	int r;

	if (e && e->parked) {
		if (op == EPOLL_CTL_ADD && !(ev->events & EPOLLEXCLUSIVE))
			return change_shut(e, ev);
		sr_epoll_expel(e);
		e = NULL;
	}
	if (op == EPOLL_CTL_DEL && e && park(e))
		return 0;
	if (op == EPOLL_CTL_ADD && !e && !atomic_load(&set->foreign) &&
	    !sr_is_plain(st))
		return add(set, st, epfd, fd, ev);
	if (op == EPOLL_CTL_MOD && e)
		return modify(e, epfd, ev);
	r = sr_real.epoll_ctl(epfd, op, fd, ev) < 0 ? -errno : 0;
	/* It was closed behind our back, and is back. */
	if (!r && op == EPOLL_CTL_ADD && e)
		return modify(e, epfd, ev);
	if (!r && op == EPOLL_CTL_DEL && e)
		sr_epoll_entry_remove(e);
	return r;
}

/* In a set that we do not know. */
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

	if (op != EPOLL_CTL_DEL && !sr_readable(ev, sizeof(*ev)))
		return -EFAULT;
	if (set && foreign)
		sr_epoll_foreign_use(set);
	if (op == EPOLL_CTL_ADD)
		sr_upgrade_used(st);
	if (sr_st_flags(st) & (SR_ST_LISTEN | SR_ST_DEAF)) {
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
