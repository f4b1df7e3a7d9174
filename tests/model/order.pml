/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * order.pml - litmus tests of the store-load pairs in src/ ("pair NAME" in the comments
 * there; base/order.h), and the wake-ups that rest on them.
 *
 * What is modelled.  Each thread has a buffer of its own stores, first in, first out, which
 * reach memory at any later moment; its loads see them at once.  A fence waits until the
 * buffer is empty.  A read-modify-write waits for the stores before it and then changes
 * memory at once.  A relaxed (or acquire) load may be satisfied before a store or
 * read-modify-write in front of it (ARMv8.0, POWER).  A sequentially consistent load waits
 * for the sequentially consistent stores in front of it, and for no other stores: C11
 * promises no more.
 *
 * What is not.  Stores that overtake stores, loads that overtake loads (publish and
 * observe), and threads that see two other threads' stores in different orders.
 *
 *   -DPAIR	two threads, each changes a word, then looks at the other's.  One must see
 *		the other's change.  -DE0=... -DE1=...: how each end does it; without them,
 *		every way that base/order.h allows.
 *   -DDOORBELL	the same with a sleeper and its doorbell (link/shm/wake.c; with the
 *		sleeper's change in a store, engine/waiters.c)
 *   -DLISTED	an epoll set: two threads with news of one entry, one that waits
 *		(epoll/ready.c, epoll/wait.c)
 *   -DLOOP	the service thread and two that post (base/loop.c)
 *
 * Mutations are ways that base/order.h does not allow, WEAK_..., and -DM_...:
 *   NOAGAIN	an entry that is dropped is not looked at again
 *   LATE	the waker of a set is made ready for the next ring only behind the look
 */

/* How an end changes a word and then looks at another one. */
#define FENCED		1	/* store, sr_fence_look(), load */
#define RMW_FENCED	2	/* atomic_fetch_or(), sr_fence_look(), load */
#define RMW		3	/* atomic_exchange(), atomic_load() */
#define STORE		4	/* atomic_store(), atomic_load() */
#define WEAK_FENCED	5	/* store, load */
#define WEAK_RMW	6	/* atomic_exchange(), relaxed load */
#define WEAK_STORE	7	/* release store, atomic_load() */
#define WEAK_LOAD	8	/* atomic_store(), relaxed load */

#define THREADS 3
#define WORDS 6
#define AT(word) [me * WORDS + word]

byte mem[WORDS];
chan buffer[THREADS] = [2] of { byte, byte, bool };
byte own[THREADS * WORDS];	/* the last store of a thread that is in its buffer */
byte waits[THREADS * WORDS];	/* how many there are */
byte strong[THREADS];		/* how many of them are sequentially consistent */

active [THREADS] proctype store_buffer()
{
	byte me = _pid, word, value;
	bool sc;

end:	do
	:: atomic { buffer[me]?word,value,sc ->
		mem[word] = value;
		waits AT(word)--;
		strong[me] = strong[me] - sc;
		word = 0; value = 0; sc = 0 }
	od
}

inline store(word, value, sc)
{
	atomic {
		buffer[me]!word,value,sc;
		own AT(word) = value;
		waits AT(word)++;
		strong[me] = strong[me] + sc
	}
}

inline look_now(word, into)
{
	if
	:: waits AT(word) -> into = own AT(word)
	:: else -> into = mem[word]
	fi
}

inline load(word, into) { atomic { look_now(word, into) } }
inline load_sc(word, into) { atomic { strong[me] == 0 -> look_now(word, into) } }
inline fence() { empty(buffer[me]) }
inline exchange(word, value, was)
{
	atomic { empty(buffer[me]) -> was = mem[word]; mem[word] = value }
}
inline fetch_or(word, bits)
{
	atomic { empty(buffer[me]) -> mem[word] = mem[word] | bits }
}
inline fetch_add(word, n)
{
	atomic { empty(buffer[me]) -> mem[word] = mem[word] + n }
}

#define MAY_BE_EARLY(how) (how == WEAK_RMW || how == WEAK_FENCED || how == WEAK_LOAD)

/* word |= bits, or word = bits; then saw = other. */
inline change_then_look(how, word, bits, other, saw)
{
	early = false;
	if
	:: MAY_BE_EARLY(how) -> atomic { look_now(other, saw); early = true }
	:: skip
	fi;
	if
	:: how == FENCED || how == WEAK_FENCED || how == WEAK_STORE -> store(word, bits, 0)
	:: how == STORE || how == WEAK_LOAD -> store(word, bits, 1)
	:: else -> fetch_or(word, bits)
	fi;
	if
	:: how == FENCED || how == RMW_FENCED -> fence(); load(other, saw)
	:: how == RMW || how == STORE || how == WEAK_STORE -> load_sc(other, saw)
	:: else -> if
		:: early
		:: else -> load(other, saw)
		fi
	fi;
	early = false
}

bool finished;

#ifdef PAIR
#define A 0
#define B 1
byte how[2], saw[2], ended;

inline choose(i)
{
	if
	:: how[i] = FENCED
	:: how[i] = RMW_FENCED
	:: how[i] = RMW
	:: how[i] = STORE
	fi
}

proctype end_of_pair(byte me)
{
	bool early;

	if
	:: me == 0 -> change_then_look(how[0], A, 1, B, saw[0])
	:: else -> change_then_look(how[1], B, 1, A, saw[1])
	fi;
	ended++
}

init {
	atomic {
#ifdef E0
		how[0] = E0;
#else
		choose(0);
#endif
#ifdef E1
		how[1] = E1;
#else
		choose(1);
#endif
		run end_of_pair(0); run end_of_pair(1)
	}
	ended == 2;
	finished = saw[0] || saw[1]
}
#endif

#ifdef DOORBELL
#ifndef E0
#define E0 RMW		/* tx_commit(); rx_free() and notify() are FENCED */
#endif
#ifndef E1
#define E1 RMW_FENCED	/* arm(); attach() is FENCED */
#endif
#define SENT 0
#define ASLEEP 1
#define LAST 3		/* SENT is bits, as fetch_or() serves for exchange() */
bool bell;

active proctype sender()
{
	byte me = 0, sent, asleep, was;
	bool early;

	do
	:: sent == LAST -> break
	:: else ->
		sent = sent * 2 + 1;
		change_then_look(E0, SENT, sent, ASLEEP, asleep);
		if
		:: asleep -> exchange(ASLEEP, 0, was);
			if
			:: was -> bell = true
			:: else
			fi
		:: else
		fi
	od
}

active proctype sleeper()
{
	byte me = 1, there, got, was;
	bool early;

	do
	:: got == LAST -> break
	:: else ->
		load(SENT, there);
		if
		:: there != got -> got = there
		:: else ->
			change_then_look(E1, ASLEEP, 1, SENT, there);
			if
			:: there != got
			:: else -> bell -> bell = false
			fi;
			exchange(ASLEEP, 0, was);
			got = there
		fi
	od;
	finished = true
}
#endif

#ifdef LISTED
#ifndef LISTER
#define LISTER RMW	/* list_entry(): edge, then claim_entry()'s look at `listed' */
#endif
#ifndef WAKER
#define WAKER RMW	/* claim_entry(): ready, then wake_set()'s look at `sleepers' */
#endif
#ifndef DROPPER
#define DROPPER STORE	/* queue_drop(): listed, then sr_epoll_has_news()'s look at `edge' */
#endif
#ifndef SLEEPER
#define SLEEPER RMW	/* ask_kernel(): sleepers, then `ready' */
#endif
#define EDGE 0
#define ISLISTED 1
#define READY 2		/* at most 1: there is one entry */
#define SLEEPERS 3
#define WOKEN 4
#define NEWS 5
byte data, seen;	/* under the stream's locks, and so plain here */
bool waker;

active [2] proctype lister()
{
	byte me = _pid - THREADS, listed, was, sleepers, ready;
	bool early;

	data = data | (1 << me);
	change_then_look(LISTER, EDGE, 1, ISLISTED, listed);
	if
	:: !listed -> exchange(ISLISTED, 1, was);
		if
		:: !was -> change_then_look(WAKER, READY, 1, SLEEPERS, sleepers);
			exchange(NEWS, 1, was)	/* (in the source before the look) */
		:: else -> load_sc(SLEEPERS, sleepers)
		fi
	:: else -> load_sc(SLEEPERS, sleepers)
	fi;
	load_sc(READY, ready);
	if
	:: sleepers && ready -> exchange(WOKEN, 1, was);
		if
		:: !was -> waker = true
		:: else
		fi
	:: else
	fi
}

active proctype waiter()
{
	byte me = 2, ready, edge, listed, was;
	bool early, queued;

	do
	:: seen == 3 -> break
	:: else ->
		load_sc(READY, ready);
		if
		:: ready ->
			exchange(NEWS, 0, was);
			queued = queued || was;
			if
			:: queued ->
				exchange(EDGE, 0, edge);
				seen = seen | data;
				/* queue_drop() */
				queued = false;
				exchange(READY, 0, was);
#ifdef M_NOAGAIN
				store(ISLISTED, 0, 1);
				edge = 0;
#else
				change_then_look(DROPPER, ISLISTED, 0, EDGE, edge);
#endif
				if
				:: edge -> load_sc(ISLISTED, listed);
					if
					:: !listed -> exchange(ISLISTED, 1, was);
						if
						:: !was -> queued = true;
							exchange(READY, 1, was)
						:: else
						fi
					:: else
					fi
				:: else
				fi
			:: else
			fi
		:: else ->
			change_then_look(SLEEPER, SLEEPERS, 1, READY, ready);
			if
			:: ready
			:: else -> waker -> waker = false;
#ifdef M_LATE
				load_sc(READY, ready);
				if
				:: !ready -> store(WOKEN, 0, 1); fence();
					waker -> waker = false
				:: else
				fi;
#endif
				store(WOKEN, 0, 1)
			fi;
			exchange(SLEEPERS, 0, was)
		fi
	od;
	finished = true
}
#endif

#ifdef LOOP
#ifndef POSTER
#define POSTER RMW	/* sr_loop_post(): posted, then loop_wake()'s look at `sleeping' */
#endif
#ifndef SLEEPER
#define SLEEPER STORE	/* sleep_once(): sleeping, then `posted' */
#endif
#define POSTED 0
#define SLEEPING 1
bool wakefd;

active [2] proctype poster()
{
	byte me = _pid - THREADS, sleeping, was;
	bool early;

	change_then_look(POSTER, POSTED, 1 << me, SLEEPING, sleeping);
	if
	:: sleeping -> exchange(SLEEPING, 0, was);
		if
		:: was -> wakefd = true
		:: else
		fi
	:: else
	fi
}

active proctype loop()
{
	byte me = 2, done, posted;
	bool early;

	do
	:: done == 3 -> break
	:: else ->
		change_then_look(SLEEPER, SLEEPING, 1, POSTED, posted);
		if
		:: posted
		:: else -> wakefd -> wakefd = false
		fi;
		store(SLEEPING, 0, 1);
		exchange(POSTED, 0, posted);
		done = done | posted
	od;
	finished = true
}
#endif

/* Nothing can go on any more. */
active proctype watch()
{
	timeout -> assert(finished)
}
