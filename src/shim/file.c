/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * file.c - stdio and aio(7), which read and write without us: their streams are made
 * plain.
 */
#include "shim/shim.h"

FILE *sr_fdopen(int fd, const char *mode)
{
	sr_shim_plain(fd, SR_REASON_STDIO);
	return sr_real.fdopen(fd, mode);
}

/* The C library is about to close the descriptor of file, without us.  What is
 * buffered is written first, as long as the stream is there. */
static void release(FILE *file)
{
	int saved = errno, fd;

	if (sr_shim_unused())
		return;
	fd = fileno(file);
	if (fd >= 0 && sr_fdtab_has(fd) && sr_process_ours()) {
		fflush(file);
		sr_shim_release(fd);
	}
	errno = saved;
}

int sr_fclose(FILE *file)
{
	release(file);
	return sr_real.fclose(file);
}

FILE *sr_freopen(const char *path, const char *mode, FILE *file)
{
	/* Without a path only the mode changes: the descriptor may stay. */
	if (path)
		release(file);
	return sr_real.freopen(path, mode, file);
}

int sr_vdprintf(int fd, const char *fmt, va_list ap)
{
	sr_shim_plain(fd, SR_REASON_STDIO);
	return sr_real.vdprintf(fd, fmt, ap);
}

int sr___vdprintf_chk(int fd, int flag, const char *fmt, va_list ap)
{
	sr_shim_plain(fd, SR_REASON_STDIO);
	return sr_real.__vdprintf_chk(fd, flag, fmt, ap);
}

int sr_aio_read(struct aiocb *cb)
{
	sr_shim_plain(cb->aio_fildes, SR_REASON_STDIO);
	return sr_real.aio_read(cb);
}

int sr_aio_write(struct aiocb *cb)
{
	sr_shim_plain(cb->aio_fildes, SR_REASON_STDIO);
	return sr_real.aio_write(cb);
}

int sr_lio_listio(int mode, struct aiocb *const *list, int n,
		  struct sigevent *done)
{
	for (int i = 0; i < n; i++)
		if (list[i])
			sr_shim_plain(list[i]->aio_fildes, SR_REASON_STDIO);
	return sr_real.lio_listio(mode, list, n, done);
}
