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
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Writes "sockrail-2/tcp4:*:80" and the like: what a listening address is called.
 * any: the wildcard in place of the address.  Its length, or -errno. */
int sr_local_word(char *buf, size_t size, const struct sockaddr *sa, bool any,
		  bool as_v6);
/* The abstract name "\0", word, suffix.  Returns its length. */
socklen_t sr_local_name(struct sockaddr_un *un, const char *word,
			const char *suffix);

/* A non-blocking SOCK_SEQPACKET socket, with sr_local_shield(); or -errno. */
int sr_local_socket(void);
/* Makes the socket refuse descriptors, or accept them.  False: the kernel has
 * no such option. */
bool sr_local_bar(int fd, bool bar);
bool sr_local_barred(int fd);
void sr_local_shield(int fd);	/* before it connects or listens */
/* The user of the process at the other end (SO_PEERCRED). */
bool sr_local_peer_uid(int fd, uint32_t *uid);
bool sr_local_trusts(uint32_t uid); /* to send descriptors whose close(2) may block */
/* Lets packets in once the user at the other end is known.  False: do not read. */
bool sr_local_hears(int fd, uint32_t uid);

#endif
