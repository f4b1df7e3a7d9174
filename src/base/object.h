/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * object.h - the objects (program and libraries) that the loader has mapped, and the names
 * that each of them defines.  It works without dlsym(3), so dlsym(3) itself can be found by it.
 */
#ifndef SR_OBJECT_H
#define SR_OBJECT_H

#include <link.h>
#include <stdbool.h>

/* A sanitizer's runtime calls dlsym(3) before its shadow memory is there, so what runs in
 * such a call is not instrumented. */
#define SR_EARLY __attribute__((no_sanitize("address"), no_sanitize("thread")))

/* The object that contains this address; NULL: none.  (The object may not be initialized yet.) */
const struct link_map *sr_object_at(const void *address);

/* Our own. */
const struct link_map *sr_object_own(void);

/* Does the loader search `first' before `second', or are they the same object? */
bool sr_object_is_before(const struct link_map *first, const struct link_map *second);

/* The address of the function or variable that the object defines by this name, in whichever
 * version comes first; NULL: it defines none. */
void *sr_object_find(const struct link_map *object, const char *name);

#endif
