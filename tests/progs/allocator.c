/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * allocator.c - a program with a malloc() of its own, which looks into a file
 * before it hands out memory, as jemalloc does: whoever allocates meanwhile, in
 * the same thread, would wait for ever.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Alignas(16) char arena[64 << 20];
static size_t used;
static enum { NEW, LOOKING, READY } state;

static void look(void)
{
	static const char again[] = "malloc in malloc\n";
	char buf[64];
	int fd;

	if (state == LOOKING) {
		(void)!write(2, again, sizeof(again) - 1);
		_exit(3);
	}
	state = LOOKING;
	(void)!readlink("/etc/malloc.conf", buf, sizeof(buf));
	fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	(void)!read(fd, buf, sizeof(buf));
	close(fd);
	state = READY;
}

/* The size is kept in front, for realloc(). */
void *malloc(size_t n)
{
	size_t *p;

	if (state != READY)
		look();
	n = (n + 15) & ~(size_t)15;
	if (n > sizeof(arena) - used - 16)
		return NULL;
	p = (size_t *)(arena + used);
	used += n + 16;
	*p = n;
	return (char *)p + 16;
}

void free(void *p)
{
	(void)p;
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size); /* the arena is zero, and used once */
}

void *realloc(void *old, size_t n)
{
	void *p = malloc(n);

	if (p && old) {
		size_t had = *(size_t *)((char *)old - 16);

		memcpy(p, old, had < n ? had : n);
	}
	return p;
}

int main(void)
{
	char *p = malloc(10);

	strcpy(p, "ready");
	puts(p);
	return 0;
}
