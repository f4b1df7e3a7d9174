/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * host.c - checks what shared memory needs from the kernel, and what confines this process.
 */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define OVERFLOW_UID 65534	/* "nobody" */

/* AF_UNIX and memfd. */
void check_unix(struct checked *c)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), memory;

	(void)c;
	memory = memfd_create("sockrail-check", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || memory < 0 || ftruncate(memory, 4096)) {
		say(PROBLEM, "shared memory", "%s: %s",
		    fd < 0 ? "no AF_UNIX socket" : "no memfd", strerror(errno));
		remedy("memory", "A sandbox or seccomp filter is in the way: allow AF_UNIX "
				 "and memfd_create");
	} else {
		say(OK, "shared memory", "works, also between users");
	}
	close(fd);
	close(memory);
}

/* Does sock_diag(7) find this socket, which listens?  0 or an errno. */
static int find_listener(const struct sockaddr_in *at)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 body;
	} q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = AF_INET,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = UINT32_MAX},
	};

	q.body.id.idiag_cookie[0] = q.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	q.body.id.idiag_sport = at->sin_port;
	memcpy(q.body.id.idiag_src, &at->sin_addr, sizeof(at->sin_addr));
	return ask_sock_diag(&q, sizeof(q));
}

void check_sock_diag(struct checked *c)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err;
	char buf[64];

	(void)c;
	err = fd < 0 || bind(fd, (struct sockaddr *)&at, len) || listen(fd, 1) ||
	      getsockname(fd, (struct sockaddr *)&at, &len) ? errno : find_listener(&at);
	close(fd);
	if (err) {
		say(PROBLEM, "sock_diag", "cannot find out which user owns a socket: %s: no "
			"shared memory", strerror(err));
		remedy("no-match", "Allow AF_NETLINK sockets in the sandbox; if the kernel has "
				   "no tcp_diag: modprobe tcp_diag");
	} else if (!*first_line(buf, sizeof(buf), "/proc/self/stat")) {
		say(PROBLEM, "sock_diag", "works, but /proc cannot be read");
		remedy(NULL, "Mount /proc");
	} else {
		say(OK, "sock_diag", "works, and /proc can be read");
	}
}

void check_namespaces(struct checked *c)
{
	unsigned from = 0, to = 0, n = 0;
	char map[128], own[64], first[64];

	sscanf(first_line(map, sizeof(map), "/proc/self/uid_map"), "%u %u %u", &from, &to, &n);
	if (geteuid() == OVERFLOW_UID) {
		say(PROBLEM, "user", "nobody (65534) cannot use shared memory");
		remedy("user", "Run it as a user of its own; in a container, map that user");
	} else if (n && n != UINT32_MAX) {
		say(WARNING, "user", "%u of a user namespace of %u users: all other users appear as "
			"nobody, and cannot share memory with it", (unsigned)geteuid(), n);
		remedy("user", "Run both ends in one user namespace");
	} else {
		say(OK, "user", "%u, in the first user namespace", (unsigned)geteuid());
	}
	first_line(own, sizeof(own), "/proc/self/ns/net");
	first_line(first, sizeof(first), "/proc/1/ns/net");
	if (*own && *first && strcmp(own, first) != 0)
		say(WARNING, "network namespace", "not that of process 1 (a container?): shared "
			"memory works inside it%s; RDMA works if a device belongs to it, or "
			"namespaces share devices (rdma system)", *c->dir ? ", and by SOCKRAIL_DIR" :
			" only, without SOCKRAIL_DIR");
	else
		say(OK, "network namespace", "%s", *first ? "that of process 1" : own);
}

static const char *container_name(void)
{
	char buf[256];

	if (!access("/.dockerenv", F_OK))
		return "Docker";
	if (!access("/run/.containerenv", F_OK))
		return "Podman";
	if (*first_line(buf, sizeof(buf), "/run/systemd/container"))
		return "systemd-nspawn or the like";
	return getenv("KUBERNETES_SERVICE_HOST") ? "Kubernetes" : NULL;
}

void check_confinement(struct checked *c)
{
	const char *in = container_name();
	char profile[256];

	(void)c;
	if (!*first_line(profile, sizeof(profile), "/proc/self/attr/apparmor/current"))
		first_line(profile, sizeof(profile), "/proc/self/attr/current");
	if (status_number("Seccomp", 10)) {
		say(WARNING, "seccomp", "a filter is in force; the other lines show whether it is in "
			"the way");
		remedy(NULL, "It must allow memfd_create, clone3, sendmsg, recvmsg, epoll and "
			     "AF_NETLINK sockets");
	} else {
		say(OK, "seccomp", "no filter is in force");
	}
	if (*profile && strcmp(profile, "unconfined") && strcmp(profile, "kernel")) {
		say(WARNING, "confinement", "AppArmor or SELinux: %s", profile);
		remedy(NULL, "It must allow the library to be mapped, AF_UNIX, AF_NETLINK and "
			     "/dev/infiniband; denials are in the kernel's log");
	}
	if (in) {
		bool devices = !access("/dev/infiniband/rdma_cm", R_OK | W_OK);

		say(devices || !have_device() ? OK : PROBLEM, "container", "%s, %s", in,
		    devices ? "with /dev/infiniband" : "without /dev/infiniband");
		if (!devices && have_device())
			remedy("no-device", "For RDMA give it --device /dev/infiniband and "
					    "--ulimit memlock=-1");
	}
}
