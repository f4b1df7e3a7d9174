/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * socket.c - finds the addresses of a socket by its inode, in /proc/PID/net/tcp and tcp6 of
 * the process's network namespace.  So the process need not put them into its page, which
 * would cost it system calls.
 */
#include "base/addr.h"
#include "stat/stat.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTENS 10	/* TCP_LISTEN of the kernel */

struct entry {
	uint64_t inode;
	bool listens;
	struct sockaddr_storage local, peer;
};

/* The sockets of the network namespace that was read last. */
static char space[32];		/* "net:[4026531840]" */
static struct entry *entries;
static size_t n_entries;

/* The kernel prints the address as one or four 32-bit numbers in the host's order. */
static void parse_address(struct sockaddr_storage *to, const char *hex, unsigned port)
{
	uint32_t word[4];
	int n = sscanf(hex, "%8x%8x%8x%8x", &word[0], &word[1], &word[2], &word[3]);
	void *bytes;
	size_t len;

	memset(to, 0, sizeof(*to));
	if (n == 4 && !(word[0] | word[1]) && word[2] == htonl(0xffff)) {
		word[0] = word[3];	/* IPv4 in IPv6 */
		n = 1;
	}
	if (n != 1 && n != 4)
		return;
	to->ss_family = n == 1 ? AF_INET : AF_INET6;
	((struct sockaddr_in *)to)->sin_port = htons((uint16_t)port); /* in both */
	bytes = (void *)sr_addr_bytes(to, &len);
	memcpy(bytes, word, len);
}

static void socket_add(const char *line)
{
	char local[33], peer[33];
	unsigned long long inode;
	unsigned port[2], state;
	struct entry *e;

	if (sscanf(line, " %*u: %32[0-9A-F]:%4x %32[0-9A-F]:%4x %2x %*x:%*x %*x:%*x %*x "
			 "%*u %*u %llu",
		   local, &port[0], peer, &port[1], &state, &inode) != 6 ||
	    !inode)
		return;
	entries = stat_grow(entries, n_entries, sizeof(*e));
	e = &entries[n_entries++];
	e->inode = inode;
	e->listens = state == LISTENS;
	parse_address(&e->local, local, port[0]);
	parse_address(&e->peer, peer, port[1]);
}

static void read_table(pid_t pid, const char *which)
{
	char path[64], *line = NULL;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, which);
	f = fopen(path, "re");
	if (!f)
		return;
	while (getline(&line, &size, f) > 0)
		socket_add(line);
	free(line);
	fclose(f);
}

static int by_inode(const void *a, const void *b)
{
	uint64_t x = ((const struct entry *)a)->inode, y = ((const struct entry *)b)->inode;

	return (x > y) - (x < y);
}

static void look_at_namespace(pid_t pid)
{
	char path[64], its[sizeof(space)] = "";

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	if (readlink(path, its, sizeof(its) - 1) > 0 && !strcmp(its, space))
		return;
	strcpy(space, its);
	n_entries = 0;
	read_table(pid, "tcp");
	read_table(pid, "tcp6");
	if (n_entries)
		qsort(entries, n_entries, sizeof(*entries), by_inode);
}

bool stat_socket_find(pid_t pid, int fd, struct sockaddr_storage *local,
		      struct sockaddr_storage *peer)
{
	char path[64], to[64] = "";
	struct entry key, *e = NULL;
	unsigned long long inode;

	memset(local, 0, sizeof(*local));
	memset(peer, 0, sizeof(*peer));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	if (fd < 0 || readlink(path, to, sizeof(to) - 1) <= 0 ||
	    sscanf(to, "socket:[%llu]", &inode) != 1)
		return false;
	look_at_namespace(pid);
	key.inode = inode;
	if (n_entries)
		e = bsearch(&key, entries, n_entries, sizeof(key), by_inode);
	if (!e)
		return false;
	*local = e->local;
	*peer = e->peer;
	return e->listens;
}

void stat_socket_forget(void)
{
	space[0] = '\0';
}
