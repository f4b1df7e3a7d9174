/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * around.c - the calls that include/calls.def describes whole, and what they have around
 * libc's: for what no link carries, and for stdio and aio(7), which read and write without
 * us, so that their streams are made plain; and for other programs and the end of this one.
 * (The C library runs programs by its own clone(2) and execve(2), so each of its functions
 * that does is in the list.)
 */
#include "shim/shim.h"

#include <paths.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cancel.h"
#include "base/gather.h"
#include "base/now.h"

/* The C library is about to close the descriptor of file, without us.  What is
 * buffered is written first, as long as the stream is there. */
static void file_release(FILE *file)
{
	int saved = errno, fd;

	if (sr_shim_unused())
		return;
	fd = fileno(file);
	if (fd >= 0 && sr_fdtab_has(fd) && sr_process_ours()) {
		fflush(file);
		sr_hold();
		sr_shim_release(fd);
		sr_release();
	}
	errno = saved;
}

static bool has_streams(void)
{
	return !sr_shim_unused() && sr_process_ours();
}

/* Another process gets the descriptors that are not close-on-exec. */
static void before_spawn(void)
{
	int saved = errno;

	if (!sr_shim_unused())
		sr_streams_hand_over();
	errno = saved;
}

/*
 * This process becomes another program: links and the service thread die, with
 * the streams that are close-on-exec or closed and not yet done as well, and
 * their bytes still have to arrive.  The child of vfork() takes nothing with
 * it but what before_spawn() sees to.
 */
static void before_exec(void)
{
	int saved = errno;

	if (has_streams())
		sr_streams_before_exec();
	else
		before_spawn();
	if (sr_process_ours()) {
		if (sr_epoll_max() >= 0)
			sr_epolls_leave(false);
		sr_gather_end();
	}
	errno = saved;
}

/* It has failed. */
static void after_exec(void)
{
	if (has_streams())
		sr_streams_after_exec();
	if (!sr_process_ours())
		return;
	if (sr_epoll_max() >= 0)
		sr_epolls_return();
	sr_gather_go_on();
}

#define SR_CALL(family, ret, name, params, args)
#define SR_STREAM(family, ret, name, params, args) \
	ret sr_##name params \
	{ \
		struct sr_stream *st = sr_fdtab_get(fd); \
		int saved = errno; \
\
		if (!st) \
			return sr_shim_hides(fd) ? (ret)sr_shim_not_open() : \
						   sr_real.name args; \
		return (ret)sr_result(st, saved, sr_stream_##name(st, EACH args)); \
	}
#define EACH(...) __VA_ARGS__
#define SR_AROUND(family, ret, name, params, args, before, after) \
	ret sr_##name params \
	{ \
		ret r; \
\
		before; \
		r = sr_real.name args; \
		after; \
		return r; \
	}
#include "calls.def"

int sr_lio_listio(int mode, struct aiocb *const *list, int n,
		  struct sigevent *done)
{
	for (int i = 0; i < n; i++)
		if (list[i])
			sr_shim_make_plain(list[i]->aio_fildes, SR_REASON_STDIO);
	return sr_real.lio_listio(mode, list, n, done);
}

/* Last bytes are sent.  The child of vfork() ends without an end for its parent's streams. */
static void before_exit(void)
{
	if (!sr_process_ours())
		return;
	if (!sr_shim_unused())
		sr_streams_exit();
	if (sr_epoll_max() >= 0 && !sr_held.count)
		sr_epolls_leave(true);
	sr_gather_end();
}

static void behind_destructors(int status, void *arg)
{
	(void)status, (void)arg;
	before_exit();
}

/* exit() and return from main().  Destructors of the program's libraries may run behind this
 * one, and use streams.  The loader runs all destructors within one exit handler, the last
 * one; a handler that is registered meanwhile runs when that has returned. */
__attribute__((destructor)) static void at_exit(void)
{
	if (sr_process_ours() && on_exit(behind_destructors, NULL))
		before_exit();
}

void sr__exit(int status)
{
	before_exit();
	sr_real._exit(status);
	__builtin_unreachable();
}

/* Its handlers may still use the streams, as plain ones. */
void sr_quick_exit(int status)
{
	before_exit();
	sr_real.quick_exit(status);
	__builtin_unreachable();
}

/* ---- another user ---- */

void sr_shim_user(void)
{
	int saved = errno;

	if (!has_streams() || sr_inside)
		return;
	sr_hold();
	sr_claims_make();
	sr_release();
	errno = saved;
}

/* ---- daemon(3) ---- */

#define NULL_DEVICE makedev(1, 3)	/* Linux, admin-guide/devices.txt */

/* Puts /dev/null at the descriptors 0, 1 and 2.  0, or -1 with errno. */
static int leave_stdio(void)
{
	int fd = sr_now_open(_PATH_DEVNULL, O_RDWR, 0);
	struct stat st;

	if (fd < 0)
		return -1;
	if (sr_sys_fstat(fd, &st)) {
		sr_real.close(fd);
		return -1;
	}
	if (!S_ISCHR(st.st_mode) || st.st_rdev != NULL_DEVICE) {
		sr_real.close(fd);
		errno = ENODEV;
		return -1;
	}
	for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++)
		sr_dup2(fd, to);
	if (fd > STDERR_FILENO)
		sr_real.close(fd);
	return 0;
}

/*
 * The C library's daemon() forks, and its parent half ends by an _exit() that we do not see:
 * as if it had been killed, with the links of the streams that the child goes on with.  So
 * this is daemon() by the functions that we see.  The streams return to TCP before the
 * fork, so that the parent half has nothing to wait for when it ends, and the child
 * has plain streams of which it is the only owner.  They can get links again.
 */
int sr_daemon(int nochdir, int noclose)
{
	int saved = errno;

	if (!has_streams())
		return sr_real.daemon(nochdir, noclose);
	sr_streams_make_plain();
	errno = saved;
	switch (fork()) {
	case -1:
		return -1;
	case 0:
		break;
	default:
		sr__exit(0);
	}
	if (setsid() < 0)
		return -1;
	if (!nochdir)
		(void)!chdir("/");
	return noclose ? 0 : leave_stdio();
}
