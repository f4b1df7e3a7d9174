/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * make.c - calls that make descriptors which are no streams.  A stream that had
 * the number before was closed by somebody who does not pass us (syscall(2),
 * the C library itself): the entry must not outlive it.
 */
#include "shim/shim.h"

static int both(int r, const int fds[2])
{
	if (r == 0) {
		sr_shim_fresh(fds[0]);
		sr_shim_fresh(fds[1]);
	}
	return r;
}

int sr_open(const char *path, int flags, ...)
{
	va_list ap;
	void *mode;

	va_start(ap, flags);
	mode = va_arg(ap, void *);
	va_end(ap);
	return sr_shim_fresh(sr_real.open(path, flags, mode));
}

int sr_openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	void *mode;

	va_start(ap, flags);
	mode = va_arg(ap, void *);
	va_end(ap);
	return sr_shim_fresh(
		sr_real.openat(dir, path, flags, mode));
}

int sr___open_2(const char *path, int flags)
{
	return sr_shim_fresh(sr_real.__open_2(path, flags));
}

int sr___openat_2(int dir, const char *path, int flags)
{
	return sr_shim_fresh(sr_real.__openat_2(dir, path, flags));
}

int sr_creat(const char *path, mode_t mode)
{
	return sr_shim_fresh(sr_real.creat(path, mode));
}

int sr_pipe(int fds[2])
{
	return both(sr_real.pipe(fds), fds);
}

int sr_pipe2(int fds[2], int flags)
{
	return both(sr_real.pipe2(fds, flags), fds);
}

int sr_socketpair(int domain, int type, int protocol, int fds[2])
{
	return both(sr_real.socketpair(domain, type, protocol, fds), fds);
}

int sr_eventfd(unsigned count, int flags)
{
	return sr_shim_fresh(sr_real.eventfd(count, flags));
}

int sr_inotify_init(void)
{
	return sr_shim_fresh(sr_real.inotify_init());
}

int sr_inotify_init1(int flags)
{
	return sr_shim_fresh(sr_real.inotify_init1(flags));
}

int sr_memfd_create(const char *name, unsigned flags)
{
	return sr_shim_fresh(sr_real.memfd_create(name, flags));
}

int sr_signalfd(int fd, const sigset_t *mask, int flags)
{
	int got = sr_real.signalfd(fd, mask, flags);

	return got == fd ? got : sr_shim_fresh(got);
}

int sr_timerfd_create(clockid_t clock, int flags)
{
	return sr_shim_fresh(sr_real.timerfd_create(clock, flags));
}
