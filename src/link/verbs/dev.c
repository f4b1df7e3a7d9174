/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_dev.c - what the links of one device share: protection domain,
 * completion channel, CQs.  Made when the first id resolves to the device and
 * kept until the device goes, since librdmacm keeps it open just as long.
 * Everything here is the service loop's, but reading dev->cqs.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/log.h"

struct sr_vdev *sr_vdevs;

static void nonblock(int fd)
{
	int flags = sr_real.fcntl(fd, F_GETFL, 0);

	sr_real.fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* ---- asynchronous events ---- */

static void fail_links(struct sr_vdev *dev)
{
	struct sr_vlink *l;

	for (l = dev->links; l; l = l->next)
		sr_vlink_fail(l, "device-failed");
}

static void fail_qp(struct sr_vdev *dev, struct ibv_qp *qp)
{
	struct sr_vlink *l;

	for (l = dev->links; l; l = l->next)
		if (l->qp == qp)
			sr_vlink_fail(l, "device-failed");
}

static void on_async(struct sr_watch *w, uint32_t events)
{
	struct sr_vdev *dev = (struct sr_vdev *)((char *)w -
			offsetof(struct sr_vdev, async_watch));
	struct ibv_async_event e;
	bool fatal = false;

	(void)events;
	sr_enter();
	while (!sr_vlib.v_get_async_event(dev->ctx, &e)) {
		sr_debug("verbs: %s: asynchronous event %d", dev->name,
			 (int)e.event_type);
		switch (e.event_type) {
		case IBV_EVENT_DEVICE_FATAL:
			fatal = true;
			break;
		case IBV_EVENT_PORT_ERR:
		case IBV_EVENT_CQ_ERR:
			fail_links(dev);
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			fail_qp(dev, e.element.qp);
			break;
		default:
			break;
		}
		sr_vlib.v_ack_async_event(&e);
	}
	sr_leave();
	if (fatal)
		sr_vdev_remove(dev->ctx);
}

/* ---- device nodes ---- */

/*
 * The CM tells of a removal, but not always before the kernel waits for us to
 * close the device: that depends on which module was loaded first.  The node in
 * /dev goes away before in any case.
 */
#define NODES "/dev/infiniband"

static struct sr_watch nodes = { .fd = -1 };

static bool node_gone(const struct sr_vdev *dev)
{
	char path[sizeof(dev->ctx->device->dev_name) + sizeof(NODES) + 1];

	/* Not sysfs: its entry goes a little later. */
	sr_format(path, sizeof(path), NODES "/%s",
		  dev->ctx->device->dev_name);
	return access(path, F_OK) && errno == ENOENT;
}

static void on_nodes(struct sr_watch *w, uint32_t events)
{
	char buf[1024] __attribute__((aligned(8)));
	struct sr_vdev *dev, *next;

	(void)events;
	while (sr_real.read(w->fd, buf, sizeof(buf)) > 0)
		;
	for (dev = sr_vdevs; dev; dev = next) {
		next = dev->next;
		if (node_gone(dev))
			sr_vdev_remove(dev->ctx);
	}
}

static void watch_nodes(void)
{
	if (nodes.fd >= 0)
		return;
	nodes.fd = sr_fd_own(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
	if (nodes.fd < 0)
		return;
	nodes.fn = on_nodes;
	inotify_add_watch(nodes.fd, NODES, IN_DELETE);
	sr_loop_watch(&nodes, EPOLLIN);
}

void sr_vdev_forget(void)
{
	sr_vdevs = NULL;
	nodes.fd = -1;
}

/* ---- making and ending ---- */

/* Other threads may still hold links of the device and poll or arm: they find
 * the pointers NULL under the locks.  The memory lives as long as a link. */
static void destroy_cqs(struct sr_vdev *dev)
{
	struct sr_vcq *cq;

	for (cq = atomic_load(&dev->cqs); cq; cq = cq->next) {
		sr_lock(&cq->lock);
		sr_lock(&dev->chan_lock);
		sr_vlib.v_destroy_cq(cq->cq);
		cq->cq = NULL;
		sr_unlock(&dev->chan_lock);
		sr_unlock(&cq->lock);
	}
}

void sr_vdev_unref(struct sr_vdev *dev)
{
	struct sr_vcq *cq, *next;

	if (atomic_fetch_sub(&dev->refs, 1) != 1)
		return;
	for (cq = atomic_load(&dev->cqs); cq; cq = next) {
		next = cq->next;
		free(cq->slots);
		free(cq);
	}
	free(dev);
}

/*
 * librdmacm does not close the device before it sees another one, and the
 * kernel waits in the removal until it is closed.  So we put /dev/null in the
 * place of its descriptors; librdmacm may close those when it likes.
 */
static void close_context(struct ibv_context *ctx)
{
	int null = sr_fd_own(open("/dev/null", O_RDWR | O_CLOEXEC));

	if (null < 0)
		return;
	sr_real.dup3(null, ctx->cmd_fd, O_CLOEXEC);
	sr_real.dup3(null, ctx->async_fd, O_CLOEXEC);
	sr_fd_close(null);
}

static void free_device(struct sr_vdev *dev)
{
	struct sr_vdev **p;

	for (p = &sr_vdevs; *p && *p != dev; p = &(*p)->next)
		;
	if (*p)
		*p = dev->next;
	atomic_store(&dev->gone, true);
	sr_vlead_stop(dev);
	sr_loop_unwatch(&dev->async_watch);
	sr_enter();
	destroy_cqs(dev);
	sr_lock(&dev->chan_lock);
	sr_vlib.v_destroy_comp_channel(dev->chan);
	dev->chan = NULL;
	sr_unlock(&dev->chan_lock);
	sr_vlib.v_dealloc_pd(dev->pd);
	if (dev->sentinel)
		sr_vlib.cm_destroy_id(dev->sentinel);
	close_context(dev->ctx);
	sr_leave();
	sr_debug("verbs: %s let go", dev->name);
	sr_vdev_unref(dev);
}

void sr_vdev_hide(struct ibv_context *ctx)
{
	if (!ctx)
		return;
	if (!sr_fd_is_private(ctx->cmd_fd))
		ctx->cmd_fd = sr_fd_own(ctx->cmd_fd);
	if (!sr_fd_is_private(ctx->async_fd))
		ctx->async_fd = sr_fd_own(ctx->async_fd);
}

static struct sr_vdev *make_device(struct rdma_cm_id *id)
{
	struct sr_vdev *dev = calloc(1, sizeof(*dev));
	struct ibv_context *ctx = id->verbs;

	if (!dev)
		return NULL;
	dev->ctx = ctx;
	atomic_init(&dev->refs, 1);
	sr_format(dev->name, sizeof(dev->name), "%s",
		  sr_vlib.v_get_device_name(ctx->device));
	dev->iwarp = ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	dev->pd = sr_vlib.v_alloc_pd(ctx);
	if (!dev->pd)
		goto free_dev;
	dev->chan = sr_vlib.v_create_comp_channel(ctx);
	if (!dev->chan)
		goto free_pd;

	dev->chan->fd = sr_fd_own(dev->chan->fd);
	sr_vdev_hide(ctx);
	nonblock(dev->chan->fd);
	nonblock(ctx->async_fd);

	dev->async_watch.fd = ctx->async_fd;
	dev->async_watch.fn = on_async;
	sr_loop_watch(&dev->async_watch, EPOLLIN);
	sr_vlead_init(dev);
	watch_nodes();
	dev->sentinel = sr_vcm_sentinel(id);
	dev->next = sr_vdevs;
	sr_vdevs = dev;
	return dev;

free_pd:
	sr_vlib.v_dealloc_pd(dev->pd);
free_dev:
	free(dev);
	return NULL;
}

struct sr_vdev *sr_vdev_get(struct rdma_cm_id *id, const char **reason)
{
	struct sr_vdev *dev;

	for (dev = sr_vdevs; dev; dev = dev->next)
		if (dev->ctx == id->verbs)
			break;
	*reason = "device-failed";
	sr_enter();
	if (!dev)
		dev = make_device(id);
	sr_leave();
	if (!dev)
		return NULL;
	*reason = "no-device";
	if (sr_conf.device[0] && strcmp(sr_conf.device, dev->name))
		return NULL;
	*reason = NULL;
	return dev;
}

/* Everything of the device is destroyed now.  What other threads still hold is
 * memory. */
void sr_vdev_remove(struct ibv_context *ctx)
{
	struct sr_vdev *dev;

	for (dev = sr_vdevs; dev; dev = dev->next)
		if (dev->ctx == ctx)
			break;
	if (!dev)
		return;
	sr_tell("verbs: device %s is gone", dev->name);
	atomic_store(&dev->gone, true);
	fail_links(dev);
	while (dev->links)
		sr_vlink_close(dev->links);
	sr_vcm_removed(ctx);
	free_device(dev);
}

/* ---- CQs ---- */

static struct sr_vcq *make_cq(struct sr_vdev *dev, unsigned n)
{
	struct ibv_device_attr attr;
	struct sr_vcq *cq;
	int entries = SR_V_CQ;

	if (!sr_vlib.v_query_device(dev->ctx, &attr) &&
	    attr.max_cqe < entries)
		entries = attr.max_cqe;
	if (entries < (int)n)
		return NULL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->cap = entries;
	cq->n_slots = entries / n;
	cq->slots = calloc(cq->n_slots, sizeof(*cq->slots));
	if (!cq->slots)
		goto free_cq;
	cq->cq = sr_vlib.v_create_cq(dev->ctx, entries, cq, dev->chan, 0);
	if (!cq->cq)
		goto free_slots;
	cq->dev = dev;
	sr_mutex_init(&cq->lock, SR_RANK_LINK_FIRST);
	cq->next = atomic_load(&dev->cqs);
	atomic_store(&dev->cqs, cq);
	return cq;

free_slots:
	free(cq->slots);
free_cq:
	free(cq);
	return NULL;
}

struct sr_vcq *sr_vcq_get(struct sr_vdev *dev, struct sr_vlink *link,
			  unsigned n, uint32_t *key)
{
	struct sr_vcq *cq;
	unsigned i;

	for (cq = atomic_load(&dev->cqs); cq; cq = cq->next)
		if (cq->cap - cq->used >= n)
			break;
	if (!cq)
		cq = make_cq(dev, n);
	if (!cq)
		return NULL;
	sr_lock(&cq->lock);
	for (i = 0; i < cq->n_slots && cq->slots[i].link; i++)
		;
	if (i < cq->n_slots) {
		cq->slots[i].link = link;
		cq->slots[i].gen = (cq->slots[i].gen + 1) & 0xfffff;
		*key = cq->slots[i].gen << 12 | i;
		cq->used += n;
	}
	sr_unlock(&cq->lock);
	return i < cq->n_slots ? cq : NULL;
}

/* The QP is destroyed.  What it left in the CQ is taken out first, so that the
 * entries are free indeed. */
void sr_vcq_put(struct sr_vcq *cq, uint32_t key, unsigned n)
{
	sr_lock(&cq->lock);
	cq->slots[key & 0xfff].link = NULL;
	sr_unlock(&cq->lock);
	while (sr_vcq_poll(cq, true) > 0)
		;
	cq->used -= n;
}
