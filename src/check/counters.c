/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * counters.c - reads the counters of RDMA devices that tell of trouble before and after a
 * measurement, and says which of them have grown.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/trouble.h"
#include "check.h"

static struct sr_trouble_port before[SR_TROUBLE_PORTS], after[SR_TROUBLE_PORTS];
static size_t n_before;

void note_counters(void)
{
	n_before = sr_trouble_read(before);
}

/* Prints a line about a kind of trouble at a port, if a counter of that kind has grown. */
static bool kind_grew(const struct sr_trouble_port *p, enum sr_trouble_kind kind)
{
	const struct sr_trouble_kind_text *k = &sr_trouble_kinds[kind];
	char what[96], list[400] = "";
	uint64_t growth;
	size_t n = 0;

	for (size_t i = 0; i < SR_TROUBLES; i++) {
		if (sr_troubles[i].kind != kind ||
		    !(growth = sr_trouble_growth(p, before, n_before, i)) || n >= sizeof(list))
			continue;
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s by %" PRIu64,
				      n ? ", " : "", sr_troubles[i].name, growth);
	}
	if (!n)
		return false;
	snprintf(what, sizeof(what), "counters, %s port %s", p->device, p->port);
	say(k->is_fault ? WARNING : OK, what, "%s: %s (%s)", k->word, k->text, list);
	if (k->is_fault)
		remedy(NULL, "%s", k->remedy);
	return true;
}

void judge_counters(void)
{
	size_t n = sr_trouble_read(after);
	bool grew = false, have = false;

	for (size_t p = 0; p < n; p++) {
		for (int kind = 0; kind < SR_TROUBLE_KINDS; kind++)
			grew |= kind_grew(&after[p], (enum sr_trouble_kind)kind);
		for (size_t i = 0; i < SR_TROUBLES; i++)
			have |= after[p].has[i];
	}
	if (have && !grew)
		say(OK, "counters", "none that tells of trouble has grown during the measurement");
}
