/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * socket.c - the addresses of a socket, from /proc/PID/net/tcp and tcp6 of the process's
 * network namespace, by the socket's inode: so a process that has streams need not ask
 * for them.
 */
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

/* The sockets of one network namespace. */
struct names {
	char space[32];		/* "net:[4026531840]" */
	struct entry *entry;
	size_t n, room;
	struct names *next;
};

static struct names *known;

/* The kernel prints the address as 32-bit numbers in the host's order. */
static void parse_address(struct sockaddr_storage *to, const char *hex, unsigned port)
{
	uint32_t word[4] = { 0 };
	size_t i, words = strlen(hex) / 8;

	for (i = 0; i < words && i < 4; i++)
		sscanf(hex + i * 8, "%8x", &word[i]);
	memset(to, 0, sizeof(*to));
	if (words == 4 && !(word[0] | word[1]) && word[2] == htonl(0xffff)) {
		word[0] = word[3];	/* IPv4 in IPv6 */
		words = 1;
	}
	if (words == 1) {
		struct sockaddr_in *in = (struct sockaddr_in *)to;

		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		memcpy(&in->sin_addr, word, sizeof(in->sin_addr));
	} else if (words == 4) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		memcpy(&in6->sin6_addr, word, sizeof(in6->sin6_addr));
	}
}

static void add(struct names *names, const char *line)
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
	if (names->n == names->room) {
		names->room = names->room ? 2 * names->room : 256;
		e = realloc(names->entry, names->room * sizeof(*e));
		if (!e)
			exit(1);
		names->entry = e;
	}
	e = &names->entry[names->n++];
	e->inode = inode;
	e->listens = state == LISTENS;
	parse_address(&e->local, local, port[0]);
	parse_address(&e->peer, peer, port[1]);
}

static void read_table(struct names *names, pid_t pid, const char *which)
{
	char path[64], *line = NULL;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, which);
	f = fopen(path, "re");
	if (!f)
		return;
	while (getline(&line, &size, f) > 0)
		add(names, line);
	free(line);
	fclose(f);
}

static int by_inode(const void *a, const void *b)
{
	uint64_t x = ((const struct entry *)a)->inode, y = ((const struct entry *)b)->inode;

	return (x > y) - (x < y);
}

static struct names *names_of(pid_t pid)
{
	char path[64], space[32] = "";
	struct names *names;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	if (readlink(path, space, sizeof(space) - 1) <= 0)
		return NULL;
	for (names = known; names; names = names->next)
		if (!strcmp(names->space, space))
			return names;
	names = calloc(1, sizeof(*names));
	if (!names)
		return NULL;
	strcpy(names->space, space);
	read_table(names, pid, "tcp");
	read_table(names, pid, "tcp6");
	qsort(names->entry, names->n, sizeof(struct entry), by_inode);
	names->next = known;
	known = names;
	return names;
}

bool stat_socket_find(pid_t pid, int fd, struct sockaddr_storage *local,
		      struct sockaddr_storage *peer)
{
	struct names *names = fd < 0 ? NULL : names_of(pid);
	char path[64], to[64] = "";
	struct entry key, *e = NULL;
	unsigned long long inode;

	memset(local, 0, sizeof(*local));
	memset(peer, 0, sizeof(*peer));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	if (!names || !names->n || readlink(path, to, sizeof(to) - 1) <= 0 ||
	    sscanf(to, "socket:[%llu]", &inode) != 1)
		return false;
	key.inode = inode;
	e = bsearch(&key, names->entry, names->n, sizeof(key), by_inode);
	if (!e)
		return false;
	*local = e->local;
	*peer = e->peer;
	return e->listens;
}

void stat_socket_forget(void)
{
	struct names *names;

	while ((names = known)) {
		known = names->next;
		free(names->entry);
		free(names);
	}
}
