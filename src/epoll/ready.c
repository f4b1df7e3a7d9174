/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ready.c - the list of those entries of a set that may have something to report, and visits, which
 * find out what they have and report it.
 *
 * An entry is listed by notify(), by an event of its anchor or doorbell, or by epoll_ctl(2).  The
 * thread that changes `listed' from false to true pushes the entry onto `news', without a lock; as
 * long as `listed' is true, no other thread puts the entry on a list.  A wait, under look_lock,
 * moves the news to the end of the queue (first, last) and visits the entries there: it works out
 * what each stream can do now, by the rules of poll (wait/plan.c).
 *   - A level-triggered entry that is ready stays in the queue.
 *   - An entry that was quiet a few times is armed on its links, looked at once more, so
 *     that no arrival is missed, and leaves the queue.
 *   - Until then it stays in the queue unarmed, and each wait polls it, so that its peer
 *     need not ring.  No thread sleeps before the queue is empty.
 * A thread that drops an entry clears `listed' and then looks for SR_EPOLL_AGAIN in `edge'.  A
 * thread that lists an entry sets SR_EPOLL_AGAIN and then `listed'.  At least one of the two sees
 * what the other has done.
 *
 * Edges.  For an edge-triggered entry notify() and the events of the anchor are news of their
 * direction; ADD, MOD and a switch make everything news.  Room is news only after a call or a look
 * has found none (wait/plan.c).  The event of a doorbell is no news by itself: the visit that
 * follows looks at the link, and the first thread that sees an arrival there calls notify().
 *
 * Locks: look_lock, for the queue and visits; of a stream what a look needs.
 */
#include "base/real.h"

#include <errno.h>

#include "base/now.h"
#include "engine/engine.h"
#include "engine/fast.h"
#include "wait/waitset.h"
#include "epoll/epoll.h"
#include "epoll/impl.h"
#include "epoll/look.h"
#include "epoll/member.h"
#include "epoll/nest.h"
#include "epoll/pool.h"

#define QUIET 32		/* visits that an entry is polled for, spinning apart */
#define POLLED 64		/* entries that one thread may poll */

/* ---- listing ---- */

static void push_news(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	struct sr_epoll_entry *first = sr_load(&set->news);

	do {
		e->next_listed = first;
	} while (!sr_replace(&set->news, &first, e));	/* pairs with queue_news() */
}

/* True: the entry was on no list, and the caller puts it on one.
 * pair listed: the caller has changed `edge'; queue_drop() changes `listed' and looks at `edge'. */
static bool claim_entry(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	if (sr_look(&e->listed) ||
	    atomic_exchange_explicit(&e->listed, true, memory_order_seq_cst))
		return false;
	/* pair sleepers: has_sleepers() looks next.  pair woken: wake_sleeper() does. */
	atomic_fetch_add_explicit(&set->ready, 1, memory_order_seq_cst);
	return true;
}

/* pair sleepers: the caller has changed `ready'; ask_kernel() and sr_epoll_nest() change
 * `sleepers'. */
static bool has_sleepers(struct sr_epoll *set)
{
	return sr_look(&set->sleepers) & SR_EPOLL_SLEEPERS;
}

/* Wakes one of the threads that sleep, if something is listed. */
static void wake_sleeper(struct sr_epoll *set)
{
	const uint64_t one = 1;
	int err = errno;

	/* pair woken: resolve_wait() clears it, and then looks at `ready' */
	if (!sr_look(&set->ready) ||
	    atomic_exchange_explicit(&set->woken, true, memory_order_seq_cst))
		return;
	if (sr_now_write(sr_load(&set->waker), &one, sizeof(one)) < 0)
		sr_store(&set->woken, false); /* as in loop.c */
	errno = err;
}

static void wake_set(struct sr_epoll *set)
{
	if (!has_sleepers(set))
		return;
	if (sr_epoll_is_nested(set))
		sr_epoll_tell_later(set);
	else
		wake_sleeper(set);
}

static void list_entry(struct sr_epoll *set, struct sr_epoll_entry *e, uint32_t edge)
{
	/* pair listed: queue_drop(); claim_entry() looks */
	atomic_fetch_or_explicit(&e->edge, edge | SR_EPOLL_AGAIN, memory_order_seq_cst);
	if (claim_entry(set, e))
		push_news(set, e);
}

void sr_epoll_enqueue(struct sr_epoll_entry *e, uint32_t edge)
{
	list_entry(sr_epoll_set_of(e), e, edge);
}

void sr_epoll_list(struct sr_epoll_entry *e, uint32_t edge)
{
	struct sr_epoll *set = sr_epoll_set_of(e);

	if (sr_epoll_is_nested(set)) {
		sr_epoll_list_nested(e, edge);
		return;
	}
	list_entry(set, e, edge);
	if (!(sr_load(&e->state) & SR_EPOLL_DEAD))
		wake_set(set);
}

/* A notification that says more than "bytes" or "room" may be an error or the end, which are
 * reported whatever events the program asked for. */
void sr_epoll_notified(struct sr_epoll_entry *e, unsigned what, unsigned news)
{
	uint32_t wanted = sr_load(&e->events), edge; /* a change lists the entry */

	if ((what == SR_NOTIFY_RX && !(wanted & SR_EPOLL_IN)) ||
	    (what == SR_NOTIFY_TX && !(wanted & SR_EPOLL_OUT)))
		return;
	edge = (news & SR_NOTIFY_RX ? SR_EPOLL_IN : 0) |
	       (news & SR_NOTIFY_TX ? SR_EPOLL_OUT : 0) |
	       (news ? EPOLLERR | EPOLLHUP : 0);
	if (sr_epoll_is_nested(sr_epoll_set_of(e)) && !(what & SR_NOTIFY_CTL))
		sr_epoll_list_arrival(e, edge);
	else
		sr_epoll_list(e, edge);
}

/* ---- visits: look_lock held ---- */

static void queue_append(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	e->next_listed = NULL;
	if (set->last)
		set->last->next_listed = e;
	else
		set->first = e;
	set->last = e;
}

static struct sr_epoll_entry *queue_pop(struct sr_epoll *set)
{
	struct sr_epoll_entry *e = set->first;

	set->first = e->next_listed;
	if (!set->first)
		set->last = NULL;
	return e;
}

/* The news are a stack: the oldest comes last. */
static void queue_news(struct sr_epoll *set)
{
	struct sr_epoll_entry *e, *next, *oldest = NULL;

	if (!sr_load(&set->news))
		return;
	for (e = sr_swap(&set->news, NULL); e; e = next) {	/* pairs with push_news() */
		next = e->next_listed;
		e->next_listed = oldest;
		oldest = e;
	}
	for (e = oldest; e; e = next) {
		next = e->next_listed;
		queue_append(set, e);
	}
}

/* Takes the entry off the list, and frees it if it is dead.  A thread that had news meanwhile
 * found the entry listed and left it there, so in this case it is listed again here. */
static void queue_drop(struct sr_epoll *set, struct sr_epoll_entry *e)
{
	if (sr_observe(&e->state) & SR_EPOLL_DEAD) {	/* pairs with sr_epoll_remove() */
		/* The thread that has set DEAD lists the entry before it gives this lock back.  So
		 * from here on nobody lists the entry any more, and it is on no list. */
		sr_lock(&e->st->sets.lock);
		sr_unlock(&e->st->sets.lock);
		/* Both pair with is_any_listed(). */
		atomic_fetch_sub_explicit(&set->dead, 1, memory_order_release);
		atomic_fetch_sub_explicit(&set->ready, 1, memory_order_release);
		sr_epoll_entry_free(e);
		return;
	}
	atomic_fetch_sub_explicit(&set->ready, 1, memory_order_release); /* the same */
	sr_change(&e->listed, false); /* pair listed: claim_entry() */
	if (sr_epoll_has_news(e) && claim_entry(set, e))
		queue_append(set, e);
}

/* May the program be told of the entry?  If not, the change after which it may lists the entry. */
static bool may_report(unsigned state, uint32_t events)
{
	return (state & SR_EPOLL_LIVE) &&
	       (!(events & EPOLLONESHOT) || (state & SR_EPOLL_ARMED));
}

/* The program has changed the entry during the visit, so everything is news to it.  The caller's
 * caller drops the entry, and queue_drop() lists it again for this. */
static void note_all_news(struct sr_epoll_entry *e)
{
	atomic_fetch_or_explicit(&e->edge, SR_EPOLL_ALL | SR_EPOLL_AGAIN, memory_order_relaxed);
}

/* What the entry has of `events'.  e->stays: it may stay in the queue unarmed. */
static uint32_t poll_entry(struct sr_epoll_entry *e, uint32_t events, uint32_t *edge, unsigned how)
{
	bool stays = (how & SR_EPOLL_POLL) && ((how & SR_EPOLL_SPIN) || e->quiet < QUIET);
	/* The fast path makes no edges. */
	int fast = events & EPOLLET ? -1 : sr_fast_poll(e->st, e->number, (short)events);

	if (fast < 0 || (!fast && !stays))
		return sr_epoll_look(e, events, edge, stays, how);
	e->stays = stays;
	return (uint32_t)fast;
}

/* Looks at the entry.  True: the program is to be told of it, by *ev.  *keep: the entry has to stay
 * in the queue. */
static bool visit_entry(struct sr_epoll_entry *e, struct epoll_event *ev, unsigned how,
			bool *keep)
{
	uint32_t edge = sr_epoll_take_edge(e), events, r; /* then the state: set_events() */
	unsigned state = sr_observe(&e->state);	/* pairs with that, as do the next ones */

	*keep = false;
	events = sr_observe(&e->events);
	if (!may_report(state, events)) {
		if (how & SR_EPOLL_ARMS)
			sr_epoll_silence(e);
		return false;
	}
	r = poll_entry(e, events, &edge, how);
	e->quiet = r ? 0 : e->quiet + !(how & SR_EPOLL_SPIN);
	if (events & EPOLLET)
		r = sr_epoll_take_news(e, state, r, &edge);
	*ev = (struct epoll_event){ .events = r, .data.u64 = sr_observe(&e->data) };
	if (r && (events & EPOLLONESHOT) &&
	    sr_replace(&e->state, &state, state & ~SR_EPOLL_ARMED)) { /* pairs with set_events() */
		if (how & SR_EPOLL_ARMS)
			sr_epoll_silence(e);
		return true;
	}
	if (sr_observe(&e->state) != state || (r && (events & EPOLLONESHOT))) {
		note_all_news(e);
		return false;
	}
	if (events & EPOLLET)
		sr_epoll_keep_news(e, state, events, r, edge);
	*keep = e->stays || (r && !(events & EPOLLET));
	return r;
}

static int visit_all(struct sr_epoll *set, struct epoll_event *ev, int max,
		     unsigned how)
{
	struct sr_epoll_entry *e = NULL, *end;
	int n = 0, polled = 0;
	bool keep, reports;

	queue_news(set);
	end = set->last;
	while (n < max && e != end) {
		e = set->first;
		if (polled == POLLED)
			how &= ~SR_EPOLL_POLL;
		reports = visit_entry(e, &ev[n], how, &keep);
		n += reports;
		polled += keep && !reports;
		if (!keep)
			queue_drop(set, queue_pop(set));
		else if (e != set->last)
			queue_append(set, queue_pop(set));
	}
	return n;
}

/* A quiet entry may not stay unarmed if a thread sleeps, because an arrival has to wake that
 * thread, nor if the program is slow to come back (wait.c). */
static unsigned how_now(struct sr_epoll *set, unsigned how)
{
	bool polls = sr_conf.spin_us && !has_sleepers(set) &&
		     ((how & SR_EPOLL_SPIN) ||
		      !sr_load(&set->slow));

	return polls ? how :
	       (how & ~(unsigned)SR_EPOLL_POLL) |
	       (sr_epoll_is_nested(set) ? SR_EPOLL_ARMS : 0);
}

int sr_epoll_collect(struct sr_epoll *set, int epfd, struct epoll_event *ev, int max,
		     unsigned how)
{
	int n = 0;

	/* pair woken: wake_sleeper(); resolve_wait() may have cleared `woken' */
	if (!sr_look(&set->ready))
		return 0;
	how = how_now(set, how);
	sr_lock(&set->look_lock);
	if (sr_epoll_peek(epfd) == set) /* or it has been closed */
		n = visit_all(set, ev, max, how);
	/* For what is left.  (A thread that begins to sleep now sees it.) */
	wake_set(set);
	sr_unlock(&set->look_lock);
	return n;
}

/* ---- nested sets ---- */

/* Would a wait report the entry?  Changes nothing, except that the entry is armed. */
static bool entry_peek(struct sr_epoll_entry *e)
{
	uint32_t edge = sr_epoll_take_edge(e), events, r; /* then the state, as in visit_entry() */
	unsigned state = sr_observe(&e->state);	/* pairs as there */

	events = sr_observe(&e->events);
	if (!may_report(state, events)) {
		sr_epoll_silence(e);
		return false;
	}
	r = sr_epoll_look(e, events, &edge, false, SR_EPOLL_ARMS | SR_EPOLL_PEEKS);
	if (events & EPOLLET) {
		r = sr_epoll_take_news(e, state, r, &edge);
		if (edge)
			atomic_fetch_or_explicit(&e->edge, edge, memory_order_relaxed);
	}
	if (sr_observe(&e->state) != state) {
		note_all_news(e);
		return false;
	}
	return r || e->stays;
}

void sr_epoll_enqueue_linked(struct sr_epoll_entry *e)
{
	if (e->linked)
		list_entry(sr_epoll_set_of(e), e, 0);
}

void sr_epoll_tidy_nested(struct sr_epoll *set, bool all, struct sr_stream *st)
{
	struct sr_epoll_entry *e = NULL, *end;

	sr_lock(&set->look_lock);
	sr_store(&set->untidy, false);
	sr_fence_look();	/* pair untidy: note_change(); entry_peek() looks at `edge' */
	if (st)
		sr_epoll_each(st, set, -1, sr_epoll_enqueue_linked);
	queue_news(set);
	end = all ? set->last : NULL;
	while (e != end) {
		e = set->first;
		if (!entry_peek(e))
			queue_drop(set, queue_pop(set));
		else if (e != set->last)
			queue_append(set, queue_pop(set));
	}
	while (queue_news(set), set->first && !entry_peek(set->first))
		queue_drop(set, queue_pop(set));
	wake_set(set);
	sr_unlock(&set->look_lock);
}

/* ---- tokens in the kernel's answer ---- */

/* Notes the kernel's event as news of the entry that its token names.  Returns true if the entry
 * was on no list, so that the caller may list it.  (The entry may have been freed, and belong to
 * another stream by now: then the visit is needless, but harmless.  It is not freed during this
 * call, because the caller holds look_lock.)
 * An event of a shared doorbell lists the entries that have arrivals, in the order of arrival. */
static bool take_token(struct sr_epoll *set, const struct epoll_event *ev)
{
	struct sr_epoll_entry *e = sr_epoll_of_token(ev->data.u64);
	/* Pairs with sr_epoll_entry_new(). */
	unsigned kind = ev->data.u64 & SR_EPOLL_KIND, state = sr_observe(&e->state);
	bool anchor = kind == SR_EPOLL_ANCHOR || kind == SR_EPOLL_ONESHOT;
	uint32_t edge = anchor ? ev->events & SR_EPOLL_ALL : 0;

	if (sr_epoll_set_of(e) != set)
		return false;
	if (kind == SR_EPOLL_COMMON) {	/* (also if the program has deleted the entry) */
		if (!(state & SR_EPOLL_DEAD))
			sr_epoll_answer_door(e);
		return false;
	}
	if (!(state & SR_EPOLL_LIVE))
		return false;
	/* The kernel also reports room when the anchor is added to its set, or changed there.  That
	 * is no news.  (A thread that sets `full' after this asks the kernel: note_no_room().) */
	if (!sr_load(&e->st->out.full))
		edge &= ~(uint32_t)SR_EPOLL_OUT;
	/* pair listed: queue_drop(); claim_entry() looks */
	atomic_fetch_or_explicit(&e->edge, edge | SR_EPOLL_AGAIN, memory_order_seq_cst);
	return claim_entry(set, e);
}

/* The token is of an entry in this other set. */
static void pass_on(struct sr_epoll *set, const struct epoll_event *ev)
{
	if (!set || !sr_load(&set->linked))
		return;
	sr_lock(&set->look_lock);
	if (take_token(set, ev))
		push_news(set, sr_epoll_of_token(ev->data.u64));
	wake_set(set);
	sr_unlock(&set->look_lock);
}

/* The entry that the event's token names; NULL: it is the program's, or void. */
static struct sr_epoll_entry *named(const struct epoll_event *ev)
{
	bool is_void = ev->data.u64 == sr_load(&sr_epoll_pool);

	return sr_epoll_is_token(ev->data.u64) && !is_void ?
		       sr_epoll_of_token(ev->data.u64) : NULL;
}

/* Do the events before ev tell of the entry?  (They do if they have its data.  If another
 * entry has the same, the answer comes a call later.) */
static bool is_told(const struct sr_epoll_entry *e, const struct epoll_event *ev, int before)
{
	while (before && ev[-before].data.u64 != sr_load(&e->data))
		before--;
	return before;
}

/* An entry that is listed already keeps its place in the queue.  Any other entry is visited where
 * its token stands in the kernel's answer, so that events keep the kernel's order.  All tokens are
 * taken before the first visit, because an entry may have two, of its anchor and its doorbell.  A
 * call reports an entry once: if an event before this answer has done so, the entry is queued. */
int sr_epoll_resolve(struct sr_epoll *set, int epfd, struct epoll_event *ev, int before,
		     int n)
{
	const uint64_t none = sr_load(&sr_epoll_pool);
	unsigned how = how_now(set, SR_EPOLL_POLL);
	struct sr_epoll_entry *e;
	bool keep, ours, now;
	int i, kept = 0;

	for (i = 0; i < n; i++) {
		e = named(&ev[i]);
		if (e && sr_epoll_set_of(e) != set) {
			pass_on(sr_epoll_set_of(e), &ev[i]);
			ev[i].data.u64 = none;
		}
	}
	sr_lock(&set->look_lock);
	ours = sr_epoll_peek(epfd) == set;	/* else it has been closed */
	for (i = 0; i < n; i++)
		if (named(&ev[i]) && !take_token(set, &ev[i]))
			ev[i].data.u64 = none;
	for (i = 0; i < n; i++) {
		e = named(&ev[i]);
		if (!e) {
			if (ev[i].data.u64 != none)
				ev[kept++] = ev[i];
			continue;
		}
		now = ours && !is_told(e, ev, before);
		keep = !now;
		kept += now && visit_entry(e, &ev[kept], how, &keep);
		if (keep)
			queue_append(set, e);
		else
			queue_drop(set, e);
	}
	wake_set(set);
	sr_unlock(&set->look_lock);
	return kept;
}

/* One entry stands for all: to look at the core of each would cost a lock each. */
bool sr_epoll_same_core(struct sr_epoll *set, int epfd)
{
	struct sr_stream *st = NULL;
	bool same;

	sr_lock(&set->look_lock);
	if (sr_epoll_peek(epfd) == set && set->first &&
	    (sr_load(&set->first->state) & SR_EPOLL_LIVE))
		st = sr_stream_ref(set->first->st);
	sr_unlock(&set->look_lock);
	if (!st)
		return false;
	same = sr_stream_same_core(st);
	sr_stream_put(st);
	return same;
}

void sr_epoll_drain(struct sr_epoll *set)
{
	sr_lock(&set->look_lock);
	queue_news(set);
	while (set->first)
		queue_drop(set, queue_pop(set));
	sr_unlock(&set->look_lock);
}
