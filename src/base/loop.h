/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * loop.h - the service thread: an epoll loop for everything slow or in the
 * background.  Started when there is something to do, restarted after fork; all
 * signals are blocked in it; its descriptors are private (fdpriv.h).
 */
#ifndef SR_LOOP_H
#define SR_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

/* Starts the thread unless it runs.  0 or -errno.  Any thread, but not in a signal handler:
 * then it is -EAGAIN, because pthread_create(3) allocates memory. */
int sr_loop_start(void);

/* It runs, or may be started now.  Else the caller leaves what it wants to the next call
 * outside a signal handler. */
bool sr_loop_may_start(void);

/* Has it been started? */
bool sr_loop_runs(void);

/* For a child of vfork: can it wake the parent's? */
bool sr_loop_in_reach(void);

/* This turn of the loop has lasted for long: a function that has more to do leaves that to
 * the next turn.  loop */
bool sr_loop_is_late(void);

/* True in the service thread. */
bool sr_loop_here(void);

/* A descriptor to watch.  loop thread only, except that watch() and rearm()
 * may be called from any thread (epoll_ctl is).  After unwatch() returns (loop
 * thread) fn is not called again.  fn may unwatch and free w. */
struct sr_watch {
	int fd;
	void (*fn)(struct sr_watch *w, uint32_t events);
};
int sr_loop_watch(struct sr_watch *w, uint32_t events);	/* starts the loop */
int sr_loop_rearm(struct sr_watch *w, uint32_t events);	/* EPOLL_CTL_MOD */
/* Any thread, fd still open: takes the registration down, as before the number
 * is given back.  fn may be under way and may be called once more, so w must
 * stay valid. */
void sr_loop_release(struct sr_watch *w);
void sr_loop_unwatch(struct sr_watch *w);	/* fd still open */

/* Work handed to the loop, first in first out.  Posting one that is already
 * queued does nothing, and returns false: fn will see all that was done before the post.
 * Once fn has begun it may be posted again, and the loop does not touch it (fn may free it).
 * Any thread, async-signal-safe, allocates nothing; does not start the loop: it
 * runs, or what is posted waits for sr_loop_start().  Zeroed but for fn. */
struct sr_task {
	void (*fn)(struct sr_task *t);
	struct sr_task *next;
	atomic_uint queued;	/* the loop's epoch in which it is, or 0 */
};
bool sr_loop_post(struct sr_task *t);

/* One-shot timers; those due at once run in the order of
 * their times.  loop thread only.  Zeroed but for fn; fn may set or free it. */
struct sr_timer {
	void (*fn)(struct sr_timer *t);
	uint64_t at_ns;		/* CLOCK_MONOTONIC; 0: not set */
	struct sr_timer *prev, *next, *child;	/* prev: or the parent */
	unsigned epoch;		/* of the loop when it was set */
};
void sr_timer_set(struct sr_timer *t, unsigned ms);
void sr_timer_set_us(struct sr_timer *t, unsigned us);
void sr_timer_cancel(struct sr_timer *t);

/* In the child of fork: forget the thread and all its watches, timers, tasks
 * and descriptors (sr_fd_forget_all() closes those).  It may be started again, and
 * the same objects be used again. */
void sr_loop_forget(void);

uint64_t sr_now_ns(void);	/* CLOCK_MONOTONIC */
uint64_t sr_now_coarse_ns(void); /* the same, some milliseconds late, at a third of the cost */
/* So much later, as sr_now_ns(); 0 if it is no time at all, UINT64_MAX (for ever) if it
 * is centuries. */
uint64_t sr_deadline_ns(uint64_t sec, uint64_t ns);
struct timespec sr_timespec(uint64_t ns);
/* Would the kernel take it?  Else it says EINVAL. */
bool sr_is_time(const struct timespec *t);

#endif
