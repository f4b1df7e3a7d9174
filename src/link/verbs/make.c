/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * make.c - making what the device has of a carrier, and destroying it: domain, memory, queues.
 *
 * On hardware each of these verbs is a command to the device of some 100 us, and a carrier takes
 * ten.  So they run in the thread of jobs (base/jobs.h), and the service thread goes on
 * with other streams.  The carrier begins to be made, and is closed, in the loop:
 *
 *   sr_vlink_make()     loop   the carrier is in its device's list, without a queue pair
 *   make_job()          job    domain, memory, queues; all of them or none
 *   carrier_made()      loop   the queue pair is the carrier's; receives are posted; the CM goes on
 *   sr_vcarrier_close() loop   the queue pair is nobody's; c->id is NULL
 *   unmake_job()        job    queues, memory, domain go
 *   carrier_unmade()    loop   the id goes
 *
 * What the two threads share:
 *  - A job is handed over by the lock of its queue, and back by sr_loop_post().  Between
 *    these the thread of jobs alone has what it makes or destroys.
 *  - Other threads look at c->qp under the carrier's lock before they touch queues or regions,
 *    and it is NULL before carrier_made() and since sr_vcarrier_close().  sr_verbs_work() looks
 *    at c->id.
 *  - The first rings of the first link, if they are registered, are made by the job, too: they
 *    are not used before carrier_made(), and no link is freed while a job runs.
 *  - librdmacm changes the queue pair of an id when it reads the id's events, in the loop,
 *    and it destroys none that it does not see: sr_vcarrier_close() takes it from the id first.
 *  - The id's events come to us until carrier_unmade(): those of a closed carrier come to no
 *    function.
 *  - A carrier that is closed while it is being made is closed by carrier_made() (make.doomed),
 *    after the CM's peer was told.  A job has a reference to its carrier.  There is one job a
 *    carrier at a time.
 *  - A device that goes is given up after its last job (sr_vdev_busy()).
 *  - fork may copy the process between two verbs (sr_work_pause()).  The child forgets carriers
 *    and jobs, and our descriptors are closed there; rings are never mapped there
 *    (MADV_DONTFORK is set before the next pause).
 *  - No lock is held while a verb runs here.
 */
#include "base/sys.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

enum {
	CTL_BYTES = (SR_V_RQ + SR_V_SENDS) * SR_PACKET_MAX,
	INLINE_MOST = 128,	/* a packet of 104 bytes of a stream */
	INLINE_LEAST = 32,
};

/* ---- in the thread of jobs: making ---- */

/*
 * A remote key is good on every queue pair of its protection domain (InfiniBand Architecture
 * 1, 10.2.3 and 10.6), and keys and addresses can be guessed.  So each carrier has a domain
 * of its own: its peer can write to the rings of its links, and to no other memory.
 */
static const char *make_domain(struct sr_vcarrier *c)
{
	c->pd = sr_vlib.v_alloc_pd(c->dev->ctx);
	return c->pd ? NULL : sr_vmem_refusal(errno);
}

static const char *make_ring(struct sr_vcarrier *c, struct sr_vring *r, size_t size, int access)
{
	sr_work_pause();
	return sr_vring_make(c, r, size, access);
}

/* Allocates and registers the packets' buffers, and the first link's rings if these are larger than
 * SR_V_ORDINARY. */
static const char *make_memory(struct sr_vcarrier *c)
{
	struct sr_vlink *l = c->links;
	const size_t size = l->policy->ring_first;
	const char *reason = make_ring(c, &c->ctl, CTL_BYTES, IBV_ACCESS_LOCAL_WRITE);

	if (size <= SR_V_ORDINARY)
		return reason;
	if (!reason)
		reason = make_ring(c, &l->rx.ring[0], size, SR_V_RX_ACCESS);
	if (!reason)
		reason = make_ring(c, &l->tx.ring, size, IBV_ACCESS_LOCAL_WRITE);
	return reason;
}

static const char *make_qp(struct sr_vcarrier *c)
{
	const unsigned sends = c->iwarp ? SR_V_IWARP_SQ : SR_V_SQ;
	const unsigned receives = c->iwarp ? SR_V_IWARP_RQ : SR_V_RQ;
	unsigned asked = INLINE_MOST;
	struct ibv_qp_init_attr attr = {
		.send_cq = c->cq.out.cq,
		.recv_cq = c->cq.in.cq,
		.cap = {
			.max_send_wr = sends,
			.max_recv_wr = receives,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = INLINE_MOST,
		},
		.qp_type = IBV_QPT_RC,
	};

	/* As much inline as the device gives.  On siw it is needed: what is small and not
	 * inline it may copy from the memory of whatever process ran last on that CPU
	 * (siw_try_1seg(): copy_from_user() in its thread, while in_syscall still stands). */
	while (sr_vlib.cm_create_qp(c->id, c->pd, &attr)) {
		/* Not by attr.cap: a failure may have written to it. */
		if (!asked)
			return sr_vmem_refusal(errno);
		asked = asked / 2 >= INLINE_LEAST ? asked / 2 : 0;
		attr.cap.max_inline_data = asked;
		attr.cap.max_send_wr = sends;
		attr.cap.max_recv_wr = receives;
	}
	/* Some devices grant less than was asked for (hns: 32 bytes, rdmavt: none). */
	c->max_inline = attr.cap.max_inline_data;
	return NULL;
}

/* Most devices keep the queues in memory of the process.  How much the kernel pins for them
 * is seen at the first carrier. */
static const char *make_queues(struct sr_vcarrier *c)
{
	struct sr_vdev *dev = c->dev;
	size_t before = dev->weighed ? 0 : sr_verbs_pinned(), after;
	const char *reason;

	sr_work_pause();
	reason = sr_vcq_make(c);
	sr_work_pause();
	if (!reason)
		reason = make_qp(c);
	if (reason)
		return reason;
	if (!dev->weighed) {
		after = sr_verbs_pinned();
		dev->queue_bytes = after > before ? after - before : 0;
		dev->weighed = true;
		sr_debug("verbs: %s: %zu bytes are pinned for the queues of a carrier", dev->name,
			 dev->queue_bytes);
	}
	c->queue_bytes = dev->queue_bytes;
	sr_vmem_count((ssize_t)c->queue_bytes);
	return NULL;
}

/* ---- in the thread of jobs: the end ---- */

static void vmake_undo(struct sr_vcarrier *c)
{
	struct sr_vmake *m = &c->make;
	struct sr_vlink *l;

	if (m->disconnects)
		sr_vlib.cm_disconnect(m->id);
	sr_work_pause();
	if (m->qp)
		sr_vlib.v_destroy_qp(m->qp);
	m->qp = NULL;
	sr_work_pause();
	sr_vcq_close(c);
	sr_vmem_count(-(ssize_t)c->queue_bytes);
	c->queue_bytes = 0;
	sr_work_pause();
	sr_vring_close(&c->ctl);	/* nobody looks at it without a queue pair */
	for (l = c->links; l; l = l->next)	/* none leaves meanwhile */
		for (unsigned i = 0; i < SR_V_RINGS; i++) {
			sr_work_pause();
			sr_vring_close(&l->gone[i]);
		}
	if (c->pd)
		sr_vlib.v_dealloc_pd(c->pd);
	c->pd = NULL;
}

static void unmake_job(struct sr_job *job)
{
	vmake_undo(SR_OF(struct sr_vcarrier, make.job, job));
}

/* Hands the link's regions over to the job that deregisters them.  The memory stays where it is. */
static void take_regions(struct sr_vlink *l)
{
	for (unsigned i = 0; i < SR_V_RINGS; i++) {
		struct sr_vring *r = sr_vlink_ring(l, i);

		l->gone[i] = *r;
		r->mr = NULL;
	}
}

static void make_job(struct sr_job *job)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, make.job, job);
	const char *reason = make_domain(c);

	if (!reason)
		reason = make_memory(c);
	if (!reason)
		reason = make_queues(c);
	c->make.reason = reason;
	if (!reason)
		return;
	take_regions(c->links);
	vmake_undo(c);
}

/* ---- in the loop ---- */

static void carrier_start_job(struct sr_vcarrier *c, void (*run)(struct sr_job *),
		      void (*done)(struct sr_job *))
{
	sr_vcarrier_get(c);
	c->make.busy = true;
	c->make.job.run = run;
	c->make.job.done = done;
	sr_vdev_busy(c->dev);
	sr_job_start(&c->make.job);
}

/* Does the carrier have something that its destruction gives back?  (A job that fails destroys what
 * it has made.) */
static bool was_made(const struct sr_vcarrier *c)
{
	return !c->make.reason;
}

bool sr_vmake_is_unmaking(void)
{
	struct sr_vdev *dev = sr_vdevs;

	while (dev && !dev->unmaking)
		dev = dev->next;
	return dev;
}

static void carrier_unmade(struct sr_job *job)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, make.job, job);

	c->dev->unmaking -= was_made(c);
	c->make.busy = false;
	sr_vlib.cm_destroy_id(c->make.id);
	sr_vdev_idle(c->dev);
	sr_vcarrier_sweep(c);
	sr_vcarrier_put(c);	/* the job's */
	sr_vcarrier_put(c);	/* and that of carrier_new() */
}

/* The carrier was closed while a job makes it: carrier_made() will close it for this reason.  The
 * streams of its links may end before that, and sr_vlink_fail() tells these nothing more. */
static void carrier_doom(struct sr_vcarrier *c)
{
	struct sr_vlink *l;

	c->make.doomed = "short";
	for (l = c->links; l; l = l->next) {
		sr_link_set_reason(&l->link, "short");
		c->make.doomed = sr_load(&l->link.reason);
	}
}

/* Everything that the device knows of goes; the rings' memory stays. */
void sr_vcarrier_close(struct sr_vcarrier *c, bool disconnects)
{
	struct sr_vlink *l;

	if (!c->id)
		return;
	c->cm.event = NULL;
	c->id->context = &c->cm;
	if (c->make.busy) {
		carrier_doom(c);
		return;
	}
	c->make.disconnects = disconnects;
	c->make.id = c->id;
	sr_lock(&c->lock);	/* nobody polls, arms or posts any more */
	c->make.qp = c->qp;
	c->qp = NULL;
	for (l = c->links; l; l = l->next)
		take_regions(l);
	c->share.opens = 0;
	sr_unlock(&c->lock);
	sr_vrequests_gone(c);
	c->id->qp = NULL;
	if (c->cq.watched)
		sr_loop_unwatch(&c->cq.watch);
	SR_LIST_DROP(c);
	sr_timer_cancel(&c->look.timer);
	c->id = NULL;
	c->dev->unmaking += was_made(c);
	carrier_start_job(c, unmake_job, carrier_unmade);
}

/* The link for which the carrier was made learns its queue pair, and where its ring is. */
static void link_begins(struct sr_vcarrier *c, struct sr_vlink *l)
{
	sr_store(&l->link.qp, c->qp->qp_num);
	sr_store(&l->rx.window, l->rx.ring[0].size);
	l->rx.place[0] = (struct sr_ring){ l->rx.ring[0].buf, l->rx.ring[0].size };
}

static const char *begin_use(struct sr_vcarrier *c)
{
	bool failed;

	sr_lock(&c->lock);
	c->qp = c->id->qp;
	link_begins(c, c->links);
	c->in.repost_n = SR_V_RQ;
	failed = sr_vrx_repost(c);
	sr_packets_init(&c->out.credit);	/* it has these buffers, and the peer knows */
	sr_unlock(&c->lock);
	if (failed)
		return "device-failed";
	if (!c->make.doomed && !sr_vcq_watch(c, true))
		sr_vlook_start(c, SR_LOOK);
	return NULL;
}

static void carrier_made(struct sr_job *job)
{
	struct sr_vcarrier *c = SR_OF(struct sr_vcarrier, make.job, job);
	const char *reason = c->make.reason;
	struct sr_vdev *dev = c->dev;

	c->make.busy = false;
	if (!reason)
		reason = begin_use(c);
	if (c->make.doomed)
		reason = c->make.doomed;
	if (c->make.made)
		c->make.made(c, reason);
	if (reason)
		sr_vcarrier_close(c, false);
	sr_vcarrier_sweep(c);
	sr_vdev_idle(dev);
	sr_vcarrier_put(c);
}

static struct sr_vcarrier *carrier_new(struct rdma_cm_id *id, struct sr_vdev *dev,
				       const struct sr_vlink_for *f)
{
	struct sr_vcarrier *c = calloc(1, sizeof(*c));

	if (!c || !sr_vshare_init(c, f->role == SR_ROLE_ASKER, f->shares)) {
		free(c);
		return NULL;
	}
	atomic_init(&c->refs, 1);
	c->dev = dev;
	c->iwarp = dev->iwarp;
	sr_format(c->name, sizeof(c->name), "verbs:%s", dev->name);
	c->cm.event = sr_vcm_link_event;
	c->share.task.fn = sr_vshare_task;
	sr_vcq_init(c);
	sr_vlook_init(c);
	sr_mutex_init(&c->lock, SR_RANK_LINK_FIRST);
	c->id = id;
	id->context = &c->cm;
	SR_LIST_ADD(dev->carriers, c);
	return c;
}

struct sr_vlink *sr_vlink_new(const struct sr_vlink_for *f)
{
	const size_t size = least_of(f->policy->ring_first, SR_V_ORDINARY);
	struct sr_vlink *l;

	l = (struct sr_vlink *)sr_link_new(&sr_link_verbs, sizeof(*l), f->role, f->link_no,
					   f->owner, f->notify);
	if (!l)
		return NULL;
	l->policy = f->policy;
	l->news.fn = sr_vreuse_news;
	/* Larger rings are registered: make_memory() makes those of a carrier's first link. */
	atomic_init(&l->rx.window, size);
	l->rx.place[0].size = size;
	l->rx.ring[0].size = l->tx.ring.size = size;
	sr_gens_init(&l->rx.gens, l->rx.place);
	return l;
}

struct sr_vlink *sr_vlink_make(struct rdma_cm_id *id, struct sr_vdev *dev,
			       const struct sr_vlink_for *f, const struct sr_question *first,
			       void (*made_fn)(struct sr_vcarrier *, const char *), void *maker)
{
	struct sr_vlink *l = sr_vlink_new(f);
	struct sr_vcarrier *c;

	if (!l)
		return NULL;
	c = carrier_new(id, dev, f);
	if (!c) {
		free(l);
		return NULL;
	}
	sr_lock(&c->lock);
	sr_vcarrier_join(c, l);
	sr_vshare_begin(l, &first->name, first->tclass);
	sr_unlock(&c->lock);
	c->make.made = made_fn;
	c->make.maker = maker;
	carrier_start_job(c, make_job, carrier_made);
	return l;
}
