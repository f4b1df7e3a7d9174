/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tclass.c - owns the traffic class of a stream's link: what IP_TOS, IPV6_TCLASS or
 * SO_PRIORITY of its socket say, or the knob TOS.  Over RDMA it decides which priority,
 * DSCP and ECN bits packets have; the connection request carries it to the answerer's
 * device, so one class holds for both directions, the asker's.  Over shared memory there
 * are no packets.
 *
 * Class 0 means none: then the device's own holds (default_roce_tos).
 *
 * Locks: rx_lock, under which the anchor is not closed.
 */
#include "base/sys.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>

#include "engine/engine.h"
#include "engine/impl.h"
#include "upgrade/upgrade.h"

#define ECN 3			/* bits of the class that are TCP's, not the program's */

static int option_value(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = 0;

	return sr_sys_getsockopt(fd, level, name, &v, &len) ? 0 : v;
}

/* IP_TOS sets SO_PRIORITY as well, by the table ip_tos2prio of the kernel; this is the way
 * back.  Other priorities have no class. */
static unsigned of_priority(int priority)
{
	switch (priority) {
	case 2:
		return IPTOS_THROUGHPUT;
	case 4:
		return IPTOS_THROUGHPUT | IPTOS_LOWDELAY;
	case 6:
		return IPTOS_LOWDELAY;
	default:
		return 0;
	}
}

/* ipv6: of the connection.  (A socket of IPv6 may have one by IPv4, for which IP_TOS counts.) */
static unsigned of_socket(int fd, bool ipv6)
{
	int v = ipv6 ? option_value(fd, IPPROTO_IPV6, IPV6_TCLASS) :
		       option_value(fd, IPPROTO_IP, IP_TOS);

	v &= 0xff & ~ECN;
	return v ? (unsigned)v : of_priority(option_value(fd, SOL_SOCKET, SO_PRIORITY));
}

/* The class that the program has set.  Clears the note that it has set one. */
static unsigned take_set_class(struct sr_stream *st)
{
	bool ipv6 = st->rare->name.family == AF_INET6;
	int err = errno;
	unsigned class = 0;

	/* An exchange, which pairs with sr_tclass_set(): what it takes back is seen below; what
	 * comes later stays noted. */
	sr_swap(&st->up.tclass_set, false);
	sr_lock(&st->rx_lock);
	if (sr_load(&st->anchor) >= 0)
		class = of_socket(sr_load(&st->anchor), ipv6);
	sr_unlock(&st->rx_lock);
	errno = err;
	return class;
}

bool sr_tclass_is(int level, int name)
{
	return (level == IPPROTO_IP && name == IP_TOS) ||
	       (level == IPPROTO_IPV6 && name == IPV6_TCLASS) ||
	       (level == SOL_SOCKET && name == SO_PRIORITY);
}

void sr_tclass_set(struct sr_stream *st)
{
	sr_publish(&st->up.tclass_set, true);	/* pairs with take_set_class() */
	if (sr_loop_runs())
		sr_stream_kick(st);
}

uint8_t sr_tclass_ask(struct sr_stream *st)
{
	unsigned class;

	class = take_set_class(st);
	st->up.tclass = (uint8_t)(class ? class : st->policy->tos);
	return st->up.tclass;
}

bool sr_tclass_takes(struct sr_stream *st, uint8_t asked)
{
	unsigned class;

	class = take_set_class(st);
	st->up.tclass = asked;
	return !class || class == asked;
}

bool sr_tclass_changed(struct sr_stream *st)
{
	uint8_t now = st->up.tclass;

	if (!sr_load(&st->up.tclass_set))
		return false;
	if (sr_stream_att(st)->role == SR_ROLE_ANSWERER)
		return !sr_tclass_takes(st, now);
	return sr_tclass_ask(st) != now;
}
