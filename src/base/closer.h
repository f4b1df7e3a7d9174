/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * closer.h - closes descriptors that other processes have sent, and sockets on which such
 * descriptors may lie unread.  close(2) of the last descriptor of a socket may block for as
 * long as its sender likes (SO_LINGER); that of a file blocks until the file system's server
 * answers, which may be the sender itself (FUSE).  The service thread must not block, so it
 * starts threads that close them, a few at a time.  Service thread only.
 */
#ifndef SR_CLOSER_H
#define SR_CLOSER_H

#include <stdbool.h>

int sr_closer_threads(void);	/* how many; one that is not counted any more may still be ending */
/* May another thread be started?  Asked before a connection is accepted, because afterwards
 * its close may have to wait for a thread. */
bool sr_closer_free(void);
void sr_closer_close(int fd);
void sr_closer_forget(void);	/* in the child of fork, which has none of the threads */
/* In the child of fork: closes our slow descriptors (fdpriv.h).  The parent may have closed its
 * copies in the meantime, so that ours is the last one. */
void sr_closer_inherit(void);

#endif
