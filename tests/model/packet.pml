/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * packet.pml - packet credit of a carrier (PROTOCOL.md, "Carriers", "Packet credit").
 *
 * Two ends.  Each has POSTED0, POSTED1 receive buffers on the queue pair, takes the packets
 * that come, in order, and posts each buffer again.  GROW times it posts one more.  A packet
 * says how many buffers its sender has posted in all; the model has the difference to the
 * packet before, which is the same, because packets are neither lost nor overtaken.  An end
 * may send a packet of records or not, as it likes, while it knows of more than KEPT buffers.
 * While half of its own are unreported it owes a packet of nothing but the count, which may
 * use the kept ones.
 *
 * No packet may meet a queue without buffers ("receiver not ready").  When no end sends
 * records any more, all packets are taken, counts come to an end, and each end may send
 * records again.  A packet that makes a count owed finds a buffer for that count, unless the
 * count may be held back (-DHELD).
 *
 * Mutations (-DM_...), besides KEPT=0, KEPT=1 and fewer than four buffers:
 *   EARLY	the count says a buffer before it is posted
 *   RECORDS	records use the kept buffers, too
 *   WAITS	an end takes a packet only while it could answer with a record
 *   LAZY	a count is owed only when the peer has no buffer left for records
 *   ANSWERS	a count is owed when a packet has come, whatever is unreported
 */
#ifndef POSTED0
#define POSTED0 4
#endif
#ifndef POSTED1
#define POSTED1 POSTED0
#endif
#ifndef KEPT
#define KEPT 2
#endif
#ifndef GROW
#define GROW 0
#endif
#define MOST 10			/* buffers, and so packets on their way */

chan way[2] = [MOST] of { byte, bool };	/* from end 0, 1: buffers more; has records */
byte grown[2];
#define SIZE(e) ((e -> POSTED1 : POSTED0) + grown[e])	/* buffers that the end has */
byte used[2];			/* of these not posted: a packet of the peer's is in it */
byte taken[2];			/* of these: its packet was taken */
short spent[2];			/* packets sent, less what the peer has said of them */
#define KNOWN(e) ((e -> POSTED0 : POSTED1) - spent[e])	/* buffers that the end may use */
byte unreported[2];
byte counts;			/* sent since the last packet of records */
bool quiet;			/* nobody sends records any more */

/* Rules, with names that tests/model/run knows. */
bool receiver_ready = true, counts_end = true, all_taken = true, may_send_again = true,
	count_has_buffer = true;
#define must(rule, condition) rule = (condition); assert(rule)

#define ME _pid
#define PEER (1 - _pid)

#ifdef M_LAZY
#define OWES(e) (unreported[e] >= SIZE(e) - KEPT + 1)
#else
#ifdef M_ANSWERS
#define OWES(e) (unreported[e] > 0)
#else
#define OWES(e) (unreported[e] >= SIZE(e) / 2)
#endif
#endif
#ifdef M_RECORDS
#define MAY_SEND(e) (KNOWN(e) > 0)
#else
#define MAY_SEND(e) (KNOWN(e) > KEPT)
#endif
#ifdef M_WAITS
#define MAY_TAKE(e) MAY_SEND(e)
#else
#define MAY_TAKE(e) true
#endif

/* The device puts a packet into a buffer of the peer's when it arrives, and its sender does not
 * know when that is: the worst case is at once. */
inline send(records)
{
	must(receiver_ready, used[PEER] < SIZE(PEER));
	used[PEER]++;
	spent[ME]++;
	way[ME]!unreported[ME],records;
	unreported[ME] = 0
}

active [2] proctype end_of_carrier()
{
	byte more;
	bool records;

end:	do
	:: atomic { !quiet && MAY_SEND(ME) ->
		send(true);
		counts = 0 }
	:: atomic { OWES(ME) && KNOWN(ME) > 0 ->
		send(false);
		counts++;
		/* Counts come to an end, because each one needs half of a queue. */
		must(counts_end, counts <= SIZE(0) + SIZE(1)) }
	:: atomic { nempty(way[PEER]) && MAY_TAKE(ME) ->
		way[PEER]?more,records;
		spent[ME] = spent[ME] - more;
		unreported[ME]++;
#ifdef M_EARLY
		taken[ME]++;
#else
		used[ME]--;
#endif
#ifndef HELD
		must(count_has_buffer, !OWES(ME) || KNOWN(ME) > 0);
#endif
		more = 0; records = false }
	:: atomic { taken[ME] > 0 ->
		taken[ME]--;
		used[ME]-- }
	:: atomic { grown[ME] < GROW ->
		grown[ME]++;
		unreported[ME]++ }
	od
}

active proctype end_of_all()
{
	quiet = true;
	timeout;
	must(all_taken, empty(way[0]) && empty(way[1]));
	must(may_send_again, KNOWN(0) > KEPT && KNOWN(1) > KEPT)
#ifdef REACH
	; assert(false)
#endif
}
