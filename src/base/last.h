/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* last.h - the end of a process whose first thread has ended (last.c has the argument). */
#ifndef SR_LAST_H
#define SR_LAST_H

/* In the child of fork: this thread is the first one now. */
void sr_last_forget(void);

#endif
