/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The order of locks: debug builds abort where it is broken, others check nothing. */
#include <signal.h>
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
	return 0;
}
