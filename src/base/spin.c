/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * spin.c - decides whether a thread spins or sleeps (spin.h).  No locks.
 */
#include "base/sys.h" /* before any system header */
#include "base/spin.h"
#include "base/order.h"

#include <sched.h>
#include <string.h>

#define TRIAL 8		/* waits in a row */
#define GAP_MIN 64
#define GAP_MAX 4096
#define STOLEN_NS 50000 /* far more than a look costs, less than a time slice */

enum { AWAKE, ASLEEP, NEITHER };

/* On a single core spinning only keeps the peer from running. */
static bool one_core(void)
{
	static atomic_int cores;
	int n = sr_load(&cores);
	cpu_set_t set;

	if (!n) {
		memset(&set, 0, sizeof(set));	/* the kernel writes fewer bytes */
		n = SR_SYS(SYS_sched_getaffinity, 0, sizeof(set), &set) > 0 ?
			    CPU_COUNT(&set) : 2;
		sr_store(&cores, n);
	}
	return n == 1;
}

static unsigned spin_get(atomic_uint *x)
{
	return sr_load(x);
}

static void spin_set(atomic_uint *x, unsigned value)
{
	sr_store(x, value);
}

static void spin_choose(struct sr_spin *sp, unsigned way, bool by_need)
{
	spin_set(&sp->way, way);
	spin_set(&sp->by_need, by_need);
	spin_set(&sp->gap, GAP_MIN);
	spin_set(&sp->waits, 0);
	spin_set(&sp->trial, 0);
	spin_set(&sp->trial_ns, 0);
}

bool sr_spin_pays(struct sr_spin *sp, uint64_t limit_ns, bool same_core)
{
	unsigned way = spin_get(&sp->way), gap = spin_get(&sp->gap);

	if (!limit_ns || one_core())
		return false;
	if (same_core) {
		spin_set(&sp->took_way, NEITHER);
		return false;
	}
	spin_set(&sp->waits, spin_get(&sp->waits) + 1);
	if (spin_get(&sp->waits) > (gap ? gap : GAP_MIN))
		way = !way;
	spin_set(&sp->took_way, way);
	return way == AWAKE;
}

static bool awake_is_better(struct sr_spin *sp, uint64_t limit_ns)
{
	unsigned awake = spin_get(&sp->average[AWAKE]);
	unsigned asleep = spin_get(&sp->average[ASLEEP]);

	return awake <= limit_ns && awake < asleep - asleep / 8;
}

static void spin_judge(struct sr_spin *sp, uint64_t limit_ns, unsigned tried)
{
	unsigned gap = spin_get(&sp->gap) ?: GAP_MIN, best;

	spin_set(&sp->average[tried], spin_get(&sp->trial_ns) / TRIAL);
	best = awake_is_better(sp, limit_ns) ? AWAKE : ASLEEP;
	spin_choose(sp, best, best == ASLEEP && spin_get(&sp->average[AWAKE]) > limit_ns);
	if (best != tried)
		spin_set(&sp->gap, gap < GAP_MAX ? gap * 2 : gap);
}

void sr_spin_learn(struct sr_spin *sp, uint64_t limit_ns, uint64_t took_ns)
{
	unsigned way = spin_get(&sp->took_way), cap = (unsigned)limit_ns * 4;
	unsigned took = took_ns < cap ? (unsigned)took_ns : cap, average;

	if (way == NEITHER)
		return;
	if (way != spin_get(&sp->way)) {
		spin_set(&sp->trial_ns, spin_get(&sp->trial_ns) + took);
		spin_set(&sp->trial, spin_get(&sp->trial) + 1);
		if (spin_get(&sp->trial) == TRIAL)
			spin_judge(sp, limit_ns, way);
		return;
	}
	average = (unsigned)(((uint64_t)spin_get(&sp->average[way]) * 7 + took) / 8);
	spin_set(&sp->average[way], average);
	if (way == AWAKE && average > limit_ns) {
		spin_set(&sp->average[ASLEEP], average);
		spin_choose(sp, ASLEEP, true);
	} else if (way == ASLEEP && spin_get(&sp->by_need) && average <= limit_ns) {
		spin_set(&sp->average[AWAKE], average);
		spin_choose(sp, AWAKE, false);
	}
}

bool sr_spin_stolen(struct sr_spin *sp, uint64_t limit_ns, uint64_t gap_ns)
{
	if (gap_ns < STOLEN_NS)
		return false;
	spin_set(&sp->average[AWAKE], (unsigned)limit_ns * 4);
	spin_choose(sp, ASLEEP, false);
	return true;
}
