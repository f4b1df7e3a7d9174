/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * direct.c - to be preloaded: functions of the C library that are made of syscall(2),
 * which may be another preloaded library's.
 */
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

struct sockaddr;
struct epoll_event;

int socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

int accept(int fd, struct sockaddr *addr, unsigned *len)
{
	return (int)syscall(SYS_accept, fd, addr, len);
}

int accept4(int fd, struct sockaddr *addr, unsigned *len, int flags)
{
	return (int)syscall(SYS_accept4, fd, addr, len, flags);
}

int close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

int close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

int dup(int fd)
{
	return (int)syscall(SYS_dup, fd);
}

int dup3(int fd, int to, int flags)
{
	return (int)syscall(SYS_dup3, fd, to, flags);
}

int dup2(int fd, int to)
{
	return fd == to ? fd : dup3(fd, to, 0);
}

int epoll_create1(int flags)
{
	return (int)syscall(SYS_epoll_create1, flags);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, ev);
}

int epoll_pwait(int epfd, struct epoll_event *ev, int max, int ms, const sigset_t *mask)
{
	return (int)syscall(SYS_epoll_pwait, epfd, ev, max, ms, mask, 8);
}

int epoll_wait(int epfd, struct epoll_event *ev, int max, int ms)
{
	return epoll_pwait(epfd, ev, max, ms, NULL);
}

int execve(const char *path, char *const argv[], char *const envp[])
{
	return (int)syscall(SYS_execve, path, argv, envp);
}

void _exit(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}
