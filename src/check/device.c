/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * device.c - RDMA devices as sysfs shows them, and the route to the peer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/library.h"
#include "device.h"

#define PORTS_MAX 64
#define GIDS_MAX 256
#define IPOIB_ALEN 20

static struct port ports[PORTS_MAX];
static unsigned n_ports;	/* read by check_devices() */

/* Is the device's type "1: CA" or "4: RNIC"?  Others, such as EFA and usNIC, have no reliable
 * connections and no connection manager (cma_supported() of the kernel). */
static bool is_of_use(const char *device)
{
	char type[32];

	first_line(type, sizeof(type), "%s/node_type", device);
	return *type == '1' || *type == '4';
}

/* below: a file that the device must have in its directory of sysfs. */
static bool have_device_with(const char *below)
{
	char path[PATH_MAX];
	bool have = false;
	glob_t all;

	if (!glob(SR_SYS_RDMA "/*", GLOB_NOSORT, NULL, &all))
		for (size_t i = 0; i < all.gl_pathc && !have; i++) {
			snprintf(path, sizeof(path), "%s%s", all.gl_pathv[i], below);
			have = is_of_use(all.gl_pathv[i]) && !access(path, F_OK);
		}
	globfree(&all);
	return have;
}

bool have_device(void)
{
	return have_device_with("");
}

bool have_hardware(void)
{
	return have_device_with("/device");
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
	if (*verbs_fork()) {
		say(WARNING, "fork", "%s", verbs_fork());
		remedy(NULL, "Use a newer kernel if the program forks often");
	}
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

/* The netdev of this host that has the address. */
static bool netdev_at(const struct sockaddr_storage *addr, char name[IF_NAMESIZE])
{
	struct ifaddrs *all = NULL, *i;
	bool found = false;
	size_t len;
	const void *bytes = sr_addr_bytes(addr, &len);

	if (getifaddrs(&all))
		return false;
	for (i = all; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != addr->ss_family)
			continue;
		found = !memcmp(sr_addr_bytes((void *)i->ifa_addr, &len), bytes, len);
		if (found)
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
	return found;
}

/* Finds the network device by which packets to the peer leave, and whether the peer is on this
 * host.  False: there is no route. */
static bool find_route(struct checked *c, char name[IF_NAMESIZE])
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

static bool has_netdev(const struct port *p, const char *name)
{
	for (unsigned i = 0; i < p->n_netdevs; i++)
		if (!strcmp(p->netdev[i], name))
			return true;
	return false;
}

static void add_netdev(struct port *p, const char *name)
{
	if (*name && p->n_netdevs < NETDEVS_MAX && !has_netdev(p, name))
		snprintf(p->netdev[p->n_netdevs++], IF_NAMESIZE, "%.15s", name);
}

/* The hexadecimal digits of an address or a GID. */
static const char *digits_of(const char *text, char digits[64])
{
	size_t n = 0;

	for (; *text && n < 63; text++)
		if (*text != ':')
			digits[n++] = *text;
	digits[n] = '\0';
	return digits;
}

/*
 * For InfiniBand and iWARP: sysfs does not tell a GID's netdev, or only newer kernels do.
 * So this does as the connection manager (cma_acquire_dev_by_src_ip() of the kernel): a netdev
 * belongs to the device that has its hardware address as a GID.  Of the 20 bytes of an IPoIB
 * address (also of its children and bonds) these are the last 16, of Ethernet all 6.
 */
static void add_netdevs_of_gid(struct port *p, const char *gid)
{
	char buf[128], address[64], wanted[64];
	glob_t all;

	digits_of(gid, wanted);
	if (p->iwarp)
		wanted[2 * ETH_ALEN] = '\0';
	if (strspn(wanted, "0") != strlen(wanted) && !glob(SR_SYS_NET "/*", 0, NULL, &all)) {
		for (size_t i = 0; i < all.gl_pathc; i++) {
			first_line(buf, sizeof(buf), "%s/address", all.gl_pathv[i]);
			digits_of(buf, address);
			if (strlen(address) == (p->iwarp ? 2 * ETH_ALEN : 2 * IPOIB_ALEN) &&
			    !strcmp(p->iwarp ? address : address + 8, wanted))
				add_netdev(p, strrchr(all.gl_pathv[i], '/') + 1);
		}
		globfree(&all);
	}
}

/* Reads the port in this directory of sysfs.  False: its device cannot be used. */
static bool read_port(struct port *p, const char *base)
{
	char buf[128], gid[64];

	sscanf(base, SR_SYS_RDMA "/%63[^/]/ports/%7s", p->device, p->number);
	snprintf(buf, sizeof(buf), SR_SYS_RDMA "/%s", p->device);
	if (!is_of_use(buf)) {
		snprintf(buf, sizeof(buf), "device %s, port %s", p->device, p->number);
		say(WARNING, buf, "has no reliable connections: it is not used");
		return false;
	}
	first_line(p->state, sizeof(p->state), "%s/state", base);
	p->active = !strncmp(p->state, "4:", 2);
	first_line(p->layer, sizeof(p->layer), "%s/link_layer", base);
	p->iwarp = *first_line(buf, sizeof(buf), "%s/../../node_type", base) == '4';
	p->roce = !p->iwarp && !strcmp(p->layer, "Ethernet");
	snprintf(buf, sizeof(buf), SR_SYS_RDMA "/%s/device", p->device);
	p->hardware = !access(buf, F_OK);
	for (int i = 0; i < GIDS_MAX; i++) {
		if (!*first_line(gid, sizeof(gid), "%s/gids/%d", base, i))
			break;
		if (!strpbrk(gid, "123456789abcdef"))
			continue;
		p->gids++;
		first_line(buf, sizeof(buf), "%s/gid_attrs/types/%d", base, i);
		p->v1 += !strcmp(buf, "IB/RoCE v1");
		p->v2 += !strcmp(buf, "RoCE v2");
		add_netdev(p, first_line(buf, sizeof(buf), "%s/gid_attrs/ndevs/%d", base, i));
		if (p->iwarp || !strcmp(p->layer, "InfiniBand"))
			add_netdevs_of_gid(p, gid);
	}
	return true;
}

static const char *netdevs_text(const struct port *p, char *buf, size_t size)
{
	size_t n = 0;

	snprintf(buf, size, "unknown");
	for (unsigned i = 0; i < p->n_netdevs && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "", p->netdev[i]);
	return buf;
}

static const char *kind_text(const struct port *p)
{
	if (p->iwarp)
		return "iWARP";
	if (!p->roce)
		return p->layer;
	if (!p->v1 && !p->v2)
		return "RoCE";
	return p->v1 && p->v2 ? "RoCE v1 and v2" : p->v2 ? "RoCE v2" : "RoCE v1";
}

static void judge_port(const struct port *p)
{
	char what[96], names[NETDEVS_MAX * (IF_NAMESIZE + 2)], speed[96];
	bool ip = p->n_netdevs || p->gids, ib = !p->n_netdevs && !strcmp(p->layer, "InfiniBand");

	snprintf(what, sizeof(what), "device %s, port %s", p->device, p->number);
	say(!p->active || !ip ? PROBLEM : ib ? WARNING : OK, what, "%s, %s, network device %s, %u addresses%s",
	    p->state, kind_text(p), netdevs_text(p, names, sizeof(names)), p->gids,
	    speed_text(p, speed, sizeof(speed)));
	if (!p->active)
		remedy("no-device", "%s (ip link set %s up)", state_remedy(p),
		       p->n_netdevs ? p->netdev[0] : "NETDEV");
	else if (!ip)
		remedy("no-device", "Give its network device an IP address");
	else if (ib)
		remedy("no-device", "For IP addresses on InfiniBand: modprobe ib_ipoib");
}

static void read_ports(const struct checked *c)
{
	const struct port *before = NULL;

	glob_t all;

	if (!glob(SR_SYS_RDMA "/*/ports/*", 0, NULL, &all))
		for (size_t i = 0; i < all.gl_pathc && n_ports < PORTS_MAX; i++) {
			if (!read_port(&ports[n_ports], all.gl_pathv[i]))
				continue;
			judge_port(&ports[n_ports]);
			judge_fabric(c, &ports[n_ports],
				     !before || strcmp(before->device, ports[n_ports].device) != 0);
			before = &ports[n_ports++];
		}
	globfree(&all);
}

/* The device to which the netdev belongs; NULL: none.  *excluded: there is one, but
 * SOCKRAIL_DEVICE names another. */
static const char *device_of(const char *netdev, bool *excluded)
{
	const char *only = getenv("SOCKRAIL_DEVICE");

	for (const struct port *p = ports; p < ports + n_ports; p++) {
		if (!has_netdev(p, netdev) || !p->active)
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
	read_ports(c);
	if (!c->host)
		return;
	if (!find_route(c, netdev)) {
		say(PROBLEM, "route", "none to %s", c->host);
		remedy(NULL, "ip route get %s", c->host);
	} else if (c->local) {
		say(OK, "route", "%s is this host: shared memory", c->host);
	} else if ((device = device_of(netdev, &excluded))) {
		say(OK, "route", "to %s by %s, a network device of %s", c->host, netdev,
		    device);
	} else {
		say(*c->dir ? WARNING : PROBLEM, "route", "to %s by %s, which belongs to no RDMA device%s",
		    c->host, netdev, excluded ? " that SOCKRAIL_DEVICE allows" : "");
		remedy("no-device", "%s. To a pod or container of this host: SOCKRAIL_DIR",
		       advice("no-device"));
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
			    has_netdev(p, i->ifa_name)) {
				inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr,
					  buf, 64);
				*device = p->device;
			}
	freeifaddrs(all);
	return buf;
}
