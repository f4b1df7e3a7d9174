/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * append.c - owns the descriptors of the log and the report, files that the user has
 * named.  No locks: a signal handler may write a line while the same thread does.
 */
#include "base/real.h" /* before any system header */
#include "base/append.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fdpriv.h"
#include "base/now.h"
#include "base/process.h"
#include "base/signal.h"

/* A regular file, made if it is not there, or a character device: a descriptor with
 * any number, or -1 and errno.  ELOOP: the last component is a symbolic link, which
 * somebody else may have put there; EINVAL: it is something else, which may have no
 * reader. */
static int open_path(const char *path)
{
	/* Without O_NONBLOCK a FIFO would be waited for. */
	int fd = sr_now_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
					   O_NOFOLLOW | O_NONBLOCK, 0666);
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

/* `kept`, once the file is open: it is void in the child of fork, which has closed the
 * descriptor.  One word, so that a signal handler never sees half of it. */
static uint64_t kept_now(int fd)
{
	return (uint64_t)sr_process_owner() << 32 | (uint32_t)(fd + 1);
}

/* The file's descriptor, or -1 and errno. */
static int get(struct sr_append *file)
{
	uint64_t old = atomic_load(&file->kept);
	int fd = (int)(uint32_t)old - 1;

	if (old && old == kept_now(fd))
		return fd;
	if (!sr_process_ours()) {	/* vfork's child writes no table of its parent */
		errno = ECHILD;
		return -1;
	}
	/* EBADF: the program closes numbers that it does not have (fdpriv.h). */
	do
		fd = sr_fd_own(open_path(file->path));
	while (fd < 0 && errno == EBADF);
	if (fd >= 0 && !atomic_compare_exchange_strong(&file->kept, &old, kept_now(fd))) {
		sr_fd_close(fd);	/* another thread was first */
		fd = (int)(uint32_t)old - 1;
	}
	return fd;
}

bool sr_append_line(struct sr_append *file, const char *line, size_t len)
{
	int fd = get(file);
	ssize_t n = fd < 0 ? -1 : sr_append_write(fd, line, len);

	if (n < 0 && errno == EBADF)	/* closed behind our back: next time anew */
		atomic_store(&file->kept, 0);
	if (n >= 0)
		errno = ENOSPC;
	return n == (ssize_t)len;
}

void sr_append_open(struct sr_append *file)
{
	int err = errno;

	get(file);
	errno = err;
}
