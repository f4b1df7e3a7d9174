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

/* The abstract name of a listening address with a suffix, such as "sockrail-6/tcp4:*:80".
 * wider: 1, with the wildcard in place of the address; 2, with the wildcard of IPv6.  Returns
 * the length, or -errno. */
int sr_local_name(struct sockaddr_un *un, const struct sockaddr *sa, unsigned wider,
		  const char *suffix);
/* The abstract name of a worker, from the first 16 characters of its place.  Returns its
 * length. */
socklen_t sr_local_there(struct sockaddr_un *un, const char *place);

/* A non-blocking SOCK_SEQPACKET socket, which receives nothing before sr_local_peer();
 * or -errno. */
int sr_local_socket(void);
/* Returns the user of the process at the other end (SO_PEERCRED); from now on its packets are
 * let in. */
uint32_t sr_local_peer(int fd);
/* Is the user root, or this process's own?  We let their processes send descriptors that take
 * long to close, because they could do worse to us in other ways. */
bool sr_local_trusts(uint32_t uid);
/* May the user's process link to this end of the connection: is the user trusted, or does he
 * own the socket at the other end?  1: yes; 0: no; -EAGAIN: not yet, because no process has
 * accepted that socket. */
int sr_local_owns(uint32_t uid, const struct sockaddr_storage *local,
		  const struct sockaddr_storage *peer);
/* Receives a packet, as recv() does with MSG_TRUNC.  EBADMSG: the packet carries descriptors,
 * and stays in the queue.  Only one thread at a time may call it, and only one process. */
ssize_t sr_local_recv(int fd, void *buf, size_t n);
/* The same for a connection with SO_PASSCRED.  *uid: the user who sent the packet, as the
 * kernel has checked; UINT32_MAX: not known.  uid may be NULL. */
ssize_t sr_local_recv_from(int fd, void *buf, size_t n, uint32_t *uid);
/* Sends, or receives, a packet that carries descriptors.  The receiver allows `most` of them:
 * fds has those that came, close-on-exec, and -1 where none did.  They keep their numbers for
 * now: to move a descriptor closes the old number, and we do not know yet whether closing it
 * may take long (closer.h).  EBADMSG: the packet carries more; fds has the first of them, buf
 * has the packet's bytes, and the packet stays in the queue. */
#define SR_LOCAL_FDS 2
int sr_local_send_fds(int fd, const void *buf, size_t n, const int *fds, unsigned count);
ssize_t sr_local_recv_fds(int fd, void *buf, size_t n, int fds[SR_LOCAL_FDS], unsigned most);
/* Sends a packet with this thread's effective user as its sender.  False: it was not sent. */
bool sr_local_send_as(int fd, const void *buf, size_t n);
void sr_local_close(int fd);	/* never blocks, whatever lies unread */
/* Accepts the next connection.  -EBUSY: too many descriptors are being closed, so it has to
 * wait in the backlog; or another -errno.  Service thread. */
int sr_local_accept(int listener, uint32_t *uid);

#endif
