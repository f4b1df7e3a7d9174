/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sockrail.h - TCP streams over RDMA or shared memory, called by name.
 *
 * A program that is run by sockrail(1) does not need this header.  Nor does a program
 * that is linked to the library: its calls of the C library are intercepted as if the
 * library were preloaded.  These functions are for programs that open the library at
 * run time (dlopen(3)), and for those whose source shall show which calls go this way.
 *
 * sr_NAME takes what the C library's NAME takes and does what NAME does: same
 * results, same errno, same signals, same blocking, same cancellation points.
 * A descriptor is always the kernel's.  If sr_socket() or sr_accept() has made it
 * for TCP, it is a stream, whose bytes may travel another way; calls on any other
 * descriptor go to the C library unchanged, so both may be mixed.  The comments
 * below say only what is not in the manual page of NAME.
 *
 * If the library was opened at run time, use only these functions on the
 * descriptor of a stream.  Once the stream has left plain TCP, read(2) and its
 * like on that descriptor may return bytes that the peer's program has not sent.
 * sr_fdopen(), and functions that start other programs, put the stream back to
 * plain TCP first.  An epoll set that holds a stream has to be made, changed and
 * waited for by these functions, too.
 *
 * Threads: any thread may call these functions at any time, also on the same
 * descriptor.  A function is async-signal-safe if NAME is; on a stream, only in
 * handlers that were installed by the functions below.
 * fork(2) may be called as usual.
 *
 * Link with -lsockrail (pkg-config sockrail).
 */
#ifndef SOCKRAIL_H
#define SOCKRAIL_H

#include <aio.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <wordexp.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR_API __attribute__((visibility("default")))

/* ---- bytes ---- */

SR_API ssize_t sr_read(int fd, void *buf, size_t n);
SR_API ssize_t sr_readv(int fd, const struct iovec *iov, int cnt);
/* A stream goes back to plain TCP and stays there, as with sr_pwritev2(). */
SR_API ssize_t sr_preadv2(int fd, const struct iovec *iov, int cnt, off_t off,
			  int flags);
SR_API ssize_t sr_write(int fd, const void *buf, size_t n);
SR_API ssize_t sr_writev(int fd, const struct iovec *iov, int cnt);
SR_API ssize_t sr_pwritev2(int fd, const struct iovec *iov, int cnt, off_t off,
			   int flags);
SR_API ssize_t sr_sendfile(int fd, int in, off_t *off, size_t n);

/* A stream at either end goes back to plain TCP and stays there. */
SR_API ssize_t sr_splice(int in, off_t *in_off, int out, off_t *out_off,
			 size_t n, unsigned flags);

/* ---- messages ---- */

SR_API ssize_t sr_recv(int fd, void *buf, size_t n, int flags);
SR_API ssize_t sr_recvfrom(int fd, void *buf, size_t n, int flags,
			   struct sockaddr *addr, socklen_t *len);
SR_API ssize_t sr_recvmsg(int fd, struct msghdr *msg, int flags);
SR_API ssize_t sr_send(int fd, const void *buf, size_t n, int flags);
SR_API ssize_t sr_sendto(int fd, const void *buf, size_t n, int flags,
			 const struct sockaddr *addr, socklen_t len);

/* A stream whose descriptor is passed on (SCM_RIGHTS) goes back to plain TCP
 * first and stays there; this may wait for its peer. */
SR_API ssize_t sr_sendmsg(int fd, const struct msghdr *msg, int flags);

/* A stream goes back to plain TCP and stays there. */
struct mmsghdr;
SR_API int sr_recvmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags,
		       struct timespec *timeout);
SR_API int sr_sendmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags);

/* ---- connections ---- */

/* A stream is SOCK_STREAM over AF_INET or AF_INET6, protocol 0 or IPPROTO_TCP.
 * getsockname(2) and getpeername(2) are the C library's. */
SR_API int sr_socket(int domain, int type, int protocol);
SR_API int sr_connect(int fd, const struct sockaddr *addr, socklen_t len);
SR_API int sr_listen(int fd, int backlog);
SR_API int sr_accept(int fd, struct sockaddr *addr, socklen_t *len);
SR_API int sr_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
SR_API int sr_shutdown(int fd, int how);

/* ---- options and controls; one argument after cmd or req at most ---- */

SR_API int sr_getsockopt(int fd, int level, int name, void *val,
			 socklen_t *len);
SR_API int sr_setsockopt(int fd, int level, int name, const void *val,
			 socklen_t len);
SR_API int sr_sockatmark(int fd);
SR_API int sr_ioctl(int fd, unsigned long req, ...);
SR_API int sr_fcntl(int fd, int cmd, ...);

/* ---- waiting ---- */

SR_API int sr_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
SR_API int sr_ppoll(struct pollfd *fds, nfds_t n,
		    const struct timespec *timeout, const sigset_t *mask);

/* Sets may be larger than FD_SETSIZE, as for select(2) itself. */
SR_API int sr_select(int n, fd_set *rd, fd_set *wr, fd_set *ex,
		     struct timeval *timeout);
SR_API int sr_pselect(int n, fd_set *rd, fd_set *wr, fd_set *ex,
		      const struct timespec *timeout, const sigset_t *mask);

/* In a set that the library has not seen being made (received, inherited) streams
 * stay on plain TCP. */
SR_API int sr_epoll_create(int size);
SR_API int sr_epoll_create1(int flags);
SR_API int sr_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
SR_API int sr_epoll_wait(int epfd, struct epoll_event *events, int max,
			 int timeout_ms);
SR_API int sr_epoll_pwait(int epfd, struct epoll_event *events, int max,
			  int timeout_ms, const sigset_t *mask);
SR_API int sr_epoll_pwait2(int epfd, struct epoll_event *events, int max,
			   const struct timespec *timeout,
			   const sigset_t *mask);

/* ---- descriptors ---- */

/*
 * The library has descriptors of its own, with high numbers.  sr_close() and
 * sr_dup2() treat them as not open and impossible to open (EBADF);
 * sr_close_range() and sr_closefrom() leave them open.
 */
SR_API int sr_close(int fd);
SR_API int sr_close_range(unsigned first, unsigned last, int flags);
SR_API void sr_closefrom(int first);

/* A stream that becomes descriptor 0, 1 or 2 goes back to plain TCP and stays
 * there. */
SR_API int sr_dup(int fd);
SR_API int sr_dup2(int fd, int to);
SR_API int sr_dup3(int fd, int to, int flags);

/*
 * ---- signal handlers ----
 *
 * A handler that is installed by these functions never runs while its thread is inside
 * the library with something half done: the signal is blocked until that is finished,
 * for some milliseconds at most.  So the handler may use any stream, end the program, or
 * call siglongjmp(3).  If a program also calls the C library's functions, these return
 * the library's own handler in place of the program's; the program may install that
 * again.
 */
struct sigaction;
SR_API int sr_sigaction(int sig, const struct sigaction *act,
			struct sigaction *old);
SR_API void (*sr_signal(int sig, void (*handler)(int)))(int);
SR_API void (*sr_sysv_signal(int sig, void (*handler)(int)))(int);
SR_API int sr_siginterrupt(int sig, int interrupt);

/* ---- threads ---- */

/* Its first call makes sure that no thread is cancelled while it is inside the library with
 * something half done.  th: a pthread_t. */
SR_API int sr_pthread_cancel(unsigned long th);

/* ---- stdio over a stream: it goes back to plain TCP and stays there ---- */

SR_API FILE *sr_fdopen(int fd, const char *mode);
SR_API int sr_aio_read(struct aiocb *cb);
SR_API int sr_aio_write(struct aiocb *cb);
SR_API int sr_lio_listio(int mode, struct aiocb *const *list, int n,
			 struct sigevent *done);
SR_API int sr_fclose(FILE *file);
SR_API FILE *sr_freopen(const char *path, const char *mode, FILE *file);
SR_API int sr_vdprintf(int fd, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

/*
 * ---- other programs, and the end of this one ----
 *
 * Streams that the other program inherits go back to plain TCP first.  At the end
 * of this program the last bytes of all streams still arrive.  Both take a bounded
 * time.  exit(3) and a return from main() need no call of ours.
 */

SR_API int sr_execve(const char *path, char *const argv[], char *const envp[]);
SR_API int sr_execv(const char *path, char *const argv[]);
SR_API int sr_execvp(const char *file, char *const argv[]);
SR_API int sr_execvpe(const char *file, char *const argv[],
		      char *const envp[]);
SR_API int sr_fexecve(int fd, char *const argv[], char *const envp[]);
SR_API int sr_execveat(int dir, const char *path, char *const argv[],
		       char *const envp[], int flags);
SR_API int sr_posix_spawn(pid_t *pid, const char *path,
			  const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *attr, char *const argv[],
			  char *const envp[]);
SR_API int sr_posix_spawnp(pid_t *pid, const char *file,
			   const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attr, char *const argv[],
			   char *const envp[]);
SR_API int sr_pidfd_spawn(int *pidfd, const char *path,
			  const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *attr, char *const argv[],
			  char *const envp[]);
SR_API int sr_pidfd_spawnp(int *pidfd, const char *file,
			   const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attr, char *const argv[],
			   char *const envp[]);
SR_API int sr_posix_spawn_file_actions_adddup2(
	posix_spawn_file_actions_t *actions, int fd, int to);
SR_API int sr_system(const char *command);
SR_API FILE *sr_popen(const char *command, const char *mode);
SR_API int sr_wordexp(const char *words, wordexp_t *list, int flags);
SR_API int sr_daemon(int nochdir, int noclose);
SR_API int sr_setuid(uid_t uid);
SR_API int sr_seteuid(uid_t uid);
SR_API int sr_setreuid(uid_t ruid, uid_t euid);
SR_API int sr_setresuid(uid_t ruid, uid_t euid, uid_t suid);
SR_API void sr__exit(int status) __attribute__((noreturn));
SR_API void sr_quick_exit(int status) __attribute__((noreturn));

/* syscall(2).  System calls that make, replace or close descriptors, that concern epoll
 * sets, or that execute a program or end this one, become the calls above; all others go
 * to the kernel.  io_uring_setup fails with ENOSYS unless SOCKRAIL_IO_URING allows it. */
SR_API long sr_syscall(long number, long a, long b, long c, long d, long e,
		       long f);

/* What fortified programs call for vdprintf(). */
SR_API int sr___vdprintf_chk(int fd, int flag, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
#ifdef __powerpc64__
/* What both are in programs whose long double is IEEE's. */
SR_API int sr___vdprintfieee128(int fd, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
SR_API int sr___vdprintf_chkieee128(int fd, int flag, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
#endif

/* ---- what a stream is doing ---- */

/* One direction of a stream. */
enum sr_state {
	SR_STATE_PLAIN,		/* bytes go by TCP */
	SR_STATE_SWITCHING,	/* about to go by the link, from an agreed byte on */
	SR_STATE_LINK,		/* bytes go by the link */
	SR_STATE_RETURNING,	/* back to TCP: bytes that the link still owes are resent */
	SR_STATE_ENDED,		/* end of file is sent, or received */
	SR_STATE_BROKEN,	/* reset */
};

/* The program's bytes, by the way they went. */
struct sr_bytes {
	uint64_t plain, shm, verbs;
};

struct sr_info {
	char link[80];		/* the best link it had: "plain", "shm",
				 * "verbs:DEVICE" */
	enum sr_state tx_state, rx_state;
	struct sr_bytes tx, rx;
	unsigned switches;	/* of both directions, either way */
	int error;		/* errno of the stream's failure, or 0 */
	const char *reason;	/* why it stayed or became plain, a word of
				 * sockrail(7); NULL: none.  Never
				 * to be freed. */
};

/*
 * Fills in *info about the stream of descriptor fd.  size is sizeof(*info): later
 * versions append members, and write no more than size bytes.  The numbers of one
 * direction are of one moment, but those of the two directions may not be.
 *
 * Returns 0, or -1 with errno EBADF (fd is not open), ENOTSOCK (fd is no stream of
 * this library; or was one only before it was inherited), EINVAL (size is 0).
 */
SR_API int sr_info(int fd, struct sr_info *info, size_t size);

/* The library's version, as in "0.1.0". */
SR_API const char *sr_version(void);

#ifdef __cplusplus
}
#endif

#endif
