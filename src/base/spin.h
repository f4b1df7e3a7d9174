/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * spin.h - when a busy wait on a stream is worth its processor time.
 *
 * Two averages are kept of how long waits last: of those spun through, and of
 * those slept through.  Spinning goes on while its average is below
 * SOCKRAIL_SPIN_US, and clearly below the other: where waking a thread on another
 * core is slow, letting it have ours may be the quicker way.  Now and then a trial takes
 * the other of the two ways for some waits in a row; if it changes nothing, the time to
 * the next trial doubles.  The two ends of a connection wait equally often, so their
 * trials coincide: otherwise two sleeping ends would each find the other slow to wake,
 * and never try again.  When waits become too long for spinning it stops at once, and
 * when they become short again it is resumed at once.
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
