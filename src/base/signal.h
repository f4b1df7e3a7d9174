/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal.h - the program's signal handlers: what they must not interrupt, and what
 * they have interrupted (signal.c has the argument).
 */
#ifndef SR_SIGNAL_H
#define SR_SIGNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/* Of each thread.  Only the thread itself, and handlers above it, which leave the
 * count as they found it, write these. */
struct sr_held {
	int count;	/* of reasons why no handler may run now */
	bool off;	/* a signal is put off, and all others are blocked */
};
extern __thread volatile struct sr_held sr_held
	__attribute__((tls_model("initial-exec")));

/* From here to sr_release() no handler of the program runs in this thread.  Nests.
 * Never to be held in a call that sleeps, or that is given a signal mask: that takes
 * a window. */
static inline void sr_hold(void)
{
	sr_held.count++;
	atomic_signal_fence(memory_order_seq_cst);
}

void sr_signals_let_in(void);
/* Whatever held is given up, or has not begun: the thread is cancelled, or is the
 * child of fork (what was put off waits for the parent). */
void sr_hold_none(void);

static inline void sr_release(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	sr_held.count--;
	if (__builtin_expect(sr_held.off, 0))
		sr_signals_let_in();
}

/*
 * A window: handlers run while a call that may sleep, or is given a mask, is under
 * way, whatever is held around it (never a lock).  A handler may leave by
 * siglongjmp(3), and the thread be cancelled: then abandoned(arg) undoes what the
 * thread has hung up.  A cancelled thread has run the cleanup attributes of the frame
 * by then; what says that is to be volatile, as the frame is dead to the compiler.
 * A frame that has none is marked SR_WINDOW_FRAME: AddressSanitizer would go on
 * watching it when it has been unwound.
 */
#define SR_WINDOW_FRAME __attribute__((no_sanitize("address")))
struct sr_window {
	struct _pthread_cleanup_buffer buffer;
	void (*abandoned)(void *arg);
	void *arg;
	int held;	/* in sr_cancel_off(): how the thread may be cancelled */
};
void sr_window_open(struct sr_window *w, void (*abandoned)(void *arg), void *arg);
void sr_window_close(struct sr_window *w);

/* In a window, around a system call of our own that is to be a cancellation point.  A
 * handler that leaves for good leaves the thread's cancellation type as it was. */
bool sr_async_begin(void);
void sr_async_end(bool was);	/* what begin returned */

/* A call that is no cancellation point, whatever it sleeps in.  Held, so that only from
 * a window a handler can leave for good; the frame is marked as one with a window. */
void sr_cancel_off(struct sr_window *w);
void sr_cancel_on(struct sr_window *w);

/* To this thread, as the kernel sends SIGPIPE: si_code is SI_USER, not SI_TKILL. */
void sr_signal_raise(int sig);

/* A window for what is put off, and no call. */
void sr_signals_pass(void);

/* A system call that transfers bytes, and may sleep: handlers run before it, not
 * behind it.  What the kernel returns.  since, if not NULL: it is not the program's
 * first, and if handlers have run since sr_handled.all was that, it is -EINTR and has
 * not begun. */
long sr_window_syscall(void (*abandoned)(void *arg), void *arg,
		       const unsigned *since, long number, long a, long b, long c,
		       long d, long e, long f);
bool sr_window_at(const void *context);

/* How many handlers have run in this thread, and how many of them had been installed
 * without SA_RESTART.  Counted before the handler begins. */
struct sr_handled {
	unsigned all, breaking;
};
extern __thread volatile struct sr_handled sr_handled
	__attribute__((tls_model("initial-exec")));

static inline struct sr_handled sr_handled_now(void)
{
	return (struct sr_handled){ sr_handled.all, sr_handled.breaking };
}

/*
 * The first message of a call of many has gone.  A handler with SA_RESTART that ran as
 * the call slept for it began the whole call anew (signal(7)), and does not end the
 * sleeps of the next ones.  (One that ran while nothing slept would.  The two are not
 * told apart: where the kernel slept, nobody knows.)
 */
static inline void sr_handled_anew(struct sr_handled *began)
{
	if (sr_handled.breaking == began->breaking)
		*began = sr_handled_now();
}

/*
 * The time at which a sleep of this thread ends, absolute or not, for the kernel to
 * read as the sleep begins; else 0.  A handler makes it 0: one that comes between the
 * look at sr_handled (since: .all, as the call began) and the system call ends the
 * sleep before it begins.  In the thread's storage, so that a handler that never
 * returns leaves no pointer behind.
 */
extern __thread struct timespec sr_sleep_end
	__attribute__((tls_model("initial-exec")));

static inline void sr_sleep_begins(struct timespec end, unsigned since)
{
	sr_sleep_end = end;
	atomic_signal_fence(memory_order_seq_cst);
	if (sr_handled.all != since)
		sr_sleep_end = (struct timespec){ 0, 0 };
}

static inline void sr_sleep_ends(void)
{
	sr_sleep_end = (struct timespec){ 0, 0 };
}

/* sa is the program's: what the kernel gets instead.  Async-signal-safe. */
void sr_signal_wrap(int sig, struct sigaction *sa);
/* sa is the kernel's: what the program is told. */
void sr_signal_unwrap(int sig, struct sigaction *sa);

#endif
