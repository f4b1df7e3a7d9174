/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal.c - owns the program's signal handlers, as far as they were installed by
 * functions that we intercept.
 *
 * The problem.  A handler may call us, exit(), or siglongjmp(), at any moment, and
 * so also where its thread holds a lock of ours.  Blocking signals around every lock
 * would cost two system calls each.
 *
 * Putting off.  So the kernel gets an entry of ours for each handler.  If it finds
 * that its thread holds something (sr_held), it sends the very same signal to its
 * own thread once more, and blocks all signals in the mask that the kernel is going
 * to restore when the entry returns.  The thread goes on, lets go, finds sr_held.off
 * and puts the old mask back: the kernel delivers, with the right siginfo, mask,
 * stack and context.  The thread never sleeps while it holds something, so this is a
 * matter of microseconds.
 *
 * Two at once: the kernel may have stacked a second signal's frame upon the first
 * one's before either has run.  The second then runs first, and the mask it finds is
 * the first one's; the first, below it, finds the thread's and has the last word.
 * An entry blocks all signals before it writes anything, so none comes in between.
 *
 * Not put off: faults of the thread itself, which would come again at once (and the
 * same signals if somebody sends them, for who blocks them dies of a fault), and
 * abort(), whose raise() must not return.  They run above our locks; a program that
 * goes on from there by siglongjmp() is lost if it was us that faulted.  If the
 * signal cannot be queued (RLIMIT_SIGPENDING) the handler runs at once as well.
 *
 * Out of a handler.  Calls on streams hold all the way but for windows around the
 * calls that sleep (window.c): nowhere else can a handler leave them by siglongjmp(),
 * and there glibc's longjmp() runs the cleanup that was pushed in the frames it
 * leaves, as cancellation does.  (Not if the handler was on an alternate stack of a
 * thread that is not the first: glibc then takes the frames for dead.)  What is lost
 * is memory: a reference of the stream, a waiter.
 *
 * Which handler.  The kernel changes handler, flags and mask in one go, and so must
 * we.  So a handler is bound to one of SLOTS entries of its signal, for ever, before
 * it is installed; what the kernel has installed says which handler that is, whoever
 * else installs one meanwhile.  Nothing to lock: sigaction() stays async-signal-safe,
 * a child of vfork() changes nothing of its parent's but that a handler is bound,
 * and what libc saves and puts back by itself (system(), siginterrupt()) is right.
 * The slot's number says what the entry cannot know otherwise: whether the program
 * had asked for SA_SIGINFO, which we always do, and SA_RESTART.  A program with more
 * handlers for one signal than there are slots has one bound that is not installed
 * taken over; only a signal that is just being delivered could notice.
 *
 * Handlers that are installed by the system call itself (Go), or before we were
 * there, are as they ever were: they run at once, and may find a lock of ours held.
 */
#include "base/real.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "base/signal.h"

#define BANK_INFO 1u	/* of a slot: its handler has SA_SIGINFO */
#define BANK_RESTART 2u /* SA_RESTART */
#define BANKS 4u
#define SLOTS 16u

#define MASK_BYTES (_NSIG / 8)	/* of the kernel's sigset_t, smaller than libc's */
#define BIT(sig) (1ull << ((sig)-1))

typedef void handler_fn(int sig, siginfo_t *info, void *context);

__thread volatile struct sr_held sr_held
	__attribute__((tls_model("initial-exec")));
__thread volatile struct sr_handled sr_handled
	__attribute__((tls_model("initial-exec")));
__thread struct timespec sr_sleep_end
	__attribute__((tls_model("initial-exec")));
static __thread uint64_t mask_kept;	/* sr_held.off: the thread's own */

static _Atomic(handler_fn *) bound[_NSIG][SLOTS];

/* Signals whose handler is for once and has no SA_SIGINFO: when it has run the
 * kernel has SIG_DFL and still the flags. */
static _Atomic uint64_t once_plain;

static long set_mask(const uint64_t *set, uint64_t *old)
{
	return sr_real.syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)set,
			       (long)old, MASK_BYTES, 0, 0);
}

/* All but the thread's own faults, and libc's two signals below SIGRTMIN. */
static uint64_t all_signals(void)
{
	return ~(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) |
		 BIT(SIGTRAP) | BIT(SIGSYS) | BIT(32) | BIT(33));
}

static bool may_wait(int sig, const siginfo_t *info)
{
	if (sig == SIGABRT)
		return info->si_code != SI_TKILL;
	return all_signals() & BIT(sig);
}

/* ---- putting off ---- */

static bool queue(int sig, siginfo_t *info)
{
	return sr_real.syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig,
			       (long)info, 0, 0) == 0;
}

void sr_signal_raise(int sig)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = sig;
	info.si_code = SI_USER;
	info.si_pid = getpid();
	info.si_uid = getuid();
	if (!queue(sig, &info))
		pthread_kill(pthread_self(), sig);
}

/* Real-time signals come in the order they were sent: those that wait already
 * queue up behind this one, as many as a handler's stack has room for. */
static __attribute__((noinline)) bool queue_first(int sig, siginfo_t *info)
{
	siginfo_t later[8];
	uint64_t set = BIT(sig);
	struct timespec now = { 0, 0 };
	int i, n = 0;
	bool ok;

	while (n < 8 && sr_real.syscall(SYS_rt_sigtimedwait, (long)&set,
					(long)&later[n], (long)&now,
					MASK_BYTES, 0, 0) == sig)
		n++;
	ok = queue(sig, info);
	for (i = 0; i < n; i++)
		queue(sig, &later[i]);
	return ok;
}

/* The kernel has undone a handler with SA_RESETHAND, and left the rest. */
static void install_again(unsigned slot, int sig);

/* False: it cannot wait. */
static bool put_off(unsigned slot, int sig, siginfo_t *info, ucontext_t *context)
{
	uint64_t all = all_signals(), now;
	bool ok;

	set_mask(&all, &now);
	install_again(slot, sig);
	ok = sig < SIGRTMIN ? queue(sig, info) : queue_first(sig, info);
	if (!ok) {
		set_mask(&now, NULL);
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
	set_mask(&mask, NULL);
	errno = err;
}

void sr_hold_none(void)
{
	sr_held.count = 0;
	if (sr_held.off)
		sr_signals_let_in();
}

/* ---- the entries ---- */

/* errno: what the handler does to it shall not be mistaken for a call's of ours. */
static void caught(unsigned slot, int sig, siginfo_t *info, void *context)
{
	handler_fn *fn = atomic_load(&bound[sig][slot]);
	int err = errno, held = sr_held.count;

	/* (One that the kernel stacked upon this one may have been put off here.) */
	if (held && sr_window_at(context))
		sr_hold_none();
	if (!sr_held.count || !may_wait(sig, info) ||
	    !put_off(slot, sig, info, context)) {
		sr_handled.all++;
		sr_handled.breaking += !(slot & BANK_RESTART);
		sr_sleep_end = (struct timespec){ 0, 0 };
		atomic_signal_fence(memory_order_seq_cst);
		fn(sig, info, context);
		atomic_signal_fence(memory_order_seq_cst);
	}
	sr_held.count = held;
	errno = err;
}

#define EACH_SLOT(X) \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) \
	X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

#define ENTRY(n) \
	static void entry##n(int sig, siginfo_t *info, void *context) \
	{ \
		caught(n, sig, info, context); \
	}
EACH_SLOT(ENTRY)

#define NAME(n) entry##n,
static handler_fn *const entries[] = { EACH_SLOT(NAME) };
_Static_assert(sizeof(entries) / sizeof(entries[0]) == SLOTS, "EACH_SLOT");

static int slot_of(handler_fn *fn)
{
	unsigned i;

	for (i = 0; i < SLOTS; i++)
		if (entries[i] == fn)
			return (int)i;
	return -1;
}

static void install_again(unsigned slot, int sig)
{
	struct sigaction sa;

	if (sr_real.sigaction(sig, NULL, &sa) < 0 ||
	    sa.sa_handler != SIG_DFL || !((unsigned)sa.sa_flags & SA_RESETHAND))
		return;
	sa.sa_sigaction = entries[slot];
	sr_real.sigaction(sig, &sa, NULL);
}

/* ---- binding ---- */

/* All of the bank are taken: one that is not in use now. */
static unsigned take_over(int sig, unsigned bank, handler_fn *fn)
{
	static atomic_uint turns;
	unsigned turn = atomic_fetch_add(&turns, 1), i;
	struct sigaction now;
	int used = -1;

	if (sr_real.sigaction(sig, NULL, &now) == 0)
		used = slot_of(now.sa_sigaction);
	i = bank + turn * BANKS % SLOTS;
	if ((int)i == used)
		i = (i + BANKS) % SLOTS;
	atomic_store(&bound[sig][i], fn);
	return i;
}

static unsigned bind_slot(int sig, unsigned bank, handler_fn *fn)
{
	unsigned i;

	for (i = bank; i < SLOTS; i += BANKS) {
		handler_fn *was = NULL;

		if (atomic_compare_exchange_strong(&bound[sig][i], &was, fn) ||
		    was == fn)
			return i;
	}
	return take_over(sig, bank, fn);
}

void sr_signal_wrap(int sig, struct sigaction *sa)
{
	unsigned bank = 0;

	if (sig < 1 || sig >= _NSIG)
		return;
	if (((unsigned)sa->sa_flags & SA_RESETHAND) && !(sa->sa_flags & SA_SIGINFO))
		atomic_fetch_or(&once_plain, BIT(sig));
	else
		atomic_fetch_and(&once_plain, ~BIT(sig));
	if (sa->sa_handler == SIG_DFL || sa->sa_handler == SIG_IGN ||
	    sa->sa_handler == SIG_ERR)
		return;
	/* Read from the kernel around us, and put back through us. */
	if (slot_of(sa->sa_sigaction) >= 0)
		return;
	if (sa->sa_flags & SA_SIGINFO)
		bank |= BANK_INFO;
	if (sa->sa_flags & SA_RESTART)
		bank |= BANK_RESTART;
	sa->sa_sigaction = entries[bind_slot(sig, bank, sa->sa_sigaction)];
	sa->sa_flags |= SA_SIGINFO;
}

void sr_signal_unwrap(int sig, struct sigaction *sa)
{
	int slot = slot_of(sa->sa_sigaction);

	if (sig < 1 || sig >= _NSIG)
		return;
	if (sa->sa_handler == SIG_DFL &&
	    ((unsigned)sa->sa_flags & SA_RESETHAND) &&
	    (atomic_load(&once_plain) & BIT(sig)))
		sa->sa_flags &= ~SA_SIGINFO;
	if (slot < 0)
		return;
	sa->sa_sigaction = atomic_load(&bound[sig][slot]);
	if (!((unsigned)slot & BANK_INFO))
		sa->sa_flags &= ~SA_SIGINFO;
}
