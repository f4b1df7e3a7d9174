/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sodium.c - loads libsodium, as late as the RDMA libraries (link/verbs/lib.c), and
 * never unloads it.  libsodium has no state that matters for fork.  Service thread only; it
 * loads under sr_locks.loading.
 */
#include "base/real.h" /* before any system header */
#include "base/sodium.h"

#include <stdbool.h>

#include "base/apart.h"
#include "base/library.h"
#include "base/log.h"

static const char *sodium_load(struct sr_sodium *s)
{
	SR_APART static char none[256];
	void *lib = sr_library_open(&sr_library_sodium, sr_real.dlopen, none, sizeof(none));

	if (!lib)
		return none;
#define RESOLVE(result, member, name, parameters)                                          \
	*(void **)&s->member = sr_next_dlsym()(lib, #name);                                \
	if (!s->member)                                                                    \
		return "libsodium has no " #name;
	SR_SODIUM_CALLS(RESOLVE)
#undef RESOLVE
	if (s->hash_size() != sizeof(struct sr_sha512) || s->init() < 0)
		return "libsodium is not as expected";
	return NULL;
}

const struct sr_sodium *sr_sodium(void)
{
	static struct sr_sodium sodium;
	static bool tried, loaded;
	const char *why;

	if (!tried) {
		sr_lock(&sr_locks.loading);
		tried = true;
		why = sodium_load(&sodium);
		loaded = !why;
		sr_unlock(&sr_locks.loading);
		if (why)
			sr_inform("verbs: %s", why);
	}
	return loaded ? &sodium : NULL;
}
