/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * distance.h - how far a name is from a known one, to say which was meant.
 */
#ifndef SR_DISTANCE_H
#define SR_DISTANCE_H

#include <stddef.h>

/* Insertions, deletions and replacements that make the first len characters of
 * name, of which 32 count, the name known (at most 32); case does not count. */
unsigned sr_name_distance(const char *name, size_t len, const char *known);

#endif
