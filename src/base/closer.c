/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* closer.c - owns the places.  No locks: a place is its thread's while it is BUSY. */
#include "base/real.h" /* before any system header */
#include "base/closer.h"

#include <stdatomic.h>
#include <sys/prctl.h>

#include "base/fdpriv.h"
#include "base/process.h"

/* Threads at most: other users must not use up the program's limit (RLIMIT_NPROC). */
#define PLACES 8

static struct sr_closer {
	enum { FREE, TAKEN, BUSY, LEFT /* there was no thread */ } _Atomic state;
	int fd[2];
} places[PLACES];

static void *run(void *arg)
{
	struct sr_closer *c = arg;

	sr_inside = 1;
	prctl(PR_SET_NAME, "sockrail-close", 0, 0, 0);
	for (int i = 0; i < 2; i++)
		if (c->fd[i] >= 0)
			sr_fd_close(c->fd[i]);
	atomic_store(&c->state, FREE);
	return NULL;
}

static void begin(struct sr_closer *c)
{
	atomic_store(&c->state, BUSY);
	if (sr_thread_start(run, c))
		atomic_store(&c->state, LEFT);
}

struct sr_closer *sr_closer_take(void)
{
	struct sr_closer *c, *found = NULL;

	for (c = places; c < places + PLACES; c++) {
		if (atomic_load(&c->state) == LEFT)
			begin(c);
		if (!found && atomic_load(&c->state) == FREE)
			found = c;
	}
	if (found)
		atomic_store(&found->state, TAKEN);
	return found;
}

void sr_closer_give(struct sr_closer *c)
{
	atomic_store(&c->state, FREE);
}

void sr_closer_close(struct sr_closer *c, int fd, int other)
{
	c->fd[0] = fd;
	c->fd[1] = other;
	begin(c);
}

void sr_closer_forget(void)
{
	for (struct sr_closer *c = places; c < places + PLACES; c++)
		atomic_store(&c->state, FREE);
}
