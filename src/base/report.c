/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * report.c - the JSON lines of SOCKRAIL_REPORT.  Keeps the program's name.  No locks.
 */
#include "base/real.h" /* before any system header */
#include "base/report.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/append.h"
#include "base/conf.h"
#include "base/log.h"

/* A line with a program name, a link and two addresses. */
#define LINE_SIZE 1024
#define PROGRAM_MAX 128

/* The program's name as it started: programs write over their arguments
 * (setproctitle(3bsd)). */
static char program[PROGRAM_MAX + 1];

#define SR_REASON(id, word, text) word,
static const char *const words[] = {
	NULL,
#include "reasons.def"
};
#undef SR_REASON

const char *sr_reason_word(enum sr_reason r)
{
	return (unsigned)r < SR_REASONS ? words[r] : NULL;
}

enum sr_reason sr_reason_find(const char *word)
{
	for (int r = SR_REASON_NONE + 1; word && r < SR_REASONS; r++)
		if (!strcmp(words[r], word))
			return (enum sr_reason)r;
	return SR_REASON_NONE;
}

void sr_report_init(void)
{
	sr_format(program, sizeof(program), "%s", program_invocation_short_name);
}

enum sr_reason sr_reason_of(int err, enum sr_reason other)
{
	switch (err) {
	case -EMFILE:
	case -ENFILE:
		return SR_REASON_DESCRIPTORS;
	case -ENOMEM:
	case -EAGAIN:
		return SR_REASON_MEMORY;
	case -ELIBACC:
		return SR_REASON_NO_LIBRARY;
	case -ENODEV:
		return SR_REASON_NO_DEVICE;
	}
	return other;
}

/* ---- JSON ---- */

struct line {
	char buf[LINE_SIZE];
	size_t len;
};

static void add(struct line *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct line *l, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	l->len += (size_t)vsnprintf(l->buf + l->len, sizeof(l->buf) - l->len,
				     fmt, args);
	va_end(args);
}

/* What is not printable ASCII is shown as '?'; no text is null. */
static void add_string(struct line *l, const char *text)
{
	if (!text) {
		add(l, "null");
		return;
	}
	add(l, "\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			add(l, "\\");
		add(l, "%c", *text < ' ' || *text > '~' ? '?' : *text);
	}
	add(l, "\"");
}

static void add_address(struct line *l, const char *key,
			const struct sockaddr_storage *a)
{
	char text[80];

	sr_addr_format(text, sizeof(text), a);
	add(l, ",\"%s\":\"%s\"", key, text);
}

static void add_ways(struct line *l, const char *side,
		     const uint64_t bytes[SR_WAYS])
{
	static const char *const ways[] = {
		[SR_WAY_PLAIN] = "plain", [SR_WAY_SHM] = "shm",
		[SR_WAY_VERBS] = "verbs",
	};

	for (int i = 0; i < SR_WAYS; i++)
		add(l, ",\"%s_%s\":%llu", side, ways[i],
		    (unsigned long long)bytes[i]);
}

static struct sr_append file = { .path = sr_conf.report };

void sr_report_open(void)
{
	sr_enter();
	sr_append_open(&file);
	sr_leave();
}

void sr_report_write(const struct sr_report *r)
{
	static atomic_bool told;
	struct line l = {.len = 0};
	int err = errno;

	if (!sr_conf.report[0])
		return;
	add(&l, "{\"program\":");
	add_string(&l, program);
	add(&l, ",\"pid\":%d,\"role\":\"%s\"", (int)getpid(),
	    r->connected ? "connect" : "accept");
	add_address(&l, "local", &r->local);
	add_address(&l, "peer", &r->peer);
	add(&l, ",\"link\":");
	add_string(&l, r->link);
	add_ways(&l, "tx", r->tx);
	add_ways(&l, "rx", r->rx);
	add(&l, ",\"switches\":%u,\"reason\":", r->switches);
	add_string(&l, sr_reason_word(r->reason));
	add(&l, ",\"error\":");
	add_string(&l, r->error ? sr_errno_name(r->error) : NULL);
	add(&l, "}\n");
	sr_enter();
	if (!sr_append_line(&file, l.buf, l.len) && !atomic_exchange(&told, true))
		sr_warn("cannot write the report to %s: %s", sr_conf.report,
			sr_errno_name(errno));
	sr_leave();
	errno = err;
}
