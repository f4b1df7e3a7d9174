/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fdpriv.h - the library's own descriptors: close-on-exec, numbered above
 * the program's, and known, so that close(), close_range() and dup2() of the
 * program leave them alone.
 */
#ifndef SR_FDPRIV_H
#define SR_FDPRIV_H

#include <stdbool.h>

/* Makes the kernel's table of descriptors as large as our descriptors need it,
 * while the process has only one thread.  With several threads the kernel waits
 * for an RCU grace period to do that, some 15 ms, and the program's next call
 * that opens a descriptor would have to wait for it. */
void sr_fd_reserve(void);

/*
 * As in sr_fd_own(eventfd(...)): moves a new descriptor to a high number and makes it ours.
 * Returns the new number, or -1 and errno; fd may be -1.  If the descriptor can't be moved it
 * becomes ours where it is.  Until it is moved it has the lowest free number.  A program that
 * closes numbers which it has not opened may close it then (EBADF), and if the program opens
 * that number again at once, we may take the program's descriptor for ours.  So that time must
 * be microseconds: nothing here may sleep.
 */
int sr_fd_own(int fd);

/* A memfd of ours, of that size and not sealed yet; -1 and errno. */
int sr_fd_memory(const char *name, size_t size);

/* A private duplicate of a descriptor of the program; -errno. */
int sr_fd_dup(int fd);

/* Are at least n numbers below RLIMIT_NOFILE free?  Takes one system call, or a few if few
 * numbers are free.  Any thread. */
bool sr_fd_spare(unsigned n);
/* How many numbers we always leave to the program: it cannot know of our descriptors, and
 * they must not take the last number that its accept(2) needs. */
#define SR_FD_LEFT 3
/* May n more descriptors be made for a link?  RLIMIT_NOFILE is meant for the program: we take
 * at most half of it, and leave some free.  Any thread. */
bool sr_fd_room(unsigned n);
unsigned sr_fd_held(void);	/* ours now */

void sr_fd_close(int fd);	/* a private one */
/* Marks a socket as slow: processes of other users may send descriptors to it, so that its
 * close(2) may take long (closer.h). */
void sr_fd_slow(int fd);
bool sr_fd_is_slow(int fd);
int sr_fd_next_slow(int fd);	/* the next slow one above fd; -1: none */
bool sr_fd_is_private(int fd);	/* async-signal-safe, a bitmap look-up */

/* Calls fn for every maximal run of numbers in [first, last] that holds no
 * private descriptor; stops at the first non-zero result and returns it. */
int sr_fd_gaps(unsigned first, unsigned last,
	       int (*fn)(unsigned first, unsigned last, void *arg), void *arg);

/* In the child of fork: closes all private descriptors except those for which keep() returns
 * true (NULL: none); these are the child's from now on. */
void sr_fd_forget_all(bool (*keep)(int fd));

#endif
