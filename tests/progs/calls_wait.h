/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* calls_wait.h - random questions to poll and select. */
#ifndef TEST_CALLS_WAIT_H
#define TEST_CALLS_WAIT_H

#include <sys/select.h>

#include "calls.h"

static int empty[2];	/* a pipe in which there is nothing */

static const short events[] = {POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM,
			       POLLRDBAND, POLLWRBAND};

static short some_events(void)
{
	short e = 0;

	for (size_t i = 0; i < COUNT(events); i++)
		if (once_in(3))
			e |= events[i];
	return e;
}

/* A descriptor to wait for: mostly a stream's. */
static int some_fd(void)
{
	const struct end *e = &ends[pick(2)];

	switch (pick(12)) {
	case 0:
		return -1;
	case 1:
		return empty[0];
	case 2:
		return empty[1];
	}
	return e->fds ? any_fd(e) : empty[0];
}

static const char *fd_name(int fd)
{
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < ends[i].fds; k++)
			if (fd == ends[i].fd[k])
				return i ? "B" : "A";
	return "";
}

/* Is the answer to what was asked of that moment?  Then it is asked again. */
static bool no_room(const struct pollfd *p, int n)
{
	const short out = POLLOUT | POLLWRNORM | POLLWRBAND;

	for (int i = 0; i < n; i++)
		if (*fd_name(p[i].fd) && p[i].events & out & ~POLLWRBAND && !(p[i].revents & out))
			return true;
	return false;
}

static void poll_some(struct end *e)
{
	int n = 1 + (int)pick(4), ms = (int)pick(8), r;
	bool pp = once_in(2);
	struct timespec t = {0, 0};
	struct pollfd p[5];

	(void)e;
	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){some_fd(), some_events(), 0x55};
	ms = ms < 5 ? 0 : ms - 4;
	t.tv_nsec = ms * 1000000;
	do {
		await_room();
		errno = 0;
		r = pp ? ppoll(p, (nfds_t)n, &t, NULL) : poll(p, (nfds_t)n, ms);
	} while (no_room(p, n));
	printf("%d poll: %d %s", step, r, error_name(r));
	for (int i = 0; i < n; i++)
		printf(" %s%x:%x", fd_name(p[i].fd), p[i].events, p[i].revents);
	putchar('\n');
}

/* What is asked of select: three sets, of which some are not there. */
struct question {
	int n, fd[4], max;
	fd_set set[3];
	bool use[3];
};

static struct question some_question(void)
{
	struct question q = {.n = 1 + (int)pick(4)};

	for (int k = 0; k < 3; k++) {
		FD_ZERO(&q.set[k]);
		q.use[k] = !once_in(4);
	}
	for (int i = 0; i < q.n; i++) {
		q.fd[i] = some_fd();
		for (int k = 0; k < 3 && q.fd[i] >= 0; k++)
			if (once_in(2))
				FD_SET(q.fd[i], &q.set[k]);
		q.max = q.fd[i] >= q.max ? q.fd[i] + 1 : q.max;
	}
	return q;
}

static bool lacks_room(const struct question *q, const struct question *a)
{
	for (int i = 0; i < q->n; i++)
		if (q->use[1] && *fd_name(q->fd[i]) && FD_ISSET(q->fd[i], &q->set[1]) &&
		    !FD_ISSET(q->fd[i], &a->set[1]))
			return true;
	return false;
}

static void select_some(struct end *e)
{
	struct timeval tv = {0, once_in(2) ? 0 : 2000};
	struct timespec ts = {0, tv.tv_usec * 1000};
	struct question q = some_question(), a;
	bool ps = once_in(2);
	fd_set *set[3];
	int r;

	(void)e;
	do {
		a = q;
		for (int k = 0; k < 3; k++)
			set[k] = a.use[k] ? &a.set[k] : NULL;
		await_room();
		errno = 0;
		r = ps ? pselect(a.max, set[0], set[1], set[2], &ts, NULL) :
			 select(a.max, set[0], set[1], set[2], &tv);
	} while (r >= 0 && lacks_room(&q, &a));
	printf("%d select: %d %s", step, r, error_name(r));
	for (int k = 0; k < 3; k++)
		for (int i = 0; i < q.n; i++)
			printf("%s%d", i ? "" : q.use[k] ? " " : " -",
			       q.fd[i] >= 0 && FD_ISSET(q.fd[i], &a.set[k]));
	putchar('\n');
}

#endif
