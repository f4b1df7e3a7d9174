/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * glibc.h - lets programs and libraries that are built with a later glibc run with glibc 2.34.
 * The compiler includes this file before each source file (Makefile.am).
 *
 * From 2.38 on, with _GNU_SOURCE, calls of strtol(3), scanf(3) and their relatives become calls
 * of other functions (__isoc23_strtol), which also read binary numbers ("0b1").  An older glibc
 * does not have these.  Two internal macros of glibc, an old and a new name of the same, decide
 * that; here they are 0.  tests/bats/native/build.bats checks the result.
 */
#ifndef SR_GLIBC_H
#define SR_GLIBC_H

#include <features.h>

#undef __GLIBC_USE_C2X_STRTOL
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#define __GLIBC_USE_C23_STRTOL 0

#endif
