/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * check.h - what the unit tests share: checks that say where they failed, and
 * random numbers that come again with the same seed.
 */
#ifndef SR_CHECK_H
#define SR_CHECK_H

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define CHECK(cond) check_true((cond), #cond, __FILE__, __LINE__)
#define CHECK_EQ(got, want)                                                    \
	check_equal((int64_t)(got), (int64_t)(want), #got, __FILE__, __LINE__)

/* Printed with a failure: what the test was doing; see check_about(). */
static char check_context[128];

static inline _Noreturn void check_fail(const char *file, int line)
{
	fprintf(stderr, "%s:%d: failed%s%s\n", file, line,
		check_context[0] ? ": " : "", check_context);
	exit(1);
}

static inline void check_true(_Bool ok, const char *what, const char *file,
			      int line)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	check_fail(file, line);
}

static inline void check_equal(int64_t got, int64_t want, const char *what,
			       const char *file, int line)
{
	if (got == want)
		return;
	fprintf(stderr, "%s:%d: %s is %" PRId64 ", wanted %" PRId64 "\n", file,
		line, what, got, want);
	check_fail(file, line);
}

/* fork(2) by the system call: no handler of pthread_atfork(3) runs. */
static inline pid_t check_bare_fork(void)
{
#ifdef __s390x__
	return (pid_t)syscall(SYS_clone, 0, SIGCHLD, 0, 0, 0);
#else
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

/* The stage valgrind of tests/check says so. */
static inline _Bool check_in_valgrind(void)
{
	const char *sanitizer = getenv("SR_TEST_SANITIZER");

	return sanitizer && !strcmp(sanitizer, "valgrind");
}

static inline void check_about(const char *what, uint64_t number)
{
	snprintf(check_context, sizeof(check_context), "%s %" PRIu64, what,
		 number);
}

/* splitmix64: any seed will do, also neighbours. */
static inline uint64_t check_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#endif
