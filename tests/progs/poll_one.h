/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* poll_one.h - what the programs that poll share: waits for one stream, what they say. */
#ifndef TEST_POLL_ONE_H
#define TEST_POLL_ONE_H

#include "case.h"

#include <sys/select.h>

static inline int wait_for(int fd, short events, int ms)
{
	struct pollfd p = {fd, events, 0x5555};
	int n = poll(&p, 1, ms);

	return n < 0 ? -1 : n ? p.revents : 0;
}

static inline void say_poll(const char *what, int revents)
{
	static const struct {
		int bit;
		const char *name;
	} bits[] = {{POLLIN, "IN"},	{POLLPRI, "PRI"},
		    {POLLOUT, "OUT"},	{POLLRDHUP, "RDHUP"},
		    {POLLERR, "ERR"},	{POLLHUP, "HUP"},
		    {POLLNVAL, "NVAL"}, {POLLRDNORM, "RDNORM"},
		    {POLLWRNORM, "WRNORM"}};
	char line[100] = "";

	for (size_t i = 0; i < COUNT(bits); i++)
		if (revents & bits[i].bit) {
			strcat(line, " ");
			strcat(line, bits[i].name);
		}
	say("%s:%s", what, revents < 0 ? " -1" : line);
}

/* Everything select does, with a pipe in the set too. */
static inline int do_select(int fd, int other, int which, long usec, sigset_t *mask)
{
	struct timespec ts = {0, usec * 1000};
	struct timeval tv = {0, usec};
	fd_set r, w, e;
	int max = (fd > other ? fd : other) + 1, n;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(fd, &r);
	FD_SET(other, &r);
	FD_SET(fd, &e);
	if (which)
		FD_SET(fd, &w);
	n = mask ? pselect(max, &r, &w, &e, usec < 0 ? NULL : &ts, mask)
		 : select(max, &r, &w, &e, usec < 0 ? NULL : &tv);
	if (n < 0)
		return -errno;
	return n | FD_ISSET(fd, &r) << 8 | FD_ISSET(other, &r) << 9 |
	       FD_ISSET(fd, &w) << 10 | FD_ISSET(fd, &e) << 11;
}

#endif
