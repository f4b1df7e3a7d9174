/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * variadic.c - the interposers that take variable arguments.
 */
#include "base/calls.h"

#include <limits.h>

#include "sockrail.h"

#define SR_CALL(family, ret, name, params, args)
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_VARIADIC(family, ret, name, params, args, last) \
	SR_API ret name params;
#define SR_SYSCALL(family, ret, name, params, args) \
	SR_API ret name(long number, ...);
#define SR_BY_HAND(family, ret, name, params) SR_API ret name params;
#include "calls.def"

/*
 * The argument after `last` is passed on as a pointer, even if the caller gave none:
 * on x86-64 and aarch64 Linux an argument of any of these types is in the same
 * register, and it is ignored if the command, request or flag takes none.
 */
#define WITH_ARGUMENT(name, ours, type) \
	int name(int fd, type last, ...) \
	{ \
		void *arg; \
		va_list ap; \
\
		va_start(ap, last); \
		arg = va_arg(ap, void *); \
		va_end(ap); \
		return ours(fd, last, arg); \
	}
WITH_ARGUMENT(ioctl, sr_ioctl, unsigned long)
WITH_ARGUMENT(fcntl, sr_fcntl, int)
WITH_ARGUMENT(fcntl64, sr_fcntl, int)
WITH_ARGUMENT(__fcntl, sr_fcntl, int)

/* As libc's own, which takes six registers and lets the kernel choose. */
long syscall(long number, ...)
{
	long arg[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	return sr_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4],
			  arg[5]);
}

int dprintf(int fd, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = sr_vdprintf(fd, fmt, ap);
	va_end(ap);
	return r;
}

int __dprintf_chk(int fd, int flag, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = sr___vdprintf_chk(fd, flag, fmt, ap);
	va_end(ap);
	return r;
}

#ifdef __powerpc64__
int __dprintfieee128(int fd, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = sr___vdprintfieee128(fd, fmt, ap);
	va_end(ap);
	return r;
}

int __dprintf_chkieee128(int fd, int flag, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = sr___vdprintf_chkieee128(fd, flag, fmt, ap);
	va_end(ap);
	return r;
}
#endif

/* The arguments up to the null pointer: their number, without it. */
static int arguments_count(const char *arg, va_list ap)
{
	int n = 0;

	for (; arg && n < INT_MAX; n++)
		arg = va_arg(ap, const char *);
	return n;
}

/* argv[0 .. n] */
static void arguments_collect(char **argv, int n, const char *arg, va_list ap)
{
	argv[0] = (char *)arg;
	for (int i = 1; i <= n; i++)
		argv[i] = va_arg(ap, char *);
}

/*
 * The arguments from arg to the null pointer, and `more` after it.  They are on the stack,
 * because a program with threads may call execl() after fork(), but not malloc().
 */
#define ARGV(argv, arg, more) \
	char **argv; \
	va_list ap; \
	int n; \
\
	va_start(ap, arg); \
	n = arguments_count(arg, ap) + (more); \
	va_end(ap); \
	argv = __builtin_alloca(((size_t)n + 1) * sizeof(char *)); \
	va_start(ap, arg); \
	arguments_collect(argv, n, arg, ap); \
	va_end(ap)

int execl(const char *path, const char *arg, ...)
{
	ARGV(argv, arg, 0);
	return sr_execv(path, argv);
}

int execlp(const char *file, const char *arg, ...)
{
	ARGV(argv, arg, 0);
	return sr_execvp(file, argv);
}

/* The environment comes behind the null pointer. */
int execle(const char *path, const char *arg, ...)
{
	ARGV(argv, arg, 1);
	return sr_execve(path, argv, (char **)argv[n]);
}
