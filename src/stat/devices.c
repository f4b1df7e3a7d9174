/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * devices.c - shows the counters of this host's RDMA devices that tell of trouble, live.
 */
#include "base/trouble.h"
#include "base/wrap.h"
#include "stat/stat.h"

#include <inttypes.h>
#include <string.h>

#define COUNTER_WIDTH 31	/* of the longest name */

#define INDENT 11

static struct sr_trouble_port now[SR_TROUBLE_PORTS], old[SR_TROUBLE_PORTS];

static const char *port_label(const struct sr_trouble_port *p, char buf[80])
{
	snprintf(buf, 80, "%.63s:%.7s", p->device, p->port);
	return buf;
}

static void device_row(const struct sr_trouble_port *p, size_t i, uint64_t growth,
		       const struct stat_options *o)
{
	char name[80], total[16], rate[16] = "";

	if (o->watch > 0)
		stat_amount(rate, (uint64_t)((double)growth / o->watch + 0.5));
	printf("%-15s %-*s %8s %8s  %s\n", port_label(p, name), COUNTER_WIDTH,
	       sr_troubles[i].name, stat_amount(total, p->value[i]), rate,
	       sr_trouble_kinds[sr_troubles[i].kind].word);
}

/* Returns the kinds of trouble that it has seen, a bit each. */
static unsigned device_rows(const struct sr_trouble_port *p, size_t n_old,
			    const struct stat_options *o)
{
	unsigned seen = 0, have = 0, shown = 0;
	char name[80];

	for (size_t i = 0; i < SR_TROUBLES; i++) {
		have += p->has[i];
		if (!p->has[i] || (!p->value[i] && !o->all))
			continue;
		shown++;
		device_row(p, i, sr_trouble_growth(p, old, n_old, i), o);
		if (p->value[i])
			seen |= 1u << sr_troubles[i].kind;
	}
	if (!have)
		printf("%-15s its driver counts nothing\n", port_label(p, name));
	else if (!shown)
		printf("%-15s all %u counters are 0\n", port_label(p, name), have);
	return seen;
}

static unsigned devices_print(size_t n, size_t n_old, const struct stat_options *o)
{
	unsigned seen = 0;

	if (!o->no_header)
		printf("%-15s %-*s %8s %8s  %s\n", "Device:Port", COUNTER_WIDTH, "Counter", "Total",
		       o->watch > 0 ? "Per s" : "", "Tells of");
	for (size_t i = 0; i < n; i++)
		seen |= device_rows(&now[i], n_old, o);
	return seen;
}

static void devices_advise(unsigned seen)
{
	for (int k = 0; k < SR_TROUBLE_KINDS; k++) {
		const struct sr_trouble_kind_text *kind = &sr_trouble_kinds[k];

		if (!(seen >> k & 1))
			continue;
		printf("\n%-*s", INDENT, kind->word);
		sr_wrap(kind->text, INDENT, INDENT);
		printf("%*s", INDENT, "");
		sr_wrap(kind->remedy, INDENT, INDENT);
	}
}

int stat_devices(const struct stat_options *o)
{
	size_t n_old, n = sr_trouble_read(now);
	unsigned seen;

	if (!n) {
		fputs("sockrail-stat: this host has no RDMA device\n", stderr);
		return 1;
	}
	if (o->watch <= 0) {
		seen = devices_print(n, 0, o);
		if (!o->no_header)
			devices_advise(seen);
		return fflush(stdout) || ferror(stdout) ? 1 : 0;
	}
	for (;;) {
		memcpy(old, now, sizeof(old));
		n_old = n;
		stat_pause(o->watch);
		n = sr_trouble_read(now);
		if (o->width)
			printf("\033[H\033[2J");
		devices_print(n, n_old, o);
		if (!o->width)
			printf("\n");
		if (fflush(stdout))
			return 1;
	}
}
