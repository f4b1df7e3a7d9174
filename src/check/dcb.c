/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dcb.c - asks the kernel by netlink (linux/dcbnl.h) for PFC and the table of priorities.
 * This needs no privilege.
 */
#include "dcb.h"

#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define REPLY_MAX 16384
#define WAIT_SECONDS 2

/* Netlink attributes that lie in memory one after another. */
struct attributes {
	const char *at;
	size_t left;
};

/* Takes the next attribute: returns its kind, and sets *value and *len.  0: there is none, or
 * it does not fit. */
static unsigned attribute_next(struct attributes *a, const void **value, size_t *len)
{
	struct nlattr head;
	size_t all;

	if (a->left < sizeof(head))
		return 0;
	memcpy(&head, a->at, sizeof(head));
	if (head.nla_len < sizeof(head) || head.nla_len > a->left)
		return 0;
	*value = a->at + sizeof(head);
	*len = head.nla_len - sizeof(head);
	all = NLA_ALIGN(head.nla_len);
	if (all > a->left)
		all = a->left;
	a->at += all;
	a->left -= all;
	return head.nla_type & NLA_TYPE_MASK;
}

static void table_parse(struct dcb *d, struct attributes table)
{
	const void *value;
	struct dcb_app app;
	size_t len;

	while (attribute_next(&table, &value, &len)) {
		if (len < sizeof(app))
			continue;
		memcpy(&app, value, sizeof(app));
		if (app.selector != IEEE_8021QAZ_APP_SEL_DSCP || app.protocol >= DCB_DSCPS ||
		    app.priority > 7)
			continue;
		d->trusts_dscp = true;
		d->priority[app.protocol] = app.priority;
	}
}

static void ieee_parse(struct dcb *d, struct attributes ieee)
{
	const void *value;
	struct ieee_pfc pfc;
	unsigned kind;
	size_t len;

	while ((kind = attribute_next(&ieee, &value, &len))) {
		if (kind == DCB_ATTR_IEEE_PFC && len >= sizeof(pfc)) {
			memcpy(&pfc, value, sizeof(pfc));
			d->pfc = pfc.pfc_en;
		} else if (kind == DCB_ATTR_IEEE_APP_TABLE) {
			table_parse(d, (struct attributes){ value, len });
		}
	}
}

bool dcb_parse(struct dcb *d, const void *reply, size_t len)
{
	const size_t before = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(struct dcbmsg));
	struct attributes all;
	struct nlmsghdr head;
	const void *value;
	bool found = false;
	unsigned kind;

	memset(d, 0, sizeof(*d));
	memset(d->priority, DCB_NONE, sizeof(d->priority));
	if (len < before)
		return false;
	memcpy(&head, reply, sizeof(head));
	if (head.nlmsg_type != RTM_GETDCB || head.nlmsg_len < before || head.nlmsg_len > len)
		return false;
	all = (struct attributes){ (const char *)reply + before, head.nlmsg_len - before };
	while ((kind = attribute_next(&all, &value, &len)))
		if (kind == DCB_ATTR_IEEE) {
			ieee_parse(d, (struct attributes){ value, len });
			found = true;
		}
	return found;
}

bool dcb_read(struct dcb *d, const char *netdev)
{
	const struct timeval wait = { .tv_sec = WAIT_SECONDS };
	struct {
		struct nlmsghdr head;
		struct dcbmsg message;
		struct nlattr attribute;
		char name[16];
	} ask = {
		.head = { .nlmsg_type = RTM_GETDCB, .nlmsg_flags = NLM_F_REQUEST },
		.message = { .dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET },
		.attribute = { .nla_type = DCB_ATTR_IFNAME },
	};
	static char reply[REPLY_MAX];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t n = -1;

	if (fd < 0)
		return false;
	snprintf(ask.name, sizeof(ask.name), "%.15s", netdev);
	ask.attribute.nla_len = (uint16_t)(sizeof(ask.attribute) + strlen(ask.name) + 1);
	ask.head.nlmsg_len = (uint32_t)(sizeof(ask) - sizeof(ask.name) +
					NLA_ALIGN(strlen(ask.name) + 1));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (send(fd, &ask, ask.head.nlmsg_len, 0) > 0)
		n = recv(fd, reply, sizeof(reply), 0);
	close(fd);
	return n > 0 && dcb_parse(d, reply, (size_t)n);
}

/* "3, 4" of 0x18 */
static const char *priorities_text(uint8_t set, char buf[32])
{
	int n = 0;

	buf[0] = '\0';
	for (int i = 0; i < 8; i++)
		if (set >> i & 1)
			n += snprintf(buf + n, 32 - (size_t)n, "%s%d", n ? ", " : "", i);
	return buf;
}

enum verdict dcb_judge(const struct dcb *d, unsigned tclass, char *found, size_t size,
		       unsigned *better)
{
	unsigned dscp = tclass >> 2 & (DCB_DSCPS - 1), priority = d->priority[dscp];
	char set[32];

	*better = 0;
	if (!d->pfc) {
		snprintf(found, size, "%u (DSCP %u); no priority has PFC: what a switch drops is sent "
			 "again", tclass, dscp);
		return OK;
	}
	priorities_text(d->pfc, set);
	if (!d->trusts_dscp) {
		snprintf(found, size, "%u (DSCP %u); PFC is on for priority %s, and the VLAN tag says "
			 "which priority a packet has", tclass, dscp, set);
		return OK;
	}
	if (priority == DCB_NONE)
		priority = 0;
	snprintf(found, size, "%u (DSCP %u) has priority %u; PFC is on for %s", tclass, dscp,
		 priority, set);
	if (d->pfc >> priority & 1)
		return OK;
	for (unsigned i = 1; i < DCB_DSCPS && !*better; i++)
		if (d->priority[i] != DCB_NONE && d->pfc >> d->priority[i] & 1)
			*better = i << 2;
	return WARNING;
}
