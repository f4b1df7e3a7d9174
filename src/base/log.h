/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * log.h - one line, one write(2) to standard error or to SOCKRAIL_LOG_FILE (a
 * private descriptor).  Async-signal-safe; errno is kept.  Lines longer than 512 bytes
 * are cut; bytes that would break a line or a terminal are shown as '?'.
 */
#ifndef SR_LOG_H
#define SR_LOG_H

#include <stdio.h>

#include "base/conf.h"

extern const char *const sr_level_words[];	/* "error" ..., NULL */
void sr_log_init(void);	/* by sr_conf_load(): remembers what standard error is */
bool sr_log_keeps(int fd);	/* is it the log's?  The child of fork keeps it */
void sr_log_write(enum sr_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The C library's snprintf() takes no lock, allocates nothing and looks at no locale for %s
 * %d %u %x %c %p with their lengths, and a width or precision below a thousand.  Use nothing
 * else; in place of %m use sr_errno_name(errno).
 */
#define sr_format snprintf

const char *sr_errno_name(int err);		/* "ECONNRESET", "0", "?" */

#define sr_log(level, ...) \
	do { \
		if ((level) <= sr_conf.log) \
			sr_log_write((level), __VA_ARGS__); \
	} while (0)
#define sr_error(...) sr_log(SR_ERROR, __VA_ARGS__)
#define sr_warn(...) sr_log(SR_WARN, __VA_ARGS__)
#define sr_inform(...) sr_log(SR_INFO, __VA_ARGS__)
#define sr_debug(...) sr_log(SR_DEBUG, __VA_ARGS__)
#define sr_trace(...) sr_log(SR_TRACE, __VA_ARGS__)

#endif
