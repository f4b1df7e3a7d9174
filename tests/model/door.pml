/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * door.pml - an epoll set of two streams whose links share a doorbell (src/epoll/member.c, "Shared
 * doorbells"; src/link/verbs/cq.c).
 *
 * The kernel's set has the descriptor once, edge-triggered, with the token of stream 0.  A thread
 * WAITS in the set.  Another one deletes stream 0 there, and perhaps takes it out then: the token
 * of stream 1 takes its place.  A third thread polls the carrier once, for a call of its own.
 * Whatever comes for stream 1 is told.
 *
 * Mutations (-DM_...):
 *   TOKEN    the token is not handed on
 *   SILENT   it is, but the kernel does not look at the descriptor again
 *   DELETED  an event with the token of a stream that is deleted is void
 *   OWN      an event asks the carrier only if its own stream is armed
 *   DISARM   the thread that reads the event does not arm the CQ again
 *   BLIND    it does not look once more behind that
 */
#define N 2	/* messages for stream 1 */
#define NONE 2

byte in_queue[2];	/* completions that nobody has taken, by stream */
byte arrived, told;	/* messages for stream 1 */
bool armed = true;	/* the CQ */
bool readable;		/* the channel has an event */
bool edge;		/* the kernel's set has one for us */
byte token;		/* whose */
bool open[2] = true;	/* the stream's entry has its door */
bool deleted;		/* stream 0 */
bool relies[2] = true;	/* armed once, and nothing has come since */
bool listed[2];

inline complete(s)
{
	atomic {
		in_queue[s]++;
		if
		:: armed -> armed = false; readable = true; edge = true
		:: else
		fi
	}
}

/* Takes all completions, and notifies: with the carrier's lock. */
inline reap()
{
	if
	:: in_queue[0] -> in_queue[0] = 0; relies[0] = false; listed[0] = true
	:: else
	fi;
	if
	:: in_queue[1] -> arrived = arrived + in_queue[1]; in_queue[1] = 0; relies[1] = false;
		listed[1] = true
	:: else
	fi
}

/* The event is read; what has come is taken; and if somebody relies on it, the next arrival is to
 * make another one. */
inline rang()
{
	atomic { readable = false; reap() };
#ifndef M_DISARM
	atomic {
		if
		:: relies[0] || relies[1] -> armed = true
		:: else
		fi
	};
#endif
#ifndef M_BLIND
	atomic { reap() }
#endif
}

/* An entry that is quiet is armed, and looked at once more. */
inline visit(s)
{
	listed[s] = false;
	if
	:: s == 1 -> told = arrived
	:: else
	fi;
	atomic {
		if
		:: open[s] && !(s == 0 && deleted) -> relies[s] = true;
			if
			:: !armed -> armed = true; readable = false
			:: else
			fi
		:: else
		fi
	};
	atomic { reap() }
}

active proctype device()
{
	byte n;

	do
	:: n < N -> complete(1); n++
	:: n == N -> break
	:: n < N && !deleted -> complete(0); n++	/* instead */
	od
}

active proctype waits()
{
	byte t;

	do
	:: listed[0] -> visit(0)
	:: listed[1] -> visit(1)
	:: !listed[0] && !listed[1] && edge ->
		atomic { edge = false; t = token };
		if
		:: t == NONE
#ifdef M_DELETED
		:: t == 0 && deleted
		:: t != NONE && !(t == 0 && deleted) && open[t] -> rang()
#else
#ifdef M_OWN
		:: t != NONE && open[t] && !relies[t]
		:: t != NONE && open[t] && relies[t] -> rang()
#else
		:: t != NONE && open[t] -> rang()
#endif
#endif
		:: t != NONE && !open[t]	/* void */
		fi
	od
}

active proctype other()
{
	deleted = true;
	if
	:: skip		/* a deleted entry may keep its door for long */
	:: atomic {
		open[0] = false;
		relies[0] = false;
#ifdef M_TOKEN
		token = NONE
#else
		token = 1;
#ifndef M_SILENT
		if
		:: readable -> edge = true
		:: else
		fi
#endif
#endif
	}
	fi
}

active proctype poller()
{
	atomic { reap() }
}

/* When nothing can happen any more, all is told. */
active proctype observer()
{
	timeout;
	assert(told == arrived && !in_queue[1])
}
