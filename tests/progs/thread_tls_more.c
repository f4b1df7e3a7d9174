/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* thread_tls_more.c - the same with more. */
#define KB 320
#define NAME "tls-more"
#include "thread_tls.c"
