/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * spin.h - when a busy wait on a stream is worth its processor time.
 *
 * Spinning goes on while it pays: while the moving average of how long the
 * stream's waits last is below SOCKRAIL_SPIN_US.  A wait counts as at most four
 * times that, so that a busy phase after a quiet one is noticed within some waits.
 *
 * That alone has a trap: where both ends sleep, each finds the other slow to wake
 * and goes on sleeping.  So every now and then some waits in a row are spun
 * through as a trial.  The two ends of a conversation wait equally often, and so
 * their trials meet.  A trial that fails doubles the time to the next.
 */
#ifndef SR_SPIN_H
#define SR_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Per stream.  Two threads that wait on one stream may both count here; what is
 * lost by that is a guess's quality. */
struct sr_spin {
	atomic_uint average;	/* ns */
	atomic_uint gap;	/* waits between trials; 0: none yet */
	atomic_uint waits;	/* since the last trial */
};

/* Is this wait to be spun through?  limit_ns: the longest busy wait. */
bool sr_spin_pays(struct sr_spin *sp, uint64_t limit_ns);
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
