/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cancel.h - threads that may be cancelled at any instruction (cancel.c has the argument). */
#ifndef SR_CANCEL_H
#define SR_CANCEL_H

/* Before and after each pthread_cancel(3) of the program's. */
void sr_cancel_before(void);
void sr_cancel_after(void);

/* Non-NULL while the thread sleeps in a call whose result would be lost if the thread were
 * cancelled.  If it is cancelled then, sr_cancel_lost() is called with the pointer, even if no
 * result was lost.  The thread holds nothing at that moment. */
extern __thread void *volatile sr_cancel_asks
	__attribute__((tls_model("initial-exec")));
extern void (*_Atomic sr_cancel_lost)(void *asks);

#endif
