/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cq.c - taking completions, and sleeping until some come.
 *
 * Each carrier has two CQs, and a completion channel of its own for both.  A thread that sleeps
 * for its link polls the channel, and an epoll set that the stream is in watches
 * it: an arrival wakes the thread that waits for it, and no other one.
 *
 * The CQ `in` has the completions of receives: it is armed whenever a thread, an epoll set or
 * the service thread waits for the carrier.  The CQ `out` has those of our own requests.  It is
 * armed, too, only while something cannot be posted before a request has completed.
 *
 * The service thread sees to what arrives while the program does something else.
 *  - It watches the channels of carriers that the program does not use.
 *  - While the program uses a carrier, it does not watch the channel, but looks at
 *    the carrier in every tick of a timer (tick.c).  Program use is what counts: a thread
 *    that sleeps or polls takes the completions itself.
 *  - While a link is being opened by OPEN, it watches the channel in any case, because the thread
 *    that waits for the link does not look at the carrier.
 *
 * No wake-up is lost: a CQ, once armed, puts an event into the channel with its
 * next completion, and the channel is readable until somebody reads the event.
 *  - A thread that is going to sleep arms the CQ, and then polls it (the contract of
 *    arm() and arm_once()).  What came before is found by that poll; what comes
 *    later makes an event.
 *  - A thread that reads an event arms the CQ again if a sleeper, an epoll set or
 *    the service thread relies on it.  Then it polls, and calls notify() for what
 *    the others wait for.
 *  - If completions have been taken from an armed CQ (SR_CQ_FIRED), the CQ counts as no longer
 *    armed, because its event has come, or is about to.  If that event comes only after the CQ
 *    has been armed again, it is a spurious wake-up.
 *  - At most SR_V_DIRECT threads, with the epoll sets of a shared carrier, have the channel's
 *    descriptor (direct), because an arrival wakes all that poll it.  Any further thread
 *    (dispatched) sleeps for notify() alone.
 *    Before it sleeps, it asks the service thread to watch the channel, which does so as long as
 *    a thread is dispatched.  Until the service thread begins, events stay in the channel.  The
 *    thread that reads an event takes what has come, and notifies all links that it is for.
 *    (tests/model/wake.pml has direct and dispatched threads, and the change both ways.)
 *  - If a carrier is not shared, an epoll set always has its descriptor.  If the carrier is
 *    shared, a set has the descriptor only if it is one of the SR_V_DIRECT, and is not nested.  The
 *    set's thread then arms the CQ again for all links of the carrier.  Other sets wait for
 *    notify() as dispatched threads do.
 *  - If something begins to wait for a completion of `out`, the timer looks for it; or, if the
 *    service thread watches the channel, `out` is armed and then polled (sr_vcq_await_out()).
 *
 * Locks: the carrier's.
 */
#include "base/sys.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>

#include "base/fdpriv.h"
#include "base/order.h"

enum {
	BATCH = 8,		/* completions a poll */
};

/* ---- taking completions ---- */

static int half_poll(struct sr_vcarrier *c, struct sr_vcq_half *h, struct ibv_wc wc[BATCH])
{
	int n = ibv_poll_cq(h->cq, BATCH, wc);

	if (n < 0)
		sr_vcarrier_break(c, "device-failed");
	if (n > 0 && h->state == SR_CQ_ARMED)
		h->state = SR_CQ_FIRED;
	return n;
}

__attribute__((noinline)) /* otherwise the caller would have two arrays on its stack */
static bool take_out(struct sr_vcarrier *c)
{
	struct ibv_wc wc[BATCH];
	bool any = false;
	int i, n;

	do {
		n = half_poll(c, &c->cq.out, wc);
		for (i = 0; i < n; i++)
			sr_vrx_completion(c, &wc[i]);
		any |= n > 0;
	} while (n == BATCH);
	return any;
}

bool sr_vcq_take_sent(struct sr_vcarrier *c)
{
	return c->qp && sr_vpost_has_in_flight(c) && take_out(c);
}

/* Handles all completions that have come.  Receives are posted again, and packets sent, only when
 * the last of them is handled. */
void sr_vcq_reap(struct sr_vcarrier *c)
{
	struct ibv_wc wc[BATCH];
	bool any;
	int i, n;

	if (!c->qp)
		return;
	any = sr_vcq_take_sent(c);
	do {
		n = half_poll(c, &c->cq.in, wc);
		/* A request that has failed flushes the receives, too.  Its own completion has
		 * the cause, so it is handled first. */
		if (n > 0 && wc[n - 1].status != IBV_WC_SUCCESS)
			take_out(c);
		for (i = 0; i < n; i++)
			sr_vrx_completion(c, &wc[i]);
		any |= n > 0;
	} while (n == BATCH);
	if (!any)
		return;
	if (sr_vrx_repost(c))
		sr_vcarrier_break(c, "device-failed");
	sr_vpost_due(c);
}

void sr_vcq_look(struct sr_vcarrier *c)
{
	sr_vcarrier_lock(c);
	if (!sr_loop_here())
		sr_vcq_note_use(c);
	sr_vcq_reap(c);
	sr_vcarrier_unlock(c);
}

void sr_verbs_poll(struct sr_link *link)
{
	sr_vcq_look(sr_vlink(link)->c);
}

/* ---- arming: locked ---- */

static bool next_event(struct sr_vcarrier *c)
{
	struct ibv_cq *cq;
	void *arg;

	if (sr_vlib.v_get_cq_event(c->cq.chan, &cq, &arg))
		return false;
	sr_vlib.v_ack_cq_events(cq, 1);
	(cq == c->cq.in.cq ? &c->cq.in : &c->cq.out)->state = SR_CQ_UNARMED;
	return true;
}

/* If the last call did not find an event, because the device had not delivered it yet, this call
 * reads that late event as well.  Otherwise late events would accumulate in the channel. */
static void read_events(struct sr_vcarrier *c)
{
	const unsigned fired = (c->cq.in.state == SR_CQ_FIRED) + (c->cq.out.state == SR_CQ_FIRED);
	const unsigned due = fired + c->cq.late;
	unsigned found = 0;

	while (found < (due ? due : 1) && next_event(c))
		found++;
	c->cq.late = fired > found ? fired - found : 0;
	if (c->cq.in.state == SR_CQ_FIRED)
		c->cq.in.state = SR_CQ_UNARMED;
	if (c->cq.out.state == SR_CQ_FIRED)
		c->cq.out.state = SR_CQ_UNARMED;
}

static void arm_half(struct sr_vcarrier *c, struct sr_vcq_half *h)
{
	if (h->state == SR_CQ_ARMED)
		return;
	h->state = SR_CQ_ARMED;
	if (ibv_req_notify_cq(h->cq, 0))
		sr_vcarrier_break(c, "device-failed");
}

static void arm_cqs(struct sr_vcarrier *c)
{
	if (c->cq.in.state == SR_CQ_FIRED || c->cq.out.state == SR_CQ_FIRED)
		read_events(c);
	arm_half(c, &c->cq.in);
	if (sr_vpost_waits(c))
		arm_half(c, &c->cq.out);
}

/* Finds the place of the thread, or of the set, among those that have the descriptor; a free place,
 * if neither is given.  NULL: there is none. */
static struct sr_vsleeper *sleeper_find(struct sr_vcarrier *c, pthread_t thread, const void *set)
{
	for (unsigned i = 0; i < SR_V_DIRECT; i++)
		if (c->cq.direct[i].thread == thread && c->cq.direct[i].set.set == set)
			return &c->cq.direct[i];
	return NULL;
}

/* The same, but finds a free place if the thread or set has none yet. */
static struct sr_vsleeper *sleeper_place(struct sr_vcarrier *c, pthread_t thread, const void *set)
{
	struct sr_vsleeper *s = sleeper_find(c, thread, set);

	return s ? s : sleeper_find(c, 0, NULL);
}

bool sr_vcq_any_sleeper(const struct sr_vcarrier *c)
{
	bool any = c->cq.dispatched || c->cq.armed_once;

	for (unsigned i = 0; i < SR_V_DIRECT; i++)
		any |= c->cq.direct[i].arms;
	return any;
}

/* Takes what has come before it arms the CQs, because otherwise they would fire at once, and
 * because other threads may wait for it. */
static void take_event(struct sr_vcarrier *c)
{
	if (!c->qp)
		return;
	read_events(c);
	sr_vcq_reap(c);
	if (!c->cq.watched && !sr_vcq_any_sleeper(c))
		return;
	arm_cqs(c);
	sr_vcq_reap(c);
}

void sr_vcq_await_out(struct sr_vcarrier *c)
{
	sr_vcq_reap(c);
	if (!c->qp || !c->cq.watched || !sr_vpost_waits(c))
		return;
	arm_cqs(c);
	sr_vcq_reap(c);
}

/* ---- program threads ---- */

/* Notes that the calling thread sleeps on the channel's descriptor, perhaps for another link, too.
 * Returns false if as many threads and sets have it as may (SR_V_DIRECT). */
static bool become_direct(struct sr_vcarrier *c)
{
	const pthread_t me = pthread_self();
	struct sr_vsleeper *s = sleeper_place(c, me, NULL);

	if (!c->qp || !s)
		return false;
	s->thread = me;
	s->arms++;
	return true;
}

int sr_verbs_arm(struct sr_link *link, unsigned want)
{
	struct sr_vcarrier *c = sr_vlink(link)->c;
	bool asks = false;
	int fd = -1;

	(void)want;
	sr_vcarrier_lock(c);
	sr_vpost_gathered(c);
	if (c->qp)
		arm_cqs(c);
	if (become_direct(c)) {
		fd = c->cq.fd;
	} else {
		c->cq.dispatched++;
		asks = c->qp && !c->cq.watched;
	}
	sr_vcarrier_unlock(c);
	if (asks)
		sr_vlook_start(c, SR_LOOK_WATCH);
	return fd;
}

void sr_verbs_awake(struct sr_link *link, unsigned want, bool watched, bool slept)
{
	struct sr_vcarrier *c = sr_vlink(link)->c;
	struct sr_vsleeper *s;

	(void)want;
	sr_vcarrier_lock(c);
	s = watched ? sleeper_find(c, pthread_self(), NULL) : NULL;
	if (!s)
		c->cq.dispatched--;
	else if (--s->arms)
		slept = false;	/* by the last of its links it reads the event, once for all */
	else
		s->thread = 0;
	if (slept)
		take_event(c);
	else
		sr_vcq_reap(c);
	sr_vcarrier_unlock(c);
}

/* ---- epoll sets ---- */

/* Adds n to the number of links that epoll sets have armed, and to those of them that need the
 * service thread, if the link is one. */
static void count_armed(struct sr_vlink *l, unsigned n)
{
	l->c->cq.armed_once += l->armed_once ? n : 0;
	l->c->cq.unwatched += l->armed_once && l->unwatched ? n : 0;
}

void sr_vcq_note_armed(struct sr_vlink *l, unsigned bits)
{
	count_armed(l, -1u);
	l->armed_once = bits;
	count_armed(l, 1);
}

int sr_verbs_arm_once(struct sr_link *link, unsigned want)
{
	struct sr_vlink *l = sr_vlink(link);
	struct sr_vcarrier *c = l->c;
	bool asks = false, shared = sr_load(&c->shared);
	int fd = -1;

	want &= ~(unsigned)SR_ARM_DATA;
	sr_vcarrier_lock(c);
	if (c->qp) {
		fd = shared ? -1 : c->cq.fd;
		asks = l->unwatched && want && !c->cq.watched;
		sr_vcq_note_armed(l, l->armed_once | want);
	}
	if (c->qp && want) {
		/* If the carrier is not shared, no other thread reads an event that came late.  On
		 * siw such an event may have disarmed the CQ, which was armed before it came. */
		if (!shared && c->cq.in.state == SR_CQ_ARMED)
			next_event(c);
		sr_vpost_gathered(c);
		arm_cqs(c);
	}
	sr_vcarrier_unlock(c);
	if (asks)
		sr_vlook_start(c, SR_LOOK_WATCH);
	return fd;
}

struct sr_watcher *sr_verbs_watch(struct sr_link *link, const void *set)
{
	struct sr_vlink *l = sr_vlink(link);
	struct sr_vcarrier *c = l->c;
	struct sr_vsleeper *s = NULL;

	if (!sr_load(&c->shared))
		return NULL;
	sr_vcarrier_lock(c);
	if (c->qp && set)
		s = sleeper_place(c, 0, set);
	if (s) {
		s->set.set = set;
		s->set.fd = c->cq.fd;
	} else {
		count_armed(l, -1u);
		l->unwatched = true;
		count_armed(l, 1);
	}
	sr_vcarrier_unlock(c);
	return s ? &s->set : NULL;
}

void sr_verbs_unwatch(struct sr_link *link, struct sr_watcher *w)
{
	struct sr_vcarrier *c = sr_vlink(link)->c;

	sr_vcarrier_lock(c);
	w->set = NULL;
	sr_vcarrier_unlock(c);
}

void sr_verbs_rang(struct sr_link *link)
{
	struct sr_vcarrier *c = sr_vlink(link)->c;

	sr_vcarrier_lock(c);
	sr_vcq_note_use(c);
	take_event(c);
	sr_vcarrier_unlock(c);
}

/* ---- the service thread: what is below is the loop's ---- */

/* Must the service thread go on watching the channel?  Nothing else wakes threads that are
 * dispatched, and epoll sets that do not have the descriptor. */
static bool needs_watch(const struct sr_vcarrier *c)
{
	return c->cq.dispatched || c->cq.unwatched;
}

bool sr_vcq_watch(struct sr_vcarrier *c, bool on)
{
	bool off;

	if (c->cq.watched == on || !c->qp)
		return true;
	if (on && sr_loop_watch(&c->cq.watch, EPOLLIN))
		return false;
	sr_vcarrier_lock(c);
	c->cq.watched = on || needs_watch(c);
	if (on) {
		arm_cqs(c);
		sr_vcq_reap(c);	/* it is armed: the last look */
	}
	off = !c->cq.watched;
	sr_vcarrier_unlock(c);
	if (off)
		sr_loop_unwatch(&c->cq.watch);
	return true;
}

static void on_cq_channel(struct sr_watch *w, uint32_t events)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, cq.watch, w);

	(void)events;
	sr_vcarrier_lock(c);
	take_event(c);
	sr_vcarrier_unlock(c);
	sr_vlook_start(c, SR_LOOK);
}

/* ---- making and ending ---- */

/* A completion vector is an interrupt, and so a CPU, which wakes the threads that sleep for a CQ.
 * Carriers take turns, because no vector suits a carrier for long: a thread that reads many
 * streams moves from CPU to CPU, and the thread that connects is often not the one that reads. */
static int next_vector(struct sr_vdev *dev)
{
	int most = dev->ctx->num_comp_vectors;

	return most > 1 ? (int)(dev->vector++ % (unsigned)most) : 0;
}

void sr_vcq_init(struct sr_vcarrier *c)
{
	c->cq.fd = -1;
	c->cq.watch.fn = on_cq_channel;
}

/* On failure sr_vcq_close() destroys what there is. */
const char *sr_vcq_make(struct sr_vcarrier *c)
{
	struct ibv_context *ctx = c->dev->ctx;
	int vector;

	if (!sr_fd_room(1))
		return "descriptors";
	c->cq.chan = sr_vlib.v_create_comp_channel(ctx);
	if (!c->cq.chan)
		return "device-failed";
	c->cq.fd = c->cq.chan->fd = sr_fd_own(c->cq.chan->fd);
	if (c->cq.fd < 0)	/* a program with very many: none is free where ours are */
		return "descriptors";
	vector = next_vector(c->dev);
	c->cq.in.cq = sr_vlib.v_create_cq(ctx, SR_V_RQ, c, c->cq.chan, vector);
	if (!c->cq.in.cq)
		return sr_vmem_refusal(errno);
	sr_work_pause();
	c->cq.out.cq = sr_vlib.v_create_cq(ctx, SR_V_SQ, c, c->cq.chan, vector);
	if (!c->cq.out.cq)
		return sr_vmem_refusal(errno);
	sr_vdev_nonblock(c->cq.fd);
	c->cq.watch.fd = c->cq.fd;
	return NULL;
}

/*
 * Threads may be asleep on the channel's descriptor, and epoll sets may watch it.  So its number
 * stays ours until the carrier is freed.  The channel must not keep the device open, so an eventfd
 * takes its place at that number.  The eventfd is readable, which wakes the threads.
 */
void sr_vcq_close(struct sr_vcarrier *c)
{
	if (c->cq.in.cq)
		sr_vlib.v_destroy_cq(c->cq.in.cq);
	if (c->cq.out.cq)
		sr_vlib.v_destroy_cq(c->cq.out.cq);
	c->cq.in.cq = c->cq.out.cq = NULL;
	if (!c->cq.chan)
		return;
	if (c->cq.fd >= 0)
		sr_sys_dup3(c->dev->spent, c->cq.fd, O_CLOEXEC);
	c->cq.chan->fd = -1;
	sr_vlib.v_destroy_comp_channel(c->cq.chan);
	c->cq.chan = NULL;
}

void sr_vcq_free(struct sr_vcarrier *c)
{
	if (c->cq.fd >= 0)
		sr_fd_close(c->cq.fd);
}
