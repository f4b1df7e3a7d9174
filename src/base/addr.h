/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * addr.h - internet addresses.  An IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2) is
 * treated as IPv4, because IPv4 is what goes over the wire, and both ends must give a
 * connection the same name.
 *
 * No locks, no memory of its own; all functions but sr_addr_each() are async-signal-safe.
 */
#ifndef SR_ADDR_H
#define SR_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Copies the address; makes an IPv4-mapped one IPv4.  Other families: all zero. */
void sr_addr_unmap(struct sockaddr_storage *to, const struct sockaddr *from);
/* The port of AF_INET or AF_INET6, in host order. */
static inline uint16_t sr_addr_port(const struct sockaddr *a)
{
	/* Both families have it in the same place. */
	return ntohs(((const struct sockaddr_in *)(const void *)a)->sin_port);
}
void sr_addr_set_port(struct sockaddr_storage *a, uint16_t port);
/* The 4 or 16 bytes. */
static inline const void *sr_addr_bytes(const struct sockaddr_storage *a, size_t *len)
{
	*len = a->ss_family == AF_INET6 ? 16 : 4;
	if (a->ss_family == AF_INET6)
		return &((const struct sockaddr_in6 *)a)->sin6_addr;
	return &((const struct sockaddr_in *)a)->sin_addr;
}
/* A hash of the host, for a small table.  first: what else the hash depends on, or 0. */
unsigned sr_addr_hash(const struct sockaddr_storage *a, unsigned first);
/* Compares the families, too: an IPv4-mapped address is not the IPv4 address here. */
bool sr_addr_same_host(const struct sockaddr_storage *a,
		       const struct sockaddr_storage *b);
bool sr_addr_is_any(const struct sockaddr_storage *a);
/* Can a socket of this network namespace be bound to the address?  (With ip_nonlocal_bind,
 * to any address.)  1: yes; 0: no; -1: there is no socket to try with.  No cancellation
 * point. */
int sr_addr_is_local(const struct sockaddr_storage *a);
/* Calls fn for each address of an interface here, but the loopback's and link-local ones,
 * with port 0.  Loop. */
void sr_addr_each(void (*fn)(const struct sockaddr_storage *a, void *arg), void *arg);
/* "1.2.3.4:80", "[::1]:80", "" for other families; its length. */
int sr_addr_format(char *buf, size_t size, const struct sockaddr_storage *a);

#endif
