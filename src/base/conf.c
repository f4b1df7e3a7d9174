/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * conf.c - owns sr_conf.  include/knobs.def is the list; here are the parsers of
 * its kinds.  Runs once, before there is a second thread; no locks.
 */
#include "base/conf.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/report.h"

#define PREFIX "SOCKRAIL_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define MAX_UNKNOWN 8	/* warned about; whoever has more sees the first */

struct sr_conf sr_conf;

/* ---- parsers: 0 and *field set, or -EINVAL and *field as it was ---- */

/* A number with an optional suffix from "kmg" (units of 1024). */
static const char *parse_scaled(const char *s, size_t *out)
{
	static const char suffixes[] = "kmg";
	const char *start = s, *suffix;
	size_t n = 0;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(n, (size_t)10, &n) ||
		    __builtin_add_overflow(n, (size_t)(*s - '0'), &n))
			return NULL;
	}
	if (s == start)
		return NULL;
	suffix = *s ? strchr(suffixes, *s | 0x20) : NULL;
	if (suffix) {
		size_t unit = (size_t)1 << 10 * (suffix - suffixes + 1);

		if (__builtin_mul_overflow(n, unit, &n))
			return NULL;
		s++;
	}
	*out = n;
	return s;
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
	/* A page, and what a wire ring_ref (32 bits) can name. */
	return n >= 4096 && n <= (size_t)1 << 30 && !(n & (n - 1));
}

/* field: ring_first, and ring_max after it. */
static int parse_ring(const char *value, void *field, size_t size)
{
	size_t first, max;
	const char *s = parse_scaled(value, &first);

	_Static_assert(offsetof(struct sr_conf, ring_max) ==
			       offsetof(struct sr_conf, ring_first) +
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

static int parse_integer(const char *value, int min, int max, int *out)
{
	bool negative = *value == '-';
	long n = 0;

	value += negative;
	if (!*value)
		return -EINVAL;
	for (; *value; value++) {
		if (*value < '0' || *value > '9' || n > INT_MAX / 10)
			return -EINVAL;
		n = n * 10 + *value - '0';
	}
	if (negative)
		n = -n;
	if (n < min || n > max)
		return -EINVAL;
	*out = (int)n;
	return 0;
}

static int parse_unsigned(const char *value, int max, unsigned *out)
{
	int n;

	if (parse_integer(value, 0, max, &n))
		return -EINVAL;
	*out = (unsigned)n;
	return 0;
}

static int parse_milliseconds(const char *value, void *field, size_t size)
{
	(void)size;
	return parse_unsigned(value, 3600 * 1000, field);
}

static int parse_microseconds(const char *value, void *field, size_t size)
{
	(void)size;
	return parse_unsigned(value, 1000 * 1000, field);
}

static int parse_port_offset(const char *value, void *field, size_t size)
{
	(void)size;
	return parse_integer(value, -65535, 65535, field);
}

static int parse_flag(const char *value, void *field, size_t size)
{
	unsigned n;

	(void)size;
	if (parse_unsigned(value, 1, &n))
		return -EINVAL;
	*(bool *)field = n;
	return 0;
}

/* The index of value in a list of words ended by NULL, or -EINVAL. */
static int find_word(const char *const *words, const char *value)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], value))
			return i;
	return -EINVAL;
}

static int parse_upgrade(const char *value, void *field, size_t size)
{
	static const char *const words[] = {
		[SR_LAZY] = "lazy", [SR_EAGER] = "eager", [SR_WAIT] = "wait",
		[SR_NEVER] = "never", NULL,
	};
	int i = find_word(words, value);

	(void)size;
	if (i < 0)
		return i;
	*(enum sr_upgrade *)field = (enum sr_upgrade)i;
	return 0;
}

static int parse_level(const char *value, void *field, size_t size)
{
	static const char *const words[] = {
		[SR_ERROR] = "error", [SR_WARN] = "warn", [SR_INFO] = "info",
		[SR_DEBUG] = "debug", [SR_TRACE] = "trace", NULL,
	};
	int i = find_word(words, value);

	(void)size;
	if (i < 0)
		return i;
	*(enum sr_level *)field = (enum sr_level)i;
	return 0;
}

/* "verbs,shm" and the like; a kind is known by its first letter. */
static int parse_links(const char *value, void *field, size_t size)
{
	static const char *const kinds[] = {"verbs", "shm", NULL};
	char out[sizeof(sr_conf.links)] = "";
	size_t n = 0;

	if (!strcmp(value, "none")) {
		memset(field, 0, size);
		return 0;
	}
	for (;;) {
		size_t len = strcspn(value, ",");
		const char *const *k = kinds;

		while (*k && (strlen(*k) != len || memcmp(*k, value, len)))
			k++;
		if (!*k || strchr(out, **k))
			return -EINVAL;
		out[n++] = **k;
		if (!value[len])
			break;
		value += len + 1;
	}
	memcpy(field, out, size);
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

/* Made absolute: the program may change its directory before the file is
 * opened. */
static int parse_path(const char *value, void *field, size_t size)
{
	char path[PATH_MAX];
	size_t len;

	if (!*value || *value == '/')
		return parse_text(value, field, size);
	if (!getcwd(path, sizeof(path)))
		return -EINVAL;
	len = strlen(path);
	if (len + 1 + strlen(value) >= sizeof(path))
		return -EINVAL;
	path[len++] = '/';
	strcpy(path + len, value);
	return parse_text(path, field, size);
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
#define KNOBS (sizeof(knobs) / sizeof(knobs[0]))

static const char *const launcher_knobs[] = {
#define SR_KNOB(name, kind, field, def, text)
#define SR_LAUNCHER_KNOB(name) #name,
#include "knobs.def"
#undef SR_KNOB
};
#define LAUNCHER_KNOBS (sizeof(launcher_knobs) / sizeof(launcher_knobs[0]))

/* Knobs of both lists, by number. */
static const char *knob_name(size_t i)
{
	return i < KNOBS ? knobs[i].name : launcher_knobs[i - KNOBS];
}

/* The number of the knob named by "NAME=value", or KNOBS + LAUNCHER_KNOBS. */
static size_t find_knob(const char *var, size_t len)
{
	size_t i = 0;

	while (i < KNOBS + LAUNCHER_KNOBS &&
	       (strncmp(knob_name(i), var, len) || knob_name(i)[len]))
		i++;
	return i;
}

static void load_knob(const struct knob *k, const char *value)
{
	/* Set to nothing is not set. */
	if (value && !*value)
		value = NULL;
	/* First the default, so that a warning about the log goes somewhere. */
	k->parse(k->def, k->field, k->size);
	if (value && k->parse(value, k->field, k->size))
		sr_warn(PREFIX "%s: bad value \"%.64s\", using \"%s\"", k->name,
			value, k->def);
}

void sr_conf_load(void)
{
	const char *values[KNOBS + LAUNCHER_KNOBS] = {NULL};
	const char *unknown[MAX_UNKNOWN];
	size_t unknowns = 0;
	int err = errno;

	sr_process_begin();
	sr_conf = (struct sr_conf){
		.log = SR_WARN,
		/* A dialogue of short messages that gets this far is likely to
		 * go on; building a link costs about as much as 64 of them. */
		.upgrade_msgs = 64,
	};
	if (getauxval(AT_SECURE)) {
		sr_conf.inert = true;
		return;
	}
	sr_log_init();
	sr_report_init();
	for (char **e = environ; e && *e; e++) {
		const char *var = *e + PREFIX_LEN;
		size_t len, i;

		if (strncmp(*e, PREFIX, PREFIX_LEN))
			continue;
		len = strcspn(var, "=");
		i = find_knob(var, len);
		if (i < KNOBS + LAUNCHER_KNOBS) {
			/* As getenv: the first counts. */
			if (!values[i] && var[len])
				values[i] = var + len + 1;
		} else if (unknowns < MAX_UNKNOWN) {
			unknown[unknowns++] = *e;
		}
	}
	for (size_t i = 0; i < KNOBS; i++)
		load_knob(&knobs[i], values[i]);
	for (size_t i = 0; i < unknowns; i++)
		sr_warn("%.*s is unknown and ignored; see sockrail --help",
			(int)strcspn(unknown[i], "="), unknown[i]);
	errno = err;
}
