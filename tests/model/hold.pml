/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hold.pml - policy wait holds a program's first send (src/upgrade/hold.c, answer.c;
 * PROTOCOL.md, "What the asker's program waits for").
 *
 * N programs in a ring: each connects to the next one, asks for a link then or when it
 * sends, is held in that send, accepts before or after it, and only then uses what it has
 * accepted.  One program (-DN=1) has both ends of its stream.  No hold may last until a
 * limit ends it: time passes only when nothing else can happen.  In the end each stream has
 * its link.
 *
 * Mutations: M_NOLATER: the answerer does not look whether its own program is held;
 * M_ONCE: it says nothing more after a first answer.
 */
#ifndef N
#define N 2
#endif
#define ME (_pid - N)
#define FROM ((ME + N - 1) % N)

mtype = { none, on, later };	/* on: taken, or coming */
mtype first[N] = none;	/* the answer that stream n has got */
bool connected[N], asked[N], taken[N], used[N], linked[N];
bool held[N], accepting[N];
byte done;

inline accept_next()
{
	accepting[_pid] = true;
	connected[(_pid + N - 1) % N];
	atomic { taken[(_pid + N - 1) % N] = true; accepting[_pid] = false }
}

/* In a ring of those who all accept first nobody would connect. */
active [N] proctype program()
{
	bool accepted = false;

	connected[_pid] = true;
	if
	:: asked[_pid] = true
	:: skip
	fi;
	if
	:: accept_next(); accepted = true
	:: skip
	fi;
	atomic { asked[_pid] = true; held[_pid] = true }
	if
	:: first[_pid] == later || linked[_pid]
	:: timeout -> assert(false)
	fi;
	held[_pid] = false;
	if
	:: accepted
	:: else -> accept_next()
	fi;
	used[(_pid + N - 1) % N] = true
}

/* The service thread of program ME, which is asked for stream FROM. */
active [N] proctype service()
{
	do
	:: atomic { asked[FROM] && used[FROM] -> linked[FROM] = true; break }
	:: atomic { asked[FROM] && !used[FROM] && first[FROM] == none &&
		    (accepting[ME] || taken[FROM]) ->
		first[FROM] = on }
#ifndef M_NOLATER
	:: atomic { asked[FROM] && !used[FROM] && held[ME] && first[FROM] == none ->
		first[FROM] = later }
#ifndef M_ONCE
	:: atomic { asked[FROM] && !used[FROM] && held[ME] && first[FROM] == on ->
		first[FROM] = later }
#endif
#endif
	od;
	done++
}

active proctype end_of_all()
{
	timeout -> assert(done == N)
}
