/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * owner.h - which user owns the TCP socket at the other end of a connection on this
 * host?  The kernel is asked, in a few system calls that do not sleep.  No locks.
 */
#ifndef SR_OWNER_H
#define SR_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * local and peer are the addresses as this end has them, IPv4-mapped ones as IPv4
 * (addr.h).  Returns
 *
 *   0         *uid is the user whose process made or accepted the peer's socket
 *   1         the peer's socket has not been accepted yet; *uid is the user of the listening
 *             socket, or 0 before Linux 6.17
 *   -ENOENT   there is no such socket in this network namespace, or it is closed, or
 *             its user is "nobody" (below), or its address is link-local, or the
 *             kernel cannot be asked
 */
int sr_owner_of_peer(const struct sockaddr_storage *local,
		     const struct sockaddr_storage *peer, uint32_t *uid);

/* The kernel's cookie of the peer's socket, which no other socket ever has, even with the same
 * addresses and ports.  0, or -ENOENT as above. */
int sr_owner_cookie(const struct sockaddr_storage *local,
		    const struct sockaddr_storage *peer, uint64_t *cookie);

/* Does the socket with this inode have this connection in this network namespace?  False
 * for inode 0. */
bool sr_owner_is_here(uint64_t inode, const struct sockaddr_storage *local,
		      const struct sockaddr_storage *peer);

/* *inode: of the socket to which this AF_UNIX socket is connected, once a process has accepted
 * that connection.  0, or -ENOENT. */
int sr_owner_line_peer(int fd, uint32_t *inode);

/* False for "nobody": that number stands for every user whom this user namespace does not map
 * (user_namespaces(7)), and so identifies none of them. */
bool sr_owner_is_user(uint32_t uid);

#endif
