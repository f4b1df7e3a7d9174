/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * say.c - prints the lines of sockrail check: as text of at most 80 columns, or as JSON.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wrap.h"
#include "check.h"

static const char *const words[] = { "ok", "warning", "problem" };

static const struct {
	const char *reason, *text;
} advices[] = {
#define SR_REASON(id, word, text, remedy) {word, remedy},
#include "reasons.def"
#undef SR_REASON
};

static struct {
	bool begun;
	enum verdict verdict;
	char what[80], found[1000], todo[4000], reason[32];
} line;

static bool json;
static enum verdict worst;

void say_json(void)
{
	json = true;
}

const char *advice(const char *reason)
{
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
		if (!strcmp(advices[i].reason, reason))
			return advices[i].text;
	return "";
}

static void print_quoted(char before, const char *key, const char *text)
{
	printf("%c\"%s\":\"", before, key);
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", stdout);
		else if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else
			putchar(*text < ' ' || *text > '~' ? '?' : *text);
	}
	putchar('"');
}

static void print_json(void)
{
	print_quoted('{', "result", words[line.verdict]);
	print_quoted(',', "what", line.what);
	print_quoted(',', "found", line.found);
	if (*line.todo)
		print_quoted(',', "remedy", line.todo);
	if (*line.reason)
		print_quoted(',', "reason", line.reason);
	puts("}");
}

static void print_text(void)
{
	int column = printf("%-9s%s:", words[line.verdict], line.what);

	sr_wrap(line.found, column, 11);
	if (*line.todo) {
		printf("%11s", "");
		sr_wrap(line.todo, 11, 11);
	}
	if (*line.reason)
		printf("%11sReason in reports: %s\n", "", line.reason);
}

enum verdict said(void)
{
	if (line.begun) {
		if (json)
			print_json();
		else
			print_text();
		fflush(stdout);
	}
	line.begun = false;
	return worst;
}

void say(enum verdict verdict, const char *what, const char *found, ...)
{
	va_list ap;

	said();
	memset(&line, 0, sizeof(line));
	line.begun = true;
	line.verdict = verdict;
	snprintf(line.what, sizeof(line.what), "%s", what);
	va_start(ap, found);
	vsnprintf(line.found, sizeof(line.found), found, ap);
	va_end(ap);
	if (verdict > worst)
		worst = verdict;
}

void remedy(const char *reason, const char *what_to_do, ...)
{
	va_list ap;

	va_start(ap, what_to_do);
	vsnprintf(line.todo, sizeof(line.todo), what_to_do, ap);
	va_end(ap);
	snprintf(line.reason, sizeof(line.reason), "%s", reason ? reason : "");
}

void refuse(const char *text, ...)
{
	va_list ap;

	said();
	fputs("sockrail check: ", stderr);
	va_start(ap, text);
	vfprintf(stderr, text, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}
