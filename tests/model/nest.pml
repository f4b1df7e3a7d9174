/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * nest.pml - an epoll set that is itself waited for, in another set or by poll(2)
 * (src/epoll/nest.c; PROTOCOL.md, "A set that is waited for").
 *
 * The set has one entry, level-triggered (-DEDGE: edge-triggered), on a link.  The kernel's set holds its doorbell,
 * edge-triggered, and an eventfd: the waker while the set is ordinary (edge-triggered), the
 * flag once it is nested (level-triggered).  A message of the peer rings the doorbell if
 * the entry is armed; another one is found by a thread of ours, which lists the entry.
 *
 * outer() makes the set nested at any moment, and then sleeps in the kernel until the set is
 * readable.  Then it calls epoll_wait(2) on the set, or takes the bytes at once.  inner() is
 * a thread that calls epoll_wait(2) on the set all the time, asleep or not (-DINNER), or
 * one that has looked once, without sleeping (-DONCE).
 *
 * In the end all bytes are taken, so nobody slept for ever; and the set is not readable.
 * Alone, the outer sleeper is woken for nothing at most twice for each piece of news, apart from a
 * time in which another thread is about to lower the flag.
 *
 * A thread that leaves an entry listed does not raise the flag: it counts the set as ready, unsaid,
 * and raises the flag only if a thread sleeps.  Who is about to sleep for the outer set raises it.
 *
 * Mutations:
 *   M_UNASKED	a thread that is about to sleep for the outer set does not look what is unsaid
 *   M_LOOKS	it looks, and then counts itself as a sleeper
 *   M_ASLEEP	a thread that leaves the flag does not look who sleeps for the outer set
 *   M_FIRST	a notifier makes the flag readable, and then lists the entry
 *   M_OLD	a thread that lowers the flag does not look again whether entries are listed
 *   M_LATE	the flag is lowered behind a look that has found nothing, whatever is listed
 *   M_BLIND	a set becomes nested, and what is listed is not looked at
 *   M_TAKEN	a thread that takes the bytes does not look at the set
 *   M_POLLED	an entry of a nested set may stay in the queue without being armed
 *   M_UNNOTED	(EDGE) a look that is the first to see bytes does not note that they are new
 *   M_LOWERED	(EDGE) a thread that takes some bytes drops an entry that has news
 */
#ifndef NEWS
#define NEWS 2			/* messages that a thread of ours finds */
#endif
#define ALL (NEWS + 1)
#define IDLE (2 * ALL + 2)	/* each lists the entry, and may ring; so may the change */

bool nested;
byte bytes, got;		/* under the stream's lock */
bool armed, bell, bell_queued;
bool waker_queued, woken;
bool flag, raised, flag_there;
byte sleepers;			/* in the set, and 1 for its being nested */
byte outers;			/* threads that sleep for the outer set, or are about to */
bool unsaid;			/* under `telling' */
bool listed = true, queued = true, again;	/* it has just been linked */
byte ready = 1;
bool looking, telling;		/* locks */
byte taking;			/* threads that have taken bytes, and not looked yet */
bool edge;			/* bytes have come that no wait has told of */
byte noted;			/* bytes that somebody has noted as news */
byte done, idle;

#define READABLE ((bell && bell_queued) || waker_queued || (flag && flag_there))

inline lock(l) { atomic { !l -> l = true } }

/* sr_epoll_tell() */
inline tell()
{
#ifdef M_OLD
	want = ready > 0;
#endif
	lock(telling);
#ifndef M_OLD
	want = ready > 0;
#endif
	unsaid = false;
	if
	:: want && !raised -> flag = true; raised = true
	:: !want && raised -> flag = false; raised = false
	:: else
	fi;
	telling = false;
	want = false
}

/* sr_epoll_tell_later() */
inline tell_later()
{
	lock(telling);
	if
	:: ready && !raised -> unsaid = true;
#ifdef M_ASLEEP
		want = false;
#else
		want = outers > 0;
#endif
		want = want || sleepers > 1;
		if
		:: want -> unsaid = false; flag = true; raised = true
		:: else
		fi
	:: ready == 0 -> unsaid = false;
		if
		:: raised -> flag = false; raised = false
		:: else
		fi
	:: else
	fi;
	telling = false;
	want = false
}

/* wake_set() of ready.c.  now: for an arrival that no visit has found */
inline wake(now)
{
	if
	:: sleepers == 0
	:: sleepers && nested && now -> tell()
	:: sleepers && nested && !now -> tell_later()
	:: sleepers && !nested -> if
		:: atomic { ready && !woken -> woken = true }; waker_queued = !flag_there
		:: else
		fi
	fi
}

/* Whoever sees bytes first notes that they are news.  A look does so for the entry that it
 * looks at, and leaves the flag alone: its visit changes that at its end. */
inline note()
{
	atomic { edge = edge || noted != bytes + got; noted = bytes + got }
}

inline claim()
{
	again = true;
	if
	:: atomic { !listed -> listed = true; ready++; queued = true }
	:: else
	fi
}

/* An entry that is on the list; `looking' is held.  found: it is to be reported. */
inline visit(sleeps)
{
	again = false;
	arms = (sleepers > 0) || sleeps;
#ifdef M_POLLED
	if
	:: arms = false
	:: skip
	fi;
#endif
	if
	:: arms ->
		if
		:: bell -> bell = false
		:: else
		fi;
		armed = true
	:: else
	fi;
#ifdef EDGE
#ifdef M_UNNOTED
	noted = bytes + got;
#else
	note();
#endif
	atomic { found = bytes && edge; edge = edge && (peeks || !found) };
	if
#ifndef M_LOWERED
	:: (found && peeks) || !arms
#else
	:: !arms
#endif
#else
	found = bytes > 0;
	if
	:: found || !arms	/* stays in the queue */
#endif
	:: else ->
		atomic { ready--; queued = false };
		listed = false;
		if
		:: atomic { again && !listed -> listed = true; ready++; queued = true }
		:: else
		fi
	fi
}

inline collect(sleeps)
{
	found = false;
	if
	:: ready ->
		lock(looking);
		if
		:: queued -> visit(sleeps)
		:: else
		fi;
#ifdef M_LATE
		if
		:: nested && !found -> lock(telling); flag = false; raised = false; telling = false
		:: else -> wake(false)
		fi;
#else
		wake(false);
#endif
		looking = false
	:: else
	fi
}

/* sr_epoll_tidy_nested(): nothing is reported, and what is quiet leaves the queue. */
inline tidy()
{
	lock(looking);
	peeks = true;
	do
	:: queued -> visit(false);
		if
		:: queued -> break	/* ready, or on the list again */
		:: else
		fi
	:: else -> break
	od;
	wake(false);
	found = false;
	peeks = false;
	looking = false
}

/* What the kernel's epoll_wait has; `found' as above. */
inline kernels()
{
	if
	:: atomic { bell_queued -> token = bell; bell_queued = false };
		if
		:: token ->
			lock(looking);
			claim();
			visit(false);
			wake(false);
			looking = false
		:: else
		fi;
		token = false
	:: else
	fi;
	if
	:: waker_queued -> waker_queued = false; woken = false
	:: else
	fi
}

/* recv(2), of all there is */
inline take()
{
	atomic { got = got + bytes; bytes = 0; taking++ };
#ifndef M_TAKEN
	if
	:: nested -> claim(); tidy()
	:: else
	fi;
#endif
	taking--
}

inline wait_at_once()
{
	collect(false);
	if
	:: !found -> kernels(); if :: !found -> collect(false) :: else fi
	:: else
	fi
}

active proctype peer()
{
	bytes++;
	if
	:: atomic { armed -> armed = false }; atomic { bell = true; bell_queued = true }
	:: else
	fi;
	done++
}

/* A thread of ours finds a message, or a link without a doorbell has one. */
active proctype notifier()
{
	bool want;
	byte news;

more:	bytes++;
#ifdef M_FIRST
	if
	:: nested -> lock(telling); flag = true; raised = true; telling = false; claim()
	:: else -> claim(); wake(true)
	fi;
#else
#ifdef EDGE
	note();
#endif
	claim();
	wake(true);
#endif
	news++;
	if
	:: news < NEWS -> goto more
	:: else
	fi;
	done++
}

#if defined(INNER) || defined(ONCE)
active proctype inner()
{
	bool found, arms, want, token, peeks;

#ifdef ONCE
	wait_at_once();
	if
	:: found -> take()
	:: else
	fi;
	done++
#else
	done++;
	do
	:: collect(true);
		if
		:: !found ->
			sleepers++;
			if
			:: ready
			:: else ->
end:				READABLE
			fi;
			kernels();
			sleepers--;
			if :: !found -> collect(false) :: else fi
		:: else
		fi;
		if
		:: found -> take()
		:: else
		fi;
		found = false
	od
#endif
}
#define THREADS 1
#else
#define THREADS 0
#endif

active proctype outer()
{
	bool found, arms, want, token, peeks;
	byte before;

	/* sr_epoll_nest() */
	nested = true;
	sleepers++;
	waker_queued = false;
	flag_there = true;
#ifndef M_BLIND
	tidy();
#endif
	done++;
	do
	::
#ifdef M_LOOKS
		if
		:: unsaid -> tell()
		:: else
		fi;
		outers++;
#else
		outers++;
#ifndef M_UNASKED
		if
		:: unsaid -> tell()
		:: else
		fi;
#endif
#endif
		READABLE;
		outers--;
#if !THREADS
		before = got;
#endif
		if
		:: wait_at_once();
			if
			:: found -> take()
			:: else
			fi
		:: take()
		fi;
		found = false;
#if !THREADS
		atomic { idle = idle + (got == before && !looking && !telling && !taking);
			assert(idle <= IDLE) };
		before = 0
#endif
	od
}

active proctype end_of_all()
{
	timeout -> assert(done == 3 + THREADS && got == ALL && !READABLE)
}
