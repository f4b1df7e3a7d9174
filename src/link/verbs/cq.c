/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_cq.c - taking completions, and sleeping until some come.
 *
 * All CQs of a device report to one completion channel.  A sleeping thread
 * watches it: the leader.  Others that sleep (waiters) are woken by notify()
 * when the leader finds something for them.  At most one program thread leads.
 * The service loop looks after what nobody waits for: every few milliseconds while
 * the CQs are busy; a few times a second while program threads lead in turn (one
 * arrival is to wake one thread); by watching the channel when they are quiet, when
 * somebody waits and nobody leads, or while a handshake is under way.
 *
 * Why no wake-up is lost: a CQ, once armed, puts an event into the channel
 * with its next completion.
 *  - A waiter arms its CQ, then looks again (the contract of arm()), then
 *    sleeps.  What came before the arming is seen by the second look, or by
 *    another thread that was just polling the CQ and calls notify() after;
 *    what comes later makes an event.
 *  - The event is in the channel until somebody reads it (the channel stays
 *    readable), and there always is somebody: the leader; or, when the leader
 *    leaves while others wait, the service loop, which is made to watch the
 *    channel before the lead is given up.
 *  - Whoever reads an event arms that CQ again before polling it, unless nobody
 *    else can be waiting for it; then he polls.  So every waiter's CQ is either
 *    armed, or being polled by someone who will notify().
 *  - A CQ is not armed twice (`armed`, under chan_lock as is the reading of events):
 *    its event comes, or waits in the channel, or is read afterwards by somebody who
 *    sees this waiter, as it was counted before.
 *  - Links nobody waits on (messages, held-back bytes): the service loop ticks,
 *    or it has armed every CQ and watches; if it relies on a leader (SLEEPS)
 *    all CQs were armed before, and the leader re-arms what he reads, and kicks
 *    the service loop when he leaves, or makes it watch.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>

#include "base/log.h"

enum {
	BATCH = 16,		/* completions a poll */
	TOUCHED = 24,		/* links in one go */
	ROUNDS = 8,		/* batches before the lock is given up */
	TICK_MS = 10,		/* while busy */
	TICK_HELD_MS = 2,	/* while bytes are held back */
	TICK_LED_MS = 50,	/* while program threads lead in turn */
};

enum { CQ_SOLICITED = 1, CQ_ALL };	/* sr_vcq.armed; 0: not */

/* ---- polling ---- */

struct touched {
	unsigned n;
	struct {
		struct sr_vlink *link;
		unsigned what;
	} at[TOUCHED];
};

static int touch(struct touched *t, struct sr_vlink *l)
{
	if (l->mark < t->n && t->at[l->mark].link == l)
		return l->mark;
	if (!sr_vlink_tryget(l))
		return -1;
	l->mark = t->n;
	t->at[t->n].link = l;
	t->at[t->n].what = 0;
	return t->n++;
}

static void dispatch(struct sr_vcq *cq, struct touched *t,
		     const struct ibv_wc *wc)
{
	uint32_t key = wc->wr_id >> 32;
	struct sr_vslot *slot;
	int i;

	if ((key & 0xfff) >= cq->n_slots)
		return;
	slot = &cq->slots[key & 0xfff];
	if (!slot->link || slot->gen != key >> 12)
		return;
	i = touch(t, slot->link);
	if (i >= 0)
		t->at[i].what |= sr_vrx_completion(slot->link, wc);
}

/*
 * May this thread take completions?  If another one is at it, that one is asked to
 * look once more when it has done: it may have seen the CQ empty already, and what came
 * then makes no event if the CQ has been armed since.  A thread that fails sets `again`
 * before its last try; the holder unlocks before it looks at `again` (poll_once_more()).
 * One of the two sees the other.
 */
static bool lock_to_poll(struct sr_vcq *cq, bool wait)
{
	if (wait) {
		sr_lock(&cq->lock);
		return true;
	}
	if (sr_trylock(&cq->lock))
		return true;
	atomic_store(&cq->again, true);
	atomic_thread_fence(memory_order_seq_cst);
	return sr_trylock(&cq->lock);
}

static bool poll_once_more(struct sr_vcq *cq)
{
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&cq->again, memory_order_relaxed) &&
	       atomic_exchange(&cq->again, false);
}

/* Completions of one CQ are handled under its lock; then, without it, the
 * links they concern go on sending and are told. */
static int poll_once(struct sr_vcq *cq, bool wait)
{
	struct ibv_wc wc[BATCH];
	struct touched t = { 0 };
	int i, n, sum = 0, rounds = 0;
	unsigned k;

	if (!lock_to_poll(cq, wait))
		return 0;
	if (!cq->cq) {
		sr_unlock(&cq->lock);
		return 0;
	}
	do {
		n = ibv_poll_cq(cq->cq, BATCH, wc);
		for (i = 0; i < n; i++)
			dispatch(cq, &t, &wc[i]);
		sum += n > 0 ? n : 0;
	} while (n == BATCH && t.n <= TOUCHED - BATCH && ++rounds < ROUNDS);
	for (k = 0; k < t.n; k++)
		if (sr_vrx_repost(t.at[k].link))
			sr_vlink_break(t.at[k].link, "device-failed");
	sr_unlock(&cq->lock);
	if (!sum)
		return 0;

	atomic_fetch_add_explicit(&cq->dev->cqes, sum, memory_order_relaxed);
	for (k = 0; k < t.n; k++) {
		struct sr_vlink *l = t.at[k].link;

		const char *broken = atomic_load(&l->broken);

		if (broken)
			sr_vlink_fail(l, broken);
		else
			sr_vtx_kick(l);
		sr_vlead_sit(l, t.at[k].what);
		if (t.at[k].what)
			sr_vlink_notify(l, t.at[k].what);
		sr_link_put(&l->link);
	}
	return sum;
}

int sr_vcq_poll(struct sr_vcq *cq, bool wait)
{
	int sum = 0;

	do {
		sum += poll_once(cq, wait);
	} while (poll_once_more(cq));
	return sum;
}

void sr_verbs_poll(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);

	if (atomic_load_explicit(&l->closed, memory_order_acquire))
		return;
	sr_enter();
	sr_vcq_poll(l->cq, false);
	sr_leave();
}

static int poll_all(struct sr_vdev *dev)
{
	struct sr_vcq *cq;
	int sum = 0;

	for (cq = atomic_load(&dev->cqs); cq; cq = cq->next)
		sum += sr_vcq_poll(cq, false);
	return sum;
}

/* ---- events ---- */

/* Arms it, unless it is armed so already, or its event waits in the channel.  level:
 * CQ_SOLICITED or CQ_ALL. */
static void arm_cq(struct sr_vcq *cq, int level)
{
	sr_lock(&cq->dev->chan_lock);
	if (cq->cq && cq->armed < level) {
		cq->armed = level;
		ibv_req_notify_cq(cq->cq, level == CQ_SOLICITED);
	}
	sr_unlock(&cq->dev->chan_lock);
}

static void arm_all(struct sr_vdev *dev)
{
	struct sr_vcq *cq;

	for (cq = atomic_load(&dev->cqs); cq; cq = cq->next)
		arm_cq(cq, CQ_ALL);
}

/* The CQ that the next event in the channel is about, or NULL. */
static struct sr_vcq *next_event(struct sr_vdev *dev)
{
	struct sr_vcq *cq = NULL;
	struct ibv_cq *ev;
	void *arg;

	sr_lock(&dev->chan_lock);
	if (dev->chan && !sr_vlib.v_get_cq_event(dev->chan, &ev, &arg)) {
		sr_vlib.v_ack_cq_events(ev, 1);
		cq = arg;
		cq->armed = 0;
	}
	sr_unlock(&dev->chan_lock);
	return cq;
}

/* Does somebody else rely on the one who reads an event? */
static bool relied_on(struct sr_vdev *dev)
{
	bool yes;

	sr_lock(&dev->lead);
	yes = dev->waiters || atomic_load(&dev->rest) == SR_V_SLEEPS;
	sr_unlock(&dev->lead);
	return yes;
}

/* Reads the channel until an event has brought something, which as a rule the first
 * one has; what is left there still shows.  Who relies on it has said so before he
 * looked whether the CQ is armed. */
static void take_event(struct sr_vdev *dev, bool loop)
{
	struct sr_vcq *cq;

	while ((cq = next_event(dev))) {
		if (loop || relied_on(dev))
			arm_cq(cq, CQ_ALL);
		if (sr_vcq_poll(cq, false))
			return;
	}
}

static void nothing(struct sr_task *task)
{
	(void)task;
}

static struct sr_task kick_task = { .fn = nothing };

/* Not by a mask of no events: uverbs wakes a channel's waiters without saying
 * what for, and epoll then wakes the service thread for nothing. */
static void watch_locked(struct sr_vdev *dev, bool on)
{
	if (dev->watched == on)
		return;
	if (atomic_load(&dev->gone))
		return;
	dev->watched = on;
	if (on)
		sr_loop_watch(&dev->chan_watch, EPOLLIN);
	else
		sr_loop_release(&dev->chan_watch);
}

/* ---- program threads ---- */

/* A thread's name. */
static const void *me(void)
{
	return (const void *)&sr_inside;
}

int sr_verbs_arm(struct sr_link *link, unsigned want)
{
	struct sr_vlink *l = sr_vlink(link);
	struct sr_vdev *dev = l->dev;
	bool all = l->iwarp;
	int fd = -1;

	(void)want;
	sr_enter();
	sr_lock(&dev->lead);
	if (atomic_load(&dev->gone)) {
		dev->waiters++;
		sr_unlock(&dev->lead);
		goto out;
	}
	if (!dev->leader) {
		dev->leader = me();
		dev->changes++;
		/* One arrival shall not wake two threads. */
		if (dev->watched)
			atomic_store(&dev->rest, SR_V_SLEEPS);
		watch_locked(dev, false);
	}
	if (dev->leader == me()) {
		dev->depth++;
		fd = dev->chan->fd;
	} else {
		dev->waiters++;
	}
	sr_unlock(&dev->lead);

	/* What comes from the peer is solicited.  Our own completions matter
	 * when bytes are waiting for them.  (siw forgets that somebody else
	 * asked for all when asked for solicited ones: always all there.) */
	if (!all) {
		sr_lock(&l->post);
		all = !sr_vtx_idle(l);
		sr_unlock(&l->post);
	}
	arm_cq(l->cq, all ? CQ_ALL : CQ_SOLICITED);
out:
	sr_leave();
	return fd;
}

void sr_vlead_kick(void)
{
	sr_loop_post(&kick_task);
}

static void leave_lead(struct sr_vdev *dev)
{
	bool kick = false;

	sr_lock(&dev->lead);
	if (!--dev->depth) {
		dev->leader = NULL;
		dev->changes++;
		if (dev->waiters)
			watch_locked(dev, true);
		/* What it is to watch is armed, as it relied on this leader. */
		if (atomic_load(&dev->rest) == SR_V_SLEEPS) {
			kick = !dev->waiters;
			atomic_store(&dev->rest, SR_V_AWAKE);
		}
	}
	sr_unlock(&dev->lead);
	if (kick)
		sr_loop_post(&kick_task);
}

void sr_verbs_awake(struct sr_link *link, unsigned want, bool slept)
{
	struct sr_vlink *l = sr_vlink(link);
	struct sr_vdev *dev = l->dev;
	bool leads, gone;

	(void)want;
	sr_enter();
	sr_lock(&dev->lead);
	leads = dev->leader == me();
	gone = atomic_load(&dev->gone);
	if (!leads && dev->waiters)
		dev->waiters--;
	sr_unlock(&dev->lead);
	if (leads && slept && !gone)
		take_event(dev, false);
	if (leads)
		leave_lead(dev);
	sr_leave();
	sr_verbs_poll(link);
}

/*
 * Who stands is a waiter that never leads: its CQ is armed, and whoever leads,
 * or the service loop, which watches while there are waiters, calls notify().
 */
int sr_verbs_stand(struct sr_link *link, unsigned want)
{
	struct sr_vlink *l = sr_vlink(link);
	struct sr_vdev *dev = l->dev;

	if (!want)
		return -1;
	sr_enter();
	sr_lock(&dev->lead);
	if (!atomic_load(&l->closed) && !atomic_fetch_or(&l->standing, want))
		dev->waiters++;
	if (!dev->leader)
		watch_locked(dev, true);
	sr_unlock(&dev->lead);
	arm_cq(l->cq, CQ_ALL);
	sr_leave();
	return -1;
}

void sr_vlead_sit(struct sr_vlink *l, unsigned what)
{
	unsigned old;

	if (!(atomic_load(&l->standing) & what))
		return;
	sr_lock(&l->dev->lead);
	old = atomic_fetch_and(&l->standing, ~what);
	if ((old & what) && !(old & ~what))
		l->dev->waiters--;
	sr_unlock(&l->dev->lead);
}

/* ---- the service loop ---- */

static bool changed(unsigned *seen, unsigned now)
{
	bool yes = *seen != now;

	*seen = now;
	return yes;
}

/* How long may the loop sleep, as far as this device is concerned? */
static int before_device(struct sr_vdev *dev)
{
	bool busy, led, events, leader;
	int ms;

	sr_lock(&dev->lead);
	busy = changed(&dev->cqes_seen, atomic_load(&dev->cqes));
	led = changed(&dev->changes_seen, dev->changes);
	leader = dev->leader;
	events = (dev->waiters && !leader) || atomic_load(&dev->shaking);
	if (atomic_exchange(&dev->held, false))
		ms = TICK_HELD_MS;
	else if (events || !(busy || led))
		ms = -1;
	else
		ms = led ? TICK_LED_MS : TICK_MS;
	events |= ms < 0;
	watch_locked(dev, events && !leader);
	atomic_store(&dev->rest, ms == TICK_LED_MS     ? SR_V_DOZES :
				 ms < 0 && leader ? SR_V_SLEEPS :
						    SR_V_AWAKE);
	sr_unlock(&dev->lead);
	if (!events)
		return ms;
	arm_all(dev);
	return poll_all(dev) ? 0 : ms;
}

static int before(struct sr_poller *p)
{
	struct sr_vdev *dev;
	int ms, least = -1;

	(void)p;
	sr_enter();
	for (dev = sr_vdevs; dev; dev = dev->next) {
		if (!atomic_load(&dev->cqs))
			continue;
		ms = before_device(dev);
		if (ms >= 0 && (least < 0 || ms < least))
			least = ms;
	}
	sr_leave();
	return least;
}

static void after(struct sr_poller *p)
{
	struct sr_vdev *dev;

	(void)p;
	sr_enter();
	for (dev = sr_vdevs; dev; dev = dev->next)
		if (!dev->watched)	/* else by on_channel(), or by before() */
			poll_all(dev);
	sr_leave();
}

static struct sr_poller poller = { .before = before, .after = after };

void sr_vcq_lead_start(void)
{
	sr_loop_poller(&poller);
}

static void on_channel(struct sr_watch *w, uint32_t events)
{
	struct sr_vdev *dev = (struct sr_vdev *)((char *)w -
			offsetof(struct sr_vdev, chan_watch));

	(void)events;
	sr_enter();
	take_event(dev, true);
	sr_leave();
}

void sr_vlead_init(struct sr_vdev *dev)
{
	sr_mutex_init(&dev->lead, SR_RANK_LINK_THIRD);
	sr_mutex_init(&dev->chan_lock, SR_RANK_LEAF);
	dev->chan_watch.fd = dev->chan->fd;
	dev->chan_watch.fn = on_channel;
}

void sr_vlead_stop(struct sr_vdev *dev)
{
	sr_lock(&dev->lead);	/* nobody in watch_locked */
	dev->watched = false;
	sr_unlock(&dev->lead);
	sr_loop_unwatch(&dev->chan_watch);
}
