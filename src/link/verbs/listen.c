/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * listen.c - the answerer's listening ids: one for each kind of device that there is.  Which
 * numbers they have is in cm.c.
 *
 * All in the loop, no locks.
 */
#include "base/real.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>

#include "base/addr.h"
#include "base/log.h"

enum {
	RETRY_MS = 1000,	/* a listener whose device went */
	BACKLOG = 1024,		/* requests that may wait */
	IWARP_BACKLOG = 128,	/* for each the kernel makes a work item: 40 us */
};

enum { IB, IWARP, IWARP_IPV4, IDS };

struct listener {
	struct sr_vcm cm;
	struct listener *next, **pprev;
	struct sockaddr_storage addr;
	struct rdma_cm_id *id[IDS];
	bool anywhere;			/* at ports that the kernel chooses */
	uint16_t port[IDS];		/* 0: not chosen yet */
	struct sr_timer retry;
};

static struct listener *listeners;

static bool is_any6(const struct listener *ls)
{
	return ls->addr.ss_family == AF_INET6 && sr_addr_is_any(&ls->addr);
}

static int listen_on(struct listener *ls, unsigned which, uint16_t port)
{
	static const struct sockaddr_storage any4 = { .ss_family = AF_INET };
	const struct sockaddr_storage *at = which == IWARP_IPV4 ? &any4 : &ls->addr;
	struct sockaddr_storage addr;
	const char *reason;
	int err = 0, on = 1;

	sr_vcm_addr(&addr, (const struct sockaddr *)at, port);
	ls->id[which] = sr_vcm_id(&ls->cm);
	if (!ls->id[which])
		return -errno;
	if (which == IWARP && is_any6(ls))
		sr_vlib.cm_set_option(ls->id[which], RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
				      &on, sizeof(on));
	if (sr_vlib.cm_bind_addr(ls->id[which], (struct sockaddr *)&addr) ||
	    sr_vlib.cm_listen(ls->id[which], which == IB ? BACKLOG : IWARP_BACKLOG))
		err = -errno;
	sr_vdev_hide(ls->id[which]->verbs);
	if (!err) {
		if (ls->id[which]->verbs)	/* opened the device */
			sr_vdev_get(ls->id[which], &reason);
		ls->port[which] = sr_addr_port(&ls->id[which]->route.addr.src_addr);
		return 0;
	}
	sr_vlib.cm_destroy_id(ls->id[which]);
	ls->id[which] = NULL;
	return err;
}

static void close_ids(struct listener *ls)
{
	unsigned i;

	for (i = 0; i < IDS; i++) {
		if (ls->id[i])
			sr_vlib.cm_destroy_id(ls->id[i]);
		ls->id[i] = NULL;
	}
}

/* Wildcards bind on all devices, so with iWARP about the plain port number
 * may fail (TCP has it) and that is no error.  A bound one belongs to one
 * device, whose kind shows once it is bound. */
static int open_ids(struct listener *ls)
{
	uint16_t port = sr_addr_port((struct sockaddr *)&ls->addr);
	unsigned kinds = sr_verbs_devices();
	int err = -ENODEV, err2 = -ENODEV;

	/* Opened again, it keeps the ports that it has told to others. */
	if (kinds & SR_VDEV_IWARP)
		err2 = listen_on(ls, IWARP, ls->anywhere ? ls->port[IWARP] :
							   sr_vcm_iwarp_port(port));
	/* Of InfiniBand and RoCE [::] has IPv4, too. */
	if (!err2 && is_any6(ls))
		listen_on(ls, IWARP_IPV4, ls->port[IWARP]);
	if (kinds & SR_VDEV_IB)
		err = listen_on(ls, IB, ls->anywhere ? ls->port[IB] : port);
	/* The CM's ports below 1024 are for the privileged of the first user namespace alone:
	 * ip_unprivileged_port_start(7) counts for TCP only (cma.c of the kernel). */
	if (err == -EACCES)
		err = listen_on(ls, IB, sr_vcm_iwarp_port(port));
	if (!err || !err2)
		return 0;
	return err != -ENODEV ? err : err2;
}

static void listen_again(struct sr_timer *t)
{
	struct listener *ls = SR_OF(struct listener, retry, t);

	close_ids(ls);
	if (open_ids(ls))
		sr_timer_set(t, RETRY_MS);
}

int sr_verbs_listen(const struct sockaddr *addr, char *there, void **out)
{
	struct listener *ls;
	int err = sr_vcm_open();

	if (err)
		return err;
	ls = calloc(1, sizeof(*ls));
	if (!ls)
		return -ENOMEM;
	ls->retry.fn = listen_again;
	ls->anywhere = there;
	sr_vcm_addr(&ls->addr, addr, sr_addr_port(addr));
	err = open_ids(ls);
	if (err) {
		free(ls);
		return err;
	}
	SR_LIST_ADD(listeners, ls);
	if (there)
		sr_format(there, SR_THERE_LEN, "%u %u", ls->port[IB], ls->port[IWARP]);
	*out = ls;
	return 0;
}

void sr_verbs_unlisten(void *listener)
{
	struct listener *ls = listener;

	sr_timer_cancel(&ls->retry);
	SR_LIST_DROP(ls);
	close_ids(ls);
	free(ls);
}

/* The device is gone.  (Those of any address hear of the next one.) */
void sr_vlisten_removed(struct ibv_context *ctx)
{
	struct listener *ls;

	for (ls = listeners; ls; ls = ls->next) {
		if (sr_addr_is_any(&ls->addr))
			continue;
		if ((ls->id[IB] && ls->id[IB]->verbs == ctx) ||
		    (ls->id[IWARP] && ls->id[IWARP]->verbs == ctx)) {
			close_ids(ls);
			sr_timer_set(&ls->retry, RETRY_MS);
		}
	}
}

/* In the child of fork. */
void sr_vlisten_forget(void)
{
	listeners = NULL;
}
