/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tick.c - the timer of a carrier.  While the carrier is busy, each tick takes what has come, sends
 * what is due, asks a peer that owes an answer and says nothing, and gives the carrier up if the
 * peer stays silent.  Each whole look also decides whether the program uses the carrier, or the
 * service thread is to watch the channel (cq.c).  A carrier that is not busy is watched, and has no
 * ticks.  If something waits until the service thread looks, or packets may come that nobody takes, the
 * next tick comes in 0.2 to 16 ms, not in 50 (post_waiting()), and does nothing if the program sees to
 * the carrier (note_program()).  A whole look sees only the links that have moved (sr_vlook_link()).
 * A carrier without a link that is in use is closed, a shared one when it has been idle for some time.
 *
 * Locks: the carrier's.  All but sr_vlook_start() and sr_vlook_link() runs in the service thread.
 */
#include "base/sys.h" /* before any system header */
#include "link/verbs/verbs.h"

#include "base/conf.h"
#include "base/order.h"

enum {
	TICK_MS = 50,
	SOON_US = 200,		/* a tick while something waits for it */
	STEADY_US = 2000,	/* the same while the program sees to it */
	UNSEEN_US = 2000,	/* a tick while packets may come that nobody takes */
	CALM = 3,		/* times that UNSEEN_US doubles while the program takes them */
	BUSY = 3,		/* looks of the program in a tick: more is use */
	STEADY = 8,		/* ticks without need: the next one may come later */
	UNSEEN = 25,		/* so many looks after the last packet that the program did not see */
	IDLE_ASKER_MS = 3000,	/* for which a shared carrier waits for another link */
	IDLE_ANSWERER_MS = 30000, /* by then the asker must be gone */
	IDLE_UNPROVEN_MS = 500,	/* an answerer's, if the peer has proven nothing: records may go */
	UNWATCHED_MS = 50,
	LAST_TIMES = 10,	/* retry_ms within which the peer sends its last record of a link */
};

#define TICK_NS (TICK_MS * UINT64_C(1000000))
#define IDLE_NS (SR_V_IDLE_MS * UINT64_C(1000000))

/* ---- links that have moved ---- */

static void moved_add(struct sr_vlink *l)
{
	struct sr_vlook *k = &l->c->look;
	struct sr_vlink *first = sr_load(&k->moved);

	do
		l->moved_next = first;
	while (!sr_replace(&k->moved, &first, l));	/* pairs with moved_take() */
}

static struct sr_vlink *moved_take(struct sr_vlook *k)
{
	return sr_swap(&k->moved, NULL);	/* pairs with moved_add() */
}

/* pair look: moved_list(), which clears l->moved before the link is looked at */
static void mark_moved(struct sr_vlink *l)
{
	if (!sr_look(&l->moved) &&
	    !atomic_exchange_explicit(&l->moved, true, memory_order_seq_cst)) {
		moved_add(l);
		sr_fence_look();	/* pair look: as sr_vlook_start() says */
	}
}

void sr_vlook_leave(struct sr_vlink *l)
{
	struct sr_vlink *m = sr_load(&l->moved) ? moved_take(&l->c->look) : NULL, *next;

	for (; m; m = next) {
		next = m->moved_next;
		if (m != l)
			moved_add(m);
	}
}

/* The links that have moved, as a list by seen.next.  Those that move from now on are noted again. */
static struct sr_vlink *moved_list(struct sr_vlook *k)
{
	struct sr_vlink *list = NULL, *l, *next;

	for (l = moved_take(k); l; l = next) {
		next = l->moved_next;	/* before another thread may mark l, and change it */
		l->seen.next = list;
		list = l;
		sr_publish(&l->moved, false);	/* pairs with mark_moved() */
	}
	sr_fence_look();	/* pair look: mark_moved() */
	return list;
}

/* ---- a whole look ---- */

/* Queues a PROBE on any link that may still send.  If all links have sent their last records, none
 * is needed, because the peer has to answer with its own last records.  Returns whether the peer
 * owes an answer. */
static bool ask_peer(struct sr_vcarrier *c)
{
	const struct sr_msg msg = { .type = SR_MSG_PROBE };
	struct sr_vlink *l = c->links;

	while (l && ((sr_link_events(&l->link) & (SR_LINK_UP | SR_LINK_DEAD)) != SR_LINK_UP ||
		     l->tx.last != SR_V_OPEN))
		l = l->next;
	return !l || !sr_vtx_queue(l, &msg);
}

/* unanswered: the peer owes an answer, either at once, or as soon as its program reads.  But its
 * service thread answers a PROBE in any case.  So if nothing at all comes from the peer for a
 * quarter of retry_ms, a PROBE is sent, and after the rest of retry_ms the carrier is given up.
 * (A suspended process receives no ticks, so SIGSTOP does not count towards these times.) */
static void vlook_probe(struct sr_vcarrier *c, bool unanswered)
{
	const unsigned limit = sr_conf.retry_ms / TICK_MS;
	const uint32_t taken = sr_packets_taken(&c->out.credit);
	struct sr_vlook *k = &c->look;

	if (!unanswered || taken != k->packets) {
		k->packets = taken;
		k->quiet_ticks = 0;
		/* The answer may never come, as the link that has asked may have ended. */
		c->out.probe_out = false;
		return;
	}
	if (++k->quiet_ticks >= limit && c->out.probe_out)
		sr_vcarrier_break(c, sr_vpost_why(c, IBV_WC_SUCCESS, "timeout"));
	else if (k->quiet_ticks >= limit / 4 && !c->out.probe_out)
		c->out.probe_out = ask_peer(c);
}

/* Returns whether the program has taken bytes that no ACK has told the peer of.  If it has taken
 * nothing since the last tick, such an ACK is owed now. */
static bool owe_unsaid(struct sr_vlink *l, uint64_t taken)
{
	bool unsaid = (sr_link_events(&l->link) & SR_LINK_SWITCH) &&
		      taken != sr_load(&l->tx.ack_said);

	if (unsaid && taken == l->seen.taken)
		sr_vtx_owe(l);
	return unsaid;
}

/* siw may leave the answerer's first message lying in its socket until the next one comes, because
 * siw_accept() replies before it listens.  Returns whether this end is the asker and has heard
 * nothing yet.  If it has sent something by then, it owes another packet now. */
static bool owe_unheard(struct sr_vlink *l)
{
	struct sr_vcarrier *c = l->c;
	bool unheard = c->iwarp && l->link.role == SR_ROLE_ASKER &&
		       !sr_packets_taken(&c->out.credit);

	if (unheard && c->out.credit.sent)
		sr_vtx_owe(l);
	return unheard;
}

/* Does the peer owe an answer?  For a link that this end has given up, that is its last record. */
static bool is_unanswered(struct sr_vlink *l)
{
	unsigned have = sr_link_events(&l->link);

	if (have & SR_LINK_DEAD)
		return sr_load(&l->c->shared) && l->tx.last == SR_V_DROPPED && !l->over;
	return sr_link_has_said(&l->link, SR_MSG_SWITCH) &&
	       (!(have & SR_LINK_ACKSW) || sr_load(&l->link.tx_acked) != sr_load(&l->link.tx_w) ||
		(sr_link_has_said(&l->link, SR_MSG_END) && !(have & SR_LINK_ACKEND)));
}

/* Has the peer owed its last record for too long?  It sends that record as soon as it has ours, and
 * if it only sends others, the link's rings and number would never be free. */
static bool last_is_overdue(struct sr_vlink *l)
{
	return ++l->seen.owed_ticks > LAST_TIMES * sr_conf.retry_ms / TICK_MS;
}

/* Notes how far the link has come, and returns whether it needs another tick.  While there is
 * traffic its packets have the ACKs and the credit with them; the ticks see to what is left when
 * the traffic stops.  Sets *unanswered if the peer owes an answer.  locked */
static bool note_progress(struct sr_vlink *l, uint64_t now, bool *unanswered)
{
	uint64_t taken = sr_load(&l->link.rx_taken);
	uint64_t sum = taken + sr_load(&l->link.tx_acked) + sr_load(&l->link.tx_w) +
		       sr_load(&l->link.rx_h);
	bool dead = sr_link_events(&l->link) & SR_LINK_DEAD, owed = is_unanswered(l);
	bool busy = owed || l->lingers;

	*unanswered |= owed;
	if (dead) {
		if (owed && last_is_overdue(l))
			sr_vcarrier_break(l->c, "timeout");
		/* When our own last record has gone, the peer's is owed. */
		return busy || (sr_load(&l->c->shared) && l->tx.last == SR_V_DROP_DUE);
	}
	busy |= owe_unsaid(l, taken);
	busy |= owe_unheard(l);
	if (sum != l->seen.sum)	/* none of them ever decreases */
		l->seen.moved_ns = now;
	l->seen.taken = taken;
	l->seen.sum = sum;
	return busy || now - l->seen.moved_ns < TICK_NS;
}

/* Looks at the rings of those links that are idle (grow.c).  Returns whether some are to be looked at
 * later. */
static bool look_at_rings(struct sr_vlink *list, uint64_t now)
{
	bool later, any = false;
	struct sr_vlink *l;

	for (l = list; l; l = l->seen.next) {
		later = !(sr_link_events(&l->link) & SR_LINK_DEAD) &&
			(now - l->seen.moved_ns < IDLE_NS || sr_vgrow_idle(l));
		any |= later;
		if (later || l->seen.again)
			mark_moved(l);
	}
	return any;
}

/* The whole look, each TICK_MS, at the links that have moved since they last rested.  Returns whether
 * there is to be another one in the next tick.  Sets *idles if a ring is to be looked at later. */
static bool whole_look(struct sr_vcarrier *c, uint64_t now, bool *idles)
{
	struct sr_vlook *k = &c->look;
	bool busy = false, in_use, opens, watched, unanswered;
	struct sr_vlink *list = moved_list(k), *l;

	sr_vcarrier_lock(c);
	unanswered = !sr_packets_may_send(&c->out.credit, true) && sr_vpost_waits(c);
	for (l = list; l; l = l->seen.next) {
		l->seen.again = note_progress(l, now, &unanswered);
		busy |= l->seen.again;
	}
	vlook_probe(c, unanswered);
	sr_vpost_gathered(c);
	in_use = sr_load(&c->cq.used) - k->used > BUSY;
	k->used = sr_load(&c->cq.used);
	k->opens -= !!k->opens;
	opens = k->opens;
	sr_vcarrier_unlock(c);
	*idles = look_at_rings(list, now);
	watched = sr_vcq_watch(c, !in_use || opens);
	return busy || unanswered || in_use || !watched || sr_load(&k->on);
}

/* ---- the end ---- */

/* Has its only link something that may still go out? */
static bool last_may_go(struct sr_vcarrier *c)
{
	struct sr_vlink *l = c->links;
	bool ends;

	sr_lock(&c->lock);
	ends = l && (sr_vpost_has_in_flight(c) || l->tx.last == SR_V_DROP_DUE) &&
	       !l->broken && !c->broken && (sr_link_events(&l->link) & SR_LINK_UP) &&
	       sr_now_ns() < l->end_ns;
	sr_unlock(&c->lock);
	return ends;
}

/* A shared carrier is broken, or unused.  The asker, which decides when the carrier is used again,
 * ends it first.  An answerer does not wait for a peer that has proven nothing: anybody can connect.
 * Returns for how many ms more it stays. */
static unsigned idle_ms(struct sr_vcarrier *c)
{
	uint64_t now = sr_now_ns(), ms;
	unsigned limit;
	bool broken;

	sr_lock(&c->lock);
	broken = c->broken;
	limit = c->share.numbers.asks	? IDLE_ASKER_MS :
		c->share.numbers.proven ? IDLE_ANSWERER_MS :
					  IDLE_UNPROVEN_MS;
	sr_unlock(&c->lock);
	if (broken)
		return 0;
	if (!c->share.idle_ns)
		c->share.idle_ns = now;
	ms = (now - c->share.idle_ns) / 1000000;
	return ms < limit ? limit - (unsigned)ms : 0;
}

/* Has the carrier no link in use?  A number that has no link any more does not count if only the
 * peer's last record for it is due, because the peer may never send it. */
static bool carrier_is_unused(struct sr_vcarrier *c)
{
	struct sr_vlink *l = c->links;
	bool over;

	if (!sr_load(&c->shared))
		return !l || (sr_link_events(&l->link) & SR_LINK_DEAD);
	sr_lock(&c->lock);
	over = c->broken || !(l ? c->share.numbers.used : c->share.numbers.held);
	sr_unlock(&c->lock);
	if (!over)
		c->share.idle_ns = 0;
	return over;
}

bool sr_vcarriers_lack(const char *reason)
{
	const enum sr_reason why = sr_reason_find(reason);

	return why == SR_REASON_MEMLOCK || why == SR_REASON_DESCRIPTORS || why == SR_REASON_MEMORY;
}

bool sr_vcarriers_spare(const char *reason)
{
	struct sr_vcarrier *c, *next;
	struct sr_vdev *dev;
	bool any = sr_vmake_is_unmaking();

	if (!sr_vcarriers_lack(reason))
		return false;
	for (dev = sr_vdevs; dev; dev = dev->next)
		for (c = dev->carriers; c; c = next) {
			next = c->next;
			/* (ask.c closes one whose id an ask still has.) */
			if (!sr_load(&c->shared) || c->id->context != &c->cm || !carrier_is_unused(c))
				continue;
			sr_vcarrier_close(c, true);
			any = true;
		}
	return any;
}

/* Called when it is over: closes the carrier, now or later.  Returns true if it is to be looked at
 * soon again, because what has been posted may still go out.  *ms: else it is to be looked at
 * after so long; 0: need not. */
static bool carrier_end(struct sr_vcarrier *c, unsigned *ms)
{
	*ms = 0;
	/* The CM's answer is still to come, with the peer's word in it: without the id there
	 * would be none.  ask.c closes the link. */
	if (c->id->context != &c->cm)
		return false;
	if (!sr_load(&c->shared) && last_may_go(c))
		return true;
	*ms = sr_load(&c->shared) ? idle_ms(c) : 0;
	if (*ms && !sr_vcq_watch(c, true))	/* an OPEN may come */
		*ms = UNWATCHED_MS;
	if (!*ms)
		sr_vcarrier_close(c, true);
	return false;
}

/* ---- the timer ---- */

/* The whole looks of all carriers are due at the same time, so that they wake the thread once. */
static void vlook_set_timer(struct sr_vlook *k)
{
	unsigned on = sr_load(&k->on);

	if (on & SR_LOOK_SOON)
		sr_timer_set_us(&k->timer, k->steady > STEADY ? STEADY_US : SOON_US);
	else if ((on & SR_LOOK_UNSEEN) && k->calm <= CALM)
		sr_timer_set_us(&k->timer, UNSEEN_US << k->calm);
	else
		sr_timer_set(&k->timer, TICK_MS - sr_now_ns() / 1000000 % TICK_MS);
}

/* Returns whether the program has looked since the last tick, and notes its looks for the next
 * one.  If it has, it will probably take the completions itself for which bytes wait. */
static bool note_looks(struct sr_vlook *k, unsigned used)
{
	bool yes = used != k->soon_used;

	k->soon_used = used;
	return yes;
}

/* Notes what the program has done since the last tick, and returns whether it sees to the carrier
 * itself, as far as can be told without the lock: it has looked, and it has left nothing, which means
 * that nothing waits, or a packet has gone out meanwhile.  Such a tick would only take the lock and
 * the processor from the program.
 * What a program leaves when it computes goes after two ticks of 0.2 ms.  A program that has sent
 * before each of STEADY ticks and left nothing gets ticks of 2 ms.  Where nothing waits, and only others'
 * packets may come, the ticks of a program that looks between all of them double to 16 ms, and then come
 * with the whole looks, because each takes the processor from a thread that spins; until one finds
 * packets that the program has not taken. */
static bool note_program(struct sr_vcarrier *c)
{
	struct sr_vlook *k = &c->look;
	uint64_t state = sr_load(&c->out.state);
	bool same = state == k->out_state, left = same && (state & SR_V_OUT_WAITS), sees;

	k->out_state = state;
	k->looked = note_looks(k, sr_load(&c->cq.used));
	sees = k->looked && !left;
	if (left)
		k->steady = 0;
	else if (k->looked && !same)
		k->steady++;
	if (!sees)
		k->calm = 0;
	else if ((sr_load(&k->on) & (SR_LOOK_SOON | SR_LOOK_UNSEEN)) == SR_LOOK_UNSEEN)
		k->calm++;
	return sees;
}

/* Takes what has come, and notes whether packets were among it that the program did not see, because
 * it has not looked since the last tick: it computes, say.  If it has looked, the next tick comes
 * soon, and will know. */
static void look_for_unseen(struct sr_vcarrier *c)
{
	struct sr_vlook *k = &c->look;
	uint32_t taken;
	bool found;

	sr_vcarrier_lock(c);
	taken = sr_packets_taken(&c->out.credit);
	sr_vcq_reap(c);
	found = sr_packets_taken(&c->out.credit) != taken;
	if (found)
		k->calm = 0;
	if (found && (!k->looked || !k->unseen))
		k->unseen = k->looked ? 1 : UNSEEN;
	else if (k->unseen)
		k->unseen--;
	sr_vcarrier_unlock(c);
}

/* May records of other links come to a carrier that nobody watches, because the program that uses it
 * computes at present?  locked */
static bool may_come_unseen(struct sr_vcarrier *c)
{
	return sr_load(&c->shared) && (c->look.unseen || !sr_vcq_any_sleeper(c));
}

/* Posts what waits, which has waited for long enough.  If nobody watches the channel, the next tick is
 * to be soon if something waits, or records have waited for those of others since the last whole
 * look: then the ticks go on, since to begin with them costs the program a system call.  It is to
 * be rather soon if packets may come that nobody takes.  Returns SR_LOOK_SOON, SR_LOOK_UNSEEN or 0. */
static unsigned post_waiting(struct sr_vcarrier *c, bool whole)
{
	struct sr_vlook *k = &c->look;
	unsigned next = 0;
	bool waits;

	sr_vcarrier_lock(c);
	sr_vpost_gathered(c);
	waits = sr_vpost_waits(c);
	if (waits)
		sr_vcq_await_out(c);
	if (waits && !k->gathered && k->looked && !whole)
		k->steady = STEADY + 1;	/* it has waited for a tick, and the program looks itself */
	if (waits || k->gathered)
		next = SR_LOOK_SOON;
	else if (may_come_unseen(c))
		next = SR_LOOK_UNSEEN;
	if (!c->qp || c->cq.watched)
		next = 0;
	if (next != SR_LOOK_UNSEEN)
		k->calm = 0;
	k->gathered &= !whole;
	sr_vcarrier_unlock(c);
	return next;
}

static void next_look(struct sr_vcarrier *c, bool again, unsigned soon, unsigned later_ms)
{
	struct sr_vlook *k = &c->look;

	if (again) {
		atomic_fetch_or_explicit(&k->on, SR_LOOK | soon, memory_order_relaxed);
		vlook_set_timer(k);
	} else if (later_ms) {
		sr_timer_set(&k->timer, later_ms);
	}
}

static void vlook_tick(struct sr_timer *t)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, look.timer, t);
	struct sr_vlook *k = &c->look;
	uint64_t now = sr_now_ns();
	bool whole = now / TICK_NS != k->tick, idles = false, again;
	unsigned later_ms = 0, soon;

	if (note_program(c) && !whole) {	/* all bits stay set */
		vlook_set_timer(k);
		return;
	}
	look_for_unseen(c);
	/* A thread that moves the link after this starts the timer again. */
	atomic_fetch_and_explicit(&k->on, SR_LOOK_WATCH | (whole ? 0 : SR_LOOK),
				  memory_order_relaxed);
	sr_fence_look();	/* pair look: sr_vlook_start() */
	k->tick = now / TICK_NS;
	sr_vcarrier_get(c);
	sr_vcarrier_sweep(c);
	if (c->id && carrier_is_unused(c)) {
		k->calm = 0;
		soon = carrier_end(c, &later_ms) ? SR_LOOK_UNSEEN : 0;
		again = soon || (later_ms && !whole);
	} else {
		again = !whole || whole_look(c, now, &idles);
		soon = post_waiting(c, whole);
		later_ms = idles ? SR_V_IDLE_MS : 0;
	}
	if (c->id)
		next_look(c, again, soon, later_ms);
	sr_vcarrier_put(c);
}

static void vlook_task(struct sr_task *t)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, look.task, t);
	unsigned asked = atomic_fetch_and_explicit(&c->look.on, ~(unsigned)SR_LOOK_WATCH,
						   memory_order_relaxed);

	c->look.steady = c->look.calm = 0;
	if ((asked & SR_LOOK_WATCH) && !sr_vcq_watch(c, true))
		sr_vlook_start(c, SR_LOOK);
	if (c->id && (asked & (SR_LOOK | SR_LOOK_SOON)))
		vlook_set_timer(&c->look);
	sr_vcarrier_put(c);
}

/* pair look: vlook_tick(), which clears the bits and then looks at the links.  The caller has moved
 * a link before: by a sequentially consistent change (DEAD), or under the carrier's lock, which
 * vlook_tick() takes before it looks.  vlook_task() takes that lock, too, before it decides whether
 * the channel is watched. */
void sr_vlook_start(struct sr_vcarrier *c, unsigned how)
{
	struct sr_vlook *k = &c->look;

	/* Both accesses come after the caller's change.  If the bits are set already, the tick or
	 * the task that clears them has not run yet, and will see that change. */
	if (!(how & ~sr_look(&k->on)) ||
	    !(how & ~atomic_fetch_or_explicit(&k->on, how, memory_order_seq_cst)))
		return;
	sr_vcarrier_get(c);
	if (!sr_loop_post(&k->task))
		sr_vcarrier_put(c);	/* it is posted, and has a reference */
}

void sr_vlook_link(struct sr_vlink *l, unsigned how)
{
	mark_moved(l);
	sr_vlook_start(l->c, how);
}

/* Called when the carrier is made, before other threads may post the task. */
void sr_vlook_init(struct sr_vcarrier *c)
{
	c->look.task.fn = vlook_task;
	c->look.timer.fn = vlook_tick;
}
