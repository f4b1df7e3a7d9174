/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * line.pml - who gets memory by a line between network namespaces (src/link/shm/line.c,
 * src/upgrade/prove.c; sockrail-protocol(7), "Shared memory between network namespaces").
 *
 * ASKER and ANSWERER know what their stream has carried.  They exchange shares, then the asker
 * says its proof, and the answerer its own, with its memory.  With DIRECT they have one line.
 * Else a RELAY is in between, who is connected to both: it hears everything, passes on, keeps,
 * mixes and invents what it likes, but cannot make a proof of what it does not know.  It obtains
 * no memory, and the asker uses none that is not the answerer's.
 *
 * A proof is what goes into it: the history, the line's identity, both shares, and who says it.
 *
 * Mutations (-DM_...):
 *   IDENTITY  a proof holds for any line
 *   TOLD      the asker has the identity from the other end, and not from the kernel
 *   EARLY     the answerer does not wait for the asker's proof
 *   UNPROVEN  the asker uses the memory, whatever the proof that comes with it
 *   ROLE      a proof is the same, whoever says it
 */
#define SHARE_OF_ASKER 1
#define SHARE_OF_ANSWERER 2
#define SHARE_OF_RELAY 3
#define HISTORY 1
#define GUESS 2
/* The inode at the answerer's end of the answerer's line, and at the relay's end of the asker's */
#define LINE_OF_ANSWERER 1
#define LINE_OF_RELAY 2
#define ASKS 1
#define ANSWERS 2
#define MEMORY_OF_ANSWERER 1
#define MEMORY_OF_RELAY 2

#ifdef DIRECT
#define LINE_OF_ASKER LINE_OF_ANSWERER
#define HEARD_BY_ANSWERER of_asker
#define HEARD_BY_ASKER of_answerer
#else
#define LINE_OF_ASKER LINE_OF_RELAY
#define HEARD_BY_ANSWERER to_answerer
#define HEARD_BY_ASKER to_asker
#endif
#ifdef M_IDENTITY
#define IDENTITY(line) 0
#else
#define IDENTITY(line) line
#endif
#ifdef M_ROLE
#define SAYS(role) 0
#else
#define SAYS(role) role
#endif

mtype = { SHARE, PROOF };
/* SHARE: whose, and the identity that its sender claims.  PROOF: history, identity, the asker's
 * share, the answerer's, role, memory. */
chan of_asker = [2] of { mtype, byte, byte, byte, byte, byte, byte };
chan of_answerer = [2] of { mtype, byte, byte, byte, byte, byte, byte };
chan to_answerer = [2] of { mtype, byte, byte, byte, byte, byte, byte };
chan to_asker = [2] of { mtype, byte, byte, byte, byte, byte, byte };

byte used;			/* the asker's memory */
bool relay_has_none = true;
bool asker_uses_answerers = true;
bool linked = true;		/* false: at the end, without a relay, there is no link */

active proctype asker()
{
	byte share, line, history, identity, mine, other, role, memory;

	of_asker!SHARE(SHARE_OF_ASKER, 0, 0, 0, 0, 0);
	HEARD_BY_ASKER?SHARE(share, line, _, _, _, _);
	if
	:: share == SHARE_OF_ASKER -> goto over	/* one's own is refused */
	:: else
	fi;
#ifndef M_TOLD
	line = LINE_OF_ASKER;
#endif
	of_asker!PROOF(HISTORY, IDENTITY(line), SHARE_OF_ASKER, share, SAYS(ASKS), 0);
	HEARD_BY_ASKER?PROOF(history, identity, mine, other, role, memory);
#ifndef M_UNPROVEN
	if
	:: history == HISTORY && identity == IDENTITY(line) && mine == SHARE_OF_ASKER &&
	   other == share && role == SAYS(ANSWERS)
	:: else -> goto over
	fi;
#endif
	used = memory;
	asker_uses_answerers = (memory != MEMORY_OF_RELAY);
	assert(asker_uses_answerers);
over:
	skip
}

active proctype answerer()
{
	byte share, history, identity, mine, other, role;

	HEARD_BY_ANSWERER?SHARE(share, _, _, _, _, _);
	if
	:: share == SHARE_OF_ANSWERER -> goto over
	:: else
	fi;
	of_answerer!SHARE(SHARE_OF_ANSWERER, LINE_OF_ANSWERER, 0, 0, 0, 0);
#ifndef M_EARLY
	HEARD_BY_ANSWERER?PROOF(history, identity, other, mine, role, _);
	if
	:: history == HISTORY && identity == IDENTITY(LINE_OF_ANSWERER) && other == share &&
	   mine == SHARE_OF_ANSWERER && role == SAYS(ASKS)
	:: else -> goto over
	fi;
#endif
	of_answerer!PROOF(HISTORY, IDENTITY(LINE_OF_ANSWERER), share, SHARE_OF_ANSWERER, SAYS(ANSWERS),
			  MEMORY_OF_ANSWERER);
over:
	skip
}

#ifdef DIRECT
/* Nothing is lost or refused where nobody is in between. */
active proctype observer()
{
	timeout;
	linked = (used == MEMORY_OF_ANSWERER);
	assert(linked)
}
#else
active proctype relay()
{
	byte share[3];	/* what it has heard; share[0] is its own */
	byte spoken[3], memory, n, line;
	byte history, identity, first, second, role;

	share[0] = SHARE_OF_RELAY;
	history = GUESS;
	do
	:: of_asker?SHARE(share[1], _, _, _, _, _)
	:: of_answerer?SHARE(share[2], _, _, _, _, _)
	/* It keeps one proof, the last one or an earlier one of the answerer */
	:: of_asker?PROOF(history, identity, first, second, role, _)
	:: of_answerer?PROOF(history, identity, first, second, role, memory) ->
		relay_has_none = (memory == 0);
		assert(relay_has_none)
	:: of_answerer?PROOF(_, _, _, _, _, memory) ->
		relay_has_none = (memory == 0);
		assert(relay_has_none)
	/* A share of those that it has, with any identity, to either end, once; then a proof */
	:: atomic { spoken[1] == 0 ->
		if :: n = 0 :: n = 1 :: n = 2 fi;
		if :: line = LINE_OF_ANSWERER :: line = LINE_OF_RELAY fi;
		if
		:: share[n] != 0 -> to_answerer!SHARE(share[n], line, 0, 0, 0, 0); spoken[1] = 1
		:: else
		fi }
	:: atomic { spoken[2] == 0 ->
		if :: n = 0 :: n = 1 :: n = 2 fi;
		if :: line = LINE_OF_ANSWERER :: line = LINE_OF_RELAY fi;
		if
		:: share[n] != 0 -> to_asker!SHARE(share[n], line, 0, 0, 0, 0); spoken[2] = 1
		:: else
		fi }
	:: atomic { spoken[1] == 1 ->
		to_answerer!PROOF(history, identity, first, second, role, 0); spoken[1] = 2 }
	:: atomic { spoken[2] == 1 ->
		to_asker!PROOF(history, identity, first, second, role, MEMORY_OF_RELAY); spoken[2] = 2 }
	:: break
	od
}
#endif
