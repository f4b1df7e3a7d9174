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

/* The inside of a string: what is not printable ASCII is shown as '?'.  buf has twice
 * the room of the text at least, of which the rest is cut. */
static void escape(char *buf, size_t size, const char *text)
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

/* A word of ours in quotes, or null. */
static const char *quoted(char buf[32], const char *word)
{
	if (!word)
		return "null";
	sr_format(buf, 32, "\"%s\"", word);
	return buf;
}

void sr_report_init(void)
{
	char name[PROGRAM_MAX + 1];

	sr_format(name, sizeof(name), "%s", program_invocation_short_name);
	escape(program, sizeof(program), name);
}

const char *sr_report_program(void)
{
	return program;
}

void sr_report_write(const struct sr_report *r)
{
	char line[LINE_SIZE], link[2 * sizeof(r->link)], local[80], peer[80];
	char reason[32], error[32];
	pid_t pid;
	int err = errno, len;

	if (!sr_conf.report[0])
		return;
	pid = sr_sys_getpid();
	escape(link, sizeof(link), r->link);
	sr_addr_format(local, sizeof(local), &r->local);
	sr_addr_format(peer, sizeof(peer), &r->peer);
	len = sr_format(line, sizeof(line),
			"{\"program\":\"%s\",\"pid\":%d,\"role\":\"%s\","
			"\"local\":\"%s\",\"peer\":\"%s\",\"link\":\"%s\","
			"\"tx_plain\":%llu,\"tx_shm\":%llu,\"tx_verbs\":%llu,"
			"\"rx_plain\":%llu,\"rx_shm\":%llu,\"rx_verbs\":%llu,"
			"\"switches\":%u,\"reason\":%s,\"error\":%s}\n",
			program, (int)pid, r->connected ? "connect" : "accept",
			local, peer, link, (unsigned long long)r->tx[SR_WAY_PLAIN],
			(unsigned long long)r->tx[SR_WAY_SHM],
			(unsigned long long)r->tx[SR_WAY_VERBS],
			(unsigned long long)r->rx[SR_WAY_PLAIN],
			(unsigned long long)r->rx[SR_WAY_SHM],
			(unsigned long long)r->rx[SR_WAY_VERBS], r->switches,
			quoted(reason, sr_reason_word(r->reason)),
			quoted(error, r->error ? sr_errno_name(r->error) : NULL));
	sr_gather_line(pid, line, (size_t)len);
	errno = err;
}
