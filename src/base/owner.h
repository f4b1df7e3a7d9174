/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owner.h - which socket of this host has a connection?  The kernel is asked, in a few
 * system calls that do not sleep.  No locks.
 */
#ifndef SR_OWNER_H
#define SR_OWNER_H

#include <stdbool.h>
#include <sys/socket.h>

/* Is fd the socket that has this connection in this network namespace?  The addresses are
 * as this end has them, IPv4 in IPv6 as IPv4 (addr.h).  False also if the kernel cannot
 * be asked. */
bool sr_owner_is_here(int fd, const struct sockaddr_storage *local,
		      const struct sockaddr_storage *peer);

#endif
