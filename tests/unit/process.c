/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose tables these are: not a copy's, not those of a child that borrows the memory. */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "check.h"
#include "sockrail.h"

static void is_true(pid_t child)
{
	int status = -1;

	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Without the handlers of pthread_atfork(3): nobody has told the child. */
static void copied(void)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (child == 0) {
		CHECK(!sr_process_ours());
		sr_process_begin();
		CHECK(sr_process_ours() && *sr_process.mark);
		child = fork();
		if (child == 0)
			_exit(sr_process_ours());
		is_true(child);
		_exit(0);
	}
	is_true(child);
	CHECK(sr_process_ours());
}

static void lent(void)
{
	pid_t child;

	sr_process_lends();
	child = vfork();
	if (child == 0)
		_exit(sr_process_ours());
	is_true(child);
	CHECK(sr_process_ours());
}

int main(void)
{
	CHECK(sr_process_ours());
	sr_process_begin();
	CHECK(sr_process_ours());
	copied();
	sr_process_told();
	CHECK(*sr_process.mark && !sr_process.lent && sr_process_ours());
	copied();
	lent();
	copied();
	return 0;
}
