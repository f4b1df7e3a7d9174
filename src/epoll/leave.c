/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leave.c - the process ends, or executes another program: its sets then have one owner less
 * (family.c says what the owners are counted for).
 *
 * Lock: set->lock.
 */
#include "base/sys.h"

#include <fcntl.h>

#include "base/family.h"
#include "epoll/epoll.h"
#include "epoll/family.h"

/* (A set with entries stays counted, because this process needs it if the exec fails.) */
static bool set_ends_at_exec(struct sr_epoll *set)
{
	int fd, max = sr_epoll_max();

	if (set->entries)
		return false;
	for (fd = 0; fd <= max; fd++)
		if (sr_epoll_peek(fd) == set && !(sr_sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC))
			return false;
	return true;
}

static void set_leave(struct sr_epoll *set, bool ends)
{
	sr_lock(&set->lock);
	if (set->slot && ends)
		sr_slot_put(set->slot);
	else if (sr_slot_put_unless_last(set->slot))
		set->paused = set->slot;
	if (ends || set->paused)
		set->slot = NULL;
	sr_unlock(&set->lock);
}

void sr_epolls_leave(bool ends)
{
	struct sr_epoll *set;

	for (set = sr_epoll_first(); set; set = set->next_set) {
		if (ends)
			sr_epoll_hand_down(set);
		if (ends || set_ends_at_exec(set))
			set_leave(set, ends);
	}
}

void sr_epolls_return(void)
{
	struct sr_epoll *set;

	for (set = sr_epoll_first(); set; set = set->next_set) {
		sr_lock(&set->lock);
		if (set->paused) {
			sr_count(&set->paused->owners, 1);
			set->slot = set->paused;
			set->paused = NULL;
		}
		sr_unlock(&set->lock);
	}
}
