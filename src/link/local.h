/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * local.h - AF_UNIX sockets by which processes of one host find each other: the
 * rendezvous for shared memory (link/shm), and a keeper and its workers
 * (upgrade/keeper.c).  No state, no locks.
 */
#ifndef SR_LOCAL_H
#define SR_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Writes "sockrail-3/tcp4:*:80" and the like: what a listening address is called.
 * any: the wildcard in place of the address.  Its length, or -errno. */
int sr_local_word(char *buf, size_t size, const struct sockaddr *sa, bool any,
		  bool as_v6);
/* The abstract name "\0", word, suffix.  Returns its length. */
socklen_t sr_local_name(struct sockaddr_un *un, const char *word,
			const char *suffix);

/* A non-blocking SOCK_SEQPACKET socket, which receives nothing before sr_local_trusts();
 * or -errno. */
int sr_local_socket(void);
/* Is the process at the other end this user's?  Lets its packets in.  False:
 * they must not be read. */
bool sr_local_trusts(int fd);
/* The next connection from such a process; -ECONNREFUSED: it was another's, and is
 * closed; -EBUSY: so many are being closed that it has to wait; or another -errno.
 * Service thread. */
int sr_local_accept(int listener);

#endif
