/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fd.c - closes and duplicates descriptors; protects the library's own from both.
 */
#include "shim/shim.h"

#include <limits.h>
#include <linux/close_range.h>
#include <sys/resource.h>

#include "base/now.h"

static bool is_fd_known(int fd)
{
	return sr_fdtab_has(fd) || sr_epoll_has(fd);
}

int sr_close(int fd)
{
	int saved = errno, r;

	if (sr_shim_hides(fd))
		return sr_shim_not_open();
	if (sr_inside && sr_fd_is_private(fd) && sr_process_ours()) {
		sr_fd_close(fd);	/* by the library that has opened it (verbs/dev.c) */
		return 0;
	}
	if (!is_fd_known(fd) || !sr_process_ours())
		return sr_real.close(fd);
	/* A thread that is cancelled here closes nothing; after this it can't be cancelled. */
	pthread_testcancel();
	sr_hold();
	sr_shim_release(fd);
	errno = saved;
	r = sr_now_close(fd);
	sr_release();
	return r;
}

/* Takes the streams and sets in the range out of the table. */
static void release_range(unsigned first, unsigned last)
{
	int max = sr_fdtab_max();

	if (max < sr_epoll_max())
		max = sr_epoll_max();
	for (unsigned fd = first; max >= 0 && fd <= last && fd <= (unsigned)max; fd++)
		if (is_fd_known((int)fd))
			sr_shim_release((int)fd);
}

static int shim_close_run(unsigned first, unsigned last, void *flags)
{
	return sr_real.close_range(first, last, *(int *)flags);
}

int sr_close_range(unsigned first, unsigned last, int flags)
{
	int saved = errno, r;

	/* No stream is released if the call is going to fail, or has CLOSE_RANGE_CLOEXEC and so
	 * closes nothing.  (Our own descriptors are close-on-exec anyway.) */
	if (first > last || flags & ~CLOSE_RANGE_UNSHARE || sr_inside || !sr_process_ours() ||
	    sr_real.close_range(UINT_MAX, UINT_MAX, 0))
		return sr_real.close_range(first, last, flags);
	sr_hold();
	release_range(first, last);
	errno = saved;
	r = sr_fd_gaps(first, last, shim_close_run, &flags);
	sr_release();
	return r;
}

void sr_closefrom(int first)
{
	int fd = first < 0 ? 0 : first, limit = 1 << 20, saved = errno;
	struct rlimit rl;

	if (sr_close_range((unsigned)fd, UINT_MAX, 0)) {	/* before Linux 5.9 */
		if (sr_sys_getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < (rlim_t)limit)
			limit = (int)rl.rlim_cur;
		for (; fd < limit; fd++)
			sr_close(fd);
	}
	errno = saved;
}

/*
 * Releases descriptor `to` before dup2() or dup3() replaces it, unless the call is
 * going to fail or changes nothing.  0, or -1 with errno if `to` is the library's.
 */
static int make_way(int fd, int to)
{
	int saved = errno;

	if (sr_shim_hides(to))
		return sr_shim_not_open();
	if (fd == to || !is_fd_known(to) || sr_inside || !sr_process_ours())
		return 0;
	if (sr_sys_fcntl(fd, F_GETFD, 0) >= 0)
		sr_shim_release(to);
	errno = saved;
	return 0;
}

int sr_dup(int fd)
{
	int got;

	if (sr_shim_hides(fd))
		return sr_shim_not_open();
	sr_hold();
	sr_shim_makes();
	got = sr_real.dup(fd);
	sr_shim_duplicated(fd, got);
	sr_release();
	return sr_shim_settle(fd, got);
}

int sr_dup2(int fd, int to)
{
	int got;

	if (sr_shim_hides(fd))
		return sr_shim_not_open();
	sr_hold();
	sr_shim_makes();
	got = make_way(fd, to) ? -1 : sr_real.dup2(fd, to);
	if (fd != to)
		sr_shim_duplicated(fd, got);
	sr_release();
	return fd == to ? got : sr_shim_settle(fd, got);
}

int sr_dup3(int fd, int to, int flags)
{
	int got;

	if (flags & ~O_CLOEXEC)
		return sr_real.dup3(fd, to, flags);
	if (sr_shim_hides(fd) && fd != to)
		return sr_shim_not_open();
	sr_hold();
	sr_shim_makes();
	got = make_way(fd, to) ? -1 : sr_real.dup3(fd, to, flags);
	sr_shim_duplicated(fd, got);
	sr_release();
	return sr_shim_settle(fd, got);
}
