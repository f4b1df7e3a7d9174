/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * spin.h - when a busy wait on a stream is worth its processor time.
 *
 * There are two ways to wait: to spin (AWAKE) and to sleep (ASLEEP).  Each has an average of
 * how long its waits last.  Threads spin while the average of spinning is below
 * SOCKRAIL_SPIN_US, and clearly below that of sleeping.  (Sleeping may be faster, because the
 * peer can then run on this core, and to wake a thread on another core is slow.)
 *
 * Now and then a trial takes the other way for some waits in a row.  If that changes nothing,
 * the number of waits to the next trial doubles.  The two ends of a connection wait equally
 * often, so their trials coincide.  Otherwise each of two sleeping ends would find that
 * spinning does not help, because the other end is slow to wake, and both would go on
 * sleeping.  When waits become too long for spinning, spinning stops at once; when they become
 * short again, it begins again at once.
 */
#ifndef SR_SPIN_H
#define SR_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One for each stream.  If two threads wait on one stream and both count here, only the
 * guess gets worse. */
struct sr_spin {
	atomic_uint average[2];	/* ns; by way: awake, asleep */
	atomic_uint way;	/* the usual one; awake at first */
	atomic_uint by_need;	/* way is ASLEEP because waits were too long for spinning */
	atomic_uint took_way;	/* the way of the present wait */
	atomic_uint gap;	/* waits between trials; 0: none yet */
	atomic_uint waits;	/* since the last trial */
	atomic_uint trial, trial_ns; /* waits of the present trial, and the sum of their times */
};

/* Should this wait begin by spinning?  limit_ns: the longest busy wait.  same_core: the peer
 * would have to run on this core; then the thread should sleep, and the wait does not
 * count. */
bool sr_spin_pays(struct sr_spin *sp, uint64_t limit_ns, bool same_core);
/* Was the core taken away between two looks at the clock of a busy wait?  Then another
 * thread needs it, perhaps the peer's: the busy wait should end, and counts as too long. */
bool sr_spin_stolen(struct sr_spin *sp, uint64_t limit_ns, uint64_t gap_ns);
/* A wait has ended; took_ns is how long it took. */
void sr_spin_learn(struct sr_spin *sp, uint64_t limit_ns, uint64_t took_ns);

static inline void sr_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
