/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * qp.c - a verbs link from its making to its end: queue pair, memory, failure.  The loop's, except where said.
 *
 * Locks: the link's, where another thread may use what is changed.
 */
#include "base/sys.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/conf.h"
#include "base/log.h"

enum {
	CTL_BYTES = (SR_V_RQ + SR_V_SQ) * SR_MSG_MAX,
	END_MS = 500,		/* what is posted may still go out */
	INLINE_LEAST = 32,
};

/* ---- memory ---- */

/*
 * A remote key is good on every queue pair of its protection domain (InfiniBand Architecture
 * 1, 10.2.3 and 10.6), and keys and addresses can be guessed.  So each link has a domain of
 * its own: its peer can write to the rings of that link, and to no other memory.
 */
static const char *make_domain(struct sr_vlink *l)
{
	l->pd = sr_vlib.v_alloc_pd(l->dev->ctx);
	return l->pd ? NULL : sr_vmem_refusal(errno);
}

/* The queue pair and all regions of it are gone. */
static void close_domain(struct sr_vlink *l)
{
	if (l->pd)
		sr_vlib.v_dealloc_pd(l->pd);
	l->pd = NULL;
}

static const char *make_memory(struct sr_vlink *l)
{
	const int local = IBV_ACCESS_LOCAL_WRITE;
	const char *reason;

	reason = sr_vring_make(l, &l->rx.ring[0], l->policy->ring_first,
			       local | IBV_ACCESS_REMOTE_WRITE);
	if (!reason)
		reason = sr_vring_make(l, &l->tx.ring, l->policy->ring_first,
				       local);
	if (!reason)
		reason = sr_vring_make(l, &l->ctl, CTL_BYTES, local);
	return reason;
}

static void each_ring(struct sr_vlink *l, void (*fn)(struct sr_vring *))
{
	fn(&l->ctl);
	fn(&l->rx.ring[0]);
	fn(&l->rx.ring[1]);
	fn(&l->tx.ring);
	fn(&l->tx.spare);
}

/* ---- making ---- */

static const char *make_qp(struct sr_vlink *l, struct rdma_cm_id *id)
{
	/* siw completes a work request before its place in the queue is free again. */
	const unsigned spare = l->iwarp ? 2 : 1;
	unsigned asked = SR_MSG_MAX;
	struct ibv_qp_init_attr attr = {
		.send_cq = l->cq.cq,
		.recv_cq = l->cq.cq,
		.cap = {
			.max_send_wr = SR_V_SQ * spare,
			.max_recv_wr = SR_V_RQ * spare,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = SR_MSG_MAX,
		},
		.qp_type = IBV_QPT_RC,
	};

	/* As much inline as the device gives.  On siw it is needed: what is small and not
	 * inline it may copy from the memory of whatever process ran last on that CPU
	 * (siw_try_1seg(): copy_from_user() in its thread, while in_syscall still stands). */
	while (sr_vlib.cm_create_qp(id, l->pd, &attr)) {
		/* Not by attr.cap: a failure may have written to it. */
		if (!asked)
			return sr_vmem_refusal(errno);
		asked = asked / 2 >= INLINE_LEAST ? asked / 2 : 0;
		attr.cap.max_inline_data = asked;
		attr.cap.max_send_wr = SR_V_SQ * spare;
		attr.cap.max_recv_wr = SR_V_RQ * spare;
	}
	/* Some devices grant less than was asked for (hns: 32 bytes, rdmavt: none). */
	l->max_inline = attr.cap.max_inline_data;
	l->qp = id->qp;
	l->rx.repost_n = SR_V_RQ;
	if (sr_vrx_repost(l)) {
		l->qp = NULL;
		sr_vlib.cm_destroy_qp(id);
		return "device-failed";
	}
	l->rx.msgs = 0;		/* these were not received */
	return NULL;
}

static void free_link(struct sr_vlink *l)
{
	sr_vcq_free(l);
	each_ring(l, sr_vring_free);
	close_domain(l);
	free(l);
}

/* Most devices keep the queues in memory of the process.  How much the kernel pins for them
 * is seen at the first link. */
static const char *make_queues(struct sr_vlink *l, struct rdma_cm_id *id)
{
	struct sr_vdev *dev = l->dev;
	size_t before = dev->weighed ? 0 : sr_verbs_pinned(), after;
	const char *reason = sr_vcq_make(l);

	if (reason)
		return reason;
	reason = make_qp(l, id);
	if (reason) {
		sr_vcq_close(l);
		return reason;
	}
	if (!dev->weighed) {
		after = sr_verbs_pinned();
		dev->queue_bytes = after > before ? after - before : 0;
		dev->weighed = true;
		sr_debug("verbs: %s: %zu bytes are pinned for a link's queues", dev->name,
			 dev->queue_bytes);
	}
	l->queue_bytes = dev->queue_bytes;
	sr_vmem_count((ssize_t)l->queue_bytes);
	return NULL;
}

static const char *prepare(struct sr_vlink *l, struct rdma_cm_id *id)
{
	const char *reason = make_domain(l);

	if (!reason)
		reason = make_memory(l);
	if (!reason)
		reason = make_queues(l, id);
	return reason;
}

struct sr_vlink *sr_vlink_make(struct rdma_cm_id *id, struct sr_vdev *dev,
			       const struct sr_policy *policy, enum sr_role role,
			       uint32_t link_no, void *owner,
			       void (*notify)(struct sr_link *, unsigned),
			       const char **reason)
{
	struct sr_vlink *l;

	*reason = "memory";
	l = (struct sr_vlink *)sr_link_new(&sr_link_verbs, sizeof(*l), role,
					   link_no, owner, notify);
	if (!l)
		return NULL;
	l->dev = dev;
	l->policy = policy;
	l->iwarp = dev->iwarp;
	sr_format(l->name, sizeof(l->name), "verbs:%s", dev->name);
	l->link.name = l->name;
	l->cm.event = sr_vcm_link_event;
	l->tx.slots.posted = SR_V_SLOTS_MIN;
	l->cq.fd = -1;
	atomic_init(&l->rx.window, l->policy->ring_first);
	sr_mutex_init(&l->lock, SR_RANK_LINK_FIRST);
	*reason = prepare(l, id);
	l->rx.place[0] = (struct sr_ring){ l->rx.ring[0].buf, l->rx.ring[0].size };
	sr_gens_init(&l->rx.gens, l->rx.place);
	if (*reason) {
		free_link(l);
		return NULL;
	}
	l->id = id;
	id->context = &l->cm;
	SR_LIST_ADD(dev->links, l);
	if (!sr_vcq_watch(l, true))
		sr_vlook_start(l, SR_LOOK);
	return l;
}

/* ---- the end ---- */

/* Everything that the device knows of goes; the rings' memory stays. */
void sr_vlink_close(struct sr_vlink *l)
{
	if (!l->id)
		return;
	sr_lock(&l->lock);	/* nobody polls, arms or posts any more */
	l->qp = NULL;
	sr_unlock(&l->lock);
	sr_vlib.cm_destroy_qp(l->id);
	sr_vcq_close(l);
	sr_vmem_count(-(ssize_t)l->queue_bytes);
	sr_lock(&l->lock);	/* the rings' fields */
	each_ring(l, sr_vring_close);
	sr_unlock(&l->lock);
	close_domain(l);
	SR_LIST_DROP(l);
	sr_timer_cancel(&l->look.timer);
	sr_vlib.cm_destroy_id(l->id);
	l->id = NULL;
}

static void disconnect(struct sr_vlink *l)
{
	sr_vlib.cm_disconnect(l->id);
	sr_vlink_close(l);
}

bool sr_vlink_end(struct sr_vlink *l)
{
	bool busy;

	/* The CM's answer is still to come, with the peer's word in it: without the id there
	 * would be none.  ask.c closes the link. */
	if (l->id->context != &l->cm)
		return false;
	sr_lock(&l->lock);
	busy = l->tx.sq_posted != l->tx.sq_done && !l->broken &&
	       (sr_link_events(&l->link) & SR_LINK_UP) && sr_now_ns() < l->end_ns;
	sr_unlock(&l->lock);
	if (busy)
		return true;
	disconnect(l);
	return false;
}

void sr_vlink_fail(struct sr_vlink *l, const char *reason)
{
	if (!sr_link_set_reason(&l->link, reason))
		return;
	sr_link_raise(&l->link, SR_LINK_DEAD);
	sr_debug("verbs: link %x given up: %s", l->link.link_no, reason);
	sr_vlook_start(l, SR_LOOK_SOON);
	l->link.notify(&l->link, SR_NOTIFY_CTL);
}

void sr_vlink_break(struct sr_vlink *l, const char *reason)
{
	if (!l->broken)
		l->broken = reason;
}

void sr_vlink_lock(struct sr_vlink *l)
{
	sr_enter();
	sr_lock(&l->lock);
}

void sr_vlink_unlock(struct sr_vlink *l, unsigned what)
{
	const char *broken = l->broken;

	sr_unlock(&l->lock);
	if (broken)
		sr_vlink_fail(l, broken);
	if (what)
		l->link.notify(&l->link, what);
	sr_leave();
}

/* The last acknowledgement goes out first: the peer sends all bytes again that it does
 * not know to have been taken. */
static void verbs_drop(struct sr_link *link, const char *reason)
{
	struct sr_vlink *l = sr_vlink(link);

	sr_vlink_lock(l);
	l->tx.ack_due |= (sr_link_events(link) & SR_LINK_SWITCH) &&
			 atomic_load(&link->rx_taken) != l->tx.ack_said;
	sr_vtx_pump(l);
	if (!link->reason)
		l->end_ns = sr_now_ns() + END_MS * UINT64_C(1000000);
	sr_vlink_unlock(l, 0);
	sr_vlink_fail(l, reason);
}

static void verbs_free(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);

	if (l->id)
		disconnect(l);
	free_link(l);
}

/* ---- the rest of the contract ---- */

static void verbs_hello(struct sr_link *link, struct sr_hello *hello)
{
	struct sr_vlink *l = sr_vlink(link);

	hello->slots = SR_V_RQ;
	hello->ring = (struct sr_ring_ref){
		.addr = (uintptr_t)l->rx.ring[0].buf,
		.rkey = l->rx.ring[0].mr ? l->rx.ring[0].mr->rkey : 0,
		.size = l->rx.ring[0].size,
	};
}

/* Addresses and ports of the CM's connection, the asker's first.  On iWARP the asker's port
 * does not count: if the asker's host has a port mapper (iwpmd) and the answerer's has none,
 * the two ends see different ones.  The answerer's port tells this link from one that another
 * process of its host has made. */
static size_t verbs_identity(struct sr_link *link, uint8_t id[64])
{
	struct sr_vlink *l = sr_vlink(link);
	struct rdma_addr *a = l->id ? &l->id->route.addr : NULL;
	struct sockaddr_storage s;
	struct sockaddr *sa;
	const void *bytes;
	size_t len;
	uint16_t port;
	int i;

	if (!a)
		return 0;
	memset(id, 0, 36);
	for (i = 0; i < 2; i++) {
		sa = (link->role == SR_ROLE_ASKER) == !i ? &a->src_addr :
							   &a->dst_addr;
		sr_addr_unmap(&s, sa);
		bytes = sr_addr_bytes(&s, &len);
		memcpy(id + 18 * i, bytes, len);
		port = l->iwarp && !i ? 0 : htons(sr_addr_port(sa));
		memcpy(id + 18 * i + 16, &port, sizeof(port));
	}
	return 36;
}

/* (Sending, no more is under way than the smaller one of both ends' rings holds.) */
static size_t verbs_ring(struct sr_link *link, bool tx)
{
	struct sr_vlink *l = sr_vlink(link);

	return tx ? l->tx.window : sr_gens_ring(&l->rx.gens)->size;
}

static const char *verbs_usable(void)
{
	return sr_verbs_devices() ? NULL : "no-device";
}

const struct sr_link_ops sr_link_verbs = {
	.name = "verbs",
	.way = SR_WAY_VERBS,
	.hello = verbs_hello,
	.identity = verbs_identity,
	.ctl = sr_verbs_ctl,
	.tx_room = sr_verbs_tx_room,
	.tx_widens = sr_vgrow_tx_widens,
	.tx_commit = sr_verbs_tx_commit,
	.tx_retained = sr_verbs_tx_retained,
	.tx_arrived = sr_verbs_tx_arrived,
	.rx_data = sr_verbs_rx_data,
	.rx_look = sr_verbs_rx_look,
	.rx_free = sr_verbs_rx_free,
	.poll = sr_verbs_poll,
	.arm = sr_verbs_arm,
	.awake = sr_verbs_awake,
	.arm_once = sr_verbs_arm_once,
	.work = sr_verbs_work,
	.tx_work = sr_verbs_tx_work,
	.drop = verbs_drop,
	.free = verbs_free,
	.ring = verbs_ring,
};

const struct sr_rendezvous sr_rendezvous_verbs = {
	.name = "verbs",
	.kind = 1,
	.usable = verbs_usable,
	.ask = sr_verbs_ask,
	.cancel = sr_verbs_cancel,
	.listen = sr_verbs_listen,
	.unlisten = sr_verbs_unlisten,
	.accept = sr_verbs_accept,
	.tell = sr_verbs_tell,
	.refuse = sr_verbs_refuse,
	.forget = sr_verbs_forget,
};
