/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.c - owns the mark: a byte in a page that the kernel clears in every copy of
 * the memory (MADV_WIPEONFORK, madvise(2), Linux 4.14).  The child of vfork sees the
 * page itself, so it has to be told of; once there has been one, there may be one at
 * any time.
 */
#include "base/real.h" /* before any system header */
#include "base/process.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sockrail.h"

static const volatile char none;

struct sr_process sr_process = { .mark = &none, .lent = true };

static volatile char *page;

void sr_process_begin(void)
{
	const size_t size = 4096; /* of which the kernel makes a page */
	int err = errno;
	void *p;

	sr_process.pid = getpid();
	if (!page) {
		p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			goto out;
		if (madvise(p, size, MADV_WIPEONFORK)) {
			munmap(p, size);
			goto out;
		}
		page = p;
		sr_process.mark = page;
	}
	*page = 1;
out:
	errno = err;
}

void sr_process_told(void)
{
	atomic_store(&sr_process.lent, false);
}

void sr_process_lends(void)
{
	atomic_store(&sr_process.lent, true);
}

bool sr_process_ask(void)
{
	return !sr_process.pid || sr_process.pid == getpid();
}
