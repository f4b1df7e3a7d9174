/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * case_threads.h - threads and processes of a half: to start one, to wait until it is asleep, and
 * to hand it a descriptor.  A part of case.h, which includes it.
 */
#ifndef TEST_CASE_THREADS_H
#define TEST_CASE_THREADS_H

static inline pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t t;

	errno = pthread_create(&t, NULL, run, arg);
	if (errno)
		die("pthread_create");
	return t;
}

/* A thread that is asleep in a call when this returns, or has ended. */
struct to_sleep {
	void *(*run)(void *);
	void *arg;
	_Atomic pid_t tid;
};

static pid_t last_asleep; /* its thread id */

static inline void *run_to_sleep(void *arg)
{
	struct to_sleep *s = arg;
	void *(*run)(void *) = s->run;
	void *run_arg = s->arg;

	s->tid = gettid();	/* s is gone behind this */
	return run(run_arg);
}

static inline pthread_t start_asleep(void *(*run)(void *), void *arg)
{
	struct to_sleep s = {run, arg, 0};
	pthread_t t = start(run_to_sleep, &s);

	while (!(last_asleep = s.tid))
		nap(1);
	await_asleep(getpid(), last_asleep);
	return t;
}

/* A descriptor in a message, over a Unix socket. */
static inline void send_fd(int s, int fd)
{
	char c = 'f', control[CMSG_SPACE(sizeof(fd))];
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *h;

	memset(control, 0, sizeof(control));
	h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	if (sendmsg(s, &m, 0) != 1)
		die("sendmsg");
}

static inline int receive_fd(int s)
{
	char c, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(s, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
		die("recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* A process of its own, which prints what the parent has not. */
static inline pid_t split(void)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork");
	return pid;
}

static inline void reap(pid_t pid)
{
	int status = -1;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (WIFSIGNALED(status))
		say("child: signal %d", WTERMSIG(status));
	else
		say("child: %d", WEXITSTATUS(status));
}

#endif
