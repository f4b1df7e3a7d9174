/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal.h - the program's signal handlers: when they may run, and which have run
 * (signal.c has the argument).
 */
#ifndef SR_SIGNAL_H
#define SR_SIGNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
 * a window, or, between sleeps of some milliseconds, sr_signals_breathe(). */
static inline void sr_hold(void)
{
	sr_held.count++;
	atomic_signal_fence(memory_order_seq_cst);
}

void sr_signals_let_in(void);
/* For a handler whose thread holds something: the signal comes again when it holds nothing.
 * False: it cannot wait. */
bool sr_signal_put_off(int sig, siginfo_t *info, void *ucontext);
/* The child of fork holds nothing.  What was put off is its parent's. */
void sr_hold_none(void);

static inline void sr_release(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	sr_held.count--;
	if (__builtin_expect(sr_held.off, 0))
		sr_signals_let_in();
}

/*
 * A window: nothing is held, and handlers run, while a call of the C library's that
 * may sleep, or is given a mask, is under way.  No lock may be held around it.  A
 * handler may leave by siglongjmp(3), and the thread be cancelled: then abandoned(arg)
 * undoes what the thread has registered, and gives back the references of its call.  (The child of a handler that forks must do
 * neither, nor return: sockrail(7).)  A frame with a window is marked SR_WINDOW_FRAME:
 * AddressSanitizer would go on watching it when it has been unwound.
 * (None has a cleanup attribute: that would need libgcc_s, whose mappings each fork
 * copies, and whose destructors write a page of each child.)
 */
#define SR_WINDOW_FRAME __attribute__((no_sanitize("address")))
struct sr_window {
	struct _pthread_cleanup_buffer buffer;
	int held;
};
void sr_window_open(struct sr_window *w, void (*abandoned)(void *arg), void *arg);
void sr_window_close(struct sr_window *w);

/* For a call that sleeps again and again while it holds, with no lock: lets in what has been
 * put off since.  A handler that leaves by siglongjmp(3) leaves the call half done: its
 * references stay, and a descriptor that it was to close stays open. */
void sr_signals_breathe(void);

/* How many handlers have run in this thread, and how many of them had been installed
 * without SA_RESTART.  Counted before the handler begins. */
struct sr_handled {
	unsigned all, breaking;
};
extern __thread volatile struct sr_handled sr_handled
	__attribute__((tls_model("initial-exec")));

/* Does a handler run in this thread?  It may have interrupted malloc(3), or the C library with
 * another lock, so what allocates, or starts a thread, is left to a later call.  (A handler
 * that was installed with SA_NODEFER, or unblocks its own signal, is not known.) */
bool sr_signal_in_handler(void);

/* Blocks the signals that the kernel sends to a thread whose call on a file fails:
 * SIGXFSZ (RLIMIT_FSIZE) and SIGPIPE, for a call of ours.  The program does not get these;
 * it keeps those that were pending before.  Async-signal-safe. */
struct sr_filesig {
	uint64_t before, mask;	/* the kernel's sigset_t: what was pending, and blocked */
};
void sr_filesig_block(struct sr_filesig *m);
/* r: what the call has returned.  Leaves errno alone. */
void sr_filesig_restore(struct sr_filesig *m, long r);

/* sigaction(2) as the program sees it.  Async-signal-safe. */
int sr_signal_action(int sig, const struct sigaction *act, struct sigaction *old);

#endif
