/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* distance.c - Levenshtein's distance.  Knows no knobs: the command has it too. */
#include "base/distance.h"

#include <string.h>

#define MAX_NAME 32

static int lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

unsigned sr_name_distance(const char *name, size_t len, const char *known)
{
	unsigned row[MAX_NAME + 1];
	size_t n = strnlen(known, MAX_NAME);

	if (len > MAX_NAME)
		len = MAX_NAME;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned)j;
	for (size_t i = 0; i < len; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i + 1;
		for (size_t j = 0; j < n; j++) {
			unsigned best = diagonal +
					(lower(name[i]) != lower(known[j]));

			diagonal = row[j + 1];
			if (best > row[j + 1] + 1)
				best = row[j + 1] + 1;
			if (best > row[j] + 1)
				best = row[j] + 1;
			row[j + 1] = best;
		}
	}
	return row[n];
}
