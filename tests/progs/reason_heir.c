/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * reason_heir.c - a server's child that has inherited the stream, and becomes another user, by
 * each way there is.
 */
#include "reason.h"

#include <sys/syscall.h>

#define MESSAGE 100

/* As file servers do it: a child for each stream, which becomes the user that it serves. */
static bool echo(int fd)
{
	bool any = false;
	ssize_t n;

	for (; (n = recv(fd, buf, sizeof(buf), 0)) > 0; any = true)
		put(fd, buf, (size_t)n);
	return any;
}

/* The child for a stream. */
static void heir_serves(int lfd, int fd, int (*change)(void))
{
	close(lfd);
	say_result("another user", change());
	echo(fd);
	exit(0);
}

static void heir(int lfd, int (*change)(void))
{
	int fd = answer(lfd);
	pid_t pid = fork();

	if (!pid)
		heir_serves(lfd, fd, change);
	close(fd);
	say("%d", waitpid(pid, NULL, 0) == pid);
}

/* Messages there and back until the test says go. */
static void echoes(int fd)
{
	const char *go = getenv("HOLD");
	char path[4096];

	if (!go)
		die("HOLD");
	snprintf(path, sizeof(path), "%s/go", go);
	for (int i = 0; i < 5000 && access(path, F_OK); i++) {
		nap(5);
		put(fd, buf, MESSAGE);
		take_whole(fd, MESSAGE);
	}
}

static void heir_client(void)
{
	int fd = dial();

	echoes(fd);
	rounds(fd, true);
	end(fd);
}

static int by_setuid(void)
{
	return setgid(65533) || setuid(65533);
}

/* As a daemon does it that listens before it goes into the background: the process that called
 * listen(2) no longer has the socket.  True in the child, which goes on. */
static bool in_background(int lfd)
{
	pid_t pid = fork();

	if (!pid)
		return true;
	close(lfd);
	say("%d", waitpid(pid, NULL, 0) == pid);
	return false;
}

/* The process that accepts moves no bytes itself.  The first streams give its thread time. */
#define FIRST_STREAMS 10

static void background_server(int lfd)
{
	if (!in_background(lfd))
		return;
	for (int i = 0; i <= FIRST_STREAMS; i++)
		heir(lfd, by_setuid);
	exit(0);
}

static void background_client(void)
{
	for (int i = 0; i < FIRST_STREAMS; i++) {
		int fd = dial();

		put(fd, buf, 1);
		take_whole(fd, 1);
		nap(5);
		end(fd);
		close(fd);
	}
	heir_client();
}

static int by_seteuid(void)
{
	return seteuid(65533);
}

static int by_setreuid(void)
{
	return setreuid(65533, 65533);
}

/* It serves the second stream itself, while the child that serves the first one is another
 * user. */
static void parent_serves_server(int lfd)
{
	int first, second;
	pid_t child;

	if (!in_background(lfd))
		return;
	nap(300); /* the first process has stopped to listen */
	first = answer(lfd);
	child = fork();
	if (!child)
		heir_serves(lfd, first, by_setuid);
	second = answer(lfd);
	close(first); /* not before: it would answer for its children then */
	echo(second);
	close(second);
	say("%d", waitpid(child, NULL, 0) == child);
	exit(0);
}

static void parent_serves_client(void)
{
	int first = dial(), second;

	rounds(first, true);
	nap(300); /* the child has asked for what it would answer by */
	second = dial();
	echoes(second);
	end(second);
	end(first);
}

/* Back and forth, as for each request. */
static int by_setresuid(void)
{
	return setresuid((uid_t)-1, 65532, 0) || setresuid((uid_t)-1, 0, 0) ||
	       setresuid((uid_t)-1, 65533, 0);
}

/* Of this thread alone. */
static int by_syscall(void)
{
	return (int)syscall(SYS_setresuid, 65533L, 65533L, 65533L);
}

static void late_echo_server(int lfd)
{
	hold("accept");
	while (!echo(answer(lfd))) /* was reset before */
		;
}

/* Around the C library. */
static int by_raw(void)
{
#if defined(__x86_64__)
	long r = SYS_setuid;

	__asm__ volatile("syscall" : "+a"(r) : "D"(65533L) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long r __asm__("x0") = 65533;
	register long n __asm__("x8") = SYS_setuid;

	__asm__ volatile("svc #0" : "+r"(r) : "r"(n) : "memory");
#else
#error "no system call here"
#endif
	return (int)r;
}

#define HEIR(name)                                                            \
	static void heir_##name##_server(int lfd)                             \
	{                                                                     \
		heir(lfd, by_##name);                                         \
	}

HEIR(setuid)
HEIR(seteuid)
HEIR(setreuid)
HEIR(setresuid)
HEIR(syscall)
HEIR(raw)

const struct tcp_case cases[] = {
	{"heir-raw", heir_raw_server, heir_client},
	{"late-echo", late_echo_server, heir_client},
	{"heir-setuid", heir_setuid_server, heir_client},
	{"heir-seteuid", heir_seteuid_server, heir_client},
	{"heir-setreuid", heir_setreuid_server, heir_client},
	{"heir-setresuid", heir_setresuid_server, heir_client},
	{"heir-syscall", heir_syscall_server, heir_client},
	{"background", background_server, background_client},
	{"parent-serves", parent_serves_server, parent_serves_client},
	{0},
};
