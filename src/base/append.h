/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * append.h - a file to which we append lines, the log or the report.  It is kept open
 * under a private descriptor, so that lines can be written when the program has no
 * descriptor left.
 */
#ifndef SR_APPEND_H
#define SR_APPEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sr_append {
	const char *path;
	_Atomic uint64_t kept;	/* append.c */
};

/* Opens the file, if it is not open yet; may fail, sr_append_line() tries again.
 * Both are async-signal-safe. */
void sr_append_open(struct sr_append *file);

/* One line, in one write(2).  False, and errno: it is not, or not all of it, in the
 * file. */
bool sr_append_line(struct sr_append *file, const char *line, size_t len);

/* As write(2), but for SIGXFSZ and SIGPIPE, which the program does not get. */
ssize_t sr_append_write(int fd, const void *buf, size_t n);

#endif
