/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gate.c - while the gate of the direction that we send on is shut nobody is inside,
 * however many come and go as it is being shut.
 */
#include "base/real.h"

#include <pthread.h>
#include <sched.h>

#include "engine/engine.h"
#include "engine/impl.h"
#include "check.h"

static struct sr_stream st = {
	.anchor = -1,
	.tx_lock = SR_MUTEX(SR_RANK_TX),
	.sets.lock = SR_MUTEX(SR_RANK_EPOLL),
	.waits.lock = SR_MUTEX(SR_RANK_WAIT),
};
static atomic_int inside, shut;
static atomic_bool over;

static void *sender(void *arg)
{
	while (!atomic_load(&over)) {
		if (!sr_tx_gate_enter(&st))
			continue;
		atomic_fetch_add(&inside, 1);
		CHECK(!atomic_load(&shut));
		atomic_fetch_sub(&inside, 1);
		sr_tx_gate_leave(&st);
	}
	return arg;
}

int main(void)
{
	pthread_t t[3];
	unsigned n = 0;

	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, sender, NULL);
	/* (It is not shut while somebody is inside.) */
	for (unsigned tries = 0; tries < 1500000 || (!n && tries < 1500000000); tries++) {
		sr_lock(&st.tx_lock);
		if (sr_tx_gate_close(&st)) {
			CHECK_EQ(atomic_load(&inside), 0);
			atomic_store(&shut, 1);
			if (n++ % 64 == 0)
				sched_yield();
			CHECK_EQ(atomic_load(&inside), 0);
			atomic_store(&shut, 0);
			sr_tx_gate_open(&st);
		}
		sr_unlock(&st.tx_lock);
	}
	atomic_store(&over, true);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	CHECK(n > 0);
	CHECK_EQ(atomic_load(&st.out.gate) & (SR_GATE_COUNT | SR_GATE_SHUT), 0);
	return 0;
}
