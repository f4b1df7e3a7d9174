/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * family.h - what processes that are related by fork(2) tell each other.
 *
 * A slot, in memory that they share, counts the processes that hold an object, and
 * says which part of it only one of them, its owner, can use.  The others are guests:
 * they ask for a part in the slot and ring the owner's doorbell.  A doorbell is a pair of
 * connected sockets: the owner has one end, each process that it has forked a copy
 * of the other, which also shows that the owner has ended.
 */
#ifndef SR_FAMILY_H
#define SR_FAMILY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sr_slot {
	atomic_uint owners;	/* processes; 0: the slot is free */
	atomic_uint asked;	/* bits that guests ask for */
	atomic_uint given;	/* bits that they may have */
	atomic_int doorbell;	/* the owner's, by its number in all processes */
	_Atomic uint64_t owed;	/* the object's own */
};

/* A slot with one owner; NULL: none is left.  Any thread. */
struct sr_slot *sr_slot_get(void);
/* This process holds the object no more.  A process that is killed never says so:
 * then the count stays too great, and the slot in use. */
void sr_slot_put(struct sr_slot *slot);
/* The same if another process is counted, too.  Returns true if this process does not count any
 * more; false if it is the last one, and still counts, or if slot is NULL. */
bool sr_slot_put_unless_last(struct sr_slot *slot);

/* The number of the end that children get of this process's doorbell, which is made now
 * if need be; -1: no descriptor.  `rang` is called in the loop for each ring.  One
 * thread. */
int sr_doorbell_open(void (*rang)(void));
/* False: the owner has ended, or there never was a doorbell.  Any thread. */
bool sr_doorbell_ring(int doorbell);

/* In the child of fork: our doorbell was the parent's.  The number that it has here. */
int sr_doorbell_forget(void);

#endif
