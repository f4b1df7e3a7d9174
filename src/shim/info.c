/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * info.c - what a program can learn of its streams.
 */
#include "config.h"
#include "shim/shim.h"

#include <string.h>

const char *sr_version(void)
{
	return PACKAGE_VERSION;
}

int sr_info(int fd, struct sr_info *info, size_t size)
{
	struct sr_stream *st;
	struct sr_info full = {0};
	int saved = errno;

	if (size == 0) {
		errno = EINVAL;
		return -1;
	}
	st = sr_fdtab_get(fd);
	if (!st) {
		if (sr_sys_fcntl(fd, F_GETFD, 0) >= 0)
			errno = ENOTSOCK;
		return -1;
	}
	sr_stream_info(st, &full);
	memset(info, 0, size);
	memcpy(info, &full, size < sizeof(full) ? size : sizeof(full));
	return (int)sr_result(st, saved, 0);
}
