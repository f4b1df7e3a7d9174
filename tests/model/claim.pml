/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * claim.pml - what a keeper believes of a worker that becomes another user
 * (src/upgrade/claim.c, keeper.c; sockrail-protocol(7), "Several processes at one address").
 *
 * Two processes of root have a line to the keeper.  LIAR has a stream of its own, OWN.  It
 * claims it or not, becomes another user, and from then on claims, and says that it has,
 * whatever it likes.  OTHER is honest, and remains root.  OWN may end, and OTHER accept a
 * stream of the same name.  No asker of a stream of OTHER's may be sent to LIAR; and if LIAR
 * has claimed OWN in time, and nothing ends, it can be said of it.
 *
 * Mutations (-DM_...):
 *   LINE    the keeper believes the user who made the line
 *   LATE    the keeper binds a claim, whoever sends it
 *   TUPLE   a claim is of a name, not of its socket
 */
#define ROOT 0
#define USER 1
#define NAMES 2		/* 0: that of LIAR's stream; 1: of another one, which is OTHER's */

byte liar = ROOT;	/* its user now */
byte socket[NAMES];	/* which socket has the name: 1 is LIAR's, 2 and 3 are OTHER's */
byte claimed[NAMES];	/* on LIAR's line: a socket, 0: none */
bool in_time;		/* the claim was sent before */
bool found;		/* LIAR's own stream was */
bool ended;
bool ready;

#ifdef M_LINE
#define SENDER ROOT
#else
#define SENDER liar
#endif
#ifdef M_LATE
#define BINDS true
#else
#define BINDS (SENDER == ROOT)
#endif
#ifdef M_TUPLE
#define IS_CLAIMED(n) (claimed[n] != 0)
#else
#define IS_CLAIMED(n) (claimed[n] != 0 && claimed[n] == socket[n])
#endif

inline send_claim(n)
{
	if
	:: BINDS -> claimed[n] = socket[n]
	:: else
	fi
}

/* The sockets are root's: USER owns none. */
inline send_have(n)
{
	if
	:: SENDER == ROOT || IS_CLAIMED(n) ->
		assert(socket[n] == 1);
		found = true
	:: else
	fi
}

active proctype process()
{
	ready;
	/* while it is honest */
	if
	:: atomic { !ended -> send_claim(0); in_time = true }
	:: skip
	fi;
	liar = USER;
	do
	:: true -> atomic { send_claim(0) }
	:: true -> atomic { send_claim(1) }
	:: true -> atomic { send_have(0) }
	:: true -> atomic { send_have(1) }
	:: break
	od;
	if
	:: atomic { in_time && !ended -> send_have(0); assert(found) }
	:: else
	fi
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
