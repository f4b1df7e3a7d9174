/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * calls.h - the system headers that declare what include/calls.def lists.
 *
 * A file that includes calls.h or real.h does so before any system header.
 * Otherwise _FILE_OFFSET_BITS or _FORTIFY_SOURCE could redirect a name: to write
 * fcntl, say, would then call fcntl64.
 */
#ifndef SR_CALLS_H
#define SR_CALLS_H

#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#undef _TIME_BITS

/* ... and what <features.h> has made of them, which base/glibc.h includes before. */
#include <features.h>
#undef __USE_FORTIFY_LEVEL
#undef __USE_FILE_OFFSET64
#define __USE_FORTIFY_LEVEL 0

#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

/* Then off_t is off64_t and time_t has 64 bits: the "64" names are twins, and
 * nothing else is redirected. */
_Static_assert(sizeof(off_t) == 8 && sizeof(long) == 8, "LP64 only");

/* Declared by the C library only in a fortified program. */
int __vdprintf_chk(int fd, int flag, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
int __dprintf_chk(int fd, int flag, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#ifdef __powerpc64__
/* ... and in one whose long double is IEEE's. */
int __vdprintfieee128(int fd, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
int __vdprintf_chkieee128(int fd, int flag, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
int __dprintfieee128(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __dprintf_chkieee128(int fd, int flag, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#endif

#endif
