/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * signal.c - installs signal handlers: the kernel gets signal_entry() of base/signal.c, and
 * the program reads back its own handler.  The functions older than sigaction(2) are
 * implemented by it, as in glibc.
 */
#include "shim/shim.h"

#include <stdatomic.h>

/* Signals of siginterrupt(3): those that signal(3) installs without SA_RESTART. */
static _Atomic uint64_t interrupts;

static uint64_t signal_bit(int sig)
{
	return sig > 0 && sig < _NSIG ? 1ull << (sig - 1) : 0;
}

int sr_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return sr_inside || sr_shim_takes_handlers(sig) ?
		       sr_signal_action(sig, act, old) :
		       sr_real.sigaction(sig, act, old);
}

static __sighandler_t signal_install(int sig, __sighandler_t handler, unsigned flags,
				     bool mask)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = (int)flags };
	struct sigaction old;

	if (handler == SIG_ERR || !signal_bit(sig)) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (mask)
		sigaddset(&sa.sa_mask, sig);
	return sr_sigaction(sig, &sa, &old) < 0 ? SIG_ERR : old.sa_handler;
}

__sighandler_t sr_signal(int sig, __sighandler_t handler)
{
	bool interrupt = sr_load(&interrupts) & signal_bit(sig);

	return signal_install(sig, handler, interrupt ? 0 : SA_RESTART, true);
}

__sighandler_t sr_sysv_signal(int sig, __sighandler_t handler)
{
	return signal_install(sig, handler, SA_RESETHAND | SA_NODEFER, false);
}

int sr_siginterrupt(int sig, int interrupt)
{
	struct sigaction sa;

	if (sr_sigaction(sig, NULL, &sa) < 0)
		return -1;
	if (interrupt) {
		atomic_fetch_or_explicit(&interrupts, signal_bit(sig), memory_order_relaxed);
		sa.sa_flags &= ~SA_RESTART;
	} else {
		atomic_fetch_and_explicit(&interrupts, ~signal_bit(sig), memory_order_relaxed);
		sa.sa_flags |= SA_RESTART;
	}
	return sr_sigaction(sig, &sa, NULL);
}
