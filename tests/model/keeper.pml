/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * keeper.pml - who answers for a stream, where several processes accept at one
 * address (src/upgrade/keeper.c; sockrail-protocol(7), "Servers of several processes").
 *
 * N processes share the address.  Process PARENT has accepted the stream; at some moment before
 * there is a link it may fork, so that its child HOME has the stream, and PARENT has it no
 * more.  The keeper holds the name; each other one has a line to the keeper.  Up to KILLS of them
 * are killed, at any moment, but not the one that has the stream: with it the stream ends.  Then
 * the asker must get its link in the end, and must never talk to a process without the stream.
 * If that one may be killed, too (-DHOMEDIES), the asker must come to an end.  Time passes only
 * when nothing else can happen: what a limit ends here could not have gone on.
 *
 * Mutations (-DM_...):
 *   STALE   the keeper answers from memory, and does not look at the worker's line
 *   WAITS   an asker that was sent to a process which has ended waits for its answer
 *   NOHEIR  nobody takes the name of a keeper that was killed
 *   NOJOIN  the workers do not join the new keeper
 *   LEFT    a worker lets an asker wait that was sent to it and whose stream has left since
 *   ANY     the keeper sends the asker to some worker, without asking whose it is
 */
#define N 3
#define PARENT 1
#define HOME 2
#ifndef KILLS
#define KILLS 2
#endif
#define NONE 7
#define HOPS 3		/* SR_THERE_MOST */

#ifdef M_NOHEIR
#define HEIR !joined_once[_pid]
#else
#define HEIR true
#endif
#ifdef M_NOJOIN
#define JOINS !joined_once[_pid]
#else
#define JOINS true
#endif
#ifdef HOMEDIES
#define MORTAL true
#else
#define MORTAL (_pid != home)
#endif

bool dead[N];
byte keeper = NONE;
byte home = PARENT;	/* the process that has the stream */
bool line[N];		/* to the keeper that there is */
bool joined_once[N];
byte memory = NONE;	/* a worker that once said it had a stream */
byte kills;
bool peace;		/* nobody is killed any more */
byte link = NONE;	/* the process that the asker has its link with */
bool plain;

inline end_lines()
{
	line[0] = false; line[1] = false; line[2] = false;
}

/* A process that shares the address: takes the name if nobody has it, else joins. */
active [N] proctype process()
{
end:	do
	:: atomic { !dead[_pid] && keeper == NONE && HEIR ->
		keeper = _pid; end_lines() }
	:: atomic { !dead[_pid] && keeper != NONE && keeper != _pid && !line[_pid] &&
		    JOINS ->
		line[_pid] = true; joined_once[_pid] = true;
		/* it had another stream, for which an asker came */
		if
		:: memory == NONE -> memory = _pid
		:: skip
		fi }
	:: atomic { !dead[_pid] && MORTAL && !peace && kills < KILLS ->
		kills++; dead[_pid] = true; line[_pid] = false;
		if
		:: keeper == _pid -> keeper = NONE; end_lines()
		:: else
		fi }
	:: atomic { _pid == home && home == PARENT && !dead[PARENT] && !dead[HOME] &&
		    link == NONE ->
		home = HOME }
	:: dead[_pid] -> break
	od
}

active proctype fate()
{
	peace = true
}

active proctype asker()
{
	byte k, to, hops;

ask:	if
	:: atomic { keeper != NONE -> k = keeper }
	:: timeout -> goto give_up	/* no listener */
	fi;
	if
	:: k == home -> to = k
	:: k != home ->
		/* the request waits with the keeper, and is lost with it */
		if
		:: atomic { keeper == k && line[home] -> to = home }
		:: atomic { keeper == k && k == home -> to = k }	/* it is the child */
#ifdef M_STALE
		:: atomic { keeper == k && memory != NONE && memory != k -> to = memory }
#endif
#ifdef M_ANY
		:: atomic { keeper == k && line[1 - (k % 2)] -> to = 1 - (k % 2) }
#endif
		:: keeper != k -> goto ask
		:: timeout -> goto give_up	/* nobody has it */
		fi;
	fi;
	hops++;
	if
	:: hops > HOPS -> goto give_up
	:: else
	fi;
	if
#ifdef M_ANY
	:: atomic { !dead[to] -> assert(to == home); link = to }; goto done
#else
	:: atomic { !dead[to] && to == home -> link = to }; goto done
#endif
#ifdef M_LEFT
	:: !dead[to] && to != home && to != k -> timeout; goto give_up
	:: !dead[to] && to != home && to == k -> goto ask
#else
	/* A worker refuses: no-listener.  The request goes on waiting with a keeper. */
	:: !dead[to] && to != home -> goto ask
#endif
#ifdef M_WAITS
	:: dead[to] -> timeout; assert(false)
#else
	:: dead[to] -> goto ask
#endif
	fi;
give_up:
	plain = true;
done:
#ifndef HOMEDIES
	assert(!plain)
#endif
}
