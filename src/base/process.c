/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* process.c - owns the number of the process that the tables are of. */
#include "base/process.h"

#include <unistd.h>

static pid_t owner;	/* 0 before sr_process_begin() */

void sr_process_begin(void)
{
	owner = getpid();
}

bool sr_process_ours(void)
{
	return !owner || owner == getpid();
}
