/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal.c - owns the program's signal handlers, as far as they were installed by
 * functions that we intercept, and the signals of our own calls on files.  No locks.
 *
 * A handler may call us, exit(), or siglongjmp(), at any moment, and so also where its
 * thread holds a lock of ours.  Blocking signals around every lock would cost two
 * system calls each.
 *
 * Putting off.  So the kernel gets signal_entry() for each handler.  If it finds that its
 * thread holds something (sr_held), it sends the very same signal to its own thread
 * once more, and blocks all signals in the mask that the kernel is going to restore
 * when signal_entry() returns.  The thread goes on, lets go, finds sr_held.off and puts the
 * old mask back: the kernel delivers, with the right siginfo, mask, stack and context.
 * The thread sleeps for no longer than some milliseconds while it holds something, so this
 * takes no longer.
 *
 * Two at once: the kernel may have stacked a second signal's frame upon the first
 * one's before either has run.  The second then runs first, and the mask it finds is
 * the first one's; the first, below it, finds the thread's and has the last word.
 * signal_entry() blocks all signals before it writes anything, so none comes in between.
 *
 * Not put off: faults of the thread itself, which would come again at once (and the
 * same signals if somebody sends them, for a thread that blocks them dies of a fault),
 * and abort(), whose raise() must not return.  They run above our locks; a program
 * that goes on from there by siglongjmp() is lost if it was us that faulted.  If the
 * signal cannot be queued (RLIMIT_SIGPENDING) the handler runs at once as well.
 *
 * Out of a handler.  Calls on streams hold all the way but for windows around the
 * calls that sleep: nowhere else can a handler leave them by siglongjmp(), and there
 * glibc's longjmp() runs the cleanup that was pushed in the frames it leaves, as
 * cancellation does.  (Not if the handler was on an alternate stack of a thread that
 * is not the first: glibc then takes the frames for dead.)
 *
 * Handlers that are installed by the system call itself (Go), or before we were
 * there, run at once, and may find a lock of ours held.
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
static __thread uint64_t mask_kept;	/* sr_held.off: the thread's own */
static __thread volatile uint64_t running;	/* signals whose handlers have begun */

/* What the program has installed, where the kernel has signal_entry().  Relaxed: it is stored
 * before the system call by which the kernel gets signal_entry(), and the kernel's lock of
 * the handlers orders it before the entry's first call. */
SR_APART static struct {
	_Atomic(handler_fn *) handler;
	atomic_int flags;
} table[_NSIG];

static long signal_set_mask(const uint64_t *set, uint64_t *old)
{
	return SR_SYS(SYS_rt_sigprocmask, SIG_SETMASK, set, old, MASK_BYTES);
}

/* All but the thread's own faults, and libc's signal for setuid(2) and its like, for which
 * all threads are waited for.  (The one for cancellation waits, too: cancel.c.) */
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

static void nothing(void *unused)
{
	(void)unused;
}

SR_WINDOW_FRAME
void sr_signals_breathe(void)
{
	struct sr_window w;

	if (!sr_held.off)
		return;
	sr_window_open(&w, nothing, NULL);
	sr_window_close(&w);
}

/* ---- handlers ---- */

/* SA_RESETHAND is left to us, as the kernel would not know whether the handler was put
 * off.  The flags and the mask stay. */
static void reset(int sig)
{
	struct sigaction sa;

	if (sr_signal_action(sig, NULL, &sa) < 0)
		return;
	sa.sa_handler = SIG_DFL;
	sr_real.sigaction(sig, &sa, NULL);
}

/* The handler's errno shall not be mistaken for that of a call of ours. */
static void signal_entry(int sig, siginfo_t *info, void *context)
{
	int err = errno, flags = sr_load(&table[sig].flags);
	bool direct = sr_direct;	/* of what the handler interrupts */
	uint64_t outer = running;

	sr_direct = false;
	if (!sr_held.count || !may_wait(sig, info) || !sr_signal_put_off(sig, info, context)) {
		if ((unsigned)flags & SA_RESETHAND)
			reset(sig);
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

/* Handlers of what we call ourselves stay as they are, and so do those of a child of
 * vfork(), which must change nothing of its parent's.  signal_entry() was read from the kernel
 * around us. */
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
