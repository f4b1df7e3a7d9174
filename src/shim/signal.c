/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal.c - installing signal handlers: ours goes before the program's (base/signal.c),
 * and the program is told its own.  The functions older than sigaction(2) are made of
 * it as glibc makes them.
 * Not among them is sigignore(3), which installs no handler.
 */
#include "shim/shim.h"

#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/signal.h"

/* Signals of siginterrupt(3): those that signal(3) installs without SA_RESTART. */
static _Atomic uint64_t interrupts;

static uint64_t bit(int sig)
{
	return sig > 0 && sig < _NSIG ? 1ull << (sig - 1) : 0;
}

static bool wraps(void)
{
	return !sr_inside && sr_shim_ready();
}

int sr_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction ours;
	int r;

	if (act && wraps()) {
		ours = *act;
		sr_signal_wrap(sig, &ours);
		act = &ours;
	}
	r = sr_real.sigaction(sig, act, old);
	if (r == 0 && old)
		sr_signal_unwrap(sig, old);
	return r;
}

/* The kernel's structure, on the architectures we know: sys.c. */
struct kernel_action {
	void (*handler)(int sig, siginfo_t *info, void *context);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static struct sigaction of_kernel(const struct kernel_action *k)
{
	return (struct sigaction){ .sa_sigaction = k->handler,
				   .sa_flags = (int)k->flags };
}

static void to_kernel(struct kernel_action *k, const struct sigaction *sa)
{
	k->handler = sa->sa_sigaction;
	k->flags = (unsigned)sa->sa_flags;
}

long sr_rt_sigaction(int sig, const void *act, void *old, size_t mask_bytes)
{
	struct kernel_action ours;
	struct sigaction sa;
	long r;

	/* Those two are libc's, and no program's. */
	if (act && wraps() && sig != 32 && sig != 33) {
		ours = *(const struct kernel_action *)act;
		sa = of_kernel(&ours);
		sr_signal_wrap(sig, &sa);
		to_kernel(&ours, &sa);
		act = &ours;
	}
	r = sr_real.syscall(SYS_rt_sigaction, sig, (long)act, (long)old,
			    (long)mask_bytes, 0, 0);
	if (r == 0 && old) {
		sa = of_kernel(old);
		sr_signal_unwrap(sig, &sa);
		to_kernel(old, &sa);
	}
	return r;
}

static __sighandler_t install(int sig, __sighandler_t handler, unsigned flags,
			      bool mask)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = (int)flags };
	struct sigaction old;

	if (handler == SIG_ERR || !bit(sig)) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (mask)
		sigaddset(&sa.sa_mask, sig);
	return sr_sigaction(sig, &sa, &old) < 0 ? SIG_ERR : old.sa_handler;
}

__sighandler_t sr_signal(int sig, __sighandler_t handler)
{
	bool interrupt = atomic_load(&interrupts) & bit(sig);

	if (!wraps())
		return sr_real.signal(sig, handler);
	return install(sig, handler, interrupt ? 0 : SA_RESTART, true);
}

__sighandler_t sr_sysv_signal(int sig, __sighandler_t handler)
{
	if (!wraps())
		return sr_real.sysv_signal(sig, handler);
	return install(sig, handler, SA_RESETHAND | SA_NODEFER, false);
}

/* SIG_HOLD blocks the signal, all else unblocks it; SIG_HOLD as a result: it was
 * blocked. */
__sighandler_t sr_sigset(int sig, __sighandler_t disp)
{
	__sighandler_t old;
	struct sigaction now;
	sigset_t one, was;

	if (!wraps() || !bit(sig) || disp == SIG_ERR)
		return sr_real.sigset(sig, disp);
	sigemptyset(&one);
	sigaddset(&one, sig);
	if (disp == SIG_HOLD) {
		if (sr_sigaction(sig, NULL, &now) < 0)
			return SIG_ERR;
		pthread_sigmask(SIG_BLOCK, &one, &was);
		return sigismember(&was, sig) ? SIG_HOLD : now.sa_handler;
	}
	old = install(sig, disp, 0, false);
	if (old == SIG_ERR)
		return old;
	pthread_sigmask(SIG_UNBLOCK, &one, &was);
	return sigismember(&was, sig) ? SIG_HOLD : old;
}

int sr_siginterrupt(int sig, int interrupt)
{
	struct sigaction sa;

	if (!wraps())
		return sr_real.siginterrupt(sig, interrupt);
	if (sr_sigaction(sig, NULL, &sa) < 0)
		return -1;
	if (interrupt) {
		atomic_fetch_or(&interrupts, bit(sig));
		sa.sa_flags &= ~SA_RESTART;
	} else {
		atomic_fetch_and(&interrupts, ~bit(sig));
		sa.sa_flags |= SA_RESTART;
	}
	return sr_sigaction(sig, &sa, NULL);
}
