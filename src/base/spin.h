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

/* Per stream.  Two threads that wait on one stream may both count here; what is
 * lost by that is a guess's quality. */
struct sr_spin {
	atomic_uint average[2];	/* ns; by way: awake, asleep */
	atomic_uint way;	/* the usual one; awake at first */
	atomic_uint by_need;	/* asleep, as waits were too long */
	atomic_uint took_way;	/* of the wait that goes on */
	atomic_uint gap;	/* waits between trials; 0: none yet */
	atomic_uint waits;	/* since the last trial */
	atomic_uint trial, trial_ns; /* waits of this one, and their sum */
};

/* Is this wait to be spun through?  limit_ns: the longest busy wait.  same_core: the peer
 * would have to run on this core; such a wait is slept through and does not
 * count. */
bool sr_spin_pays(struct sr_spin *sp, uint64_t limit_ns, bool same_core);
/* Was the core taken away between two looks at the clock of a busy wait?  Then it
 * is wanted elsewhere, perhaps by the peer: the busy wait is over and has failed. */
bool sr_spin_stolen(struct sr_spin *sp, uint64_t limit_ns, uint64_t gap_ns);
/* A wait is over: it took that long, asleep or awake. */
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
