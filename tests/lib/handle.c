/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * handle.c - to be preloaded: functions of the C library, the next ones of which are looked up
 * in the C library itself, by a handle of it.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct sockaddr;
struct epoll_event;

static void *find(const char *name)
{
	static void *libc;

	if (!libc)
		libc = dlopen("libc.so.6", RTLD_LAZY);
	return dlsym(libc, name);
}

#define NEXT(ret, name, params, args) \
	ret name params \
	{ \
		static ret (*next) params; \
\
		if (!next) \
			next = (ret(*) params)find(#name); \
		return next args; \
	}

NEXT(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
NEXT(int, accept4, (int fd, struct sockaddr *addr, unsigned *len, int flags), (fd, addr, len, flags))
NEXT(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))
NEXT(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
NEXT(int, close, (int fd), (fd))
NEXT(int, dup, (int fd), (fd))
NEXT(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *ev), (epfd, op, fd, ev))
NEXT(int, execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))

/* Of twins that are one function of Sockrail's, each has the other's next one. */
ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	static ssize_t (*next)(int, void *, size_t, size_t, int);

	if (!next)
		next = (ssize_t(*)(int, void *, size_t, size_t, int))find("__recv_chk");
	return next(fd, buf, n, n, flags);
}
