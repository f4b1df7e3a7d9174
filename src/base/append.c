/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * append.c - owns the descriptors of the log and the report, files that the user has
 * named.  No locks, because a signal handler may write a line while it interrupts its
 * thread in these functions.
 */
#include "base/real.h" /* before any system header */
#include "base/append.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fdpriv.h"
#include "base/now.h"
#include "base/order.h"
#include "base/process.h"
#include "base/signal.h"

/* Opens a regular file or a character device; with `create' makes a regular file if there is
 * none.  Returns the descriptor, or -1 and errno: ELOOP if the last component of the path is a
 * symbolic link, because another user may have put it there; EINVAL for files of other types,
 * because to write to them may block (a FIFO without a reader). */
static int open_path(const char *path, bool create)
{
	/* Without O_NONBLOCK a FIFO would be waited for. */
	int fd = sr_now_open(path, O_WRONLY | O_APPEND | (create ? O_CREAT : 0) | O_CLOEXEC |
					   O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0666);
	struct stat st;
	int err = EINVAL;

	if (fd < 0)
		return -1;
	if (sr_sys_fstat(fd, &st))
		err = errno;
	else if (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode))
		return fd;
	sr_now_close(fd);
	errno = err;
	return -1;
}

ssize_t sr_append_write(int fd, const void *buf, size_t n)
{
	struct sr_filesig saved;
	ssize_t r;

	sr_filesig_block(&saved);
	r = sr_now_write(fd, buf, n);
	sr_filesig_restore(&saved, r);
	return r;
}

/* The file's descriptor, or -1 and errno. */
static int append_fd(struct sr_append *file, bool create)
{
	int old = sr_load(&file->kept), fd;

	if (old)
		return old - 1;
	if (!sr_process_ours()) {	/* vfork's child must not write its parent's tables */
		errno = ECHILD;
		return -1;
	}
	/* EBADF: the program has closed the number, which it did not open (fdpriv.h). */
	do
		fd = sr_fd_own(open_path(file->path, create));
	while (fd < 0 && errno == EBADF);
	/* Pairs with itself: another thread may be the first. */
	if (fd >= 0 && !sr_replace(&file->kept, &old, fd + 1)) {
		sr_fd_close(fd);
		fd = old - 1;
	}
	return fd;
}

static bool append_all(struct sr_append *file, const char *text, size_t len)
{
	int fd = append_fd(file, true);
	ssize_t n = fd < 0 ? -1 : 1;

	while (n > 0 && len) {
		n = sr_append_write(fd, text, len);
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	if (!n)
		errno = ENOSPC;
	return !len;
}

bool sr_append_text(struct sr_append *file, const char *text, size_t len)
{
	if (append_all(file, text, len))
		return true;
	if (errno != EBADF || !sr_process_ours())
		return false;
	sr_store(&file->kept, 0);	/* closed behind our back */
	return append_all(file, text, len);
}

void sr_append_open(struct sr_append *file, bool create)
{
	int err = errno;

	append_fd(file, create);
	errno = err;
}

bool sr_append_has(const struct sr_append *file, int fd)
{
	return sr_load(&file->kept) == fd + 1;
}
