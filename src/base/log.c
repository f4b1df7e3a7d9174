/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * log.c - owns the log's descriptor.  No locks: a signal handler may log while
 * the same thread logs.
 */
#include "base/real.h" /* before any system header */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/append.h"
#include "base/fdpriv.h"
#include "base/now.h"
#include "base/process.h"

#define LINE_MAX_LEN 512

/* SOCKRAIL_LOG_FILE, once open: fd_epoch (fdpriv.h) << 32 | descriptor + 1.  One
 * word, so that a signal handler never sees half of it. */
static _Atomic uint64_t kept;

static uint64_t kept_now(int fd)
{
	return (uint64_t)sr_fd_epoch() << 32 | (uint32_t)(fd + 1);
}

/* The log file's descriptor, or -1.  *mine: the caller has to close it. */
static int file_get(bool *mine)
{
	uint64_t old = atomic_load(&kept);
	int fd = (int)(uint32_t)old - 1;

	*mine = false;
	if (old && old == kept_now(fd))
		return fd;
	/* The child of vfork writes no table that its parent shares. */
	if (!sr_process_ours()) {
		fd = sr_append_open(sr_conf.log_file);
		*mine = fd >= 0;
		return fd;
	}
	fd = sr_fd_own(sr_append_open(sr_conf.log_file));
	if (fd < 0)
		return -1;
	*mine = true;
	if (atomic_compare_exchange_strong(&kept, &old, kept_now(fd)))
		*mine = false;
	return fd;
}

/* What descriptor 2 was when the program started. */
static struct {
	bool known;
	dev_t dev;
	ino_t ino;
} started;

void sr_log_init(void)
{
	struct stat st;

	started.known = true;
	started.dev = 0;
	started.ino = 0;
	if (fstat(STDERR_FILENO, &st) == 0) {
		started.dev = st.st_dev;
		started.ino = st.st_ino;
	}
}

/*
 * A program that closed its standard error may get number 2 again for a
 * connection or a database.  Where 2 is no longer what it was, lines go only to
 * a device or a log that the program put there, and else nowhere.
 */
static int stderr_get(void)
{
	struct stat st;

	if (!started.known)
		return STDERR_FILENO;
	if (fstat(STDERR_FILENO, &st))
		return -1;
	if (st.st_dev == started.dev && st.st_ino == started.ino)
		return STDERR_FILENO;
	if (S_ISCHR(st.st_mode))
		return STDERR_FILENO;
	if (S_ISREG(st.st_mode) &&
	    (sr_real.fcntl(STDERR_FILENO, F_GETFL) & O_APPEND))
		return STDERR_FILENO;
	return -1;
}

/* *closed: behind our back. */
static bool write_once(const char *line, size_t len, bool *closed)
{
	bool mine, written;
	int fd = file_get(&mine);

	*closed = false;
	if (fd < 0)
		return false;
	written = sr_append_write(fd, line, len) == (ssize_t)len;
	*closed = !written && errno == EBADF;
	if (*closed)
		atomic_store(&kept, 0);
	if (mine && sr_fd_is_private(fd))
		sr_fd_close(fd);
	else if (mine)
		sr_now_close(fd);
	return written;
}

static bool file_write(const char *line, size_t len)
{
	bool closed, written = write_once(line, len, &closed);

	return written || (closed && write_once(line, len, &closed));
}

static void stderr_write(const char *line, size_t len)
{
	int fd = stderr_get();
	ssize_t n;

	if (fd < 0)
		return;
	n = sr_append_write(fd, line, len);
	(void)n;
}

static void emit(const char *line, size_t len)
{
	static atomic_bool told;

	if (sr_conf.log_file[0]) {
		if (file_write(line, len))
			return;
		/* This line comes here again, and passes. */
		if (!atomic_exchange(&told, true))
			sr_warn("SOCKRAIL_LOG_FILE: cannot write \"%s\" "
				"(%m), using standard error",
				sr_conf.log_file);
	}
	/* Without the file, somebody should still see the line. */
	stderr_write(line, len);
}

void sr_log_write(enum sr_level level, const char *fmt, ...)
{
	static const char *const words[] = {
		[SR_ERROR] = "error", [SR_WARN] = "warn", [SR_INFO] = "info",
		[SR_DEBUG] = "debug", [SR_TRACE] = "trace",
	};
	char line[LINE_MAX_LEN];
	int err = errno;
	size_t len;
	va_list args;

	len = (size_t)sr_format(line, sizeof(line), "sockrail[%d] %s: ",
				(int)getpid(), words[level]);
	errno = err;
	va_start(args, fmt);
	len += (size_t)sr_vformat(line + len, sizeof(line) - len, fmt, args);
	va_end(args);
	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[len++] = '\n';
	sr_enter();
	emit(line, len);
	sr_leave();
	errno = err;
}
