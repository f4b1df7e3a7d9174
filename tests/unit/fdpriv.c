/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Private descriptors: numbered high, close-on-exec, known. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/process.h"
#include "check.h"
#include "in_process.h"

#define SOFT 256

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void own(void)
{
	int low = open("/dev/null", O_RDONLY), a, b;

	errno = EDOM;
	a = sr_fd_own(low);
	CHECK(errno == EDOM);
	CHECK(a == SOFT - 1);
	CHECK(!is_open(low));
	CHECK(fcntl(a, F_GETFD) == FD_CLOEXEC);
	CHECK(sr_fd_is_private(a));
	CHECK(!sr_fd_is_private(low));

	errno = EDOM;
	b = sr_fd_dup(a);
	CHECK(b == SOFT - 2 && sr_fd_is_private(b));
	CHECK(sr_fd_dup(low) == -EBADF);
	CHECK(errno == EDOM);

	sr_fd_close(a);
	CHECK(!sr_fd_is_private(a) && !is_open(a) && is_open(b));
	sr_fd_close(b);

	errno = EMFILE;
	CHECK(sr_fd_own(-1) == -1 && errno == EMFILE);
	CHECK(sr_fd_own(-EBADF) == -EBADF);
	/* The program has closed it. */
	CHECK(sr_fd_own(low) == -1 && errno == EBADF && !sr_fd_is_private(low));
	CHECK(!sr_fd_is_private(-1) && !sr_fd_is_private(INT_MAX));
}

/* No number is free: it is ours where it is. */
static void own_in_full_table(void)
{
	int fds[SOFT], n = 0;

	while ((fds[n] = open("/dev/null", O_RDONLY)) >= 0)
		n++;
	CHECK(errno == EMFILE);
	CHECK(sr_fd_dup(fds[0]) == -EMFILE);
	CHECK(sr_fd_own(fds[n - 1]) == fds[n - 1] && sr_fd_held() == 1);
	CHECK(fcntl(fds[n - 1], F_GETFD) == FD_CLOEXEC);
	sr_fd_close(fds[n - 1]);

	/* There is one free number. */
	CHECK(sr_fd_own(fds[0]) == fds[n - 1]);
	sr_fd_close(fds[n - 1]);
	for (int i = 1; i < n - 1; i++)
		close(fds[i]);
}

/* How many descriptors the kernel's table has room for, proc(5). */
static unsigned table_size(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	unsigned n = 0;

	while (fgets(line, sizeof(line), f) && sscanf(line, "FDSize: %u", &n) != 1)
		;
	fclose(f);
	return n;
}

/* The program has the number that would be the next of ours. */
static int beside_others(void *arg)
{
	struct rlimit rl = {1024, 1024};
	int a, b, c;

	(void)arg;
	CHECK(!setrlimit(RLIMIT_NOFILE, &rl));
	a = sr_fd_dup(0);
	CHECK(a == 255 && dup2(0, 254) == 254 && table_size() == 256);
	b = sr_fd_dup(0);
	c = sr_fd_dup(0);
	CHECK(b == 253 && c == 252);
	CHECK_EQ(table_size(), 256);
	return 0;
}

/* A server has many clients. */
static int beyond_many(void *arg)
{
	enum { CLIENTS = 17000 };
	struct rlimit rl;
	int fd;

	(void)arg;
	CHECK(!getrlimit(RLIMIT_NOFILE, &rl));
	if (rl.rlim_max < CLIENTS + 100) {
		fprintf(stderr, "(not tried: there may be no %d descriptors)\n", CLIENTS + 100);
		return 0;
	}
	rl.rlim_cur = CLIENTS + 100;
	CHECK(!setrlimit(RLIMIT_NOFILE, &rl));
	for (int i = 3; i < CLIENTS; i++)
		CHECK_EQ(dup2(0, i), i);
	fd = sr_fd_dup(0);
	CHECK(fd >= CLIENTS && sr_fd_is_private(fd) && sr_fd_held() == 1);
	sr_fd_close(fd);
	CHECK(!sr_fd_held());
	return 0;
}

struct seen {
	char text[256];
	int stop_at;
};

static int see(unsigned first, unsigned last, void *arg)
{
	struct seen *seen = arg;
	size_t len = strlen(seen->text);

	snprintf(seen->text + len, sizeof(seen->text) - len, "%u-%u ", first,
		 last);
	return (int)first == seen->stop_at ? -EIO : 0;
}

static int gaps(unsigned first, unsigned last, int stop_at, const char *expect)
{
	struct seen seen = {.stop_at = stop_at};
	int result = sr_fd_gaps(first, last, see, &seen);

	if (strcmp(seen.text, expect)) {
		fprintf(stderr, "gaps %u-%u: %s\n", first, last, seen.text);
		exit(1);
	}
	return result;
}

static void all_gaps(void)
{
	int a, b, c;

	CHECK(gaps(3, UINT_MAX, -1, "3-4294967295 ") == 0);
	a = sr_fd_own(dup(0));
	b = sr_fd_dup(0);
	c = sr_fd_dup(0);
	CHECK(a == 255 && b == 254 && c == 253);
	sr_fd_close(b);
	CHECK(gaps(3, UINT_MAX, -1, "3-252 254-254 256-4294967295 ") == 0);
	CHECK(gaps(253, 255, -1, "254-254 ") == 0);
	CHECK(gaps(255, 255, -1, "") == 0);
	CHECK(gaps(0, 253, -1, "0-252 ") == 0);
	CHECK(gaps(9, 5, -1, "") == 0);
	CHECK(gaps(3, UINT_MAX, 254, "3-252 254-254 ") == -EIO);
	CHECK(gaps(256, UINT_MAX, -1, "256-4294967295 ") == 0);
	sr_fd_close(a);
	sr_fd_close(c);
}

static int kept;

static bool is_kept(int fd)
{
	return fd == kept;
}

/* Many side by side, and one in their midst that stays. */
static void forget_many(void)
{
	int fd[200], status;
	pid_t child;

	for (int i = 0; i < 200; i++)
		fd[i] = sr_fd_dup(0);
	kept = fd[77];
	child = fork();
	if (child == 0) {
		sr_fd_forget_all(is_kept);
		for (int i = 0; i < 200; i++)
			CHECK(is_open(fd[i]) == (i == 77) &&
			      sr_fd_is_private(fd[i]) == (i == 77));
		CHECK(is_open(0));
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	for (int i = 0; i < 200; i++)
		sr_fd_close(fd[i]);
}

static void forget(void)
{
	int a = sr_fd_dup(0), b = sr_fd_dup(0), status;
	pid_t child;

	sr_process_begin();
	CHECK(sr_process_ours());
	child = fork();
	if (child == 0) {
		CHECK(!sr_process_ours());
		sr_fd_forget_all(NULL);
		CHECK(sr_process_ours());
		CHECK(!is_open(a) && !is_open(b) && is_open(0));
		CHECK(!sr_fd_is_private(a) && !sr_fd_is_private(b));
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(is_open(a) && sr_fd_is_private(b));
}

/* Memory that the limit of a file's size does not allow: an error, and no signal, whose
 * action would end the program.  One that was pending stays so. */
static void memory_over_limit(void)
{
	struct rlimit rl = { 4096, RLIM_INFINITY };
	sigset_t xfsz, pending;
	int fd;

	CHECK(setrlimit(RLIMIT_FSIZE, &rl) == 0);
	CHECK(sr_fd_memory("test", 8192) == -1 && errno == EFBIG);
	sigpending(&pending);
	CHECK(!sigismember(&pending, SIGXFSZ));
	sigprocmask(SIG_SETMASK, NULL, &xfsz);
	CHECK(!sigismember(&xfsz, SIGXFSZ));
	fd = sr_fd_memory("test", 4096);
	CHECK(fd >= 0);
	sr_fd_close(fd);

	sigaddset(&xfsz, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &xfsz, NULL);
	raise(SIGXFSZ);
	CHECK(sr_fd_memory("test", 8192) == -1 && errno == EFBIG);
	sigpending(&pending);
	CHECK(sigismember(&pending, SIGXFSZ));
	signal(SIGXFSZ, SIG_IGN);	/* takes it back */
	sigprocmask(SIG_UNBLOCK, &xfsz, NULL);
}

int main(void)
{
	struct rlimit rl;

	CHECK(!in_process(beside_others, NULL, 10));
	CHECK(!in_process(beyond_many, NULL, 10));
	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = SOFT;
	CHECK(setrlimit(RLIMIT_NOFILE, &rl) == 0);
	own();
	own_in_full_table();
	all_gaps();
	forget();
	forget_many();
	memory_over_limit();
	return 0;
}
