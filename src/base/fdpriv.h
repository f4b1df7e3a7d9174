/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdpriv.h - the library's own descriptors: close-on-exec, numbered far above
 * the program's, and known, so that close(), close_range() and dup2() of the
 * program leave them alone.
 */
#ifndef SR_FDPRIV_H
#define SR_FDPRIV_H

#include <stdbool.h>

/* Makes the kernel's table of descriptors as large as ours need it, while the
 * process has one thread: with several the kernel waits an RCU grace period for
 * that, some 15 ms, in whatever call of the program would come to it. */
void sr_fd_reserve(void);

/*
 * sr_fd_own(eventfd(...)): makes a descriptor, moves it up and makes it ours;
 * the new number, or -1 and errno.  If it can't be moved it is ours where it is.
 * Between the two it has a number that the program may think free, and close:
 * see sr_fd_settle().  Where one expression does not do, sr_fd_making() comes
 * before what makes descriptors, and sr_fd_made(fd), perhaps -1, after it, in the same
 * thread, which holds its signals between, and must not be cancelled there (now.h).
 */
#define sr_fd_own(make) (sr_fd_making(), sr_fd_made(make))
void sr_fd_making(void);
int sr_fd_made(int fd);

/*
 * Before the program closes a number that it may not have: waits until no descriptor of
 * ours is on its way up, but no longer than ms.  (One that is made between this and the
 * close is not helped.)  As sr_fd_quiet(): 0 if one still is.
 */
unsigned sr_fd_settle(unsigned ms);

/*
 * Around a call of the program that makes a descriptor, which is to have the lowest free
 * number (open(2), socket(2)): twice the same answer, and not 0, if none of ours was on
 * its way meanwhile.  Else sr_fd_lower(): waits as above, and returns the descriptor
 * with the lowest free number from least on; fd itself where that is it, or if it has
 * to stay.  Not after sr_fd_making() in the same thread.
 */
unsigned sr_fd_quiet(void);
int sr_fd_lower(int fd, int least);

/* A private duplicate of a descriptor of the program; -errno. */
int sr_fd_dup(int fd);

/* May n more descriptors be made for a link?  RLIMIT_NOFILE is the program's: ours are
 * at most half of it.  Any thread. */
bool sr_fd_room(unsigned n);
unsigned sr_fd_held(void);	/* ours now */

void sr_fd_close(int fd);	/* a private one */
bool sr_fd_is_private(int fd);	/* async-signal-safe, a bitmap look-up */

/* Calls fn for every maximal run of numbers in [first, last] that holds no
 * private descriptor; stops at the first non-zero result and returns it. */
int sr_fd_gaps(unsigned first, unsigned last,
	       int (*fn)(unsigned first, unsigned last, void *arg), void *arg);

void sr_fd_forget_all(void);	/* closes all, in the child of fork */

/* Grows with each sr_fd_forget_all(): a private number kept from before that is
 * void. */
unsigned sr_fd_epoch(void);

#endif
