/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * apart.h - where large variables are, and those that are written at the start only:
 * behind the others, which have one page then.  A page that fork, or a process after it,
 * writes is copied.
 */
#ifndef SR_APART_H
#define SR_APART_H

#define SR_APART __attribute__((section(".bss.sr_apart")))

#endif
