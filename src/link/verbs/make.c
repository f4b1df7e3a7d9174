/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * make.c - making what the device has of a link, and destroying it: domain, memory, queues.
 *
 * On hardware each of these verbs is a command to the device of some 100 us, and a link takes
 * ten.  So they run in the thread of jobs (base/jobs.h), and the service thread goes on
 * with other streams.  The link begins to be made, and is closed, in the loop:
 *
 *   sr_vlink_make()  loop   the link is in its device's list, without a queue pair
 *   make_job()       job    domain, memory, queues; all of them or none
 *   link_made()      loop   the queue pair is the link's; receives are posted; the CM goes on
 *   sr_vlink_close() loop   the queue pair is nobody's; l->c->id is NULL
 *   unmake_job()     job    queues, memory, domain go
 *   link_unmade()    loop   the id goes; the link is freed, if it was to be
 *
 * What the two threads share:
 *  - A job is handed over by the lock of its queue, and back by sr_loop_post().  Between
 *    these the thread of jobs alone has what it makes or destroys.
 *  - Other threads look at l->c->qp under the link's lock before they touch queues or regions,
 *    and it is NULL before link_made() and since sr_vlink_close().  sr_verbs_work() looks at l->c->id.
 *  - librdmacm changes the queue pair of an id when it reads the id's events, in the loop,
 *    and it destroys none that it does not see: sr_vlink_close() takes it from the id first.
 *  - The id's events come to us until link_unmade(): those of a closed link come to no function.
 *  - A link that is closed while it is being made is closed by link_made() (make.doomed), after
 *    the CM's peer was told; one that is freed while a job has it is freed by link_unmade().
 *    There is one job a link at a time.
 *  - A device that goes is given up after its last job (sr_vdev_busy()).
 *  - fork may copy the process between two verbs (sr_work_pause()).  The child forgets links
 *    and jobs, and our descriptors are closed there; rings are never mapped there
 *    (MADV_DONTFORK is set before the next pause).
 *  - No lock is held while a verb runs here.
 */
#include "base/sys.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum {
	CTL_BYTES = (SR_V_RQ + SR_V_SENDS) * SR_PACKET_MAX,
	INLINE_MOST = 128,	/* a packet of 104 bytes of a stream */
	INLINE_LEAST = 32,
};

/* ---- in the thread of jobs: making ---- */

/*
 * A remote key is good on every queue pair of its protection domain (InfiniBand Architecture
 * 1, 10.2.3 and 10.6), and keys and addresses can be guessed.  So each link has a domain of
 * its own: its peer can write to the rings of that link, and to no other memory.
 */
static const char *make_domain(struct sr_vlink *l)
{
	l->c->pd = sr_vlib.v_alloc_pd(l->c->dev->ctx);
	return l->c->pd ? NULL : sr_vmem_refusal(errno);
}

static const char *make_memory(struct sr_vlink *l)
{
	const int local = IBV_ACCESS_LOCAL_WRITE;
	const struct {
		struct sr_vring *ring;
		size_t size;
		int access;
	} all[] = {
		{ &l->c->ctl, CTL_BYTES, local },
		{ &l->rx.ring[0], l->policy->ring_first, SR_V_RX_ACCESS },
		{ &l->tx.ring, l->policy->ring_first, local },
	};
	const unsigned n = l->policy->ring_first > SR_V_ORDINARY ? 3 : 1;
	const char *reason = NULL;

	for (unsigned i = 0; !reason && i < n; i++) {
		sr_work_pause();
		reason = sr_vring_make(l->c, all[i].ring, all[i].size, all[i].access);
	}
	return reason;
}

static const char *make_qp(struct sr_vlink *l)
{
	const unsigned sends = l->c->iwarp ? SR_V_IWARP_SQ : SR_V_SQ;
	const unsigned receives = l->c->iwarp ? SR_V_IWARP_RQ : SR_V_RQ;
	unsigned asked = INLINE_MOST;
	struct ibv_qp_init_attr attr = {
		.send_cq = l->c->cq.out.cq,
		.recv_cq = l->c->cq.in.cq,
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
	while (sr_vlib.cm_create_qp(l->c->id, l->c->pd, &attr)) {
		/* Not by attr.cap: a failure may have written to it. */
		if (!asked)
			return sr_vmem_refusal(errno);
		asked = asked / 2 >= INLINE_LEAST ? asked / 2 : 0;
		attr.cap.max_inline_data = asked;
		attr.cap.max_send_wr = sends;
		attr.cap.max_recv_wr = receives;
	}
	/* Some devices grant less than was asked for (hns: 32 bytes, rdmavt: none). */
	l->c->max_inline = attr.cap.max_inline_data;
	return NULL;
}

/* Most devices keep the queues in memory of the process.  How much the kernel pins for them
 * is seen at the first link. */
static const char *make_queues(struct sr_vlink *l)
{
	struct sr_vdev *dev = l->c->dev;
	size_t before = dev->weighed ? 0 : sr_verbs_pinned(), after;
	const char *reason;

	sr_work_pause();
	reason = sr_vcq_make(l->c);
	sr_work_pause();
	if (!reason)
		reason = make_qp(l);
	if (reason)
		return reason;
	if (!dev->weighed) {
		after = sr_verbs_pinned();
		dev->queue_bytes = after > before ? after - before : 0;
		dev->weighed = true;
		sr_debug("verbs: %s: %zu bytes are pinned for a link's queues", dev->name,
			 dev->queue_bytes);
	}
	l->c->queue_bytes = dev->queue_bytes;
	sr_vmem_count((ssize_t)l->c->queue_bytes);
	return NULL;
}

/* ---- in the thread of jobs: the end ---- */

static void unmake(struct sr_vlink *l)
{
	struct sr_vmake *m = &l->c->make;

	if (m->disconnects)
		sr_vlib.cm_disconnect(m->id);
	sr_work_pause();
	if (m->qp)
		sr_vlib.v_destroy_qp(m->qp);
	m->qp = NULL;
	sr_work_pause();
	sr_vcq_close(l->c);
	sr_vmem_count(-(ssize_t)l->c->queue_bytes);
	l->c->queue_bytes = 0;
	for (; m->regions; m->regions--) {
		sr_work_pause();
		sr_vring_close(&m->region[m->regions - 1]);
	}
	if (l->c->pd)
		sr_vlib.v_dealloc_pd(l->c->pd);
	l->c->pd = NULL;
}

static void unmake_job(struct sr_job *job)
{
	unmake(SR_OF(struct sr_vcarrier, make.job, job)->link);
}

/* The regions are the job's; the memory stays with the link. */
static void take_regions(struct sr_vlink *l)
{
	struct sr_vring *all[] = { &l->c->ctl, &l->rx.ring[0], &l->rx.ring[1], &l->tx.ring,
				   &l->tx.spare };

	_Static_assert(sizeof(all) / sizeof(all[0]) == SR_V_REGIONS, "one each");
	for (unsigned i = 0; i < SR_V_REGIONS; i++) {
		if (all[i]->mr)
			l->c->make.region[l->c->make.regions++] = *all[i];
		all[i]->mr = NULL;
	}
}

static void make_job(struct sr_job *job)
{
	struct sr_vlink *l = SR_OF(struct sr_vcarrier, make.job, job)->link;
	const char *reason = make_domain(l);

	if (!reason)
		reason = make_memory(l);
	if (!reason)
		reason = make_queues(l);
	l->c->make.reason = reason;
	if (!reason)
		return;
	take_regions(l);
	unmake(l);
}

/* ---- in the loop ---- */

static void free_rings(struct sr_vlink *l)
{
	sr_vring_free(&l->c->ctl);
	sr_vring_free(&l->rx.ring[0]);
	sr_vring_free(&l->rx.ring[1]);
	sr_vring_free(&l->tx.ring);
	sr_vring_free(&l->tx.spare);
}

static void free_link(struct sr_vlink *l)
{
	sr_vcq_free(l->c);
	free_rings(l);
	free(l->c);
	free(l);
}

/* loop */
static void start_job(struct sr_vlink *l, void (*run)(struct sr_job *),
		      void (*done)(struct sr_job *))
{
	l->c->make.busy = true;
	l->c->make.job.run = run;
	l->c->make.job.done = done;
	sr_vdev_busy(l->c->dev);
	sr_job_start(&l->c->make.job);
}

static void link_unmade(struct sr_job *job)
{
	struct sr_vlink *l = SR_OF(struct sr_vcarrier, make.job, job)->link;

	l->c->make.busy = false;
	sr_vlib.cm_destroy_id(l->c->make.id);
	sr_vdev_idle(l->c->dev);
	if (l->c->make.freed)
		free_link(l);
}

/* Everything that the device knows of goes; the rings' memory stays. */
void sr_vlink_close(struct sr_vlink *l, bool disconnects)
{
	if (!l->c->id)
		return;
	l->c->cm.event = NULL;
	l->c->id->context = &l->c->cm;
	if (l->c->make.busy) {
		l->c->make.doomed = true;
		/* Its owner may go before it: sr_vlink_fail() tells it nothing more. */
		sr_link_set_reason(&l->link, "short");
		return;
	}
	l->c->make.disconnects = disconnects;
	l->c->make.id = l->c->id;
	sr_lock(&l->c->lock);	/* nobody polls, arms or posts any more */
	l->c->make.qp = l->c->qp;
	l->c->qp = NULL;
	take_regions(l);
	sr_unlock(&l->c->lock);
	l->c->id->qp = NULL;
	if (l->c->cq.watched)
		sr_loop_unwatch(&l->c->cq.watch);
	SR_LIST_DROP(l->c);
	sr_timer_cancel(&l->c->look.timer);
	l->c->id = NULL;
	start_job(l, unmake_job, link_unmade);
}

void sr_vlink_free(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);

	sr_vlink_close(l, true);
	l->c->make.freed = l->c->make.busy;
	if (!l->c->make.busy)
		free_link(l);
}

static const char *begin_use(struct sr_vlink *l)
{
	bool failed;

	sr_lock(&l->c->lock);
	l->c->qp = l->c->id->qp;
	l->rx.place[0].mem = l->rx.ring[0].buf;
	l->c->in.repost_n = SR_V_RQ;
	failed = sr_vrx_repost(l->c);
	sr_packets_init(&l->c->out.credit);	/* it has these buffers, and the peer knows */
	sr_unlock(&l->c->lock);
	if (failed)
		return "device-failed";
	if (!l->c->make.doomed && !sr_vcq_watch(l->c, true))
		sr_vlook_start(l->c, SR_LOOK);
	return NULL;
}

static void link_made(struct sr_job *job)
{
	struct sr_vlink *l = SR_OF(struct sr_vcarrier, make.job, job)->link;
	const char *reason = l->c->make.reason;
	struct sr_vdev *dev = l->c->dev;

	l->c->make.busy = false;
	if (!reason)
		reason = begin_use(l);
	if (l->c->make.doomed)
		reason = l->link.reason;
	if (l->c->make.made)
		l->c->make.made(l, reason);
	if (reason)
		sr_vlink_close(l, false);
	sr_vdev_idle(dev);
}

struct sr_vlink *sr_vlink_make(struct rdma_cm_id *id, struct sr_vdev *dev,
			       const struct sr_vlink_for *f,
			       void (*made_fn)(struct sr_vlink *, const char *), void *maker)
{
	struct sr_vlink *l;

	l = (struct sr_vlink *)sr_link_new(&sr_link_verbs, sizeof(*l), f->role, f->link_no,
					   f->owner, f->notify);
	if (!l)
		return NULL;
	l->c = calloc(1, sizeof(*l->c));
	if (!l->c) {
		free(l);
		return NULL;
	}
	l->c->link = l;
	l->c->dev = dev;
	l->policy = f->policy;
	l->c->iwarp = dev->iwarp;
	sr_format(l->c->name, sizeof(l->c->name), "verbs:%s", dev->name);
	l->link.name = l->c->name;
	l->c->cm.event = sr_vcm_link_event;
	sr_vcq_init(l->c);
	atomic_init(&l->rx.window, l->policy->ring_first);
	sr_mutex_init(&l->c->lock, SR_RANK_LINK_FIRST);
	l->rx.place[0].size = l->policy->ring_first;
	l->rx.ring[0].size = l->tx.ring.size = l->policy->ring_first;
	sr_gens_init(&l->rx.gens, l->rx.place);
	l->c->id = id;
	id->context = &l->c->cm;
	SR_LIST_ADD(dev->carriers, l->c);
	l->c->make.made = made_fn;
	l->c->make.maker = maker;
	start_job(l, make_job, link_made);
	return l;
}
