/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * net.h - sets of internet addresses and ports: 10.0.0.0/8:6379, :22, *:8000-8099,
 * [fd00::/8]:80, fd00::1.
 */
#ifndef SR_NET_H
#define SR_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct sr_net {
	sa_family_t family;	/* AF_UNSPEC: any address of either family */
	uint8_t addr[16];	/* the first 4 for IPv4 */
	unsigned bits;
	uint16_t port_first, port_last;	/* host order */
};

/* False: text is none.  *net is then undefined. */
bool sr_net_parse(const char *text, struct sr_net *net);
/* An IPv4-mapped address has to be IPv4 already (sr_addr_unmap()). */
bool sr_net_has(const struct sr_net *net, const struct sockaddr_storage *addr);

#endif
