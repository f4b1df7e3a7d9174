/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * apart.h - puts variables that are large, or are written at the start only, behind the
 * others.  Those that change later then lie in one page: each page that a process writes
 * after fork is copied.  And puts functions that a process runs seldom side by side: the
 * child of a fork begins with no code mapped, and each 64 kB in which it runs a function
 * cost it a page fault.
 */
#ifndef SR_APART_H
#define SR_APART_H

#define SR_APART __attribute__((section(".bss.sr_apart")))
#define SR_SELDOM __attribute__((cold))

#endif
