/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * system.c - small looks at the system, and other programs run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

const char *first_line(char *buf, size_t size, const char *path, ...)
{
	char name[PATH_MAX];
	struct stat st;
	ssize_t n = -1;
	va_list ap;
	int fd;

	va_start(ap, path);
	vsnprintf(name, sizeof(name), path, ap);
	va_end(ap);
	if (!lstat(name, &st) && S_ISLNK(st.st_mode) && !strncmp(name, "/proc/", 6)) {
		n = readlink(name, buf, size - 1);
	} else {
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0) {
			n = read(fd, buf, size - 1);
			close(fd);
		}
	}
	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return buf;
}

unsigned long long status_number(const char *key, int base)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long value = 0;
	size_t len = strlen(key);
	char text[256];

	while (f && fgets(text, sizeof(text), f))
		if (!strncmp(text, key, len) && text[len] == ':')
			value = strtoull(text + len + 1, NULL, base);
	if (f)
		fclose(f);
	return value;
}

const char *bytes_text(char buf[32], unsigned long long n)
{
	if (n == (unsigned long long)RLIM_INFINITY)
		snprintf(buf, 32, "unlimited");
	else if (n >= 10 << 20)
		snprintf(buf, 32, "%llu MB", n >> 20);
	else
		snprintf(buf, 32, "%llu kB", n >> 10);
	return buf;
}

int run_program(char *buf, size_t size, bool both, const char *const argv[])
{
	char rest[512];
	size_t have = 0;
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	buf[0] = '\0';
	if (pipe2(ends, O_CLOEXEC))
		return 128;
	pid = fork();
	if (!pid) {
		dup2(ends[1], 1);
		if (both)
			dup2(ends[1], 2);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(ends[1]);
	while (pid > 0) {
		bool full = have + 1 >= size;

		n = full ? read(ends[0], rest, sizeof(rest)) :
			   read(ends[0], buf + have, size - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += full ? 0 : (size_t)n;
		buf[have] = '\0';
	}
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 128;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_executable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

bool find_command(char path[PATH_MAX], const char *command)
{
	const char *dirs = getenv("PATH");

	if (strchr(command, '/')) {
		snprintf(path, PATH_MAX, "%s", command);
		return is_executable(path);
	}
	for (dirs = dirs && *dirs ? dirs : "/usr/bin:/bin"; *dirs;) {
		int len = (int)strcspn(dirs, ":");

		snprintf(path, PATH_MAX, "%.*s/%s", len, dirs, command);
		if (is_executable(path))
			return true;
		dirs += len + (dirs[len] == ':');
	}
	return false;
}

bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	while (len > 0 && dir[len - 1] == '/')
		len--;
	return !strncmp(path, dir, len) && (path[len] == '/' || !path[len]);
}
