/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * closer.h - closes descriptors that other processes have sent, and sockets on which such
 * may lie unread.
 * The last close(2) of a socket may sleep for as long as its sender likes
 * (SO_LINGER), that of a file until a server of the sender's own answers (FUSE), and
 * the service thread must not: a thread is started for each, a few at a time.
 * Service thread only.
 */
#ifndef SR_CLOSER_H
#define SR_CLOSER_H

#include <stdbool.h>

int sr_closer_threads(void);	/* how many there are; each may still live for an instant */
/* Is there a thread for one?  To be asked before it is accepted: afterwards it may wait. */
bool sr_closer_free(void);
void sr_closer_close(int fd);
void sr_closer_forget(void);	/* in the child of fork, which has none of the threads */
/* In the child of fork: closes the slow ones (fdpriv.h), of which the parent may have
 * closed its own copies already. */
void sr_closer_inherit(void);

#endif
