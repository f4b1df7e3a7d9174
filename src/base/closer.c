/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* closer.c - owns the closing threads, and the descriptors that wait for one.  Lock: a leaf. */
#include "base/real.h" /* before any system header */
#include "base/closer.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/fdpriv.h"
#include "base/lock.h"
#include "base/now.h"
#include "base/process.h"

/* The most there may be: other users must not use up the program's limit (RLIMIT_NPROC). */
#define THREADS 8

struct waiting {
	struct waiting *next;
	int fd;
};

static struct sr_mutex lock = SR_MUTEX(SR_RANK_LEAF);
static struct waiting *waiting;
static atomic_int threads;	/* changed under the lock; sr_closer_threads() is a hint */

/* The next descriptor that a thread has to close; -1: none is left, and the thread ends. */
static int closer_next_fd(void)
{
	struct waiting *w;
	int fd;

	sr_lock(&lock);
	w = waiting;
	if (w)
		waiting = w->next;
	else
		atomic_fetch_sub_explicit(&threads, 1, memory_order_relaxed);
	sr_unlock(&lock);
	fd = w ? w->fd : -1;
	free(w);
	return fd;
}

static void closer_run(void)
{
	int fd;

	sr_inside = 1;
	sr_sys_set_name("sockrail-close");
	while ((fd = closer_next_fd()) >= 0) {
		sr_work_end();	/* this may take long */
		sr_fd_close(fd);
		sr_work_begin();
	}
}

int sr_closer_threads(void)
{
	return sr_load(&threads);
}

bool sr_closer_free(void)
{
	return sr_closer_threads() < THREADS;
}

/* If no thread or memory can be had, closes it here: to block is better than to leak it. */
void sr_closer_close(int fd)
{
	struct waiting *w = malloc(sizeof(*w));
	bool starts;

	if (!w) {
		sr_fd_close(fd);
		return;
	}
	sr_lock(&lock);
	*w = (struct waiting){ waiting, fd };
	waiting = w;
	starts = sr_closer_free();
	sr_count(&threads, starts);
	sr_unlock(&lock);
	if (!starts || !sr_thread_start(closer_run))
		return;
	while ((fd = closer_next_fd()) >= 0)
		sr_fd_close(fd);
}

void sr_closer_forget(void)
{
	sr_mutex_init(&lock, SR_RANK_LEAF);
	waiting = NULL;
	sr_store(&threads, 0);
}

void sr_closer_inherit(void)
{
	int fd = -1, err = errno;
	char c;

	while ((fd = sr_fd_next_slow(fd)) >= 0) {
		if (sr_now_recv(fd, &c, 1, MSG_PEEK) < 0 && errno == EAGAIN)
			sr_fd_close(fd); /* nothing lies there */
		else
			sr_closer_close(fd);
	}
	errno = err;
}
