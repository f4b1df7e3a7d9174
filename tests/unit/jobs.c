/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * jobs.c - jobs run in their order, in one thread, while the loop goes on; the thread ends
 * when there are none; and the child of a fork has no job and no thread, and may start some.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fdpriv.h"
#include "base/jobs.h"
#include "base/list.h"
#include "base/lock.h"
#include "check.h"
#include "in_process.h"
#include "loop_call.h"

enum { JOBS = 20 };

struct job {
	struct sr_job job;
	int number;
};

static struct job jobs[JOBS];
static atomic_int runs, dones;
static pthread_t runner;
static sem_t begun, go;

static void run(struct sr_job *j)
{
	const struct job *job = SR_OF(struct job, job, j);

	CHECK(!sr_loop_here());
	if (job->number)
		CHECK(pthread_equal(runner, pthread_self()));
	runner = pthread_self();
	CHECK_EQ(atomic_fetch_add(&runs, 1), job->number);
	sem_post(&begun);
	if (!job->number)
		CHECK(!sem_wait(&go));
}

static void done(struct sr_job *j)
{
	CHECK(sr_loop_here());
	CHECK_EQ(atomic_fetch_add(&dones, 1), SR_OF(struct job, job, j)->number);
}

static void start_all(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < JOBS; i++) {
		jobs[i] = (struct job){.job = {.run = run, .done = done}, .number = i};
		sr_job_start(&jobs[i].job);
	}
}

static void nothing(void *arg)
{
	(void)arg;
}

static void await_count(atomic_int *count, int n)
{
	for (int i = 0; i < 20000 && atomic_load(count) < n; i++)
		usleep(1000);
	CHECK_EQ(atomic_load(count), n);
}

/* The first job blocks, and the loop does not. */
static void begin_jobs(void)
{
	atomic_store(&runs, 0);
	atomic_store(&dones, 0);
	CHECK(!sem_init(&begun, 0, 0) && !sem_init(&go, 0, 0));
	CHECK(!loop_call(start_all, NULL));
	CHECK(!sem_wait(&begun));
	CHECK(!loop_call(nothing, NULL));
	CHECK_EQ(atomic_load(&runs), 1);
	CHECK_EQ(atomic_load(&dones), 0);
	CHECK_EQ(sr_jobs_threads(), 1);
}

static void end_jobs(void)
{
	sem_post(&go);
	await_count(&dones, JOBS);
	CHECK_EQ(atomic_load(&runs), JOBS);
}

static int in_child(void *arg)
{
	(void)arg;
	sr_loop_forget();
	sr_jobs_forget();
	sr_fd_forget_all(NULL);
	CHECK_EQ(sr_jobs_threads(), 0);
	begin_jobs();
	end_jobs();
	return 0;
}

/* While a job blocks. */
static void test_fork(void)
{
	begin_jobs();
	CHECK_EQ(in_process(in_child, NULL, 40), 0);
	CHECK_EQ(atomic_load(&runs), 1);
	end_jobs();
}

static void test_idle(void)
{
	for (int i = 0; i < 20000 && sr_jobs_threads(); i++)
		usleep(1000);
	CHECK_EQ(sr_jobs_threads(), 0);
	begin_jobs();
	end_jobs();
}

int main(void)
{
	alarm(120);
	sr_conf_load();
	begin_jobs();
	end_jobs();
	begin_jobs();	/* the thread waits */
	end_jobs();
	test_fork();
	test_idle();
	return 0;
}
