/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * init.c - starts the engine in a process.
 */
#include "shim/shim.h"

#include <stdatomic.h>

#include "base/order.h"
#include "engine/engine.h"

enum { NEW, LOADING, LOADED };
static atomic_int state;

bool sr_shim_ready(void)
{
	int old = NEW;

	if (sr_observe(&state) != LOADED) {
		if (!atomic_compare_exchange_strong(&state, &old, LOADING))
			return false;
		sr_conf_load();
		sr_stat_notes = sr_conf.report[0];
		atomic_store(&state, LOADED);
	}
	return !sr_conf.inert &&
	       (!sr_conf.never || sr_conf.report[0]);
}

__attribute__((constructor)) static void begin(void)
{
	if (sr_shim_ready() && !sr_conf.never)
		sr_fd_reserve();
}
