/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fabric.c - what an administrator of an RDMA network looks at: rate and MTU, firmware, the
 * traffic class and whether it is lossless, the port mapper of iWARP.
 */
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dcb.h"
#include "device.h"

#define CONFIGFS "/sys/kernel/config/rdma_cm/%s/ports/%s/"

const char *speed_text(const struct port *p, char *buf, size_t size)
{
	struct verbs_found f;
	char rate[64];
	int n = 0;

	buf[0] = '\0';
	/* The rate that a software device reports is not that of its network. */
	if (p->hardware && *first_line(rate, sizeof(rate), SR_SYS_RDMA "/%s/ports/%s/rate",
				       p->device, p->number))
		n = snprintf(buf, size, ", %s", rate);
	verbs_look(&f, p->device, (unsigned)atoi(p->number));
	if (f.mtu)
		snprintf(buf + n, size - (size_t)n, ", MTU %u", f.mtu);
	return buf;
}

const char *state_remedy(const struct port *p)
{
	char phys[32];

	first_line(phys, sizeof(phys), SR_SYS_RDMA "/%s/ports/%s/phys_state", p->device, p->number);
	if (p->active)
		return NULL;
	if (!strcmp(p->layer, "InfiniBand") && (*p->state == '2' || *p->state == '3'))
		return "No subnet manager has configured it: start one (opensm, or the switch's)";
	if (*phys == '2') /* Polling */
		return "Nothing answers at the other end of its cable: check the cable, the "
		       "transceiver and the switch's port";
	return "Bring its cable, switch and network device up";
}

/* ---- lines ---- */

/* Adds to a list that is separated by commas. */
__attribute__((format(printf, 3, 4)))
static void list_add(char *list, size_t size, const char *text, ...)
{
	size_t n = strlen(list);
	va_list ap;

	if (n && n + 2 < size)
		n += (size_t)snprintf(list + n, size - n, ", ");
	va_start(ap, text);
	if (n < size)
		vsnprintf(list + n, size - n, text, ap);
	va_end(ap);
}

static void judge_device(const struct port *p)
{
	char what[80], list[256] = "", buf[64];
	struct verbs_found f;

	snprintf(what, sizeof(what), "device %s", p->device);
	verbs_look(&f, p->device, 1);
	if (*first_line(buf, sizeof(buf), SR_SYS_RDMA "/%s/hca_type", p->device))
		list_add(list, sizeof(list), "%s", buf);
	if (*first_line(buf, sizeof(buf), SR_SYS_RDMA "/%s/fw_ver", p->device))
		list_add(list, sizeof(list), "firmware %s", buf);
	first_line(buf, sizeof(buf), SR_SYS_RDMA "/%s/device/numa_node", p->device);
	if (*buf >= '0' && *buf <= '9')
		list_add(list, sizeof(list), "NUMA node %s", buf);
	if (f.what == VERBS_OPENED)
		list_add(list, sizeof(list), "%d completion vectors", f.vectors);
	if (f.what == VERBS_NO_DRIVER)
		list_add(list, sizeof(list), "libibverbs has no driver for it");
	if (f.what == VERBS_NOT_OPENED)
		list_add(list, sizeof(list), "cannot be opened: %s", strerror(f.err));
	if (*list)
		say(f.what == VERBS_NO_DRIVER || f.what == VERBS_NOT_OPENED ? PROBLEM : OK, what,
		    "%s", list);
	if (f.what == VERBS_NO_DRIVER)
		remedy("no-device", "Install the drivers of rdma-core (Debian: ibverbs-providers) or "
				    "its maker's; in a container, --device /dev/infiniband");
	if (f.what == VERBS_NOT_OPENED)
		remedy("no-device", "Let this user read and write its /dev/infiniband/uverbs*");
}

/* Without iwpmd an iWARP device takes TCP ports without reserving them, even a port at which an
 * ordinary service listens.  siw needs no iwpmd, because it binds a socket. */
static void judge_port_mapper(void)
{
	char name[32];
	bool runs = false;
	glob_t all;

	if (!glob("/proc/[0-9]*/comm", GLOB_NOSORT, NULL, &all)) {
		for (size_t i = 0; i < all.gl_pathc && !runs; i++)
			runs = !strcmp(first_line(name, sizeof(name), "%s", all.gl_pathv[i]), "iwpmd");
		globfree(&all);
	}
	say(runs ? OK : WARNING, "port mapper", runs ? "iwpmd runs" :
	    "iwpmd does not run: the device does not reserve the TCP ports that it uses");
	if (!runs)
		remedy(NULL, "At both ends, systemctl enable --now iwpmd (Debian: rdma-core)");
}

/* Asks the port's network devices, or those below them (of a bond, a VLAN). */
static bool dcb_of_port(struct dcb *d, const struct port *p)
{
	bool found = false;
	char path[128];
	glob_t all;

	for (unsigned i = 0; i < p->n_netdevs && !found; i++) {
		found = dcb_read(d, p->netdev[i]);
		snprintf(path, sizeof(path), SR_SYS_NET "/%s/lower_*", p->netdev[i]);
		if (found || glob(path, 0, NULL, &all))
			continue;
		for (size_t k = 0; k < all.gl_pathc && !found; k++)
			found = dcb_read(d, strrchr(all.gl_pathv[k], '/') + strlen("/lower_"));
		globfree(&all);
	}
	return found;
}

static void judge_class(const struct checked *c, const struct port *p)
{
	char what[96], found[256], buf[64];
	unsigned tclass = c->tos, better = 0;
	enum verdict verdict = OK;
	struct dcb d;

	snprintf(what, sizeof(what), "traffic class, %s port %s", p->device, p->number);
	if (!tclass)
		tclass = (unsigned)atoi(first_line(buf, sizeof(buf), CONFIGFS "default_roce_tos",
						   p->device, p->number)) & 0xff;
	if (dcb_of_port(&d, p))
		verdict = dcb_judge(&d, tclass, found, sizeof(found), &better);
	else
		snprintf(found, sizeof(found), "%u (DSCP %u); the driver does not report PFC", tclass,
			 tclass >> 2);
	say(verdict, what, "%s", found);
	if (better)
		remedy(NULL, "SOCKRAIL_TOS=%u, or echo %u >" CONFIGFS "default_roce_tos", better,
		       better, p->device, p->number);
	else if (verdict != OK)
		remedy(NULL, "Give a DSCP a priority with PFC (dcb app, or mlnx_qos), here and in the "
			     "switches, and name its class by SOCKRAIL_TOS");
}

static void judge_mode(const struct port *p)
{
	char what[96], buf[64];

	snprintf(what, sizeof(what), "device %s, port %s", p->device, p->number);
	if (!p->v2 && p->v1) {
		say(WARNING, what, "has addresses of RoCE v1 only");
		remedy("timeout", "Peers that have RoCE v2 ask by it: give the network device an IP "
				  "address, or let them ask by v1 (default_roce_mode)");
	}
	if (p->v2 && strstr(first_line(buf, sizeof(buf), CONFIGFS "default_roce_mode", p->device,
				       p->number), "v1")) {
		say(WARNING, what, "asks by RoCE v1, which no router forwards and which uses no IP addresses");
		remedy("timeout", "echo 'RoCE v2' >" CONFIGFS "default_roce_mode", p->device, p->number);
	}
}

static void judge_lanes(const struct port *p)
{
	char what[96], rate[64];

	first_line(rate, sizeof(rate), SR_SYS_RDMA "/%s/ports/%s/rate", p->device, p->number);
	if (strcmp(p->layer, "InfiniBand") != 0 || !strstr(rate, "(1X"))
		return;
	snprintf(what, sizeof(what), "device %s, port %s", p->device, p->number);
	say(WARNING, what, "uses one lane of its cable: %s", rate);
	remedy(NULL, "Check the cable and both its ends (ibdiagnet, iblinkinfo)");
}

void judge_fabric(const struct checked *c, const struct port *p, bool first)
{
	if (first)
		judge_device(p);
	if (!p->active)
		return;
	if (p->hardware)
		judge_lanes(p);
	if (p->roce)
		judge_mode(p);
	if (p->roce && p->hardware)
		judge_class(c, p);
	if (p->iwarp && p->hardware && first)
		judge_port_mapper();
}
