/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * closer.h - closes descriptors that other processes have sent, or sockets on which such
 * descriptors lie unread.  The last close(2) of a socket may sleep for as long as its sender likes
 * (SO_LINGER), that of a file until a server of the sender's own answers (FUSE), and
 * the service thread must not: a thread is started for each, a few at a time.
 *
 * A place is taken before anything is received that may need it.
 * Service thread only.
 */
#ifndef SR_CLOSER_H
#define SR_CLOSER_H

struct sr_closer;

struct sr_closer *sr_closer_take(void);	/* NULL: all are busy */
void sr_closer_give(struct sr_closer *c);	/* there is nothing to close */
/* Closes both, of which one may be -1, and gives the place back. */
void sr_closer_close(struct sr_closer *c, int fd, int other);
void sr_closer_forget(void);	/* in the child of fork, which has none of the threads */

#endif
