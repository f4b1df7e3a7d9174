/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lock.c - owns what says that a thread is the library's for now (lock.h).
 */
#include "base/lock.h"

__thread volatile int sr_inside __attribute__((tls_model("initial-exec")));
