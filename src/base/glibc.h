/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * glibc.h - lets what is built run with glibc 2.34, although it is built with a later one.
 * The compiler includes it in front of each file (Makefile.am).
 *
 * From 2.38 on, with _GNU_SOURCE, strtol(3), scanf(3) and their relatives are functions of
 * other names (__isoc23_strtol), which also read binary numbers ("0b1") and which an older
 * glibc does not have.  The macro that makes it so is glibc's own, for building just these;
 * it has had two names.  tests/bats/native/build.bats looks at what is built.
 */
#ifndef SR_GLIBC_H
#define SR_GLIBC_H

#include <features.h>

#undef __GLIBC_USE_C2X_STRTOL
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#define __GLIBC_USE_C23_STRTOL 0

#endif
