/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * append.c - files that the user has named.
 */
#include "base/append.h"
#include "base/now.h"

#include <errno.h>
#include <sys/stat.h>

#define MASK_BYTES (_NSIG / 8)	/* of the kernel's sigset_t, smaller than libc's */
#define BIT(sig) (1ull << ((sig)-1))

int sr_append_open(const char *path)
{
	/* Without O_NONBLOCK a FIFO would be waited for. */
	int fd = sr_now_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
					   O_NOFOLLOW | O_NONBLOCK, 0666);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode)))
		return fd;
	sr_now_close(fd);
	errno = EINVAL;
	return -1;
}

/* The kernel sends both to the thread that writes. */
ssize_t sr_append_write(int fd, const void *buf, size_t n)
{
	const struct timespec at_once = { 0, 0 };
	uint64_t ours = BIT(SIGXFSZ) | BIT(SIGPIPE), before, mask;
	ssize_t r;
	int err;

	sr_real.syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&ours, (long)&mask,
			MASK_BYTES, 0, 0);
	sr_real.syscall(SYS_rt_sigpending, (long)&before, MASK_BYTES, 0, 0, 0, 0);
	r = sr_now_write(fd, buf, n);
	err = errno;
	ours &= ~before;
	if (r < 0 && (err == EFBIG || err == EPIPE) && ours)
		sr_real.syscall(SYS_rt_sigtimedwait, (long)&ours, 0, (long)&at_once,
				MASK_BYTES, 0, 0);
	sr_real.syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, MASK_BYTES, 0,
			0);
	errno = err;
	return r;
}
