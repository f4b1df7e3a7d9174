/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * report.c - the JSON lines of SOCKRAIL_REPORT.  Keeps the program's name.  No locks.
 */
#include "base/sys.h" /* before any system header */
#include "base/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/apart.h"
#include "base/conf.h"
#include "base/gather.h"
#include "base/log.h"
#include "base/text.h"

/* A line with a program name, a link and two addresses. */
#define LINE_SIZE 1280
#define PROGRAM_MAX 128

/* The program's name as it started: programs write over their arguments
 * (setproctitle(3bsd)). */
SR_APART static char program[2 * PROGRAM_MAX + 1];

#define SR_REASON(id, word, text, remedy) word,
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

/* Copies text as the inside of a JSON string.  Bytes that are not printable ASCII become '?'.
 * What does not fit is cut off; buf should be twice as long as the text. */
static void json_escape(char *buf, size_t size, const char *text)
{
	for (; *text && size > 2; text++, size--) {
		if (*text == '"' || *text == '\\') {
			*buf++ = '\\';
			size--;
		}
		*buf++ = *text < ' ' || *text > '~' ? '?' : *text;
	}
	*buf = '\0';
}

/* A key with its value: a text in quotes, or null; or a number. */
static void put_text(struct sr_text *t, const char *key, const char *value)
{
	sr_text_word(t, key);
	sr_text_word(t, value ? "\"" : "null");
	if (!value)
		return;
	sr_text_word(t, value);
	sr_text_word(t, "\"");
}

static void put_number(struct sr_text *t, const char *key, uint64_t value)
{
	sr_text_word(t, key);
	sr_text_number(t, value);
}

void sr_report_init(void)
{
	char name[PROGRAM_MAX + 1];

	sr_format(name, sizeof(name), "%s", program_invocation_short_name);
	json_escape(program, sizeof(program), name);
}

const char *sr_report_program(void)
{
	return program;
}

/* Returns its length. */
static size_t put_line(char line[LINE_SIZE], pid_t pid, const struct sr_report *r)
{
	struct sr_text t = { line, line + LINE_SIZE - 1 };
	char link[2 * sizeof(r->link)], local[80], peer[80];

	json_escape(link, sizeof(link), r->link);
	sr_addr_format(local, sizeof(local), &r->local);
	sr_addr_format(peer, sizeof(peer), &r->peer);
	put_text(&t, "{\"program\":", program);
	put_number(&t, ",\"pid\":", (uint64_t)pid);
	put_text(&t, ",\"role\":", r->connected ? "connect" : "accept");
	put_text(&t, ",\"local\":", local);
	put_text(&t, ",\"peer\":", peer);
	put_text(&t, ",\"link\":", link);
	put_number(&t, ",\"tx_plain\":", r->tx[SR_WAY_PLAIN]);
	put_number(&t, ",\"tx_shm\":", r->tx[SR_WAY_SHM]);
	put_number(&t, ",\"tx_verbs\":", r->tx[SR_WAY_VERBS]);
	put_number(&t, ",\"rx_plain\":", r->rx[SR_WAY_PLAIN]);
	put_number(&t, ",\"rx_shm\":", r->rx[SR_WAY_SHM]);
	put_number(&t, ",\"rx_verbs\":", r->rx[SR_WAY_VERBS]);
	put_number(&t, ",\"switches\":", r->switches);
	put_text(&t, ",\"reason\":", sr_reason_word(r->reason));
	put_text(&t, ",\"error\":", r->error ? sr_errno_name(r->error) : NULL);
	sr_text_word(&t, "}\n");
	return (size_t)(t.at - line);
}

void sr_report_write(const struct sr_report *r)
{
	char line[LINE_SIZE];
	int err = errno;
	pid_t pid;

	if (!sr_conf.report[0])
		return;
	pid = sr_sys_getpid();
	sr_gather_line(pid, line, put_line(line, pid, r));
	errno = err;
}
