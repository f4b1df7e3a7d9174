/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.h - is this the process that our tables are of?
 */
#ifndef SR_PROCESS_H
#define SR_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct sr_process {
	const volatile char *mark; /* to 1, and 0 in every copy of our memory */
	atomic_bool lent;	/* a child may be using the memory itself */
	pid_t pid;		/* 0 before sr_process_begin() */
};
extern struct sr_process sr_process;

/* This process owns the tables: at the start, and in the child of fork once they are
 * new.  The memory is taken to be lent but where somebody has promised to say so
 * before it is (sr_process_told() and sr_process_lends(), sockrail.h).  One thread. */
void sr_process_begin(void);

bool sr_process_ask(void);

/*
 * False in a child that shares our memory or has a copy of it, and has not begun to be
 * a process of its own: it must not write any table of ours.  getpid(2) would always
 * tell, for a system call; it is asked where the mark is not there or vfork() has been
 * seen.  async-signal-safe.
 */
static inline bool sr_process_ours(void)
{
	return (__builtin_expect(*sr_process.mark, 1) &&
		!__builtin_expect(atomic_load_explicit(&sr_process.lent,
						       memory_order_relaxed), 0)) ||
	       sr_process_ask();
}

#endif
