/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * opt.c - options and controls.  base/real.c explains how the variable argument of
 * ioctl() and fcntl() is passed on.
 */
#include "shim/shim.h"

int sr_ioctl(int fd, unsigned long req, ...)
{
	struct sr_stream *st = sr_fdtab_get(fd);
	int saved = errno;
	va_list ap;
	void *arg;

	va_start(ap, req);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!st)
		return sr_shim_hides(fd) ? sr_shim_not_open() :
					   sr_real.ioctl(fd, req, arg);
	return (int)sr_result(st, saved, sr_stream_ioctl(st, fd, req, arg));
}

static int set_flags(int fd, void *flags)
{
	struct sr_stream *st;
	int r;

	/* SIGIO comes from the kernel's socket, not from a link. */
	if ((long)flags & O_ASYNC)
		sr_shim_make_plain(fd, SR_REASON_OPTION);
	sr_hold();
	st = sr_fdtab_get(fd);
	r = sr_real.fcntl(fd, F_SETFL, flags);
	if (st) {
		sr_stream_mode_changed(st);
		sr_stream_put(st);
	}
	sr_release();
	return r;
}

int sr_fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;
	int got;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	/* F_GETFD says that our descriptors are open: programs such as bash use it to find a
	 * free number for dup2(), and must not find ours. */
	if (cmd != F_GETFD && sr_shim_hides(fd))
		return sr_shim_not_open();
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		sr_hold();
		sr_shim_makes();
		got = sr_real.fcntl(fd, cmd, arg);
		sr_shim_duplicated(fd, got);
		sr_release();
		return sr_shim_settle(fd, got);
	case F_SETFL:
		return set_flags(fd, arg);
	}
	return sr_real.fcntl(fd, cmd, arg);
}
