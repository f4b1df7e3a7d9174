/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * loop_hold.h - a stream and a fake link for a fuzz target: the service thread does nothing
 * while a case runs, and what is due between them.
 */
#ifndef SR_LOOP_HOLD_H
#define SR_LOOP_HOLD_H

#include "../unit/fake_link.h"
#include "../unit/loop_call.h"

#include <signal.h>

#define LOOKS 3000	/* the last ones a millisecond apart */

static sem_t held, go;

static inline void hold_loop(struct sr_task *t)
{
	(void)t;
	sem_post(&held);
	while (sem_wait(&go))
		;
}

static inline void do_nothing(void *arg)
{
	(void)arg;
}

static inline void loop_hold(void)
{
	static struct sr_task hold = {.fn = hold_loop};
	struct sigaction alarm;
	static bool once;

	if (!once) {
		setenv("SOCKRAIL_CONFIG_DIR", "/nonexistent", 1);
		setenv("SOCKRAIL_LOG_FILE", "/dev/null", 1);
		sigaction(SIGALRM, NULL, &alarm);	/* libFuzzer's interrupts connect() */
		alarm.sa_flags |= SA_RESTART;
		sigaction(SIGALRM, &alarm, NULL);
		sr_conf_load();
		sem_init(&held, 0, 0);
		sem_init(&go, 0, 0);
		once = true;
	}
	CHECK(!loop_call(do_nothing, NULL));
	sr_loop_post(&hold);
	sem_wait(&held);
}

static inline void loop_let_go(void)
{
	sem_post(&go);
}

/* The link is dead.  TCP is reset, so that nothing is waited for. */
static inline void fake_over(struct fake_pair *e)
{
	const struct linger at_once = {1, 0};
	unsigned before = fakes_freed;

	setsockopt(e->peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	fake_end(e);
	loop_let_go();
	for (int i = 0; i < LOOKS && fakes_freed == before; i++) {
		CHECK(!loop_call(do_nothing, NULL));
		if (i > 10)
			usleep(1000);
	}
	CHECK(fakes_freed > before);
}

#endif
