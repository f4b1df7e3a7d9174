/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gather.h - the report's file, and when its lines are written: a process that ends many
 * streams has them gathered, and written together.
 *
 * All but sr_gather_forget() are async-signal-safe.
 */
#ifndef SR_GATHER_H
#define SR_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Opens the file, unless it is open: a process that has become another user later may not.
 * create: if it is not there yet. */
void sr_gather_open(bool create);

/* One line of process pid, which is the calling one: it will be in the file at most
 * SOCKRAIL_REPORT_MS later, even if the process ends, unless it is killed. */
void sr_gather_line(pid_t pid, const char *line, size_t len);

/* The process is about to end, or to become another program: writes what was gathered; later
 * lines are written at once.  Bounded.  go_on: it has not become another program. */
void sr_gather_end(void);
void sr_gather_go_on(void);

/* The child of fork: what was gathered is the parent's.  It goes on to use the file. */
void sr_gather_forget(void);
bool sr_gather_keeps(int fd);

#endif
