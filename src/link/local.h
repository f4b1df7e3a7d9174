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

/* The abstract name of a listening address, "sockrail-6/tcp4:*:80" and the like, with a
 * suffix.  wider: 1, the wildcard in place of the address; 2, that of IPv6.  Returns its
 * length, or -errno. */
int sr_local_name(struct sockaddr_un *un, const struct sockaddr *sa, unsigned wider,
		  const char *suffix);
/* That of a worker: the first 16 characters of its place.  Returns its length. */
socklen_t sr_local_there(struct sockaddr_un *un, const char *place);

/* A non-blocking SOCK_SEQPACKET socket, which receives nothing before sr_local_peer();
 * or -errno. */
int sr_local_socket(void);
/* The user of the process at the other end (SO_PEERCRED), whose packets are let in. */
uint32_t sr_local_peer(int fd);
/* Is it root or this user?  Their processes may send descriptors that take long to close:
 * they can do worse. */
bool sr_local_trusts(uint32_t uid);
/* May it link to this end of the connection: is it trusted, or does it own the socket at
 * the other end?  1: yes; 0: no; -EAGAIN: no, but no process has accepted that yet. */
int sr_local_owns(uint32_t uid, const struct sockaddr_storage *local,
		  const struct sockaddr_storage *peer);
/* A packet, as by recv() with MSG_TRUNC.  EBADMSG: it has descriptors with it, and stays
 * in the queue.  One thread at a time, and one process. */
ssize_t sr_local_recv(int fd, void *buf, size_t n);
/* The same of a listener's connections that tell who sends (SO_PASSCRED), with the user
 * whom the kernel has seen to send it, or UINT32_MAX.  uid may be NULL. */
ssize_t sr_local_recv_from(int fd, void *buf, size_t n, uint32_t *uid);
/* Sends a packet as the user who this thread is now.  False: it was not taken. */
bool sr_local_send_as(int fd, const void *buf, size_t n);
void sr_local_close(int fd);	/* never blocks, whatever lies unread */
/* The next connection; -EBUSY: so many are being closed that it has to wait; or another
 * -errno.  Service thread. */
int sr_local_accept(int listener, uint32_t *uid);

#endif
