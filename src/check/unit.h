/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* unit.h - the [Service] section of a systemd unit with its drop-ins. */
#ifndef SR_CHECK_UNIT_H
#define SR_CHECK_UNIT_H

#include <limits.h>
#include <stdbool.h>

#define UNIT_LINES 1024

struct unit_line {
	char *name, *value;
};

struct unit {
	char name[256];			/* with its suffix */
	struct unit_line lines[UNIT_LINES];
	unsigned n;
};

/* path: the directories in which to look, "DIR:DIR"; NULL: asks systemctl if systemd runs, else
 * looks where systemd would.  Ends the program if there is no such unit. */
void unit_load(struct unit *u, const char *name, const char *path);
/* The last value of a directive; "" if it is not set. */
const char *unit_value(const struct unit *u, const char *name);
bool unit_yes(const struct unit *u, const char *name);
/* Does a filter such as SystemCallFilter= allow an item?  words: the item and the groups that
 * include it, separated by blanks. */
bool unit_allows(const struct unit *u, const char *name, const char *words);
/* The length of the longest path in the directive's lists that is path or a directory above it;
 * -1: there is none. */
int unit_covers(const struct unit *u, const char *name, const char *path);
/* The value of a variable that Environment= or EnvironmentFile= sets. */
bool unit_variable(const struct unit *u, const char *name, char value[PATH_MAX]);
/* The next word of a list, quotes removed; false at its end. */
bool unit_word(const char **list, char *word, unsigned long size);

#endif
