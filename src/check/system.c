/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * system.c - small functions that ask the system, and one that runs other programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

const char *first_line(char *buf, size_t size, const char *path, ...)
{
	char name[PATH_MAX];
	va_list ap;
	ssize_t n;
	int fd;

	va_start(ap, path);
	vsnprintf(name, sizeof(name), path, ap);
	va_end(ap);
	n = readlink(name, buf, size - 1);
	if (n < 0 && (fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) >= 0) {
		n = read(fd, buf, size - 1);
		close(fd);
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

const char *size_text(char buf[32], unsigned long long n)
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
	size_t have;
	int ends[2], status;
	FILE *from;
	pid_t pid;

	buf[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) || !(from = fdopen(ends[0], "r")) || (pid = fork()) < 0)
		return 128;
	if (!pid) {
		dup2(ends[1], 1);
		if (both)
			dup2(ends[1], 2);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(ends[1]);
	have = fread(buf, 1, size - 1, from);
	buf[have] = '\0';
	while (getc(from) != EOF)
		;
	fclose(from);
	if (waitpid(pid, &status, 0) != pid)
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

int ask_sock_diag(const void *question, size_t len)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[1024];
	} a;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), err = 0;

	if (fd < 0)
		return errno;
	if (send(fd, question, len, 0) < 0 || recv(fd, &a, sizeof(a), 0) < 0)
		err = errno;
	else if (a.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		err = a.error.error ? -a.error.error : EPROTO;
	close(fd);
	return err;
}
