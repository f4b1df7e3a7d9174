/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * page.h - the page of statistics that a process with streams keeps for sockrail-stat: a
 * sealed memfd named SR_PAGE_NAME, which sockrail-stat finds under /proc/PID/fd.  The layout
 * of the page, and the functions that hand out its slots.
 *
 * One process writes, any number of processes read, and none waits for another.  If the writer
 * is stopped or killed, each word has a whole value; at worst the `seq` of one direction is
 * odd, which says that the rest of the direction is being rewritten.  A slot belongs to one
 * stream as long as its id is not 0 and stays the same; an id is never used twice.
 *
 * A reader trusts nothing in the page: it may have been written by another user's program that
 * only pretends to run Sockrail.
 */
#ifndef SR_PAGE_H
#define SR_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/report.h"

#define SR_PAGE_NAME "sockrail-stat"
#define SR_PAGE_MAGIC "SOCKRAIL"
#define SR_PAGE_VERSION 4
#define SR_PAGE_SLOTS 4096	/* more streams are not shown */
#define SR_PAGE_REASONS 64
#define SR_PAGE_PROGRAM 128

#define SR_COUNTER(id, name, kind, unit, text) SR_COUNTER_##id,
enum sr_counter {
#include "counters.def"
	SR_COUNTERS
};
#undef SR_COUNTER

/* Counters that are written with each call that moves bytes, without a system call or lock for
 * it.  A stream without a slot has such a struct of its own (engine/impl.h). */
struct sr_hot {
	_Atomic uint64_t tcp;	/* bytes through the open gate, and all to or from TCP */
	_Atomic uint64_t plain;	/* bytes while retired */
	uint64_t link;		/* bytes on the link since `way` was written; the
				 * direction's lock guards it */
};

/* One direction.  seq is odd while the members behind it are being rewritten. */
struct sr_page_dir {
	_Alignas(64) struct sr_hot hot;
	_Atomic uint32_t seq;
	uint8_t state;		/* enum sr_state of sockrail.h */
	uint8_t on;		/* enum sr_way of hot.link */
	uint64_t base;		/* hot.tcp + hot.plain + base bytes went by TCP */
	uint64_t way[SR_WAYS];	/* bytes by earlier links; hot.link has those of the present one */
	uint64_t since_ns;	/* CLOCK_MONOTONIC: has this state since */
	uint64_t unread, room, ring;
	uint32_t switches, stalls, failovers;
	uint32_t qp;		/* the queue pair of the link in use; 0: none */
	char link[SR_REPORT_LINK]; /* the last link, "verbs:rxe0"; "": it had none */
};

enum {	/* sr_page_slot.role */
	SR_PAGE_CONNECT = 1 << 0,
	SR_PAGE_ACCEPT = 1 << 1,
	SR_PAGE_LISTEN = 1 << 2,
	SR_PAGE_CLOSING = 1 << 3,
	SR_PAGE_ASKING = 1 << 4,
	SR_PAGE_ENDED = 1 << 5,	/* the process's totals have its counters */
};

struct sr_page_slot {
	/* 0: the slot is free.  Published when the rest is there, and observed by sockrail-stat. */
	_Alignas(64) _Atomic uint64_t id;
	_Atomic uint64_t opened_ns;	/* CLOCK_MONOTONIC */
	_Atomic int32_t fd;		/* its socket in this process, or -1 */
	_Atomic uint32_t role;
	_Atomic uint32_t reason;	/* enum sr_reason; 0: none so far */
	_Atomic int32_t error;		/* errno, or 0 */
	_Atomic uint32_t guesses;	/* upgrade/prove.c */
	struct sr_page_dir tx, rx;
};

struct sr_page {
	char magic[8];
	uint32_t version, head_size, slot_size, slots, reasons, counters;
	int32_t pid;			/* in its own namespace */
	uint64_t start_ns;		/* CLOCK_REALTIME: the page was made */
	char program[SR_PAGE_PROGRAM];
	_Alignas(64) _Atomic uint32_t high; /* slots from here on were never used; page_lock */
	_Atomic uint64_t made, ended, linked; /* streams; linked: ended, had a link */
	_Atomic uint64_t total[SR_COUNTERS];  /* of ended streams */
	_Atomic uint64_t reason[SR_PAGE_REASONS]; /* ended streams of each */
	_Alignas(4096) struct sr_page_slot slot[SR_PAGE_SLOTS];
};

_Static_assert(SR_REASONS <= SR_PAGE_REASONS, "a count for each reason");

/* Takes a slot, all of whose members are 0.  The caller shows it to readers by storing the
 * result of sr_page_id() in its id.  NULL: there is none.  The first call makes the page.  Any
 * thread. */
struct sr_page_slot *sr_page_take(void);
uint64_t sr_page_id(void);
void sr_page_give(struct sr_page_slot *slot);
/* The page that holds slots that were taken. */
struct sr_page *sr_page_here(void);
/* Child of fork: the page is the parent's.  No slot of it is used any more. */
void sr_page_forget(void);

#endif
