/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* entries.h - counts what a process has by a directory of /proc. */
#ifndef ENTRIES_H
#define ENTRIES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

/* The entries of a directory, . and .. among them: of /proc/self/fd the descriptors (with its
 * own), of /proc/self/task the threads. */
static inline int count_entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	if (!d) {
		perror(path);
		exit(1);
	}
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#endif
