/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * jobs.c - owns the thread of jobs and their queue.  Lock: a leaf.
 *
 * The first job starts the thread.  The thread ends when there has been no job for IDLE_MS, so
 * that a program without jobs has one thread fewer.  exit(3) does not wait for it, because
 * whatever the kernel holds for a job ends with the process.  Its signal mask and stack are
 * those of the service thread.
 *
 * fork waits until the job has ended or comes to sr_work_pause(), as it does for the service
 * thread (base/lock.h).  So no lock of malloc(3) or of a driver's library is taken in the
 * child for ever, and no descriptor is between its opening and sr_fd_own().  The child forgets
 * the queue, and the objects that its jobs worked on.
 */
#include "base/sys.h" /* before any system header */
#include "base/jobs.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/process.h"

#define IDLE_MS 1000

static struct sr_mutex lock = SR_MUTEX(SR_RANK_LEAF);
static struct sr_job *first, **end = &first;
static atomic_int threads;	/* changed under the lock; sr_jobs_threads() is a hint */
/* Counts jobs; the idle thread sleeps on it.  sr_job_start() releases it after it has changed
 * the queue, and jobs_run() acquires it before it looks at the queue.  So jobs_run() finds each
 * job that the count includes. */
static atomic_uint started;

/* Takes the next job, or returns NULL.  In that case the calling thread ends, if `ends'. */
static struct sr_job *job_take(bool ends)
{
	struct sr_job *job;

	sr_lock(&lock);
	job = first;
	if (job)
		first = job->next;
	else if (ends)
		sr_store(&threads, 0);
	if (!first)
		end = &first;
	sr_unlock(&lock);
	return job;
}

/* Sleeps until `started' is no longer `seen'.  False: there was no job for IDLE_MS. */
static bool job_await(unsigned seen)
{
	const struct timespec limit = { .tv_sec = IDLE_MS / 1000 };
	long err;

	sr_work_end();
	err = SR_SYS(SYS_futex, &started, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen, &limit);
	err = err < 0 ? errno : 0;
	sr_work_begin();
	return err != ETIMEDOUT;
}

static void job_run(struct sr_job *job)
{
	job->run(job);
	sr_loop_post(&job->task);	/* it may be freed now */
}

static void jobs_run(void)
{
	bool idle = false;
	struct sr_job *job;
	unsigned seen;

	sr_inside = 1;
	sr_sys_set_name("sockrail-jobs");
	for (;;) {
		seen = sr_observe(&started);
		job = job_take(idle);
		if (job)
			job_run(job);
		else if (idle)
			return;
		idle = !job && !job_await(seen);
		sr_work_pause();
	}
}

static void job_done(struct sr_task *task)
{
	struct sr_job *job = SR_OF(struct sr_job, task, task);

	job->done(job);
}

void sr_job_start(struct sr_job *job)
{
	bool starts;

	job->task.fn = job_done;
	job->next = NULL;
	sr_lock(&lock);
	*end = job;
	end = &job->next;
	starts = !sr_load(&threads);
	sr_store(&threads, 1);
	sr_unlock(&lock);
	atomic_fetch_add_explicit(&started, 1, memory_order_release);
	if (!starts)
		SR_SYS(SYS_futex, &started, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL);
	else if (sr_thread_start(jobs_run))
		while ((job = job_take(true)))
			job_run(job);
}

int sr_jobs_threads(void)
{
	return sr_load(&threads);
}

void sr_jobs_forget(void)
{
	sr_mutex_init(&lock, SR_RANK_LEAF);
	first = NULL;
	end = &first;
	sr_store(&threads, 0);
}
