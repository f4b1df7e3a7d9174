/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * family.h - what processes that are related by fork(2) tell each other.
 *
 * A slot lies in memory that these processes share.  It counts the processes that hold an
 * object (its owners).  One of them may have parts of the object that the others cannot use;
 * to it the others are guests.  A guest says in the slot which part it asks for, and rings
 * that process's doorbell.  A doorbell is a pair of connected sockets: the process that is to
 * be woken has one end; each process that it has forked has a copy of the other end, by which
 * it also notices that the first process has ended.
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
	atomic_int doorbell;	/* its number, which is the same in all these processes; -1: none */
	_Atomic uint64_t owed;	/* the object's own */
};

/* A slot with one owner; NULL: none is left.  Any thread. */
struct sr_slot *sr_slot_get(void);
/* This process no longer holds the object.  If a process is killed before it says so,
 * the count stays too great and the slot stays in use. */
void sr_slot_put(struct sr_slot *slot);
/* The same, unless this process is the last owner.  Returns true if it no longer counts; false
 * if it is the last one, and so still counts, or if slot is NULL. */
bool sr_slot_put_unless_last(struct sr_slot *slot);

/* Makes this process's doorbell, unless it has one.  Returns the number of the end that
 * children inherit; -1: no descriptor.  `rang` is called in the loop for each ring.  Only one
 * thread at a time. */
int sr_doorbell_open(void (*rang)(void));
/* False: the owner has ended, or there never was a doorbell.  Any thread. */
bool sr_doorbell_ring(int doorbell);

/* In the child of fork: what was our doorbell is the parent's.  Returns the number by which
 * this process can ring it. */
int sr_doorbell_forget(void);

#endif
