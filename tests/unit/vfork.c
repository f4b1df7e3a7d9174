/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * vfork.c - a process is killed while its child of vfork() waits for a stream to return to
 * TCP, and a thread of the parent holds the stream's locks: the child, which has the same
 * memory, goes on, and the stream ends, as its link did.
 */
#include "fake_link.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/loop.h"
#include "base/process.h"
#include "upgrade/upgrade.h"

enum { HANG_S = 200 };

static struct fake_pair e;
static atomic_bool locked;

static void *hold_locks(void *arg)
{
	(void)arg;
	sr_lock(&e.st->rx_lock);
	sr_lock(&e.st->tx_lock);
	atomic_store(&locked, true);
	while (atomic_load(&locked))
		pause();
	return NULL;
}

/* What exec does with the descriptor, or dup2 to a number of stdio. */
static void leave(bool exec)
{
	if (exec)
		sr_streams_hand_over();
	else
		sr_stream_make_plain(e.st, SR_REASON_EXEC, true);
}

static void parent(int say, bool exec)
{
	pthread_t t;
	pid_t pid;

	sr_process_begin();
	e = fake_linked(true);
	CHECK(!sr_loop_start());
	CHECK(!pthread_create(&t, NULL, hold_locks, NULL));
	while (!atomic_load(&locked))
		usleep(1000);
	pid = vfork();
	if (!pid) {
		pid = getpid();
		alarm(HANG_S);
		CHECK_EQ(write(say, &pid, sizeof(pid)), sizeof(pid));
		leave(exec);
		/* It is no end of file to the next program: connect(2), AF_UNSPEC. */
		_exit(recv(e.fd, &say, 1, MSG_DONTWAIT) == 0);
	}
	_exit(0);
}

static void killed(bool exec)
{
	int line[2], status;
	pid_t pid, child;

	CHECK(!pipe(line));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		parent(line[1], exec);
	CHECK_EQ(read(line[0], &child, sizeof(child)), sizeof(child));
	usleep(20000);	/* asleep by now */
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, SIGKILL);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	close(line[0]);
	close(line[1]);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	return 77;	/* it makes vfork a fork */
#endif
	if (check_in_valgrind())	/* so does valgrind */
		return 77;
	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
	killed(true);
	killed(false);
	return 0;
}
