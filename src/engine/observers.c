/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * observers.c - owns the words in which the rooms above leave their functions (observers.h).
 * No locks: they are written before the first stream is made, and read with one.
 */
#include "base/sys.h"

#include "engine/observers.h"

static bool no_set_is_shut(struct sr_stream *st)
{
	(void)st;
	return true;
}

static void no_set_is_told(struct sr_stream *st)
{
	(void)st;
}

static bool no_set_has(struct sr_stream *st)
{
	(void)st;
	return false;
}

static const struct sr_epoll *no_set_waits(struct sr_stream *st, bool *nested)
{
	(void)st;
	*nested = false;
	return NULL;
}

struct sr_sets_observer sr_sets = {
	.gate_shut = no_set_is_shut,
	.gate_opened = no_set_is_told,
	.retired = no_set_is_told,
	.inherited = no_set_has,
	.lent = no_set_has,
	.awaits = no_set_has,
	.domain = no_set_waits,
};

void (*sr_kicked)(struct sr_task *task);
