/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * trouble.h - the counters of RDMA devices that tell of trouble (trouble.def), for the tools.
 * They are read from sysfs, which needs no privilege.
 */
#ifndef SR_TROUBLE_H
#define SR_TROUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sr_trouble_kind {
#define SR_TROUBLE_KIND(id, word, is_fault, text, remedy) SR_TROUBLE_##id,
#define SR_TROUBLE(id, name)
#include "trouble.def"
#undef SR_TROUBLE_KIND
#undef SR_TROUBLE
	SR_TROUBLE_KINDS
};

struct sr_trouble_kind_text {
	const char *word;
	bool is_fault;
	const char *text, *remedy;
};
extern const struct sr_trouble_kind_text sr_trouble_kinds[SR_TROUBLE_KINDS];

struct sr_trouble {
	enum sr_trouble_kind kind;
	const char *name;
};
#define SR_TROUBLE_KIND(id, word, is_fault, text, remedy)
#define SR_TROUBLE(id, name) +1
enum {
	SR_TROUBLES = 0
#include "trouble.def"
};
#undef SR_TROUBLE_KIND
#undef SR_TROUBLE
extern const struct sr_trouble sr_troubles[SR_TROUBLES];

struct sr_trouble_port {
	char device[64], port[8];
	bool has[SR_TROUBLES];		/* the driver has this counter */
	uint64_t value[SR_TROUBLES];
};

#define SR_TROUBLE_PORTS 64
/* All ports of this host, in the order of their names.  Returns how many. */
size_t sr_trouble_read(struct sr_trouble_port port[SR_TROUBLE_PORTS]);
/* By how much a counter has grown since; 0 if the port was not there, or was made again. */
uint64_t sr_trouble_growth(const struct sr_trouble_port *now, const struct sr_trouble_port *before,
			   size_t n_before, size_t i);

#endif
