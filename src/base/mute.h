/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mute.h - a call of ours on a file, without the signals that the kernel sends to the
 * thread when the call fails: SIGXFSZ (RLIMIT_FSIZE) and SIGPIPE.  The program does not
 * get these; it keeps those that were pending before.  Async-signal-safe.
 */
#ifndef SR_MUTE_H
#define SR_MUTE_H

#include <stdint.h>

struct sr_mute {
	uint64_t before, mask;	/* the kernel's sigset_t: what was pending, and blocked */
};

void sr_mute_begin(struct sr_mute *m);
/* r: what the call has returned.  Leaves errno alone. */
void sr_mute_end(struct sr_mute *m, long r);

#endif
