/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * real.h - libc's own calls, one pointer for each entry of include/calls.def,
 * found in libc itself.  Each pointer starts at a stub that resolves it on its
 * first use (which may come before any constructor).  No other file of
 * src/ calls an intercepted name.
 */
#ifndef SR_REAL_H
#define SR_REAL_H

#include "base/calls.h"

#include "base/lock.h"

#define SR_CALL(family, ret, name, params, args) ret (*name) params;
#define SR_ALIAS(family, ret, name, params, expression)
#define SR_BY_HAND(family, ret, name, params)
struct sr_real {
#include "calls.def"
};
#undef SR_CALL

extern struct sr_real sr_real;

#endif
