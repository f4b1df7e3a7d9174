/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cq.c - taking completions, sleeping until some come, and what the service
 * thread does meanwhile.
 *
 * Each link has two CQs, and a completion channel of its own for both.  A thread that sleeps
 * for the link polls the channel, and an epoll set that the stream is in watches
 * it: an arrival wakes the thread that waits for it, and no other one.
 *
 * The CQ `in` has the completions of receives: it is armed whenever a thread, an epoll set or
 * the service thread waits for the link.  The CQ `out` has those of our own requests.  It is
 * armed, too, only while something cannot be posted before a request has completed.
 *
 * The service thread sees to what arrives while the program does something else.
 *  - It watches the channels of links that the program does not use.
 *  - While the program uses a link, it does not watch the channel, but looks at
 *    the link in every tick of a timer.  Program use is what counts: a thread
 *    that sleeps or polls takes the completions itself.
 * The timer looks after the link while it is busy, and decides which of the two it is.
 * A link that is not busy is watched.
 *
 * No wake-up is lost: a CQ, once armed, puts an event into the channel with its
 * next completion, and the channel is readable until somebody reads the event.
 *  - A thread that is going to sleep arms the CQ, and then polls it (the contract of
 *    arm() and arm_once()).  What came before is found by that poll; what comes
 *    later makes an event.
 *  - A thread that reads an event arms the CQ again if a sleeper, an epoll set or
 *    the service thread relies on it.  Then it polls, and calls notify() for what
 *    the others wait for.
 *  - An armed CQ is armed again when completions have been taken since (SR_CQ_FIRED):
 *    then its event has come, or is about to.  One that comes late, when the CQ
 *    has been armed again, wakes a sleeper in vain.
 *  - A request that begins to wait for a completion of `out` is seen to by the timer; or, if
 *    the service thread watches the channel, `out` is armed and then polled
 *    (sr_vcq_await_out()).
 *
 * Locks: the link's.
 */
#include "base/sys.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fdpriv.h"
#include "base/order.h"

enum {
	BATCH = 8,		/* completions a poll */
	TICK_MS = 50,
	SOON_US = 200,		/* a tick while bytes are held back */
	BUSY_SOON_US = 2000,	/* the same while the program looks itself */
	BUSY = 3,		/* looks of the program in a tick: more is use */
};

#define TICK_NS (TICK_MS * UINT64_C(1000000))

/* ---- taking completions ---- */

static int half_poll(struct sr_vlink *l, struct sr_vcq_half *h, struct ibv_wc wc[BATCH])
{
	int n = ibv_poll_cq(h->cq, BATCH, wc);

	if (n < 0)
		sr_vlink_break(l, "device-failed");
	if (n > 0 && h->state == SR_CQ_ARMED)
		h->state = SR_CQ_FIRED;
	return n;
}

__attribute__((noinline)) /* or the caller has two arrays */
static bool take_out(struct sr_vlink *l, unsigned *what)
{
	struct ibv_wc wc[BATCH];
	bool any = false;
	int i, n;

	do {
		n = half_poll(l, &l->c->cq.out, wc);
		for (i = 0; i < n; i++)
			*what |= sr_vrx_completion(l, &wc[i]);
		any |= n > 0;
	} while (n == BATCH);
	return any;
}

/* All that have come: none is posted meanwhile. */
unsigned sr_vcq_take(struct sr_vlink *l)
{
	struct ibv_wc wc[BATCH];
	unsigned what = 0;
	bool any;
	int i, n;

	if (!l->c->qp)
		return 0;
	any = sr_vtx_completes(l) && take_out(l, &what);
	do {
		n = half_poll(l, &l->c->cq.in, wc);
		/* A request that has failed ends the receives, too; it knows why. */
		if (n > 0 && wc[n - 1].status != IBV_WC_SUCCESS)
			take_out(l, &what);
		for (i = 0; i < n; i++)
			what |= sr_vrx_completion(l, &wc[i]);
		any |= n > 0;
	} while (n == BATCH);
	if (!any)
		return 0;
	if (sr_vrx_repost(l))
		sr_vlink_break(l, "device-failed");
	sr_vtx_pump(l);
	l->c->cq.armed_once &= ~what;
	return what;
}

void sr_verbs_poll(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);

	sr_vlink_lock(l);
	l->c->cq.used += !sr_loop_here();
	sr_vlink_unlock(l, sr_vcq_take(l));
}

/* ---- arming: locked ---- */

static bool next_event(struct sr_vlink *l)
{
	struct ibv_cq *cq;
	void *arg;

	if (sr_vlib.v_get_cq_event(l->c->cq.chan, &cq, &arg))
		return false;
	sr_vlib.v_ack_cq_events(cq, 1);
	(cq == l->c->cq.in.cq ? &l->c->cq.in : &l->c->cq.out)->state = SR_CQ_UNARMED;
	return true;
}

/* An event that was not there yet the last time is read, too, or they would add up. */
static void read_events(struct sr_vlink *l)
{
	const unsigned fired = (l->c->cq.in.state == SR_CQ_FIRED) + (l->c->cq.out.state == SR_CQ_FIRED);
	const unsigned due = fired + l->c->cq.late;
	unsigned found = 0;

	while (found < (due ? due : 1) && next_event(l))
		found++;
	l->c->cq.late = fired > found ? fired - found : 0;
	if (l->c->cq.in.state == SR_CQ_FIRED)
		l->c->cq.in.state = SR_CQ_UNARMED;
	if (l->c->cq.out.state == SR_CQ_FIRED)
		l->c->cq.out.state = SR_CQ_UNARMED;
}

static void arm_half(struct sr_vlink *l, struct sr_vcq_half *h)
{
	if (h->state == SR_CQ_ARMED)
		return;
	h->state = SR_CQ_ARMED;
	if (ibv_req_notify_cq(h->cq, 0))
		sr_vlink_break(l, "device-failed");
}

static void arm_cqs(struct sr_vlink *l)
{
	if (l->c->cq.in.state == SR_CQ_FIRED || l->c->cq.out.state == SR_CQ_FIRED)
		read_events(l);
	arm_half(l, &l->c->cq.in);
	if (sr_vtx_waits(l))
		arm_half(l, &l->c->cq.out);
}

static void take_event(struct sr_vlink *l)
{
	if (!l->c->qp)
		return;
	read_events(l);
	if (l->c->cq.watched || l->c->cq.sleepers || l->c->cq.armed_once)
		arm_cqs(l);
}

unsigned sr_vcq_await_out(struct sr_vlink *l)
{
	unsigned what = sr_vcq_take(l);

	if (!l->c->qp || !l->c->cq.watched || !sr_vtx_waits(l))
		return what;
	arm_cqs(l);
	return what | sr_vcq_take(l);
}

/* ---- program threads ---- */

int sr_verbs_arm(struct sr_link *link, unsigned want)
{
	struct sr_vlink *l = sr_vlink(link);
	int fd = -1;

	(void)want;
	sr_vlink_lock(l);
	l->c->cq.sleepers++;
	if (l->c->qp) {
		arm_cqs(l);
		fd = l->c->cq.fd;
	}
	sr_vlink_unlock(l, 0);
	return fd;
}

void sr_verbs_awake(struct sr_link *link, unsigned want, bool slept)
{
	struct sr_vlink *l = sr_vlink(link);

	(void)want;
	sr_vlink_lock(l);
	l->c->cq.sleepers--;
	if (slept)
		take_event(l);
	sr_vlink_unlock(l, sr_vcq_take(l));
}

int sr_verbs_arm_once(struct sr_link *link, unsigned want)
{
	struct sr_vlink *l = sr_vlink(link);
	int fd = -1;

	want &= ~(unsigned)SR_ARM_DATA;
	sr_vlink_lock(l);
	if (l->c->qp) {
		fd = l->c->cq.fd;
		l->c->cq.armed_once |= want;
	}
	if (l->c->qp && want) {
		/* Nobody else reads an event that has come late; on siw it may have
		 * disarmed what was armed before it came. */
		if (l->c->cq.in.state == SR_CQ_ARMED)
			next_event(l);
		arm_cqs(l);
	}
	sr_vlink_unlock(l, 0);
	return fd;
}

/* ---- the service thread: what is below is the loop's ---- */

bool sr_vcq_watch(struct sr_vlink *l, bool on)
{
	if (l->c->cq.watched == on || !l->c->qp)
		return true;
	if (on && sr_loop_watch(&l->c->cq.watch, EPOLLIN))
		return false;
	sr_vlink_lock(l);
	l->c->cq.watched = on;
	if (on)
		arm_cqs(l);
	sr_vlink_unlock(l, 0);
	if (on)
		sr_verbs_poll(&l->link);	/* it is armed: the last look */
	else
		sr_loop_unwatch(&l->c->cq.watch);
	return true;
}

static void on_cq_channel(struct sr_watch *w, uint32_t events)
{
	struct sr_vlink *l = SR_OF(struct sr_vcarrier, cq.watch, w)->link;

	(void)events;
	sr_vlink_lock(l);
	take_event(l);
	sr_vlink_unlock(l, sr_vcq_take(l));
	sr_vlook_start(l, SR_LOOK);
}

/* The peer has not answered what it has to answer at once, or while its program reads.
 * Its service thread answers a PROBE in any case: if nothing at all comes from the peer for
 * a quarter of retry_ms it is asked, and after the rest the link is given up.  (Time in
 * which this process stood still makes no ticks.) */
static void probe(struct sr_vlink *l, bool unanswered)
{
	const struct sr_msg msg = { .type = SR_MSG_PROBE };
	const unsigned limit = sr_conf.retry_ms / TICK_MS;
	const uint32_t taken = sr_packets_taken(&l->c->out.credit);
	struct sr_vlook *k = &l->c->look;

	if (!unanswered || taken != k->packets) {
		k->packets = taken;
		k->quiet_ticks = 0;
		return;
	}
	if (++k->quiet_ticks >= limit && l->c->out.probe_out)
		sr_vlink_break(l, sr_vtx_why(l, IBV_WC_SUCCESS, "timeout"));
	else if (k->quiet_ticks >= limit / 4 && !l->c->out.probe_out)
		l->c->out.probe_out = !sr_vtx_queue(l, &msg);
}

/* Is there something to look after?  Traffic does that by itself; here is for
 * what is left when it stops. */
static bool unfinished(struct sr_vlink *l, uint64_t now)
{
	uint64_t taken = atomic_load(&l->link.rx_taken);
	uint64_t acked = atomic_load(&l->link.tx_acked);
	uint64_t w = atomic_load(&l->link.tx_w);
	uint64_t sum = taken + acked + w + atomic_load(&l->link.rx_h);
	unsigned have = sr_link_events(&l->link);
	bool unsaid, unanswered, unheard;

	/* An ACK to the byte, once the reader has paused. */
	unsaid = (have & SR_LINK_SWITCH) && taken != l->tx.ack_said;
	if (unsaid && taken == l->seen.taken)
		l->tx.ack_due = true;

	/* siw may leave an answerer's first message lying in its socket until
	 * the next one comes (siw_accept() replies before it listens). */
	unheard = l->c->iwarp && l->link.role == SR_ROLE_ASKER &&
		  !sr_packets_taken(&l->c->out.credit);
	if (unheard && l->c->out.credit.sent)
		l->tx.ack_due = true;

	unanswered = sr_link_said(&l->link, SR_MSG_SWITCH) &&
		     (!(have & SR_LINK_ACKSW) || acked != w ||
		      (sr_link_said(&l->link, SR_MSG_END) && !(have & SR_LINK_ACKEND)));
	unanswered |= sr_vtx_lacks_credit(l);
	probe(l, unanswered);
	if (sum != l->seen.sum)	/* none of them ever decreases */
		l->seen.moved_ns = now;
	l->seen.taken = taken;
	l->seen.sum = sum;
	return unsaid || unanswered || unheard || now - l->seen.moved_ns < TICK_NS;
}

/* The whole look, each TICK_MS.  Returns whether there is to be another one; if not, whether
 * there is to be one when the link has been idle. */
static bool whole_look(struct sr_vlink *l, uint64_t now, bool *idles)
{
	struct sr_vlook *k = &l->c->look;
	bool busy, in_use, watched;

	sr_vlink_lock(l);
	busy = unfinished(l, now);
	sr_vtx_pump(l);
	in_use = l->c->cq.used - k->used > BUSY;
	k->used = l->c->cq.used;
	sr_vlink_unlock(l, 0);
	*idles = sr_vgrow_idle(l, now - l->seen.moved_ns);
	watched = sr_vcq_watch(l, !in_use);
	return busy || in_use || !watched || atomic_load(&k->on);
}

/* The whole looks of all links come at one time, and wake the thread once. */
static void set_timer(struct sr_vlook *k)
{
	if (!(atomic_load(&k->on) & SR_LOOK_SOON))
		sr_timer_set(&k->timer, TICK_MS - sr_now_ns() / 1000000 % TICK_MS);
	else
		sr_timer_set_us(&k->timer, k->busy ? BUSY_SOON_US : SOON_US);
}

/* Has the program looked since the last tick?  Then it will probably take the completions
 * itself for which bytes wait.  locked */
static bool is_busy(struct sr_vlink *l)
{
	bool yes = l->c->cq.used != l->c->look.soon_used;

	l->c->look.soon_used = l->c->cq.used;
	return yes;
}

/* The next tick is to be soon if bytes wait for a completion that nobody watches for, or
 * if the link is ending. */
static void tick(struct sr_timer *t)
{
	struct sr_vlink *l = SR_OF(struct sr_vcarrier, look.timer, t)->link;
	struct sr_vlook *k = &l->c->look;
	uint64_t now = sr_now_ns();
	bool whole = now / TICK_NS != k->tick, idles = false, again, soon;

	sr_verbs_poll(&l->link);
	/* A thread that moves the link after this starts the timer again. */
	atomic_fetch_and(&k->on, whole ? 0 : SR_LOOK);
	sr_fence_look();	/* pair look: sr_vlook_start() */
	k->tick = now / TICK_NS;
	if (sr_link_events(&l->link) & SR_LINK_DEAD) {
		soon = again = k->busy = sr_vlink_end(l);
	} else {
		again = !whole || whole_look(l, now, &idles);
		sr_lock(&l->c->lock);
		soon = l->c->qp && sr_vtx_waits(l) && !l->c->cq.watched;
		k->busy = is_busy(l);
		sr_unlock(&l->c->lock);
	}
	if (again) {
		atomic_fetch_or(&k->on, SR_LOOK | (soon ? SR_LOOK_SOON : 0));
		set_timer(k);
	} else if (idles) {
		sr_timer_set(&k->timer, SR_V_IDLE_MS);
	}
}

static void start(struct sr_task *t)
{
	struct sr_vlink *l = SR_OF(struct sr_vcarrier, look.task, t)->link;

	l->c->look.busy = false;
	if (l->c->id)
		set_timer(&l->c->look);
	sr_link_put(&l->link);
}

/* Unless the link is about to be freed. */
static bool vlink_tryget(struct sr_link *link)
{
	int refs = atomic_load(&link->refs);

	while (refs > 0)
		if (atomic_compare_exchange_weak(&link->refs, &refs, refs + 1))
			return true;
	return false;
}

/* pair look: the caller has moved the link: by a sequentially consistent change (DEAD), or
 * under its lock, which tick() takes before it looks at what moved. */
void sr_vlook_start(struct sr_vlink *l, unsigned how)
{
	struct sr_vlook *k = &l->c->look;

	if (!(how & ~atomic_load(&k->on)) ||
	    !(how & ~atomic_fetch_or(&k->on, how)) || !vlink_tryget(&l->link))
		return;
	if (!sr_loop_post(&k->task))
		sr_link_put(&l->link);	/* it is posted, and has a reference */
}

/* ---- making and ending ---- */

/* A completion vector is an interrupt, and so a CPU, which wakes the threads that sleep for
 * a queue.  Links take turns: a thread that reads many of them moves from CPU to CPU, and
 * the one that connects is often not the one that reads. */
static int next_vector(struct sr_vdev *dev)
{
	int most = dev->ctx->num_comp_vectors;

	return most > 1 ? (int)(dev->vector++ % (unsigned)most) : 0;
}

/* In the loop: two threads may post the task at once. */
void sr_vcq_init(struct sr_vlink *l)
{
	l->c->look.task.fn = start;
	l->c->look.timer.fn = tick;
	l->c->cq.fd = -1;
	l->c->cq.watch.fn = on_cq_channel;
}

/* On failure sr_vcq_close() destroys what there is. */
const char *sr_vcq_make(struct sr_vlink *l)
{
	struct ibv_context *ctx = l->c->dev->ctx;
	int vector;

	if (!sr_fd_room(1))
		return "descriptors";
	l->c->cq.chan = sr_vlib.v_create_comp_channel(ctx);
	if (!l->c->cq.chan)
		return "device-failed";
	l->c->cq.fd = l->c->cq.chan->fd = sr_fd_own(l->c->cq.chan->fd);
	if (l->c->cq.fd < 0)	/* a program with very many: none is free where ours are */
		return "descriptors";
	vector = next_vector(l->c->dev);
	l->c->cq.in.cq = sr_vlib.v_create_cq(ctx, SR_V_RQ, l, l->c->cq.chan, vector);
	if (!l->c->cq.in.cq)
		return sr_vmem_refusal(errno);
	sr_work_pause();
	l->c->cq.out.cq = sr_vlib.v_create_cq(ctx, SR_V_SQ, l, l->c->cq.chan, vector);
	if (!l->c->cq.out.cq)
		return sr_vmem_refusal(errno);
	sr_vdev_nonblock(l->c->cq.fd);
	l->c->cq.watch.fd = l->c->cq.fd;
	return NULL;
}

/*
 * Epoll sets may have the channel's descriptor, and threads be asleep on it: its
 * number stays ours until the link is freed, and an eventfd takes the place of the
 * channel, which must not keep the device open.  It is readable, so it wakes.
 */
void sr_vcq_close(struct sr_vlink *l)
{
	if (l->c->cq.in.cq)
		sr_vlib.v_destroy_cq(l->c->cq.in.cq);
	if (l->c->cq.out.cq)
		sr_vlib.v_destroy_cq(l->c->cq.out.cq);
	l->c->cq.in.cq = l->c->cq.out.cq = NULL;
	if (!l->c->cq.chan)
		return;
	if (l->c->cq.fd >= 0)
		sr_sys_dup3(l->c->dev->spent, l->c->cq.fd, O_CLOEXEC);
	l->c->cq.chan->fd = -1;
	sr_vlib.v_destroy_comp_channel(l->c->cq.chan);
	l->c->cq.chan = NULL;
}

void sr_vcq_free(struct sr_vlink *l)
{
	if (l->c->cq.fd >= 0)
		sr_fd_close(l->c->cq.fd);
}
