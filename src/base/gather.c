/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gather.c - owns the file of SOCKRAIL_REPORT, and the lines that wait to be written to it.
 * Does not know what is in a line.
 *
 * To write one line takes four system calls, because the signals of a failed write(2) have to
 * be held back (sr_filesig_block()), and that made short connections a quarter slower.  So
 * lines are copied into a buffer, which the service thread writes after SOCKRAIL_REPORT_MS.
 * If there is no service thread, each line is written at once, because to start a thread would
 * make all system calls of the process slower.  Without a thread no line can wait: the program
 * may make no further call for an hour, and then be killed, which must lose the lines of
 * SOCKRAIL_REPORT_MS only.  Nor would it help to write the buffer before each call that may
 * sleep, as a client sleeps in each of its connections.  So a short connection of such a client
 * takes 21 us of its time instead of 18.5.  The first FEW lines after a pause are also written at
 * once.
 *
 * `taken_by` is a lock for which no thread waits: a thread that finds the buffer taken writes
 * its line at once.  The thread may even have taken the buffer itself, if it runs a signal
 * handler that we could not put off (base/signal.c).  Only the end of the process waits for
 * the buffer, unless its own thread has taken it.
 *
 * Processes.  The buffer belongs to sr_process_owner().  The child of fork has a copy, which
 * it forgets.  A child that shares our memory (vfork), or that has not called
 * sr_process_begin() yet (_Fork), is not the owner: it writes its lines at once and does not
 * touch the buffer.
 */
#include "base/sys.h" /* before any system header */
#include "base/gather.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/apart.h"
#include "base/append.h"
#include "base/conf.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/now.h"
#include "base/process.h"

#define FEW 8
#define BUFFER 65536		/* some 150 lines */
#define AGAIN_MS 1		/* tries again after that, if another thread has the buffer */
#define END_NS 3000000000ull	/* waits so long for another thread's write(2) to a slow file */

static struct sr_append file = { .path = sr_conf.report };

SR_APART static char buffer[BUFFER];
/* A lock: the address of the thread's sr_held; 0: free.  gather_take() and gather_give() pair. */
static _Atomic uintptr_t taken_by;
static atomic_bool at_once;		/* the process is about to end; taken_by orders it */

/* Only the thread that has taken the buffer uses these. */
static size_t buffered;			/* bytes */
static unsigned few;			/* lines since the last pause, up to FEW */
static uint64_t last_ms;		/* the last line's time */

void sr_gather_open(bool create)
{
	sr_enter();
	sr_append_open(&file, create);
	sr_leave();
}

bool sr_gather_keeps(int fd)
{
	return sr_append_has(&file, fd);
}

static void gather_write(const char *text, size_t len)
{
	static atomic_bool warned;

	sr_enter();
	if (!sr_append_text(&file, text, len) &&
	    !atomic_exchange_explicit(&warned, true, memory_order_relaxed))
		sr_warn("cannot write the report to %s: %s", sr_conf.report,
			sr_errno_name(errno));
	sr_leave();
}

/* ---- the buffer ---- */

static uintptr_t gather_thread(void)
{
	return (uintptr_t)&sr_held;
}

/* Signals are held off until it is given back. */
static bool gather_take(void)
{
	uintptr_t nobody = 0;

	sr_hold();
	if (sr_replace(&taken_by, &nobody, gather_thread()))
		return true;
	sr_release();
	return false;
}

static void gather_give(void)
{
	sr_publish(&taken_by, 0);
	sr_release();
}

static void gather_empty(void)
{
	if (buffered)
		gather_write(buffer, buffered);
	buffered = 0;
}

/* ---- the service thread ---- */

static void gather_due(struct sr_timer *t)
{
	if (!gather_take()) {
		sr_timer_set(t, AGAIN_MS);
		return;
	}
	gather_empty();
	gather_give();
}

static struct sr_timer timer = { .fn = gather_due };

static void gather_begun(struct sr_task *t)
{
	(void)t;
	if (!timer.at_ns)
		sr_timer_set(&timer, sr_conf.report_ms);
}

static struct sr_task task = { .fn = gather_begun };

/* ---- lines ---- */

/* Is it one of the first ones after a pause? */
static bool is_early(void)
{
	struct timespec now;
	uint64_t ms;

	sr_clock(CLOCK_MONOTONIC_COARSE, &now);
	ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	if (ms - last_ms >= sr_conf.report_ms)
		few = 0;
	last_ms = ms;
	return few < FEW && ++few;
}

/* False: the caller has to write the line at once. */
static bool gather_add(const char *line, size_t len)
{
	if (sr_load(&at_once) || len > BUFFER || is_early() || !sr_loop_runs())
		return false;
	if (len > BUFFER - buffered)
		gather_empty();
	memcpy(buffer + buffered, line, len);
	buffered += len;
	if (buffered == len)
		sr_loop_post(&task);
	return true;
}

void sr_gather_line(pid_t pid, const char *line, size_t len)
{
	bool added = false;

	if (sr_conf.report_ms && pid == sr_process_owner() && gather_take()) {
		added = gather_add(line, len);
		gather_give();
	}
	if (!added)
		gather_write(line, len);
}

/* ---- the end of the process, and fork ---- */

void sr_gather_end(void)
{
	uint64_t until;

	if (!sr_conf.report[0] || !sr_conf.report_ms)
		return;
	/* A thread that takes the buffer after us sees this, because we take it, too. */
	sr_store(&at_once, true);
	until = sr_now_ns() + END_NS;
	while (!gather_take()) {
		if (sr_load(&taken_by) == gather_thread() || sr_now_ns() > until)
			return;
		sr_now_sleep(50000);
	}
	gather_empty();
	gather_give();
}

void sr_gather_go_on(void)
{
	sr_store(&at_once, false);
}

void sr_gather_forget(void)
{
	if (!sr_conf.report[0])
		return;
	sr_store(&taken_by, 0);
	sr_store(&at_once, false);
	buffered = few = 0;
	timer.at_ns = 0;
}
