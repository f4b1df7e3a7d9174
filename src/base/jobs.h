/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * jobs.h - work that may block for long, and needs nothing of the loop: the service thread
 * hands it to a second thread, which does one job after the other.  When a job is done, the
 * loop calls its done().
 */
#ifndef SR_JOBS_H
#define SR_JOBS_H

#include "base/loop.h"

/* All members but run and done begin as zero. */
struct sr_job {
	/* In the thread of jobs.  It calls sr_work_pause() where fork may copy the process. */
	void (*run)(struct sr_job *job);
	/* Afterwards, in the loop.  It may free the job, or start it again. */
	void (*done)(struct sr_job *job);
	struct sr_task task;
	struct sr_job *next;
};

/* Jobs run in the order in which they were started.  If there can be no thread, run() is
 * called at once; done() is called later in any case.  loop */
void sr_job_start(struct sr_job *job);
/* How many threads of this kind there are: 0 or 1.  any */
int sr_jobs_threads(void);
/* In the child of fork: there is no thread and no job. */
void sr_jobs_forget(void);

#endif
