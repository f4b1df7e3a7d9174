/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* link.c - a link that a process gives up around fork is freed once, by that process; the
 * memory of links counts in the process whose they are. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/loop.h"
#include "link/link.h"
#include "check.h"

static atomic_int freed;

static void count(struct sr_link *link)
{
	atomic_fetch_add(&freed, 1);
	free(link);
}

static const struct sr_link_ops ops = { .name = "fake", .free = count };

static void give_up(void)
{
	struct sr_link *link = sr_link_new(&ops, sizeof(*link), SR_ROLE_ASKER, 1, NULL, NULL);

	CHECK(link);
	sr_link_put(link);
}

static void await_freed(int n)
{
	for (int i = 0; i < 20000 && atomic_load(&freed) < n; i++)
		usleep(1000);
	usleep(20000);
	CHECK(atomic_load(&freed) == n);
}

int main(void)
{
	int status;
	pid_t pid;

	sr_conf.memory = 4096;
	CHECK(sr_memory_take(sr_conf.memory) && !sr_memory_take(1));
	give_up();	/* there is no thread yet that frees it */
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		sr_link_forget();
		sr_loop_forget();
		CHECK(!sr_memory_used() && sr_memory_take(sr_conf.memory));
		CHECK(sr_loop_start() == 0);
		give_up();
		await_freed(1);	/* its own */
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(sr_loop_start() == 0);
	await_freed(1);
	CHECK(sr_memory_used() == sr_conf.memory);
	return 0;
}
