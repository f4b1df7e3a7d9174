/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * loop.c - owns the service thread.  It knows nothing of streams and links.
 *
 * Locks: `starting` is held only to start the thread, and no other lock is taken
 * under it.  Everything else is atomic, or the loop thread's alone.
 */
#include "base/real.h" /* before any system header */
#include "base/loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/fdpriv.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/now.h"
#include "base/order.h"
#include "base/process.h"

#define BATCH 64		/* events taken at a time */
#define SLEEP_MS 5000		/* at most: if our descriptors are lost meanwhile,
				 * nothing can wake the thread */
#define BROKEN_TICK_MS 10	/* without a working epoll descriptor */
#define TURN_NS 2000000		/* a turn that lasts longer leaves tasks to the next one */

static struct sr_mutex starting = SR_MUTEX(SR_RANK_LEAF);
/* start_locked() publishes `running'; a thread that observes it, in sr_loop_runs() or
 * sr_loop_start(), sees the two descriptors.  The loop's thread sees them from its start. */
static atomic_bool running;
static atomic_int epoll_fd = -1, wake_fd = -1;

/* Counts forks.  Tasks and timers have the epoch in which they were queued.  So in
 * a child those that were queued in the parent are no longer queued, and the child
 * need not walk over structures that the parent's loop may have been changing. */
static atomic_uint epoch = 1;	/* changes while there is one thread only */

static _Atomic(struct sr_task *) posted;	/* a stack, last first */
static atomic_bool sleeping;

/* The loop has to see what a thread wrote to a watch before it handed the watch to
 * epoll_ctl(2): loop_control() releases `handed', and sleep_once() acquires it.  The
 * system calls order these accesses, too, but the compiler and ThreadSanitizer do
 * not know that. */
static atomic_uint handed;

/* The loop thread's own. */
SR_APART static struct epoll_event batch[BATCH];
static int batch_at, batch_end;
static struct sr_timer *first_timer;
static struct sr_task *ready, **ready_end = &ready;	/* posted, in their order */
static uint64_t turn_ns;	/* when this turn of the loop began */
static __thread bool here __attribute__((tls_model("initial-exec")));

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	sr_clock(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t sr_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t sr_now_coarse_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC_COARSE);
}

uint64_t sr_deadline_ns(uint64_t sec, uint64_t ns)
{
	if (!sec && !ns)
		return 0;
	if (sec >= UINT64_MAX / 1000000000u / 2)
		return UINT64_MAX;
	return sr_now_ns() + sec * 1000000000u + ns;
}

struct timespec sr_timespec(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / 1000000000u),
				  (long)(ns % 1000000000u) };
}

bool sr_is_time(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

bool sr_loop_here(void)
{
	return here;
}

/* ---- tasks ---- */

/*
 * No wake-up is lost.  The loop, before it sleeps:  S: sleeping = true;
 * L: load posted, and do not sleep unless it is empty.  A poster:
 * P: push; C: load sleeping, and write to wake_fd if it is true.  All four are
 * sequentially consistent, so they have one order.
 * pair loop: sleep_once(), which is the other end of sr_loop_post() and loop_wake().
 * If L misses P, then S < L < P < C.  So C sees the true of S and writes; or it sees
 * a false that was stored after S, either by another poster, who writes to wake_fd
 * itself, or by the loop, which is then awake and comes to L again before it sleeps.
 * If C comes before S, then P < C < S < L, and L sees P.
 * A write to wake_fd before the loop enters epoll_wait() is not lost: epoll_wait()
 * finds the edge.
 */
static void loop_wake(void)
{
	uint64_t one = 1;
	int err = errno;
	ssize_t n;

	if (!sr_look(&sleeping) ||	/* C; pair loop */
	    !atomic_exchange_explicit(&sleeping, false, memory_order_seq_cst))
		return;
	n = sr_now_write(sr_load(&wake_fd), &one, sizeof(one));
	if (n < 0)	/* we are a child of vfork that has closed it */
		sr_change(&sleeping, true);	/* pair loop: S once more, for the next poster */
	errno = err;
}

/* Signals are held off, because a handler that leaves by siglongjmp(3) between the two steps
 * would leave the task queued but not pushed, and it would never run again. */
bool sr_loop_post(struct sr_task *t)
{
	unsigned now = sr_load(&epoch);
	struct sr_task *head;
	bool fresh;

	sr_hold();
	/* An exchange even if the task is queued already, because it releases what the
	 * caller has done to the exchange in run_tasks(), with which it pairs. */
	fresh = sr_swap(&t->queued, now) != now;
	if (fresh) {
		head = sr_load(&posted);
		do {
			t->next = head;
			/* P; pair loop: sleep_once() */
		} while (!atomic_compare_exchange_weak_explicit(
				 &posted, &head, t, memory_order_seq_cst, memory_order_relaxed));
		loop_wake();
	}
	sr_release();
	return fresh;
}

bool sr_loop_is_late(void)
{
	return sr_now_ns() - turn_ns > TURN_NS;
}

/* Takes what was posted, last first, and puts it behind what is ready. */
static void take_posted(void)
{
	/* Pairs with the push in sr_loop_post(). */
	struct sr_task *t = sr_swap(&posted, NULL), *first = NULL, **end;

	if (!t)
		return;
	end = &t->next;
	while (t) {
		struct sr_task *next = t->next;

		t->next = first;
		first = t;
		t = next;
	}
	*ready_end = first;
	ready_end = end;
}

/* Runs at least one task; leaves the others to the next turn if this one is late. */
static void run_tasks(void)
{
	struct sr_task *t;

	take_posted();
	while (ready) {
		t = ready;
		ready = t->next;
		if (!ready)
			ready_end = &ready;
		sr_work_pause();
		/* From here on it may be posted again; pairs with sr_loop_post(). */
		sr_swap(&t->queued, 0);
		t->fn(t);
		if (ready && sr_loop_is_late())
			return;
	}
}

/* ---- timers: a pairing heap, because to set a timer takes only one comparison, and there
 * may be a timer for each carrier. ---- */

/* Melds two heaps, which are no parts of others; returns the root, or NULL. */
static struct sr_timer *timer_meld(struct sr_timer *a, struct sr_timer *b)
{
	struct sr_timer *t;

	if (!a || !b)
		return a ? a : b;
	if (b->at_ns < a->at_ns) {
		t = a;
		a = b;
		b = t;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	a->child = b;
	return a;
}

/* Melds the children of a root that is removed: first each pair, from the first to the last;
 * then the pairs, from the last to the first. */
static struct sr_timer *meld_all(struct sr_timer *t)
{
	struct sr_timer *pairs = NULL, *heap = NULL, *pair, *next;

	for (; t; t = next) {
		struct sr_timer *second = t->next;

		next = second ? second->next : NULL;
		pair = timer_meld(t, second);
		pair->next = pairs;
		pairs = pair;
	}
	for (; pairs; pairs = next) {
		next = pairs->next;
		heap = timer_meld(heap, pairs);
	}
	return heap;
}

void sr_timer_cancel(struct sr_timer *t)
{
	if (t->at_ns && t->epoch == sr_load(&epoch)) {
		if (t == first_timer) {
			first_timer = meld_all(t->child);
		} else {
			*(t->prev->child == t ? &t->prev->child : &t->prev->next) = t->next;
			if (t->next)
				t->next->prev = t->prev;
			first_timer = timer_meld(first_timer, meld_all(t->child));
		}
	}
	t->at_ns = 0;
}

static void timer_set_ns(struct sr_timer *t, uint64_t ns)
{
	sr_timer_cancel(t);
	t->at_ns = sr_now_ns() + ns;
	t->epoch = sr_load(&epoch);
	t->child = NULL;
	first_timer = timer_meld(first_timer, t);
}

void sr_timer_set(struct sr_timer *t, unsigned ms)
{
	timer_set_ns(t, (uint64_t)ms * 1000000);
}

void sr_timer_set_us(struct sr_timer *t, unsigned us)
{
	timer_set_ns(t, (uint64_t)us * 1000);
}

static void run_timers(void)
{
	/* Read once, because a timer that sets itself again must not keep the loop here. */
	uint64_t now = first_timer ? sr_now_ns() : 0;

	while (first_timer && first_timer->at_ns <= now) {
		struct sr_timer *t = first_timer;

		sr_timer_cancel(t);
		sr_work_pause();
		t->fn(t);
		if (first_timer && sr_loop_is_late())
			return;
	}
}

/* ---- descriptors ---- */

static int loop_control(int op, struct sr_watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};
	int err = errno, result = 0;

	/* Pairs with the loop's sr_observe() behind its wait: it sees what was written before. */
	atomic_fetch_add_explicit(&handed, 1, memory_order_release);
	if (sr_sys_epoll_ctl(sr_load(&epoll_fd), op, w->fd, &ev))
		result = -errno;
	errno = err;
	return result;
}

int sr_loop_watch(struct sr_watch *w, uint32_t events)
{
	static atomic_bool warned;
	int result = sr_loop_start();

	if (!result)
		result = loop_control(EPOLL_CTL_ADD, w, events);
	if (result == -ENOSPC && !atomic_exchange_explicit(&warned, true, memory_order_relaxed))
		sr_warn("the sysctl fs.epoll.max_user_watches is reached: streams get no new links");
	return result;
}

int sr_loop_rearm(struct sr_watch *w, uint32_t events)
{
	return loop_control(EPOLL_CTL_MOD, w, events);
}

void sr_loop_unwatch(struct sr_watch *w)
{
	loop_control(EPOLL_CTL_DEL, w, 0);
	/* Events for w that the kernel has reported, and that fn has not been called for yet. */
	for (int i = batch_at; i < batch_end; i++)
		if (batch[i].data.ptr == w)
			batch[i].data.ptr = NULL;
}

void sr_loop_release(struct sr_watch *w)
{
	loop_control(EPOLL_CTL_DEL, w, 0);
}

static void run_events(void)
{
	while (batch_at < batch_end) {
		struct epoll_event *ev = &batch[batch_at++];
		struct sr_watch *w = ev->data.ptr;

		sr_work_pause();
		if (w)	/* NULL: unwatched, or wake_fd */
			w->fn(w, ev->events);
	}
}

/* ---- the thread ---- */

/* The time until the first timer is due. */
static uint64_t sleep_limit_ns(void)
{
	const uint64_t most = SLEEP_MS * UINT64_C(1000000);
	uint64_t now, at = first_timer ? first_timer->at_ns : 0;

	if (!first_timer)
		return most;
	now = sr_now_ns();
	if (at <= now)
		return 0;
	return at - now < most ? at - now : most;
}

/* epoll_wait() takes a number of milliseconds.  ns is rounded up, because a thread that wakes
 * before its timer is due would have to sleep again.  For less than a millisecond ppoll() waits
 * on the epoll descriptor; if its time is over, nothing had happened by then. */
static int wait_for_events(uint64_t ns)
{
	struct pollfd p = { sr_load(&epoll_fd), POLLIN, 0 };
	struct timespec ts = sr_timespec(ns);
	int ms = (int)((ns + 999999) / 1000000);

	if (ns && ns < 1000000) {
		if (!SR_SYS(SYS_ppoll, &p, 1, &ts, 0, _NSIG / 8))
			return 0;
		ms = 0;
	}
	return (int)SR_SYS(SYS_epoll_pwait, p.fd, batch, BATCH, ms, 0, _NSIG / 8);
}

static void sleep_once(void)
{
	uint64_t ns = sleep_limit_ns();
	int n;

	if (ns)
		sr_change(&sleeping, true);	/* S; pair loop: loop_wake() */
	if (sr_look(&posted) || ready)	/* L */
		ns = 0;
	sr_work_end();
	n = wait_for_events(ns);
	sr_change(&sleeping, false);	/* pair loop: loop_wake(); before the next L */
	sr_work_begin();
	sr_observe(&handed); /* pairs with loop_control() */
	/* The program has closed our descriptors.  The watches are lost, but tasks and
	 * timers go on, because switching back to TCP depends on them. */
	if (n < 0 && errno != EINTR)
		sr_now_sleep(BROKEN_TICK_MS * 1000000);
	batch_at = 0;
	batch_end = n > 0 ? n : 0;
	turn_ns = sr_now_ns();
}

static void loop(void)
{
	here = true;
	sr_inside = 1;
	sr_sys_set_name("sockrail");
	for (;;) {
		sleep_once();
		run_events();
		run_timers();
		run_tasks();
	}
}

#define LOOP_FDS 3 /* its own two, and one that is moved up */

static int start_locked(void)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	int ep, wk = -1, err = 0;

	if (sr_load(&running))
		return 0;
	if (!sr_fd_spare(LOOP_FDS + SR_FD_LEFT))
		return -EMFILE;
	sr_fd_reserve();	/* again: a child's table is only as large as it has to be */
	ep = sr_fd_own(sr_sys_epoll_create1(EPOLL_CLOEXEC));
	if (ep >= 0)
		wk = sr_fd_own(sr_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	/* Edge-triggered: each write wakes, and no read is needed. */
	if (wk < 0 || sr_sys_epoll_ctl(ep, EPOLL_CTL_ADD, wk, &ev))
		err = -errno;
	sr_store(&epoll_fd, ep);
	sr_store(&wake_fd, wk);
	if (!err)
		err = sr_thread_start(loop);
	sr_publish(&running, !err);	/* pairs as said above */
	if (err && wk >= 0)
		sr_fd_close(wk);
	if (err && ep >= 0)
		sr_fd_close(ep);
	return err;
}

bool sr_loop_runs(void)
{
	return sr_observe(&running);
}

bool sr_loop_in_reach(void)
{
	int err = errno;
	bool yes = sr_loop_runs() &&
		   sr_sys_fcntl(sr_load(&wake_fd), F_GETFD, 0) >= 0;

	errno = err;
	return yes;
}

bool sr_loop_may_start(void)
{
	return sr_loop_runs() || !sr_signal_in_handler();
}

int sr_loop_start(void)
{
	int saved = errno, err;

	if (here || sr_observe(&running))
		return 0;
	if (!sr_process_ours())
		return -ECHILD;
	if (sr_signal_in_handler())
		return -EAGAIN;
	sr_enter();
	sr_lock(&starting);
	err = start_locked();
	sr_unlock(&starting);
	sr_leave();
	if (err == -EMFILE)
		sr_inform("cannot start the service thread (%s): streams stay on TCP",
			  sr_errno_name(-err));
	else if (err)
		sr_warn("cannot start the service thread (%s): streams stay on TCP",
			sr_errno_name(err));
	errno = saved;
	return err;
}

void sr_loop_forget(void)
{
	static const struct sr_mutex fresh = SR_MUTEX(SR_RANK_LEAF);

	starting = fresh;
	sr_count(&epoch, 1);
	sr_store(&running, false);
	sr_store(&sleeping, false);
	sr_store(&epoll_fd, -1);
	sr_store(&wake_fd, -1);
	sr_store(&posted, NULL);
	batch_at = batch_end = 0;
	first_timer = NULL;
	ready = NULL;
	ready_end = &ready;
}
