/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * scenes_fake.h - for scenes.c: the library is linked to the program, with the device
 * in memory of tests/unit/fake_verbs.h.  While figures are taken that device stands still
 * whenever a thread runs: everything that all threads have posted moves in one go when
 * they all sleep.  So the figures are the same in each run.
 */
#ifndef SCENES_FAKE_H
#define SCENES_FAKE_H

#include "base/real.h"

#include "../unit/fake_verbs.h"
#include "sockrail.h"
#include "scenes_watch.h"
#include "upgrade/upgrade.h"

#define CALL(name) sr_##name
/* For which threads wait in futex(2) that would not with a real device. */
#define DEVICE_HAS_LOCK true

struct device_counts {
	uint64_t requests, posts, events, arms, polls;
};

static inline struct device_counts device_look(void)
{
	return (struct device_counts){
		.requests = atomic_load(&fake_requests),
		.posts = fake_calls("post_send"),
		.events = fake_calls("v_get_cq_event"),
		.arms = fake_calls("req_notify_cq"),
		.polls = fake_calls("poll_cq"),
	};
}

static inline double device_calls(const struct device_counts *c)
{
	return (double)(c->requests + c->events + c->arms);
}

static inline void device_print(const struct device_counts *a, const struct device_counts *b,
				double messages)
{
	printf("requests %.3f\n", (double)(b->requests - a->requests) / messages);
	printf("posts %.3f\n", (double)(b->posts - a->posts) / messages);
	printf("events %.3f\n", (double)(b->events - a->events) / messages);
	printf("arms %.3f\n", (double)(b->arms - a->arms) / messages);
	printf("polls %.3f\n", (double)(b->polls - a->polls) / messages);
}

static inline void device_begin(void)
{
	const char *kind = getenv("SR_BENCH_DEVICE");

	/* As the constructor of src/service/fork.c, which is not linked. */
	sr_answer_init();
	fake_plug(kind && !strcmp(kind, "siw"));
}

static inline void device_hold(void)
{
	fake_pause(true);
}

static inline void device_release(void)
{
	fake_pause(false);
}

static inline void device_settle(void)
{
	if (await_sleep())
		return;
	/* TCP moves them, then. */
	fprintf(stderr, "scenes: messages move although the device stands still: "
			"not all streams have links\n");
	_exit(1);
}

/* Moves all that is posted; false: nothing was. */
static inline bool device_step(void)
{
	bool moved = false;

	while (fake_step(1000))
		moved = true;
	return moved;
}

static inline unsigned device_queue_pairs(void)
{
	return fake_queue_pairs();
}

static inline size_t device_pinned(void)
{
	return fake_pinned();
}

#endif
