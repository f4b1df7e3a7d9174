/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * apart.h - keeps the cost of fork(2) down.  SR_APART: variables that are large, or are
 * written only at the start, lie behind the others.  The variables that change later then
 * share one page, and each page that a process writes after fork has to be copied.
 * SR_SELDOM: functions that a process seldom runs lie side by side.  The child of a fork
 * begins with no code mapped, and each 64 kB in which it runs a function costs a page fault.
 */
#ifndef SR_APART_H
#define SR_APART_H

#define SR_APART __attribute__((section(".bss.sr_apart")))
#define SR_SELDOM __attribute__((cold))

#endif
