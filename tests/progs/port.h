/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* port.h - case.h, and a second listener: one half says its port to the other. */
#ifndef TEST_PORT_H
#define TEST_PORT_H

#include "case.h"

/* The port of a listener, for the other half. */
static inline void post_port(int lfd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char path[4096];
	FILE *f;

	if (getsockname(lfd, (struct sockaddr *)&a, &len))
		die("getsockname");
	note_path(path, "port-number");
	f = fopen(path, "we");
	if (!f)
		die(path);
	fprintf(f, "%d\n", ntohs(((struct sockaddr_in *)&a)->sin_port));
	fclose(f);
	post("port-known");
}

/* Waits for post_port(); later connections of this half go there. */
static inline void take_port(void)
{
	char path[4096];
	int port = 0;
	FILE *f;

	await_post("port-known");
	note_path(path, "port-number");
	f = fopen(path, "re");
	if (!f || fscanf(f, "%d", &port) != 1)
		die(path);
	fclose(f);
	((struct sockaddr_in *)&peer_addr)->sin_port = htons((uint16_t)port);
}

#endif
