/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * readable.c - owns what each thread knows of its pages.
 */
#include "base/real.h" /* before any system header */
#include "base/readable.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

__thread uintptr_t sr_pages_known[SR_PAGES_KNOWN];

/*
 * rt_sigprocmask(2) reads the new mask first and looks at what is to be done with it
 * then.  It is cheap, and no sandbox forbids it.  (The first mask of the first page
 * would be NULL, which is none.)
 */
bool sr_page_readable(uintptr_t page)
{
	const int nothing = ~0;
	int err = errno;
	bool yes;

	sr_real.syscall(SYS_rt_sigprocmask, nothing,
			(long)(page << 12 | _NSIG / 8), 0, _NSIG / 8, 0, 0);
	yes = errno != EFAULT;
	if (yes)
		sr_pages_known[page % SR_PAGES_KNOWN] = ~page;
	errno = err;
	return yes;
}
