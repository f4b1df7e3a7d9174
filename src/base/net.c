/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* net.c - sets of internet addresses and ports, as rules and filters name them. */
#include "base/net.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"

/* A port, or two with '-' between them; "*" is any. */
static bool parse_ports(const char *s, struct sr_net *net)
{
	char *end;
	unsigned long first, last;

	net->port_first = 0;
	net->port_last = UINT16_MAX;
	if (!strcmp(s, "*"))
		return true;
	if (*s < '0' || *s > '9')
		return false;
	first = last = strtoul(s, &end, 10);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		last = strtoul(end + 1, &end, 10);
	if (*end || first > last || last > UINT16_MAX)
		return false;
	net->port_first = (uint16_t)first;
	net->port_last = (uint16_t)last;
	return true;
}

/* HOST or HOST/BITS alone, "*" or nothing for any; s is written into. */
static bool parse_host(char *s, struct sr_net *net)
{
	char *slash = strchr(s, '/'), *end;
	unsigned long bits, most;

	net->family = AF_UNSPEC;
	net->bits = 0;
	if (!*s || !strcmp(s, "*"))
		return true;
	if (slash)
		*slash++ = '\0';
	if (inet_pton(AF_INET, s, net->addr) == 1)
		net->family = AF_INET;
	else if (inet_pton(AF_INET6, s, net->addr) == 1)
		net->family = AF_INET6;
	else
		return false;
	most = net->family == AF_INET ? 32 : 128;
	bits = most;
	if (slash) {
		if (*slash < '0' || *slash > '9')
			return false;
		bits = strtoul(slash, &end, 10);
		if (*end || bits > most)
			return false;
	}
	net->bits = (unsigned)bits;
	return true;
}

bool sr_net_parse(const char *text, struct sr_net *net)
{
	char buf[64], *s = buf, *port = NULL;	/* port NULL: any */

	if (strlen(text) >= sizeof(buf))
		return false;
	strcpy(buf, text);
	if (*s == '[') {	/* IPv6 with a port, as in a URL (RFC 3986, 3.2.2) */
		port = strchr(++s, ']');
		if (!port)
			return false;
		*port++ = '\0';
		if (*port && *port != ':')
			return false;
		port = *port ? port + 1 : NULL;
	} else if (strchr(s, ':') == strrchr(s, ':')) {
		port = strchr(s, ':');
		if (port)
			*port++ = '\0';
	}
	return parse_ports(port ? port : "*", net) && parse_host(s, net);
}

bool sr_net_has(const struct sr_net *net, const struct sockaddr_storage *addr)
{
	uint16_t port = sr_addr_port((const struct sockaddr *)addr);
	const uint8_t *bytes;
	unsigned whole = net->bits / 8, rest = net->bits % 8;
	size_t len;

	if (port < net->port_first || port > net->port_last)
		return false;
	if (net->family == AF_UNSPEC)
		return true;
	if (net->family != addr->ss_family)
		return false;
	bytes = sr_addr_bytes(addr, &len);
	return !memcmp(bytes, net->addr, whole) &&
	       (!rest || (bytes[whole] ^ net->addr[whole]) >> (8 - rest) == 0);
}
