/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * settings.c - owns the rules.  Files of settings have a setting in each line:
 *
 *	KNOB=VALUE				a knob of the process
 *	connect ADDRESS WORD...			a rule for streams that connect to it
 *	listen ADDRESS WORD...			a rule for streams accepted there
 *
 * The first setting of a knob counts, and the first rule that fits a stream.  The order is: the
 * environment, SOCKRAIL_RULES, the profile, the files in the directory in the order of their
 * names.  Each file is read twice, first for knobs and then for rules, because a rule begins as
 * a copy of the knobs.  Runs once, before there is a second thread; no locks.
 */
#include "base/real.h" /* before any system header */
#include "base/settings.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/addr.h"
#include "base/apart.h"
#include "base/log.h"
#include "base/net.h"
#include "base/now.h"

#define RULES_MAX 128
#define FILE_SIZE (16 << 10)	/* of one file */

struct rule {
	bool connects;
	struct sr_net net;
	struct sr_policy policy;
};

SR_APART static struct rule rules[RULES_MAX];
static unsigned n_rules;

/* Where we are, for warnings. */
struct place {
	const char *file;
	unsigned line;
	bool knobs;	/* the first reading: knobs, the second: rules */
};

#define complain(place, fmt, ...) \
	sr_warn("%s:%u: " fmt "; the line is ignored", (place)->file, (place)->line, \
		__VA_ARGS__)

/* ---- lines ---- */

/* One word of a rule: a knob of streams with its value, or a policy alone. */
static bool rule_word(const struct place *at, char *word, struct sr_policy *policy)
{
	char *value = strchr(word, '=');
	int r;

	if (value) {
		*value++ = '\0';
		r = sr_conf_set(word, value, policy);
	} else {
		r = sr_conf_set("UPGRADE", word, policy);
	}
	if (!r)
		return true;
	if (r == -ENOENT)
		complain(at, "\"%.64s\" is not a knob", word);
	else if (r == -EPERM)
		complain(at, "%.64s is a knob of the process, not of a stream", word);
	else if (value)
		complain(at, "\"%.64s\" is not a valid value of %.64s", value, word);
	else
		complain(at, "\"%.64s\" is neither a policy nor KNOB=VALUE", word);
	return false;
}

static void rule_line(const struct place *at, char *word, char *rest)
{
	struct rule r = { .policy = sr_conf.policy };
	char *address = strtok_r(NULL, " \t", &rest);
	unsigned words = 0;

	r.connects = !strcmp(word, "connect");
	if (!r.connects && strcmp(word, "listen")) {
		complain(at, "\"%.64s\" is neither KNOB=VALUE, connect nor listen", word);
		return;
	}
	if (!address || !sr_net_parse(address, &r.net)) {
		complain(at, "\"%.64s\" is not an address like 10.0.0.0/8:80, :80 or [fd00::/8]:80",
			 address ? address : "");
		return;
	}
	for (; (word = strtok_r(NULL, " \t", &rest)); words++)
		if (!rule_word(at, word, &r.policy))
			return;
	if (!words)
		complain(at, "the rule for %.64s sets nothing", address);
	else if (n_rules == RULES_MAX)
		complain(at, "there are more than %d rules", RULES_MAX);
	else
		rules[n_rules++] = r;
}

static void knob_line(const struct place *at, const char *origin, char *name, char *value)
{
	int r;

	*value++ = '\0';
	r = sr_conf_set_first(name, value, origin);
	if (r == -ENOENT)
		complain(at, "\"%.64s\" is not a knob", name);
	else if (r)
		complain(at, "\"%.64s\" is not a valid value of %.64s", value, name);
}

static void one_line(const struct place *at, char *line)
{
	char copy[300], origin[PATH_MAX + 16], *word, *rest = NULL, *value;
	unsigned before = n_rules;

	line[strcspn(line, "#\r")] = '\0';
	sr_format(origin, sizeof(origin), "%s:%u", at->file, at->line);
	sr_format(copy, sizeof(copy), "%.*s", (int)sizeof(copy) - 1, line);
	word = strtok_r(line, " \t", &rest);
	if (!word)
		return;
	value = strchr(word, '=');
	if (value && at->knobs) {
		if (strtok_r(NULL, " \t", &rest))
			complain(at, "there is more text after %.64s", word);
		else
			knob_line(at, origin, word, value);
	} else if (!value && !at->knobs) {
		rule_line(at, word, rest);
		if (n_rules > before)
			sr_conf_show(copy, origin);
	}
}

/* ---- files ---- */

/* text[n] is 0; the text is changed. */
void sr_settings_text(const char *path, char *text, size_t n, bool knobs)
{
	struct place at = { path, 0, knobs };
	char *line, *next;

	for (line = text; line; line = next) {
		next = memchr(line, '\n', n - (size_t)(line - text));
		if (next)
			*next++ = '\0';
		at.line++;
		one_line(&at, line);
	}
}

static void settings_read_file(const char *path, bool knobs)
{
	char text[FILE_SIZE + 1];
	int fd = sr_now_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	ssize_t n = fd < 0 ? -1 : sr_now_read(fd, text, sizeof(text));
	const char *wrong = n < 0 ? sr_errno_name(errno) : n > FILE_SIZE ? "more than 16 kB" :
			    memchr(text, 0, (size_t)n) ? "not a text file (it has a zero byte)" : NULL;
	struct stat st;

	if (fd >= 0 && !sr_sys_fstat(fd, &st) && S_ISFIFO(st.st_mode))
		wrong = "a pipe, which cannot be read twice";
	if (wrong) {
		if (knobs)
			sr_warn("%s: %s; the file is ignored", path, wrong);
		n = 0;
	}
	if (fd >= 0)
		sr_now_close(fd);
	text[n] = '\0';
	sr_settings_text(path, text, (size_t)n, knobs);
}

static int is_file_of_settings(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > 5 && !strcmp(d->d_name + len - 5, ".conf");
}

/* Lists the files of settings in the order of their names.  Returns how many there are. */
static int list_directory(const char *dir, struct dirent ***names)
{
	int n = scandir(dir, names, is_file_of_settings, alphasort);

	/* The default directory need not exist. */
	if (n < 0 && ((errno != ENOENT && errno != EACCES) || sr_conf_is_set("CONFIG_DIR")))
		sr_warn("%s: %s; no settings are read from this directory", dir,
			sr_errno_name(errno));
	return n;
}

static void read_named(bool knobs)
{
	if (sr_conf.rules[0])
		settings_read_file(sr_conf.rules, knobs);
	if (sr_conf.profile[0])
		settings_read_file(sr_conf.profile, knobs);
}

static void read_listed(const char *dir, struct dirent **names, int n, bool knobs)
{
	char path[PATH_MAX];

	for (int i = 0; i < n; i++) {
		sr_format(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		settings_read_file(path, knobs);
	}
}

void sr_settings_load(void)
{
	char dir[sizeof(sr_conf.config_dir)];	/* a file in it may set another one */
	struct dirent **names = NULL;
	int n;

	n_rules = 0;
	read_named(true);
	strcpy(dir, sr_conf.config_dir);
	n = list_directory(dir, &names);
	read_listed(dir, names, n, true);
	/* Rules begin with the knobs' values. */
	read_named(false);
	read_listed(dir, names, n, false);
	while (n > 0)
		free(names[--n]);
	free(names);
}

/* A wildcard listener listens at every address, so a rule that allows links at any address
 * with its port counts for it. */
static const struct sr_policy *opened_by(const struct sockaddr_storage *wildcard)
{
	uint16_t port = sr_addr_port((const struct sockaddr *)wildcard);

	for (unsigned i = 0; i < n_rules; i++)
		if (!rules[i].connects && rules[i].policy.upgrade != SR_NEVER &&
		    port >= rules[i].net.port_first && port <= rules[i].net.port_last)
			return &rules[i].policy;
	return NULL;
}

const struct sr_policy *sr_policy_of(bool connects, const struct sockaddr_storage *addr)
{
	const struct sr_policy *opened =
		!connects && sr_addr_is_any(addr) ? opened_by(addr) : NULL;

	if (opened)
		return opened;
	for (unsigned i = 0; i < n_rules; i++)
		if (rules[i].connects == connects && sr_net_has(&rules[i].net, addr))
			return &rules[i].policy;
	return &sr_conf.policy;
}

bool sr_has_rules(void)
{
	return n_rules > 0;
}
