/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * spin.c - owns the guess whether to spin (spin.h).  No locks.
 */
#include "stream/spin.h"

#include <sched.h>

#define TRIAL 8		/* waits in a row */
#define STOLEN_NS 50000 /* far more than a look costs, less than a time slice */
#define GAP_MIN 64
#define GAP_MAX 4096

/* On a single core spinning only keeps the peer from running. */
static bool one_core(void)
{
	static atomic_int cores;
	int n = atomic_load_explicit(&cores, memory_order_relaxed);
	cpu_set_t set;

	if (!n) {
		n = sched_getaffinity(0, sizeof(set), &set) == 0 ?
			    CPU_COUNT(&set) : 2;
		atomic_store_explicit(&cores, n, memory_order_relaxed);
	}
	return n == 1;
}

static unsigned get(atomic_uint *x)
{
	return atomic_load_explicit(x, memory_order_relaxed);
}

static void set(atomic_uint *x, unsigned value)
{
	atomic_store_explicit(x, value, memory_order_relaxed);
}

bool sr_spin_pays(struct sr_spin *sp, uint64_t limit_ns)
{
	unsigned gap, waits;

	if (!limit_ns || one_core())
		return false;
	if (get(&sp->average) <= limit_ns)
		return true;
	gap = get(&sp->gap);
	if (!gap)
		set(&sp->gap, gap = GAP_MIN);
	waits = get(&sp->waits) + 1;
	set(&sp->waits, waits);
	if (waits < gap)
		return false;
	if (waits >= gap + TRIAL) {
		set(&sp->waits, 0);
		set(&sp->gap, gap < GAP_MAX ? gap * 2 : gap);
	}
	return true;
}

void sr_spin_learn(struct sr_spin *sp, uint64_t limit_ns, uint64_t took_ns)
{
	uint64_t old = get(&sp->average), cap = limit_ns * 4;

	if (took_ns > cap)
		took_ns = cap;
	if (old > limit_ns && took_ns <= limit_ns / 2 &&
	    get(&sp->waits) >= get(&sp->gap)) {
		old = took_ns; /* the trial paid */
		set(&sp->gap, GAP_MIN);
		set(&sp->waits, 0);
	}
	set(&sp->average, (unsigned)((old * 7 + took_ns) / 8));
}

bool sr_spin_stolen(struct sr_spin *sp, uint64_t limit_ns, uint64_t gap_ns)
{
	if (gap_ns < STOLEN_NS)
		return false;
	set(&sp->average, (unsigned)(limit_ns * 4));
	return true;
}
