/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cancel.c - owns the signal by which the C library cancels threads.  No locks.
 *
 * A thread with PTHREAD_CANCEL_ASYNCHRONOUS may end at any instruction: pthread_cancel(3)
 * sends it a signal whose handler does not return.  A thread that ended so inside the library
 * would leave a lock taken, a call counted in a gate, or a table half changed.  So we put
 * cancel_entry() in front of the C library's handler.  It puts the signal off as long as the
 * thread holds something, as signal.c does with the program's signals.  The thread's call on
 * a stream then returns or comes to a window (signal.h), and in both places the thread may be
 * cancelled.  Threads that never get this signal pay nothing for that.
 *
 * The C library installs its handler when it starts, or, since 2.34, within the first
 * pthread_cancel(3), which then sends the signal at once.  So before the program's first
 * pthread_cancel() we start a thread that cancels itself, only to have that handler
 * installed.  (The thread ends before it comes to a cancellation point.)
 */
#include "base/real.h"
#include "base/cancel.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "base/now.h"
#include "base/order.h"
#include "base/process.h"

#define SIGCANCEL 32		/* glibc's; <signal.h> begins behind it */

typedef void handler_fn(int sig, siginfo_t *info, void *context);

/* The kernel's struct sigaction.  The C library's functions refuse this signal. */
struct action {
	handler_fn *handler;
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* Published before the kernel gets our entry, and observed by the entry. */
static _Atomic(handler_fn *) libcs;
/* Our thread has cancelled itself: cancel_itself() publishes it, sr_cancel_before() observes. */
static atomic_bool done;

__thread void *volatile sr_cancel_asks __attribute__((tls_model("initial-exec")));
void (*_Atomic sr_cancel_lost)(void *asks);

static void cancel_entry(int sig, siginfo_t *info, void *context)
{
	int err = errno;

	if (!sr_held.count || !sr_signal_put_off(sig, info, context)) {
		if (sr_cancel_asks && !sr_held.count)
			sr_load(&sr_cancel_lost)(sr_cancel_asks);
		sr_observe(&libcs)(sig, info, context);
	}
	errno = err;
}

static long cancel_action(const struct action *act, struct action *old)
{
	return SR_SYS(SYS_rt_sigaction, SIGCANCEL, act, old, sizeof(act->mask));
}

/* False: the C library has no handler yet. */
static bool stand_in_front(void)
{
	struct action sa;

	if (cancel_action(NULL, &sa) < 0 || !sa.handler)
		return false;
	if (sa.handler != cancel_entry) {
		sr_publish(&libcs, sa.handler);
		sa.handler = cancel_entry;
		cancel_action(&sa, NULL);
	}
	return true;
}

static void cancel_itself(void)
{
	sr_inside = 1;
	sr_real.pthread_cancel(pthread_self());
	sr_publish(&done, true);
}

/* (If no thread can be started, sr_cancel_after() does it, a little too late for the first
 * thread that the program cancels.) */
void sr_cancel_before(void)
{
	uint64_t step = 0;

	if (sr_inside || sr_observe(&libcs) || !sr_process_ours())
		return;
	sr_enter();
	if (!stand_in_front() && sr_thread_start(cancel_itself) == 0) {
		while (!sr_observe(&done))
			sr_now_sleep_longer(&step);
		stand_in_front();
	}
	sr_leave();
}

/* If two threads made the first pthread_cancel() at once, the C library may have installed
 * its handler a second time, over ours. */
void sr_cancel_after(void)
{
	int err = errno;

	if (!sr_inside && sr_process_ours())
		stand_in_front();
	errno = err;
}
