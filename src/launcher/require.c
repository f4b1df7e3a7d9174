/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * require.c - sockrail --require: runs a program, and fails if one of its streams
 * moved bytes another way than was required.  It judges by the lines of
 * SOCKRAIL_REPORT (src/base/report.c), which all processes of the program write.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"

static const struct {
	const char *word, *text;
} reasons[] = {
#define SR_REASON(id, word, text, remedy) {word, text},
#include "reasons.def"
#undef SR_REASON
};

bool require_known(const char *kind)
{
	return !strcmp(kind, "link") || !strcmp(kind, "verbs") || !strcmp(kind, "shm");
}

/* ---- the report's lines ---- */

/* What follows "key": in the line; "" if it is not there. */
static const char *value_of(const char *line, const char *key)
{
	char name[32];
	const char *at;

	snprintf(name, sizeof(name), "\"%s\":", key);
	at = strstr(line, name);
	return at ? at + strlen(name) : "";
}

static unsigned long long report_number(const char *line, const char *key)
{
	return strtoull(value_of(line, key), NULL, 10);
}

/* Copies the string of a key, still escaped, without its quotes; null: "". */
static const char *text_of(const char *line, const char *key, char buf[300])
{
	const char *s = value_of(line, key);
	size_t n = 0;

	if (*s == '"')
		for (s++; *s && *s != '"' && n < 298; buf[n++] = *s++)
			if (*s == '\\' && s[1])
				buf[n++] = *s++;
	buf[n] = '\0';
	return buf;
}

static unsigned long long both_ways(const char *line, const char *way)
{
	char tx[16], rx[16];

	snprintf(tx, sizeof(tx), "tx_%s", way);
	snprintf(rx, sizeof(rx), "rx_%s", way);
	return report_number(line, tx) + report_number(line, rx);
}

static const char *explain_reason(const char *word)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (!strcmp(reasons[i].word, word))
			return reasons[i].text;
	return "only its first bytes, before the link was made";
}

enum { NAMED = 10 };	/* streams that are named; the others are only counted */

struct verdict {
	unsigned streams, failed, exempt;
};

static void report_judge(const char *kind, const char *line, struct verdict *v)
{
	unsigned long long plain = both_ways(line, "plain"), shm = both_ways(line, "shm"),
			   verbs = both_ways(line, "verbs"), wrong = plain;
	char program[300], local[300], peer[300], reason[300], role[300];

	if (!(plain + shm + verbs))
		return;
	text_of(line, "reason", reason);
	if (!strcmp(reason, "never") && !(shm + verbs)) {
		v->exempt++;	/* a rule or a knob says so */
		return;
	}
	v->streams++;
	wrong += strcmp(kind, "verbs") ? 0 : shm;
	wrong += strcmp(kind, "shm") ? 0 : verbs;
	if (!wrong || ++v->failed > NAMED)
		return;
	fprintf(stderr, "sockrail: %s[%llu] %s %s %s: %llu bytes by %s: %s%s%s\n",
		text_of(line, "program", program), report_number(line, "pid"),
		text_of(line, "local", local),
		strcmp(text_of(line, "role", role), "connect") ? "<-" : "->",
		text_of(line, "peer", peer), wrong,
		plain ? "TCP" : shm ? "shm" : "verbs", reason, *reason ? ": " : "",
		plain ? explain_reason(reason) : "another kind of link than required");
}

static int judge_all(const char *kind, FILE *report, int status)
{
	struct verdict v = { 0 };
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, report) > 0)
		report_judge(kind, line, &v);
	free(line);
	if (v.failed > NAMED)
		fprintf(stderr, "sockrail: and %u more streams: -s report=FILE lists all\n",
			v.failed - NAMED);
	if (v.failed)
		fprintf(stderr, "sockrail: --require=%s: %u of %u streams moved bytes "
				"another way\n", kind, v.failed, v.streams);
	else if (!v.streams)
		fprintf(stderr, "sockrail: --require=%s: no stream has moved a byte%s\n",
			kind, v.exempt ? ", except those with the reason \"never\"" : "");
	return v.failed || (!v.streams && !status) ? EXIT_REFUSED : status;
}

/* ---- the program ---- */

static volatile sig_atomic_t child;

static void signal_pass_on(int sig)
{
	if (child)
		kill((pid_t)child, sig);
}

/* Signals of the terminal go to the program as well; others come only to this process, which
 * passes them on. */
static int command_run(char **command)
{
	const struct sigaction passing = { .sa_handler = signal_pass_on };
	int status;

	child = fork();
	if (child < 0) {
		perror("sockrail: fork");
		return EXIT_SELF;
	}
	if (!child)
		_exit(launcher_exec(command));
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	sigaction(SIGTERM, &passing, NULL);
	sigaction(SIGHUP, &passing, NULL);
	while (waitpid((pid_t)child, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_SELF;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Uses the user's report file, from its end on, or a temporary one. */
int require_run(const char *kind, char **command)
{
	const char *given = getenv("SOCKRAIL_REPORT"), *dir = getenv("TMPDIR");
	bool own = !given || !*given;
	char path[PATH_MAX];
	FILE *report = NULL;
	int fd, status = EXIT_SELF;

	if (own) {
		snprintf(path, sizeof(path), "%s/sockrail-XXXXXX",
			 dir && *dir == '/' ? dir : "/tmp");
		fd = mkostemp(path, O_CLOEXEC);
		setenv("SOCKRAIL_REPORT", path, 1);
	} else {
		snprintf(path, sizeof(path), "%s", given);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	}
	setenv("SOCKRAIL_REPORT_MS", "0", 1);	/* so that a killed process has reported, too */
	if (fd >= 0)
		report = fdopen(fd, "r");
	if (!report || fseek(report, 0, SEEK_END))
		fprintf(stderr, "sockrail: %s: %s\n", path, strerror(errno));
	else
		status = judge_all(kind, report, command_run(command));
	if (report)
		fclose(report);
	if (own && fd >= 0)
		unlink(path);
	return status;
}
