/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * device.c - RDMA devices as sysfs shows them, and the way to the peer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <ifaddrs.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/library.h"
#include "check.h"

#define CLASS "/sys/class/infiniband"
#define PORTS_MAX 64
#define GIDS_MAX 256

static struct port {
	char device[64], number[8], state[32], layer[32], netdev[IF_NAMESIZE];
	unsigned gids, v2;	/* v2: those of RoCE v2, which are IPv4 or IPv6 addresses */
	bool active, iwarp;
} ports[PORTS_MAX];
static unsigned n_ports;	/* read by check_devices() */

bool have_device(void)
{
	glob_t all;
	bool have = !glob(CLASS "/*", GLOB_NOSORT, NULL, &all);

	globfree(&all);
	return have;
}

bool have_hardware(void)
{
	glob_t all;
	bool have = !glob(CLASS "/*/device", GLOB_NOSORT, NULL, &all);

	globfree(&all);
	return have;
}

void check_modules(struct checked *c)
{
	static const struct {
		const struct sr_library *library;
		const char *reason;
	} needed[] = { { &sr_library_verbs, "no-library" },
		       { &sr_library_cm, "no-library" },
		       { &sr_library_sodium, "no-libsodium" } };
	char why[256];

	(void)c;
	for (int i = 0; i < 3; i++) {
		if (sr_library_open(needed[i].library, dlopen, why, sizeof(why)))
			continue;
		say(have_device() ? PROBLEM : WARNING, "RDMA libraries", "%s", why);
		remedy(needed[i].reason, "%s", advice(needed[i].reason));
		return;
	}
	say(OK, "RDMA libraries", "libibverbs, librdmacm and libsodium are there");
	if (!have_device())
		return;
	if (access("/dev/infiniband/rdma_cm", R_OK | W_OK)) {
		say(PROBLEM, "connection manager", "/dev/infiniband/rdma_cm: %s",
		    strerror(errno));
		remedy("no-device", errno == ENOENT ?
			"modprobe rdma_ucm; in a container, --device /dev/infiniband" :
			"Let this user read and write it");
	} else {
		say(OK, "connection manager", "/dev/infiniband/rdma_cm can be used");
	}
}

/* ---- network devices ---- */

/* The netdev of this host that has an address: 4 or 16 bytes, or of AF_PACKET the 6 of its
 * hardware. */
static bool netdev_of(int family, const void *bytes, char name[IF_NAMESIZE])
{
	struct ifaddrs *all = NULL, *i;
	bool found = false;
	size_t len = ETH_ALEN;
	const void *has;

	if (getifaddrs(&all))
		return false;
	for (i = all; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != family)
			continue;
		has = family == AF_PACKET ? ((struct sockaddr_ll *)i->ifa_addr)->sll_addr :
					    sr_addr_bytes((void *)i->ifa_addr, &len);
		found = !memcmp(has, bytes, len);
		if (found)
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
	return found;
}

static bool netdev_at(const struct sockaddr_storage *addr, char name[IF_NAMESIZE])
{
	size_t len;

	return netdev_of(addr->ss_family, sr_addr_bytes(addr, &len), name);
}

/* The address from which packets to the peer leave, and whether the peer is here. */
static bool route(struct checked *c, char name[IF_NAMESIZE])
{
	struct sockaddr_storage own = { .ss_family = AF_UNSPEC };
	int fd = socket(c->peer.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(own);
	bool ok = fd >= 0 && !connect(fd, (struct sockaddr *)&c->peer, c->peer_len) &&
		  !getsockname(fd, (struct sockaddr *)&own, &len);

	close(fd);
	c->local = netdev_at(&c->peer, name) || (c->peer.ss_family == AF_INET &&
		   ntohl(((struct sockaddr_in *)&c->peer)->sin_addr.s_addr) >> 24 == 127);
	return ok && (netdev_at(&own, name) || c->local);
}

/* ---- devices ---- */

/* iWARP: the GID of siw begins with the hardware address of its netdev. */
static void netdev_of_gid(struct port *p, const char *gid)
{
	static const uint8_t none[ETH_ALEN];
	uint8_t b[ETH_ALEN];

	if (sscanf(gid, "%2hhx%2hhx:%2hhx%2hhx:%2hhx%2hhx", &b[0], &b[1], &b[2], &b[3], &b[4],
		   &b[5]) == 6 && memcmp(b, none, sizeof(b)))
		netdev_of(AF_PACKET, b, p->netdev);
}

/* The port below this directory of sysfs. */
static void read_port(struct port *p, const char *base)
{
	char buf[128], gid[64];

	sscanf(base, CLASS "/%63[^/]/ports/%7s", p->device, p->number);
	first_line(p->state, sizeof(p->state), "%s/state", base);
	p->active = !strncmp(p->state, "4:", 2);
	first_line(p->layer, sizeof(p->layer), "%s/link_layer", base);
	p->iwarp = *first_line(buf, sizeof(buf), "%s/../../node_type", base) == '4';
	for (int i = 0; i < GIDS_MAX; i++) {
		if (!*first_line(gid, sizeof(gid), "%s/gids/%d", base, i))
			break;
		if (!strpbrk(gid, "123456789abcdef"))
			continue;
		p->gids++;
		p->v2 += !strcmp(first_line(buf, sizeof(buf), "%s/gid_attrs/types/%d", base, i),
				 "RoCE v2");
		if (!*p->netdev && *first_line(buf, sizeof(buf), "%s/gid_attrs/ndevs/%d", base,
					       i))
			snprintf(p->netdev, sizeof(p->netdev), "%.15s", buf);
		if (!*p->netdev && p->iwarp)
			netdev_of_gid(p, gid);
	}
}

static void judge_port(const struct port *p)
{
	bool ip = *p->netdev || p->gids, roce = !p->iwarp && !strcmp(p->layer, "Ethernet");
	char what[96];

	snprintf(what, sizeof(what), "device %s, port %s", p->device, p->number);
	say(p->active && ip ? OK : PROBLEM, what, "%s, %s, network device %s, %u addresses%s",
	    p->state, p->iwarp ? "iWARP" : roce ? "RoCE" : p->layer,
	    *p->netdev ? p->netdev : "unknown", p->gids,
	    roce && !p->v2 ? ", none of them for RoCE v2" : "");
	if (!p->active)
		remedy("no-device", "Bring its cable, switch and network device up (ip link set "
				    "%s up)", *p->netdev ? p->netdev : "NETDEV");
	else if (!ip)
		remedy("no-device", "Give its network device an IP address");
}

static void read_ports(void)
{
	glob_t all;

	if (!glob(CLASS "/*/ports/*", 0, NULL, &all))
		for (; n_ports < all.gl_pathc && n_ports < PORTS_MAX; n_ports++) {
			read_port(&ports[n_ports], all.gl_pathv[n_ports]);
			judge_port(&ports[n_ports]);
		}
	globfree(&all);
}

/* The device that has the netdev; excluded: SOCKRAIL_DEVICE names another. */
static const char *device_of(const char *netdev, bool *excluded)
{
	const char *only = getenv("SOCKRAIL_DEVICE");

	for (const struct port *p = ports; p < ports + n_ports; p++) {
		if (strcmp(p->netdev, netdev) != 0 || !p->active)
			continue;
		if (!only || !*only || !strcmp(only, p->device))
			return p->device;
		*excluded = true;
	}
	return NULL;
}

void check_devices(struct checked *c)
{
	char netdev[IF_NAMESIZE] = "";
	bool excluded = false;
	const char *device;

	if (!have_device()) {
		say(WARNING, "devices", "no RDMA device: streams to other hosts stay on TCP, "
					"those inside this host have shared memory");
		remedy("no-device", "%s", advice("no-device"));
	}
	read_ports();
	if (!c->host)
		return;
	if (!route(c, netdev)) {
		say(PROBLEM, "route", "none to %s", c->host);
		remedy(NULL, "ip route get %s", c->host);
	} else if (c->local) {
		say(OK, "route", "%s is this host: shared memory", c->host);
	} else if ((device = device_of(netdev, &excluded))) {
		say(OK, "route", "to %s by %s, a network device of %s", c->host, netdev,
		    device);
	} else {
		say(PROBLEM, "route", "to %s by %s, which is of no RDMA device%s", c->host, netdev,
		    excluded ? " that SOCKRAIL_DEVICE allows" : "");
		remedy("no-device", "%s", advice("no-device"));
	}
}

/* ---- an address for a measurement ---- */

const char *device_address(char buf[64], const char **device)
{
	struct ifaddrs *all = NULL, *i;

	buf[0] = '\0';
	if (getifaddrs(&all))
		return buf;
	for (i = all; i && !*buf; i = i->ifa_next)
		for (const struct port *p = ports; p < ports + n_ports && !*buf; p++)
			if (p->active && i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
			    !strcmp(i->ifa_name, p->netdev)) {
				inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr,
					  buf, 64);
				*device = p->device;
			}
	freeifaddrs(all);
	return buf;
}
