/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * append.h - a file to which we append lines, the log or the report.  It is kept open
 * under a private descriptor, so that lines can be written when the program has no
 * descriptor left, and when it or its child has become a user who may not open the file.
 */
#ifndef SR_APPEND_H
#define SR_APPEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sr_append {
	const char *path;
	atomic_int kept;	/* its descriptor + 1; 0: not open.  The number is all it tells. */
};

/* Opens the file, unless it is open; create: if it is not there yet.  May fail,
 * sr_append_text() tries again.  Both are async-signal-safe. */
void sr_append_open(struct sr_append *file, bool create);

/* Whole lines, in one write(2) but where the file takes less.  False, and errno: they are
 * not, or not all of them, in the file. */
bool sr_append_text(struct sr_append *file, const char *text, size_t len);

/* For the child of fork, which keeps it. */
bool sr_append_has(const struct sr_append *file, int fd);

/* As write(2), but for SIGXFSZ and SIGPIPE, which the program does not get. */
ssize_t sr_append_write(int fd, const void *buf, size_t n);

#endif
