/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * around.c - the calls whose functions are generated from include/calls.def, and what they
 * do before and after libc's call: they make streams plain for calls that no link can serve,
 * and for stdio and aio(7), which read and write without us; and they prepare streams for
 * other programs and for the end of this one.  (The C library runs programs by its own
 * clone(2) and execve(2), which we do not see, so each of its functions that does is in the
 * list.)
 */
#include "shim/shim.h"

#include <paths.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cancel.h"
#include "base/gather.h"
#include "base/now.h"

/* The C library is about to close the descriptor of file without our seeing it.  The
 * buffer is written out first, while the stream still exists. */
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

static bool process_has_streams(void)
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
 * This process becomes another program: its links and the service thread end, and
 * with them the streams that are close-on-exec, or closed but not over.  The bytes
 * that were sent on these still have to arrive.  In the child of vfork() only
 * before_spawn() is needed, because the parent keeps all streams.
 */
static void before_exec(void)
{
	int saved = errno;

	if (process_has_streams())
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

/* exec has failed. */
static void after_exec(void)
{
	if (process_has_streams())
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

/* Sends the last bytes.  The child of vfork() must not end its parent's streams. */
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

/* For exit() and return from main().  Destructors of the program's libraries may run after this
 * one, and use streams.  The loader runs all destructors in one exit handler, the last one; an
 * exit handler that is registered meanwhile runs after them. */
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

/* The handlers of quick_exit(3) may still use the streams, which are plain by then. */
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

	if (!process_has_streams() || sr_inside)
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
 * The C library's daemon() forks, and its parent ends by an _exit() that we do not see.  That
 * would be as if it had been killed, and it has the links of the streams that the child goes
 * on using.  So this is daemon() made of functions that we see.  The streams return to TCP
 * before the fork.  Then the parent has nothing to wait for when it ends, and the child has
 * plain streams of which it is the only owner, and which can get links again.
 */
int sr_daemon(int nochdir, int noclose)
{
	int saved = errno;

	if (!process_has_streams())
		return sr_real.daemon(nochdir, noclose);
	sr_streams_make_all_plain();
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
