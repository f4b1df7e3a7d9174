/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * proc.c - handing streams to other programs, and the end of this one.  The C
 * library runs other programs by its own clone(2) and execve(2), so each of its
 * functions that does is here.
 */
#include "shim/shim.h"

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

	if (!sr_shim_unused() && sr_process_ours())
		sr_streams_before_exec();
	else if (!sr_shim_unused())
		sr_streams_hand_over();
	errno = saved;
}

/* What exec returns, if it does. */
static int failed(int r)
{
	if (!sr_shim_unused() && sr_process_ours())
		sr_streams_after_exec();
	return r;
}

int sr_execve(const char *path, char *const argv[], char *const envp[])
{
	before_exec();
	return failed(sr_real.execve(path, argv, envp));
}

int sr_execv(const char *path, char *const argv[])
{
	before_exec();
	return failed(sr_real.execv(path, argv));
}

int sr_execvp(const char *file, char *const argv[])
{
	before_exec();
	return failed(sr_real.execvp(file, argv));
}

int sr_execvpe(const char *file, char *const argv[], char *const envp[])
{
	before_exec();
	return failed(sr_real.execvpe(file, argv, envp));
}

int sr_fexecve(int fd, char *const argv[], char *const envp[])
{
	before_exec();
	return failed(sr_real.fexecve(fd, argv, envp));
}

int sr_execveat(int dir, const char *path, char *const argv[],
		char *const envp[], int flags)
{
	before_exec();
	return failed(sr_real.execveat(dir, path, argv, envp, flags));
}

int sr_posix_spawn(pid_t *pid, const char *path,
		   const posix_spawn_file_actions_t *actions,
		   const posix_spawnattr_t *attr, char *const argv[],
		   char *const envp[])
{
	before_spawn();
	return sr_real.posix_spawn(pid, path, actions, attr, argv, envp);
}

int sr_posix_spawnp(pid_t *pid, const char *file,
		    const posix_spawn_file_actions_t *actions,
		    const posix_spawnattr_t *attr, char *const argv[],
		    char *const envp[])
{
	before_spawn();
	return sr_real.posix_spawnp(pid, file, actions, attr, argv, envp);
}

/* The duplicate survives even if fd itself is close-on-exec. */
int sr_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions,
					int fd, int to)
{
	sr_shim_plain(fd, SR_REASON_EXEC);
	return sr_real.posix_spawn_file_actions_adddup2(actions, fd, to);
}

int sr_system(const char *command)
{
	before_spawn();
	return sr_real.system(command);
}

FILE *sr_popen(const char *command, const char *mode)
{
	before_spawn();
	return sr_real.popen(command, mode);
}

/* Last bytes are sent.  The child of vfork() ends without an end for its
 * parent's streams. */
static void before_exit(void)
{
	if (!sr_shim_unused() && sr_process_ours())
		sr_streams_exit();
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
