/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of descriptors: entries, references, and look-ups that race with
 * close and reuse. */
#include "base/real.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "check.h"
#include "engine/fdtab.h"
#include "engine/engine.h"

static struct sr_stream *make(int fd)
{
	struct sr_stream *st = sr_stream_open(fd);

	CHECK(st != NULL);
	return st;
}

static void test_entries(void)
{
	struct sr_stream *a = make(10), *b = make(10);

	CHECK_EQ(sr_fdtab_max(), -1);
	CHECK(!sr_fdtab_get(10) && !sr_fdtab_has(10));
	CHECK(!sr_fdtab_get(-1) && !sr_fdtab_has(-1) && !sr_fdtab_take(-1));
	CHECK(!sr_fdtab_take(10));

	CHECK(sr_fdtab_set(10, a) == NULL);
	CHECK(sr_fdtab_has(10) && !sr_fdtab_has(9) && !sr_fdtab_has(11));
	CHECK_EQ(sr_fdtab_max(), 10);
	CHECK(sr_fdtab_get(10) == a);
	sr_stream_put(a);

	/* A stale entry comes back with its reference. */
	CHECK(sr_fdtab_set(10, b) == a);
	sr_stream_put(a);
	CHECK(!sr_stream_tryget(a));
	CHECK(sr_fdtab_get(10) == b);
	sr_stream_put(b);

	CHECK(!sr_fdtab_drop(10, a));
	CHECK(sr_fdtab_has(10));
	CHECK(sr_fdtab_drop(10, b));
	CHECK(!sr_fdtab_has(10) && !sr_fdtab_drop(10, b));
	sr_stream_put(b);
}

static void test_bounds(void)
{
	static const int fds[] = {0, 1023, SR_FDMAP_SIZE - 1};
	struct sr_stream *st;

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		st = make(fds[i]);
		CHECK(sr_fdtab_set(fds[i], st) == NULL);
		CHECK(sr_fdtab_get(fds[i]) == st);
		sr_stream_put(st);
		CHECK_EQ(sr_fdtab_max(), fds[i] < 10 ? 10 : fds[i]);
		CHECK(sr_fdtab_take(fds[i]) == st);
		sr_stream_put(st);
	}
	/* Beyond the table: not entered, and said so. */
	st = make(SR_FDMAP_SIZE);
	CHECK(sr_fdtab_set(SR_FDMAP_SIZE, st) == st);
	CHECK(!sr_fdtab_has(SR_FDMAP_SIZE) && !sr_fdtab_get(SR_FDMAP_SIZE));
	CHECK(!sr_fdtab_has(INT32_MAX) && !sr_fdtab_get(INT32_MAX));
	sr_stream_put(st);
}

/*
 * Two numbers; a writer closes and reuses them, so that streams wander from one
 * to the other.  A reader must only ever get what the entry held, alive.
 */
enum { A = 20, B = 21, ROUNDS = 200000 };
static atomic_bool over;

static void *reader(void *arg)
{
	atomic_long *found = arg;

	while (!atomic_load(&over)) {
		for (int fd = A; fd <= B; fd++) {
			struct sr_stream *st = sr_fdtab_get(fd);

			if (!st)
				continue;
			CHECK(sr_stream_tryget(st));
			sr_stream_put(st);
			sr_stream_put(st);
			atomic_fetch_add(found, 1);
		}
	}
	return NULL;
}

static void test_race(void)
{
	pthread_t t[2];
	atomic_long found[2] = {0};
	struct sr_stream *st;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, reader, &found[i]), 0);
	/* On a busy machine the readers may come late: until they have. */
	for (int i = 0; i < ROUNDS || !(found[0] + found[1]); i++) {
		int fd = i & 1 ? A : B;

		CHECK(sr_fdtab_set(fd, make(fd)) == NULL);
		st = sr_fdtab_take(fd);
		CHECK(st != NULL);
		sr_stream_put(st);
	}
	atomic_store(&over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	CHECK(found[0] + found[1] > 0);
	CHECK(!sr_fdtab_has(A) && !sr_fdtab_has(B));
}

/*
 * A call that comes late finds a free stream: it locks it and looks.  If another thread
 * forks in that moment, the child opens that stream as if nobody had.
 */
static struct sr_stream *stale;
static atomic_int step;

static void *late(void *arg)
{
	(void)arg;
	sr_lock(&stale->rx_lock);
	atomic_store(&step, 1);
	while (atomic_load(&step) == 1)
		usleep(1000);
	sr_unlock(&stale->rx_lock);
	return NULL;
}

static void test_fork(void)
{
	pthread_t t;
	int status;
	pid_t pid;

	stale = make(A);
	CHECK(sr_fdtab_set(A, stale) == NULL);
	CHECK(sr_fdtab_take(A) == stale);
	sr_stream_put(stale);
	CHECK_EQ(pthread_create(&t, NULL, late, NULL), 0);
	while (!atomic_load(&step))
		usleep(1000);
	pid = fork();
	if (!pid) {
		alarm(60);
		sr_streams_forget();
		CHECK(make(A) == stale);
		sr_lock(&stale->rx_lock);
		_exit(0);
	}
	atomic_store(&step, 2);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	pthread_join(t, NULL);
}

int main(void)
{
	sr_conf_load();
	test_entries();
	test_bounds();
	test_race();
	test_fork();
	return 0;
}
