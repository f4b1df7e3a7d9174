/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * append.h - files that the user has named, for one line after another: the log and
 * the report.  No locks; async-signal-safe; no cancellation points.
 */
#ifndef SR_APPEND_H
#define SR_APPEND_H

#include <sys/types.h>

/* A regular file, made if it is not there, or a character device: a descriptor with
 * any number, or -1 and errno.  ELOOP: the last component is a symbolic link, which
 * somebody else may have put there; EINVAL: it is something else, which may have no
 * reader. */
int sr_append_open(const char *path);

/* As write(2), but for SIGXFSZ and SIGPIPE, which the program does not get. */
ssize_t sr_append_write(int fd, const void *buf, size_t n);

#endif
