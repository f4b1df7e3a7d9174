/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dev.c - owns what the links of one device share, and the device's end.  A struct sr_vdev is
 * made when the first id resolves to its device, and kept until the device is removed, because
 * librdmacm keeps the device open just as long.  Only the loop uses it; no locks.
 */
#include "base/now.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/log.h"

struct sr_vdev *sr_vdevs;

/* The process's number is drawn before its first link is made, in the loop, and constant from
 * then on. */
static struct sr_process process = { .version = SR_WIRE_VERSION };
static bool drawn;

static bool draw_process(void)
{
	if (!drawn)
		drawn = sr_sys_getrandom(process.process, SR_PROCESS_LEN, 0) == SR_PROCESS_LEN;
	return drawn;
}

struct sr_process sr_vdev_process(unsigned links)
{
	struct sr_process says = process;

	says.links = (uint16_t)links;
	return says;
}

void sr_vdev_nonblock(int fd)
{
	sr_sys_fcntl(fd, F_SETFL, sr_sys_fcntl(fd, F_GETFL, 0) | O_NONBLOCK);
}

/* ---- asynchronous events ---- */

static bool is_about(const struct ibv_async_event *e, const struct sr_vcarrier *c)
{
	switch (e->event_type) {
	case IBV_EVENT_PORT_ERR:
		return c->id->port_num == e->element.port_num;
	case IBV_EVENT_CQ_ERR:
		return c->qp && (c->cq.in.cq == e->element.cq || c->cq.out.cq == e->element.cq);
	case IBV_EVENT_DEVICE_FATAL:
		return true;
	default:	/* a QP that fails flushes its queues, which its link sees */
		return false;
	}
}

/* A device that is removed reports DEVICE_FATAL, and its context is of no use any more.  But
 * some devices also report it when they go on (cxgb4, for a queue pair that has failed). */
static bool is_usable(const struct sr_vdev *dev)
{
	struct ibv_pd *pd = sr_vlib.v_alloc_pd(dev->ctx);

	if (pd)
		sr_vlib.v_dealloc_pd(pd);
	return pd;
}

static void on_async(struct sr_watch *w, uint32_t events)
{
	struct sr_vdev *dev = SR_OF(struct sr_vdev, async_watch, w);
	struct ibv_async_event e;
	struct sr_vcarrier *c;
	bool fatal = false;

	(void)events;
	while (!sr_vlib.v_get_async_event(dev->ctx, &e)) {
		sr_debug("verbs: %s: asynchronous event %d", dev->name, (int)e.event_type);
		fatal |= e.event_type == IBV_EVENT_DEVICE_FATAL;
		for (c = dev->carriers; c; c = c->next)
			if (is_about(&e, c))
				sr_vcarrier_fail(c, "device-failed");
		sr_vlib.v_ack_async_event(&e);
	}
	if (fatal && !is_usable(dev))
		sr_vdev_remove(dev->ctx);
}

/* ---- device nodes ---- */

/*
 * The CM reports a removal to the ids on the device, if there are any, but not always
 * before the kernel waits for us to close it: that depends on which module was loaded
 * first.  The node in /dev goes away before in any case.
 */
#define NODES "/dev/infiniband"

static struct sr_watch nodes = { .fd = -1 };

/* Was the removed node the device's, and is there no new one?  (In a chroot there are no nodes at
 * all, so the name alone decides.) */
static bool node_gone(const struct sr_vdev *dev, const char *name)
{
	char path[sizeof(dev->ctx->device->dev_name) + sizeof(NODES) + 1];

	if (strcmp(name, dev->ctx->device->dev_name) != 0)
		return false;
	/* Not sysfs: its entry goes a little later. */
	sr_format(path, sizeof(path), NODES "/%s", dev->ctx->device->dev_name);
	return sr_sys_access(path, F_OK) && errno == ENOENT;
}

static void remove_node(const char *name)
{
	struct sr_vdev *dev, *next;

	for (dev = sr_vdevs; dev; dev = next) {
		next = dev->next;	/* it may be freed */
		if (node_gone(dev, name))
			sr_vdev_remove(dev->ctx);
	}
}

static void on_nodes(struct sr_watch *w, uint32_t events)
{
	char buf[400] __attribute__((aligned(8)));
	const struct inotify_event *e;
	ssize_t n, at;

	(void)events;
	while ((n = sr_now_read(w->fd, buf, sizeof(buf))) > 0)
		for (at = 0; at < n; at += (ssize_t)sizeof(*e) + e->len) {
			e = (const struct inotify_event *)(buf + at);
			if (e->len)
				remove_node(e->name);
		}
}

static void watch_nodes(void)
{
	if (nodes.fd >= 0)
		return;
	nodes.fd = sr_fd_own(sr_sys_inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
	if (nodes.fd < 0)
		return;
	nodes.fn = on_nodes;
	sr_sys_inotify_add_watch(nodes.fd, NODES, IN_DELETE);
	if (sr_loop_watch(&nodes, EPOLLIN)) {	/* the next device tries again */
		sr_fd_close(nodes.fd);
		nodes.fd = -1;
	}
}

void sr_vdev_forget(void)
{
	sr_vdevs = NULL;
	nodes.fd = -1;
	drawn = false;
}

/* ---- making and ending ---- */

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
	dev->name = ctx->device->name;
	dev->iwarp = ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	dev->node = sr_vmem_has_nodes() ? sr_vmem_node(ctx->device->ibdev_path) : -1;
	dev->vector = (unsigned)sched_getcpu();	/* processes begin with different ones */
	dev->spent = sr_fd_own(sr_sys_eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	if (dev->spent < 0 || !draw_process() || !is_usable(dev))
		goto free_dev;
	sr_vdev_hide(ctx);
	sr_vdev_nonblock(ctx->async_fd);
	dev->async_watch.fd = ctx->async_fd;
	dev->async_watch.fn = on_async;
	if (sr_loop_watch(&dev->async_watch, EPOLLIN))
		goto free_dev;	/* nobody would hear of its end */
	watch_nodes();
	dev->next = sr_vdevs;
	sr_vdevs = dev;
	return dev;

free_dev:
	if (dev->spent >= 0)
		sr_fd_close(dev->spent);
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
	if (!dev)
		dev = make_device(id);
	if (!dev || dev->gone)
		return NULL;
	*reason = "no-device";
	if (sr_conf.device[0] && strcmp(sr_conf.device, dev->name))
		return NULL;
	*reason = NULL;
	return dev;
}

static void end_device(struct sr_vdev *dev)
{
	struct sr_vdev **p;

	for (p = &sr_vdevs; *p != dev; p = &(*p)->next)
		;
	*p = dev->next;
	/* librdmacm does not close the device before it sees another one, and the
	 * kernel waits in the removal until it is closed. */
	sr_sys_dup3(dev->spent, dev->ctx->cmd_fd, O_CLOEXEC);
	sr_sys_dup3(dev->spent, dev->ctx->async_fd, O_CLOEXEC);
	sr_fd_close(dev->spent);
	free(dev);
}

void sr_vdev_busy(struct sr_vdev *dev)
{
	dev->jobs++;
}

void sr_vdev_idle(struct sr_vdev *dev)
{
	if (!--dev->jobs && dev->gone)
		end_device(dev);
}

/* Other threads may still have links of the device: the memory of these lives on. */
void sr_vdev_remove(struct ibv_context *ctx)
{
	struct sr_vcarrier *c, *next;
	struct sr_vdev *dev;

	for (dev = sr_vdevs; dev && dev->ctx != ctx; dev = dev->next)
		;
	if (!dev || dev->gone)
		return;
	sr_inform("verbs: device %s is gone", dev->name);
	dev->gone = true;
	sr_vdev_busy(dev);
	for (c = dev->carriers; c; c = c->next)
		sr_vcarrier_fail(c, "device-failed");
	for (c = dev->carriers; c; c = next) {
		next = c->next;
		sr_vcarrier_close(c, false);
	}
	sr_vcm_removed(ctx);
	sr_loop_unwatch(&dev->async_watch);
	sr_vdev_idle(dev);
}
