/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hot.c - owns what a thread remembers of its last question (hot.h).  No locks.
 */
#include "base/real.h"

#include "stream/hot.h"

#include <time.h>

#include "stream/fdtab.h"
#include "stream/impl.h"

#define HOT 32
#define REST 128

static __thread struct {
	uint64_t asked;
	struct timespec tick;	/* when the kernel was asked */
	unsigned calls, rest;	/* up to HOT, up to REST */
	size_t only;		/* the one that was ready; NONE */
} hot __attribute__((tls_model("initial-exec")));

#define NONE SIZE_MAX
#define READING (POLLIN | POLLRDNORM | POLLRDBAND | POLLPRI)

uint64_t sr_hot_hash(const struct pollfd *fds, size_t n)
{
	uint64_t h = n;
	size_t i;

	for (i = 0; i < n; i++)
		h = (h ^ ((uint64_t)(unsigned)fds[i].fd << 16 |
			  (unsigned short)fds[i].events)) * 0x9e3779b97f4a7c15;
	return h | 1;
}

static bool same_tick(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_nsec == hot.tick.tv_nsec && now.tv_sec == hot.tick.tv_sec)
		return true;
	hot.tick = now;
	hot.rest = REST;
	return false;
}

/*
 * No lock: rx_more is what the last reader left behind, and only another reader
 * takes that away, as it may with the kernel's poll between the call and the read.
 */
bool sr_hot_again(uint64_t asked, struct pollfd *fds, size_t n)
{
	struct sr_stream *st;
	struct pollfd *p;
	size_t i;

	if (hot.calls < HOT || hot.rest >= REST || hot.only >= n)
		return false;
	p = &fds[hot.only];
	if (!(p->events & (POLLIN | POLLRDNORM)) || (p->events & ~READING) ||
	    hot.asked != asked || !same_tick())
		return false;
	st = sr_fdtab_peek(p->fd);
	if (!st || !atomic_load_explicit(&st->rx_more, memory_order_relaxed))
		return false;
	hot.rest++;
	for (i = 0; i < n; i++)
		fds[i].revents = 0;
	p->revents = p->events & (POLLIN | POLLRDNORM);
	return true;
}

bool sr_hot_rests(uint64_t asked)
{
	return asked && hot.asked == asked && hot.calls >= HOT && same_tick() &&
	       hot.rest++ < REST;
}

void sr_hot_told(uint64_t asked, int r)
{
	if (asked != hot.asked)
		hot.calls = 0;
	hot.asked = asked;
	hot.rest = 0;
	hot.calls = r ? 0 : hot.calls + 1;
}

void sr_hot_only(const struct pollfd *fds, size_t n, int r)
{
	size_t i;

	hot.only = NONE;
	for (i = 0; r == 1 && i < n; i++)
		if (fds[i].revents)
			hot.only = i;
}
