/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.h - is this the process that owns our tables?  Starts threads.
 */
#ifndef SR_PROCESS_H
#define SR_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* This process owns the tables: at the start, and in the child of fork once they are
 * new.  One thread. */
void sr_process_begin(void);
pid_t sr_process_owner(void);

/*
 * False in a child that shares our memory (vfork, clone) or has a copy of it (_Fork),
 * and has not begun to be a process of its own: it must not write any table of ours.
 * A system call: ask where a table is written, not where bytes move.
 * async-signal-safe.
 */
bool sr_process_ours(void);

/* Starts a detached thread in which all signals are blocked.  0 or -errno.  Any thread,
 * within sr_enter(); run() sets sr_inside first.  The thread works (base/lock.h) until it
 * says that it does not. */
int sr_thread_start(void (*run)(void));

#endif
