/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unitfile.c - reads a systemd unit and its drop-ins, as systemd.unit(5) says.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "unit.h"

#define SEARCH "/etc/systemd/system:/run/systemd/system:/usr/local/lib/systemd/system:" \
	"/usr/lib/systemd/system:/lib/systemd/system"

/* ---- lines ---- */

static char *trim_spaces(char *s)
{
	size_t n;

	s += strspn(s, " \t");
	n = strlen(s);
	while (n > 0 && strchr(" \t\r\n", s[n - 1]))
		s[--n] = '\0';
	return s;
}

static void add_line(struct unit *u, char *line)
{
	char *eq = strchr(line, '=');

	if (!eq || u->n == UNIT_LINES)
		return;
	*eq = '\0';
	u->lines[u->n].name = strdup(trim_spaces(line));
	u->lines[u->n].value = strdup(trim_spaces(eq + 1));
	u->n++;
}

/* A line that ends in a backslash goes on in the next one that is no comment. */
static void read_lines(struct unit *u, FILE *f)
{
	char *line = NULL, whole[8192] = "";
	bool service = false;
	size_t size = 0, n;

	while (getline(&line, &size, f) > 0) {
		char *s = trim_spaces(line);

		if (*s == '#' || *s == ';')
			continue;
		n = strlen(s);
		if (n && s[n - 1] == '\\') {
			s[n - 1] = ' ';
			strncat(whole, s, sizeof(whole) - strlen(whole) - 1);
			continue;
		}
		strncat(whole, s, sizeof(whole) - strlen(whole) - 1);
		if (*whole == '[')
			service = !strcmp(whole, "[Service]");
		else if (service)
			add_line(u, whole);
		whole[0] = '\0';
	}
	free(line);
}

/* ---- files ---- */

static void unit_read_file(struct unit *u, const char *path)
{
	struct stat s;	/* (a FIFO would wait for a writer) */
	FILE *f = !stat(path, &s) && S_ISREG(s.st_mode) ? fopen(path, "re") : NULL;

	if (!f)
		return;
	read_lines(u, f);
	fclose(f);
}

/* The template of an instance: "a@.service" of "a@b.service".  False: it is no instance. */
static bool template_of(const char *name, char buf[256])
{
	const char *at = strchr(name, '@'), *dot = strrchr(name, '.');

	if (!at || !dot || dot <= at + 1)
		return false;
	snprintf(buf, 256, "%.*s%s", (int)(at + 1 - name), name, dot);
	return true;
}

/* Adds the files DIR/NAMEPATTERN of all directories of the path, in the path's order. */
static void unit_find_files(glob_t *files, const char *path, const char *name,
			    const char *pattern)
{
	char file[PATH_MAX];

	for (const char *p = path; *p; p += strcspn(p, ":"), p += *p == ':') {
		snprintf(file, sizeof(file), "%.*s/%s%s", (int)strcspn(p, ":"), p, name, pattern);
		glob(file, GLOB_APPEND | GLOB_NOESCAPE, NULL, files);
	}
}

static const char *base_name(const char *file)
{
	return strrchr(file, '/') + 1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(base_name(*(char *const *)a), base_name(*(char *const *)b));
}

/* Reads the drop-ins in the order of their names.  If several have one name, only the first
 * counts. */
static void read_dropins(struct unit *u, const glob_t *found)
{
	char **file = found->gl_pathv;
	size_t n = 0;

	for (size_t i = 0; i < found->gl_pathc; i++) {
		size_t k = 0;

		while (k < n && by_name(&file[k], &file[i]))
			k++;
		if (k == n)
			file[n++] = file[i];
	}
	if (n)
		qsort(file, n, sizeof(*file), by_name);
	for (size_t i = 0; i < n; i++)
		unit_read_file(u, file[i]);
}

static void load_files(struct unit *u, const char *path)
{
	char fragment[PATH_MAX], template[256] = "", prefix[256];
	glob_t fragments = { 0 }, dropins = { 0 };
	const char *real;

	unit_find_files(&fragments, path, u->name, "");
	if (template_of(u->name, template))
		unit_find_files(&fragments, path, template, "");
	if (!fragments.gl_pathc || !realpath(fragments.gl_pathv[0], fragment))
		refuse("%s: no such unit in %s", u->name, path);
	if (!strcmp(fragment, "/dev/null"))
		refuse("%s: the unit is masked", fragments.gl_pathv[0]);
	unit_read_file(u, fragment);
	real = base_name(fragment);
	unit_find_files(&dropins, path, u->name, ".d/*.conf");
	unit_find_files(&dropins, path, real, ".d/*.conf");
	if (*template)
		unit_find_files(&dropins, path, template, ".d/*.conf");
	for (const char *dash = real; (dash = strchr(dash, '-')); dash++) {
		snprintf(prefix, sizeof(prefix), "%.*s", (int)(dash + 1 - real), real);
		unit_find_files(&dropins, path, prefix, ".service.d/*.conf");
	}
	unit_find_files(&dropins, path, "service", ".d/*.conf");
	read_dropins(u, &dropins);
}

void unit_load(struct unit *u, const char *name, const char *path)
{
	const char *const cat[] = { "systemctl", "--no-pager", "cat", "--", u->name, NULL };
	static char text[256 << 10];
	FILE *f;

	if (!*name || strpbrk(name, "/*?["))
		refuse("--unit '%s': not the name of a unit", name);
	snprintf(u->name, sizeof(u->name), "%s%s", name, strrchr(name, '.') ? "" : ".service");
	if (path || access("/run/systemd/system", F_OK)) {
		load_files(u, path ? path : SEARCH);
		return;
	}
	if (run_program(text, sizeof(text), false, cat) || !*text)
		refuse("%s: no such unit (systemctl cat)", u->name);
	f = fmemopen(text, strlen(text), "r");
	if (f) {
		read_lines(u, f);
		fclose(f);
	}
}

/* ---- values ---- */

const char *unit_value(const struct unit *u, const char *name)
{
	for (unsigned i = u->n; i-- > 0;)
		if (!strcmp(u->lines[i].name, name))
			return u->lines[i].value;
	return "";
}

/* The next value of a directive that is a list; NULL: there is none left.  An empty value empties
 * the list, so the values before the last empty one do not count.  *i begins as 0. */
static const char *next_value(const struct unit *u, const char *name, unsigned *i)
{
	for (unsigned k = u->n; !*i && k > 0; k--)
		if (!strcmp(u->lines[k - 1].name, name) && !*u->lines[k - 1].value)
			*i = k;
	while (*i < u->n)
		if (!strcmp(u->lines[(*i)++].name, name))
			return u->lines[*i - 1].value;
	return NULL;
}

bool unit_yes(const struct unit *u, const char *name)
{
	const char *v = unit_value(u, name);

	return !strcasecmp(v, "yes") || !strcasecmp(v, "true") || !strcasecmp(v, "on") ||
	       !strcmp(v, "1");
}

bool unit_word(const char **list, char *word, unsigned long size)
{
	const char *s = *list + strspn(*list, " \t");
	unsigned long n = 0;
	char quote = '\0';

	if (!*s)
		return false;
	for (; *s && (quote || (*s != ' ' && *s != '\t')); s++) {
		if (quote ? *s == quote : (*s == '"' || *s == '\''))
			quote = quote ? '\0' : *s;
		else if (n + 1 < size)
			word[n++] = *s;
	}
	word[n] = '\0';
	*list = s;
	return true;
}

/* Is the word, without what follows a colon, among those of a list? */
static bool cut_is_among(const char *words, char *word)
{
	size_t len = strcspn(word, ":");

	word[len] = '\0';
	for (const char *w = words; *w; w += strcspn(w, " "), w += *w == ' ')
		if (strcspn(w, " ") == len && !strncmp(w, word, len))
			return true;
	return false;
}

bool unit_allows(const struct unit *u, const char *name, const char *words)
{
	bool set = false, allowed = true;
	char word[128];
	const char *v;

	for (unsigned i = 0; (v = next_value(u, name, &i));) {
		bool deny = *v == '~';

		if (!set)
			allowed = deny;
		set = true;
		for (v += deny; unit_word(&v, word, sizeof(word));)
			if (cut_is_among(words, word))
				allowed = !deny;
	}
	return allowed;
}

int unit_covers(const struct unit *u, const char *name, const char *path)
{
	char word[PATH_MAX], *w;
	const char *v;
	int best = -1;

	for (unsigned i = 0; (v = next_value(u, name, &i));)
		while (unit_word(&v, word, sizeof(word))) {
			w = word + strspn(word, "+-");
			if (is_below(path, w) && (int)strlen(w) > best)
				best = (int)strlen(w);
		}
	return best;
}

/* If the word is NAME=VALUE, copies the value. */
static bool take_variable(const char *word, const char *name, char value[PATH_MAX])
{
	size_t len = strlen(name);

	if (strncmp(word, name, len) != 0 || word[len] != '=')
		return false;
	snprintf(value, PATH_MAX, "%s", word + len + 1);
	return true;
}

static bool variable_in_file(const char *path, const char *name, char value[PATH_MAX])
{
	FILE *f = fopen(path + (*path == '-'), "re");
	char line[PATH_MAX], word[PATH_MAX];
	bool found = false;

	while (f && fgets(line, sizeof(line), f)) {
		const char *v = trim_spaces(line);

		if (*v != '#' && unit_word(&v, word, sizeof(word)))
			found |= take_variable(word, name, value);
	}
	if (f)
		fclose(f);
	return found;
}

/* EnvironmentFile= overrides Environment= (systemd.exec(5)). */
bool unit_variable(const struct unit *u, const char *name, char value[PATH_MAX])
{
	char word[PATH_MAX];
	bool found = false;
	const char *v;

	for (unsigned i = 0; (v = next_value(u, "Environment", &i));)
		while (unit_word(&v, word, sizeof(word)))
			found |= take_variable(word, name, value);
	for (unsigned i = 0; (v = next_value(u, "EnvironmentFile", &i));)
		found |= variable_in_file(v, name, value);
	return found;
}
