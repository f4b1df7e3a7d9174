/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * filesig.h - blocks the signals that the kernel sends to a thread whose call on a file
 * fails: SIGXFSZ (RLIMIT_FSIZE) and SIGPIPE, for a call of ours.  The program does not
 * get these; it keeps those that were pending before.  Async-signal-safe.
 */
#ifndef SR_FILESIG_H
#define SR_FILESIG_H

#include <stdint.h>

struct sr_filesig {
	uint64_t before, mask;	/* the kernel's sigset_t: what was pending, and blocked */
};

void sr_filesig_block(struct sr_filesig *m);
/* r: what the call has returned.  Leaves errno alone. */
void sr_filesig_restore(struct sr_filesig *m, long r);

#endif
