/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * init.c - starts the engine in a process.
 */
#include "shim/shim.h"

#include <gnu/libc-version.h>
#include <stdatomic.h>
#include <string.h>

#include "base/gather.h"
#include "base/log.h"
#include "base/order.h"
#include "engine/engine.h"
#include "service/service.h"

enum { NEW, LOADING, LOADED };
static atomic_int state;
static _Atomic uint64_t early;	/* signals */

/*
 * A sanitizer installs its signal handlers while it initializes itself, before any
 * constructor.  At that time we must not call functions that the sanitizer intercepts
 * (strncpy).  So to install a handler does not start the library; handlers that are
 * installed before it starts are taken over when it does.
 */
bool sr_shim_takes_handlers(int sig)
{
	if (sr_observe(&state) == LOADED) /* pairs with the store in sr_shim_ready() */
		return sr_shim_ready();
	if (sig > 0 && sig < _NSIG)
		atomic_fetch_or_explicit(&early, 1ull << (sig - 1), memory_order_relaxed);
	return false;
}

static void take_handlers(void)
{
	uint64_t sigs = atomic_exchange_explicit(&early, 0, memory_order_relaxed);
	struct sigaction sa;

	for (int sig = 1; sigs; sig++, sigs >>= 1)
		if ((sigs & 1) && !sr_real.sigaction(sig, NULL, &sa))
			sr_signal_action(sig, &sa, NULL);
}

bool sr_shim_ready(void)
{
	int old = NEW;

	if (sr_observe(&state) != LOADED) { /* pairs with the store below */
		if (!sr_replace(&state, &old, LOADING))	/* pairs with the publish below */
			return false;
		sr_service_begin();
		sr_conf_load();
		sr_stat_notes = sr_conf.report[0];
		sr_publish(&state, LOADED); /* pairs with both sr_observe(&state) */
		if (sr_shim_ready())
			take_handlers();
	}
	return !sr_conf.inert &&
	       (!sr_conf.never || sr_conf.report[0]);
}

/* A younger C library may have calls that go around us (sockrail(7), Limits). */
static void newer_libc_say(void)
{
	const char *version = gnu_get_libc_version();

	if (strverscmp(version, SR_CALLS_GLIBC) > 0)
		sr_inform("glibc %s is newer than " SR_CALLS_GLIBC ", up to which its calls are known",
			  version);
}

__attribute__((constructor)) static void shim_begin(void)
{
	if (!sr_shim_ready())
		return;
	if (sr_conf.log >= SR_INFO)
		newer_libc_say();
	if (!sr_conf.never)
		sr_fd_reserve();
	if (sr_conf.report[0])
		sr_gather_open(false);
}
