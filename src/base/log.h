/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * log.h - one line, one write(2) to standard error or to SOCKRAIL_LOG_FILE (a
 * private descriptor).  No stdio, no malloc, no locale; async-signal-safe;
 * errno is kept.
 * Format: the subset %s %d %i %u %x %c %p %%, with l, ll, z, h modifiers, width
 * (also *), zero padding, left adjustment, precision of %s (also *), and %m
 * (errno's name).  Lines longer than 512 bytes are cut; bytes that would break
 * a line or a terminal are shown as '?'.
 */
#ifndef SR_LOG_H
#define SR_LOG_H

#include <stdarg.h>

#include "base/conf.h"

void sr_log_init(void);	/* by sr_conf_load(): remembers what standard error is */
void sr_log_write(enum sr_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int sr_format(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));	/* like snprintf, same subset */
int sr_vformat(char *buf, size_t size, const char *fmt, va_list args)
	__attribute__((format(printf, 3, 0)));
const char *sr_errno_name(int err);		/* "ECONNRESET", "0", "E123" */

#define sr_log(level, ...) \
	do { \
		if ((level) <= sr_conf.log) \
			sr_log_write((level), __VA_ARGS__); \
	} while (0)
#define sr_error(...) sr_log(SR_ERROR, __VA_ARGS__)
#define sr_warn(...) sr_log(SR_WARN, __VA_ARGS__)
#define sr_tell(...) sr_log(SR_INFO, __VA_ARGS__)
#define sr_debug(...) sr_log(SR_DEBUG, __VA_ARGS__)
#define sr_trace(...) sr_log(SR_TRACE, __VA_ARGS__)

#endif
