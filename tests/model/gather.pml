/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gather.pml - records that wait for those of other links (src/link/verbs/post.c, is_gathering()).
 *
 * One end of a carrier.  The program has SAYS records to say, one after the other.  It posts what
 * is due, unless several links share the carrier and GATHER packets have not completed.  Between
 * two records it polls, or is about to sleep, or another link comes or goes; and at any moment it
 * computes for ever.  A packet takes all that is due.  Its completion counts for the packets in
 * front of it, too, and only packets that were posted while there were several links have one.
 * The service thread looks soon if it was asked to.  It posts what is due if no packet went out
 * since its last look, and otherwise leaves it to the program until the next one.
 *
 * In the end nothing is due, also if no packet ever completes (-DSTUCK).
 *
 * Mutations:
 *   M_UNASKED	nobody asks the service thread to look when records wait
 *   M_WAITS	the service thread takes completions, and posts only if there were some
 *   M_FIRST	it looks, and then forgets that it was asked to
 *   M_LEAVES	it forgets that also when it leaves something to the program
 */
#ifndef GATHER
#define GATHER 1
#endif
#define SAYS 5
#define CHANGES 3

chan way = [SAYS] of { bit };	/* packets under way: has it a completion? */
chan cq = [SAYS] of { byte };	/* completions: for so many packets */
byte due;			/* records that are not posted */
byte unseen;			/* packets that are not known to have completed */
byte signals;			/* of these have a completion that nobody has taken */
byte posted;			/* packets */
bool several, soon;
bool all_said;

#define GATHERING (several && unseen >= GATHER && signals > 0)

inline post(hurries)
{
	if
	:: due && (hurries || !GATHERING) ->
		due = 0;
		unseen++;
		posted++;
		signals = signals + several;
		way!several
	:: else
	fi;
#ifndef M_UNASKED
	soon = soon || (due && GATHERING);
#endif
}

inline poll()
{
	any = nempty(cq);
	do
	:: nempty(cq) ->
		cq?n;
		unseen = unseen - n;
		signals--
	:: empty(cq) -> break
	od;
	n = 0;
	if
	:: any -> post(false)
	:: else
	fi;
	any = false
}

/* What is above is done with the carrier's lock held. */

active proctype program()
{
	byte left = SAYS, changes = CHANGES, n;
	bool any;

	do
	:: atomic { left -> left--; due++; post(false) }
	:: atomic { changes -> changes--; several = !several }
	:: atomic { poll() }
	:: atomic { due -> post(true) }
	:: break
	od
}

#ifndef STUCK
active proctype device()
{
	byte passed;
	bit signalled;

end:	do
	:: atomic { way?signalled ->
		passed++;
		if
		:: signalled ->
			cq!passed;
			passed = 0
		:: else
		fi }
	od
}
#endif

active proctype service()
{
	byte n, seen;
	bool any;

end:	do
	:: atomic { soon && due && seen != posted -> seen = posted;
#ifdef M_LEAVES
		soon = false
#endif
		}
#ifdef M_FIRST
	:: atomic { soon -> poll(); post(true) };
		soon = false
#else
	:: atomic { soon && (!due || seen == posted) -> soon = false; poll();
#ifndef M_WAITS
		post(true)
#endif
		}
#endif
	od
}

active proctype end_of_all()
{
	timeout;
	all_said = !due;
	assert(all_said)
#ifdef REACH
	; assert(false)
#endif
}
