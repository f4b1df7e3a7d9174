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
	atomic_int kept;	/* its descriptor + 1; 0: not open.  Publishes nothing else. */
};

/* Opens the file, unless it is open; create: makes it if there is none.  If this fails,
 * sr_append_text() tries again.  Both are async-signal-safe. */
void sr_append_open(struct sr_append *file, bool create);

/* Appends whole lines, by one write(2) unless the file takes less.  False, and errno: not all
 * of the lines are in the file. */
bool sr_append_text(struct sr_append *file, const char *text, size_t len);

/* Is fd the file's?  The child of fork keeps that descriptor. */
bool sr_append_has(const struct sr_append *file, int fd);

/* As write(2), but sends the program no SIGXFSZ and no SIGPIPE. */
ssize_t sr_append_write(int fd, const void *buf, size_t n);

#endif
