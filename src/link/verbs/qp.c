/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_qp.c - a verbs link from its making to its end: queue pair, registered
 * memory, failure, and the timer that looks after what is unfinished.  The
 * loop's, except where said.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/conf.h"
#include "base/log.h"

enum {
	CTL_BYTES = (SR_V_RQ + SR_V_SQ) * SR_MSG_MAX,
	CQ_SHARE = SR_V_RQ + SR_V_SQ,
	END_MS = 20, END_TRIES = 25,	/* what is posted may still go out */
	INLINE_LEAST = 32,
	SCAN_MS = 100,
	PROBE_FIRST = 10, PROBE_MOST = 100,	/* scans: 1 s, 10 s */
};

/* ---- memory ---- */

const char *sr_vring_make(struct sr_vdev *dev, struct sr_vring *r, size_t size,
			  int access)
{
	void *mem;

	if (!sr_memory_take(size))
		return "memory";
	mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED) {
		sr_memory_give(size);
		return "memory";
	}
	/* A child's copy-on-write would give the parent other pages than the device has. */
	madvise(mem, size, MADV_DONTFORK);
	r->mr = sr_vlib.v_reg_mr(dev->pd, mem, size, access);
	if (!r->mr) {
		bool lock = errno == ENOMEM || errno == EAGAIN;

		munmap(mem, size);
		sr_memory_give(size);
		return lock ? "memlock" : "device-failed";
	}
	r->buf = mem;
	r->size = size;
	return NULL;
}

void sr_vring_unreg(struct sr_vring *r)
{
	if (r->mr)
		sr_vlib.v_dereg_mr(r->mr);
	r->mr = NULL;
}

void sr_vring_free(struct sr_vring *r)
{
	sr_vring_unreg(r);
	if (!r->buf)
		return;
	munmap(r->buf, r->size);
	sr_memory_give(r->size);
	r->buf = NULL;
	r->size = 0;
}

static const char *make_memory(struct sr_vlink *l)
{
	const int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct sr_vring ctl = { 0 };
	const char *reason;

	reason = sr_vring_make(l->dev, &l->rx[0], sr_conf.policy.ring_first, remote);
	if (!reason)
		reason = sr_vring_make(l->dev, &l->tx, sr_conf.policy.ring_first,
				       IBV_ACCESS_LOCAL_WRITE);
	if (!reason)
		reason = sr_vring_make(l->dev, &ctl, CTL_BYTES,
				       IBV_ACCESS_LOCAL_WRITE);
	l->ctl = ctl.buf;
	l->ctl_mr = ctl.mr;
	return reason;
}

static void free_memory(struct sr_vlink *l)
{
	struct sr_vring ctl = { l->ctl, CTL_BYTES, l->ctl_mr };

	sr_vring_free(&ctl);
	l->ctl = NULL;
	l->ctl_mr = NULL;
	sr_vring_free(&l->rx[0]);
	sr_vring_free(&l->rx[1]);
	sr_vring_free(&l->tx);
	sr_vring_free(&l->tx_old);
	sr_vring_free(&l->tx_next);
}

/* ---- making ---- */

static const char *make_qp(struct sr_vlink *l, struct rdma_cm_id *id)
{
	/* siw completes a work request before its place in the queue is free
	 * again: there has to be another place then. */
	const unsigned spare = l->iwarp ? 2 : 1;
	unsigned asked = SR_V_INLINE;
	struct ibv_qp_init_attr attr = {
		.send_cq = l->cq->cq,
		.recv_cq = l->cq->cq,
		.cap = {
			.max_send_wr = SR_V_SQ * spare,
			.max_recv_wr = SR_V_RQ * spare,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = SR_V_INLINE,
		},
		.qp_type = IBV_QPT_RC,
	};
	unsigned i;

	/*
	 * As much inline as the device gives.  On siw it is needed: what is
	 * small and not inline it may copy from the memory of whatever process
	 * ran last on that CPU (siw_try_1seg(): copy_from_user() in its thread,
	 * while in_syscall still stands).
	 */
	while (sr_vlib.cm_create_qp(id, l->dev->pd, &attr)) {
		/* Not by attr.cap: a failure may have written to it. */
		if (!asked)
			return errno == ENOMEM ? "memlock" : "device-failed";
		asked = asked / 2 >= INLINE_LEAST ? asked / 2 : 0;
		attr.cap.max_inline_data = asked;
		attr.cap.max_send_wr = SR_V_SQ * spare;
		attr.cap.max_recv_wr = SR_V_RQ * spare;
	}
	if (attr.cap.max_inline_data < asked)	/* not filled in */
		attr.cap.max_inline_data = asked;
	l->max_inline = attr.cap.max_inline_data;
	l->qp = id->qp;
	for (i = 0; i < SR_V_RQ; i++)
		l->repost[i] = i;
	l->repost_n = SR_V_RQ;
	if (sr_vrx_repost(l)) {
		l->qp = NULL;
		sr_vlib.cm_destroy_qp(id);
		return "device-failed";
	}
	atomic_store(&l->rx_msgs, 0);	/* these were not received */
	return NULL;
}

static void end_step(struct sr_task *task);
static void end_again(struct sr_timer *timer);
static void broken(struct sr_task *task);

struct sr_vlink *sr_vlink_make(struct rdma_cm_id *id, struct sr_vdev *dev,
			       enum sr_role role, uint32_t link_no, void *owner,
			       void (*notify)(struct sr_link *, unsigned),
			       const char **reason)
{
	struct sr_vlink *l;

	*reason = "memory";
	l = (struct sr_vlink *)sr_link_new(&sr_link_verbs, sizeof(*l), role,
					   link_no, owner, notify);
	if (!l)
		return NULL;
	sr_enter();
	l->dev = dev;
	l->iwarp = dev->iwarp;
	memcpy(l->device, dev->name, sizeof(l->device));
	l->link.device = l->device;
	l->cm.what = SR_CM_LINK;
	l->end_task.fn = end_step;
	l->break_task.fn = broken;
	l->end_timer.fn = end_again;
	l->peer_slots = SR_V_SLOTS_MIN;
	sr_mutex_init(&l->post, SR_RANK_LINK_SECOND);

	*reason = make_memory(l);
	if (*reason)
		goto free_link;
	atomic_init(&l->rx_window, sr_conf.policy.ring_first);
	l->cq = sr_vcq_get(dev, l, CQ_SHARE, &l->key);
	*reason = "device-failed";
	if (!l->cq)
		goto free_link;
	*reason = make_qp(l, id);
	if (*reason)
		goto put_cq;

	l->id = id;
	id->context = &l->cm;
	l->next = dev->links;
	l->pprev = &dev->links;
	if (l->next)
		l->next->pprev = &l->next;
	dev->links = l;
	atomic_fetch_add(&dev->refs, 1);
	atomic_store(&l->shaking, true);
	atomic_fetch_add(&dev->shaking, 1);
	sr_leave();
	return l;

put_cq:
	sr_vcq_put(l->cq, l->key, CQ_SHARE);
free_link:
	sr_vlead_sit(l, ~0u);
	free_memory(l);
	free(l);
	sr_leave();
	return NULL;
}

void sr_vlink_up(struct sr_vlink *l)
{
	if (sr_link_raise(&l->link, SR_LINK_UP))
		sr_vlink_notify(l, SR_NOTIFY_CTL);
}

void sr_vlink_settled(struct sr_vlink *l)
{
	if (atomic_exchange(&l->shaking, false))
		atomic_fetch_sub(&l->dev->shaking, 1);
}

bool sr_vlink_tryget(struct sr_vlink *l)
{
	int refs = atomic_load(&l->link.refs);

	while (refs > 0)
		if (atomic_compare_exchange_weak(&l->link.refs, &refs,
						 refs + 1))
			return true;
	return false;
}

/* ---- the end ---- */

/* Everything that the device knows of goes; the rings' memory stays. */
void sr_vlink_close(struct sr_vlink *l)
{
	if (atomic_exchange(&l->closed, true))
		return;
	if (l->end_timer.at_ns) {
		sr_timer_cancel(&l->end_timer);
		sr_link_put(&l->link);
	}
	sr_vlead_sit(l, ~0u);
	sr_vlink_settled(l);
	sr_enter();
	sr_lock(&l->cq->lock);	/* no completion finds it */
	l->cq->slots[l->key & 0xfff].link = NULL;
	sr_lock(&l->post);		/* nobody posts */
	l->qp = NULL;
	sr_unlock(&l->post);
	sr_unlock(&l->cq->lock);

	sr_vlib.cm_destroy_qp(l->id);
	sr_vcq_put(l->cq, l->key, CQ_SHARE);
	sr_lock(&l->post);		/* the rings' fields */
	sr_vring_unreg(&l->rx[0]);
	sr_vring_unreg(&l->rx[1]);
	sr_vring_unreg(&l->tx);
	sr_vring_unreg(&l->tx_old);
	sr_vring_unreg(&l->tx_next);
	if (l->ctl_mr)
		sr_vlib.v_dereg_mr(l->ctl_mr);
	l->ctl_mr = NULL;
	sr_unlock(&l->post);
	*l->pprev = l->next;
	if (l->next)
		l->next->pprev = l->pprev;
	sr_vlib.cm_destroy_id(l->id);
	l->id = NULL;
	sr_leave();
}

/* Lets what was posted go out first (an ACKEND, perhaps), for a moment. */
static void end_link(struct sr_vlink *l)
{
	bool busy;

	if (atomic_load(&l->closed))
		return;
	sr_vcq_poll(l->cq, false);
	sr_lock(&l->post);
	busy = (int32_t)(l->sq_signaled - l->sq_done) > 0 && l->end_tries < END_TRIES;
	sr_unlock(&l->post);
	if (busy && (sr_link_events(&l->link) & SR_LINK_UP)) {
		l->end_tries++;
		sr_link_get(&l->link);
		sr_timer_set(&l->end_timer, END_MS);
		return;
	}
	sr_enter();
	sr_vlib.cm_disconnect(l->id);
	sr_leave();
	sr_vlink_close(l);
}

static void end_step(struct sr_task *task)
{
	struct sr_vlink *l = (struct sr_vlink *)((char *)task -
			offsetof(struct sr_vlink, end_task));

	end_link(l);
	sr_link_put(&l->link);
}

static void end_again(struct sr_timer *timer)
{
	struct sr_vlink *l = (struct sr_vlink *)((char *)timer -
			offsetof(struct sr_vlink, end_timer));

	end_link(l);
	sr_link_put(&l->link);
}

static void give_up(struct sr_vlink *l, const char *reason, bool at_once)
{
	if (atomic_exchange(&l->dropping, true))
		return;
	l->link.reason = reason;
	if (at_once)
		l->end_tries = END_TRIES;
	sr_link_raise(&l->link, SR_LINK_DEAD);
	sr_debug("verbs: link %x given up: %s", l->link.link_no,
		 reason ? reason : "done");
	if (sr_vlink_tryget(l))		/* for the task */
		sr_loop_post(&l->end_task);
	sr_vlink_notify(l, SR_NOTIFY_CTL);
}

/* The link broke, or the peer broke it.  any. */
void sr_vlink_fail(struct sr_vlink *l, const char *reason)
{
	give_up(l, reason, true);
}

static void broken(struct sr_task *task)
{
	struct sr_vlink *l = (struct sr_vlink *)((char *)task -
			offsetof(struct sr_vlink, break_task));

	sr_vlink_fail(l, atomic_load(&l->broken));
	sr_link_put(&l->link);
}

/* The same where locks are held that forbid notify(). */
void sr_vlink_break(struct sr_vlink *l, const char *reason)
{
	const char *none = NULL;

	if (atomic_compare_exchange_strong(&l->broken, &none, reason) &&
	    sr_vlink_tryget(l))
		sr_loop_post(&l->break_task);
}

static void verbs_drop(struct sr_link *link, const char *reason)
{
	struct sr_vlink *l = sr_vlink(link);

	sr_enter();
	sr_vtx_last_ack(l);
	sr_leave();
	give_up(l, reason, false);
}

static void verbs_free(struct sr_link *link)
{
	struct sr_vlink *l = sr_vlink(link);
	struct sr_vdev *dev = l->dev;

	if (!atomic_load(&l->closed)) {
		sr_enter();
		sr_vlib.cm_disconnect(l->id);
		sr_leave();
		sr_vlink_close(l);
	}
	free_memory(l);
	free(l);
	sr_vdev_unref(dev);
}

/* ---- the timer's work ---- */

static struct sr_timer scan_timer;
static atomic_bool scanning;

/* Is there something to look after?  Traffic does that by itself; here is for
 * what is left when it stops. */
static bool scan_link(struct sr_vlink *l)
{
	uint64_t taken = atomic_load(&l->link.rx_taken);
	uint64_t acked = atomic_load(&l->link.tx_acked);
	uint64_t w = atomic_load(&l->link.tx_w);
	uint64_t h = atomic_load(&l->link.rx_h);
	unsigned have = sr_link_events(&l->link);
	bool unsaid, unacked, unheard;

	if (have & SR_LINK_DEAD)
		return false;
	sr_lock(&l->post);
	/* An ACK to the byte, once the reader has paused: those that ride on
	 * data are rounded down. */
	unsaid = (have & SR_LINK_SWITCH) && taken != l->ack_said;
	if (unsaid && taken == l->scan_taken)
		l->ack_due = true;

	/* siw may leave an answerer's first message lying in its socket until
	 * the next one comes (siw_accept() replies before it listens). */
	unheard = l->iwarp && l->link.role == SR_ROLE_ASKER &&
		  !atomic_load(&l->rx_msgs);
	if (unheard && l->msgs_sent)
		l->ack_due = true;

	unacked = (have & SR_LINK_ACKSW) && acked != w;
	if (!unacked || acked != l->scan_acked) {
		l->probe_ticks = 0;
		l->probe_wait = PROBE_FIRST;
	} else if (++l->probe_ticks >= l->probe_wait && !l->probe_out) {
		l->probe_ticks = 0;
		l->probe_wait *= 2;
		if (l->probe_wait > PROBE_MOST)
			l->probe_wait = PROBE_MOST;
		l->probe_due = true;
	}
	sr_vtx_pump(l);
	sr_unlock(&l->post);

	if (taken == l->scan_taken && h == l->scan_h && w == l->scan_w &&
	    acked == l->scan_acked)
		l->idle_ticks++;
	else
		l->idle_ticks = 0;
	l->scan_taken = taken;
	l->scan_acked = acked;
	l->scan_h = h;
	l->scan_w = w;
	sr_vgrow_idle(l);
	return unsaid || unacked || unheard || !l->idle_ticks ||
	       sr_vgrow_may_shrink(l);
}

static void scan(struct sr_timer *timer)
{
	struct sr_vlink *l, *next;
	struct sr_vdev *dev;
	bool again = false;

	(void)timer;
	atomic_store(&scanning, false);	/* who moves after this starts it */
	sr_enter();
	for (dev = sr_vdevs; dev; dev = dev->next)
		for (l = dev->links; l; l = next) {
			next = l->next;
			again |= scan_link(l);
		}
	sr_leave();
	if (again) {
		atomic_store(&scanning, true);
		sr_timer_set(&scan_timer, SCAN_MS);
	}
}

static void start_scan(struct sr_task *task)
{
	(void)task;
	if (scan_timer.at_ns)
		return;
	scan_timer.fn = scan;
	sr_timer_set(&scan_timer, SCAN_MS);
}

static struct sr_task scan_task = { .fn = start_scan };

void sr_vscan_start(void)
{
	if (atomic_load_explicit(&scanning, memory_order_relaxed) ||
	    atomic_exchange(&scanning, true))
		return;
	sr_loop_post(&scan_task);
}

void sr_vscan_forget(void)
{
	memset(&scan_timer, 0, sizeof(scan_timer));
	atomic_store(&scanning, false);
	memset(&scan_task, 0, sizeof(scan_task));
	scan_task.fn = start_scan;
}

/* ---- the rest of the contract ---- */

static void verbs_hello(struct sr_link *link, struct sr_hello *hello)
{
	struct sr_vlink *l = sr_vlink(link);

	hello->slots = SR_V_RQ;
	hello->ring = (struct sr_ring_ref){
		.addr = (uintptr_t)l->rx[0].buf,
		.rkey = l->rx[0].mr ? l->rx[0].mr->rkey : 0,
		.size = l->rx[0].size,
		.gen = 0,
	};
}

/* Both ends of the CM's connection, the asker's first: on InfiniBand and RoCE
 * its GIDs and the QPNs, on iWARP (whose QPNs are not told) the addresses and
 * ports of its TCP connection. */
static size_t end_name(struct sr_vlink *l, bool local, uint8_t id[28])
{
	struct rdma_addr *a = &l->id->route.addr;
	struct sockaddr *sa = local ? &a->src_addr : &a->dst_addr;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t qpn;

	memset(id, 0, 28);
	if (l->iwarp && sa->sa_family == AF_INET) {
		memcpy(id, &((struct sockaddr_in *)sa)->sin_addr, 4);
		memcpy(id + 16, &((struct sockaddr_in *)sa)->sin_port, 2);
		return 28;
	}
	if (l->iwarp) {
		memcpy(id, &((struct sockaddr_in6 *)sa)->sin6_addr, 16);
		memcpy(id + 16, &((struct sockaddr_in6 *)sa)->sin6_port, 2);
		return 28;
	}
	memcpy(id, local ? &a->addr.ibaddr.sgid : &a->addr.ibaddr.dgid, 16);
	qpn = l->qp->qp_num;
	if (!local && !sr_vlib.v_query_qp(l->qp, &attr, IBV_QP_DEST_QPN,
					    &init))
		qpn = attr.dest_qp_num;
	qpn = htonl(qpn);
	memcpy(id + 16, &qpn, 4);
	return 28;
}

static size_t verbs_identity(struct sr_link *link, uint8_t id[64])
{
	struct sr_vlink *l = sr_vlink(link);
	bool asker = link->role == SR_ROLE_ASKER;
	size_t n;

	if (!l->id)
		return 0;
	sr_enter();
	n = end_name(l, asker, id);
	n += end_name(l, !asker, id + n);
	sr_leave();
	return n;
}

static void verbs_usage(struct sr_link *link, size_t *bytes, int *fds)
{
	struct sr_vlink *l = sr_vlink(link);

	*bytes = CTL_BYTES + l->rx[0].size + l->rx[1].size + l->tx.size +
		 l->tx_old.size + l->tx_next.size;
	*fds = 0;
}

static const char *verbs_usable(void)
{
	return sr_verbs_devices() ? NULL : "no-device";
}

const struct sr_link_ops sr_link_verbs = {
	.name = "verbs",
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
	.stand = sr_verbs_stand,
	.work = sr_verbs_work,
	.tx_work = sr_verbs_tx_work,
	.drop = verbs_drop,
	.free = verbs_free,
	.usage = verbs_usage,
};

const struct sr_rendezvous sr_rendezvous_verbs = {
	.name = "verbs",
	.usable = verbs_usable,
	.ask = sr_verbs_ask,
	.cancel = sr_verbs_cancel,
	.listen = sr_verbs_listen,
	.unlisten = sr_verbs_unlisten,
	.accept = sr_verbs_accept,
	.refuse = sr_verbs_refuse,
	.forget = sr_verbs_forget,
};
