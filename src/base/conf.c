/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * conf.c - owns sr_conf.  include/knobs.def lists the knobs; this file has a parser
 * for each kind.  Runs once, before there is a second thread; no locks.
 */
#include "base/sys.h" /* before any system header */
#include "base/conf.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/append.h"
#include "base/log.h"
#include "base/process.h"
#include "base/report.h"
#include "base/settings.h"

#define PREFIX "SOCKRAIL_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

SR_APART struct sr_conf sr_conf;

/* ---- parsers: 0 and *field set, or -EINVAL and *field as it was ---- */

/* A number with an optional suffix from "kmg" (units of 1024). */
static const char *parse_scaled(const char *s, size_t *out)
{
	static const char suffixes[] = "kmg";
	const char *suffix;
	char *end;
	size_t n;

	if (*s < '0' || *s > '9')	/* strtoul() takes a space or a sign, too */
		return NULL;
	errno = 0;
	n = strtoul(s, &end, 10);
	if (errno)
		return NULL;
	suffix = *end ? strchr(suffixes, *end | 0x20) : NULL;
	if (suffix && __builtin_mul_overflow(n, (size_t)1 << 10 * (suffix - suffixes + 1), &n))
		return NULL;
	*out = n;
	return end + (suffix != NULL);
}

static int parse_size(const char *value, void *field, size_t size)
{
	size_t n;
	const char *end = parse_scaled(value, &n);

	(void)size;
	if (!end || *end)
		return -EINVAL;
	*(size_t *)field = n;
	return 0;
}

static bool ring_size_valid(size_t n)
{
	/* A page, and what struct sr_ring_ref (32 bits) can name. */
	return n >= 4096 && n <= (size_t)1 << 30 && !(n & (n - 1));
}

/* field: ring_first, and ring_max after it. */
static int parse_ring(const char *value, void *field, size_t size)
{
	size_t first, max;
	const char *s = parse_scaled(value, &first);

	_Static_assert(offsetof(struct sr_policy, ring_max) ==
			       offsetof(struct sr_policy, ring_first) +
				       sizeof(size_t),
		       "ring_max follows ring_first");
	(void)size;
	if (!s || *s != ':')
		return -EINVAL;
	s = parse_scaled(s + 1, &max);
	if (!s || *s || !ring_size_valid(first) || !ring_size_valid(max) ||
	    first > max)
		return -EINVAL;
	((size_t *)field)[0] = first;
	((size_t *)field)[1] = max;
	return 0;
}

/* field: an int, or an unsigned where min is not below 0. */
static int parse_integer(const char *value, int min, int max, void *field)
{
	char *end;
	long n = strtol(value, &end, 10);

	if (end == value || *end || n < min || n > max)
		return -EINVAL;
	*(int *)field = (int)n;
	return 0;
}

#define PARSE_INTEGER(kind, min, max) \
	static int parse_##kind(const char *value, void *field, size_t size) \
	{ \
		(void)size; \
		return parse_integer(value, min, max, field); \
	}
PARSE_INTEGER(milliseconds, 0, 3600 * 1000)
/* At least some ticks of the service thread, which looks for answers (link/verbs/tick.c). */
PARSE_INTEGER(retry, 200, 60 * 1000)
PARSE_INTEGER(microseconds, 0, 1000 * 1000)
PARSE_INTEGER(port_offset, -65535, 65535)
PARSE_INTEGER(tos, 0, 255)
PARSE_INTEGER(carriers, 0, 64)

static int parse_flag(const char *value, void *field, size_t size)
{
	int n;

	(void)size;
	if (parse_integer(value, 0, 1, &n))
		return -EINVAL;
	*(bool *)field = n;
	return 0;
}

/* field: an enum, or an unsigned: the index of value in a list of words ended by NULL. */
static int parse_word(const char *const *words, const char *value, void *field)
{
	for (unsigned i = 0; words[i]; i++) {
		if (strcmp(words[i], value) != 0)
			continue;
		*(unsigned *)field = i;
		return 0;
	}
	return -EINVAL;
}

static int parse_upgrade(const char *value, void *field, size_t size)
{
	static const char *const words[] = {
		[SR_LAZY] = "lazy", [SR_EAGER] = "eager", [SR_WAIT] = "wait",
		[SR_NEVER] = "never", NULL,
	};

	(void)size;
	return parse_word(words, value, field);
}

static int parse_level(const char *value, void *field, size_t size)
{
	(void)size;
	return parse_word(sr_level_words, value, field);
}

/* The field has the first letter of each kind. */
static int parse_links(const char *value, void *field, size_t size)
{
	static const char *const words[] = {
		"verbs,shm", "shm,verbs", "verbs", "shm", "none", NULL,
	};
	static const char *const letters[] = { "vs", "sv", "v", "s", "" };
	unsigned i;

	if (parse_word(words, value, &i))
		return -EINVAL;
	strncpy(field, letters[i], size);
	return 0;
}

static int parse_text(const char *value, void *field, size_t size)
{
	size_t len = strlen(value);

	if (len >= size)
		return -EINVAL;
	memcpy(field, value, len + 1);
	return 0;
}

/* Made absolute: the program may change its directory before the file is opened. */
static int parse_path(const char *value, void *field, size_t size)
{
	char dir[PATH_MAX] = "";

	if (*value && *value != '/' && (sr_sys_getcwd(dir, sizeof(dir)) < 0 || *dir != '/'))
		return -EINVAL;
	if (strlen(dir) + 1 + strlen(value) >= size)
		return -EINVAL;
	sr_format(field, size, "%s%s%s", dir, *dir ? "/" : "", value);
	return 0;
}

/* A path, or the name of a profile that is installed. */
static int parse_profile(const char *value, void *field, size_t size)
{
	if (!*value || strchr(value, '/'))
		return parse_path(value, field, size);
	if (strlen(PROFILE_DIR "/.conf") + strlen(value) >= size)
		return -EINVAL;
	sr_format(field, size, PROFILE_DIR "/%s.conf", value);
	return 0;
}

/* ---- the table ---- */

struct knob {
	const char *name, *def;
	int (*parse)(const char *value, void *field, size_t size);
	void *field;
	size_t size;
};

static const struct knob knobs[] = {
#define SR_KNOB(name, kind, field, def, text) \
	{#name, def, parse_##kind, &sr_conf.field, sizeof(sr_conf.field)},
#include "knobs.def"
#undef SR_KNOB
};

SR_APART static bool is_set[sizeof(knobs) / sizeof(knobs[0])];

#define for_each_knob(k) \
	for (const struct knob *k = knobs; k < knobs + sizeof(knobs) / sizeof(knobs[0]); k++)

static const struct knob *knob_find(const char *name)
{
	for_each_knob(k)
		if (!strcasecmp(k->name, name))
			return k;
	return NULL;
}

/* The names given with -s, if this is sockrail --show-config. */
static const char *shown;

void sr_conf_show(const char *setting, const char *origin)
{
	char line[512];
	int len;

	if (!shown)
		return;
	len = sr_format(line, sizeof(line), "%-32s  %s\n", setting, origin);
	if (len < (int)sizeof(line))
		sr_append_write(STDOUT_FILENO, line, (size_t)len);
}

static void show_knob(const struct knob *k, const char *value, const char *origin)
{
	char setting[400];

	sr_format(setting, sizeof(setting), "%s=%s", k->name, value);
	sr_conf_show(setting, origin);
}

int sr_conf_set(const char *name, const char *value, struct sr_policy *policy)
{
	const struct knob *k = knob_find(name);
	size_t at = k ? (size_t)((char *)k->field - (char *)&sr_conf.policy) : 0;

	if (!k)
		return -ENOENT;
	if (at >= sizeof(*policy))
		return -EPERM;
	return k->parse(value, (char *)policy + at, k->size);
}

int sr_conf_set_first(const char *name, const char *value, const char *origin)
{
	const struct knob *k = knob_find(name);
	int r;

	if (!k)
		return -ENOENT;
	if (is_set[k - knobs])
		return 0;
	r = k->parse(value, k->field, k->size);
	if (r)
		return r;
	is_set[k - knobs] = true;
	show_knob(k, value, origin);
	return 0;
}

bool sr_conf_is_set(const char *name)
{
	return is_set[knob_find(name) - knobs];
}

/* Is name in the list of names with spaces between them? */
static bool name_is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (; (list = strcasestr(list, name)); list += len)
		if (!list[len] || list[len] == ' ')
			return true;
	return false;
}

/* A variable that is empty counts as not set. */
static void load_knob(const struct knob *k)
{
	char name[64];
	const char *value;

	sr_format(name, sizeof(name), PREFIX "%s", k->name);
	value = getenv(name);
	if (!value || !*value)
		return;
	is_set[k - knobs] = true;	/* even if the value is bad: no file sets the knob then */
	if (k->parse(value, k->field, k->size))
		sr_warn("%s: bad value \"%.64s\", using \"%s\"", name, value, k->def);
	else
		show_knob(k, value, shown && name_is_listed(shown, k->name) ? "command line" :
								     "environment");
}

/* Knobs that only the launcher reads are known, too. */
static bool is_knob_known(const char *name, size_t len)
{
	static const char *const names[] = {
#define SR_KNOB(name, kind, field, def, text) #name,
#define SR_LAUNCHER_KNOB(name) #name,
#include "knobs.def"
#undef SR_KNOB
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(names[i], name, len) && !names[i][len])
			return true;
	return false;
}

static void load_environment(void)
{
	for_each_knob(k)
		load_knob(k);
	for (char **e = environ; e && *e; e++) {
		size_t len = strcspn(*e, "=");

		if (!strncmp(*e, PREFIX, PREFIX_LEN) &&
		    !is_knob_known(*e + PREFIX_LEN, len - PREFIX_LEN))
			sr_warn("%.*s is unknown and ignored; see sockrail --help",
				(int)len, *e);
	}
}

void sr_conf_load(void)
{
	int err = errno;

	sr_process_begin();
	sr_conf = (struct sr_conf){ .log = SR_WARN };
	if (getauxval(AT_SECURE)) {
		sr_conf.inert = true;
		return;
	}
	sr_log_init();
	sr_report_init();
	shown = getenv(PREFIX "SHOW_CONFIG");
	for_each_knob(k) {
		is_set[k - knobs] = false;
		k->parse(k->def, k->field, k->size);
	}
	load_environment();
	sr_settings_load();
	sr_conf.never = sr_conf.policy.upgrade == SR_NEVER && !sr_has_rules();
	errno = err;
}
