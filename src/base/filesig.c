/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* filesig.c - owns the signals of a call of ours on a file (filesig.h).  No locks. */
#include "base/real.h" /* before any system header */
#include "base/filesig.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#define MASK_BYTES (_NSIG / 8)	/* of the kernel's sigset_t, smaller than libc's */
#define BIT(sig) (1ull << ((sig)-1))
#define OURS (BIT(SIGXFSZ) | BIT(SIGPIPE))

void sr_filesig_block(struct sr_filesig *m)
{
	uint64_t ours = OURS;

	sr_real.syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&ours, (long)&m->mask,
			MASK_BYTES, 0, 0);
	sr_real.syscall(SYS_rt_sigpending, (long)&m->before, MASK_BYTES, 0, 0, 0, 0);
}

void sr_filesig_restore(struct sr_filesig *m, long r)
{
	const struct timespec at_once = { 0, 0 };
	uint64_t ours = OURS & ~m->before;
	int err = errno;

	if (r < 0 && (err == EFBIG || err == EPIPE) && ours)
		sr_real.syscall(SYS_rt_sigtimedwait, (long)&ours, 0, (long)&at_once,
				MASK_BYTES, 0, 0);
	sr_real.syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&m->mask, 0, MASK_BYTES, 0,
			0);
	errno = err;
}
