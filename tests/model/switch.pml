/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * switch.pml - model of how a direction of a stream moves between its anchor
 * (TCP) and a link, and back.  See PROTOCOL.md for the rules in prose.
 *
 * A direction d has a sender S(d) and a receiver R(d).  Direction 0 belongs to
 * the asker, direction 1 to the answerer.  Links are numbered by epoch: a link
 * that was given up is never used again, the next attempt takes the next one.
 *
 * What a cell of TCP is, only the model knows; R must tell by its own state.
 * A raw byte carries its number, so that delivery can be checked; the mark is
 * two cells, so that it can arrive in halves.
 *
 * Every run is finite, so "eventually" is checked at the end of every maximal
 * run (process Judge, on timeout).
 *
 * Size:      DIRS (1), K bytes per direction (3), EPOCHS (1)
 * Faults:    FAIL   a link may die at any moment
 *            BACK   S may go back to TCP of its own will
 *            KILL   an end may be killed at any moment (its kernel sends FIN/RST)
 *            WHOLE  what was put on the link outlives its sender (shared memory)
 *            IMP=e  link e belongs to somebody without the TCP stream
 *            COLLIDE program byte 1 looks like the first half of the mark
 *            NOCLOSE the program writes all and then waits: no FIN helps
 *            CREDIT=c S may be at most c bytes ahead of R's program (K)
 *            SAFETY_ONLY  what is delivered is right; nothing about "eventually"
 *            GUEST=x  end x forks once: its child holds the anchor, too (0 or 1)
 *            STRANGER somebody writes to S's socket, once, at any moment
 *            REACH=n  shows that a situation is reached
 * Mutations: M_*    each must be caught; see `run`.
 */
#ifndef DIRS
#define DIRS 1
#endif
#ifndef K
#define K 3
#endif
#ifndef EPOCHS
#define EPOCHS 1
#endif
#ifndef CREDIT
#define CREDIT K
#endif
#define LINKS (DIRS * EPOCHS)
#define L(d, e) ((d) * EPOCHS + (e))

/* cells on TCP */
#define RAW 1		/* x: number of the byte */
#define MK 2		/* x: which half, y: epoch */
#define RESUME 3	/* x: raw bytes follow from here, y: owed up to here */
#define FIN 4
#define RST 5
#define ALIEN 12	/* a byte that S knows nothing of */
/* messages on the link */
#define SWITCH 6	/* x: N, y: marks written before */
#define DATA 7		/* x: number of the byte */
#define END 8		/* x: length of the direction */
#define ACKSW 9
#define ACK 10		/* x: bytes the program has taken */
#define ACKEND 11
/* sender's states */
#define S_RAW 0
#define S_WAIT 1	/* SWITCH sent, no ACKSW yet */
#define S_MARK 2	/* half of the mark written */
#define S_LINK 3
#define S_RESEND 4	/* RESUME written, the rest of [base,w) to follow */
#define S_DONE 5	/* TCP FIN sent */
#define S_ASK 6		/* M_HAVE only: waits for the receiver's word */
/* receiver's states */
#define R_RAW 0
#define R_EXP0 1	/* N known: raw below N, mark expected at N */
#define R_EXP1 2	/* first half matched */
#define R_REC 3		/* mark verified: link counts, TCP carries records */
#define R_EOF 4
#define R_RESET 5

chan tcp[DIRS] = [16] of { byte, byte, byte };
chan fwd[LINKS] = [8] of { byte, byte, byte };	/* S to R */
chan bwd[LINKS] = [8] of { byte, byte };	/* R to S */
chan have[DIRS] = [4] of { byte };	/* M_HAVE: records, R to S */
bool said[DIRS];

bool dead[EPOCHS];	/* what is sent now is lost */
bool killed[2];		/* end 0 the asker, end 1 the answerer */

/* sender */
byte sst[DIRS];		/* state */
byte w[DIRS];		/* bytes taken from the program */
byte base[DIRS];	/* ... of which R's program has taken these */
byte at[DIRS];		/* resend: next byte */
byte ep[DIRS];		/* epoch in use or next */
byte marks[DIRS];	/* marks written */
bool closed[DIRS];	/* program has ended its direction */
bool tried[DIRS];	/* a send met a dead link */
bool lend[DIRS];	/* END sent on the link */

/* The kernel's count of S's bytes shows that a stranger has written. */
bool strange[DIRS];
bool atlink[DIRS];	/* it did so behind the mark, or when S was about to write it */
bool resumed[DIRS];	/* RESUME is on TCP, and S has yet to send again */
bool broke[DIRS];	/* S has reset the stream */
bool passed[DIRS];	/* S has looked, and writes the mark next */
byte extra[DIRS];	/* a stranger's byte that R took for the program's */
#ifdef M_STRANGEMARK
#define SEES_BEFORE_MARK(d) false
#else
#define SEES_BEFORE_MARK(d) strange[d]
#endif
#ifdef M_STRANGEBACK
#define SEES_WHEN_BACK(d) false
#else
#define SEES_WHEN_BACK(d) strange[d]
#endif

/* receiver */
byte rst[DIRS];
byte rx[DIRS];		/* bytes the program has taken */
byte rN[DIRS];
byte cur[DIRS];		/* epoch expected or in use */
byte h[DIRS];		/* bytes received, with the ring's */
byte dup[DIRS];	/* duplicates still to be dropped */
byte owed[DIRS];	/* FIN below this is no end of file */
byte seen[DIRS];	/* marks verified */
bool lfin[DIRS];	/* END received */
bool held[DIRS];	/* first half was a program's byte */
byte hb[DIRS];
bool rgone[LINKS];	/* R takes nothing more from this link */
#ifdef M_NOSTRIP
byte sn[DIRS];		/* the state when recv() was called, and looked at no more */
#endif
bool got[DIRS];	/* a kernel recv() has returned, not classified yet */
byte ck[DIRS]; byte cx[DIRS]; byte cy[DIRS];

/*
 * The two owners of end x's anchor.  A stream that is on TCP at the fork is the
 * child's as much as the parent's.  Else the child is a guest: its first use asks
 * the parent to bring the stream back to TCP, and waits for that.
 */
bool shared[2];		/* the child holds the anchor */
bool asks[2];		/* the guest wants to use it */
bool plain[2];		/* the parent says that it is on TCP, or over */
bool wrote;		/* the guest has moved a byte */
#ifdef M_GUESTSHUT
#define LAST(x) true
#else
#define LAST(x) (!shared[x])
#endif
#ifdef M_GUESTSWITCH
#define ALONE(x) true
#else
#define ALONE(x) (!shared[x])
#endif
#ifdef M_GUESTEARLY
#define GUEST_MAY(x) true
#else
#define GUEST_MAY(x) plain[x]
#endif

#ifdef WHOLE		/* it lies in memory, who ever looks at it */
#define SEND_F(d, e, k, x, y) fwd[L(d, e)]!k, x, y; tried[d] = dead[e]
#else
#define SEND_F(d, e, k, x, y) if :: dead[e] -> tried[d] = true :: else -> fwd[L(d, e)]!k, x, y fi
#endif
#define SEND_B(d, e, k, x) if :: dead[e] -> skip :: else -> bwd[L(d, e)]!k, x fi

#define SEND_END(d) (d)		/* the end that sends direction d */
#define RECV_END(d) (1 - (d))

#if DIRS == 2
#define MAY_SWITCH(d) ((d) == 0 || (rst[0] == R_REC && cur[0] >= ep[1]))
#else
#define MAY_SWITCH(d) true
#endif
#ifdef M_BOTHFIRST
#undef MAY_SWITCH
#define MAY_SWITCH(d) true
#endif

#ifdef M_HAVE		/* may R(d) write a record on TCP of the other direction? */
#if DIRS == 2
#define REVERSE_REC(d) (sst[1 - d] == S_LINK || sst[1 - d] == S_ASK)
#else
#define REVERSE_REC(d) true
#endif
#endif

/* a byte is handed to the program */
inline deliver(d, x)
{
	assert(x == rx[d] || extra[d]);
	assert(x < w[d]);
	rx[d] = rx[d] + 1
}

inline end_of_file(d)
{
	assert(rx[d] == w[d]);		/* no silent truncation */
	assert(closed[d] || killed[SEND_END(d)]);
	rst[d] = R_EOF
}

inline reset(d)
{
#ifndef SAFETY_ONLY
	assert(killed[SEND_END(d)] || (strange[d] && atlink[d]));	/* no error that TCP would not give */
#endif
	rst[d] = R_RESET
}

/* R gives its end of the link up; S will find out */
inline drop_link(d)
{
	rgone[L(d, cur[d])] = true;
	dead[cur[d]] = true
}

inline raw_byte(d, x)
{
	if
	:: dup[d] > 0 -> assert(x == rx[d] - dup[d] || extra[d]); dup[d] = dup[d] - 1
	:: else -> deliver(d, x)
	fi
}

#ifdef COLLIDE
#define LOOKS_LIKE_MARK(x) ((x) == 1)
#else
#define LOOKS_LIKE_MARK(x) false
#endif

#ifdef M_FINATN
#define FIN_AT(d) (rx[d] == rN[d])
#else
#define FIN_AT(d) true
#endif

/* TCP has ended: takes what the link holds, whoever has given it up meanwhile. */
inline last_look(d)
{
#ifdef WHOLE
	do
	:: fwd[L(d, cur[d])]?[DATA, _, _] ->
		fwd[L(d, cur[d])]?ck[d], cx[d], cy[d]; assert(cx[d] == h[d]); h[d] = h[d] + 1
	:: fwd[L(d, cur[d])]?[END, _, _] ->
		fwd[L(d, cur[d])]?ck[d], cx[d], cy[d]; assert(cx[d] == h[d]); lfin[d] = true
	:: else -> break
	od;
	do
	:: rx[d] < h[d] -> deliver(d, rx[d])
	:: else -> break
	od
#else
	skip
#endif
}

#ifdef WHOLE
#define ALL_SHOWN true
#else
#define ALL_SHOWN false
#endif

/* The wrapper looks at what recv() returned, in the state of now. */
inline classify(d)
{
	if
	:: ck[d] == RST ->
		if
		:: rst[d] == R_REC && lfin[d] && rx[d] == h[d] -> end_of_file(d)
		:: else -> reset(d)
		fi
	:: ck[d] == FIN ->
		if
		:: rst[d] == R_RAW && dup[d] == 0 && rx[d] >= owed[d] -> end_of_file(d)
		/* nothing is proven yet: as raw, wherever N is */
		:: rst[d] == R_EXP0 && dup[d] == 0 && rx[d] >= owed[d] && FIN_AT(d) -> end_of_file(d)
		:: rst[d] == R_REC && lfin[d] && !ALL_SHOWN -> rx[d] = h[d]; end_of_file(d)
#ifndef M_NOLAST
		:: rst[d] == R_REC && ALL_SHOWN -> last_look(d); end_of_file(d)
		/* the sender ended while it sent again */
		:: rst[d] == R_RAW && (rx[d] < owed[d] || dup[d] > 0) && ALL_SHOWN -> dup[d] = 0; last_look(d); end_of_file(d)
#else
		:: rst[d] == R_REC && ALL_SHOWN -> rx[d] = h[d]; end_of_file(d)
#endif
		/* the mark is written whole: what only began like it was the program's */
		:: rst[d] == R_EXP1 -> assert(held[d]); held[d] = false; deliver(d, hb[d]); end_of_file(d)
		:: rst[d] == R_EOF -> skip
#ifdef M_FINEOF
		:: rst[d] == R_REC && !lfin[d] -> end_of_file(d)
#endif
		:: else -> assert(!ALL_SHOWN); reset(d)
		fi
	:: ck[d] == RAW ->
		assert(rst[d] != R_REC);
		if
		:: rst[d] == R_RAW || (rst[d] == R_EXP0 && (rx[d] < rN[d] || dup[d] > 0)) -> raw_byte(d, cx[d])
		:: rst[d] == R_EXP0 && rx[d] == rN[d] && dup[d] == 0 ->
			if
			:: LOOKS_LIKE_MARK(cx[d]) -> held[d] = true; hb[d] = cx[d]; rst[d] = R_EXP1
			:: else -> drop_link(d); rst[d] = R_RAW; raw_byte(d, cx[d])
			fi
		:: rst[d] == R_EXP1 ->
			assert(held[d]);
			drop_link(d); rst[d] = R_RAW;
			held[d] = false; deliver(d, hb[d]); deliver(d, cx[d])
		:: rst[d] == R_EOF -> assert(cx[d] < rx[d])	/* resent, already had */
		fi
#ifdef STRANGER
	:: ck[d] == ALIEN ->
		if
		/* no record begins so */
		:: rst[d] == R_REC -> drop_link(d); reset(d)
		:: rst[d] == R_EOF -> drop_link(d); rst[d] = R_RESET
		:: rst[d] == R_RAW && dup[d] > 0 -> dup[d] = dup[d] - 1; extra[d] = 1
		:: rst[d] == R_RAW && dup[d] == 0 -> extra[d] = 1
		:: rst[d] == R_EXP0 -> drop_link(d); rst[d] = R_RAW; extra[d] = 1
		:: rst[d] == R_EXP1 -> assert(false)	/* the mark is written in one piece */
		fi
	/* a mark that the program gets, and a record behind it: S resets the stream */
	:: (ck[d] == MK || ck[d] == RESUME) && rst[d] == R_RAW && extra[d] > 0 -> skip
#endif
	:: ck[d] == MK && !(rst[d] == R_RAW && extra[d] > 0) ->
#ifdef M_NOSTRIP
		assert(sn[d] != R_RAW);		/* it went to sleep in raw mode: all is the program's */
#endif
		assert(rst[d] == R_EXP0 || rst[d] == R_EXP1 || rst[d] == R_EOF);
		if
		:: rst[d] == R_EXP0 -> assert(rx[d] == rN[d] && dup[d] == 0 && cx[d] == 0 && cy[d] == cur[d]); rst[d] = R_EXP1
		:: rst[d] == R_EXP1 -> assert(!held[d] && cx[d] == 1 && cy[d] == cur[d]); rst[d] = R_REC; seen[d] = seen[d] + 1
		:: else -> assert(false)
		fi
	:: ck[d] == RESUME && !(rst[d] == R_RAW && extra[d] > 0) ->
		assert(rst[d] == R_REC || rst[d] == R_EOF);
		assert(cx[d] <= rx[d]);
		if
		:: rst[d] == R_REC ->
			drop_link(d);
			dup[d] = rx[d] - cx[d];
#ifndef M_NOOWED
			owed[d] = cy[d];
#endif
			lfin[d] = false;
			rst[d] = R_RAW
		:: else -> assert(cy[d] == rx[d])
		fi
	fi;
	got[d] = false
}

#define OVER(d) (rst[d] == R_RESET)

/* a thread of the receiving program, asleep in recv() on the anchor */
proctype RecvTcp(byte d)
{
	do
#ifdef M_NOSTRIP
	:: atomic { !got[d] && sn[d] != rst[d] && empty(tcp[d]) && rst[d] != R_EXP0 -> sn[d] = rst[d] }
#endif
	:: atomic { !killed[RECV_END(d)] && !got[d] && !OVER(d) && nempty(tcp[d]) ->
		tcp[d]?ck[d], cx[d], cy[d]; got[d] = true }
	:: atomic { !killed[RECV_END(d)] && got[d] && !OVER(d) -> classify(d) }
	od
}

/* under the receive lock, as everything that looks at rst and rx */
inline take_switch(d, e)
{
	fwd[L(d, e)]?k, x, y;
	if
	:: x < rx[d] + extra[d] -> rgone[L(d, e)] = true; dead[e] = true	/* S gave it up long ago */
	:: else ->
		if
		:: rst[d] == R_EXP1 && held[d] ->	/* S says that it wrote no mark */
			held[d] = false; rst[d] = R_RAW; deliver(d, hb[d])
		:: else
		fi;
#ifndef M_OLDLINK
		rgone[L(d, 0)] = rgone[L(d, 0)] || e > 0;	/* older links are over */
#endif
		if
		/* the byte held was sent after x: S gave this link up, too */
		:: x < rx[d] -> rgone[L(d, e)] = true; dead[e] = true
		:: else ->
			cur[d] = e; rN[d] = x; h[d] = x; lfin[d] = false; rst[d] = R_EXP0;
			SEND_B(d, e, ACKSW, 0)
		fi
	fi
}

/*
 * A pending expectation gives way only to a link whose hello has shown the
 * history, and only when TCP has shown every mark written before it.
 */
#define UNPROVEN 100
#ifdef M_REPLACE
#define PROVEN(d, e) (fwd[L(d, e)]?[SWITCH, _, _] && !fwd[L(d, e)]?[SWITCH, _, UNPROVEN])
#else
#define PROVEN(d, e) fwd[L(d, e)]?[SWITCH, _, eval(seen[d])]
#endif
#ifdef M_UNPROVEN
#define TAKE(d, e) (PROVEN(d, e) || fwd[L(d, e)]?[SWITCH, _, UNPROVEN])
#else
#define TAKE(d, e) (PROVEN(d, e) || (rst[d] == R_RAW && fwd[L(d, e)]?[SWITCH, _, UNPROVEN]))
#endif

/*
 * Bytes before the mark that the program has yet to read (a held one is read when
 * the SWITCH is taken): the ACKSW waits for them.
 */
#ifdef M_AHEAD
#define AHEAD(d, e) false
#else
#define AT(d, e, i) fwd[L(d, e)]?[SWITCH, eval(rx[d] + extra[d] + held[d] + i), _]
#define AHEAD(d, e) (AT(d, e, 1) || AT(d, e, 2) || AT(d, e, 3) || AT(d, e, 4))
#endif

/* the receiver's side of the link */
proctype RecvLink(byte d)
{
	byte k, x, y;
	do
	:: atomic { !killed[RECV_END(d)] && (rst[d] <= R_EXP1) && ALONE(RECV_END(d)) && !rgone[L(d, 0)] && TAKE(d, 0) && !AHEAD(d, 0) ->
		take_switch(d, 0) }
#if EPOCHS > 1
	/* a later link: wait until TCP has shown every mark written before */
	:: atomic { !killed[RECV_END(d)] && (rst[d] <= R_EXP1) && ALONE(RECV_END(d)) && !rgone[L(d, 1)] && TAKE(d, 1) && !AHEAD(d, 1) ->
		take_switch(d, 1) }
#endif
	:: atomic { !killed[RECV_END(d)] && rst[d] != R_RAW && !rgone[L(d, cur[d])] && fwd[L(d, cur[d])]?[DATA, _, _] ->
		fwd[L(d, cur[d])]?k, x, y;
		assert(x == h[d]); h[d] = h[d] + 1 }
	:: atomic { !killed[RECV_END(d)] && rst[d] != R_RAW && !rgone[L(d, cur[d])] && fwd[L(d, cur[d])]?[END, _, _] ->
		fwd[L(d, cur[d])]?k, x, y;
		assert(x == h[d]); lfin[d] = true }
	/* notices that the link is dead: what was not taken yet is lost */
	:: atomic { !killed[RECV_END(d)] && dead[cur[d]] && !rgone[L(d, cur[d])] && rst[d] != R_RAW -> rgone[L(d, cur[d])] = true }
#ifdef M_DELIVEREARLY
	:: atomic { !killed[RECV_END(d)] && (rst[d] == R_REC || (rst[d] == R_EXP0 && rx[d] == rN[d] && dup[d] == 0)) && rx[d] < h[d] ->
		if :: rst[d] == R_EXP0 -> rN[d] = rN[d] + 1 :: else fi;
#else
	:: atomic { !killed[RECV_END(d)] && rst[d] == R_REC && rx[d] < h[d] ->
#endif
		deliver(d, rx[d]); SEND_B(d, cur[d], ACK, rx[d]) }
#ifdef GUEST
	/* not the only owner: refuses a switch, and goes back if the guest asks */
	:: atomic { !killed[RECV_END(d)] && rst[d] == R_RAW && !ALONE(RECV_END(d)) && !rgone[L(d, 0)] && fwd[L(d, 0)]?[SWITCH, _, _] ->
		rgone[L(d, 0)] = true; dead[0] = true }
#if EPOCHS > 1
	:: atomic { !killed[RECV_END(d)] && rst[d] == R_RAW && !ALONE(RECV_END(d)) && !rgone[L(d, 1)] && fwd[L(d, 1)]?[SWITCH, _, _] ->
		rgone[L(d, 1)] = true; dead[1] = true }
#endif
	:: atomic { !killed[RECV_END(d)] && asks[RECV_END(d)] && !rgone[L(d, cur[d])] && rst[d] != R_RAW && rst[d] <= R_REC -> drop_link(d) }
	:: atomic { !killed[RECV_END(d)] && asks[RECV_END(d)] && !plain[RECV_END(d)] && ((rst[d] == R_RAW && dup[d] == 0) || rst[d] >= R_EOF) && !got[d] -> plain[RECV_END(d)] = true }
#endif
	:: atomic { !killed[RECV_END(d)] && rst[d] == R_REC && lfin[d] && rx[d] == h[d] ->
		end_of_file(d); SEND_B(d, cur[d], ACKEND, rx[d]) }
#ifdef M_HAVE
	:: atomic { !killed[RECV_END(d)] && (rst[d] == R_REC || rst[d] == R_EOF) && rgone[L(d, cur[d])] && rx[d] == h[d] && REVERSE_REC(d) && !said[d] ->
		have[d]!rx[d]; said[d] = true }
#endif
	od
}

#ifdef IMP
#define NOT_IMP(d, e) ((d) != 0 || (e) != IMP)
#else
#define NOT_IMP(d, e) true
#endif
#ifdef BACK
#define GO_BACK(d) true
#elif defined(M_NOPROBE)
#define GO_BACK(d) (dead[ep[d]] && tried[d])
#elif defined(GUEST)
#define GO_BACK(d) (dead[ep[d]] || asks[SEND_END(d)] || (closed[d] && !LAST(SEND_END(d))))
#else
#define GO_BACK(d) dead[ep[d]]
#endif

/* Whole or not at all, for the kernel; it may still arrive in halves. */
inline write_mark(d)
{
	tcp[d]!MK, 0, ep[d];
#ifdef M_PARTMARK
	sst[d] = S_MARK
#else
	tcp[d]!MK, 1, ep[d]; marks[d] = marks[d] + 1; sst[d] = S_LINK
#endif
}

/* the sender, program and service thread under the send lock */
proctype Send(byte d)
{
	byte n;
	do
#ifndef NOCLOSE
	:: atomic { !killed[SEND_END(d)] && !closed[d] -> closed[d] = true }
#endif

	:: atomic { !killed[SEND_END(d)] && sst[d] == S_RAW && !closed[d] && w[d] < K -> tcp[d]!RAW, w[d], 0; w[d] = w[d] + 1 }
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_RAW && closed[d] && LAST(SEND_END(d)) -> tcp[d]!FIN, 0, 0; sst[d] = S_DONE }
#ifdef GUEST
	:: atomic { !killed[SEND_END(d)] && asks[SEND_END(d)] && !plain[SEND_END(d)] && (sst[d] == S_RAW || sst[d] == S_DONE) -> plain[SEND_END(d)] = true }
#endif
#ifdef IMP
	:: atomic { d == 0 && sst[d] == S_RAW && ep[d] == IMP -> ep[d] = ep[d] + 1 }	/* not ours */
#endif
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_RAW && !closed[d] && !strange[d] && NOT_IMP(d, ep[d]) && ep[d] < EPOCHS && MAY_SWITCH(d) && ALONE(SEND_END(d)) ->
#if DIRS == 2 && !defined(M_BOTHFIRST)
		if :: d == 1 -> ep[1] = cur[0] :: else fi;
#endif
		SEND_F(d, ep[d], SWITCH, w[d], marks[d]);
		base[d] = w[d]; lend[d] = false; sst[d] = S_WAIT }
#ifdef M_EARLY
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_WAIT && !closed[d] && w[d] < K ->
		SEND_F(d, ep[d], DATA, w[d], 0); w[d] = w[d] + 1 }
#endif
#ifdef M_NOACK
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_WAIT -> write_mark(d) }
#elif defined(STRANGER)
	/* to look at the kernel's count and to write are two steps */
	:: atomic { sst[d] == S_WAIT && !passed[d] && !SEES_BEFORE_MARK(d) && bwd[L(d, ep[d])]?[ACKSW, _] ->
		bwd[L(d, ep[d])]?ACKSW, n; passed[d] = true }
	:: atomic { sst[d] == S_WAIT && passed[d] -> passed[d] = false; write_mark(d) }
#else
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_WAIT && bwd[L(d, ep[d])]?[ACKSW, _] ->
		bwd[L(d, ep[d])]?ACKSW, n; write_mark(d) }
#endif
	/* the link is dead, or ACKSW is late: give the attempt up (S prefers the mark if it has
	 * the ACKSW of a dead link: R is in RAW sooner) */
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_WAIT && !passed[d] ->
#ifdef M_CANCELREC
		tcp[d]!RESUME, base[d], w[d];
#endif
#ifndef M_LATEACK
		dead[ep[d]] = true; ep[d] = ep[d] + 1;
#endif
		at[d] = base[d]; sst[d] = S_RESEND }
#ifdef M_LATEACK
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_RAW && ep[d] < EPOCHS && bwd[L(d, ep[d])]?[ACKSW, _] ->
		bwd[L(d, ep[d])]?ACKSW, n; base[d] = w[d]; write_mark(d) }
#endif
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_MARK -> tcp[d]!MK, 1, ep[d]; marks[d] = marks[d] + 1; sst[d] = S_LINK }

	:: atomic { !killed[SEND_END(d)] && sst[d] == S_LINK && !closed[d] && w[d] < K && w[d] - base[d] < CREDIT ->
		SEND_F(d, ep[d], DATA, w[d], 0); w[d] = w[d] + 1 }
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_LINK && closed[d] && !lend[d] && LAST(SEND_END(d)) ->
		SEND_F(d, ep[d], END, w[d], 0); lend[d] = true
#ifdef M_FINEARLY
		; tcp[d]!FIN, 0, 0; sst[d] = S_DONE
#endif
		}
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_LINK && bwd[L(d, ep[d])]?[ACK, _] -> bwd[L(d, ep[d])]?ACK, n; base[d] = n }
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_LINK && bwd[L(d, ep[d])]?[ACKEND, _] ->
		bwd[L(d, ep[d])]?ACKEND, n; tcp[d]!FIN, 0, 0; sst[d] = S_DONE }
#ifdef M_HAVE
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_LINK && dead[ep[d]] -> sst[d] = S_ASK }
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_ASK && nempty(have[d]) ->
		have[d]?n; tcp[d]!RESUME, n, w[d]; at[d] = n; ep[d] = ep[d] + 1; sst[d] = S_RESEND }
#else
#ifdef STRANGER
	/* before RESUME, and when all is resent: R cannot tell the stranger's bytes from S's */
	:: atomic { sst[d] == S_LINK && GO_BACK(d) && SEES_WHEN_BACK(d) ->
		dead[ep[d]] = true; tcp[d]!RST, 0, 0; broke[d] = true; sst[d] = S_DONE }
	:: atomic { sst[d] == S_RESEND && at[d] == w[d] && resumed[d] && SEES_WHEN_BACK(d) ->
		tcp[d]!RST, 0, 0; broke[d] = true; sst[d] = S_DONE }
#endif
	/* the link is dead, or S wants back: one and the same */
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_LINK && GO_BACK(d) && !SEES_WHEN_BACK(d) ->
		dead[ep[d]] = true; ep[d] = ep[d] + 1;
#ifdef M_WRONGOFFSET
		base[d] = w[d];
#endif
		tcp[d]!RESUME, base[d], w[d]; at[d] = base[d]; resumed[d] = true; sst[d] = S_RESEND }
#endif
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_RESEND && at[d] < w[d] -> tcp[d]!RAW, at[d], 0; at[d] = at[d] + 1 }
	:: atomic { !killed[SEND_END(d)] && sst[d] == S_RESEND && at[d] == w[d] && !(resumed[d] && SEES_WHEN_BACK(d)) ->
		resumed[d] = false; sst[d] = S_RAW }
	od
}

#ifdef FAIL
proctype Fault(byte e)
{
	if
	:: dead[e] = true
	:: true
	fi
}
#endif

#ifdef KILL
proctype Killer()
{
	byte x;
	if
	:: x = 0
#if DIRS == 2
	:: x = 1
#endif
	fi;
	atomic {
		killed[x] = true;
		dead[0] = true;
#if EPOCHS > 1
		dead[1] = true;
#endif
		if
		:: sst[x] != S_DONE && !shared[x] ->
			if
			:: tcp[x]!FIN, 0, 0	/* its receive queue was empty */
			:: tcp[x]!RST, 0, 0	/* it was not */
			fi
		:: else
		fi
	}
}
#endif

#ifdef GUEST
#if GUEST == 0
#define ON_TCP (sst[0] == S_RAW)
#else
#define ON_TCP (rst[0] == R_RAW && dup[0] == 0 && !got[0])
#endif
proctype Guest()
{
	byte k, x, y;
	do
	:: atomic { !asks[GUEST] && !plain[GUEST] -> asks[GUEST] = true }
	/* the parent was killed, and took the link with it */
	:: atomic { killed[GUEST] && !plain[GUEST] && asks[GUEST] ->
		shared[GUEST] = false;
#if GUEST == 0
		tcp[0]!RST, 0, 0; sst[0] = S_DONE;
#endif
		break }
#if GUEST == 0
	:: atomic { GUEST_MAY(0) && sst[0] != S_DONE && w[0] < K -> tcp[0]!RAW, w[0], 0; w[0] = w[0] + 1; wrote = true }
	/* close(2), and no more: the kernel ends the stream of its last owner */
	:: atomic { !asks[0] || plain[0] -> shared[0] = false;
		if
		:: killed[0] && sst[0] != S_DONE -> tcp[0]!FIN, 0, 0; sst[0] = S_DONE
		:: else
		fi;
		break }
#else
	:: atomic { GUEST_MAY(1) && !got[0] && !OVER(0) && rst[0] != R_EOF && nempty(tcp[0]) ->
		tcp[0]?k, x, y;
		if
		:: k == RAW -> deliver(0, x); wrote = true
		:: k == FIN && rx[0] >= owed[0] -> end_of_file(0)
		:: (k == FIN && rx[0] < owed[0]) || k == RST -> reset(0)
		:: else -> assert(false)	/* a mark or a record */
		fi }
	:: atomic { !asks[1] || plain[1] -> shared[1] = false; break }
#endif
	od
}

proctype Fork()
{
	if
	:: atomic { !killed[GUEST] && !closed[0] && rst[0] <= R_REC && sst[0] != S_DONE ->
		shared[GUEST] = true; plain[GUEST] = ON_TCP; run Guest() }
	:: true
	fi
}
#endif

#ifdef STRANGER
proctype Stranger()
{
	if
	:: atomic { sst[0] != S_DONE -> tcp[0]!ALIEN, 0, 0; strange[0] = true;
		atlink[0] = sst[0] == S_LINK || passed[0] || resumed[0] }
	:: true
	fi
}
#endif

#ifdef IMP
proctype Impostor()
{
	byte n;
	do
	:: n < K -> n++
	:: break
	od;
	fwd[L(0, IMP)]!SWITCH, n, UNPROVEN;
#if DIRS == 2
	bwd[L(1, IMP)]!ACKSW, 0;
#endif
	fwd[L(0, IMP)]!DATA, n, 0;
	fwd[L(0, IMP)]!END, n + 1, 0
}
#endif

active proctype Judge()
{
	byte i;
	timeout;
#ifdef SAFETY_ONLY
	false;
#endif
	atomic {
		i = 0;
		do
		:: i < DIRS ->
			if
			/* reset at both ends, but where S's end had gone already */
			:: strange[i] && atlink[i] ->
				assert(rst[i] == R_RESET && sst[i] == S_DONE);
				assert(broke[i] || lend[i])
			:: !killed[0] && !killed[1] && !(strange[i] && atlink[i]) ->
#ifdef NOCLOSE
				assert(w[i] == K && rx[i] == w[i])
#else
				assert(rst[i] == R_EOF || (rst[i] == R_RESET && strange[i] && lend[i]));
				assert(rx[i] == w[i]);
				assert(sst[i] == S_DONE)
#endif
			:: killed[SEND_END(i)] ->
				assert(rst[i] == R_EOF || rst[i] == R_RESET)
			:: else
			fi;
			i++
		:: else -> break
		od;
#ifdef GUEST
		/* no guest waits for ever */
		assert(!asks[GUEST] || plain[GUEST] || !shared[GUEST])
#endif
	}
}

/* no check is vacuous: these are reached (each "caught" in `run`) */
#ifdef REACH
active proctype Reach()
{
#if REACH == 1		/* end of file came by the link */
	rst[0] == R_EOF && lfin[0];
#elif REACH == 2	/* resent bytes that R already had, then new ones */
	owed[0] == 2 && dup[0] == 0 && rx[0] == 2 && seen[0] == 1 && base[0] == 0 && lend[0];
#elif REACH == 3	/* a second upgrade */
	rst[0] == R_REC && seen[0] == 2;
#elif REACH == 4	/* both directions on the link */
	rst[0] == R_REC && rst[1] == R_REC;
#elif REACH == 6	/* the guest wrote after the return from a link */
	seen[0] == 1 && asks[0] && plain[0] && wrote && rx[0] == w[0];
#elif REACH == 7	/* the guest read what was resent */
	seen[0] == 1 && asks[1] && plain[1] && wrote && owed[0] > 0;
#elif REACH == 8	/* the parent was killed, and its guest lost the link */
	seen[0] == 1 && asks[0] && rst[0] == R_RESET && killed[0];
#elif REACH == 9	/* a stranger's byte while S is on the link, and what S does then */
	strange[0] && seen[0] == 1 && broke[0] && rst[0] == R_RESET;
#elif REACH == 10	/* a stranger's byte is the program's, and the stream stays plain */
	strange[0] && extra[0] == 1 && rst[0] == R_EOF && ep[0] > 0;
#elif REACH == 11	/* a stranger's byte among those that are resent */
	strange[0] && extra[0] == 1 && owed[0] > 0 && broke[0];
#else			/* killed on the link: reset after bytes that came by it */
	rst[0] == R_RESET && seen[0] == 1 && rx[0] > rN[0];
#endif
	assert(false)
}
#endif

init
{
	atomic {
		run Send(0); run RecvTcp(0); run RecvLink(0);
#if DIRS == 2
		run Send(1); run RecvTcp(1); run RecvLink(1);
#endif
#ifdef FAIL
		run Fault(0);
#if EPOCHS > 1
		run Fault(1);
#endif
#endif
#ifdef KILL
		run Killer();
#endif
#ifdef IMP
		run Impostor();
#endif
#ifdef STRANGER
		run Stranger();
#endif
#ifdef GUEST
		run Fork();
#endif
	}
}
