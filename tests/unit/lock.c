/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The order of locks: debug builds abort where it is broken, others check nothing.  And
 * that a thread which waits for a lock gets it. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "check.h"

static struct sr_mutex rx = SR_MUTEX(SR_RANK_RX), tx = SR_MUTEX(SR_RANK_TX);
static struct sr_mutex other_rx = SR_MUTEX(SR_RANK_RX);

/* Takes two locks in a child, and returns the signal that it died of, or 0. */
static int take(struct sr_mutex *first, struct sr_mutex *second)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		sr_lock(first);
		sr_lock(second);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

enum { MANY = 20000 };	/* a second of them */

static atomic_bool asks, done;
static atomic_int turns, turns_waited;

/* Has the lock nearly always, for some 50 us each time. */
static void *hog(void *unused)
{
	(void)unused;
	while (!done && turns_waited < MANY) {
		sr_lock(&tx);
		for (volatile int i = 0; i < 50000; i++)
			;
		turns++;
		turns_waited += asks;
		sr_unlock(&tx);
	}
	return NULL;
}

static void *ask(void *unused)
{
	(void)unused;
	for (int i = 0; i < 50; i++) {
		turns_waited = 0;
		asks = true;
		sr_lock(&tx);
		asks = false;
		CHECK(turns_waited < MANY); /* 5, if nothing else runs */
		sr_unlock(&tx);
		usleep(200);
	}
	return NULL;
}

static void test_starved(void)
{
	pthread_t hogger, asker;

	CHECK(!pthread_create(&hogger, NULL, hog, NULL));
	while (turns < 10)
		;
	CHECK(!pthread_create(&asker, NULL, ask, NULL));
	CHECK(!pthread_join(asker, NULL));
	done = true;
	CHECK(!pthread_join(hogger, NULL));
}

int main(void)
{
	const int broken =
#ifdef SR_LOCK_CHECK
		SIGABRT;
#else
		0;
#endif

	CHECK_EQ(take(&rx, &tx), 0);
	CHECK_EQ(take(&tx, &rx), broken);
	CHECK_EQ(take(&rx, &other_rx), broken);

	/* What has been given back, and what is only tried, does not count. */
	sr_lock(&tx);
	CHECK(sr_trylock(&rx));
	sr_unlock(&rx);
	sr_unlock(&tx);
	sr_lock(&rx);
	sr_lock_unordered(&other_rx);
	sr_unlock(&other_rx);
	sr_lock(&tx);
	sr_unlock(&tx);
	sr_unlock(&rx);
	test_starved();
	return 0;
}
