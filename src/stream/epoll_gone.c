/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epoll_gone.c - numbers, streams and sets go: what close(2), dup2(2), fork(2) and a
 * descriptor handed over do to the entries of sets.
 */
#include "base/real.h"

#include <errno.h>

#include "base/fdpriv.h"
#include "stream/epoll_impl.h"

/* ---- closing ---- */

/* The same entry under another number.  0 or -errno. */
static int renumber(struct sr_epoll_entry *e, int fd)
{
	int epfd, inner = e->set->inner, r;
	uint32_t events = sr_epoll_mute(e);
	uint64_t data = sr_epoll_address(e->set);

	sr_lock(&e->set->lock);
	epfd = e->set->epfd;
	if (!e->shut)
		sr_epoll_plain_form(e, &events, &data);
	sr_epoll_control(epfd, EPOLL_CTL_DEL, e->fd, 0, 0);
	r = sr_epoll_control(epfd, EPOLL_CTL_ADD, fd, events, data);
	if (e->shut) {
		sr_epoll_control(inner, EPOLL_CTL_DEL, e->fd, 0, 0);
		sr_epoll_control(inner, EPOLL_CTL_ADD, fd, e->asked,
				 sr_epoll_address(e));
	}
	sr_unlock(&e->set->lock);
	e->fd = fd;
	return r;
}

/* The open file lives on, and so does the entry in the kernel's set, but under
 * a number by which nobody can change it. */
static bool hide(struct sr_epoll_entry *e)
{
	int fd = sr_fd_dup(e->fd);

	if (fd < 0)
		return false;
	e->number = e->fd;
	e->fd_private = true;
	return !renumber(e, fd);
}

static bool show(struct sr_epoll_entry *e)
{
	int fd = e->fd, r = renumber(e, e->number);

	e->fd_private = false;
	sr_fd_close(fd);
	return !r;
}

void sr_epoll_number_gone(struct sr_stream *st, int fd)
{
	struct sr_epoll_entry *e, *next;
	bool ok = true;

	if (!atomic_load(&st->epoll))
		return;
	sr_lock(&st->epoll_lock);
	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (e->fd == fd && e->parked) {
			sr_epoll_expel(e);
			continue;
		}
		/* Barred: nobody will want to change it. */
		if (e->fd != fd || e->fd_private ||
		    (!e->shut && (sr_st_flags(st) & SR_ST_BARRED)))
			continue;
		ok &= hide(e);
	}
	sr_unlock(&st->epoll_lock);
	if (!ok)
		sr_stream_plain(st, fd, SR_REASON_EPOLL);
}

/* By which the kernel would know the entry again. */
void sr_epoll_number_back(struct sr_stream *st, int fd)
{
	struct sr_epoll_entry *e;
	bool ok = true;

	if (!atomic_load(&st->epoll))
		return;
	sr_lock(&st->epoll_lock);
	for (e = sr_epoll_entries(st); e; e = e->next_of_stream)
		if (e->fd_private && e->number == fd)
			ok &= show(e);
	sr_unlock(&st->epoll_lock);
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
	sr_lock(&st->epoll_lock);
	while ((e = sr_epoll_entries(st))) {
		if (e->shut)
			sr_epoll_expel(e);
		else
			sr_epoll_entry_remove(e);
	}
	sr_unlock(&st->epoll_lock);
}

bool sr_epoll_let_go(struct sr_stream *st)
{
	struct sr_epoll_entry *e;

	for (e = sr_epoll_entries(st); e; e = e->next_of_stream)
		if (e->shut || e->ours || e->fd_private)
			return false;
	while ((e = sr_epoll_entries(st)))
		sr_epoll_entry_remove(e);
	return true;
}

static struct sr_stream *first_stream(struct sr_epoll *set)
{
	struct sr_stream *st = NULL;
	struct sr_epoll_entry *e;

	sr_lock(&set->lock);
	for (e = set->entries; e && !st; e = e->next)
		if (e->live)
			st = sr_stream_ref(e->st);
	sr_unlock(&set->lock);
	return st;
}

void sr_epoll_clear(struct sr_epoll *set)
{
	struct sr_epoll_entry *e, *next;
	struct sr_stream *st;

	while ((st = first_stream(set))) {
		sr_lock(&st->epoll_lock);
		for (e = sr_epoll_entries(st); e; e = next) {
			next = e->next_of_stream;
			if (e->set != set)
				continue;
			/* Another process may have the set, too. */
			if (e->shut && set->forked)
				sr_epoll_entry_open(e), sr_epoll_restore(e);
			sr_epoll_entry_remove(e);
		}
		sr_unlock(&st->epoll_lock);
		sr_stream_put(st);
	}
}

/* ---- other processes ---- */

/* Fired ones are mute, until a MOD.  Who has been given the event already, with our
 * data, leaves it to the next.  set->lock held. */
static void own_data(struct sr_epoll_entry *e)
{
	struct sr_epoll *set = e->set;
	bool armed;

	if (!e->live || e->shut || !e->ours)
		return;
	e->ours = false;
	sr_lock(&set->ready_lock);
	armed = e->armed;
	e->count += armed;
	sr_unlock(&set->ready_lock);
	if (armed)
		sr_epoll_control(set->epfd, EPOLL_CTL_MOD, e->fd, e->events,
				 e->data.u64);
}

/* Before fork, all locks held. */
void sr_epoll_own_data(struct sr_epoll *set)
{
	struct sr_epoll_entry *e;

	for (e = set->entries; e; e = e->next)
		own_data(e);
}

void sr_epoll_share(struct sr_epoll *set)
{
	struct sr_epoll_entry *e;

	if (atomic_exchange(&set->foreign, true))
		return;
	sr_lock(&set->lock);
	for (e = set->entries; e; e = e->next)
		if (e->live)
			sr_epoll_leave(e->st);
	sr_unlock(&set->lock);
}

static struct sr_stream *next_to_pass(struct sr_epoll *set)
{
	struct sr_stream *st = NULL;
	struct sr_epoll_entry *e;

	sr_lock(&set->lock);
	for (e = set->entries; e && !st; e = e->next)
		if (e->live && !e->passed)
			st = sr_stream_ref(e->st);
	sr_unlock(&set->lock);
	return st;
}

static void pass(struct sr_epoll *set, struct sr_stream *st)
{
	struct sr_epoll_entry *e;

	while (sr_stream_plain(st, -1, SR_REASON_EPOLL) == -ETIMEDOUT)
		;
	sr_epoll_gate_opened(st); /* if who opened it has not come to it yet */
	sr_lock(&st->epoll_lock);
	sr_lock(&set->lock);
	for (e = sr_epoll_entries(st); e; e = e->next_of_stream) {
		if (e->set != set)
			continue;
		own_data(e);
		e->passed = true;
	}
	sr_unlock(&set->lock);
	sr_unlock(&st->epoll_lock);
}

void sr_epoll_pass(struct sr_epoll *set)
{
	struct sr_stream *st;

	sr_epoll_share(set);
	while ((st = next_to_pass(set))) {
		pass(set, st);
		sr_stream_put(st);
	}
	sr_epoll_uninstall(set);
}
