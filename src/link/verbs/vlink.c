/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * vlink.c - a verbs link as the engine sees it, and its failure.
 *
 * Locks: the carrier's, where another thread may use what is changed.
 */
#include "base/sys.h" /* before any system header */
#include "link/verbs/verbs.h"

#include <string.h>

#include "base/addr.h"
#include "base/log.h"

enum {
	BARE_ID = 36,		/* bytes: two addresses and ports */
	END_MS = 500,		/* what is posted may still go out */
};

/* ---- the end ---- */

/* The caller has set the reason. */
static void vlink_dies(struct sr_vlink *l)
{
	sr_link_raise(&l->link, SR_LINK_DEAD);
	sr_debug("verbs: link %x given up: %s", l->link.link_no,
		 sr_load(&l->link.reason));
	sr_vlook_link(l, SR_LOOK_SOON);
	l->link.notify(&l->link, SR_NOTIFY_CTL);
}

void sr_vlink_fail(struct sr_vlink *l, const char *reason)
{
	if (sr_link_set_reason(&l->link, reason))
		vlink_dies(l);
}

/* (What is still due, vlook_tick() sends, until END_MS have passed.) */
static void verbs_drop(struct sr_link *link, const char *reason)
{
	struct sr_vlink *l = sr_vlink(link);
	bool first;

	sr_vcarrier_lock(l->c);
	if (sr_reason_find(reason) == SR_REASON_TIMEOUT)
		reason = sr_vpost_why(l->c, IBV_WC_SUCCESS, reason);
	/* Before the peer hears of it: the CM may tell at once that the peer has gone, too. */
	first = sr_link_set_reason(link, reason);
	if (first)
		l->end_ns = sr_now_ns() + END_MS * UINT64_C(1000000);
	sr_vtx_drop(l);
	sr_vcarrier_unlock(l->c);
	if (first)
		vlink_dies(l);
}

/* ---- the rest of the contract ---- */

static void verbs_hello(struct sr_link *link, struct sr_hello *hello)
{
	struct sr_vlink *l = sr_vlink(link);

	hello->ring = sr_vring_ref(&l->rx.ring[0], 0);
}

/* Addresses and ports of the CM's connection, the asker's first.  On iWARP the asker's port
 * does not count: if the asker's host has a port mapper (iwpmd) and the answerer's has none,
 * the two ends see different ones.  The answerer's port tells this link from one that another
 * process of its host has made.  The link's number tells it from others of its carrier; the first
 * one, which the CM has opened, goes without. */
static size_t verbs_identity(struct sr_link *link, uint8_t id[64])
{
	struct sr_vlink *l = sr_vlink(link);
	struct rdma_addr *a = l->c->id ? &l->c->id->route.addr : NULL;
	struct sockaddr_storage s;
	struct sockaddr *sa;
	const void *bytes;
	size_t len;
	uint32_t number = htonl(l->number);
	uint16_t port;
	int i;

	if (!a)
		return 0;
	memset(id, 0, BARE_ID + sizeof(number));
	for (i = 0; i < 2; i++) {
		sa = (link->role == SR_ROLE_ASKER) == !i ? &a->src_addr :
							   &a->dst_addr;
		sr_addr_unmap(&s, sa);
		bytes = sr_addr_bytes(&s, &len);
		memcpy(id + 18 * i, bytes, len);
		port = l->c->iwarp && !i ? 0 : htons(sr_addr_port(sa));
		memcpy(id + 18 * i + 16, &port, sizeof(port));
	}
	if (l->number == SR_V_NUMBER)
		return BARE_ID;
	memcpy(id + BARE_ID, &number, sizeof(number));
	return BARE_ID + sizeof(number);
}

/* (tx: no more may be under way than the smaller of the two ends' rings holds.) */
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
	.proven = sr_verbs_proven,
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
	.watch = sr_verbs_watch,
	.unwatch = sr_verbs_unwatch,
	.rang = sr_verbs_rang,
	.work = sr_verbs_work,
	.tx_work = sr_verbs_tx_work,
	.drop = verbs_drop,
	.free = sr_vlink_free,
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
