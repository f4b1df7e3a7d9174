/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * entry.c - enters streams into the table of descriptors and removes them.  The
 * only writer of the table; in the child of vfork() it does not write.
 */
#include "shim/shim.h"

void sr_shim_enter(int fd, struct sr_stream *st)
{
	struct sr_stream *old;
	int saved = errno;

	sr_hold();
	if (sr_epoll_has(fd))
		sr_epoll_gone(fd);
	old = st ? sr_fdtab_set(fd, st) : sr_fdtab_take(fd);
	/* If st is not what was there before, fd is no descriptor of `old' any more. */
	if (old)
		sr_stream_detach(old, old == st ? fd : -1);
	sr_release();
	errno = saved;
}

void sr_shim_forget(int fd)
{
	if (!sr_inside && sr_process_ours())
		sr_shim_enter(fd, NULL);
}

void sr_shim_stale(int fd, struct sr_stream *st)
{
	sr_hold();
	if (sr_fdtab_drop(fd, st))
		sr_stream_detach(st, -1);
	sr_stream_put(st);
	sr_release();
}

void sr_shim_release(int fd)
{
	struct sr_stream *st = sr_fdtab_take(fd);

	if (sr_epoll_has(fd))
		sr_epoll_gone(fd);
	if (st)
		sr_stream_detach(st, fd);
}

void sr_shim_make_plain(int fd, enum sr_reason reason)
{
	struct sr_stream *st = sr_fdtab_get(fd);
	int saved = errno;

	sr_epoll_give_up(fd, true);
	if (st) {
		sr_stream_make_plain(st, reason, true);
		sr_stream_put(st);
	}
	errno = saved;
}

void sr_shim_duplicated(int fd, int got)
{
	struct sr_stream *st;
	int saved = errno;

	if (got < 0 || sr_inside || sr_shim_has_made(got))
		return;
	st = sr_fdtab_get(fd);
	if (!st) {
		sr_shim_fresh(got);
		if (sr_epoll_has(fd) && sr_process_ours())
			sr_epoll_duplicated(fd, got);
	} else {
		if (sr_process_ours())
			sr_shim_enter(got, sr_stream_attach(st));
		sr_stream_put(st);
	}
	errno = saved;
}

int sr_shim_settle(int fd, int got)
{
	if (got < 0 || sr_inside || !sr_fdtab_has(fd))
		return got;
	/* In the child of vfork the duplicate is meant for the program that it will execute. */
	if (!sr_process_ours())
		sr_shim_make_plain(fd, SR_REASON_EXEC);
	else if (got <= STDERR_FILENO || got >= SR_FDMAP_SIZE)
		sr_shim_make_plain(fd, SR_REASON_STDIO);
	return got;
}
