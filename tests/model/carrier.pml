/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * carrier.pml - links on carriers: numbers that are used again, and memory that the other end
 * may write (PROTOCOL.md, "Carriers", "A number" and "Rings").
 *
 * Two processes, ends 0 and 1.  Carrier c is a queue pair that end c has made, and on which end
 * c opens links: for STREAMS streams, one after the other, each with the lowest number that
 * is free there.  The other end accepts or refuses.  Each of SENDERS (1: end 0, 2: end 1, 3:
 * both) writes one byte of a stream into the peer's ring and then announces it.  Each end may
 * give a link up at any moment; then a sender writes the byte to TCP, if it is not
 * acknowledged, whenever TCP has room.  An end has RINGS rings to receive into on a carrier, and one
 * to send from.  A link that finds none free goes without.
 *
 * The device executes a WRITE behind the packets that were posted before it, in the model as
 * late as it can: when these are taken.  Until the WRITE is complete the device may read its
 * source again.  -DDEATH: the carrier breaks at any moment; then what is on its way is executed or lost, and
 * each end learns of it when it likes.  -DGROW: a receiver offers another ring.
 *
 * A record finds the stream that it was sent for.  A WRITE finds a ring that is still kept for its
 * stream.  What a program reads, and what is sent again, is that stream's.  In the end all bytes
 * have arrived, no number is in use, and no ring is kept.
 *
 * Mutations (-DM_...):
 *   REFUSE	an answerer that has refused forgets the number
 *   ONELAST	a number is free when the peer's last record has come, without one's own
 *   AGAIN	a number is free when one's own last record has gone
 *   RESEND	a send ring is free when the link is over, whatever TCP has taken
 *   LATEACK	an ack that comes when RESUME has gone still frees what it is about
 *   UNREAD	a receive ring is free when the peer's last record has come, whatever is unread
 *   OWNLAST	a receive ring is free when one's own last record has gone
 *   COMPLETE	a send ring is free when its bytes are acknowledged, whatever is complete
 *   BEHIND	a thread writes behind its end's last record
 *   QPLAST	at a carrier's death memory goes first, and the queue pair later
 *   OFFERED	the ring before is free when another one is offered
 *   OFFSET	the ring before is free when RING_USE has come, whatever is yet to be announced
 *   NUMBER	both ends open links on one carrier
 *   ASKS	the thread that asks for a carrier is the one that answers
 */
#ifndef CARRIERS
#define CARRIERS 1
#endif
#ifndef STREAMS
#define STREAMS 2
#endif
#ifndef NUMBERS
#define NUMBERS 2
#endif
#ifndef RINGS
#define RINGS 1
#endif
#ifndef SENDERS
#define SENDERS 3
#endif
#ifndef FLIGHT
#define FLIGHT 2		/* packets and WRITEs that are on their way at a time */
#endif

#if CARRIERS == 2 || defined(M_NUMBER)
#define ASKERS 2
#else
#define ASKERS 1
#endif
#define ASKER(s) (s % ASKERS)
#define CARRIER(s) (s % CARRIERS)

/* Where an end's things are: of a carrier, a stream, a number, a ring. */
#define SIDE(c, e) [(c) * 2 + (e)]
#define OF(e, s) [(e) * STREAMS + (s)]
#define LINK OF(e, s)
#define PEER OF(1 - e, s)
#define NUMBER(n) [(c * 2 + e) * NUMBERS + (n)]
#define RX_RING(c, e, r) [((c) * 2 + (e)) * RINGS + (r)]

mtype = { OPEN, ACCEPT, REFUSE, DROP, DATA, ACK, WRITE, RING, RING_USE };
mtype = { none, asked, open };

/* Type, number, ring, ack; and the stream, which only OPEN and the rules look at. */
chan wire[CARRIERS * 2] = [FLIGHT] of { mtype, byte, byte, bool, byte };	/* from this end */
bool lost[CARRIERS * 2];	/* what this end sends does not arrive any more */
bool requested[CARRIERS], up[CARRIERS], broken[CARRIERS];
bool gone[CARRIERS * 2];	/* this end has ended its links */
byte opened[2];			/* streams for which an end has asked */

byte use[CARRIERS * 2 * NUMBERS];	/* 1 + stream; 0: the number is free */
byte rx_owner[CARRIERS * 2 * RINGS];	/* 1 + stream that had the ring last */
byte tx_owner[CARRIERS * 2];		/* 1 + stream that had the send ring last */

#define LINKS (2 * STREAMS)
mtype state[LINKS] = none;
byte number[LINKS];
bool mine[LINKS], his[LINKS];	/* last records: one's own has gone, the peer's has come */
byte rx_ring[LINKS], to_ring[LINKS];	/* 1 + ring; 0: none */
bool put[LINKS], told[LINKS], acked[LINKS];	/* of what this end sends */
byte out[LINKS];		/* WRITE: 1 posted, 2 executed, 0 complete */
byte tcp[LINKS];		/* 1: RESUME is in TCP; 2: and the byte, if it is owed */
bool from[LINKS];		/* RESUME's a */
bool unread[LINKS], got[LINKS], ack_due[LINKS];	/* of what this end receives */
#ifdef GROW
byte new_ring[LINKS];		/* 1 + ring that was offered */
byte to_new[LINKS];		/* 1 + ring that the peer has offered */
bool moved[LINKS], below[LINKS];	/* RING_USE has come, and its offset */
#endif
bool thrown[LINKS];		/* RESUME has come: the ring is given up */

/* Rules, with names that tests/model/run knows. */
bool record_finds_stream = true, last_is_last = true, number_is_free = true,
	write_finds_ring = true, source_is_there = true, announced_is_kept = true,
	reads_own = true, resends_own = true, resume_fits = true,
	carriers_up = true, all_arrive = true, numbers_free = true, rings_free = true;
#define must(rule, condition) rule = (condition); assert(rule)

#define SENDS(e) ((SENDERS >> (e)) & 1)
#define IS_OVER(e, s) (mine OF(e, s) || his OF(e, s))
#ifdef M_OWNLAST
#define IS_ENDED(e, s) IS_OVER(e, s)
#else
#define IS_ENDED(e, s) his OF(e, s)
#endif
#ifdef GROW
#define WHERE(e, s) (moved OF(e, s) && !below OF(e, s) -> new_ring OF(e, s) : rx_ring OF(e, s))
#if defined(M_OFFERED)
#define IS_LEFT(e, s, r) (new_ring OF(e, s) != 0 && rx_ring OF(e, s) == r + 1)
#elif defined(M_OFFSET)
#define IS_LEFT(e, s, r) (moved OF(e, s) && rx_ring OF(e, s) == r + 1)
#else
#define IS_LEFT(e, s, r) (moved OF(e, s) && rx_ring OF(e, s) == r + 1 && \
	(!below OF(e, s) || got OF(e, s) || thrown OF(e, s)))
#endif
#else
#define WHERE(e, s) rx_ring OF(e, s)
#define IS_LEFT(e, s, r) false
#endif
#ifdef M_UNREAD
#define IS_READ(e, s, r) true
#else
#define IS_READ(e, s, r) (!unread OF(e, s) || WHERE(e, s) != r + 1)
#endif
#ifdef M_COMPLETE
#define IS_COMPLETE(e, s) true
#else
#define IS_COMPLETE(e, s) (out OF(e, s) == 0)
#endif
#ifdef M_LATEACK
#define IS_TAKEN(e, s) acked OF(e, s)
#else
#define IS_TAKEN(e, s) (tcp OF(e, s) == 0 -> acked OF(e, s) : from OF(e, s))
#endif
#ifdef M_RESEND
#define IS_NEEDLESS(e, s) (IS_TAKEN(e, s) || tcp OF(e, s) == 2 || IS_OVER(e, s))
#else
#define IS_NEEDLESS(e, s) (IS_TAKEN(e, s) || tcp OF(e, s) == 2)
#endif

/* Memory that stream s has had last is free, to be used again or given back. */
#define RX_FREE(e, s, r) ((IS_ENDED(e, s) || IS_LEFT(e, s, r)) && IS_READ(e, s, r))
#define TX_FREE(e, s) (IS_COMPLETE(e, s) && IS_NEEDLESS(e, s))
#define RX_IS_FREE(r) (rx_owner RX_RING(c, e, r) == 0 || RX_FREE(e, (rx_owner RX_RING(c, e, r) - 1), r))
#define TX_IS_FREE (tx_owner SIDE(c, e) == 0 || TX_FREE(e, tx_owner SIDE(c, e) - 1))
#define TX_IS_OWN (tx_owner SIDE(c, e) == s + 1 && !TX_FREE(e, s))

#define HAS_ROOM (!gone SIDE(c, e) && nfull(wire SIDE(c, e)))
#define MAY_POST (HAS_ROOM && use NUMBER(number LINK) == s + 1 && state LINK != none)

inline post(type, ring)
{
	if
	:: lost SIDE(c, e)
	:: else -> wire SIDE(c, e)!type,number LINK,ring,got LINK,s
	fi
}

inline find_rx_ring()
{
	if
	:: RX_IS_FREE(0) -> rx_ring LINK = 1
#if RINGS == 2
	:: !RX_IS_FREE(0) && RX_IS_FREE(1) -> rx_ring LINK = 2
#endif
	:: else
	fi;
	if
	:: rx_ring LINK != 0 -> rx_owner RX_RING(c, e, rx_ring LINK - 1) = s + 1
	:: else
	fi
}

/* A last record has gone, or come. */
inline end_link()
{
	told LINK = false; ack_due LINK = false;
	if
#ifdef M_ONELAST
	:: his LINK -> use NUMBER(number LINK) = 0
#else
#ifdef M_AGAIN
	:: mine LINK -> use NUMBER(number LINK) = 0
#else
	:: mine LINK && his LINK -> use NUMBER(number LINK) = 0
#endif
#endif
	:: else
	fi
}

/* What the program and the threads of an end do with one stream. */
proctype link(byte c; byte e; byte s)
{
end:	do
	/* the asker opens a link */
	:: atomic { e == ASKER(s) && up[c] && HAS_ROOM && opened[e] == s / ASKERS &&
		    state LINK == none &&
		    (use NUMBER(0) == 0 || use NUMBER(NUMBERS - 1) == 0) ->
		opened[e]++;
		number LINK = (use NUMBER(0) == 0 -> 0 : NUMBERS - 1);
		use NUMBER(number LINK) = s + 1;
		state LINK = asked;
		find_rx_ring();
		post(OPEN, rx_ring LINK) }
	/* the answerer agrees */
	:: atomic { e != ASKER(s) && state LINK == asked && !mine LINK && !his LINK && MAY_POST ->
		state LINK = open;
		find_rx_ring();
		post(ACCEPT, rx_ring LINK) }
	/* each end may give it up at any moment, and does so in the end */
	:: atomic { !mine LINK && MAY_POST ->
		if
		:: e != ASKER(s) && state LINK == asked ->
			post(REFUSE, 0)
#ifdef M_REFUSE
			; his LINK = true
#endif
		:: else -> post(DROP, 0)
		fi;
		mine LINK = true;
		end_link() }
	/* the sender */
	:: atomic { SENDS(e) && state LINK == open && to_ring LINK != 0 && !put LINK &&
#ifdef M_BEHIND
		    HAS_ROOM &&
#else
		    !mine LINK && MAY_POST &&
#endif
		    TX_IS_FREE ->
		put LINK = true;
		told LINK = !mine LINK;
		out LINK = (lost SIDE(c, e) -> 0 : 1);
		tx_owner SIDE(c, e) = s + 1;
		post(WRITE, to_ring LINK) }
	:: atomic { told LINK && MAY_POST ->
		told LINK = false;
		post(DATA, 0) }
	:: atomic { out LINK == 2 ->	/* complete: not read again */
		must(source_is_there, TX_IS_OWN);
		out LINK = 0 }
	:: atomic { put LINK && IS_OVER(e, s) && tcp LINK == 0 ->
		tcp LINK = 1;
		from LINK = acked LINK }
	:: atomic { tcp LINK == 1 ->
		must(resends_own, from LINK || TX_IS_OWN);
		tcp LINK = 2 }
	/* the receiver */
	:: atomic { unread LINK ->
		must(reads_own, rx_owner RX_RING(c, e, WHERE(e, s) - 1) == s + 1 &&
			!RX_FREE(e, s, (WHERE(e, s) - 1)));
		unread LINK = false;
		got LINK = true;
		ack_due LINK = !mine LINK && !his LINK }
#ifdef GROW
	:: atomic { state LINK == open && !IS_OVER(e, s) && rx_ring LINK != 0 &&
		    new_ring LINK == 0 && MAY_POST && RX_IS_FREE((2 - rx_ring LINK)) ->
		new_ring LINK = 3 - rx_ring LINK;
		rx_owner RX_RING(c, e, new_ring LINK - 1) = s + 1;
		post(RING, new_ring LINK) }
	:: atomic { to_new LINK != 0 && !mine LINK && MAY_POST ->
		to_ring LINK = to_new LINK;
		to_new LINK = 0;
		post(RING_USE, put LINK) }
#endif
	:: atomic { ack_due LINK && MAY_POST ->
		ack_due LINK = false;
		post(ACK, 0) }
	:: atomic { tcp PEER > 0 && !thrown LINK ->
		must(resume_fits, !from PEER || got LINK);
		thrown LINK = true;
		unread LINK = false }
	:: atomic { tcp PEER == 2 && thrown LINK && !got LINK -> got LINK = true }
	od
}

/* What arrives at end e: WRITEs, and the records that its threads take without waiting for
 * anything. */
proctype poll(byte c; byte e)
{
	mtype type;
	byte n, ring, s;
	bool ack;

end:	do
	:: atomic { nempty(wire SIDE(c, 1 - e)) ->
		wire SIDE(c, 1 - e)?type,n,ring,ack,s;
		if
		:: type == WRITE ->
			must(write_finds_ring, rx_owner RX_RING(c, e, ring - 1) == s + 1 &&
				!RX_FREE(e, s, (ring - 1)));
			if
			:: out PEER == 1 -> out PEER = 2
			:: else
			fi
		:: type == OPEN ->
			must(number_is_free, use NUMBER(n) == 0);
			if
			:: !gone SIDE(c, e) ->
				use NUMBER(n) = s + 1;
				number LINK = n;
				state LINK = asked;
				to_ring LINK = ring
			:: else
			fi
		:: type != WRITE && type != OPEN && !gone SIDE(c, e) ->
			must(record_finds_stream, use NUMBER(n) == s + 1);
			must(last_is_last, !his LINK);
			acked LINK = acked LINK || ack;
			if
			:: type == ACCEPT && !mine LINK -> state LINK = open; to_ring LINK = ring
			:: type == DATA && !mine LINK && !thrown LINK && !got LINK ->
				must(announced_is_kept,
					rx_owner RX_RING(c, e, WHERE(e, s) - 1) == s + 1 &&
					!RX_FREE(e, s, (WHERE(e, s) - 1)));
				unread LINK = true
#ifdef GROW
			:: type == RING && !mine LINK -> to_new LINK = ring
			:: type == RING_USE && !mine LINK -> moved LINK = true; below LINK = ring
#endif
			:: type == DROP || type == REFUSE -> his LINK = true; end_link()
			:: else
			fi
		:: else
		fi;
		type = 0; n = 0; ring = 0; ack = 0; s = 0 }
	od
}

/* The carrier's death. */
inline lose()
{
	lost SIDE(c, e) = true;
	do
	:: nempty(wire SIDE(c, e)) -> wire SIDE(c, e)?_,_,_,_,_
	:: empty(wire SIDE(c, e)) -> break
	od
}

proctype death(byte c; byte e)
{
	byte s, n;

	atomic { broken[c] ->
		if
		:: true -> lose()
		:: true
		fi }
	/* this end learns of it */
	atomic {
		gone SIDE(c, e) = true;
		do
		:: n < NUMBERS -> use NUMBER(n) = 0; n++
		:: else -> n = 0; break
		od;
		do
		:: s < STREAMS ->
			if
			:: CARRIER(s) == c && state LINK != none ->
				mine LINK = true; his LINK = true;
				told LINK = false; ack_due LINK = false;
				to_ring LINK = 0; number LINK = 0
#ifdef GROW
				; to_new LINK = 0
#endif
			:: else
			fi;
			s++
		:: else -> s = 0; break
		od
#ifdef M_QPLAST
	};
	atomic {
#else
		;
#endif
		/* its queue pair is destroyed: nothing comes, and its device reads nothing more */
		e = 1 - e; lose(); e = 1 - e;
		do
		:: s < STREAMS ->
			if
			:: CARRIER(s) == c -> out LINK = 0
			:: else
			fi;
			s++
		:: else -> s = 0; break
		od
	}
}

/* The threads that ask for a carrier, and those that answer.  These have others to do, too. */
proctype asker(byte c)
{
	requested[c] = true
}

proctype answerer(byte c)
{
#ifdef M_ASKS
	atomic { requested[c] && (!requested[CARRIERS - 1 - c] || up[CARRIERS - 1 - c]) ->
		up[c] = true }
#else
	atomic { requested[c] -> up[c] = true }
#endif
}

#ifdef DEATH
active proctype fate()
{
	broken[0] = true
}
#endif

init
{
	byte c, e, s, n;

	atomic {
		do
		:: c < CARRIERS ->
			run asker(c);
			run answerer(c);
			e = 0;
			do
			:: e < 2 ->
				run poll(c, e);
#ifdef DEATH
				run death(c, e);
#endif
				s = 0;
				do
				:: s < STREAMS ->
					if
					:: CARRIER(s) == c -> run link(c, e, s)
					:: else
					fi;
					s++
				:: else -> break
				od;
				e++
			:: else -> break
			od;
			c++
		:: else -> break
		od;
		c = 0; e = 0; s = 0
	};
	timeout;
	atomic {
		do
		:: c < CARRIERS ->
			must(carriers_up, up[c]);
			e = 0;
			do
			:: e < 2 ->
				n = 0;
				do
				:: n < NUMBERS -> must(numbers_free, use NUMBER(n) == 0); n++
				:: else -> break
				od;
				n = 0;
				do
				:: n < RINGS -> must(rings_free, RX_IS_FREE(n)); n++
				:: else -> break
				od;
				must(rings_free, TX_IS_FREE);
				s = 0;
				do
				:: s < STREAMS -> must(all_arrive, !put LINK || got PEER); s++
				:: else -> break
				od;
				e++
			:: else -> break
			od;
			c++
		:: else -> break
		od
	}
#if REACH == 1
	; assert(!put[0] || !put[1] || number[1] != 0)	/* number and ring used again */
#elif REACH == 2
	; assert(tcp[0] != 2 || from[0])	/* resent */
#elif REACH == 3
	; assert(!put[0] || !put OF(1, 0))	/* both directions */
#elif REACH == 4
	; assert(!put[0] || !moved OF(1, 0) || below OF(1, 0))	/* read from the new ring */
#endif
}
