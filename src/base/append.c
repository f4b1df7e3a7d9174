/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * append.c - files that the user has named.
 */
#include "base/append.h"
#include "base/now.h"

#include <errno.h>
#include <sys/stat.h>

int sr_append_open(const char *path)
{
	/* Without O_NONBLOCK a FIFO would be waited for. */
	int fd = sr_now_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
					   O_NOFOLLOW | O_NONBLOCK, 0666);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode)))
		return fd;
	sr_now_close(fd);
	errno = EINVAL;
	return -1;
}
