/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * device.h - a port of an RDMA device, as device.c finds it, for fabric.c, which judges its
 * network.
 */
#ifndef SR_CHECK_DEVICE_H
#define SR_CHECK_DEVICE_H

#include <net/if.h>
#include <stdbool.h>

#include "check.h"

#define SR_SYS_RDMA "/sys/class/infiniband"
#define SR_SYS_NET "/sys/class/net"
#define NETDEVS_MAX 16

struct port {
	char device[64], number[8], state[32], layer[32];
	char netdev[NETDEVS_MAX][IF_NAMESIZE];	/* with its VLANs, a bond, macvlans */
	unsigned n_netdevs;
	unsigned gids, v1, v2;	/* v1, v2: those of RoCE; v2 are IPv4 or IPv6 addresses */
	bool active, iwarp, roce, hardware;
};

/* ---- fabric.c ---- */
/* Called after the line about the port.  first: it is the first port of its device. */
void judge_fabric(const struct checked *c, const struct port *p, bool first);
/* ", 100 Gb/sec (4X EDR), MTU 4096", as far as is known. */
const char *speed_text(const struct port *p, char *buf, size_t size);
/* What to do about the port's state; NULL: nothing is wrong. */
const char *state_remedy(const struct port *p);

/* ---- verbs.c ---- */
struct verbs_found {
	enum { VERBS_NOT_ASKED, VERBS_NO_DRIVER, VERBS_NOT_OPENED, VERBS_OPENED } what;
	int err;		/* VERBS_NOT_OPENED: why */
	int vectors;		/* VERBS_OPENED */
	unsigned mtu;		/* of the port; 0: not known */
};
/* What libibverbs says of the port; it is loaded if it is there. */
void verbs_look(struct verbs_found *f, const char *device, unsigned port);
/* "" if forks cannot harm links on this kernel; else a text that says what is done instead. */
const char *verbs_fork(void);

#endif
