/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * loop.h - the service thread: an epoll loop for everything that is slow or runs in
 * the background.  It is started when there is something to do, and again after fork.
 * All signals are blocked in it; its descriptors are private (fdpriv.h).
 */
#ifndef SR_LOOP_H
#define SR_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

/* Starts the thread unless it runs.  Returns 0 or -errno; -EAGAIN in a signal handler, because
 * pthread_create(3) allocates memory.  Any thread. */
int sr_loop_start(void);

/* Does the thread run, or may it be started now?  If not, this is a signal handler, and the
 * caller leaves its work to the next call outside one. */
bool sr_loop_may_start(void);

/* Has it been started? */
bool sr_loop_runs(void);

/* In a child of vfork: can it wake the parent's service thread? */
bool sr_loop_in_reach(void);

/* Has this turn of the loop lasted too long?  Then a function that has more to do leaves that
 * to the next turn.  loop */
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
/* As unwatch(), from any thread, while fd is still open: for a caller that is about
 * to give the number back.  fn may be running, and may be called once more, so w
 * must stay valid. */
void sr_loop_release(struct sr_watch *w);
void sr_loop_unwatch(struct sr_watch *w);	/* fd still open */

/* Work handed to the loop, first in first out.  To post a task that is already queued does
 * nothing and returns false: fn has yet to run, and will see all that the caller did before.
 * Once fn has begun, the task may be posted again, and the loop does not touch it any more (fn
 * may free it).  Any thread; async-signal-safe; allocates nothing.  Posting does not start the
 * loop: a task waits for sr_loop_start().  All members but fn begin as zero. */
struct sr_task {
	void (*fn)(struct sr_task *t);
	struct sr_task *next;
	atomic_uint queued;	/* the loop's epoch in which it was queued, or 0 */
};
bool sr_loop_post(struct sr_task *t);

/* One-shot timers; they run in the order in which they are due.  Loop thread only.  All
 * members but fn begin as zero; fn may set the timer again, or free it. */
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
 * and descriptors (sr_fd_forget_all() closes these).  The thread may be started again, and
 * the same watches, timers and tasks be used again. */
void sr_loop_forget(void);

uint64_t sr_now_ns(void);	/* CLOCK_MONOTONIC */
uint64_t sr_now_coarse_ns(void); /* the same, some milliseconds late, at a third of the cost */
/* The time sr_now_ns() + sec, ns; 0 if both are 0; UINT64_MAX (for ever) if that is centuries
 * away. */
uint64_t sr_deadline_ns(uint64_t sec, uint64_t ns);
struct timespec sr_timespec(uint64_t ns);
/* Would the kernel accept this time, rather than fail with EINVAL? */
bool sr_is_time(const struct timespec *t);

#endif
