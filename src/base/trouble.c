/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * trouble.c - reads the counters that tell of trouble.  Not a part of the library.
 */
#include "base/trouble.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct sr_trouble_kind_text sr_trouble_kinds[SR_TROUBLE_KINDS] = {
#define SR_TROUBLE_KIND(id, word, is_fault, text, remedy) {word, is_fault, text, remedy},
#define SR_TROUBLE(id, name)
#include "trouble.def"
#undef SR_TROUBLE_KIND
#undef SR_TROUBLE
};

const struct sr_trouble sr_troubles[SR_TROUBLES] = {
#define SR_TROUBLE_KIND(id, word, is_fault, text, remedy)
#define SR_TROUBLE(id, name) {SR_TROUBLE_##id, name},
#include "trouble.def"
#undef SR_TROUBLE_KIND
#undef SR_TROUBLE
};

/* False: there is no such counter, or the device does not say. */
static bool counter_read(const char *port, const char *dir, const char *name, uint64_t *value)
{
	char path[256], text[32], *end;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/%s/%s", port, dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	text[n] = '\0';
	*value = strtoull(text, &end, 10);
	return end != text;
}

static void read_port_trouble(struct sr_trouble_port *p, const char *base)
{
	static const char *const dir[] = { "hw_counters", "counters", "../../hw_counters" };

	memset(p, 0, sizeof(*p));
	sscanf(base, "/sys/class/infiniband/%63[^/]/ports/%7s", p->device, p->port);
	for (size_t i = 0; i < SR_TROUBLES; i++)
		for (int k = 0; k < 3 && !p->has[i]; k++)
			p->has[i] = counter_read(base, dir[k], sr_troubles[i].name, &p->value[i]);
}

size_t sr_trouble_read(struct sr_trouble_port port[SR_TROUBLE_PORTS])
{
	size_t n = 0;
	glob_t all;

	if (glob("/sys/class/infiniband/*/ports/*", 0, NULL, &all))
		return 0;
	for (size_t i = 0; i < all.gl_pathc && n < SR_TROUBLE_PORTS; i++)
		read_port_trouble(&port[n++], all.gl_pathv[i]);
	globfree(&all);
	return n;
}

uint64_t sr_trouble_growth(const struct sr_trouble_port *now, const struct sr_trouble_port *before,
			   size_t n_before, size_t i)
{
	for (size_t k = 0; k < n_before; k++)
		if (!strcmp(before[k].device, now->device) && !strcmp(before[k].port, now->port) &&
		    before[k].has[i] && now->has[i] && now->value[i] > before[k].value[i])
			return now->value[i] - before[k].value[i];
	return 0;
}
