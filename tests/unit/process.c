/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose tables these are: not a copy's, not those of a child that borrows the memory. */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "check.h"

static void is_true(pid_t child)
{
	int status = -1;

	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	pid_t child;

	CHECK(sr_process_ours());
	sr_process_begin();
	CHECK(sr_process_ours());
	/* Without the handlers of pthread_atfork(3): the child does not know. */
	child = check_bare_fork();
	if (child == 0) {
		CHECK(!sr_process_ours());
		sr_process_begin();
		_exit(!sr_process_ours());
	}
	is_true(child);
	child = vfork();
	if (child == 0)
		_exit(sr_process_ours());
	is_true(child);
	CHECK(sr_process_ours());
	return 0;
}
