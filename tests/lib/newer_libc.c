/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * newer_libc.c - preloaded, it stands in for a newer C library than there may be: it has
 * pidfd_spawn(3) of glibc 2.39, and a version that nobody has yet.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int spawn_fn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attr, char *const argv[], char *const envp[]);

int pidfd_spawn(int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	spawn_fn *spawn = (spawn_fn *)dlsym(RTLD_NEXT, "posix_spawn"); /* libc's, as inside libc */
	pid_t pid;
	int err = spawn(&pid, path, actions, attr, argv, envp);

	if (!err)
		*pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return err;
}

const char *gnu_get_libc_version(void)
{
	return "9.99";
}
