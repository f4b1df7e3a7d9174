/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* thread_tls.c - a program with much thread-local data, which the C library puts onto the
 * stack of each thread, and of the library's, too. */
#ifndef KB
#define KB 249
#define NAME "tls"
#endif
#include "case.h"

static __thread char mine[KB * 1024];

static void tls_server(int lfd)
{
	int fd = answer_warm(lfd);

	memset(mine, 1, sizeof(mine));
	put(fd, mine, sizeof(mine));
	await_end(fd);
}

static void tls_client(void)
{
	int fd = dial_warm();

	say("%zu bytes", take(fd, mine, sizeof(mine)));
	close(fd);
}

const struct tcp_case cases[] = {
	{NAME, tls_server, tls_client},
	{0},
};
