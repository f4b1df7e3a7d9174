/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bench.h - what the loads of tests/bench share: time, medians, what is printed, giving up. */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "../progs/entries.h"

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
		strerror(errno));
	exit(1);
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Sorts ns; its nth value of a hundred, in us. */
static inline double percentile_us(uint64_t *ns, unsigned n, unsigned nth)
{
	qsort(ns, n, sizeof(*ns), by_value);
	return (double)ns[(uint64_t)(n - 1) * nth / 100] / 1e3;
}

static inline void print_times(const char *name, uint64_t *ns, unsigned n)
{
	printf("%s_us %.2f\n", name, percentile_us(ns, n, 50));
	printf("%s_p99_us %.2f\n", name, percentile_us(ns, n, 99));
}

/* The distribution of sorted ns in us, towards its end: "NAME_at_99.9 VALUE". */
static inline void print_distribution(const char *name, const uint64_t *ns, unsigned n)
{
	static const double at[] = {0,	50,   75,    90,   95,	  97.5,
				    99, 99.5, 99.75, 99.9, 99.95, 99.99};

	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		printf("%s_at_%g %.2f\n", name, at[i],
		       (double)ns[(uint64_t)((n - 1) * at[i] / 100)] / 1e3);
}

/* The processor time that the process has used. */
static inline uint64_t cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Of a stream of messages; cpu is both ends'. */
static inline void print_stream(uint64_t bytes, uint32_t size, uint64_t ns,
				uint64_t cpu)
{
	printf("mb_per_s %.1f\n", (double)bytes * 1e3 / (double)ns);
	printf("cpu_s_per_gb %.3f\n", (double)cpu * 1e3 / (double)bytes);
	printf("cpu_s_per_million %.3f\n",
	       (double)cpu * size / (double)bytes);
}

#endif
