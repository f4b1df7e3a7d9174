/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* plug.c - a library for dlopen(3), which receives and sends on a stream that it is given. */
#include <sys/socket.h>

/* Echoes pieces of 4096 bytes.  How many. */
ssize_t plug_echo(int fd, int rounds)
{
	char buf[4096];
	int i;

	for (i = 0; i < rounds; i++) {
		if (recv(fd, buf, sizeof(buf), MSG_WAITALL) != (ssize_t)sizeof(buf) ||
		    send(fd, buf, sizeof(buf), MSG_NOSIGNAL) != (ssize_t)sizeof(buf))
			break;
	}
	return i;
}
