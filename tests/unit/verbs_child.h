/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* verbs_child.h - for verbs_pair.h: a child of this process answers, and the
 * device is the kernel's: RDMA_DEV on RDMA_NETDEV. */
#ifndef SR_VERBS_CHILD_H
#define SR_VERBS_CHILD_H

#include <sys/prctl.h>
#include <sys/wait.h>

/* SIGUSR1: the answerer tells its side. */
static void tell(int sig)
{
	struct end *e = last_end;

	(void)sig;
	if (!e || !e->link)
		return;
	dump(e, 0);
	sr_verbs_poll(e->link);	/* is anything left in the CQ? */
	dump(e, 0);
}

static inline void add_device(void)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "rdma link add %s type %s netdev %s",
		 getenv("RDMA_DEV"),
		 getenv("RDMA_DEV")[0] == 's' ? "siw" : "rxe",
		 getenv("RDMA_NETDEV"));
	CHECK(!system(cmd));
	usleep(1000 * 1000);
}

static inline void remove_device(void)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "timeout 20 rdma link delete %s",
		 getenv("RDMA_DEV"));
	CHECK(!system(cmd));
}

static inline bool may_remove(void)
{
	return getenv("RDMA_DEV") && !geteuid();
}

static inline void kill_answerer(void)
{
	kill(child, SIGKILL);
}

static void answerer(int fd)
{
	int err = 0;

	in_child = true;
	signal(SIGUSR1, tell);
	CHECK(!loop_call(listen_call, &err));
	if (err)
		fprintf(stderr, "listen: %s\n", strerror(-err));
	CHECK(write(fd, &err, sizeof(err)) == sizeof(err));
	for (;;)
		pause();
}

static void start_answerer(bool patient)
{
	int p[2], err;

	wait_limit = patient ? 60000 : 20000;
	most_sent = 4;	/* siw loses one of some hundred answers, and its asker tries again */
	CHECK(!pipe(p));
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* we may abort */
		close(p[0]);
		sr_loop_forget();
		sr_jobs_forget();
		sr_verbs_forget();
		sr_fd_forget_all(NULL);
		answerer(p[1]);
	}
	close(p[1]);
	CHECK(read(p[0], &err, sizeof(err)) == sizeof(err) && !err);
	close(p[0]);
}

static void stop_answerer(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

#endif
