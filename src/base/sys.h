/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sys.h - the system calls that the library makes for itself.
 *
 * Calls of the program pass through all preloaded libraries in their order (sr_real).  The
 * library's own calls must not pass through other libraries: another library may hold a lock
 * around the call that brought us here, may not be initialized yet, or may call an intercepted
 * function itself and so come back to us.  So they are the system calls themselves.  (We call
 * malloc, pthread and dl functions as any library does, because allocators and sanitizers must
 * see all of these calls.)
 *
 * None is a cancellation point.  Results and errno are those of the C library's
 * functions of these names, unless a comment says otherwise.
 */
#ifndef SR_SYS_H
#define SR_SYS_H

#include "base/real.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>

/* The kernel's result: -errno is failure.  An architecture without an instruction here
 * uses the C library's syscall(2). */
#if defined(__x86_64__)
static inline long sr_sys_raw(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}
#elif defined(__aarch64__)
static inline long sr_sys_raw(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
static inline long sr_sys_raw(long number, long a, long b, long c, long d, long e, long f)
{
	long r = sr_libc.syscall(number, a, b, c, d, e, f);

	return r == -1 ? -errno : r;
}
#endif

static inline long sr_sys(long number, long a, long b, long c, long d, long e, long f)
{
	long r = sr_sys_raw(number, a, b, c, d, e, f);

	if (__builtin_expect(r < 0 && r >= -4095, 0)) {	/* MAX_ERRNO of Linux */
		errno = (int)-r;
		return -1;
	}
	return r;
}

/* As syscall(2): a number, and up to six arguments. */
#define SR_SYS(...) SR_SYS_OF(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define SR_SYS_OF(number, a, b, c, d, e, f, ...) \
	sr_sys(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* sr_sys_name(parameters) makes the system call `number` with the arguments. */
#define SR_SYS_CALL(ret, name, parameters, number, ...) \
	static inline ret sr_sys_##name parameters \
	{ \
		return (ret)SR_SYS(number, ##__VA_ARGS__); \
	}

/*
 * SR_SYS_SCARCE: the same for a call that needs memory, descriptors or processes, and fails
 * where there are none left.  If the program defines sr_sys_fails(), as tests do, it is called
 * before each of these calls: it returns 0, or the error with which the call fails instead.
 */
__attribute__((weak, visibility("default"))) int sr_sys_fails(long number);

static inline bool sr_sys_starves(long number)
{
	int err = sr_sys_fails ? sr_sys_fails(number) : 0;

	if (err)
		errno = err;
	return err;
}

#define SR_SYS_SCARCE(ret, name, parameters, number, ...) \
	static inline ret sr_sys_##name parameters \
	{ \
		return sr_sys_starves(number) ? (ret)-1 : (ret)SR_SYS(number, ##__VA_ARGS__); \
	}

/* descriptors and files */
SR_SYS_CALL(int, fcntl, (int fd, int cmd, long arg), SYS_fcntl, fd, cmd, arg)
SR_SYS_CALL(int, ioctl, (int fd, unsigned long req, void *arg), SYS_ioctl, fd, req, arg)
SR_SYS_CALL(int, dup3, (int fd, int to, int flags), SYS_dup3, fd, to, flags)
SR_SYS_CALL(int, close_range, (unsigned first, unsigned last, int flags), SYS_close_range, first, last, flags)
SR_SYS_CALL(int, fstat, (int fd, struct stat *st), SYS_fstat, fd, st)
SR_SYS_CALL(int, fstatfs, (int fd, struct statfs *fs), SYS_fstatfs, fd, fs)
SR_SYS_CALL(int, access, (const char *path, int mode), SYS_faccessat, AT_FDCWD, path, mode)
SR_SYS_CALL(int, lstat, (const char *path, struct stat *st), SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW)
SR_SYS_CALL(int, link, (const char *path, const char *name), SYS_linkat, AT_FDCWD, path, AT_FDCWD, name, 0)
SR_SYS_CALL(int, unlink, (const char *path), SYS_unlinkat, AT_FDCWD, path, 0)
SR_SYS_CALL(int, chmod, (const char *path, mode_t mode), SYS_fchmodat, AT_FDCWD, path, mode)
SR_SYS_CALL(off_t, lseek, (int fd, off_t off, int whence), SYS_lseek, fd, off, whence)
SR_SYS_SCARCE(int, ftruncate, (int fd, off_t size), SYS_ftruncate, fd, size)
SR_SYS_CALL(ssize_t, sendfile, (int fd, int in, off_t *off, size_t n), SYS_sendfile, fd, in, off, n)
SR_SYS_SCARCE(int, memfd_create, (const char *name, unsigned flags), SYS_memfd_create, name, flags)
SR_SYS_SCARCE(int, eventfd, (unsigned value, int flags), SYS_eventfd2, value, flags)
SR_SYS_CALL(int, inotify_init1, (int flags), SYS_inotify_init1, flags)
SR_SYS_CALL(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), SYS_inotify_add_watch, fd, path, mask)
SR_SYS_CALL(ssize_t, getdents, (int fd, void *buf, size_t n), SYS_getdents64, fd, buf, n)
/* the length with the 0 at the end, or -1 */
SR_SYS_CALL(long, getcwd, (char *buf, size_t n), SYS_getcwd, buf, n)

/* sockets */
SR_SYS_CALL(int, socket, (int domain, int type, int protocol), SYS_socket, domain, type, protocol)
SR_SYS_SCARCE(int, socketpair, (int domain, int type, int protocol, int fd[2]), SYS_socketpair, domain, type, protocol, fd)
SR_SYS_CALL(int, bind, (int fd, const struct sockaddr *addr, socklen_t len), SYS_bind, fd, addr, len)
SR_SYS_CALL(int, connect, (int fd, const struct sockaddr *addr, socklen_t len), SYS_connect, fd, addr, len)
SR_SYS_CALL(int, listen, (int fd, int backlog), SYS_listen, fd, backlog)
SR_SYS_CALL(int, accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags), SYS_accept4, fd, addr, len, flags)
SR_SYS_CALL(int, shutdown, (int fd, int how), SYS_shutdown, fd, how)
SR_SYS_CALL(int, getsockname, (int fd, struct sockaddr *addr, socklen_t *len), SYS_getsockname, fd, addr, len)
SR_SYS_CALL(int, getpeername, (int fd, struct sockaddr *addr, socklen_t *len), SYS_getpeername, fd, addr, len)
SR_SYS_CALL(int, getsockopt, (int fd, int level, int name, void *val, socklen_t *len), SYS_getsockopt, fd, level, name, val, len)
SR_SYS_CALL(int, setsockopt, (int fd, int level, int name, const void *val, socklen_t len), SYS_setsockopt, fd, level, name, val, len)

/* epoll */
SR_SYS_CALL(int, epoll_create1, (int flags), SYS_epoll_create1, flags)
SR_SYS_SCARCE(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *ev), SYS_epoll_ctl, epfd, op, fd, ev)

/* memory */
#ifdef __SANITIZE_THREAD__ /* ThreadSanitizer must see mmap(), or takes new memory for the old */
static inline void *sr_sys_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	return sr_sys_starves(SYS_mmap) ? MAP_FAILED : mmap(at, n, prot, flags, fd, off);
}

static inline int sr_sys_munmap(void *p, size_t n)
{
	return munmap(p, n);
}
#else
SR_SYS_SCARCE(void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t off), SYS_mmap, at, n, prot, flags, fd, off)
SR_SYS_CALL(int, munmap, (void *p, size_t n), SYS_munmap, p, n)
#endif
SR_SYS_SCARCE(int, mprotect, (void *p, size_t n, int prot), SYS_mprotect, p, n, prot)
SR_SYS_CALL(int, madvise, (void *p, size_t n, int advice), SYS_madvise, p, n, advice)

/* processes */
SR_SYS_CALL(pid_t, getpid, (void), SYS_getpid)
SR_SYS_CALL(pid_t, getppid, (void), SYS_getppid)
SR_SYS_CALL(pid_t, gettid, (void), SYS_gettid)
SR_SYS_CALL(uid_t, geteuid, (void), SYS_geteuid)
SR_SYS_CALL(gid_t, getegid, (void), SYS_getegid)
SR_SYS_CALL(int, getrlimit, (int what, struct rlimit *rl), SYS_prlimit64, 0, what, NULL, rl)
SR_SYS_CALL(ssize_t, getrandom, (void *buf, size_t n, unsigned flags), SYS_getrandom, buf, n, flags)
/* fork(2), without its handlers */
SR_SYS_SCARCE(pid_t, fork, (void), SYS_clone, 0)
/* of the thread, for ps(1) */
SR_SYS_CALL(int, set_name, (const char *name), SYS_prctl, PR_SET_NAME, name)

static inline int sr_sys_dup2(int fd, int to)
{
	return fd == to ? fd : sr_sys_dup3(fd, to, 0);
}

/* Handlers of the program may run in it, but must not leave it by siglongjmp(3). */
static inline int sr_sys_poll(struct pollfd *fds, size_t n, uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	return (int)SR_SYS(SYS_ppoll, fds, n, &t, 0, _NSIG / 8);
}

#endif
