/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * log.c - where a line of the log goes.  No locks: a signal handler may log while
 * the same thread logs.
 */
#include "base/sys.h" /* before any system header */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/append.h"
#include "base/order.h"

#define LINE_MAX_LEN 512

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
	if (sr_sys_fstat(STDERR_FILENO, &st) == 0) {
		started.dev = st.st_dev;
		started.ino = st.st_ino;
	}
}

/*
 * A program that has closed its standard error may get number 2 again for a connection
 * or a database.  So if descriptor 2 is not the file that it was at the start, the line
 * is not written.
 */
static void stderr_write(const char *line, size_t len)
{
	struct stat st;

	if (started.known && (sr_sys_fstat(STDERR_FILENO, &st) || st.st_dev != started.dev ||
			      st.st_ino != started.ino))
		return;
	(void)!sr_append_write(STDERR_FILENO, line, len);
}

static struct sr_append file = { .path = sr_conf.log_file };

bool sr_log_keeps(int fd)
{
	return sr_append_has(&file, fd);
}

static void log_emit(const char *line, size_t len)
{
	static atomic_bool warned;

	if (sr_conf.log_file[0]) {
		if (sr_append_text(&file, line, len))
			return;
		/* (Logging this line calls log_emit() again, once.) */
		if (!atomic_exchange_explicit(&warned, true, memory_order_relaxed))
			sr_warn("SOCKRAIL_LOG_FILE: cannot write \"%s\" "
				"(%s), using standard error",
				sr_conf.log_file, sr_errno_name(errno));
	}
	stderr_write(line, len);
}

const char *sr_errno_name(int err)
{
	return strerrorname_np(err < 0 ? -err : err) ?: "?";
}

const char *const sr_level_words[] = {
	[SR_ERROR] = "error", [SR_WARN] = "warn", [SR_INFO] = "info",
	[SR_DEBUG] = "debug", [SR_TRACE] = "trace", NULL,
};

void sr_log_write(enum sr_level level, const char *fmt, ...)
{
	char line[LINE_MAX_LEN];
	int err = errno;
	size_t len;
	va_list args;

	len = (size_t)sr_format(line, sizeof(line), "sockrail[%d] %s: ",
				(int)sr_sys_getpid(), sr_level_words[level]);
	va_start(args, fmt);
	len += (size_t)vsnprintf(line + len, sizeof(line) - len, fmt, args);
	va_end(args);
	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[len++] = '\n';
	sr_enter();
	log_emit(line, len);
	sr_leave();
	errno = err;
}
