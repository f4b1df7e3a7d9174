/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * verbs_here.h - for verbs_pair.h: this process answers as well, on the device
 * of fake_verbs.c.  After a test nothing may be left of what it made.
 */
#ifndef SR_VERBS_HERE_H
#define SR_VERBS_HERE_H

#include "fake_profile.h"
#include "fake_verbs.h"
#include "in_process.h"

static bool iwarp;

static inline void add_device(void)
{
	fake_plug(iwarp);
}

static inline void remove_device(void)
{
	fake_unplug();
}

static inline bool may_remove(void)
{
	return true;
}

static inline void kill_answerer(void)
{
	fake_kill();
}

static void start_answerer(bool patient)
{
	int err = 0;

	fake_plug(iwarp);
	wait_limit = patient ? 60000 : 20000;
	CHECK(!loop_call(listen_call, &err) && !err);
}

static void unlisten_call(void *arg)
{
	(void)arg;
	sr_rendezvous_verbs.unlisten(listener);
}

static void no_call(void *arg)
{
	(void)arg;
}

static void spare_call(void *arg)
{
	(void)arg;
	sr_vcarriers_spare("memory");
}

/* All that the test made goes, and the device, too.  (Carriers that are kept for the next link
 * are closed at once.) */
static void stop_answerer(void)
{
	struct end *e, *next;
	unsigned i;

	for (i = 0; i < 20000 && sr_memory_used(); i++) {
		CHECK(!loop_call(spare_call, NULL));
		usleep(1000);
	}
	CHECK(!sr_memory_used());
	if (listener)
		CHECK(!loop_call(unlisten_call, NULL));
	listener = NULL;
	fake_unplug();
	for (i = 0; i < 5000 && atomic_load(&fake_alive); i++)
		usleep(1000);
	CHECK(!atomic_load(&fake_alive));
	CHECK(!loop_call(no_call, NULL)); /* what was posted is done */
	for (e = atomic_exchange(&ends, NULL); e; e = next) {
		next = e->next;
		if (e->answers)
			pthread_join(e->thread, NULL);
		if (e->efd[0] >= 0)
			close_fds(e);
		free(e);
	}
}

#endif
