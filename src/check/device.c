/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * device.c - RDMA devices as sysfs shows them, and the way to the peer.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "check.h"

#define CLASS "/sys/class/infiniband"
#define GIDS_MAX 256

void check_modules(struct checked *c)
{
	static const struct {
		const char *library, *reason;
	} needed[] = { { "libibverbs.so.1", "no-library" },
		       { "librdmacm.so.1", "no-library" },
		       { "libsodium.so.23", "no-libsodium" } };

	(void)c;
	for (int i = 0; i < 3; i++) {
		if (dlopen(needed[i].library, RTLD_NOW | RTLD_LOCAL))
			continue;
		say(have_device() ? PROBLEM : WARNING, "RDMA libraries", "%s", dlerror());
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

/* The netdev that has this address of this host. */
static bool netdev_of(const struct sockaddr_storage *addr, char name[IF_NAMESIZE])
{
	struct ifaddrs *all = NULL, *i;
	bool found = false;
	size_t len;
	const void *bytes = sr_addr_bytes(addr, &len);

	if (getifaddrs(&all))
		return false;
	for (i = all; i && !found; i = i->ifa_next) {
		found = i->ifa_addr && i->ifa_addr->sa_family == addr->ss_family &&
			!memcmp(sr_addr_bytes((void *)i->ifa_addr, &len), bytes, len);
		if (found)
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
	return found;
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
	c->local = netdev_of(&c->peer, name) || (c->peer.ss_family == AF_INET &&
		   ntohl(((struct sockaddr_in *)&c->peer)->sin_addr.s_addr) >> 24 == 127);
	return ok && (netdev_of(&own, name) || c->local);
}

/* The hardware address of a netdev as hexadecimal digits. */
static void hardware(char hex[32], const char *netdev)
{
	char buf[64];
	size_t n = 0;

	first_line(buf, sizeof(buf), "/sys/class/net/%s/address", netdev);
	for (const char *s = buf; *s && n < 31; s++)
		if (*s != ':')
			hex[n++] = *s;
	hex[n] = '\0';
}

/* iWARP: the GID of siw begins with the hardware address of its netdev. */
static bool netdev_of_gid(const char *gid, char name[IF_NAMESIZE])
{
	struct if_nameindex *all = if_nameindex(), *i;
	char want[40], have[32];
	bool found = false;
	size_t n = 0;

	for (; *gid && n < 12; gid++)
		if (*gid != ':')
			want[n++] = *gid;
	want[n] = '\0';
	for (i = all; i && i->if_index && !found; i++) {
		hardware(have, i->if_name);
		found = strlen(have) == 12 && !strcmp(have, want) &&
			strcmp(have, "000000000000") != 0;
		if (found)
			snprintf(name, IF_NAMESIZE, "%s", i->if_name);
	}
	if (all)
		if_freenameindex(all);
	return found;
}

/* ---- devices ---- */

struct port {
	char state[32], layer[32], netdev[IF_NAMESIZE];
	unsigned gids, v2;	/* of v2: RoCE v2, for which IPv4 and IPv6 addresses stand */
	bool iwarp;
};

static void read_port(struct port *p, const char *device, const char *number)
{
	char buf[128], gid[64], base[640];

	*p = (struct port){ .gids = 0 };
	snprintf(base, sizeof(base), CLASS "/%s/ports/%s", device, number);
	first_line(p->state, sizeof(p->state), "%s/state", base);
	first_line(p->layer, sizeof(p->layer), "%s/link_layer", base);
	p->iwarp = *first_line(buf, sizeof(buf), CLASS "/%s/node_type", device) == '4';
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
			netdev_of_gid(gid, p->netdev);
	}
}

static void judge_port(const char *device, const char *number, const struct port *p)
{
	bool active = !strncmp(p->state, "4:", 2), ip = *p->netdev || p->gids;
	bool roce = !p->iwarp && !strcmp(p->layer, "Ethernet");
	char what[96];

	snprintf(what, sizeof(what), "device %s, port %s", device, number);
	say(active && ip ? OK : PROBLEM, what, "%s, %s, network device %s, %u addresses%s",
	    p->state, p->iwarp ? "iWARP" : roce ? "RoCE" : p->layer,
	    *p->netdev ? p->netdev : "unknown", p->gids,
	    roce && !p->v2 ? ", none of them for RoCE v2" : "");
	if (!active)
		remedy("no-device", "Bring its cable, switch and network device up (ip link set "
				    "%s up)", *p->netdev ? p->netdev : "NETDEV");
	else if (!ip)
		remedy("no-device", "Give its network device an IP address");
}

/* Calls each(device, port's number, port, arg) for all ports. */
static void each_port(void (*each)(const char *, const char *, const struct port *, void *),
		      void *arg)
{
	DIR *devices = opendir(CLASS), *ports;
	const struct dirent *d, *n;
	char path[512];
	struct port p;

	while (devices && (d = readdir(devices))) {
		snprintf(path, sizeof(path), CLASS "/%s/ports", d->d_name);
		ports = d->d_name[0] == '.' ? NULL : opendir(path);
		while (ports && (n = readdir(ports))) {
			if (n->d_name[0] == '.')
				continue;
			read_port(&p, d->d_name, n->d_name);
			each(d->d_name, n->d_name, &p, arg);
		}
		if (ports)
			closedir(ports);
	}
	if (devices)
		closedir(devices);
}

struct way {
	const char *netdev;
	char device[64];
	bool named;	/* SOCKRAIL_DEVICE names another */
};

static void look_at(const char *device, const char *number, const struct port *p, void *arg)
{
	const char *only = getenv("SOCKRAIL_DEVICE");
	struct way *w = arg;

	judge_port(device, number, p);
	if (!w->netdev || strcmp(p->netdev, w->netdev) || strncmp(p->state, "4:", 2))
		return;
	if (only && *only && strcmp(only, device) != 0)
		w->named = true;
	else
		snprintf(w->device, sizeof(w->device), "%.63s", device);
}

void check_devices(struct checked *c)
{
	char netdev[IF_NAMESIZE] = "";
	bool routed = c->host && route(c, netdev);
	struct way w = { .netdev = routed ? netdev : NULL };

	if (!have_device()) {
		say(WARNING, "devices", "no RDMA device: streams to other hosts stay on TCP, "
					"those inside this host have shared memory");
		remedy("no-device", "%s", advice("no-device"));
	}
	each_port(look_at, &w);
	if (!c->host)
		return;
	if (!routed) {
		say(PROBLEM, "route", "none to %s", c->host);
		remedy(NULL, "ip route get %s", c->host);
	} else if (c->local) {
		say(OK, "route", "%s is this host: shared memory", c->host);
	} else if (*w.device) {
		say(OK, "route", "to %s by %s, which device %s has", c->host, netdev, w.device);
	} else {
		say(PROBLEM, "route", "to %s by %s, which no RDMA device has%s", c->host, netdev,
		    w.named ? " but one that SOCKRAIL_DEVICE excludes" : "");
		remedy("no-device", "%s", advice("no-device"));
	}
}

/* ---- an address for a measurement ---- */

struct own_address {
	char *text, *device;
};

static void take_address(const char *device, const char *number, const struct port *p,
			 void *arg)
{
	struct own_address *o = arg;
	struct ifaddrs *all = NULL, *i;

	(void)number;
	if (*o->text || !*p->netdev || strncmp(p->state, "4:", 2) || getifaddrs(&all))
		return;
	for (i = all; i && !*o->text; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    !strcmp(i->ifa_name, p->netdev) &&
		    inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, o->text,
			      64))
			snprintf(o->device, 64, "%.63s", device);
	freeifaddrs(all);
}

const char *device_address(char buf[64], char device[64])
{
	struct own_address o = { buf, device };

	buf[0] = device[0] = '\0';
	each_port(take_address, &o);
	return buf;
}
