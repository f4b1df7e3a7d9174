/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gone.c - what becomes of a stream's entries in epoll sets when one of its descriptors is
 * closed, when the last one is, when it is retired, and in the child of fork.
 *
 * Lock: the stream's sets.lock.
 */
#include "base/real.h"

#include "base/apart.h"
#include "engine/anchor.h"
#include "engine/engine.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"

int sr_epoll_each(struct sr_stream *st, struct sr_epoll *set, int number,
		  void (*fn)(struct sr_epoll_entry *e))
{
	struct sr_epoll_entry *e, *next;
	int n = 0;

	if (!sr_look(&st->sets.first))	/* pair foreign: entry_add() */
		return 0;
	sr_lock(&st->sets.lock);
	for (e = sr_epoll_entries(st); e; e = next) {
		next = e->next_of_stream;
		if (!sr_epoll_is_of(e, set, number))
			continue;
		n++;
		if (fn)
			fn(e);
	}
	sr_unlock(&st->sets.lock);
	return n;
}

/* The stream's last descriptor is closed here.  A plain entry's registration stays in the kernel's
 * set: the kernel drops it with the open file, which another process may still have. */
void sr_epoll_stream_gone(struct sr_stream *st)
{
	sr_epoll_each(st, NULL, -1, sr_epoll_remove);
}

/* Have both directions ended, and has the program taken all bytes?  Then there is nothing to
 * switch back, and the kernel says the same of the stream, or will in a moment. */
static bool has_ended_both(struct sr_stream *st)
{
	bool over;

	sr_stream_lock(st);
	over = sr_load(&st->anchor) >= 0 && st->tx.ended && !st->in.pushback_len && !sr_ring_bytes(st);
	if (over && sr_gate_shut(&st->in.gate) && st->rx.state >= SR_RX_LINK)
		over = st->rx.state == SR_RX_EOF || st->rx.end;
	else if (over)
		over = sr_anchor_ended(st);
	sr_stream_unlock(st);
	return over;
}

/*
 * fd is closed, but other descriptors of the stream stay open.  So the kernel keeps the entry
 * in its set, under a number by which epoll_ctl(2) cannot change it any more.  Therefore it is
 * given back to the program for good.  (If the peer does not answer in time, so that the stream
 * cannot become plain, the entry leaves the kernel's set instead.)
 */
void sr_epoll_number_gone(struct sr_stream *st, int fd)
{
	if (!sr_epoll_each(st, NULL, fd, NULL))
		return;
	sr_stream_make_plain(st, SR_REASON_EPOLL, false);
	sr_epoll_each(st, NULL, fd, has_ended_both(st) ? sr_epoll_release_now : sr_epoll_release);
	sr_epoll_each(st, NULL, fd, sr_epoll_remove);
}

void sr_epoll_stream_retired(struct sr_stream *st)
{
	struct sr_epoll_entry *e;

	while ((e = sr_epoll_entries(st)))
		sr_epoll_release(e);
}

/* In the child of fork.  Gives back the entries' references to the stream.  The entries stay in
 * memory, so that their tokens are recognized.  Only the parent may change what the kernel's set
 * holds for them, so the set would not hear of a link that the stream gets in the child.  Returns
 * whether there are such entries: then the stream must not get a link here. */
SR_SELDOM bool sr_epoll_stream_inherited(struct sr_stream *st)
{
	struct sr_epoll_entry *e = sr_load(&st->sets.first);
	bool any = false;

	sr_store(&st->sets.first, NULL);
	sr_store(&st->sets.nested, 0);
	for (; e; e = e->next_of_stream) {
		any |= !sr_epoll_is_deleted(e);
		sr_stream_put(st);
	}
	return any;
}
