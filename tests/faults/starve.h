/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * starve.h - calls of the C library, and system calls, that fail at random, for the
 * library under test alone: the program's definitions come first, also for a library that
 * is preloaded.
 */
#ifndef FAULTS_STARVE_H
#define FAULTS_STARVE_H

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "shared.h"

enum { MEMORY = 1, MAPS = 2, THREADS = 4, DESCRIPTORS = 8 };

static atomic_uint starving;	/* what fails */
static atomic_uint one_in;	/* how often: each one_in-th call, at random */
static atomic_ulong starve_chance;
static struct {
	uintptr_t from, to;
} victim[4];

static int find_victim(struct dl_phdr_info *info, size_t size, void *n)
{
	uintptr_t end = info->dlpi_addr;
	int *at = n;

	(void)size;
	if (!strstr(info->dlpi_name, "/libsockrail") || *at == 4)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
			      info->dlpi_phdr[i].p_memsz;
	victim[*at].from = info->dlpi_addr;
	victim[(*at)++].to = end;
	return 0;
}

static void starve(unsigned what, unsigned often, uint64_t seed)
{
	int n = 0;

	if (!victim[0].to)
		dl_iterate_phdr(find_victim, &n);
	one_in = often;
	starve_chance = seed;
	starving = what;
}

static bool happens(unsigned what)
{
	return (starving & what) && mix(atomic_fetch_add(&starve_chance, 1)) % one_in == 0;
}

/* Does this call fail? */
static bool starves(unsigned what, void *caller, int err)
{
	uintptr_t at = (uintptr_t)caller;

	if (!(starving & what))
		return false;
	for (int i = 0; i < 4; i++)
		if (at >= victim[i].from && at < victim[i].to && happens(what)) {
			errno = err;
			return true;
		}
	return false;
}

#define STARVES(what, err) starves(what, __builtin_return_address(0), err)
#define LIBC(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
	return STARVES(MEMORY, ENOMEM) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return STARVES(MEMORY, ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return STARVES(MEMORY, ENOMEM) ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
	return STARVES(MEMORY, ENOMEM) ? NULL : LIBC(aligned_alloc)(alignment, n);
}

/* Of the library's own system calls (base/sys.h). */
int sr_sys_fails(long number);
int sr_sys_fails(long number)
{
	switch (number) {
	case SYS_mmap:
	case SYS_mprotect:
		return happens(MAPS) ? ENOMEM : 0;
	case SYS_memfd_create:
		return happens(MAPS) ? ENOMEM : happens(DESCRIPTORS) ? EMFILE : 0;
	case SYS_ftruncate:
		return happens(MAPS) ? ENOSPC : 0;
	case SYS_eventfd2:
	case SYS_socketpair:
		return happens(DESCRIPTORS) ? EMFILE : 0;
	}
	return 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
		   void *arg)
{
	return STARVES(THREADS, EAGAIN) ? EAGAIN : LIBC(pthread_create)(thread, attr, run, arg);
}

#endif
