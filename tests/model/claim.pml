/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * claim.pml - what a keeper believes of a worker that becomes another user
 * (src/upgrade/claim.c, keeper.c; sockrail-protocol(7), "Several processes at one address").
 *
 * Two processes of root have a line to the keeper.  LIAR has a stream of its own, OWN.  It
 * claims it or not, becomes another user, and from then on claims, and says that it has,
 * whatever it likes.  OTHER is honest, and remains root.  OWN may end, and OTHER accept a
 * stream of the same name, also while what LIAR has sent is not read yet.  No asker of a
 * stream of OTHER's may be sent to LIAR; and if LIAR has claimed OWN in time, and nothing
 * ends, it can be said of it.
 *
 * Mutations (-DM_...):
 *   LINE    the keeper believes the user who made the line
 *   LATE    the keeper binds a claim, whoever sends it
 *   TUPLE   a claim is of a name, not of its socket
 *   READ    a claim is of the socket that has the name when the keeper reads it
 */
#define ROOT 0
#define USER 1
#define NAMES 2		/* 0: that of LIAR's stream; 1: of another one, which is OTHER's */

mtype = { CLAIM, HAVE, END };
chan line = [2] of { mtype, byte, byte, byte };	/* word, name, sender, socket */

byte liar = ROOT;	/* its user now */
byte socket[NAMES];	/* which socket has the name: 1 is LIAR's, 2 and 3 are OTHER's */
byte claimed[NAMES];	/* on LIAR's line: a socket, 0: none */
bool in_time;		/* the claim was sent before */
bool found;		/* LIAR's own stream was */
bool ended;
bool ready;

#ifdef M_LINE
#define IS_ROOT(sender) true
#else
#define IS_ROOT(sender) (sender == ROOT)
#endif
#ifdef M_LATE
#define BINDS(sender) true
#else
#define BINDS(sender) IS_ROOT(sender)
#endif
#ifdef M_READ
#define SOCKET(n, s) socket[n]
#else
#define SOCKET(n, s) s
#endif
#ifdef M_TUPLE
#define IS_CLAIMED(n) (claimed[n] != 0)
#else
#define IS_CLAIMED(n) (claimed[n] != 0 && claimed[n] == socket[n])
#endif

active proctype process()
{
	ready;
	/* while it is honest */
	if
	:: atomic { !ended -> line!CLAIM(0, liar, socket[0]); in_time = true }
	:: skip
	fi;
	liar = USER;
	do
	:: line!CLAIM(0, liar, socket[0])
	:: line!CLAIM(1, liar, socket[1])
	:: line!HAVE(0, liar, 0)
	:: line!HAVE(1, liar, 0)
	:: break
	od;
	line!HAVE(0, liar, 0);
	line!END(0, liar, 0)
}

/* The sockets are root's: USER owns none. */
active proctype keeper()
{
	byte n, sender, s;

	do
	:: atomic { line?CLAIM(n, sender, s) ->
		if
		:: BINDS(sender) && SOCKET(n, s) == socket[n] -> claimed[n] = socket[n]
		:: else
		fi }
	:: atomic { line?HAVE(n, sender, _) ->
		if
		:: IS_ROOT(sender) || IS_CLAIMED(n) ->
			assert(socket[n] == 1);
			found = true
		:: else
		fi }
	:: atomic { line?END(_, _, _) ->
		assert(!in_time || ended || found);
		break }
	od
}

active proctype other()
{
	ready;
	if
	:: atomic { ended = true; socket[0] = 3 }
	:: skip
	fi
}

init { atomic { socket[0] = 1; socket[1] = 2; ready = true } }
