/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wake.pml - who wakes for what arrives on a carrier (PROTOCOL.md, "Carriers", "Waking").
 *
 * THREADS threads each wait for EACH packets for a stream of their own.  All streams are on
 * one carrier: one completion queue with one channel.  A thread spins or not, and goes to
 * sleep.  The first two that sleep poll the channel (direct); others sleep on their
 * doorbell alone (dispatched), and then the service thread watches the channel.  With
 * -DSET thread 0 is an epoll set: it is told of an event once, not as long as there is one.
 *
 * The device tells of a packet in the channel if the queue is armed, and then it is not armed any
 * more.  A thread with the carrier's lock takes packets; when it has let go of the lock it
 * rings the doorbells of the threads that they are for.
 *
 * In the end all packets are taken by their threads: nobody has slept for ever.
 *
 * Mutations (-DM_...):
 *   UNASKED	a third sleeper asks the service thread when it has slept
 *   NOARM	a thread that has read an event does not arm
 *   NOLOCK	a thread that finds the lock taken goes to sleep without it
 *   NOBELL	a thread that takes a packet rings no doorbell, because the channel woke its thread
 *   ARMLAST	a thread looks for packets, and then arms
 *   STOPS	the service thread looks whether it is needed, and then takes the lock to stop
 *   LEAVES	a thread that is woken and has its bytes leaves the event unread (-DSET)
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef EACH
#define EACH 1
#endif
#ifndef DIRECT
#define DIRECT 2		/* sleepers that poll the channel */
#endif

bool locked;
byte cq[THREADS];		/* packets in the queue, by the thread that they are for */
bool armed;			/* the queue */
bool told;			/* it was armed, and the event has not been read */
bool event, edge;		/* in the channel; news for the set */
byte ring[THREADS];		/* packets that were taken for a thread */
bool asleep[THREADS], bell[THREADS];
byte direct, dispatched;	/* sleepers */
bool watching, service_bell;
byte done;
bool has_dispatched, has_stopped;	/* has been, for REACH */

bool all_awake = true;
#define must(rule, condition) rule = (condition); assert(rule)

inline lock() { atomic { !locked -> locked = true } }

inline take_packets()
{
	atomic {
		i = 0;
		do
		:: i < THREADS && cq[i] > 0 ->
			ring[i] = ring[i] + cq[i];
			cq[i] = 0;
			named[i] = true;
			i++
		:: i < THREADS && cq[i] == 0 -> i++
		:: else -> i = 0; break
		od
	}
}

inline arm()
{
	if
	:: atomic { !told -> armed = true; told = true }
	:: atomic { told -> skip }
	fi
}

/* Looks, so that what comes from now on is an event, or is one already. */
inline arm_and_look()
{
#ifdef M_ARMLAST
	take_packets();
	arm()
#else
	arm();
	take_packets()
#endif
}

inline read_event()
{
	atomic {
		if
		:: event ->
			event = false;
#ifndef M_NOARM
			told = false
#endif
		:: else
		fi
	}
}

/* The lock is let go before. */
inline ring_doorbells()
{
	atomic {
		do
		:: i < THREADS ->
#ifndef M_NOBELL
			if
			:: named[i] && asleep[i] -> bell[i] = true
			:: else
			fi;
#endif
			named[i] = false;
			i++
		:: else -> i = 0; break
		od
	}
}

active [THREADS] proctype thread()
{
	byte i, left = EACH;
	bool named[THREADS];
	bool is_direct;

look:	atomic {
		left = left - ring[_pid];
		ring[_pid] = 0;
		if
		:: left == 0 -> goto out
		:: else
		fi
	};
	/* spin once, or not */
	if
	:: atomic { !locked -> locked = true; take_packets() };
		locked = false;
		ring_doorbells();
		if
		:: atomic { ring[_pid] > 0 -> goto look }
		:: atomic { ring[_pid] == 0 -> skip }
		fi
	:: true
	fi;
	/* sleep */
#ifdef M_NOLOCK
	if
	:: lock()
	:: atomic { locked && direct < DIRECT && ring[_pid] == 0 ->
		asleep[_pid] = true;
		direct++;
		is_direct = true };
		goto sleep
	fi;
#else
	lock();
#endif
	arm_and_look();
	atomic {
		is_direct = false;
		asleep[_pid] = ring[_pid] == 0;
		if
		:: ring[_pid] > 0
		:: ring[_pid] == 0 && direct < DIRECT -> direct++; is_direct = true
		:: else ->
			dispatched++; has_dispatched = true;
#ifndef M_UNASKED
			if
			:: !watching -> watching = true; service_bell = true
			:: else
			fi
#endif
		fi;
		locked = false
	};
	ring_doorbells();
	if
	:: atomic { asleep[_pid] -> skip }
	:: atomic { !asleep[_pid] -> goto look }
	fi;
sleep:
#ifdef SET
	atomic { bell[_pid] || (is_direct && (_pid == 0 -> edge : event)) ->
		if
		:: _pid == 0 -> edge = false
		:: else
		fi;
		bell[_pid] = false };
#else
	atomic { bell[_pid] || (is_direct && event) -> bell[_pid] = false };
#endif
	atomic {
		!locked -> locked = true;
		asleep[_pid] = false;
		if
		:: is_direct -> direct--
		:: else -> dispatched--
		fi;
#ifdef M_UNASKED
		if
		:: !is_direct && !watching -> watching = true; service_bell = true
		:: else
		fi;
#endif
#ifdef M_LEAVES
		if
		:: ring[_pid] > 0 -> locked = false; goto look
		:: else
		fi;
#endif
		read_event()
	};
	arm_and_look();
	locked = false;
	ring_doorbells();
	goto look;
out:	atomic { left = 0; is_direct = false; done++ }
}

active proctype service()
{
	byte i;
	bool named[THREADS];

end:	do
	:: atomic { service_bell || (watching && event) -> service_bell = false };
		atomic { !locked -> locked = true; read_event() };
		arm_and_look();
		locked = false;
		ring_doorbells()
	/* a while after the last sleeper that needs it */
#ifdef M_STOPS
	:: atomic { watching && dispatched == 0 -> skip };
		lock();
		atomic { watching = false; locked = false }
#else
	:: atomic { watching && dispatched == 0 && !locked -> watching = false; has_stopped = true }
#endif
	od
}

active [THREADS] proctype device()
{
	byte t = _pid - THREADS - 1, sent;

end:	do
	:: atomic { sent < EACH ->
		sent++;
		cq[t]++;
		if
		:: armed -> armed = false; event = true; edge = true
		:: else
		fi }
	od
}

active proctype end_of_all()
{
	timeout;
	must(all_awake, done == THREADS)
#if REACH == 1
	; assert(!has_dispatched || !has_stopped)	/* the change both ways */
#endif
}
