/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * smc_preload.c - to be preloaded: TCP sockets become sockets of the kernel's SMC (AF_SMC),
 * for the benchmark's row of that name.
 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Protocols of AF_SMC; from the kernel's include/net/smc.h. */
#define SMCPROTO_SMC  0 /* addresses of IPv4 */
#define SMCPROTO_SMC6 1

int socket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

	if ((domain == AF_INET || domain == AF_INET6) && kind == SOCK_STREAM &&
	    (protocol == 0 || protocol == IPPROTO_TCP)) {
		protocol = domain == AF_INET ? SMCPROTO_SMC : SMCPROTO_SMC6;
		domain = AF_SMC;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}
