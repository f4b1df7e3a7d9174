/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdpriv.h - the library's own descriptors: close-on-exec, numbered above
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
 * sr_fd_own(eventfd(...)): moves a descriptor up that has just been made, perhaps -1,
 * and makes it ours; the new number, or -1 and errno.  If it can't be moved it is ours
 * where it is.  Until then it has the lowest free number: a program that closes numbers
 * which it does not have may close it (EBADF), and what it opens at once may be taken for
 * ours.  So that is a matter of microseconds: nothing here may sleep.
 */
int sr_fd_own(int fd);

/* A memfd of ours, of that size and not sealed yet; -1 and errno. */
int sr_fd_memory(const char *name, size_t size);

/* A private duplicate of a descriptor of the program; -errno. */
int sr_fd_dup(int fd);

/* Are at least n numbers below RLIMIT_NOFILE free?  A few system calls where there are
 * few.  Any thread. */
bool sr_fd_spare(unsigned n);
/* What is always left to the program, as one of ours, which it cannot foresee, must not
 * take the last one away from under its accept(2). */
#define SR_FD_LEFT 3
/* May n more descriptors be made for a link?  RLIMIT_NOFILE is the program's: ours are
 * at most half of it, and some are left.  Any thread. */
bool sr_fd_room(unsigned n);
unsigned sr_fd_held(void);	/* ours now */

void sr_fd_close(int fd);	/* a private one */
/* Its close(2) may take long: processes of other users may send descriptors to it. */
void sr_fd_slow(int fd);
bool sr_fd_is_slow(int fd);
int sr_fd_next_slow(int fd);	/* the next such one; -1: none */
bool sr_fd_is_private(int fd);	/* async-signal-safe, a bitmap look-up */

/* Calls fn for every maximal run of numbers in [first, last] that holds no
 * private descriptor; stops at the first non-zero result and returns it. */
int sr_fd_gaps(unsigned first, unsigned last,
	       int (*fn)(unsigned first, unsigned last, void *arg), void *arg);

/* In the child of fork: closes all, but for those of which keep() says true (NULL:
 * none), which are this process's then. */
void sr_fd_forget_all(bool (*keep)(int fd));

#endif
