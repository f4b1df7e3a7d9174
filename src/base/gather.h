/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gather.h - the report's file, and when its lines are written: the lines of a process that
 * ends many streams are gathered and written together.
 *
 * All but sr_gather_forget() are async-signal-safe.
 */
#ifndef SR_GATHER_H
#define SR_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Opens the file, unless it is open, because a process that becomes another user later may
 * not be allowed to.  create: makes it if there is none. */
void sr_gather_open(bool create);

/* Adds a line of the calling process, whose number is pid.  The line is in the file at most
 * SOCKRAIL_REPORT_MS later, even if the process ends before, unless it is killed. */
void sr_gather_line(pid_t pid, const char *line, size_t len);

/* The process is about to end or to call exec: writes what was gathered, and from now on each
 * line at once.  Takes a few seconds at most.  go_on(): exec has failed. */
void sr_gather_end(void);
void sr_gather_go_on(void);

/* In the child of fork: what was gathered is the parent's.  The child keeps the file open. */
void sr_gather_forget(void);
bool sr_gather_keeps(int fd);

#endif
