/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * nest.c - sets that are themselves waited for: by poll(2) or select(2), or in another set.
 *
 * The kernel tells the waiting thread whether such a set is readable, so the kernel's set must be
 * readable exactly if the set has something to report.  For that a nested set has a flag in the
 * kernel's set, an eventfd that is level-triggered, and readable as long as an entry is listed.
 * Each change of the flag costs a system call, which ordinary sets do not pay.
 *   - No entry is polled: each visit arms it, also if it is ready, so that the next arrival
 *     rings its doorbell, which makes an edge in an outer set.  The nested set counts as one
 *     more sleeper.
 *   - A visit drains the doorbell when it arms the entry.  So the doorbell of an entry that has
 *     left the queue, because it is not ready, is not readable either.
 *   - When a call has taken bytes or room, its thread looks at the stream's nested sets
 *     (sr_epoll_settle()), because a poll of a set has to find it as it is now, as with the
 *     kernel's own sets.  So the incoming direction has no fast path.
 *   - A thread that sees bytes or room come makes the flag readable at once, but not for the
 *     entry that it visits: the visit does so, if the entry has something to report.  The service
 *     thread leaves it to a visit, too, if the entry has a doorbell, which has rung.
 *   - After a message of the link, or a switch, it is not known whether the entry has something to
 *     report, and the thread that notices may hold any lock.  So the service thread looks first.
 *   - A loop in a loop waits in the outer set, waits in this one, takes the bytes of the message and
 *     waits in the outer set again.  If the wait in this set raised the flag for the entry that it
 *     reports, each message would raise and lower it in vain.  So it leaves the flag
 *     (sr_epoll_tell_later()) if the set is in exactly one other set, `outer', that only this
 *     process has, and no thread sleeps there.  It then notes in `outer' that this set is "unsaid":
 *     ready, without a flag that says so.  A thread that is about to sleep in `outer' raises the
 *     flags of its unsaid sets first.  No wake-up is lost: that thread counts itself as a sleeper
 *     and then looks for unsaid sets; a thread that leaves the flag counts the set as unsaid, and
 *     then looks for sleepers.
 *   - A thread that is going to wait in `outer' spins first, as in any set with links, if a set in it
 *     has any.  It can only ask the kernel at each look.  `outer' counts as linked then.
 *   - The kernel's set asks the anchor only for the events that the kernel decides.  The service
 *     thread reads a mark.
 *
 * tests/model/nest.pml is a model of this.  A set stays nested until it ends, because nothing tells
 * the library when its last waiter has gone.
 *
 * Lock: flag_lock, a leaf: its holder looks at `ready', and then changes the flag.
 */
#include "base/real.h"

#include <errno.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "epoll/epoll.h"
#include "epoll/family.h"
#include "epoll/impl.h"
#include "epoll/look.h"
#include "epoll/nest.h"

/* Once `ready' has reached this, no more sets are counted in it as unsaid, so that it does not
 * overflow.  (Threads that count at the same time may exceed it by SR_EPOLL_UNSAID each.) */
#define UNSAID_MAX (1 << 30)

atomic_bool sr_epolls_untidy;
atomic_bool sr_epolls_nested;

/* For a dead entry a thread changes `ready' and `dead' one after the other, and calls
 * sr_epoll_tell() afterwards.  So a result from between these changes does no harm.  But as long
 * as an entry that is not dead is listed, the result must be true. */
static bool is_any_listed(struct sr_epoll *set)
{
	bool listed;
	int dead;

	do {		/* the acquires pair as impl.h says */
		dead = sr_observe(&set->dead);
		listed = sr_observe(&set->ready) % SR_EPOLL_UNSAID > dead;
	} while (sr_load(&set->dead) != dead);
	return listed;
}

/* Looks at the numbers with flag_lock held: if two threads have changed them, the second one that
 * gets here sees both changes. */
static void set_flag(struct sr_epoll *set, bool news)
{
	bool listed = is_any_listed(set);
	uint64_t n = 1;
	int err = errno;

	if (sr_load(&set->flag) >= 0 && (listed != set->raised || (listed && news))) {
		if (listed)
			(void)!sr_now_write(sr_load(&set->flag), &n, sizeof(n));
		else
			(void)!sr_now_read(sr_load(&set->flag), &n, sizeof(n));
		set->raised = listed;
	}
	errno = err;
}

/* The set is counted as unsaid in `outer' from now on, and nowhere else; NULL: nowhere at all.
 * flag_lock held. */
static void count_unsaid(struct sr_epoll *set, struct sr_epoll *outer)
{
	if (set->unsaid == outer)
		return;
	if (set->unsaid)
		atomic_fetch_sub_explicit(&set->unsaid->ready, SR_EPOLL_UNSAID,
					  memory_order_relaxed);
	set->unsaid = outer;
	if (outer)	/* pair sleepers: may_leave_flag() */
		atomic_fetch_add_explicit(&outer->ready, SR_EPOLL_UNSAID, memory_order_seq_cst);
}

/* sr_epoll_tell(), with flag_lock held. */
static void tell_now(struct sr_epoll *set, bool news)
{
	count_unsaid(set, NULL);
	set_flag(set, news);
}

void sr_epoll_tell(struct sr_epoll *set, bool news)
{
	sr_lock(&set->flag_lock);
	tell_now(set, news);
	sr_unlock(&set->flag_lock);
}

static bool is_known_to_us_alone(struct sr_epoll *set)
{
	return !sr_load(&set->forked) && !sr_load(&set->foreign);
}

/* Does every thread that is going to sleep for the set look first whether it is unsaid?  Those do
 * that wait in `outer' in this process.  flag_lock held; whoever changes one of these conditions
 * calls sr_epoll_tell() afterwards. */
static bool may_leave_flag(struct sr_epoll *set, struct sr_epoll *outer)
{
	return outer && outer != SR_EPOLL_OUTERS && sr_load(&outer->ready) < UNSAID_MAX &&
	       !sr_epoll_is_nested(outer) &&
	       is_known_to_us_alone(set) && is_known_to_us_alone(outer);
}

/* pair sleepers: the caller has changed `ready' of both; ask_kernel() changes `sleepers', and
 * then looks at `ready'. */
static bool has_any_sleepers(struct sr_epoll *set, struct sr_epoll *outer)
{
	return (sr_look(&set->sleepers) & SR_EPOLL_SLEEPERS) > 1 ||
	       sr_look(&outer->sleepers) & SR_EPOLL_SLEEPERS;
}

void sr_epoll_tell_later(struct sr_epoll *set)
{
	struct sr_epoll *outer;

	sr_lock(&set->flag_lock);
	outer = sr_load(&set->outer);
	if (set->raised || !is_any_listed(set) || !may_leave_flag(set, outer))
		outer = NULL;
	count_unsaid(set, outer);
	if (!outer || has_any_sleepers(set, outer))
		tell_now(set, false);
	sr_unlock(&set->flag_lock);
}

void sr_epoll_say_members(struct sr_epoll *outer)
{
	struct sr_epoll *set;

	for (set = sr_epoll_first(); set; set = set->next_set)
		if (sr_load(&set->outer) == outer)
			sr_epoll_tell(set, false);
}

bool sr_epoll_has_linked_members(struct sr_epoll *outer)
{
	struct sr_epoll *set;

	if (!sr_load(&outer->nests))
		return false;
	for (set = sr_epoll_first(); set; set = set->next_set)
		if (sr_load(&set->outer) == outer && sr_epoll_has_links(set))
			return true;
	return false;
}

/* The nested set has a link: threads that wait for the one that it is in may spin. */
static void note_member_linked(struct sr_epoll *set)
{
	struct sr_epoll *outer;

	sr_lock(&set->flag_lock);	/* or `outer' might end */
	outer = sr_load(&set->outer);
	if (outer && outer != SR_EPOLL_OUTERS &&
	    !atomic_exchange_explicit(&outer->nests, true, memory_order_relaxed))
		sr_count(&outer->linked, 1);
	sr_unlock(&set->flag_lock);
}

static void note_untidy(struct sr_epoll *set)
{
	/* pair untidy: sr_epolls_tidy_all() clears sr_epolls_untidy and looks at set->untidy;
	 * sr_epoll_tidy_nested() clears that and looks at `edge', changed by note_change(). */
	sr_change(&set->untidy, true);
	sr_change(&sr_epolls_untidy, true);
}

static void note_change(struct sr_epoll_entry *e, uint32_t edge)
{
	if (sr_load(&e->state) & SR_EPOLL_DEAD)
		sr_epoll_enqueue(e, edge);
	else	/* pair untidy: sr_epoll_tidy_nested() */
		atomic_fetch_or_explicit(&e->edge, edge | SR_EPOLL_AGAIN, memory_order_seq_cst);
	note_untidy(sr_epoll_set_of(e));
}

void sr_epoll_list_nested(struct sr_epoll_entry *e, uint32_t edge)
{
	note_change(e, edge);
	sr_stream_kick(e->st);
}

void sr_epoll_list_changed(struct sr_epoll_entry *e)
{
	if (sr_epoll_is_nested(sr_epoll_set_of(e)))
		note_change(e, SR_EPOLL_ALL);
	else
		sr_epoll_list(e, SR_EPOLL_ALL);
}

void sr_epoll_list_arrival(struct sr_epoll_entry *e, uint32_t edge)
{
	const unsigned may = SR_EPOLL_LIVE | SR_EPOLL_ARMED;

	if ((sr_load(&e->state) & may) != may)
		return;		/* a change lists it */
	if (sr_epoll_looks_at(e)) {
		sr_epoll_enqueue(e, edge);
		return;
	}
	/* Without a doorbell nothing else makes an edge in an outer set. */
	if (sr_loop_here() && sr_load(&e->rings)) {
		sr_epoll_list_nested(e, edge);
		return;
	}
	sr_epoll_enqueue(e, edge);
	sr_epoll_tell(sr_epoll_set_of(e), edge);
}

/* ---- looking ---- */

void sr_epolls_tidy_all(void)
{
	struct sr_epoll *set;

	sr_change(&sr_epolls_untidy, false);	/* pair untidy: note_untidy() */
	for (set = sr_epoll_first(); set; set = set->next_set)
		if (sr_look(&set->untidy) && sr_epoll_is_nested(set))
			sr_epoll_tidy_nested(set, false, NULL);
}

void sr_epoll_settle(struct sr_stream *st)
{
	struct sr_epoll_entry *e;
	struct sr_epoll *set = NULL;

	sr_lock(&st->sets.lock);
	e = sr_load(&st->sets.first);
	for (; e; e = e->next_of_stream) {
		if (!e->linked || !sr_epoll_is_nested(sr_epoll_set_of(e)))
			continue;
		if (set && set != sr_epoll_set_of(e)) {
			sr_epoll_enqueue(e, 0);
			note_untidy(sr_epoll_set_of(e));
		}
		set = set ?: sr_epoll_set_of(e);
	}
	sr_unlock(&st->sets.lock);
	if (set)
		sr_epoll_tidy_nested(set, false, st);
	sr_epolls_tidy();
}

/* sets.lock held. */
static int count_nested(struct sr_stream *st)
{
	struct sr_epoll_entry *e;
	int n = 0;

	for (e = sr_epoll_entries(st); e; e = e->next_of_stream)
		if (e->linked && sr_epoll_is_nested(sr_epoll_set_of(e))) {
			note_member_linked(sr_epoll_set_of(e));
			n++;
		}
	sr_store(&st->sets.nested, n);
	return n;
}

void sr_epoll_note_nested(struct sr_epoll_entry *e)
{
	if (sr_epoll_is_nested(sr_epoll_set_of(e)))
		count_nested(e->st);
}

static bool has_nested(struct sr_stream *st)
{
	int n;

	sr_lock(&st->sets.lock);
	n = count_nested(st);
	sr_unlock(&st->sets.lock);
	return n;
}

/* From now on a receive looks at the stream's nested sets, or not, if there are none. */
static void update_fast(struct sr_stream *st)
{
	sr_lock(&st->rx_lock);
	sr_fast_update_rx(st);
	sr_unlock(&st->rx_lock);
}

void sr_epoll_settle_changed(struct sr_stream *st)
{
	update_fast(st);
	sr_epoll_settle(st);
}

/* ---- becoming nested ---- */

/* Lists deleted entries and those that have fired once, too: their doorbells may have rung. */
static void nest_stream(struct sr_stream *st, void *set)
{
	if (sr_epoll_each(st, set, -1, sr_epoll_enqueue_linked) && has_nested(st))
		update_fast(st);
}

/* The set comes into `outer'; NULL: a thread is going to poll it, and does not look for
 * unsaid sets. */
static void note_outer(struct sr_epoll *set, struct sr_epoll *outer)
{
	struct sr_epoll *was;

	outer = outer ?: SR_EPOLL_OUTERS;
	if (sr_load(&set->outer) == outer)
		return;
	sr_lock(&set->flag_lock);
	was = sr_load(&set->outer);
	sr_store(&set->outer, was && was != outer ? SR_EPOLL_OUTERS : outer);
	if (was)
		tell_now(set, false);
	sr_unlock(&set->flag_lock);
}

void sr_epoll_outer_ends(struct sr_epoll *outer)
{
	struct sr_epoll *set;

	for (set = sr_epoll_first(); set; set = set->next_set) {
		if (sr_load(&set->outer) != outer)
			continue;
		sr_lock(&set->flag_lock);
		if (sr_load(&set->outer) == outer) {
			sr_store(&set->outer, NULL);
			tell_now(set, false);
		}
		sr_unlock(&set->flag_lock);
	}
	if (atomic_exchange_explicit(&outer->nests, false, memory_order_relaxed))
		atomic_fetch_sub_explicit(&outer->linked, 1, memory_order_relaxed);
}

/* A thread may be about to ring the waker, which has just left the kernel's set.  No wake-up is
 * lost: that thread has listed an entry before, and the flag becomes readable for the entry. */
void sr_epoll_nest(int epfd, int outer)
{
	struct sr_epoll *set = sr_epoll_peek(epfd);
	bool first, was = false;
	int err = errno;

	if (!set)
		return;
	note_outer(set, sr_epoll_peek(outer));
	if (sr_epoll_is_nested(set))
		return;
	sr_lock(&set->lock);
	first = !sr_epoll_is_nested(set) && !sr_load(&set->foreign);
	if (first) {
		was = sr_load(&set->installed);
		sr_epoll_uninstall(set);
		sr_store(&sr_epolls_nested, true);
		sr_store(&set->nested, true);	/* a thread that sees the sleeper sees it */
		/* pair sleepers: has_sleepers(); sr_epoll_tidy_nested() looks */
		atomic_fetch_add_explicit(&set->sleepers, 1, memory_order_seq_cst);
	}
	sr_unlock(&set->lock);
	sr_epoll_say_members(set);
	if (!first || (was && !sr_epoll_install(set))) {
		sr_epoll_give_up(epfd, false);
	} else {
		sr_streams_walk(nest_stream, set);
		sr_epoll_tidy_nested(set, true, NULL);
	}
	errno = err;
}

void sr_epoll_unnest(struct sr_epoll *set)
{
	if (!sr_epoll_is_nested(set))
		return;
	sr_store(&set->outer, NULL);
	sr_epoll_tell(set, false);	/* nothing is listed any more */
	sr_store(&set->nested, false);
	atomic_fetch_sub_explicit(&set->sleepers, 1, memory_order_relaxed);
}
