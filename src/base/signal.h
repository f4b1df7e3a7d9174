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

/* Each thread has one.  Only the thread itself writes it, and the handlers that interrupt
 * it, which leave the count as they found it. */
struct sr_held {
	int count;	/* of reasons why no handler may run now */
	bool off;	/* a signal is put off, and all others are blocked */
};
extern __thread volatile struct sr_held sr_held
	__attribute__((tls_model("initial-exec")));

/* From here to sr_release() no handler of the program runs in this thread.  Nests.
 * Not held during a call that sleeps or takes a signal mask: such a call has a window
 * around it, or sleeps for some milliseconds at a time, with sr_signals_breathe() in
 * between. */
static inline void sr_hold(void)
{
	sr_held.count++;
	atomic_signal_fence(memory_order_seq_cst);
}

void sr_signals_let_in(void);
/* Called in a handler whose thread holds something: the signal will come again when the thread
 * holds nothing.  False: the signal cannot be put off. */
bool sr_signal_put_off(int sig, siginfo_t *info, void *ucontext);
/* In the child of fork: this thread holds nothing.  A signal that was put off is its parent's. */
void sr_hold_none(void);

static inline void sr_release(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	sr_held.count--;
	if (__builtin_expect(sr_held.off, 0))
		sr_signals_let_in();
}

/*
 * A window is open around a call of the C library that may sleep or takes a signal mask: the
 * thread holds nothing, and handlers run.  The caller holds no lock.  A handler may leave by
 * siglongjmp(3), and the thread may be cancelled.  Then abandoned(arg) undoes what the thread
 * has registered, and gives back the references of its call.  (If a handler forks, its child
 * must not leave by siglongjmp(3), be cancelled or return: sockrail(7).)
 * A function with a window is marked SR_WINDOW_FRAME, because AddressSanitizer would go on
 * watching its frame after it has been unwound.  No such function uses the cleanup attribute:
 * that would need libgcc_s, whose mappings each fork copies, and whose destructors write a
 * page in each child.
 */
#define SR_WINDOW_FRAME __attribute__((no_sanitize("address")))
struct sr_window {
	struct _pthread_cleanup_buffer buffer;
	int held;
};
void sr_window_open(struct sr_window *w, void (*abandoned)(void *arg), void *arg);
void sr_window_close(struct sr_window *w);

/* For a call that sleeps again and again while it holds signals off, but no lock: lets in the
 * signals that were put off.  If a handler leaves by siglongjmp(3), the call stays half done:
 * its references are never given back, and a descriptor that it was to close stays open. */
void sr_signals_breathe(void);

/* How many handlers have run in this thread, and how many of them had been installed
 * without SA_RESTART.  Counted before the handler begins. */
struct sr_handled {
	unsigned all, breaking;
};
extern __thread volatile struct sr_handled sr_handled
	__attribute__((tls_model("initial-exec")));

/* Does a handler run in this thread?  The handler may have interrupted malloc(3), or the C
 * library with another lock taken, so we leave what allocates memory or starts a thread to a
 * later call.  (False if the handler was installed with SA_NODEFER, or has unblocked its own
 * signal.) */
bool sr_signal_in_handler(void);

/* Around a call of ours on a file: blocks SIGXFSZ (RLIMIT_FSIZE) and SIGPIPE, which the kernel
 * sends to a thread whose call fails, and takes them back afterwards.  So the program does not
 * get them; those that were pending before stay pending.  Async-signal-safe. */
struct sr_filesig {
	uint64_t before, mask;	/* the kernel's sigset_t: what was pending, and blocked */
};
void sr_filesig_block(struct sr_filesig *m);
/* r: what the call has returned.  Leaves errno alone. */
void sr_filesig_restore(struct sr_filesig *m, long r);

/* sigaction(2) as the program sees it.  Async-signal-safe. */
int sr_signal_action(int sig, const struct sigaction *act, struct sigaction *old);

#endif
