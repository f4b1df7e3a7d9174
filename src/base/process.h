/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.h - is this the process that owns our tables?  Starts threads.
 */
#ifndef SR_PROCESS_H
#define SR_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Makes this process the owner of the tables: at the start, and in the child of fork when
 * the tables have been emptied.  One thread. */
void sr_process_begin(void);
pid_t sr_process_owner(void);

/*
 * Does the calling process own the library's tables?  A child that shares its parent's memory
 * (vfork, clone) does not, nor does one that has a copy and has not called sr_process_begin()
 * (_Fork): such a child must not write a table.  Costs a system call, so it is asked before a
 * table is written, and not where bytes move.  async-signal-safe.
 */
bool sr_process_ours(void);

/* Starts a detached thread in which all signals are blocked.  0 or -errno.  Any thread,
 * within sr_enter(); run() sets sr_inside first.  The thread works (base/lock.h) until it
 * says that it does not. */
int sr_thread_start(void (*run)(void));

#endif
