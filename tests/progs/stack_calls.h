/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stack_calls.h - every call of include/calls.def, made on a stream in a thread whose stack is
 * as small as POSIX allows.  How much of the stack a call takes is seen by the paint that is
 * left.  thread_stack.c makes the calls by the C library's names, tests/unit/stack.c by ours:
 * STACK_CALL(name) is defined before this is included.
 */
#ifndef STACK_CALLS_H
#define STACK_CALLS_H

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#define STACK_LEAST 16384	/* PTHREAD_STACK_MIN of x86-64 */
#define STACK_RESERVE 4096	/* what the program's own functions shall have of it */
#define STACK_SIZE (4 * STACK_LEAST)
#define STACK_PAINT 0x5a
#define STACK_DATA (1 << 20)

/* What a call works with, and the stream. */
static struct {
	int ep, file, listener;
	struct sockaddr_in self;	/* the listener's address */
	size_t size;			/* bytes of a send or a receive: at most STACK_DATA */
	int wait_ms;
} on;
static char stack_data[STACK_DATA];

static const struct timespec *stack_time(void)
{
	static struct timespec t;

	t.tv_nsec = on.wait_ms * 1000000L;
	return &t;
}

int __vdprintf_chk(int fd, int flag, const char *fmt, va_list ap); /* of the C library */

/* ---- bytes ---- */

static void call_read(int fd) { (void)!STACK_CALL(read)(fd, stack_data, on.size); }
static void call_write(int fd) { (void)!STACK_CALL(write)(fd, stack_data, on.size); }

/* A little and the rest, as most callers have a header and data. */
static struct iovec *two_parts(void)
{
	static struct iovec v[2];

	v[0] = (struct iovec){stack_data, 10};
	v[1] = (struct iovec){stack_data + 10, on.size - 10};
	return v;
}

static struct msghdr one_message(void)
{
	return (struct msghdr){.msg_iov = two_parts(), .msg_iovlen = 2};
}

static struct mmsghdr *two_messages(void)
{
	static struct mmsghdr m[2];

	m[0].msg_hdr = m[1].msg_hdr = one_message();
	return m;
}

static void call_readv(int fd) { (void)!STACK_CALL(readv)(fd, two_parts(), 2); }
static void call_writev(int fd) { (void)!STACK_CALL(writev)(fd, two_parts(), 2); }
static void call_preadv2(int fd) { (void)!STACK_CALL(preadv2)(fd, two_parts(), 2, -1, 0); }
static void call_pwritev2(int fd) { (void)!STACK_CALL(pwritev2)(fd, two_parts(), 2, -1, 0); }

static void call_sendfile(int fd)
{
	off_t at = 0;

	(void)!STACK_CALL(sendfile)(fd, on.file, &at, on.size);
}

static void call_splice(int fd)
{
	int p[2];

	if (pipe(p))
		return;
	(void)!STACK_CALL(splice)(fd, NULL, p[1], NULL, 100, SPLICE_F_NONBLOCK);
	close(p[0]);
	close(p[1]);
}

static void call_recv(int fd) { STACK_CALL(recv)(fd, stack_data, on.size, MSG_WAITALL); }
static void call_recvfrom(int fd)
{
	STACK_CALL(recvfrom)(fd, stack_data, on.size, MSG_PEEK, NULL, NULL);
}

static void call_recvmsg(int fd)
{
	struct msghdr m = one_message();

	STACK_CALL(recvmsg)(fd, &m, 0);
}

static void call_recvmmsg(int fd) { STACK_CALL(recvmmsg)(fd, two_messages(), 2, 0, NULL); }
static void call_send(int fd) { STACK_CALL(send)(fd, stack_data, on.size, MSG_MORE); }
static void call_sendto(int fd)
{
	STACK_CALL(sendto)(fd, stack_data, on.size, MSG_NOSIGNAL, NULL, 0);
}

static void call_sendmsg(int fd)
{
	struct msghdr m = one_message();

	STACK_CALL(sendmsg)(fd, &m, 0);
}

static void call_sendmmsg(int fd) { STACK_CALL(sendmmsg)(fd, two_messages(), 2, 0); }

/* ---- connections, options ---- */

/* Twice: for accept and accept4. */
static void call_connect(int fd)
{
	int s;

	for (int i = 0; i < 2; i++) {
		s = STACK_CALL(socket)(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		STACK_CALL(connect)(s, (struct sockaddr *)&on.self, sizeof(on.self));
		STACK_CALL(close)(s);
	}
	STACK_CALL(connect)(fd, (struct sockaddr *)&on.self, sizeof(on.self));
}

static void call_listen(int fd)
{
	STACK_CALL(listen)(on.listener, 8);
	STACK_CALL(listen)(fd, 8);
}

/* What call_connect() left in the backlog. */
static void call_accept(int fd)
{
	STACK_CALL(close)(STACK_CALL(accept)(on.listener, NULL, NULL));
	STACK_CALL(accept)(fd, NULL, NULL);
}

static void call_accept4(int fd)
{
	STACK_CALL(close)(STACK_CALL(accept4)(on.listener, NULL, NULL, SOCK_CLOEXEC));
	STACK_CALL(accept4)(fd, NULL, NULL, SOCK_CLOEXEC);
}

static void call_shutdown(int fd) { STACK_CALL(shutdown)(fd, SHUT_RDWR); }

static void call_getsockopt(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	STACK_CALL(getsockopt)(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	len = sizeof(int);
	STACK_CALL(getsockopt)(fd, SOL_SOCKET, SO_ERROR, &info, &len);
}

/* One that is ours to keep, one that makes plain. */
static void call_setsockopt(int fd)
{
	int one = 1, mark = 0x7fff;

	STACK_CALL(setsockopt)(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	STACK_CALL(setsockopt)(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &mark, sizeof(mark));
}

static void call_sockatmark(int fd) { STACK_CALL(sockatmark)(fd); }

static void call_ioctl(int fd)
{
	int n, asynchronous = 1;

	STACK_CALL(ioctl)(fd, FIONREAD, &n);
	STACK_CALL(ioctl)(fd, TIOCOUTQ, &n);
	STACK_CALL(ioctl)(fd, FIOASYNC, &asynchronous);
}

static void call_fcntl(int fd)
{
	STACK_CALL(fcntl)(fd, F_SETFL, STACK_CALL(fcntl)(fd, F_GETFL));
	STACK_CALL(close)(STACK_CALL(fcntl)(fd, F_DUPFD_CLOEXEC, 10));
}

/* ---- waiting ---- */

static struct pollfd *two_polled(int fd)
{
	static struct pollfd p[2];

	p[0] = (struct pollfd){fd, POLLIN | POLLPRI, 0};
	p[1] = (struct pollfd){on.listener, POLLIN, 0};
	return p;
}

static void call_poll(int fd) { STACK_CALL(poll)(two_polled(fd), 2, on.wait_ms); }
static void call_ppoll(int fd)
{
	sigset_t none;

	sigemptyset(&none);
	STACK_CALL(ppoll)(two_polled(fd), 2, stack_time(), &none);
}

static fd_set *selected(int fd)
{
	static fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return &set;
}

static void call_select(int fd)
{
	struct timeval t = {0, on.wait_ms * 1000};

	STACK_CALL(select)(fd + 1, selected(fd), NULL, NULL, &t);
}

static void call_pselect(int fd)
{
	sigset_t none;

	sigemptyset(&none);
	STACK_CALL(pselect)(FD_SETSIZE, selected(fd), NULL, NULL, stack_time(), &none);
}

static void call_epoll_create(int fd)
{
	(void)fd;
	STACK_CALL(close)(STACK_CALL(epoll_create)(1));
	STACK_CALL(close)(STACK_CALL(epoll_create1)(EPOLL_CLOEXEC));
}

static void call_epoll_ctl(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};

	STACK_CALL(epoll_ctl)(on.ep, EPOLL_CTL_ADD, fd, &ev);
	STACK_CALL(epoll_ctl)(on.ep, EPOLL_CTL_MOD, fd, &ev);
	STACK_CALL(epoll_ctl)(on.ep, EPOLL_CTL_DEL, fd, &ev);
}

/* Its part of epoll_ctl is looked at by the call above. */
static void add(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	STACK_CALL(epoll_ctl)(on.ep, EPOLL_CTL_ADD, fd, &ev);
}

static void call_epoll_wait(int fd)
{
	struct epoll_event ev[4];

	add(fd);
	STACK_CALL(epoll_wait)(on.ep, ev, 4, on.wait_ms);
}

static void call_epoll_pwait(int fd)
{
	struct epoll_event ev[4];
	sigset_t none;

	sigemptyset(&none);
	add(fd);
	STACK_CALL(epoll_pwait)(on.ep, ev, 4, on.wait_ms, &none);
}

static void call_epoll_pwait2(int fd)
{
	struct epoll_event ev[4];

	add(fd);
	STACK_CALL(epoll_pwait2)(on.ep, ev, 4, stack_time(), NULL);
}

/* ---- descriptors, stdio ---- */

static void call_close(int fd) { STACK_CALL(close)(fd); }
static void call_close_range(int fd)
{
	STACK_CALL(close_range)((unsigned)fd, (unsigned)fd, 0);
}

/* Nothing else of the program's is that high. */
static void call_closefrom(int fd)
{
	int high = STACK_CALL(fcntl)(fd, F_DUPFD_CLOEXEC, 900);

	STACK_CALL(close)(fd);
	STACK_CALL(closefrom)(high);
}

static void call_dup(int fd) { STACK_CALL(close)(STACK_CALL(dup)(fd)); }
static void call_dup2(int fd)
{
	int to = STACK_CALL(dup)(on.file);

	STACK_CALL(dup2)(fd, to);	/* a second number */
	STACK_CALL(dup2)(on.file, to);	/* no longer */
	STACK_CALL(dup2)(to, fd);	/* closes the stream */
	STACK_CALL(close)(to);
}

static void call_dup3(int fd)
{
	int to = STACK_CALL(dup)(on.file);

	STACK_CALL(dup3)(fd, to, O_CLOEXEC);
	STACK_CALL(dup3)(on.file, to, 0);
	STACK_CALL(dup3)(to, fd, 0);
	STACK_CALL(close)(to);
}

static void call_fdopen(int fd)
{
	FILE *f = STACK_CALL(fdopen)(fd, "r");

	if (f)
		STACK_CALL(fclose)(f);
}

static void call_freopen(int fd)
{
	FILE *f = fdopen(fd, "r");

	f = f ? STACK_CALL(freopen)("/dev/null", "r", f) : NULL;
	if (f)
		STACK_CALL(fclose)(f);
}

static void __attribute__((format(printf, 2, 3))) print_to(int fd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	STACK_CALL(vdprintf)(fd, fmt, ap);
	va_end(ap);
}

static void call_vdprintf(int fd) { print_to(fd, "%d\n", fd); }

static void __attribute__((format(printf, 2, 3))) print_checked(int fd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	STACK_CALL(__vdprintf_chk)(fd, 1, fmt, ap);
	va_end(ap);
}

static void call_vdprintf_chk(int fd) { print_checked(fd, "%d\n", fd); }

static struct aiocb *bytes_asked(int fd)
{
	static struct aiocb cb;

	cb = (struct aiocb){.aio_fildes = fd, .aio_buf = stack_data, .aio_nbytes = 10,
			    .aio_lio_opcode = LIO_WRITE};
	return &cb;
}

static void await_aio(const struct aiocb *cb)
{
	while (aio_error(cb) == EINPROGRESS)
		aio_suspend(&cb, 1, NULL);
}

static void call_aio_write(int fd)
{
	struct aiocb *cb = bytes_asked(fd);

	STACK_CALL(aio_write)(cb);
	await_aio(cb);
}

static void call_aio_read(int fd)
{
	struct aiocb *cb = bytes_asked(fd);

	STACK_CALL(aio_read)(cb);
	aio_cancel(fd, cb);
	STACK_CALL(shutdown)(fd, SHUT_RDWR);
	await_aio(cb);
}

static void call_lio_listio(int fd)
{
	struct aiocb *cb = bytes_asked(fd);

	STACK_CALL(lio_listio)(LIO_WAIT, &cb, 1, NULL);
}

/* ---- other programs ---- */

static char *const stack_argv[] = {(char[]){"true"}, NULL}, *const stack_env[] = {NULL};

/* The stream is to be handed on: it goes back to TCP, although there is no such program. */
static const char *no_program(int fd)
{
	STACK_CALL(fcntl)(fd, F_SETFD, 0);
	return "/nonexistent/program";
}

static void call_execve(int fd) { STACK_CALL(execve)(no_program(fd), stack_argv, stack_env); }
static void call_execv(int fd) { STACK_CALL(execv)(no_program(fd), stack_argv); }
static void call_execvp(int fd) { STACK_CALL(execvp)(no_program(fd), stack_argv); }
static void call_execvpe(int fd) { STACK_CALL(execvpe)(no_program(fd), stack_argv, stack_env); }
static void call_fexecve(int fd)
{
	no_program(fd);
	STACK_CALL(fexecve)(on.file, stack_argv, stack_env);
}

static void call_execveat(int fd)
{
	STACK_CALL(execveat)(AT_FDCWD, no_program(fd), stack_argv, stack_env, 0);
}

static void call_posix_spawn(int fd)
{
	pid_t pid = -1;

	STACK_CALL(fcntl)(fd, F_SETFD, 0);
	if (!STACK_CALL(posix_spawn)(&pid, "/bin/true", NULL, NULL, stack_argv, stack_env))
		waitpid(pid, NULL, 0);
}

static void call_posix_spawnp(int fd)
{
	pid_t pid = -1;

	STACK_CALL(fcntl)(fd, F_SETFD, 0);
	if (!STACK_CALL(posix_spawnp)(&pid, "true", NULL, NULL, stack_argv, stack_env))
		waitpid(pid, NULL, 0);
}

static void call_adddup2(int fd)
{
	posix_spawn_file_actions_t actions;

	posix_spawn_file_actions_init(&actions);
	STACK_CALL(posix_spawn_file_actions_adddup2)(&actions, fd, fd);
	posix_spawn_file_actions_destroy(&actions);
}

/* Of the user who the process is. */
static void call_setuid(int fd)
{
	(void)fd;
	(void)!STACK_CALL(setuid)(getuid());
}

static void call_seteuid(int fd)
{
	(void)fd;
	(void)!STACK_CALL(seteuid)(geteuid());
}

static void call_setreuid(int fd)
{
	(void)fd;
	(void)!STACK_CALL(setreuid)((uid_t)-1, geteuid());
}

static void call_setresuid(int fd)
{
	(void)fd;
	(void)!STACK_CALL(setresuid)((uid_t)-1, geteuid(), (uid_t)-1);
}

static void call_system(int fd)
{
	STACK_CALL(fcntl)(fd, F_SETFD, 0);
	(void)!STACK_CALL(system)(":");
}

static void call_popen(int fd)
{
	FILE *f;

	STACK_CALL(fcntl)(fd, F_SETFD, 0);
	f = STACK_CALL(popen)(":", "r");
	if (f)
		pclose(f);
}

static void call_wordexp(int fd)
{
	wordexp_t words;

	STACK_CALL(fcntl)(fd, F_SETFD, 0);
	if (!STACK_CALL(wordexp)("$(:)", &words, 0))
		wordfree(&words);
}

/* ---- the list ---- */

enum stack_number {
#define SR_CALL(family, ret, name, params, args) CALL_##name,
/* Another name is a jump to the call that it is of. */
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
#include "../../include/calls.def"
#undef SR_CALL
	CALLS
};

/* What is called, or why it is not. */
static const struct stack_call {
	void (*run)(int fd);
	const char *why;
} stack_calls[CALLS] = {
#define RUN(name) [CALL_##name] = {call_##name, NULL}
#define NOT(name, why) [CALL_##name] = {NULL, why}
	RUN(read), RUN(readv), RUN(preadv2), RUN(write), RUN(writev), RUN(pwritev2),
	RUN(sendfile), RUN(splice), RUN(recv), RUN(recvfrom), RUN(recvmsg), RUN(recvmmsg),
	RUN(send), RUN(sendto), RUN(sendmsg), RUN(sendmmsg), RUN(connect), RUN(listen),
	RUN(accept), RUN(accept4), RUN(shutdown), RUN(getsockopt), RUN(setsockopt),
	RUN(sockatmark), RUN(ioctl), RUN(fcntl), RUN(poll), RUN(ppoll), RUN(select),
	RUN(pselect), RUN(epoll_create), RUN(epoll_ctl), RUN(epoll_wait), RUN(epoll_pwait),
	RUN(epoll_pwait2), RUN(close), RUN(close_range), RUN(closefrom), RUN(dup), RUN(dup2),
	RUN(dup3), RUN(fdopen), RUN(freopen), RUN(vdprintf), RUN(aio_read), RUN(aio_write),
	RUN(lio_listio), RUN(execve), RUN(execv), RUN(execvp), RUN(execvpe), RUN(fexecve),
	RUN(execveat), RUN(posix_spawn), RUN(posix_spawnp), RUN(system), RUN(popen),
	RUN(wordexp), RUN(setuid), RUN(seteuid), RUN(setreuid), RUN(setresuid),
	[CALL___vdprintf_chk] = {call_vdprintf_chk, NULL},
	[CALL_posix_spawn_file_actions_adddup2] = {call_adddup2, NULL},
	NOT(socket, "with connect"),
	NOT(epoll_create1, "with epoll_create"),
	NOT(fclose, "with fdopen"),
	NOT(pidfd_spawn, "only of later C libraries; as posix_spawn"),
	NOT(pidfd_spawnp, "only of later C libraries; as posix_spawn"),
#ifdef __powerpc64__
	NOT(__vdprintfieee128, "as vdprintf"),
	NOT(__vdprintf_chkieee128, "as __vdprintf_chk"),
#endif
	NOT(daemon, "the process goes on in another one"),
	NOT(_exit, "ends the process"),
	NOT(quick_exit, "ends the process"),
	NOT(sigaction, "no descriptor"),
	NOT(signal, "no descriptor"),
	NOT(sysv_signal, "no descriptor"),
	NOT(siginterrupt, "no descriptor"),
	NOT(pthread_cancel, "no descriptor"),
	NOT(syscall, "its numbers are the calls above"),
	NOT(dlopen, "no descriptor; the loader's own frames are larger"),
	NOT(dlmopen, "no descriptor; the loader's own frames are larger"),
	NOT(dlsym, "no descriptor"),
	NOT(dlvsym, "no descriptor"),
#undef RUN
#undef NOT
};

static const char *const stack_names[CALLS] = {
#define SR_CALL(family, ret, name, params, args) #name,
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
#include "../../include/calls.def"
#undef SR_CALL
};

/* ---- painted stacks ---- */

struct stack_run {
	void (*run)(int fd);
	int fd;
};

static void *stack_thread(void *arg)
{
	struct stack_run *r = arg;

	r->run(r->fd);
	return NULL;
}

/* Bytes of the stack that a thread takes which makes one call.  The C library's part
 * (thread-local data, its own frames) counts. */
static inline size_t stack_depth(void (*run)(int fd), int fd)
{
	unsigned char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct stack_run r = {run, fd};
	pthread_attr_t attr;
	pthread_t t;
	size_t left = 0;

	memset(stack, STACK_PAINT, STACK_SIZE);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, STACK_SIZE);
	if (pthread_create(&t, &attr, stack_thread, &r))
		return STACK_SIZE;
	pthread_join(t, NULL);
	while (left < STACK_SIZE && stack[left] == STACK_PAINT)
		left++;
	munmap(stack, STACK_SIZE);
	return STACK_SIZE - left;
}

/* A call without a function or a reason: 0 if there is none. */
static inline const char *stack_forgotten(void)
{
	for (int i = 0; i < CALLS; i++)
		if (!stack_calls[i].run && !stack_calls[i].why)
			return stack_names[i];
	return NULL;
}

/* False, and says so, if too little of the stack is left. */
static inline bool stack_fits(const char *what, int number, int fd)
{
	size_t depth = stack_depth(stack_calls[number].run, fd);

	if (getenv("CASE_DEPTH"))
		fprintf(stderr, "%zu %s %s\n", depth, what, stack_names[number]);
	if (depth <= STACK_LEAST - STACK_RESERVE)
		return true;
	printf("%s, %s: takes %zu bytes\n", stack_names[number], what, depth);
	return false;
}

#endif
