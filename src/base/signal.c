/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal.c - owns the program's signal handlers, as far as they were installed by
 * functions that we intercept, and the signals of our own calls on files.  No locks.
 *
 * A handler may call us, exit() or siglongjmp() at any moment, even while its thread holds
 * a lock of ours.  To block signals around every lock would cost two system calls for each.
 *
 * Putting off.  Instead, whenever the program installs a handler, the kernel gets
 * signal_entry().  If signal_entry() finds that its thread holds something (sr_held), it
 * sends the same signal to its own thread once more, and blocks all signals in the mask that
 * the kernel restores when signal_entry() returns.  The thread goes on.  When it holds nothing
 * any more, it finds sr_held.off and puts the old mask back.  Then the kernel delivers the
 * signal, with the right siginfo, mask, stack and context.  A thread that holds something
 * sleeps for some milliseconds at most, so the signal is not late by more than that.
 *
 * Two signals at once.  The kernel may have stacked a second signal's frame upon the first
 * one's before either handler has run.  Then the second handler runs first, and saves the mask
 * of the first one as the one to put back.  The first handler runs afterwards and saves the
 * thread's own mask instead, which is right.  signal_entry() blocks all signals before it
 * writes anything, so no third signal comes in between.
 *
 * Not put off are faults of the thread itself, because they would come again at once; the same
 * signals if another process sends them, because a thread that blocks them dies of a fault;
 * and abort(), because its raise() must not return.  Their handlers run while the thread holds
 * our locks.  If such a handler leaves by siglongjmp(), and the fault was in our code, the
 * program cannot go on.  If a signal cannot be queued (RLIMIT_SIGPENDING), its handler also
 * runs at once.
 *
 * Leaving a handler by siglongjmp().  A call on a stream holds something all the time, except
 * in the windows around calls that sleep (signal.h).  So a handler can leave a call of ours
 * only from a window.  There glibc's longjmp() runs the cleanup functions that were pushed in
 * the frames that it leaves, as cancellation does.  (It does not if the handler was on an
 * alternate stack, in a thread other than the first: glibc then takes the frames for dead.)
 *
 * Handlers that were installed by the bare system call (Go), or before the library was loaded,
 * run at once, and may find a lock of ours held.
 */
#include "base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/order.h"
#include "base/process.h"
#include "base/signal.h"

#define MASK_BYTES (_NSIG / 8)	/* of the kernel's sigset_t, smaller than libc's */
#define BIT(sig) (1ull << ((sig)-1))
#define FILE_SIGNALS (BIT(SIGXFSZ) | BIT(SIGPIPE))

typedef void handler_fn(int sig, siginfo_t *info, void *context);

/* Of the C library, whose headers have forgotten them. */
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer,
			   void (*routine)(void *), void *arg);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

__thread volatile struct sr_held sr_held
	__attribute__((tls_model("initial-exec")));
__thread volatile struct sr_handled sr_handled
	__attribute__((tls_model("initial-exec")));
static __thread uint64_t mask_kept;	/* while sr_held.off: the mask to be put back */
static __thread volatile uint64_t running;	/* signals whose handlers have begun */

/* The program's handlers, in place of which the kernel has signal_entry().  Relaxed: they are
 * stored before the system call by which the kernel gets signal_entry(), and the kernel's lock
 * of the handlers orders them before the entry's first call. */
SR_APART static struct {
	_Atomic(handler_fn *) handler;
	atomic_int flags;
} table[_NSIG];

static long signal_set_mask(const uint64_t *set, uint64_t *old)
{
	return SR_SYS(SYS_rt_sigprocmask, SIG_SETMASK, set, old, MASK_BYTES);
}

/* All signals except faults of the thread itself, and libc's signal for setuid(2) and its like,
 * whose sender waits for all threads.  (The signal for cancellation is put off: cancel.c.) */
static uint64_t all_signals(void)
{
	return ~(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) |
		 BIT(SIGTRAP) | BIT(SIGSYS) | BIT(33));
}

static bool may_wait(int sig, const siginfo_t *info)
{
	if (sig == SIGABRT)
		return info->si_code != SI_TKILL;
	return all_signals() & BIT(sig);
}

/* ---- putting off ---- */

bool sr_signal_put_off(int sig, siginfo_t *info, void *ucontext)
{
	ucontext_t *context = ucontext;
	uint64_t all = all_signals(), now;

	signal_set_mask(&all, &now);
	if (SR_SYS(SYS_rt_tgsigqueueinfo, sr_sys_getpid(), sr_sys_gettid(), sig, info) < 0) {
		signal_set_mask(&now, NULL);
		return false;
	}
	memcpy(&mask_kept, &context->uc_sigmask, MASK_BYTES);
	memcpy(&context->uc_sigmask, &all, MASK_BYTES);
	sr_held.off = true;
	return true;
}

void sr_signals_let_in(void)
{
	uint64_t mask = mask_kept;
	int err = errno;

	if (sr_held.count)
		return;
	sr_held.off = false;
	signal_set_mask(&mask, NULL);
	errno = err;
}

void sr_hold_none(void)
{
	sr_held.count = 0;
	if (sr_held.off)
		sr_signals_let_in();
}

/* ---- calls of ours on files ---- */

void sr_filesig_block(struct sr_filesig *m)
{
	uint64_t ours = FILE_SIGNALS;

	SR_SYS(SYS_rt_sigprocmask, SIG_BLOCK, &ours, &m->mask, MASK_BYTES);
	SR_SYS(SYS_rt_sigpending, &m->before, MASK_BYTES);
}

void sr_filesig_restore(struct sr_filesig *m, long r)
{
	const struct timespec at_once = { 0, 0 };
	uint64_t ours = FILE_SIGNALS & ~m->before;
	int err = errno;

	if (r < 0 && (err == EFBIG || err == EPIPE) && ours)
		SR_SYS(SYS_rt_sigtimedwait, &ours, 0, &at_once, MASK_BYTES);
	signal_set_mask(&m->mask, NULL);
	errno = err;
}

/* ---- windows ---- */

void sr_window_open(struct sr_window *w, void (*abandoned)(void *arg), void *arg)
{
	_pthread_cleanup_push(&w->buffer, abandoned, arg);
	w->held = sr_held.count;
	sr_held.count = 1;
	sr_release();
}

void sr_window_close(struct sr_window *w)
{
	sr_held.count = w->held;
	atomic_signal_fence(memory_order_seq_cst);
	_pthread_cleanup_pop(&w->buffer, 0);
}

static void open_no_more(void *unused)
{
	(void)unused;
}

SR_WINDOW_FRAME
void sr_signals_breathe(void)
{
	struct sr_window w;

	if (!sr_held.off)
		return;
	sr_window_open(&w, open_no_more, NULL);
	sr_window_close(&w);
}

/* ---- handlers ---- */

/* Carries out SA_RESETHAND in place of the kernel, which does not know whether the handler was
 * put off.  The flags and the mask stay. */
static void signal_reset(int sig)
{
	struct sigaction sa;

	if (sr_signal_action(sig, NULL, &sa) < 0)
		return;
	sa.sa_handler = SIG_DFL;
	sr_real.sigaction(sig, &sa, NULL);
}

/* Restores errno, because a handler that changes it may have interrupted a call of ours. */
static void signal_entry(int sig, siginfo_t *info, void *context)
{
	int err = errno, flags = sr_load(&table[sig].flags);
	bool direct = sr_direct;	/* of what the handler interrupts */
	uint64_t outer = running;

	sr_direct = false;
	if (!sr_held.count || !may_wait(sig, info) || !sr_signal_put_off(sig, info, context)) {
		if ((unsigned)flags & SA_RESETHAND)
			signal_reset(sig);
		sr_handled.all++;
		sr_handled.breaking += !(flags & SA_RESTART);
		running = outer | BIT(sig);
		atomic_signal_fence(memory_order_seq_cst);
		sr_load(&table[sig].handler)(sig, info, context);
		atomic_signal_fence(memory_order_seq_cst);
		running = outer;
	}
	sr_direct = direct;
	errno = err;
}

/* A handler may leave by siglongjmp(), which signal_entry() does not see.  But then its signal
 * is no longer blocked, because siglongjmp() restores the mask. */
bool sr_signal_in_handler(void)
{
	uint64_t blocked;
	int err = errno;

	if (!running)
		return false;
	SR_SYS(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, MASK_BYTES);
	running &= blocked;
	errno = err;
	return running;
}

/* Is signal_entry() to stand in for this handler?  Not for handlers that libraries install while
 * we call them, nor in a child of vfork(), which must not change its parent's table.  Not if it
 * is signal_entry() itself: the program has read it by the bare system call. */
static bool takes_entry(const struct sigaction *act)
{
	return act && act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN &&
	       act->sa_handler != SIG_ERR && act->sa_sigaction != signal_entry &&
	       !sr_inside && sr_process_ours();
}

int sr_signal_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction ours, was = { .sa_flags = 0 };
	int r;

	if (sig < 1 || sig >= _NSIG)
		return sr_real.sigaction(sig, act, old);
	sr_hold();
	was.sa_sigaction = sr_load(&table[sig].handler);
	was.sa_flags = sr_load(&table[sig].flags);
	if (takes_entry(act)) {
		ours = *act;
		sr_store(&table[sig].handler, ours.sa_sigaction);
		sr_store(&table[sig].flags, ours.sa_flags);
		ours.sa_sigaction = signal_entry;
		ours.sa_flags = (int)((unsigned)ours.sa_flags & ~SA_RESETHAND) |
				SA_SIGINFO;
		act = &ours;
	}
	r = sr_real.sigaction(sig, act, old);
	if (r == 0 && old && old->sa_sigaction == signal_entry) {
		old->sa_sigaction = was.sa_sigaction;
		old->sa_flags = (old->sa_flags & ~SA_SIGINFO) | was.sa_flags;
	}
	sr_release();
	return r;
}
