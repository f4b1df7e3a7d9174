/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* reason.h - what the programs share whose streams stay plain, or nearly do. */
#ifndef TEST_REASON_H
#define TEST_REASON_H

#include "case.h"

static char buf[1 << 16];

/* Waits until the file of that name is in the directory $HOLD.  Nothing is called
 * on a stream meanwhile. */
static inline void hold(const char *name)
{
	const char *dir = getenv("HOLD");
	char path[4096];

	if (!dir)
		die("HOLD");
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	while (access(path, F_OK))
		nap(10);
}

/* n bytes in one call, whatever the segments: a lazy stream counts calls */
static inline void take_whole(int fd, size_t n)
{
	if (recv(fd, buf, n, MSG_WAITALL) != (ssize_t)n)
		die("recv");
}

#define ROUND 10000

/* 70 kB each way: more than the history that the ends show each other.  sleeps: a receive may
 * be asleep in the kernel; while one is, the counters are not judged. */
static inline void exchange(int fd, bool first, bool sleeps)
{
	memset(buf, 'r', sizeof(buf));
	for (int i = 0; i < 7; i++) {
		if (first)
			put(fd, buf, ROUND);
		if (!sleeps)
			await_readable(fd, ROUND);
		take_whole(fd, ROUND);
		if (!first)
			put(fd, buf, ROUND);
	}
}

static inline void rounds(int fd, bool first)
{
	exchange(fd, first, true);
}

static inline void end(int fd)
{
	shutdown(fd, SHUT_WR);
	await_end(fd);
}

#endif
